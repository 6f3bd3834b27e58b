//! Quantized chunks: mask, quantize, predict, entropy-code; and back.

pub(super) mod buffers;
mod decode;
mod kept_tiles;
mod quantize_tile;
mod reserved;
mod sample;
mod tile_coder;

pub(super) use decode::{bytes_of_tiles, decode};
#[doc(hidden)]
pub use reserved::reserved_patterns;
#[doc(hidden)]
pub use sample::{CHOOSING_STEP, COUNTED_STEP, FEWEST_CHOOSING, FEWEST_COUNTED};

use self::buffers::EncodeBuffers;
use self::kept_tiles::KeptTiles;
use self::sample::{Choice, Codebooks, SampleCounts, choose, is_counted};
use self::tile_coder::{Prediction, TileCoder, TileMemory};
use super::context::ElementSource;
use super::options::CoderOptions;
use super::scratch::EncodeScratch;
use crate::bound::ErrorSummary;
use crate::container::{
    ChunkKind, Header, INTERPOLATED, RecordBuilder, SectionWriter, TileInfo, TileSection, write_bases, write_sparse,
};
use crate::error::Result;
use crate::geometry::{Geometry, Tile};
use crate::huffman::codebook::Codebook;
use crate::predict::interpolate::Scheme;
use crate::quantize::Real;
use crate::quantize::mask::TileMask;
use crate::strips::{Encoder, strips_of};

/// Returns the number of strips of a bitmap of a tile.
fn bitmap_strips(tile: &Tile) -> usize {
    strips_of(TileMask::codes_of(tile.len()))
}

/// Returns the number of strips of a tile: those of its bitmaps, and of its codes.
pub(super) fn strips_of_tile(tile: &Tile, info: &TileInfo) -> usize {
    let of_codes = if info.constant { 0 } else { strips_of(tile.len()) };
    info.bitmaps() * bitmap_strips(tile) + of_codes
}

/// Appends the record of a quantized chunk. Returns `None` if it has elements that no value stands for.
pub(super) fn encode<T: Real>(
    header: &Header,
    geometry: &Geometry,
    chunk: u64,
    source: &dyn ElementSource,
    options: &CoderOptions,
    scratch: &mut EncodeScratch,
    out: &mut Vec<u8>,
) -> Result<Option<ErrorSummary>> {
    let EncodeScratch { tiles, window, quantized: buffers, .. } = scratch;
    let memory = TileMemory::take(&mut buffers.tiles, geometry.axes());
    let mut lengths = std::mem::take(&mut buffers.lengths);
    let mut coder = TileCoder::<T>::new(header, geometry, options, memory);
    let choice = choose(&mut coder, geometry, source, (tiles, window))?;
    buffers.clear();
    let counts = count_sample(&mut coder, geometry, source, (tiles, window), &choice, &mut buffers.kept)?;
    let codebooks = counts.codebooks(tiles.len(), &mut lengths);
    encode_with(&mut coder, geometry, source, (tiles, window), &choice, (&codebooks, buffers))?;
    write_sections(chunk, &choice, &codebooks, buffers, out);
    let summary = (!coder.elements.any_lost).then_some(coder.quantizer.summary);
    buffers.tiles.keep(coder.into_memory());
    buffers.lengths = lengths;
    Ok(summary)
}

/// Codes a sample of the tiles of a chunk, and counts their symbols.
fn count_sample<T: Real>(
    coder: &mut TileCoder<T>,
    geometry: &Geometry,
    source: &dyn ElementSource,
    (tiles, bytes): (&[Tile], &mut Vec<u8>),
    choice: &Choice,
    kept: &mut KeptTiles,
) -> Result<Box<SampleCounts>> {
    let first = tiles.first().map_or(0, |tile| tile.number);
    let wanted = |tile: &Tile| is_counted((tile.number - first) as usize, tiles.len());
    let mut counts = Box::<SampleCounts>::default();
    coder.for_coded(geometry, source, (tiles, bytes), (wanted, choice), |coder, lane, tile, prediction| {
        let class = choice.class(prediction.cost);
        let facts = coder.facts(lane, tile, prediction, choice.scheme);
        let prepared = &coder.prepared[lane];
        counts.add(prepared, tile.extent, prediction, class);
        kept.push(prepared, tile, prediction, (facts, class), &coder.elements.stored);
    })?;
    Ok(counts)
}

/// Encodes the tiles of a chunk with codebooks. Those of the sample are coded already.
fn encode_with<T: Real>(
    coder: &mut TileCoder<T>,
    geometry: &Geometry,
    source: &dyn ElementSource,
    (tiles, bytes): (&[Tile], &mut Vec<u8>),
    choice: &Choice,
    (codebooks, buffers): (&Codebooks, &mut EncodeBuffers),
) -> Result<()> {
    let encoders = Encoders::new(codebooks);
    let first = tiles.first().map_or(0, |tile| tile.number);
    let wanted = |tile: &Tile| !is_counted((tile.number - first) as usize, tiles.len());
    let kept = std::mem::take(&mut buffers.kept);
    let mut rest = kept.cursor();
    let mut position = 0;
    coder.for_coded(geometry, source, (tiles, bytes), (wanted, choice), |coder, lane, tile, prediction| {
        rest.write_before(tile.number, &mut position, &encoders, buffers);
        let class = if encoders.has_classes() { choice.class(prediction.cost) } else { 0 };
        let facts = coder.facts(lane, tile, prediction, choice.scheme);
        let prepared = &coder.prepared[lane];
        prepared.for_strips(tile.extent, prediction, |strip, is_bitmap| {
            buffers.codes.push(strip, encoders.of(class, is_bitmap));
        });
        if let Some(exact) = &facts.exact {
            buffers.push_verbatim(position, &prepared.x, exact, &coder.elements.stored);
        }
        buffers.push_facts(facts.info, class, facts.base);
        position += tile.len() as u32;
    })?;
    rest.write_before(u64::MAX, &mut position, &encoders, buffers);
    buffers.kept = kept;
    Ok(())
}

