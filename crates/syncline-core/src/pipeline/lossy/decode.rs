//! Quantized chunks back to elements.

mod batch;

use self::batch::{Batch, BatchMemory, Interpolator, PlacedTile};
use super::quantize_tile::Quantizer;
use crate::bound::Pipeline;
use crate::container::{ChunkKind, Header, Sections, SparseList, TileSection, read_bases};
use crate::error::Result;
use crate::geometry::{MAX_SMALL_TILE_ELEMENTS, MAX_TILE_ELEMENTS, Tile, TileSize};
use crate::huffman::{self, IndexKind, Stream};
use crate::mem::prefetch::PrefetchTargets;
use crate::pipeline::codes::CodeReader;
use crate::pipeline::context::Context;
use crate::pipeline::destination::Tiles;
use crate::pipeline::lzss::{BLOCKS, BlockReader, LITERALS};
use crate::pipeline::scratch::DecodeScratch;
use crate::predict::Outlier;
use crate::predict::codes::{NARROW_RADIUS, RADIUS, WIDE_RADIUS, decode_tile};
use crate::predict::interpolate::{INTERPOLATION, Interpolation, Scheme};
use crate::predict::orders;
use crate::quantize::Real;
use crate::quantize::fill::restore_fill;
use crate::quantize::log::restore_signs;
use crate::quantize::mask::{MaskKind, TileMask};
use crate::quantize::value_range::ValueRange;
use crate::tokens::{self, TokenStream};

