//! How the chunks of an array are cut into batches, and what memory these take.

use std::ops::Range;

use syncline_core::bound::Bound;
use syncline_core::container::Header;
use syncline_core::geometry::Geometry;
use syncline_core::huffman::IndexKind;

use crate::error::{CudaError, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry};

/// Elements of a batch, as bytes with all padding of the codes. What batches take does not depend on how large they are
/// but for the beginnings and ends of the steps, in which most of the device is idle: some 150 microseconds a batch.
pub(super) const BATCH_BYTES: u64 = 2 << 30;

/// The same where codes become tokens, which take several bytes a code on the way.
const TOKEN_BATCH_BYTES: u64 = 512 << 20;

/// What batches depend on besides the tiling: all of a stream that does not wait for the bound to be resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    pub element_bytes: u32,
    pub group_log2: u8,
    pub index: IndexKind,
    pub lzss_codes: bool,
    /// Whether squared errors are summed up.
    pub measured: bool,
}

impl Form {
    pub(super) fn of(header: &Header) -> Self {
        Self {
            element_bytes: header.element_type.size() as u32,
            group_log2: header.group_log2,
            index: header.index,
            lzss_codes: header.lzss_codes,
            measured: matches!(header.bound, Bound::Psnr(_)),
        }
    }
}

/// Consecutive chunks in batches of about the same size.
#[derive(Debug)]
pub(super) struct Batches {
    pub form: Form,
    batches: Vec<ChunkBatch>,
    /// Chunks of all.
    chunks: u64,
    /// Codes of a chunk, padded to groups, and tiles of a chunk.
    chunk_codes: u64,
    chunk_tiles: u64,
}

impl Batches {
    /// Chunks `chunks` of an array, in batches of about so many bytes of elements.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if there are no such chunks or groups.
    pub(super) fn new(form: Form, geometry: &Geometry, chunks: Range<u64>, batch_bytes: u64) -> Result<Self> {
        if !matches!(form.group_log2, 6 | 7) {
            return Err(CudaError::invalid("groups have 64 or 128 codes"));
        }
        if chunks.start > chunks.end || chunks.end > geometry.chunks() {
            return Err(CudaError::invalid(format!("chunks {chunks:?} of {}", geometry.chunks())));
        }
        let count = chunks.end - chunks.start;
        let chunk_codes = DeviceGeometry::new(geometry, form.group_log2).chunk_slots().max(1) << form.group_log2;
        let batch_bytes = if form.lzss_codes { batch_bytes.min(TOKEN_BATCH_BYTES) } else { batch_bytes };
        let most = (batch_bytes / (chunk_codes * u64::from(form.element_bytes))).max(1);
        // As many in each, as far as it goes.
        let each = count.div_ceil(count.div_ceil(most).max(1)).max(1);
        let starts = chunks.clone().step_by(usize::try_from(each).unwrap_or(usize::MAX));
        let batch = |start| ChunkBatch::new(geometry, form.group_log2, start..chunks.end.min(start + each));
        Ok(Self {
            form,
            batches: starts.map(batch).collect::<Result<_>>()?,
            chunks: count,
            chunk_codes,
            chunk_tiles: u64::from(geometry.tiles_per_chunk()).min(geometry.tiles().max(1)),
        })
    }

    /// The batches, and how many chunks come before each.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (u64, &ChunkBatch)> {
        let first = self.batches.first().map_or(0, ChunkBatch::first_chunk);
        self.batches.iter().map(move |batch| (batch.first_chunk() - first, batch))
    }

    /// Chunks of all batches.
    pub(super) fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Chunks of the largest batch, 1 or more.
    pub(super) fn most_chunks(&self) -> u64 {
        self.batches.first().map_or(1, |batch| batch.chunks().into())
    }

    /// Bytes of the arena that a batch takes at most.
    pub(super) fn workspace(&self) -> u64 {
        let chunks = self.most_chunks();
        let elements = chunks * self.chunk_codes;
        let held = self.batches.iter().map(|batch| batch.first_slot(batch.chunks()) << self.form.group_log2).max();
        let held = held.unwrap_or(elements);
        let tiles = chunks * self.chunk_tiles;
        // Codes, which encoded segments take the place of, and the sums of hashing those of these. With the gap index
        // segments are elsewhere; there is a subsequence's gap and the bits of four codewords.
        let codes = match self.form.index {
            IndexKind::Gap => 2 * held + 2 * elements + elements / 8 + elements / 4,
            _ => 2 * held,
        };
        // For a group its class, its bits, twice, and shares of index and bitmap; a segment's sums and starts.
        let encoding = 6 * (elements >> self.form.group_log2) + elements / 64;
        let measured = if self.form.measured { 10 } else { 0 };
        codes + encoding + (34 + measured) * tiles + (chunks << 11) + (256 << 10)
    }

    /// Bytes of device memory that all of it takes, what is kept from batch to batch included.
    pub(super) fn needed(&self, geometry: &Geometry) -> u64 {
        let chunks = self.most_chunks();
        // Codewords, symbols in their order and bytes of five codebooks a chunk, and counts of four.
        let books = chunks * 1024 * (5 * (size_of::<u32>() + size_of::<u16>() + 1) + 4 * size_of::<u32>()) as u64;
        // What quantizing counts with, a word for at least eight tiles and 32 for the chunk.
        let control = chunks * (u64::from(geometry.tiles_per_chunk()).min(geometry.tiles()) / 2 + 132) + 128;
        let lengths = self.chunks * size_of::<u32>() as u64;
        self.workspace() + books + control + lengths
    }
}
