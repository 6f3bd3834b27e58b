//! Chunk records on the device (`docs/FORMAT.md`, "Chunk record"): launchers of `kernels/container/`.

pub mod hash;
pub mod parse;
pub mod parsed;
pub mod progress;
pub(crate) mod structs;
pub mod table;

pub use structs::{MAX_CHUNKS, ParsedChunk, TilePlace};

use crate::device::Specialization;

/// Returns all specializations of this module's kernels, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    let parse = [4, 8].map(parse::ParseKernels::specialization);
    [hash::HashKernels::specialization(), table::TableKernels::specialization()].into_iter().chain(parse).collect()
}
