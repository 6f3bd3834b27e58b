//! Summaries of chunks after their codes: launcher of `kernels/quantize/finish.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaViewMut};

use super::structs::{ChunkSummary, Outputs, RecordInputsArgument, SideOffsets};
use crate::device::{Device, Kernel, ProgrammaticDependentLaunch, Source, Specialization, source};
use crate::error::Result;
use crate::geometry::{ChunkBatch, DeviceGeometry};

const SOURCE: Source = source!("quantize/finish.cu");
const THREADS: u32 = 512;
/// Blocks that share a chunk on devices with thread block clusters.
const CLUSTER: u32 = 4;
/// The first architecture with thread block clusters.
const CLUSTER_ARCHITECTURE: u32 = 90;

/// Blocks that share a chunk. Each leaves one [`TileSums`](super::TileSums).
pub(crate) fn blocks_per_chunk(device: &Device) -> u32 {
    if device.info().architecture >= CLUSTER_ARCHITECTURE { CLUSTER } else { 1 }
}

pub(super) fn specialization() -> Specialization {
    Specialization {
        assertions: String::new(),
        source: SOURCE,
        constants: vec![("THREADS", THREADS.into()), ("CLUSTER", CLUSTER.into())],
    }
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
    kernel: Kernel,
    blocks_per_chunk: u32,
}

impl FinishKernel {
    /// Loads the kernel for this device.
    ///
    /// # Errors
    /// The errors of [`Device::kernel`].
    pub fn new(device: &Device) -> Result<Self> {
        let kernel = device.kernel(&specialization(), "quantize_finish")?;
        Ok(Self { kernel, blocks_per_chunk: blocks_per_chunk(device) })
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
        let launch = ProgrammaticDependentLaunch::new(&self.kernel, stream);
        let launch = launch.value(geometry).value(batch).value(u32::from(with_classes)).value(outputs);
        let launch = launch.writes(to.offsets);
        let launch = match to.group_classes {
            Some(group_classes) => launch.writes(group_classes),
            None => launch.value(0_u64),
        };
        let launch = launch.writes(to.summaries).value(to.records);
        // SAFETY: the kernel's parameters are (Geometry, ChunkBatch, u32, Outputs, SideOffsets *, u8 *, ChunkSummary *,
        // RecordInputs). `Quantized::new` allocated an entry for each tile, each group slot and each chunk of the
        // batch; without group classes there are no groups to write to.
        // `records` is all null, or was filled in by `RecordInputs`, which has room for the batch's chunks. The kernel
        // waits for the kernel before it prior to any access.
        unsafe { launch.launch(Kernel::grid(batch.chunks() * self.blocks_per_chunk, THREADS, 0)) }
    }
}
