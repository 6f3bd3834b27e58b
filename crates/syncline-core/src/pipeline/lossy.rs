//! Quantized chunks: mask, quantize, predict, entropy-code; and back.

pub(super) mod buffers;
mod decode;
mod lzss_codes;
mod quantize_tile;
mod reserved;
mod token_codes;

pub(super) use decode::decode;
#[doc(hidden)]
pub use lzss_codes::{
    PIECE as CODE_SAMPLE_PIECE, SAMPLED as CODE_SAMPLE_STEP, TokenCosts, params as code_token_params,
};
#[doc(hidden)]
pub use reserved::reserved_patterns;
#[doc(hidden)]
pub use token_codes::{FEWEST_SAMPLED as FEWEST_SAMPLED_TILES, SAMPLE_STEP as TILE_SAMPLE_STEP};

use self::buffers::EncodeBuffers;
use self::quantize_tile::{QuantizedTile, TileQuantizer};
use super::context::ElementSource;
use super::options::CoderOptions;
use super::scratch::EncodeScratch;
use crate::bound::ErrorSummary;
use crate::container::{
    ChunkKind, Header, RecordBuilder, SectionWriter, TileMeta, TileSection, write_bases, write_sparse,
};
use crate::error::Result;
use crate::geometry::{Geometry, MAX_SMALL_TILE_ELEMENTS, Tile};
use crate::huffman::{self, IndexKind};
use crate::predict::codes::{NARROW_RADIUS, RADIUS, WIDE_RADIUS, encode_tile, widen};
use crate::predict::{Outlier, activity};
use crate::quantize::Real;

/// If more than one in this number of elements is an outlier, the writer uses the wide radius.
const WIDE_SHARE: usize = 64;

pub(super) fn encode<T: Real>(
    header: &Header,
    geometry: &Geometry,
    chunk: u64,
    source: &dyn ElementSource,
    options: &CoderOptions,
    scratch: &mut EncodeScratch,
    out: &mut Vec<u8>,
) -> Result<ErrorSummary> {
    if !header.token_codes {
        let (summary, radius) = quantize::<T>(header, geometry, source, scratch)?;
        write_record(header, chunk, radius, options, scratch, out);
        return Ok(summary);
    }
    let start = out.len();
    let summary = token_codes::encode::<T>(header, geometry, chunk, source, options, scratch, out)?;
    if header.lzss_codes {
        let tokens_len = out.len() - start;
        let (other, radius) = quantize::<T>(header, geometry, source, scratch)?;
        write_record(header, chunk, radius, options, scratch, out);
        if out.len() - start < 2 * tokens_len {
            out.drain(start..start + tokens_len);
            return Ok(other);
        }
        out.truncate(start + tokens_len);
    }
    Ok(summary)
}

/// Fills the scratch memory with what the tiles in it become before entropy coding. Returns the radius of the codes,
/// too.
fn quantize<T: Real>(
    header: &Header,
    geometry: &Geometry,
    source: &dyn ElementSource,
    scratch: &mut EncodeScratch,
) -> Result<(ErrorSummary, u32)> {
    let buffers = &mut scratch.quantized;
    buffers.clear();
    let mut quantize = TileEncoder::<T>::new(header, geometry);
    for run in scratch.tiles.chunk_by(|a, b| a.origin[..3] == b.origin[..3]) {
        let window = source.window(geometry, run, &mut scratch.window)?;
        for (number, tile) in run.iter().enumerate() {
            if let Some(next) = run.get(number + 1) {
                window.prefetch(next, size_of::<T>());
            }
            window.gather(tile, &mut quantize.x);
            quantize.tile(tile, buffers);
        }
    }
    let summary = quantize.tiles.summary;
    let elements = quantize.position as usize;

    let mut radius = RADIUS;
    if buffers.outliers.len() > elements / WIDE_SHARE {
        radius = WIDE_RADIUS;
        widen(&mut buffers.codes, &mut buffers.outliers);
    }
    let classes = header.index == IndexKind::Symbol && radius == RADIUS;
    if classes {
        classify(buffers, &scratch.tiles, header.group_log2);
    }
    Ok((summary, radius))
}

/// A chunk before entropy coding: what other implementations are compared with.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantizedChunk {
    pub radius: u32,
    pub metas: Vec<TileMeta>,
    pub bases: Vec<u32>,
    pub bins: Vec<u8>,
    pub codes: Vec<u16>,
    pub classes: Vec<u8>,
    pub outlier_positions: Vec<u32>,
    /// Residuals of the outliers, little-endian i32.
    pub residuals: Vec<u8>,
    pub verbatim_positions: Vec<u32>,
    pub verbatim_bytes: Vec<u8>,
    pub masks: Vec<u8>,
    pub signs: Vec<u8>,
    pub squared_error: u128,
    pub counted: u64,
}