/// The codebooks of a chunk, for encoding.
struct Encoders {
    of_codes: Vec<Encoder>,
    of_bitmaps: Encoder,
}

impl Encoders {
    fn new(codebooks: &Codebooks) -> Self {
        let of_codes = codebooks.of_codes.iter().map(Encoder::new).collect();
        Self { of_codes, of_bitmaps: Encoder::new(&codebooks.of_bitmaps) }
    }

    fn has_classes(&self) -> bool {
        self.of_codes.len() > 1
    }

    /// Returns the codebook of a strip: that of its class, or that of bitmaps.
    fn of(&self, class: usize, is_bitmap: bool) -> &Encoder {
        if is_bitmap { &self.of_bitmaps } else { &self.of_codes[class] }
    }
}

impl<T: Real> TileCoder<T> {
    /// Calls `take` with each wanted tile of a chunk after coding it by the choice, and with its lane.
    fn for_coded(
        &mut self,
        geometry: &Geometry,
        source: &dyn ElementSource,
        (tiles, bytes): (&[Tile], &mut Vec<u8>),
        (wanted, choice): (impl Fn(&Tile) -> bool, &Choice),
        mut take: impl FnMut(&mut Self, usize, &Tile, Prediction),
    ) -> Result<()> {
        let selected = (wanted, choice.scheme.is_some());
        self.for_batches(geometry, source, (tiles, bytes), selected, |coder, batch| {
            coder.quantize(batch);
            let predictions = coder.predict(batch, &choice.predictors, choice.scheme);
            for (lane, (tile, prediction)) in batch.iter().zip(predictions).enumerate() {
                take(coder, lane, tile, prediction);
            }
        })
    }

    /// Returns what a tile that was coded has beside its codes, and measures its errors if the bound needs them.
    fn facts(&mut self, lane: usize, tile: &Tile, prediction: Prediction, scheme: Option<Scheme>) -> TileFacts {
        let scheme = scheme.filter(|_| prediction.listed.is_none());
        let exact = match scheme {
            Some(scheme) => self.interpolated_exact(scheme, tile.extent, lane),
            None => self.prepared[lane].quantized.any_excluded.then(|| self.prepared[lane].quantized.exact),
        };
        let prepared = &self.prepared[lane];
        let quantized = &prepared.quantized;
        let x = &prepared.x[..tile.len()];
        if self.quantizer.measures {
            if scheme.is_some() {
                let not_coded = if quantized.any_excluded { quantized.not_coded() } else { TileMask::default() };
                let values = self.interpolated.values[..tile.len()].iter().map(|values| values[lane]);
                self.quantizer.measure_values(
                    x,
                    &mut values.collect::<Vec<T>>(),
                    &not_coded.union(&exact.unwrap_or_default()),
                );
            } else {
                let excluded = if quantized.any_excluded { quantized.excluded } else { TileMask::default() };
                self.quantizer.measure(x, &prepared.q[..tile.len()], &excluded);
            }
        }
        let mut info = quantized.info;
        info.constant = prediction.is_constant;
        if !info.constant {
            info.predictor = prediction.listed.map_or(INTERPOLATED, |place| place as u8);
        }
        TileFacts { info, base: (!quantized.is_empty).then_some(prepared.q[0] as u32), exact }
    }
}

/// What a tile has beside its codes.
struct TileFacts {
    /// Its properties, but for the class.
    info: TileInfo,
    /// Its base, unless no element is quantized.
    base: Option<u32>,
    /// The elements that are verbatim, if there are any.
    exact: Option<TileMask>,
}

/// Appends the record of the tiles in the buffers.
fn write_sections(chunk: u64, choice: &Choice, codebooks: &Codebooks, buffers: &mut EncodeBuffers, out: &mut Vec<u8>) {
    let record = RecordBuilder::begin(out, ChunkKind::Quantized, chunk);
    let mut sections = SectionWriter::begin(out);
    let first = choice.predictors.first().copied().unwrap_or(0);
    let tile_section = TileSection {
        scheme: choice.scheme.map_or(0, |scheme| scheme.code()),
        predictors: std::array::from_fn(|place| choice.predictors.get(place).copied().unwrap_or(first)),
        classes: codebooks.of_codes.len() > 1,
        tiles: std::mem::take(&mut buffers.infos),
    };
    sections.section(out, |out| tile_section.write(out));
    let of_bitmaps = tile_section.has_bitmaps().then_some(&codebooks.of_bitmaps);
    buffers.infos = tile_section.tiles;
    sections.section(out, |out| write_bases(out, &buffers.bases));
    sections.section(out, |out| write_sparse(out, &buffers.verbatim, &buffers.verbatim_bytes));
    // The builder of the record puts the checksums of its pieces here.
    sections.skip();
    let written: Vec<&Codebook> = codebooks.of_codes.iter().chain(of_bitmaps).collect();
    sections.section(out, |out| buffers.codes.write(&written, out));
    record.finish(out);
}
