//! Codes with radius 32,768: launcher of `kernels/quantize/wide.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView};
use syncline_core::predict::codes::WIDE_RADIUS;

use super::WARPS;
use super::quantized::Quantized;
use super::quantizer::Quantizer;
use super::step::{Constants, KernelVariant};
use super::structs::{ChunkSummary, Outputs};
use crate::device::{Frame, Grid};
use crate::device_kernels::{In, declare_kernels, launch};
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry, Slab};

declare_kernels! {
    /// The kernel of `kernels/quantize/wide.cu`.
    pub(super) struct WideKernels in "quantize/wide.cu", of (variant: KernelVariant), by (step_in_memory: bool) {
        with ELEMENT_BYTES = variant.element_bytes;
        with LOGARITHM = variant.logarithm;
        with AXES = variant.axes;
        with WARPS = WARPS;
        fn quantize_wide(
            slab: In<u8> as "const Element *", first_element: u64, geometry: DeviceGeometry, batch: ChunkBatch,
            constants: Constants<'static>, chunks: In<u32>, outputs: Outputs,
        );
    }
}

/// The largest second dimension of a grid: chunks of one launch.
pub(super) const MAX_LISTED: usize = 65_535;

/// Queues `quantize_wide` for the listed chunks of a batch, at most [`MAX_LISTED`], each of which is a chunk of the
/// batch, or `NO_CHUNK` of `kernels/quantize/summary.cuh`. The caller has checked that the slab holds the elements.
pub(super) fn launch_wide(
    kernels: &WideKernels,
    stream: &Arc<CudaStream>,
    slab: &Slab<'_>,
    (geometry, batch, constants): (&DeviceGeometry, &ChunkBatch, Constants<'_>),
    chunks: &CudaView<'_, u32>,
    outputs: &Outputs,
) -> Result<()> {
    let blocks = (batch.tiles_of(0).len() as u32).div_ceil(WARPS);
    let grid = Grid::new(blocks, WARPS * 32).rows(chunks.len() as u32);
    // SAFETY: the listed chunks are below `batch.chunks()`, the caller has checked that the slab holds their
    // elements, and their codes go to the slots that the kernel of radius 512 used.
    unsafe {
        launch!(kernels.quantize_wide on stream, grid; &slab.bytes, slab.first_element, *geometry, *batch, constants,
            chunks, *outputs)
    }
}

impl Quantizer {
    /// Rewrites the codes of those chunks of the batch whose summaries say that they take radius 32,768.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if summaries or slab do not fit the batch; [`CudaError::OutOfMemory`];
    /// [`CudaError::Driver`].
    pub fn widen(
        &self,
        frame: &mut Frame<'_>,
        slab: &Slab<'_>,
        quantized: &mut Quantized<'_>,
        summaries: &[ChunkSummary],
    ) -> Result<()> {
        let stream = frame.stream().clone();
        let batch = quantized.batch;
        self.check(&stream, slab, &batch)?;
        if summaries.len() != batch.chunks() as usize {
            return Err(CudaError::invalid(format!("{} summaries for {} chunks", summaries.len(), batch.chunks())));
        }
        let wide: Vec<u32> = (0..batch.chunks()).filter(|&c| summaries[c as usize].radius == WIDE_RADIUS).collect();
        for listed in wide.chunks(MAX_LISTED) {
            let mut chunks = frame.slice::<u32>(listed.len())?;
            stream.memcpy_htod(listed, &mut chunks).doing("uploading the list of chunks")?;
            let (outputs, kernels) = (quantized.outputs(&stream), &self.scalar_tile.wide);
            let what = (&self.device_geometry, &batch, Constants::Known(&self.step));
            launch_wide(kernels, &stream, slab, what, &chunks.as_view(), &outputs)?;
        }
        Ok(())
    }
}
