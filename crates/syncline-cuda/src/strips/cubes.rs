//! Encodes whole ordinary tiles of 8x8x8: launcher of `kernels/strips/encode_cubes.cu`.

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
    struct CubeKernels in "strips/encode_cubes.cu", of (format: CubeFormat) {
        with ELEMENT_BYTES = format.element_bytes;
        with LOGARITHM = format.logarithm;
        with MEASURE = false;
        with AXES = 3u32;
        with TILE_ELEMENTS = 512u32;
        with TILE_WARPS = 1u32;
        with WARPS = format.warps();
        with MEMORY_BYTES = format.memory_bytes();
        with RESIDENT = format.resident();
        with LINES = lines::constants();
        fn encode_cubes(
            slab: In<u8> as "const Element *", first_element: u64, geometry: DeviceGeometry, batch: ChunkBatch,
            step: In<u64> as "const Step *", vectors: u32, lines: In<u32>, choices: In<ChunkChoice>,
            codewords: In<u32>, outputs: TileOutputs, listed: Out<u32>,
        );
    }
}

/// What the kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CubeFormat {
    pub element_bytes: u32,
    pub logarithm: bool,
}

impl CubeFormat {
    /// All formats.
    pub const ALL: [Self; 4] = [
        Self { element_bytes: 4, logarithm: false },
        Self { element_bytes: 8, logarithm: false },
        Self { element_bytes: 4, logarithm: true },
        Self { element_bytes: 8, logarithm: true },
    ];

    /// Warps of a block.
    fn warps(self) -> u32 {
        32 / self.element_bytes
    }

    /// Blocks of a multiprocessor that registers are to suffice for.
    fn resident(self) -> u32 {
        if self.element_bytes == 4 { 3 } else { 4 }
    }

    /// Shared memory of a block in bytes, which the kernel checks.
    fn memory_bytes(self) -> u32 {
        let (values, codes, bits) = (self.element_bytes * 8 * lines::PLANE as u32, 16 * lines::STRIP_ROOM as u32, 1184);
        self.warps() * (values + codes + bits) + 4 * (MAX_CLASSES * SYMBOLS + lines::TABLE_WORDS) as u32 + 48
    }
}

/// Encodes whole ordinary tiles.
#[derive(Debug)]
pub(super) struct CubeEncoder {
    format: CubeFormat,
    kernels: CubeKernels,
    blocks: u32,
}

impl CubeEncoder {
    /// Loads the kernel.
    pub fn new(device: &Device, format: CubeFormat) -> Result<Self> {
        let kernels = CubeKernels::load(device, format)?;
        kernels.encode_cubes.allow_shared_memory(format.memory_bytes())?;
        let resident = kernels.encode_cubes.blocks_per_multiprocessor(32 * format.warps(), format.memory_bytes())?;
        Ok(Self { format, kernels, blocks: device.info().multiprocessors * resident.max(1) })
    }

    /// Returns the sources with their constants.
    pub fn specializations() -> Vec<Specialization> {
        CubeFormat::ALL.map(CubeKernels::specialization).to_vec()
    }

    /// Queues the encoding of the ordinary tiles of a batch. `lines` has the tables of lines of all schemes. `listed`
    /// receives the number of the others, which must be 0 before, and these.
    pub fn encode(
        &self,
        work: &Work<'_>,
        codewords: &CudaView<'_, u32>,
        choices: &CudaView<'_, ChunkChoice>,
        outputs: TileOutputs,
        (lines, listed): (&CudaSlice<u32>, &mut CudaViewMut<'_, u32>),
    ) -> Result<()> {
        let (slab, geometry, batch) = (work.slab, work.geometry(), work.batch);
        let warps = self.format.warps();
        let grid = Grid::new(self.blocks.min(batch.tiles().div_ceil(warps)), 32 * warps);
        let grid = grid.shared_memory(self.format.memory_bytes());
        // SAFETY: the slab has the elements of the batch. There are codewords and a choice for each chunk, outputs for
        // each tile, and `listed` has room for the number and all tiles. `self` outlives the work of the stream.
        unsafe {
            launch!(self.kernels.encode_cubes on work.stream, grid; &slab.bytes, slab.first_element, *geometry, *batch,
                work.step, work.vectors(), lines, choices, codewords, outputs, listed)
        }
    }
}
