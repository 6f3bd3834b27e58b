//! The kernel that loads elements straight into registers: `kernels/quantize/codes/direct.cu`. It serves logarithmic
//! streams, and `f64` arrays that have few clipped tiles and no fill patterns.

use super::{BlockShape, constants};
use crate::device::{Source, Specialization, source};
use crate::quantize::step::{Constants, KernelVariant};

const SOURCE: Source = source!("quantize/codes/direct.cu");
pub(super) const KERNEL: &str = "quantize_codes_direct";
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

pub(super) fn specialization(variant: KernelVariant, shape: BlockShape, step_in_memory: bool) -> Specialization {
    let mut constants = constants(variant, shape);
    constants.push(Constants::macro_constant(step_in_memory));
    Specialization { assertions: String::new(), source: SOURCE, constants }
}

/// Returns the specializations for one kind of stream, if this kernel supports it.
pub(super) fn specializations(variant: KernelVariant) -> Vec<Specialization> {
    match variant.logarithm || variant.element_bytes == 8 {
        true => [false, true].map(|in_memory| specialization(variant, BLOCK_SHAPE, in_memory)).to_vec(),
        false => Vec::new(),
    }
}
