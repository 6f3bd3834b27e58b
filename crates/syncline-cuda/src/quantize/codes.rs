//! Elements to codes: chooses and launches one of the kernels `kernels/quantize/codes/{direct,staged}.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

mod direct;
mod staged;

use crate::device::Specialization;
use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaViewMut, DevicePtr};
use syncline_core::geometry::Geometry;

use self::direct::DirectKernels;
use self::staged::StagedKernels;
use super::step::{Constants, KernelVariant, STEP_WORDS};
use super::structs::{CodesLaunch, Outputs, StagedLaunch, Step};
use crate::device::{Device, Grid};
use crate::device_kernels::launch;
use crate::error::{CudaError, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry, Divider32, Slab};

/// Units of a block on devices with little shared memory.
const MIN_UNITS: u32 = 4;
/// Chunks whose blocks of work alternate. 64 measured faster than 32, and 32 faster than 4.
const CHUNKS_PER_WAVE: u32 = 64;
/// Words in a cache line of the control words: `LINE_WORDS` in quantize/quantize.cuh.
const LINE_WORDS: u64 = 32;

/// Shape of a kernel's blocks.
#[derive(Clone, Copy, Debug)]
struct BlockShape {
    /// Units of 1,024 elements that a block works on at a time, one per warp.
    units: u32,
    /// Blocks per multiprocessor. This limits the registers of a thread: 80 with 24 warps per multiprocessor, 96 with
    /// 20, 128 with 16.
    blocks: u32,
}

/// Inputs and outputs of a launch.
pub(super) struct CodesArguments<'c, 'v> {
    /// Elements that include all those of the batch's chunks.
    pub slab: &'c Slab<'v>,
    pub geometry: &'c Geometry,
    pub device_geometry: DeviceGeometry,
    pub batch: ChunkBatch,
    pub constants: Constants<'c>,
    /// Whether the kernel that directly precedes scans the same elements and computes the constants in memory.
    pub follows_scan: bool,
    /// Whether tiles may take the vector path; otherwise all take the scalar path.
    pub use_vector: bool,
    pub outputs: Outputs,
}

/// The kernel that is used.
#[derive(Debug)]
enum Kernels {
    /// Loads elements straight into registers.
    Direct(DirectKernels),
    /// Stages elements in shared memory. Only this one may be queued behind a scan.
    Staged(StagedKernels),
}

/// The kernel from elements to codes for one kind of stream and one tiling.
#[derive(Debug)]
pub(super) struct CodesKernel {
    kernels: Kernels,
    variant: KernelVariant,
    /// Whether constants are in memory. The kernel that stages elements takes them both ways.
    step_in_memory: bool,
    /// Units that a block works on at a time.
    units: u32,
    /// Threads and shared memory of a block.
    threads: u32,
    shared_memory: u32,
    /// Blocks that the device runs concurrently.
    blocks: u32,
}

impl CodesKernel {
    /// Chooses and loads the kernel, for constants in memory if `step_in_memory`.
    ///
    /// # Errors
    /// The errors of [`Device::kernel`].
    pub fn new(device: &Device, variant: KernelVariant, geometry: &Geometry, step_in_memory: bool) -> Result<Self> {
        let staged = staged::applies(variant, geometry);
        let shape = if staged { staged::block_shape(variant) } else { direct::BLOCK_SHAPE };
        let bytes = |units| if staged { staged::shared_memory(variant, units) } else { direct::shared_memory(units) };
        let fits = bytes(shape.units) <= device.info().shared_memory_per_block;
        let units = if fits { shape.units } else { MIN_UNITS };
        let shape = BlockShape { units, ..shape };
        let (kernels, threads) = if staged {
            let many_clipped = staged::has_many_clipped(variant, geometry);
            (Kernels::Staged(StagedKernels::load(device, variant, shape, many_clipped)?), staged::threads(units))
        } else {
            (Kernels::Direct(DirectKernels::load(device, variant, shape, step_in_memory)?), direct::threads(units))
        };
        let kernel = match &kernels {
            Kernels::Direct(kernels) => &kernels.quantize_codes_direct,
            Kernels::Staged(kernels) => &kernels.quantize_codes_staged,
        };
        let shared_memory = bytes(units);
        kernel.allow_shared_memory(shared_memory)?;
        let resident = kernel.blocks_per_multiprocessor(threads, shared_memory)?.max(1);
        let blocks = resident * device.info().multiprocessors;
        Ok(Self { kernels, variant, step_in_memory, units, threads, shared_memory, blocks })
    }

    /// Returns whether the kernel may be queued behind a scan that computes its constants.
    pub fn can_follow_scan(&self) -> bool {
        matches!(self.kernels, Kernels::Staged(_))
    }

    /// Returns the number of tiles that a block takes at a time.
    fn block_tiles(&self) -> u64 {
        u64::from(self.units) * if self.variant.axes == 3 { 2 } else { 1 }
    }

    /// Returns the number of control words for `chunks` chunks of `tiles` tiles.
    pub fn control_words(&self, chunks: u64, tiles: u64) -> usize {
        let words = chunks.saturating_mul(tiles.div_ceil(self.block_tiles()).saturating_add(LINE_WORDS));
        usize::try_from(words).unwrap_or(usize::MAX - LINE_WORDS as usize) + LINE_WORDS as usize
    }

