//! Chunk records on the device (`docs/FORMAT.md`, "Chunk record"): launchers of `kernels/container/`.

pub mod hash;
#[cfg(any())]
pub mod parse;
#[cfg(any())]
pub mod parsed;
pub mod progress;
pub(crate) mod structs;
pub mod table;

pub use structs::{MAX_CHUNKS, ParsedArgument, ParsedChunk};

use crate::device::Specialization;

/// Returns all specializations of this module's kernels, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    vec![hash::HashKernels::specialization(), table::TableKernels::specialization()]
}