pub(in super::super) fn decode<T: Real, K: Tiles + ?Sized>(
    context: &Context,
    kind: ChunkKind,
    payload: &[u8],
    scratch: &mut DecodeScratch,
    sink: &mut K,
) -> Result<()> {
    let header = context.header;
    let place = context.place.as_str();
    if header.tile_size == TileSize::Large && kind != ChunkKind::TokenCodes {
        return Err(context.corrupt("its tiles are large, but it has no token codebooks"));
    }
    let sections = Sections::parse(payload, place)?;
    let [tiles, bases, masks, codes, outliers, verbatim, negatives, ..] = sections.0;
    let tile_section = TileSection::parse(tiles, context.tile_count(), header.patterns.len(), place)?;
    let known = match kind {
        ChunkKind::TokenCodes => tile_section.radius == 0 && !tile_section.classes,
        ChunkKind::LzssCodes => tile_section.radius == NARROW_RADIUS && !tile_section.classes,
        _ => matches!(tile_section.radius, RADIUS | WIDE_RADIUS),
    };
    if !known || (kind == ChunkKind::TokenCodes) != tile_section.scheme.is_some() {
        return Err(context.corrupt("its radius, classes, or interpolation scheme do not fit the coding of its codes"));
    }
    let scheme = read_scheme(&tile_section, header, context)?;
    let elements = context.geometry.chunk_elements(context.chunk);
    let outliers = SparseList::parse(outliers, 4, elements, place)?;
    let verbatim = SparseList::parse(verbatim, size_of::<T>(), elements, place)?;
    let radius = tile_section.radius;
    let metas = tile_section.tiles;
    let bases: Vec<u32> = read_bases(bases, metas.len(), place)?;
    let all_tiles = || context.geometry.chunk(context.chunk);
    let masks = Bitmaps::read(masks, all_tiles().zip(&metas).map(|(t, m)| (t, m.mask)), context)?;
    let negatives = Bitmaps::read(negatives, all_tiles().zip(&metas).map(|(t, m)| (t, m.sign)), context)?;
    let group_log2 = match kind {
        ChunkKind::TokenCodes => tokens::group_len(header.tile_size).ilog2() as usize,
        _ => usize::from(header.group_log2),
    };
    let live = all_tiles().zip(&metas).filter(|(_, meta)| !meta.constant);
    let classes: Vec<u8> =
        live.flat_map(|(tile, meta)| std::iter::repeat_n(meta.class, tile.groups(1 << group_log2))).collect();
    let stream;
    let mut codes = if kind == ChunkKind::LzssCodes {
        let sections = Sections::parse(codes, place)?;
        if sections.0[..BLOCKS].iter().chain(&sections.0[LITERALS + 1..]).any(|section| !section.is_empty()) {
            return Err(context.corrupt("its LZSS tokens have unexpected sections"));
        }
        let reader = BlockReader::new(context, &sections, classes.len() << group_log2, &mut scratch.lzss)?;
        Codes::Tokens(reader, Box::new([0; MAX_SMALL_TILE_ELEMENTS]))
    } else if kind == ChunkKind::TokenCodes {
        let mut stream = TokenStream::parse(codes, classes.len(), place)?;
        if stream.has_index() != (header.index == IndexKind::Symbol) {
            return Err(context.corrupt("its token stream has not the index that the header names"));
        }
        if !stream.has_index() {
            let live = all_tiles().zip(&metas).filter(|(_, meta)| !meta.constant);
            stream.find_starts(live.flat_map(|(tile, _)| group_lengths(tile.len(), 1 << group_log2)))?;
        }
        Codes::Symbols(stream)
    } else {
        stream = Stream::<u16>::parse(codes, place)?;
        if stream.groups() != classes.len() || stream.group_len() != 1 << group_log2 {
            return Err(context.corrupt("its codes do not fit its tiles"));
        }
        let decoder = stream.decoder(huffman::Decoder::Auto, &classes)?;
        Codes::Huffman(CodeReader::new(&stream, decoder, &mut scratch.codes)?)
    };

    let quantizer = Quantizer::<T>::new(header);
    let interpolator = match (&quantizer, scheme) {
        (Quantizer::Linear(linear), Some(scheme)) => {
            let interpolation = Interpolation::new(header.step, header.abs_bound);
            Some(Interpolator { interpolation, linear: *linear, scheme })
        }
        _ => None,
    };
    let range = header.range.map(ValueRange::<T>::new);
    let memory = BatchMemory::take(&mut scratch.batch, context.geometry.axes());
    let mut batch = Batch::<T>::new(context.geometry.unclipped_len() as usize, interpolator, memory);
    let mut q = [0i32; MAX_TILE_ELEMENTS];
    let mut tile_outliers: Vec<Outlier> = Vec::new();
    let finish = |batch: &mut Batch<T>, sink: &mut K| {
        batch.finish(|PlacedTile { tile, number, position }, x| {
            let meta = &metas[*number];
            if let Some(range) = &range {
                range.clamp(x);
            }
            if meta.mask != MaskKind::Nothing {
                let mask = masks.of(*number, meta.mask, tile);
                restore_fill(x, &mask, header.patterns[usize::from(meta.pattern)]);
            }
            restore_verbatim(x, *position, &verbatim);
            while sink.peek().is_some_and(|(next, _)| next.number < tile.number) {
                sink.skip();
            }
            sink.put(x)
        })
    };
    let mut position = 0u32;
    let mut group = 0;
    for (number, (tile, meta)) in all_tiles().zip(&metas).enumerate() {
        let base = bases[number] as i32;
        let end = position + tile.len() as u32;
        let groups = if meta.constant { 0 } else { tile.groups(1 << group_log2) };
        if sink.needs(&tile) {
            let interpolated = meta.predictor == INTERPOLATION;
            if !batch.has_room(&tile, interpolated) {
                finish(&mut batch, sink)?;
            }
            let placed = PlacedTile { tile, number, position };
            if let (true, Codes::Symbols(stream)) = (interpolated, &codes) {
                let lane = batch.add_interpolated(placed, base);
                let (codes, lane) = lane.ok_or_else(|| context.corrupt("a tile is interpolated without a scheme"))?;
                stream.read_groups(group, 1 << group_log2, codes, lane)?;
            } else {
                let q = &mut q[..tile.len()];
                if meta.constant {
                    q.fill(base);
                } else if let Codes::Symbols(stream) = &codes {
                    q.fill(0);
                    stream.read_groups(group, 1 << group_log2, q.as_chunks_mut::<1>().0, 0)?;
                    orders::restore(q, tile.extent, meta.predictor, base);
                } else {
                    tile_outliers.clear();
                    tile_outliers.extend(outliers_within(&outliers, position, end));
                    let symbols = codes.groups(group, groups, group_log2, context)?;
                    decode_tile(symbols, tile.extent, meta.predictor, base, radius, &tile_outliers, q);
                }
                let x = batch.add(placed);
                match &quantizer {
                    Quantizer::Linear(linear) => linear.dequantize(q, x),
                    Quantizer::Logarithm(logarithm) => {
                        logarithm.dequantize(q, x);
                        restore_signs(x, meta.sign, &negatives.of(number, meta.sign, &tile));
                    }
                }
            }
            if !batch.waits() {
                finish(&mut batch, sink)?;
            }
        }
        position = end;
        group += groups;
    }
    finish(&mut batch, sink)?;
    scratch.batch.keep(batch.into_memory());
    codes.finish()
}

/// Returns the lengths of the groups of a tile.
fn group_lengths(elements: usize, group_len: usize) -> impl Iterator<Item = usize> {
    (0..elements).step_by(group_len).map(move |start| (elements - start).min(group_len))
}

/// Returns the outliers of the elements from `position` to `end`, with their positions in the tile.
fn outliers_within<'a>(outliers: &'a SparseList, position: u32, end: u32) -> impl Iterator<Item = Outlier> + 'a {
    outliers.within(position, end).map(move |number| {
        let (at, residual) = outliers.value(number);
        (at - position, i32::from_le_bytes([residual[0], residual[1], residual[2], residual[3]]))
    })
}

