//! Writes the checksums of the pieces of records: launcher of `kernels/container/pieces.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut};

use super::structs::RecordPlan;
use crate::device::{Device, Grid};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::Result;

declare_kernels! {
    /// The kernel of `kernels/container/pieces.cu`.
    pub(super) struct PieceKernels in "container/pieces.cu" {
        /// Threads of a block.
        const THREADS: u32 = 256;
        fn container_pieces(plans: In<RecordPlan>, blocks: u32, output: Out<u8>);
    }
}

/// Writes the checksums of pieces.
#[derive(Debug)]
pub(super) struct PieceWriter {
    kernels: PieceKernels,
}

impl PieceWriter {
    pub fn new(device: &Device) -> Result<Self> {
        PieceKernels::load(device).map(|kernels| Self { kernels })
    }

    /// Writes the checksums of records that the kernel before has written to the places in their plans, by `blocks`
    /// blocks for each of `chunks` chunks.
    pub fn write(
        &self,
        stream: &Arc<CudaStream>,
        plans: &CudaView<'_, RecordPlan>,
        (chunks, blocks): (u32, u32),
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        let grid = Grid::new(chunks * blocks, THREADS).early(true);
        // SAFETY: the plans lie within the output or say that there is no room. The kernel waits for the one before it.
        unsafe { launch!(self.kernels.container_pieces on stream, grid; plans, blocks, output) }
    }
}
