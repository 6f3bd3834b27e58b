//! Codes with radius 32,768: launcher of `kernels/quantize/wide.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView};

use super::WARPS;
use super::step::{Constants, KernelVariant};
use super::structs::Outputs;
use crate::device::Grid;
use crate::device_kernels::{In, declare_kernels, launch};
use crate::error::Result;
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
