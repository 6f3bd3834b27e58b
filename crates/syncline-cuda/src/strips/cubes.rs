//! Encodes whole ordinary tiles of 8x8x8 of f32: launcher of `kernels/strips/encode_cubes.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr};
use syncline_core::container::MAX_CLASSES;
use syncline_core::strips::SYMBOLS;

use super::encoder::Work;
use super::structs::{ChunkChoice, TileOutputs};
use crate::device::{Device, Grid, Specialization};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, DriverContext, Result};
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
        with ROW = lines::ROW;
        with PLANE = lines::PLANE;
        with STORED = lines::STORED;
        with STRIP_ROOM = lines::STRIP_ROOM;
        with TABLE_WORDS = lines::TABLE_WORDS;
        with LINES_AT = lines::LINES_AT;
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
    lines: CudaSlice<u32>,
    blocks: u32,
}

impl CubeEncoder {
    /// Loads the kernel, and copies the tables of lines to the device on `stream`.
    pub fn new(device: &Device, stream: &Arc<CudaStream>) -> Result<Self> {
        let kernels = CubeKernels::load(device)?;
        kernels.encode_cubes.allow_shared_memory(MEMORY_BYTES)?;
        let resident = kernels.encode_cubes.blocks_per_multiprocessor(32 * WARPS, MEMORY_BYTES)?;
        let tables = lines::tables().ok_or_else(|| CudaError::invalid("lines of tiles are not as the kernel needs"))?;
        Ok(Self {
            kernels,
            lines: stream.clone_htod(&tables).doing("copying the lines of tiles")?,
            blocks: device.info().multiprocessors * resident.max(1),
        })
    }

    /// Returns the source with its constants.
    pub fn specialization() -> Specialization {
        CubeKernels::specialization()
    }

    /// Queues the encoding of the ordinary tiles of a batch. `listed` receives the number of the others, which must be 0
    /// before, and these.
    pub fn encode(
        &self,
        work: &Work<'_>,
        codewords: &CudaView<'_, u32>,
        choices: &CudaView<'_, ChunkChoice>,
        outputs: TileOutputs,
        listed: &mut CudaViewMut<'_, u32>,
    ) -> Result<()> {
        let (slab, geometry, batch) = (work.slab, work.geometry(), work.batch);
        // Where element 0 of the array would be.
        let origin = slab.bytes.device_ptr(work.stream).0.wrapping_sub(4 * slab.first_element);
        let vectors = origin.is_multiple_of(16) && geometry.row().is_multiple_of(4);
        let grid = Grid::new(self.blocks.min(batch.tiles().div_ceil(WARPS)), 32 * WARPS).shared_memory(MEMORY_BYTES);
        // SAFETY: the slab has the elements of the batch. There are codewords and a choice for each chunk, outputs for
        // each tile, and `listed` has room for the number and all tiles. `self` outlives the work of the stream.
        unsafe {
            launch!(self.kernels.encode_cubes on work.stream, grid; &slab.bytes, slab.first_element, *geometry, *batch,
                work.step, vectors.into(), &self.lines, choices, codewords, outputs, listed)
        }
    }
}