/// Replaces the verbatim values of a tile whose first element is element `position` of the chunk.
fn restore_verbatim<T: Real>(x: &mut [T], position: u32, verbatim: &SparseList) {
    for number in verbatim.within(position, position + x.len() as u32) {
        let (at, value) = verbatim.value(number);
        let mut bits = [0; 8];
        bits[..value.len()].copy_from_slice(value);
        x[(at - position) as usize] = T::from_bits(u64::from_le_bytes(bits));
    }
}

/// Returns the interpolation scheme of a chunk, after checking that its tiles only have valid predictors.
fn read_scheme(section: &TileSection, header: &Header, context: &Context) -> Result<Option<Scheme>> {
    let Some(code) = section.scheme else { return Ok(None) };
    let scheme = Scheme::from_code(code);
    let interpolates = section.tiles.iter().any(|tile| tile.predictor == INTERPOLATION);
    let known = (code == 0 || (scheme.is_some() && header.pipeline == Pipeline::Quantized))
        && section.tiles.iter().all(|tile| tile.predictor <= INTERPOLATION)
        && (scheme.is_some() || !interpolates);
    if known { Ok(scheme) } else { Err(context.corrupt("unknown predictor or interpolation scheme")) }
}

/// The codes of a chunk, however coded.
enum Codes<'b, 's, 'a> {
    Huffman(CodeReader<'b, 's, 'a, u16>),
    /// Decoded bytes of LZSS tokens, and the bytes of a tile as codes.
    Tokens(BlockReader<'b>, Box<[u16; MAX_SMALL_TILE_ELEMENTS]>),
    /// Signed codes with token codebooks, which are read by group.
    Symbols(TokenStream<'a>),
}

impl Codes<'_, '_, '_> {
    /// Returns the codes of groups `first..first + count` of a tile. Tiles must be requested in ascending order.
    #[inline]
    fn groups(&mut self, first: usize, count: usize, group_log2: usize, context: &Context) -> Result<&[u16]> {
        match self {
            Self::Huffman(reader) => reader.groups(first, count),
            Self::Symbols(_) => Err(context.corrupt("its codes are not symbols of one radius")),
            Self::Tokens(reader, tile) => {
                let (from, to) = (first << group_log2, (first + count) << group_log2);
                let bytes = reader.bytes(from, to, PrefetchTargets::default());
                let bytes = bytes.map_err(|what| context.corrupt(what))?;
                let tile = &mut tile[..bytes.len()];
                tile.iter_mut().zip(bytes).for_each(|(code, &byte)| *code = byte.into());
                Ok(tile)
            }
        }
    }

    fn finish(self) -> Result<()> {
        match self {
            Self::Huffman(reader) => reader.finish(),
            Self::Tokens(..) | Self::Symbols(_) => Ok(()),
        }
    }
}

/// The bitmaps of a chunk's tiles (masks or signs).
struct Bitmaps {
    bytes: Vec<u8>,
    /// Start of the bitmap of each tile that has one.
    starts: Vec<u32>,
}

impl Bitmaps {
    fn read(section: &[u8], kinds: impl Iterator<Item = (Tile, MaskKind)>, context: &Context) -> Result<Self> {
        let mut length = 0;
        let starts: Vec<u32> = kinds
            .map(|(tile, kind)| {
                let start = length;
                if kind == MaskKind::Bitmap {
                    length += TileMask::stored_bytes(tile.len());
                }
                start as u32
            })
            .collect();
        if length == 0 {
            return match section.is_empty() {
                true => Ok(Self { bytes: Vec::new(), starts: Vec::new() }),
                false => Err(context.corrupt("bitmaps that no tile has")),
            };
        }
        let stream = Stream::<u8>::parse(section, &context.place)?;
        if stream.symbols() != length || stream.index_kind() != IndexKind::Symbol || stream.needs_classes() {
            return Err(context.corrupt("its bitmaps do not fit its tiles"));
        }
        let mut bytes = vec![0; length];
        stream.decoder(huffman::Decoder::Indexed, &[])?.decode(&mut bytes, 1)?;
        Ok(Self { bytes, starts })
    }

    fn of(&self, number: usize, kind: MaskKind, tile: &Tile) -> TileMask {
        match kind {
            MaskKind::Nothing => TileMask::default(),
            MaskKind::All => TileMask::full(tile.len()),
            MaskKind::Bitmap => {
                let start = self.starts[number] as usize;
                TileMask::load(&self.bytes[start..start + TileMask::stored_bytes(tile.len())], tile.extent)
            }
        }
    }
}
