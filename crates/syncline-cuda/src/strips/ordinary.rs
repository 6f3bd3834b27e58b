//! Encodes whole ordinary tiles: launcher of `kernels/strips/encode_ordinary.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut};
use syncline_core::array::ElementType;
use syncline_core::container::MAX_CLASSES;
use syncline_core::strips::{STRIP_LEN, SYMBOLS};

use super::encoder::Work;
use super::structs::{ChunkChoice, TileOutputs};
use crate::device::{Device, Grid, Specialization};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::Result;
use crate::geometry::{ChunkBatch, DeviceGeometry};
use crate::predict::{lines, points, whole_tiles};
use crate::quantize::compiled_types;

declare_kernels! {
    /// The kernel of `kernels/strips/encode_ordinary.cu`.
    struct OrdinaryKernels in "strips/encode_ordinary.cu", of (shape: OrdinaryShape) {
        with SHAPE = shape.constants();
        with ELEMENT_TYPE = shape.element as u32;
        with ELEMENT_BYTES = shape.value_bytes();
        with LOGARITHM = shape.logarithm;
        with MEASURE = false;
        with AXES = shape.axes;
        with TILE_ELEMENTS = shape.elements();
        with WARPS = shape.warps();
        with MEMORY_BYTES = shape.memory_bytes();
        with RESIDENT = shape.resident();
        fn encode_ordinary(
            slab: In<u8> as "const Stored *", first_element: u64, geometry: DeviceGeometry, batch: ChunkBatch,
            step: In<u64> as "const Step *", vectors: u32, schemes: In<u32>, choices: In<ChunkChoice>,
            codewords: In<u32>, outputs: TileOutputs, listed: Out<u32>, rounds: u32, pieces: Out<u32>,
        );
    }
}

/// Rounds in which blocks take tiles, at most, and tiles of a warp in a round, about, at least.
const MOST_ROUNDS: u32 = 3;
/// See [`MOST_ROUNDS`].
const FEWEST_TILES: u32 = 8;
/// Words of a table of small codes, as in `ordinary_bits.cuh`.
const SMALL_WORDS: u32 = 132;

/// Tiles of 1,024, of 32x32, or of 8x8x8, and what is in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrdinaryShape {
    pub axes: u32,
    pub element: ElementType,
    pub logarithm: bool,
    /// Shared memory that a block can have, in bytes.
    pub shared_memory: u32,
}

impl OrdinaryShape {
    /// Returns the shape on devices that have much shared memory.
    pub fn new(axes: u32, element: ElementType, logarithm: bool) -> Self {
        Self { axes, element, logarithm, shared_memory: LARGE_SHARED_MEMORY }
    }

    /// Bytes of a value that is computed with.
    fn value_bytes(self) -> u32 {
        self.element.computed().size() as u32
    }

    fn is_cube(self) -> bool {
        self.axes == 3
    }

    fn elements(self) -> u32 {
        if self.is_cube() { 512 } else { 1024 }
    }

    fn layout(self) -> points::Layout {
        points::Layout::new(self.value_bytes() as usize)
    }

    /// Returns the constants of `kernels/predict/ordinary.cuh`.
    pub fn constants(self) -> Vec<(&'static str, u64)> {
        let layout = self.layout();
        let of_rows = || {
            let numbers = [
                ("WIDTH", 32),
                ("PASSES_AT", points::PASSES_AT),
                ("CLASSES_AT", points::CLASSES_AT),
                ("LINES_AT", layout.lines_at),
                ("CODES_AT", layout.codes_at),
                ("TABLE_WORDS", layout.words),
                ("STRIP_ROOM", points::STRIP_ROOM),
            ];
            numbers.map(|(name, number)| (name, number as u64)).to_vec()
        };
        let mut all = if self.is_cube() { lines::constants() } else { of_rows() };
        all.push(("ROWS", u64::from(!self.is_cube())));
        all
    }

    /// Copies the tables of all schemes to the device.
    pub fn tables(self, stream: &Arc<CudaStream>) -> Result<CudaSlice<u32>> {
        whole_tiles::copied(stream, self.axes, self.value_bytes(), self.logarithm)
    }

    /// Warps of a block: as many as registers suffice for, and shared memory.
    fn warps(self) -> u32 {
        let most = match (self.is_cube(), self.value_bytes()) {
            (true, 4) => 8,
            (false, 4) => 16,
            (true, _) => 4,
            (false, _) => 3,
        };
        (self.shared_memory.saturating_sub(self.table_bytes()) / self.warp_bytes()).clamp(1, most)
    }

