//! A batch of quantized chunks in device memory.

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaViewMut, DevicePtrMut};

use super::structs::{ChunkSummary, Outputs, SideOffsets};
use crate::device::{Frame, fetch};
use crate::error::Result;
use crate::geometry::ChunkBatch;

impl Outputs {
    /// Replaces the counts of outliers.
    pub(super) fn with_outliers(mut self, counts: CUdeviceptr) -> Self {
        self.outliers = counts;
        self
    }
}

/// A batch of quantized chunks, in memory of an arena. Tiles are numbered from the batch's first.
#[derive(Debug)]
pub struct Quantized<'a> {
    /// Chunks of the batch.
    pub batch: ChunkBatch,
    /// Bit fields of each tile: [`TileBits`](super::TileBits).
    pub metas: CudaViewMut<'a, u16>,
    /// Base of each tile.
    pub bases: CudaViewMut<'a, i32>,
    /// Histogram bin of each tile's activity.
    pub bins: CudaViewMut<'a, u8>,
    /// Number of outliers of each tile.
    pub outliers: CudaViewMut<'a, u16>,
    /// Number of verbatim values of each tile.
    pub verbatim: CudaViewMut<'a, u16>,
    /// First group of each tile in its chunk; for a constant tile that of the next.
    pub first_groups: CudaViewMut<'a, u32>,
    /// Codes of the tiles that are not constant, dense. Those of chunk `i` of the batch start at group
    /// [`ChunkBatch::first_slot`].
    pub codes: CudaViewMut<'a, u16>,
    /// Class of each group, at the same places; 0 where a chunk takes the wide radius, and without the symbol index.
    pub group_classes: CudaViewMut<'a, u8>,
    /// Summary of each chunk.
    pub summaries: CudaViewMut<'a, ChunkSummary>,
    /// Start of each tile's entries in its chunk's side lists.
    pub(crate) offsets: CudaViewMut<'a, SideOffsets>,
    wide_outliers: CudaViewMut<'a, u16>,
    errors: Option<CudaViewMut<'a, u64>>,
    counted: Option<CudaViewMut<'a, u16>>,
}

impl<'a> Quantized<'a> {
    pub(super) fn new(frame: &mut Frame<'a>, batch: ChunkBatch, group_log2: u32, measure: bool) -> Result<Self> {
        let (tiles, chunks) = (batch.tiles() as usize, batch.chunks() as usize);
        let groups = batch.first_slot(batch.chunks()) as usize;
        Ok(Self {
            batch,
            metas: frame.slice(tiles)?,
            bases: frame.slice(tiles)?,
            bins: frame.slice(tiles)?,
            outliers: frame.slice(tiles)?,
            verbatim: frame.slice(tiles)?,
            first_groups: frame.slice(tiles)?,
            codes: frame.slice(groups << group_log2)?,
            group_classes: frame.slice(groups)?,
            summaries: frame.slice(chunks)?,
            offsets: frame.slice(tiles)?,
            wide_outliers: frame.slice(tiles)?,
            errors: measure.then(|| frame.slice(tiles)).transpose()?,
            counted: measure.then(|| frame.slice(tiles)).transpose()?,
        })
    }

    pub(super) fn outputs(&mut self, stream: &Arc<CudaStream>) -> Outputs {
        // All arrays are used on this one stream only, so that its order suffices and the guards need not be kept.
        Outputs {
            metas: self.metas.device_ptr_mut(stream).0,
            bases: self.bases.device_ptr_mut(stream).0,
            bins: self.bins.device_ptr_mut(stream).0,
            outliers: self.outliers.device_ptr_mut(stream).0,
            wide_outliers: self.wide_outliers.device_ptr_mut(stream).0,
            verbatim: self.verbatim.device_ptr_mut(stream).0,
            first_groups: self.first_groups.device_ptr_mut(stream).0,
            errors: self.errors.as_mut().map_or(0, |errors| errors.device_ptr_mut(stream).0),
            counted: self.counted.as_mut().map_or(0, |counted| counted.device_ptr_mut(stream).0),
            codes: self.codes.device_ptr_mut(stream).0,
        }
    }

    /// Copies the summaries to the host. Waits for the stream.
    ///
    /// # Errors
    /// `CudaError::Driver`.
    pub fn read_summaries(&self, stream: &Arc<CudaStream>) -> Result<Vec<ChunkSummary>> {
        if self.summaries.is_empty() {
            return Ok(Vec::new());
        }
        fetch(stream, &self.summaries, "reading what came out of the chunks")
    }
}
