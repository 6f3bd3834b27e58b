//! Writes the records of a batch: launcher of `kernels/container/write.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaViewMut};

use super::layout::LaidOut;
use super::pieces::PieceWriter;
use super::structs::{EncodedTiles, RecordHeads, RecordPlan};
use crate::device::{Device, Grid};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::Result;
use crate::geometry::{ChunkBatch, DeviceGeometry, Slab};
use crate::strips::Encoded;

declare_kernels! {
    /// The kernel of `kernels/container/write.cu`.
    pub(super) struct WriteKernels in "container/write.cu" {
        /// Threads of a block.
        const THREADS: u32 = 256;
        fn container_write(
            geometry: DeviceGeometry, batch: ChunkBatch, encoded: EncodedTiles, heads: RecordHeads,
            plans: In<RecordPlan>, elements: In<u8> as "const void *", first_element: u64, blocks: u32, output: Out<u8>,
        );
    }
}

/// Blocks that a multiprocessor should have, so that batches of few chunks are written by all of them.
const BLOCKS_EACH: u32 = 8;
/// Most blocks that write a record.
const MOST_BLOCKS: u32 = 64;

/// Writes records, but for their own checksums.
#[derive(Debug)]
pub(super) struct RecordWriter {
    kernels: WriteKernels,
    of_pieces: PieceWriter,
    multiprocessors: u32,
}

impl RecordWriter {
    pub fn new(device: &Device) -> Result<Self> {
        let (kernels, of_pieces) = (WriteKernels::load(device)?, PieceWriter::new(device)?);
        Ok(Self { kernels, of_pieces, multiprocessors: device.info().multiprocessors })
    }

    /// Writes the records of a batch to their places. The slab holds the elements of its chunks, as the caller has
    /// checked.
    pub fn write(
        &self,
        stream: &Arc<CudaStream>,
        geometry: &DeviceGeometry,
        laid_out: &mut LaidOut<'_>,
        encoded: &Encoded<'_>,
        slab: &Slab<'_>,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        let batch = laid_out.batch;
        let blocks = (BLOCKS_EACH * self.multiprocessors).div_ceil(batch.chunks()).clamp(1, MOST_BLOCKS);
        let (encoded, heads) = (EncodedTiles::new(stream, encoded), laid_out.heads(stream));
        let grid = Grid::new(batch.chunks() * blocks, THREADS).early(true);
        let plans = laid_out.plans.as_view();
        // SAFETY: the layout made plans that lie within the output or say that there is no room, of the same encoded
        // tiles. The slab has the elements, of the size in `heads`. The kernel waits for the one before it.
        unsafe {
            launch!(self.kernels.container_write on stream, grid; *geometry, batch, encoded, heads, &plans,
                &slab.bytes, slab.first_element, blocks, output)
        }?;
        self.of_pieces.write(stream, &plans, (batch.chunks(), blocks), output)
    }
}
