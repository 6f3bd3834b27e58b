//! The properties of records that follow from a stream's header, and the memory that parsing takes.

use syncline_core::bound::Pipeline;
use syncline_core::container::Header;
use syncline_core::geometry::Geometry;
use syncline_core::quantize::mask::TileMask;

use super::{BITMAP_GROUP_LOG2, BOOKS, ParsedChunk};
use crate::container::parsed::sums_len;
use crate::device::Arena;
use crate::geometry::ChunkBatch;
use crate::huffman::decode::parse::{ALPHABET, BYTE_ALPHABET, BatchBounds, CODEBOOKS};
use crate::huffman::decode::structs::{BatchTotals, CodebookDescriptor, StreamDescriptor};

/// Properties of a stream that parsing needs, from its header.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    pub(super) patterns: u32,
    pub(super) signs: bool,
    pub(super) lzss_codes: bool,
    pub(super) token_codes: bool,
    group_log2: u32,
    pub(super) bitmap_stride: u64,
}

impl Format {
    /// Returns the properties of the stream with this header.
    pub fn new(header: &Header, geometry: &Geometry) -> Self {
        let tiles = geometry.tiles().min(geometry.tiles_per_chunk().into());
        let bitmap = TileMask::stored_bytes(geometry.unclipped_len() as usize) as u64;
        Self {
            patterns: header.patterns.len() as u32,
            signs: header.pipeline == Pipeline::LogQuantized,
            lzss_codes: header.lzss_codes,
            token_codes: header.token_codes,
            group_log2: header.group_log2.into(),
            bitmap_stride: tiles * bitmap,
        }
    }

    pub(super) fn masks(&self) -> bool {
        self.patterns > 0
    }

    /// Returns the number of kinds of bitmaps that chunks can have: masks, signs.
    pub fn bitmap_kinds(&self) -> u32 {
        u32::from(self.masks()) + u32::from(self.signs)
    }

    /// Returns upper bounds of the streams of codes of a batch.
    pub(crate) fn code_bounds(&self, batch: &ChunkBatch, record_bytes: u64, input_bytes: u64) -> BatchBounds {
        let groups = u64::from(batch.chunks()) * u64::from(batch.slots());
        BatchBounds {
            streams: batch.chunks(),
            codebooks: CODEBOOKS,
            group_log2: self.group_log2,
            groups: batch.slots(),
            bytes: record_bytes,
            output_symbols: groups << self.group_log2,
            classes: groups,
            input_bytes,
        }
    }

    /// Returns upper bounds of the streams of bitmaps of a batch.
    pub(crate) fn bitmap_bounds(&self, batch: &ChunkBatch, record_bytes: u64, input_bytes: u64) -> BatchBounds {
        let streams = batch.chunks() * self.bitmap_kinds();
        BatchBounds {
            streams,
            codebooks: 1,
            group_log2: BITMAP_GROUP_LOG2,
            groups: (self.bitmap_stride >> BITMAP_GROUP_LOG2) as u32,
            bytes: record_bytes,
            output_symbols: u64::from(streams) * self.bitmap_stride,
            classes: 0,
            input_bytes,
        }
    }

    /// Returns the bytes of arena memory that [`RecordParser::parse`](super::RecordParser::parse) takes for a batch.
    pub fn workspace(&self, batch: &ChunkBatch, classes: bool) -> usize {
        let chunks = batch.chunks() as usize;
        let tiles = batch.tiles() as usize;
        let bitmaps = chunks * self.bitmap_kinds() as usize;
        let slices = [
            Arena::bytes_for::<u8>(cleared_bytes(chunks, bitmaps)),
            2 * Arena::bytes_for::<u16>(tiles),
            2 * Arena::bytes_for::<u32>(tiles),
            2 * Arena::bytes_for::<u32>(tiles + chunks),
            self.bitmap_kinds() as usize * Arena::bytes_for::<u32>(tiles),
            Arena::bytes_for::<u32>(chunks * rank_stride(batch)),
            Arena::bytes_for::<StreamDescriptor>(chunks) + Arena::bytes_for::<CodebookDescriptor>(chunks * BOOKS),
            Arena::bytes_for::<u16>(chunks * ALPHABET) + Arena::bytes_for::<u8>(chunks * ALPHABET),
            Arena::bytes_for::<StreamDescriptor>(bitmaps) + Arena::bytes_for::<CodebookDescriptor>(bitmaps),
            Arena::bytes_for::<u16>(bitmaps * BYTE_ALPHABET),
            Arena::bytes_for::<u8>(bitmaps * self.bitmap_stride as usize),
            if classes { Arena::bytes_for::<u8>(chunks * batch.slots() as usize) } else { 0 },
        ];
        slices.iter().sum()
    }
}

/// Returns the entries of `ranks` per chunk.
pub(super) fn rank_stride(batch: &ChunkBatch) -> usize {
    batch.slots().div_ceil(32) as usize
}

/// Returns the bytes that must be 0 before parsing: the chunks, the totals of two batches of streams, a counter, and
/// the status words of the streams.
pub(crate) fn cleared_bytes(chunks: usize, bitmaps: usize) -> usize {
    Arena::bytes_for::<ParsedChunk>(chunks)
        + 2 * Arena::bytes_for::<BatchTotals>(1)
        + Arena::bytes_for::<u32>(1)
        + Arena::bytes_for::<u32>(chunks)
        + Arena::bytes_for::<u32>(sums_len(chunks))
        + Arena::bytes_for::<u32>(bitmaps)
}