/// Runs the steps of [`encode`] that precede the entropy coder.
pub(super) fn quantize_chunk<T: Real>(
    header: &Header,
    geometry: &Geometry,
    source: &dyn ElementSource,
    scratch: &mut EncodeScratch,
) -> Result<QuantizedChunk> {
    let (summary, radius) = quantize::<T>(header, geometry, source, scratch)?;
    let buffers = std::mem::take(&mut scratch.quantized);
    let (outlier_positions, residuals) =
        element_positions(&buffers.outliers, &buffers.metas, &scratch.tiles, header.group_log2);
    Ok(QuantizedChunk {
        radius,
        outlier_positions,
        residuals,
        bins: buffers.activities.iter().map(|&activity| activity::bin(activity) as u8).collect(),
        metas: buffers.metas,
        bases: buffers.bases,
        codes: buffers.codes,
        classes: buffers.classes,
        verbatim_positions: buffers.verbatim,
        verbatim_bytes: buffers.verbatim_bytes,
        masks: buffers.masks,
        signs: buffers.signs,
        squared_error: summary.squared_error,
        counted: summary.counted,
    })
}

/// Codes the tiles of a chunk one after another.
struct TileEncoder<'a, T: Real> {
    tiles: TileQuantizer<'a, T>,
    axes: usize,
    group: usize,
    /// The elements of the tile, filled by the caller.
    x: [T; MAX_SMALL_TILE_ELEMENTS],
    q: [i32; MAX_SMALL_TILE_ELEMENTS],
    /// Elements of the tiles before.
    position: u32,
}

impl<'a, T: Real> TileEncoder<'a, T> {
    fn new(header: &'a Header, geometry: &Geometry) -> Self {
        Self {
            tiles: TileQuantizer::new(header),
            axes: geometry.axes(),
            group: 1 << header.group_log2,
            x: [T::zeroed(); MAX_SMALL_TILE_ELEMENTS],
            q: [0; MAX_SMALL_TILE_ELEMENTS],
            position: 0,
        }
    }

    fn tile(&mut self, tile: &Tile, buffers: &mut EncodeBuffers) {
        let count = tile.len();
        let (x, q) = (&self.x[..count], &mut self.q[..count]);
        let QuantizedTile { mut meta, exact, excluded, .. } = self.tiles.quantize(tile, x, q, buffers);
        self.tiles.measure(x, q, &excluded);
        if exact.any() {
            buffers.push_verbatim(self.position, x, &exact);
        }
        let start = buffers.codes.len();
        let groups = tile.groups(self.group);
        buffers.codes.resize(start + groups * self.group, 0);
        let first_outlier = buffers.outliers.len();
        let info = encode_tile(q, tile.extent, self.axes, RADIUS, &mut buffers.codes[start..], &mut buffers.outliers);
        for outlier in &mut buffers.outliers[first_outlier..] {
            outlier.0 += start as u32;
        }
        meta.constant = info.is_constant();
        if meta.constant {
            buffers.codes.truncate(start);
        } else {
            meta.predictor = info.predictor;
        }
        self.tiles.base = info.base;
        self.position += count as u32;
        buffers.metas.push(meta);
        buffers.bases.push(info.base as u32);
        buffers.activities.push(info.activity);
    }
}

/// Gives each tile that is not constant its activity class: quarters of the tiles by the bin of their activity
/// (`docs/FORMAT.md`).
fn classify(buffers: &mut EncodeBuffers, tiles: &[Tile], group_log2: u8) {
    let live = buffers.metas.iter().zip(&buffers.activities).filter(|(meta, _)| !meta.constant);
    let classes = activity::classes(live.map(|(_, &activity)| activity));
    for ((meta, &activity), tile) in buffers.metas.iter_mut().zip(&buffers.activities).zip(tiles) {
        if !meta.constant {
            meta.class = classes[activity::bin(activity)];
            let groups = tile.groups(1 << group_log2);
            buffers.classes.extend(std::iter::repeat_n(meta.class, groups));
        }
    }
}

