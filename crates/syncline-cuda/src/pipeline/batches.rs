//! Splits the chunks of a stream into batches for decompression.

use std::ops::Range;

use super::StreamInfo;
use crate::error::Result;
use crate::geometry::ChunkBatch;

/// Consecutive chunks of a stream that are decompressed together.
#[derive(Debug)]
pub(super) struct Batch {
    /// The chunks of the batch and their tiles, computed from the whole array's geometry.
    pub(super) geometry: ChunkBatch,
    /// Length of each record in bytes.
    pub(super) lengths: Vec<u32>,
}

impl Batch {
    /// Returns the batch of these chunks.
    ///
    /// # Errors
    /// The errors of [`ChunkBatch::new`].
    pub(super) fn new(info: &StreamInfo, chunks: Range<u64>) -> Result<Self> {
        let geometry = ChunkBatch::new(info.geometry(), chunks.clone())?;
        // The chunk table stores lengths in 32 bits.
        let lengths = chunks.map(|chunk| info.record(chunk).1 as u32).collect();
        Ok(Self { geometry, lengths })
    }

    /// Returns batches of `most` chunks each; the last may have fewer.
    ///
    /// # Errors
    /// The errors of [`Self::new`].
    pub(super) fn all(info: &StreamInfo, chunks: Range<u64>, most: u64) -> Result<Vec<Self>> {
        let starts = (chunks.start..chunks.end).step_by(most as usize);
        starts.map(|first| Self::new(info, first..(first + most).min(chunks.end))).collect()
    }

    /// Returns the numbers of the chunks in the array.
    pub(super) fn chunks(&self) -> Range<u64> {
        let first = self.geometry.first_chunk();
        first..first + u64::from(self.geometry.chunks())
    }

    /// Returns the length of the longest record in bytes.
    pub(super) fn longest(&self) -> u32 {
        self.lengths.iter().copied().max().unwrap_or(0)
    }
}
