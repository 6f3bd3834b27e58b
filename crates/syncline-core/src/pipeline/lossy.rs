//! Quantized chunks: mask, quantize, predict, entropy-code; and back.

pub(super) mod buffers;
mod decode;
mod quantize_tile;
mod reserved;
mod sample;
mod tile_coder;

pub(super) use decode::decode;
#[doc(hidden)]
pub use reserved::reserved_patterns;
#[doc(hidden)]
pub use sample::{CHOOSING_STEP, COUNTED_STEP, FEWEST_CHOOSING, FEWEST_COUNTED};

use self::buffers::EncodeBuffers;
use self::sample::{Choice, Codebooks, CodedTile, choose, make_codebooks};
use self::tile_coder::{TileCoder, TileMemory};
use super::context::ElementSource;
use super::options::CoderOptions;
use super::scratch::EncodeScratch;
use crate::bound::ErrorSummary;
use crate::container::{
    ChunkKind, Header, RecordBuilder, SectionWriter, TileMeta, TileSection, write_bases, write_sparse,
};
use crate::error::Result;
use crate::geometry::{Geometry, Tile};
use crate::huffman::codebook::Codebook;
use crate::quantize::Real;
use crate::quantize::mask::TileMask;
use crate::strips::{Encoder, strips_of};

/// Returns the number of strips of a bitmap of a tile.
fn bitmap_strips(tile: &Tile) -> usize {
    strips_of(TileMask::codes_of(tile.len()))
}

/// Returns the number of strips of a tile: those of its bitmaps, and of its codes.
pub(super) fn strips_of_tile(tile: &Tile, meta: &TileMeta) -> usize {
    let of_codes = if meta.constant { 0 } else { strips_of(tile.len()) };
    meta.bitmaps() * bitmap_strips(tile) + of_codes
}

/// Appends the record of a quantized chunk.
pub(super) fn encode<T: Real>(
    header: &Header,
    geometry: &Geometry,
    chunk: u64,
    source: &dyn ElementSource,
    options: &CoderOptions,
    scratch: &mut EncodeScratch,
    out: &mut Vec<u8>,
) -> Result<ErrorSummary> {
    let EncodeScratch { tiles, window, quantized: buffers, .. } = scratch;
    let memory = TileMemory::take(&mut buffers.tiles, geometry.axes());
    let mut lengths = std::mem::take(&mut buffers.lengths);
    let mut coder = TileCoder::<T>::new(header, geometry, options, memory);
    let choice = choose(&mut coder, geometry, source, (tiles, window))?;
    let codebooks = make_codebooks(&mut coder, geometry, source, (tiles, window), &choice, &mut lengths)?;
    buffers.clear();
    let encoders: Vec<Encoder> = codebooks.of_codes.iter().map(Encoder::new).collect();
    let of_bitmaps = Encoder::new(&codebooks.of_bitmaps);
    let mut position = 0;
    coder.for_batches(
        geometry,
        source,
        (tiles, window),
        |_| true,
        |coder, batch| {
            coder.quantize(batch);
            coder.code(batch, &choice, |coder, tile| {
                let class = if encoders.len() > 1 { choice.class(tile.cost) } else { 0 };
                let quantized = &coder.prepared[tile.lane].quantized;
                quantized.for_bitmap_strips(tile.extent, |strip| buffers.codes.push(strip, &of_bitmaps));
                tile.for_strips(|strip| buffers.codes.push(strip, &encoders[class]));
                coder.put(&tile, class as u8, position, buffers);
                position += tile.codes.len() as u32;
            });
        },
    )?;
    write_sections(chunk, &choice, &codebooks, buffers, out);
    let summary = coder.quantizer.summary;
    buffers.tiles.keep(coder.into_memory());
    buffers.lengths = lengths;
    Ok(summary)
}

impl<T: Real> TileCoder<'_, T> {
    /// Adds what a tile has beside its codes to the buffers. `position` elements of the chunk are before it.
    fn put(&mut self, tile: &CodedTile<'_>, class: u8, position: u32, buffers: &mut EncodeBuffers) {
        let prepared = &self.prepared[tile.lane];
        let count = tile.codes.len();
        let x = &prepared.x[..count];
        let mut meta = prepared.quantized.meta;
        meta.constant = tile.is_constant;
        meta.predictor = tile.predictor(prepared.predictor);
        meta.class = if tile.is_constant { 0 } else { class };
        let exact = match &tile.interpolated {
            Some(outcome) => {
                if self.quantizer.measures {
                    let values = self.interpolated.values[..count].iter().map(|values| values[tile.lane]);
                    self.quantizer.measure_values(x, &values.collect::<Vec<T>>(), &outcome.excluded);
                }
                outcome.exact
            }
            None => {
                self.quantizer.measure(x, &prepared.q[..count], &prepared.quantized.excluded);
                prepared.quantized.exact
            }
        };
        if exact.any() {
            buffers.push_verbatim(position, x, &exact);
        }
        buffers.metas.push(meta);
        let before = buffers.bases.last().copied().unwrap_or(0);
        buffers.bases.push(if prepared.quantized.is_empty { before } else { prepared.q[0] as u32 });
    }
}

/// Appends the record of the tiles in the buffers.
fn write_sections(chunk: u64, choice: &Choice, codebooks: &Codebooks, buffers: &mut EncodeBuffers, out: &mut Vec<u8>) {
    let record = RecordBuilder::begin(out, ChunkKind::Quantized, chunk);
    let mut sections = SectionWriter::begin(out);
    let first = choice.predictors.first().copied().unwrap_or(0);
    let tile_section = TileSection {
        scheme: choice.scheme.map_or(0, |scheme| scheme.code()),
        predictors: std::array::from_fn(|place| choice.predictors.get(place).copied().unwrap_or(first)),
        plane_bytes: 0,
        coded_planes: 0,
        classes: codebooks.of_codes.len() > 1,
        tiles: std::mem::take(&mut buffers.metas),
    };
    sections.section(out, |out| tile_section.write(out));
    let of_bitmaps = tile_section.has_bitmaps().then_some(&codebooks.of_bitmaps);
    buffers.metas = tile_section.tiles;
    sections.section(out, |out| write_bases(out, &buffers.bases));
    sections.section(out, |out| write_sparse(out, &buffers.verbatim, &buffers.verbatim_bytes));
    let written: Vec<&Codebook> = codebooks.of_codes.iter().chain(of_bitmaps).collect();
    sections.section(out, |out| buffers.codes.write(&written, out));
    record.finish(out);
}