    /// Queues the kernel for a batch with at least one tile. `control` has [`Self::control_words`] words that are 0.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if there are too few control words, or if this kernel does not take constants
    /// that way; [`CudaError::Driver`].
    pub fn launch(
        &self,
        stream: &Arc<CudaStream>,
        arguments: &CodesArguments<'_, '_>,
        control: &mut CudaViewMut<'_, u32>,
    ) -> Result<()> {
        let CodesArguments { slab, device_geometry, batch, constants, follows_scan, outputs, .. } = *arguments;
        let chunk_blocks = (batch.tiles_of(0).len() as u64).div_ceil(self.block_tiles()) as u32;
        let blocks = batch.chunks() * chunk_blocks;
        if (control.len() as u64) < u64::from(blocks) + LINE_WORDS * (1 + u64::from(batch.chunks())) {
            return Err(CudaError::invalid("too few control words for the batch"));
        }
        let staged = self.can_follow_scan();
        let takes = match constants {
            Constants::Known(_) => !follows_scan && (staged || !self.step_in_memory),
            Constants::InMemory(step) => step.len() == STEP_WORDS && (staged || self.step_in_memory),
        };
        if !takes || (follows_scan && !staged) {
            return Err(CudaError::invalid("this quantizer does not take its constants that way"));
        }
        let work = self.launch_constants(stream, arguments, chunk_blocks);
        let grid =
            Grid::new(blocks.min(self.blocks), self.threads).shared_memory(self.shared_memory).early(follows_scan);
        // SAFETY: the caller checked that the slab holds the elements of the batch's tiles. The outputs have an entry
        // for each tile, and each chunk's codes stay within its slots, which have room for all its tiles whatever the
        // constants are. `control` was checked above: a line for tickets, a line for each chunk and a state for each
        // block of work, all 0. A launch that starts early, during the scan of the same elements, only reads elements
        // and draws tickets until that scan is complete.
        unsafe {
            match &self.kernels {
                Kernels::Direct(kernels) => launch!(kernels.quantize_codes_direct on stream, grid; &slab.bytes,
                    device_geometry, batch, constants, work.codes, outputs, control),
                Kernels::Staged(kernels) => {
                    let (known, later): (_, Option<&dyn DevicePtr<u64>>) = match constants {
                        Constants::Known(step) => (*step, None),
                        Constants::InMemory(step) => (Step::default(), Some(step)),
                    };
                    launch!(kernels.quantize_codes_staged on stream, grid; &slab.bytes, device_geometry, batch, known,
                        work, outputs, control, later)
                }
            }
        }
    }

    fn launch_constants(
        &self,
        stream: &Arc<CudaStream>,
        arguments: &CodesArguments<'_, '_>,
        chunk_blocks: u32,
    ) -> StagedLaunch {
        let CodesArguments { slab, device_geometry, batch, use_vector, constants, follows_scan, .. } = arguments;
        let chunks_per_wave = CHUNKS_PER_WAVE.min(batch.chunks());
        // Chunks in the last wave. The very last one may be shorter than the others.
        let last_chunks = (batch.chunks() - 1) % chunks_per_wave + 1;
        let last_tiles = batch.tiles_of(batch.chunks() - 1).len() as u64;
        StagedLaunch {
            codes: CodesLaunch {
                first_element: slab.first_element,
                chunk_blocks,
                aligned: self.is_aligned(stream, arguments).into(),
                use_vector: (*use_vector).into(),
                chunks_per_wave,
                skips_unfit: u32::from(matches!(constants, Constants::InMemory(_)) && !follows_scan),
                unused: 0,
            },
            by_wave_tickets: Divider32::new(chunks_per_wave * chunk_blocks),
            by_wave_chunks: Divider32::new(chunks_per_wave),
            by_last_wave_chunks: Divider32::new(last_chunks),
            by_last_wave_full_chunks: Divider32::new(last_chunks - 1),
            by_grid: device_geometry.grid().map(|tiles| Divider32::new(tiles.try_into().unwrap_or(1))),
            has_32_bit_tiles: u32::from(device_geometry.tiles() <= u64::from(u32::MAX)),
            last_chunk_blocks: last_tiles.div_ceil(self.block_tiles()) as u32,
            unused: 0,
        }
    }

    /// Returns whether every quad of elements of an unclipped tile starts on a multiple of 16 bytes.
    fn is_aligned(&self, stream: &Arc<CudaStream>, arguments: &CodesArguments<'_, '_>) -> bool {
        let slab = arguments.slab;
        let bytes = u64::from(self.variant.element_bytes);
        let origin = slab.bytes.device_ptr(stream).0.wrapping_sub(slab.first_element.wrapping_mul(bytes));
        let [_, _, _, x] = arguments.geometry.dims();
        origin.is_multiple_of(16) && (self.variant.axes == 1 || (x * bytes).is_multiple_of(16))
    }
}

/// Returns the macro constants that both kernels take.
fn constants(variant: KernelVariant, shape: BlockShape) -> Vec<(&'static str, u64)> {
    let constants = [
        ("ELEMENT_BYTES", variant.element_bytes),
        ("LOGARITHM", variant.logarithm.into()),
        ("AXES", variant.axes),
        ("PATTERNS", variant.patterns.into()),
        ("MEASURE", variant.measure.into()),
        ("UNITS", shape.units),
        ("BLOCKS", shape.blocks),
    ];
    constants.map(|(name, value)| (name, value.into())).to_vec()
}

/// Returns all specializations for one kind of stream, over any tiling.
pub(super) fn specializations(variant: KernelVariant) -> Vec<Specialization> {
    staged::specializations(variant).into_iter().chain(direct::specializations(variant)).collect()
}
