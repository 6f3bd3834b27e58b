//! Summaries of chunks after their codes: launcher of `kernels/quantize/finish.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaViewMut, DevicePtrMut};

use super::structs::{ChunkSummary, Outputs, RecordInputsArgument, SideOffsets};
use crate::device::{Device, Grid};
use crate::device_kernels::{Out, declare_kernels, launch};
use crate::error::Result;
use crate::geometry::{ChunkBatch, DeviceGeometry};

declare_kernels! {
    /// The kernel of `kernels/quantize/finish.cu`.
    pub(super) struct FinishKernels in "quantize/finish.cu" {
        const THREADS: u32 = 512;
        with CLUSTER = CLUSTER;
        fn quantize_finish(
            geometry: DeviceGeometry, batch: ChunkBatch, with_classes: bool, outputs: Outputs,
            offsets: Out<SideOffsets>, group_classes: Option<Out<u8>>, summaries: Out<ChunkSummary>,
            records: RecordInputsArgument,
        );
    }
}

/// Blocks that share a chunk on devices with thread block clusters.
const CLUSTER: u32 = 4;
/// The first architecture with thread block clusters.
const CLUSTER_ARCHITECTURE: u32 = 90;

/// Blocks that share a chunk. Each leaves one [`TileSums`](super::TileSums).
pub(crate) fn blocks_per_chunk(device: &Device) -> u32 {
    if device.info().architecture >= CLUSTER_ARCHITECTURE { CLUSTER } else { 1 }
}

/// Destinations of a launch in addition to the outputs of the kernel that computes codes.
pub(super) struct FinishOutputs<'f, 'v> {
    pub offsets: &'f mut CudaViewMut<'v, SideOffsets>,
    /// The class of each group, if wanted.
    pub group_classes: Option<&'f mut CudaViewMut<'v, u8>>,
    pub summaries: &'f mut CudaViewMut<'v, ChunkSummary>,
    pub records: RecordInputsArgument,
}

/// The kernel that finishes chunks.
#[derive(Debug)]
pub(super) struct FinishKernel {
    kernels: FinishKernels,
    blocks_per_chunk: u32,
}

impl FinishKernel {
    /// Loads the kernel for this device.
    ///
    /// # Errors
    /// The errors of [`Device::kernel`].
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self { kernels: FinishKernels::load(device)?, blocks_per_chunk: blocks_per_chunk(device) })
    }

    /// Queues the kernel behind the one that computes codes, for a batch with at least one tile.
    ///
    /// # Errors
    /// [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn launch(
        &self,
        stream: &Arc<CudaStream>,
        geometry: DeviceGeometry,
        batch: ChunkBatch,
        with_classes: bool,
        outputs: Outputs,
        to: FinishOutputs<'_, '_>,
    ) -> Result<()> {
        let FinishOutputs { offsets, group_classes, summaries, records } = to;
        let grid = Grid::new(batch.chunks() * self.blocks_per_chunk, THREADS).early(true);
        let classes = group_classes.map(|classes| -> &mut dyn DevicePtrMut<u8> { classes });
        // SAFETY: `Quantized::new` allocated an entry for each tile, each group slot and each chunk of the batch;
        // without group classes there are no groups to write to. `records` is all null, or was filled in by
        // `RecordInputs`, which has room for the batch's chunks. The kernel waits for the kernel before it prior to any
        // access.
        unsafe {
            launch!(self.kernels.quantize_finish on stream, grid; geometry, batch, with_classes, outputs, offsets,
                classes, summaries, records)
        }
    }
}
