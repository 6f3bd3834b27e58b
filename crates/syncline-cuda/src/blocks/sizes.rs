//! How much memory chunks of blocks need.

use syncline_core::geometry::Geometry;
use syncline_core::pipeline::blocks::UNIT_LOG2;

use crate::geometry::ChunkBatch;

/// How much memory a chunk and a block can need.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Starts of units of a chunk.
    pub starts: usize,
    /// Anchors of a block: with slices, those of the longest axis.
    pub anchors: usize,
    pub masks: usize,
    /// Words of a bitmap.
    pub bitmap_words: usize,
    /// Units of a block.
    pub units: usize,
}

impl Sizes {
    pub fn new(geometry: &Geometry, masks: usize) -> Self {
        let elements = geometry.unclipped_len() as usize;
        // All codes but those of the first level, and boxes of these.
        let units = 1 + (elements >> UNIT_LOG2).max(1);
        let tiles = u64::from(geometry.tiles_per_chunk()).min(geometry.tiles()) as usize;
        let longest = geometry.unclipped_extent().into_iter().max().unwrap_or(1);
        Self {
            starts: tiles * units + 1,
            anchors: if geometry.axes() > 1 { longest } else { 1 },
            masks,
            bitmap_words: elements.div_ceil(32),
            units,
        }
    }

    /// Returns the entries of the starts, anchors, masks, and words of bitmaps of a batch.
    pub fn of_batch(&self, batch: &ChunkBatch) -> [usize; 4] {
        let (chunks, tiles) = (batch.chunks() as usize, batch.tiles() as usize);
        let masks = tiles * self.masks;
        [chunks * self.starts, tiles * self.anchors, masks, 2 * masks * self.bitmap_words]
    }
}
