//! Chunk records on the device (`docs/FORMAT.md`, "Chunk record"): launchers of `kernels/container/`.

pub mod hash;
pub mod layout;
#[cfg(any())]
pub mod parse;
#[cfg(any())]
pub mod parsed;
pub mod progress;
pub mod records;
pub(crate) mod structs;
pub mod table;
mod write;

pub use structs::{ErrorSums, MAX_CHUNKS, ParsedArgument, ParsedChunk};

use crate::device::Specialization;

/// Returns all specializations of this module's kernels, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    vec![
        hash::HashKernels::specialization(),
        layout::LayoutKernels::specialization(),
        table::TableKernels::specialization(),
        write::WriteKernels::specialization(),
    ]
}
