//! Quantized chunks back to elements.

mod batch;

use std::ops::Range;

use self::batch::{Batch, BatchMemory, Interpolator, PlacedTile};
use super::quantize_tile::Quantizer;
use super::{bitmap_strips, strips_of_tile};
use crate::bound::Pipeline;
use crate::container::{Header, INTERPOLATED, Sections, SparseList, TileInfo, TileSection, read_bases};
use crate::error::Result;
use crate::geometry::{MAX_TILE_ELEMENTS, Tile};
use crate::pipeline::context::Context;
use crate::pipeline::destination::Tiles;
use crate::pipeline::elements::Elements;
use crate::pipeline::scratch::DecodeScratch;
use crate::predict::interpolate::{Interpolation, Scheme};
use crate::predict::orders;
use crate::quantize::Real;
use crate::quantize::fill::restore_fill;
use crate::quantize::log::restore_signs;
use crate::quantize::mask::{MaskKind, TileMask};
use crate::quantize::value_range::ValueRange;
use crate::strips::CodeStream;

/// Decodes the tiles that `sink` needs from the payload of a quantized chunk.
///
/// # Errors
/// Damage, or the sink's.
pub(in super::super) fn decode<T: Real, K: Tiles + ?Sized>(
    context: &Context,
    payload: &[u8],
    scratch: &mut DecodeScratch,
    sink: &mut K,
) -> Result<()> {
    let chunk = Chunk::<T>::parse(context, payload)?;
    let quantizer = Quantizer::<T>::new(context.header);
    let interpolator = chunk.interpolator(&quantizer);
    let memory = BatchMemory::take(&mut scratch.batch, context.geometry.axes());
    let mut batch = Batch::<T>::new(context.geometry.unclipped_len() as usize, interpolator, memory);
    let mut elements = Elements::new(context.header);
    let mut q = [0i32; MAX_TILE_ELEMENTS];
    let (mut position, mut strip) = (0, 0);
    for (number, (tile, info)) in chunk.tiles().enumerate() {
        let first_of_codes = strip + info.bitmaps() * bitmap_strips(&tile);
        if sink.needs(&tile) {
            let base = chunk.bases[number] as i32;
            let interpolated = info.predictor == INTERPOLATED;
            if !batch.has_room(&tile, interpolated) {
                chunk.finish(&mut batch, &mut elements, sink)?;
            }
            let placed = PlacedTile { tile, number, position, strip };
            if interpolated {
                let lane = batch.add_interpolated(placed, base);
                let (codes, lane) = lane.ok_or_else(|| context.corrupt("a tile is interpolated without a scheme"))?;
                chunk.codes.read(first_of_codes, usize::from(info.class), codes, lane)?;
            } else {
                let q = &mut q[..tile.len()];
                if info.constant {
                    q.fill(base);
                } else {
                    q.fill(0);
                    chunk.codes.read(first_of_codes, usize::from(info.class), q.as_chunks_mut::<1>().0, 0)?;
                    orders::restore(q, tile.extent, chunk.predictors[usize::from(info.predictor)], base);
                }
                let x = batch.add(placed);
                match &quantizer {
                    Quantizer::Linear(linear) => linear.dequantize(q, x),
                    Quantizer::Logarithm(logarithm) => {
                        logarithm.dequantize(q, x);
                        let before = if info.mask == MaskKind::Bitmap { bitmap_strips(&tile) } else { 0 };
                        restore_signs(x, info.sign, &chunk.bitmap(info.sign, strip + before, &tile)?);
                    }
                }
            }
            if !batch.waits() {
                chunk.finish(&mut batch, &mut elements, sink)?;
            }
        }
        position += tile.len() as u32;
        strip += strips_of_tile(&tile, info);
    }
    chunk.finish(&mut batch, &mut elements, sink)?;
    scratch.batch.keep(batch.into_memory());
    Ok(())
}

/// Returns the bytes of the section of codes, in ascending order, that have the codewords of the tiles that are needed,
/// from the payload of a quantized chunk, whose codewords are not read.
///
/// # Errors
/// Damage.
pub(in super::super) fn bytes_of_tiles<T: Real>(
    context: &Context,
    payload: &[u8],
    needs: &dyn Fn(&Tile) -> bool,
) -> Result<Vec<Range<usize>>> {
    let chunk = Chunk::<T>::parse(context, payload)?;
    let (mut strip, mut ranges) = (0, Vec::new());
    for (tile, info) in chunk.tiles() {
        let strips = strip..strip + strips_of_tile(&tile, info);
        strip = strips.end;
        if needs(&tile) {
            ranges.push(chunk.codes.bytes_of(strips));
        }
    }
    ranges.retain(|range| !range.is_empty());
    Ok(ranges)
}

