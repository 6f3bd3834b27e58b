//! Chunks of blocks: launchers of `kernels/blocks/`.

mod decode;
mod encode;
mod sizes;
pub(crate) mod structs;

pub use decode::{BlockDecoder, ParsedBatch};
pub use encode::{BlockEncoder, EncodedBatch};

use crate::device::Specialization;

/// Groups of the classes of a level, as in `kernels/blocks/blocks.cuh`.
const GROUPS: u32 = 3;
/// Blocks of threads that share a block of elements, but for its coarse levels.
const SHARES: u32 = 8;

/// Returns the specializations for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    [decode::specializations(), encode::specializations()].concat()
}