    /// Blocks of a multiprocessor that registers are to suffice for.
    fn resident(self) -> u32 {
        match (self.is_cube(), self.value_bytes()) {
            (true, 4) => 3,
            (false, 4) => 1,
            _ => 4,
        }
    }

    /// Shared memory of a tile in bytes.
    fn tile_bytes(self) -> u32 {
        let elements = self.elements();
        let (values, strip_room) = match self.is_cube() {
            true => (8 * lines::PLANE as u32, lines::STRIP_ROOM as u32),
            false => (elements + elements / 32, points::STRIP_ROOM as u32),
        };
        let codes = 4 * elements / STRIP_LEN as u32 * strip_room;
        (values * self.value_bytes()).max(4 * elements + 4).next_multiple_of(16) + codes
    }

    /// Shared memory of a warp in bytes.
    fn warp_bytes(self) -> u32 {
        // The elements of the next tile, unless these are more.
        let staged = self.elements() * self.value_bytes();
        self.tile_bytes() + 32 + if staged <= 4096 { staged } else { 0 }
    }

    /// Shared memory of the tables of a block in bytes.
    fn table_bytes(self) -> u32 {
        let table = if self.is_cube() { lines::TABLE_WORDS as u32 } else { self.layout().words as u32 };
        4 * (MAX_CLASSES as u32 * (SYMBOLS as u32 + SMALL_WORDS) + table) + 80
    }

    /// Shared memory of a block in bytes, which the kernel checks.
    fn memory_bytes(self) -> u32 {
        self.warps() * self.warp_bytes() + self.table_bytes()
    }
}

/// Shared memory of a block that devices have that have much of it.
const LARGE_SHARED_MEMORY: u32 = 227 << 10;

/// Returns every specialization, for the check that all of them compile.
pub(super) fn specializations() -> Vec<Specialization> {
    let mut all = Vec::new();
    for axes in 1..=3 {
        for element in compiled_types().filter(|element| element.is_computed() || axes == 3) {
            for logarithm in [false, true].into_iter().filter(|logarithm| !logarithm || element.is_float()) {
                all.push(OrdinaryKernels::specialization(OrdinaryShape::new(axes, element, logarithm)));
            }
        }
    }
    all
}

/// Encodes whole ordinary tiles.
#[derive(Debug)]
pub(super) struct OrdinaryEncoder {
    shape: OrdinaryShape,
    kernels: OrdinaryKernels,
    blocks: u32,
}

impl OrdinaryEncoder {
    /// Loads the kernel.
    pub fn new(device: &Device, shape: OrdinaryShape) -> Result<Self> {
        let shape = OrdinaryShape { shared_memory: device.info().shared_memory_per_block, ..shape };
        let kernels = OrdinaryKernels::load(device, shape)?;
        kernels.encode_ordinary.allow_shared_memory(shape.memory_bytes())?;
        let resident = kernels.encode_ordinary.blocks_per_multiprocessor(32 * shape.warps(), shape.memory_bytes())?;
        Ok(Self { shape, kernels, blocks: device.info().multiprocessors * resident.max(1) })
    }

    /// Queues the encoding of the ordinary tiles of a batch. `schemes` has the tables of all schemes. `listed` receives
    /// the number of the others, which must be 0 before, and these; `pieces` is a counter that is 0 before.
    pub fn encode(
        &self,
        work: &Work<'_>,
        codewords: &CudaView<'_, u32>,
        choices: &CudaView<'_, ChunkChoice>,
        outputs: TileOutputs,
        schemes: &CudaSlice<u32>,
        (listed, pieces): (&mut CudaViewMut<'_, u32>, &mut CudaViewMut<'_, u32>),
    ) -> Result<()> {
        let (slab, geometry, batch) = (work.slab, work.geometry(), work.batch);
        let warps = self.shape.warps();
        let blocks = self.blocks.min(batch.tiles().div_ceil(warps));
        let grid = Grid::new(blocks, 32 * warps).shared_memory(self.shape.memory_bytes());
        // Each round has half of the tiles of the one before, as long as all warps have some.
        let rounds = (batch.tiles() / (blocks * warps * FEWEST_TILES)).max(1).ilog2() + 1;
        // SAFETY: the slab has the elements of the batch. There are codewords and a choice for each chunk, outputs for
        // each tile, and `listed` has room for the number and all tiles. `self` outlives the work of the stream.
        unsafe {
            launch!(self.kernels.encode_ordinary on work.stream, grid; &slab.bytes, slab.first_element, *geometry,
                *batch, work.step, work.vectors(), schemes, choices, codewords, outputs, listed,
                rounds.min(MOST_ROUNDS), pieces)
        }
    }
}
