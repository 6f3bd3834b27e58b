//! Splits the chunks of an array into batches.

use std::ops::Range;

use syncline_core::geometry::Geometry;

use crate::error::{CudaError, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry};

/// Size of a batch's elements in bytes. The throughput does not depend on it, except for the start and the end of each
/// step, when most of the device is idle.
pub(super) const BATCH_BYTES: u64 = 1 << 30;

/// Most chunks of a batch, which limits the memory for codebooks where chunks are small.
const MOST_CHUNKS: u64 = 1024;

/// Consecutive chunks, split into batches of about the same size.
#[derive(Debug)]
pub(super) struct Batches {
    batches: Vec<ChunkBatch>,
    /// Number of chunks of all batches.
    chunks: u64,
}

impl Batches {
    /// Splits chunks `chunks` of an array into batches of about `batch_bytes` bytes of elements.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if there are no such chunks.
    pub fn new(geometry: &Geometry, chunks: Range<u64>, element_bytes: u32, batch_bytes: u64) -> Result<Self> {
        if chunks.start > chunks.end || chunks.end > geometry.chunks() {
            return Err(CudaError::invalid(format!("chunks {chunks:?} of {}", geometry.chunks())));
        }
        let count = chunks.end - chunks.start;
        let tiles = u64::from(geometry.tiles_per_chunk()).min(geometry.tiles().max(1));
        let chunk_bytes = tiles * geometry.unclipped_len() * u64::from(element_bytes);
        let most = (batch_bytes / chunk_bytes).clamp(1, MOST_CHUNKS);
        let most = most.min(ChunkBatch::most_chunks(&DeviceGeometry::new(geometry)));
        // Distributes the chunks evenly over the batches.
        let each = count.div_ceil(count.div_ceil(most).max(1)).max(1);
        let starts = chunks.clone().step_by(usize::try_from(each).unwrap_or(usize::MAX));
        let batch = |start| ChunkBatch::new(geometry, start..chunks.end.min(start + each));
        Ok(Self { batches: starts.map(batch).collect::<Result<_>>()?, chunks: count })
    }

    /// Returns the batches, each with the number of chunks before it. None is longer than the first.
    pub fn numbered(&self) -> impl Iterator<Item = (u64, &ChunkBatch)> {
        let first = self.batches.first().map_or(0, ChunkBatch::first_chunk);
        self.batches.iter().map(move |batch| (batch.first_chunk() - first, batch))
    }

    /// Returns the number of chunks of all batches.
    pub fn chunks(&self) -> u64 {
        self.chunks
    }
}