/// Appends the record of the chunk in the scratch memory. Its codes are Huffman-coded, or encoded as LZSS tokens if the
/// coder allows that and it is shorter.
fn write_record(
    header: &Header,
    chunk: u64,
    radius: u32,
    options: &CoderOptions,
    scratch: &mut EncodeScratch,
    out: &mut Vec<u8>,
) {
    let EncodeScratch { tiles, huffman, quantized: buffers, lzss, .. } = scratch;
    let start = out.len();

    // The tile section states whether classes are used, which the coder decides. The codes are therefore coded first,
    // into a separate buffer.
    let coding = huffman::EncodeOptions {
        group_log2: header.group_log2,
        index: header.index,
        zero_bit_symbol: Some(radius as u16),
    };
    buffers.coded.clear();
    let encode = if radius == RADIUS { huffman::encode_sampled } else { huffman::encode };
    let summary = encode(&buffers.codes, &buffers.classes, &coding, huffman, &mut buffers.coded);
    let coded = std::mem::take(&mut buffers.coded);
    let outliers = std::mem::take(&mut buffers.outliers);
    let classes = summary.uses_classes();
    let kind = Coding { kind: ChunkKind::Quantized, radius, classes, scheme: None, outliers: &outliers };
    write_sections(header, chunk, &kind, tiles, (buffers, huffman), out, |out, _| out.extend_from_slice(&coded));

    if header.lzss_codes && radius == RADIUS {
        let mut tokens = std::mem::take(&mut buffers.tokens);
        tokens.narrow(&buffers.codes, &outliers);
        if tokens.may_pay(options, coded.len(), outliers.len(), lzss) {
            let huffman_len = out.len() - start;
            let kind = Coding {
                kind: ChunkKind::LzssCodes,
                radius: NARROW_RADIUS,
                classes: false,
                scheme: None,
                outliers: &tokens.outliers,
            };
            write_sections(header, chunk, &kind, tiles, (buffers, huffman), out, |out, huffman| {
                tokens.write(options, header.index, lzss, huffman, out);
            });
            if out.len() - start < 2 * huffman_len {
                out.drain(start..start + huffman_len);
            } else {
                out.truncate(start + huffman_len);
            }
        }
        buffers.tokens = tokens;
    }
    (buffers.coded, buffers.outliers) = (coded, outliers);
}

/// The differences between the kinds of quantized chunks, other than the codes.
struct Coding<'a> {
    kind: ChunkKind,
    radius: u32,
    classes: bool,
    scheme: Option<u32>,
    outliers: &'a [Outlier],
}

/// Appends a record whose section of codes is what `write_codes` writes.
fn write_sections(
    header: &Header,
    chunk: u64,
    coding: &Coding,
    tiles: &[Tile],
    scratch: (&mut EncodeBuffers, &mut huffman::EncodeScratch),
    out: &mut Vec<u8>,
    write_codes: impl FnOnce(&mut Vec<u8>, &mut huffman::EncodeScratch),
) {
    let (buffers, huffman) = scratch;
    let record = RecordBuilder::begin(out, coding.kind, chunk);
    let mut sections = SectionWriter::begin(out);
    let tile_section = TileSection {
        radius: coding.radius,
        plane_bytes: 0,
        coded_planes: 0,
        classes: coding.classes,
        scheme: coding.scheme,
        tiles: std::mem::take(&mut buffers.metas),
    };
    sections.section(out, |out| tile_section.write(out));
    buffers.metas = tile_section.tiles;
    sections.section(out, |out| write_bases(out, &buffers.bases));
    write_bitmaps(&buffers.masks, &mut sections, huffman, out);
    sections.section(out, |out| write_codes(out, huffman));
    let (positions, residuals) = element_positions(coding.outliers, &buffers.metas, tiles, header.group_log2);
    sections.section(out, |out| write_sparse(out, &positions, &residuals));
    sections.section(out, |out| write_sparse(out, &buffers.verbatim, &buffers.verbatim_bytes));
    write_bitmaps(&buffers.signs, &mut sections, huffman, out);
    record.finish(out);
}

/// Symbols of a group of bitmap bytes.
const BITMAP_GROUP_LOG2: u8 = 6;

fn write_bitmaps(
    bitmaps: &[u8],
    sections: &mut SectionWriter,
    huffman: &mut huffman::EncodeScratch,
    out: &mut Vec<u8>,
) {
    if bitmaps.is_empty() {
        return sections.skip();
    }
    let options =
        huffman::EncodeOptions { group_log2: BITMAP_GROUP_LOG2, index: IndexKind::Symbol, zero_bit_symbol: Some(0) };
    sections.section(out, |out| huffman::encode(bitmaps, &[], &options, huffman, out));
}

/// Converts the positions of outliers from positions among the chunk's codes to positions among its elements.
fn element_positions(outliers: &[Outlier], metas: &[TileMeta], tiles: &[Tile], group_log2: u8) -> (Vec<u32>, Vec<u8>) {
    let mut positions = Vec::with_capacity(outliers.len());
    let mut residuals = Vec::with_capacity(outliers.len() * 4);
    let mut rest = outliers.iter().peekable();
    let (mut element, mut code) = (0, 0);
    for (tile, meta) in tiles.iter().zip(metas) {
        if !meta.constant {
            let next = code + (tile.groups(1 << group_log2) << group_log2) as u32;
            while let Some((position, residual)) = rest.next_if(|outlier| outlier.0 < next) {
                positions.push(element + position - code);
                residuals.extend_from_slice(&residual.to_le_bytes());
            }
            code = next;
        }
        element += tile.len() as u32;
    }
    (positions, residuals)
}
