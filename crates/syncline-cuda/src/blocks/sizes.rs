//! How much memory chunks of blocks need.

use syncline_core::contexts::lanes::MOST_LANES;
use syncline_core::geometry::Geometry;
use syncline_core::pipeline::blocks::{BOX_LOG2, MOST_LANES_LOG2};

use crate::geometry::ChunkBatch;

/// How much memory a chunk and a block can need.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Starts of units of a chunk.
    pub starts: usize,
    /// Anchors of a block: with slices, those of the longest axis.
    pub anchors: usize,
    /// Elements of a block.
    pub elements: usize,
    /// Units of a block.
    pub units: usize,
}

impl Sizes {
    pub fn new(geometry: &Geometry) -> Self {
        let elements = geometry.unclipped_len() as usize;
        // Those of the first part, and the boxes.
        let units = (1 << MOST_LANES_LOG2) / MOST_LANES + (elements >> BOX_LOG2).max(1);
        let tiles = u64::from(geometry.tiles_per_chunk()).min(geometry.tiles()) as usize;
        let longest = geometry.unclipped_extent().into_iter().max().unwrap_or(1);
        Self { starts: tiles * units + 1, anchors: if geometry.axes() > 1 { longest } else { 1 }, elements, units }
    }

    /// Returns the entries of the starts, anchors, and elements of a batch.
    pub fn of_batch(&self, batch: &ChunkBatch) -> [usize; 3] {
        let (chunks, tiles) = (batch.chunks() as usize, batch.tiles() as usize);
        [chunks * self.starts, tiles * self.anchors, tiles * self.elements]
    }
}
