//! Splits the chunks of an array into batches, and computes the memory that they take.

use std::ops::Range;

use syncline_core::bound::Bound;
use syncline_core::container::Header;
use syncline_core::geometry::Geometry;
use syncline_core::huffman::IndexKind;

use crate::error::{CudaError, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry};

/// Size of a batch's elements in bytes, including all padding of the codes. The throughput does not depend on the batch
/// size, except for the start and the end of each step, when most of the device is idle: about 150 microseconds per
/// batch.
pub(in crate::pipeline) const BATCH_BYTES: u64 = 2 << 30;

/// Size of a batch's elements in bytes if codes become LZSS tokens, which temporarily take several bytes per code.
const TOKEN_BATCH_BYTES: u64 = 512 << 20;

/// Properties of a stream that its batches depend on in addition to the tiling. They are known before the bound is
/// resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pipeline) struct Form {
    pub element_bytes: u32,
    pub group_log2: u8,
    pub index: IndexKind,
    pub lzss_codes: bool,
    /// Whether squared errors are summed.
    pub measured: bool,
}

impl Form {
    pub(in crate::pipeline) fn of(header: &Header) -> Self {
        Self {
            element_bytes: header.element_type.size() as u32,
            group_log2: header.group_log2,
            index: header.index,
            lzss_codes: header.lzss_codes,
            measured: matches!(header.bound, Bound::Psnr(_)),
        }
    }
}

/// Consecutive chunks, split into batches of about the same size.
#[derive(Debug)]
pub(in crate::pipeline) struct Batches {
    pub form: Form,
    batches: Vec<ChunkBatch>,
    /// Number of chunks of all batches.
    chunks: u64,
    /// Codes of a chunk, padded to groups, and tiles of a chunk.
    chunk_codes: u64,
    chunk_tiles: u64,
}

impl Batches {
    /// Splits chunks `chunks` of an array into batches of about `batch_bytes` bytes of elements.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if there are no such chunks or groups.
    pub(in crate::pipeline) fn new(
        form: Form,
        geometry: &Geometry,
        chunks: Range<u64>,
        batch_bytes: u64,
    ) -> Result<Self> {
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
        // Distributes the chunks evenly over the batches.
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

    /// Returns the batches, each with the number of chunks before it.
    pub(in crate::pipeline) fn numbered(&self) -> impl Iterator<Item = (u64, &ChunkBatch)> {
        let first = self.batches.first().map_or(0, ChunkBatch::first_chunk);
        self.batches.iter().map(move |batch| (batch.first_chunk() - first, batch))
    }

    /// Returns the number of chunks of all batches.
    pub(in crate::pipeline) fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Returns the number of chunks of the largest batch, at least 1.
    pub(in crate::pipeline) fn most_chunks(&self) -> u64 {
        self.batches.first().map_or(1, |batch| batch.chunks().into())
    }

    /// Returns the maximum bytes of arena memory that a batch takes.
    pub(in crate::pipeline) fn workspace(&self) -> u64 {
        let chunks = self.most_chunks();
        let elements = chunks * self.chunk_codes;
        let held = self.batches.iter().map(|batch| batch.first_slot(batch.chunks()) << self.form.group_log2).max();
        let held = held.unwrap_or(elements);
        let tiles = chunks * self.chunk_tiles;
        // Codes, which are overwritten with encoded segments, and the sums of hashing, which reuse the segments'
        // memory.
        let codes = 2 * held;
        // Per group: its class, its length in bits twice, and its parts of index and bitmap. Per segment: sums and
        // starts.
        let encoding = 6 * (elements >> self.form.group_log2) + elements / 64;
        let measured = if self.form.measured { 10 } else { 0 };
        codes + encoding + (34 + measured) * tiles + (chunks << 11) + (256 << 10)
    }

    /// Returns the bytes of device memory that compression takes in total, including the memory kept between batches.
    pub(in crate::pipeline) fn needed(&self, geometry: &Geometry) -> u64 {
        let chunks = self.most_chunks();
        // Codewords, sorted symbols and code lengths of five codebooks per chunk, and histograms of four.
        let books = chunks * 1024 * (5 * (size_of::<u32>() + size_of::<u16>() + 1) + 4 * size_of::<u32>()) as u64;
        // Control words of quantizing: one for at least eight tiles, and 32 for the chunk.
        let control = chunks * (u64::from(geometry.tiles_per_chunk()).min(geometry.tiles()) / 2 + 132) + 128;
        let lengths = self.chunks * size_of::<u32>() as u64;
        self.workspace() + books + control + lengths
    }
}
