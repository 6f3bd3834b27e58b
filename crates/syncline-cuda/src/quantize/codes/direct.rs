//! The kernel that loads elements straight into registers: `kernels/quantize/codes/direct.cu`. It serves logarithmic
//! streams, and `f64` arrays that have few clipped tiles and no fill patterns.

use super::{BlockShape, constants};
use crate::device::Specialization;
use crate::device_kernels::{In, Out, declare_kernels};
use crate::geometry::ChunkBatch;
use crate::geometry::DeviceGeometry;
use crate::quantize::step::{Constants, KernelVariant};
use crate::quantize::structs::{CodesLaunch, Outputs};

declare_kernels! {
    /// The kernel of `kernels/quantize/codes/direct.cu`.
    pub(super) struct DirectKernels in "quantize/codes/direct.cu",
        of (variant: KernelVariant, shape: BlockShape), by (step_in_memory: bool)
    {
        with COMMON = constants(variant, shape);
        fn quantize_codes_direct(
            slab: In<u8> as "const Element *", geometry: DeviceGeometry, batch: ChunkBatch,
            constants: Constants<'static>, launch: CodesLaunch, outputs: Outputs, control: Out<u32>,
        );
    }
}

pub(super) const BLOCK_SHAPE: BlockShape = BlockShape { units: 8, blocks: 3 };

/// Returns the shared memory of a block in bytes: the codes and integers of a unit per warp, and the data shared by all
/// warps.
pub(super) fn shared_memory(units: u32) -> u32 {
    units * 1024 * (2 + 4) + 2048
}

/// Returns the threads of a block: one warp per unit.
pub(super) fn threads(units: u32) -> u32 {
    units * 32
}

/// Returns the specializations for one kind of stream, if this kernel supports it.
pub(super) fn specializations(variant: KernelVariant) -> Vec<Specialization> {
    match variant.logarithm || variant.element_bytes == 8 {
        true => [false, true].map(|in_memory| DirectKernels::specialization(variant, BLOCK_SHAPE, in_memory)).to_vec(),
        false => Vec::new(),
    }
}