/// The sections of a chunk, read and checked.
struct Chunk<'a, T> {
    context: &'a Context<'a>,
    scheme: Option<Scheme>,
    predictors: [u8; 3],
    infos: Vec<TileInfo>,
    bases: Vec<u32>,
    codes: CodeStream<'a>,
    verbatim: SparseList<'a>,
    range: Option<ValueRange<T>>,
    /// The values of fill patterns.
    patterns: Vec<u64>,
}

impl<'a, T: Real> Chunk<'a, T> {
    fn parse(context: &'a Context<'a>, payload: &'a [u8]) -> Result<Self> {
        let (header, place) = (context.header, context.place.as_str());
        let [tiles, bases, verbatim, _checksums, codes, rest @ ..] = Sections::parse(payload, place)?.0;
        if rest.iter().any(|section| !section.is_empty()) {
            return Err(context.corrupt("it has more sections than a quantized chunk"));
        }
        let section = TileSection::parse(tiles, context.tile_count(), header.patterns.len(), place)?;
        let scheme = read_scheme(&section, header, context)?;
        let elements = context.geometry.chunk_elements(context.chunk);
        let verbatim = SparseList::parse(verbatim, header.element_type.size(), elements, place)?;
        let codebooks = section.codebooks();
        let infos = section.tiles;
        let bases = read_bases(bases, infos.len(), place)?;
        let tiles = context.geometry.chunk(context.chunk).zip(&infos);
        let strips = tiles.map(|(tile, info)| strips_of_tile(&tile, info)).sum();
        let codes = CodeStream::parse(codes, strips, codebooks, place)?;
        let range = header.range.map(ValueRange::<T>::new);
        let predictors = section.predictors;
        let patterns = header.stored::<T>().values_of(&header.patterns);
        Ok(Self { context, scheme, predictors, infos, bases, codes, verbatim, range, patterns })
    }

    fn tiles(&self) -> impl Iterator<Item = (Tile, &TileInfo)> {
        self.context.geometry.chunk(self.context.chunk).zip(&self.infos)
    }

    fn interpolator(&self, quantizer: &Quantizer<T>) -> Option<Interpolator<T>> {
        match (quantizer, self.scheme) {
            (Quantizer::Linear(linear), Some(scheme)) => {
                let header = self.context.header;
                let interpolation = Interpolation::new(header.step, header.abs_bound);
                Some(Interpolator { interpolation, linear: *linear, scheme })
            }
            _ => None,
        }
    }

    /// Returns the bitmap of this kind of a tile. Its strips, if it has any, begin with number `strip`.
    fn bitmap(&self, kind: MaskKind, strip: usize, tile: &Tile) -> Result<TileMask> {
        match kind {
            MaskKind::Nothing => Ok(TileMask::default()),
            MaskKind::All => Ok(TileMask::full(tile.len())),
            MaskKind::Bitmap => self.codes.read_bitmap(strip, tile.extent),
        }
    }

    /// Gives the sink the tiles of a batch.
    fn finish<K: Tiles + ?Sized>(&self, batch: &mut Batch<T>, elements: &mut Elements<T>, sink: &mut K) -> Result<()> {
        batch.finish(|PlacedTile { tile, number, position, strip }, x| {
            let info = &self.infos[*number];
            if let Some(range) = &self.range {
                range.clamp(x);
            }
            if info.mask != MaskKind::Nothing {
                let mask = self.bitmap(info.mask, *strip, tile)?;
                restore_fill(x, &mask, self.patterns[usize::from(info.pattern)]);
            }
            self.verbatim.restore(x, *position, &elements.stored);
            sink.skip_to(tile);
            elements.put(x, sink)
        })
    }
}

/// Returns the interpolation scheme of a chunk, after checking its predictors, those of its tiles, and that only
/// magnitudes have signs beside them.
fn read_scheme(section: &TileSection, header: &Header, context: &Context) -> Result<Option<Scheme>> {
    let scheme = Scheme::from_code(section.scheme, context.geometry.axes());
    let interpolates = section.tiles.iter().any(|tile| tile.predictor == INTERPOLATED);
    let is_known = section.scheme == 0 || (scheme.is_some() && header.pipeline == Pipeline::Quantized);
    let is_listed = section.predictors.iter().all(|&predictor| predictor <= orders::SECOND_ORDER);
    let has_signs = section.tiles.iter().any(|tile| tile.sign != MaskKind::Nothing);
    let may_have_signs = header.pipeline == Pipeline::LogQuantized || !has_signs;
    match is_known && is_listed && may_have_signs && (scheme.is_some() || !interpolates) {
        true => Ok(scheme),
        false => Err(context.corrupt("unknown predictor or scheme, or signs of values that have their own")),
    }
}
