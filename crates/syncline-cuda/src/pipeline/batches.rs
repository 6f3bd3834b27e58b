//! How the chunks of a stream are cut into batches, and what the host knows of each.

use std::ops::Range;

use super::StreamInfo;
use crate::error::Result;
use crate::geometry::ChunkBatch;

/// Consecutive chunks of a stream that are decompressed together.
#[derive(Debug)]
pub(super) struct Batch {
    /// Which they are, found by going through all chunks.
    pub(super) geometry: ChunkBatch,
    /// Bytes of each record.
    pub(super) lengths: Vec<u32>,
}

impl Batch {
    /// Of these chunks.
    ///
    /// # Errors
    /// Those of [`ChunkBatch::new`].
    pub(super) fn new(info: &StreamInfo, chunks: Range<u64>) -> Result<Self> {
        let geometry = ChunkBatch::new(info.geometry(), info.header().group_log2, chunks.clone())?;
        // The table has 32 bits for each.
        let lengths = chunks.map(|chunk| info.record(chunk).1 as u32).collect();
        Ok(Self { geometry, lengths })
    }

    /// Batches of `most` chunks each, but for the last.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(super) fn all(info: &StreamInfo, chunks: Range<u64>, most: u64) -> Result<Vec<Self>> {
        let starts = (chunks.start..chunks.end).step_by(most as usize);
        starts.map(|first| Self::new(info, first..(first + most).min(chunks.end))).collect()
    }

    /// Numbers of the chunks.
    pub(super) fn chunks(&self) -> Range<u64> {
        let first = self.geometry.first_chunk();
        first..first + u64::from(self.geometry.chunks())
    }

    /// Bytes of the longest record.
    pub(super) fn longest(&self) -> u32 {
        self.lengths.iter().copied().max().unwrap_or(0)
    }
}
