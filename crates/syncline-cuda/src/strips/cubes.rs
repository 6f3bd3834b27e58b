//! Encodes whole ordinary tiles of 8x8x8 of f32: launcher of `kernels/strips/encode_cubes.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use cudarc::driver::{CudaSlice, CudaView, CudaViewMut};
use syncline_core::container::MAX_CLASSES;
use syncline_core::strips::SYMBOLS;

use super::encoder::Work;
use super::structs::{ChunkChoice, TileOutputs};
use crate::device::{Device, Grid, Specialization};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::Result;
use crate::geometry::{ChunkBatch, DeviceGeometry};
use crate::predict::lines;

declare_kernels! {
    /// The kernel of `kernels/strips/encode_cubes.cu`.
    struct CubeKernels in "strips/encode_cubes.cu" {
        /// Warps of a block.
        const WARPS: u32 = 8;
        with ELEMENT_BYTES = 4u32;
        with LOGARITHM = false;
        with MEASURE = false;
        with AXES = 3u32;
        with TILE_ELEMENTS = 512u32;
        with TILE_WARPS = 1u32;
        with MEMORY_BYTES = MEMORY_BYTES;
        with LINES = lines::constants();
        fn encode_cubes(
            slab: In<u8> as "const Element *", first_element: u64, geometry: DeviceGeometry, batch: ChunkBatch,
            step: In<u64> as "const Step *", vectors: u32, lines: In<u32>, choices: In<ChunkChoice>,
            codewords: In<u32>, outputs: TileOutputs, listed: Out<u32>,
        );
    }
}

/// Shared memory of a block in bytes, which the kernel checks.
const MEMORY_BYTES: u32 = WARPS * WARP_BYTES + 4 * (MAX_CLASSES * SYMBOLS + lines::TABLE_WORDS) as u32 + 48;
/// Of which each warp has so much: values, codes in two ways, bits.
const WARP_BYTES: u32 = 4 * 8 * lines::PLANE as u32 + 2 * 2 * 4 * lines::STRIP_ROOM as u32 + 4 * (290 + 4 + 2);

/// Encodes whole ordinary tiles.
#[derive(Debug)]
pub(super) struct CubeEncoder {
    kernels: CubeKernels,
    blocks: u32,
}

impl CubeEncoder {
    /// Loads the kernel.
    pub fn new(device: &Device) -> Result<Self> {
        let kernels = CubeKernels::load(device)?;
        kernels.encode_cubes.allow_shared_memory(MEMORY_BYTES)?;
        let resident = kernels.encode_cubes.blocks_per_multiprocessor(32 * WARPS, MEMORY_BYTES)?;
        Ok(Self { kernels, blocks: device.info().multiprocessors * resident.max(1) })
    }

    /// Returns the source with its constants.
    pub fn specialization() -> Specialization {
        CubeKernels::specialization()
    }

    /// Queues the encoding of the ordinary tiles of a batch. `lines` has the tables of lines of all schemes. `listed` receives the number of the others, which must be 0
    /// before, and these.
    pub fn encode(
        &self,
        work: &Work<'_>,
        codewords: &CudaView<'_, u32>,
        choices: &CudaView<'_, ChunkChoice>,
        outputs: TileOutputs,
        (lines, listed): (&CudaSlice<u32>, &mut CudaViewMut<'_, u32>),
    ) -> Result<()> {
        let (slab, geometry, batch) = (work.slab, work.geometry(), work.batch);
        let grid = Grid::new(self.blocks.min(batch.tiles().div_ceil(WARPS)), 32 * WARPS).shared_memory(MEMORY_BYTES);
        // SAFETY: the slab has the elements of the batch. There are codewords and a choice for each chunk, outputs for
        // each tile, and `listed` has room for the number and all tiles. `self` outlives the work of the stream.
        unsafe {
            launch!(self.kernels.encode_cubes on work.stream, grid; &slab.bytes, slab.first_element, *geometry, *batch,
                work.step, work.vectors(), lines, choices, codewords, outputs, listed)
        }
    }
}
