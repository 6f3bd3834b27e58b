//! Chunk records on the device (`docs/FORMAT.md`, "Chunk record"): launchers of `kernels/container/`.

pub mod assemble;
pub mod hash;
pub mod layout;
pub mod parse;
pub mod parsed;
pub mod progress;
pub mod record;
pub mod record_inputs;
mod stream_coder;
pub(crate) mod structs;
pub mod table;
pub(crate) mod token_records;
pub mod write;

pub use structs::{ChunkParts, MAX_CHUNKS, ParsedArgument, ParsedChunk, TokenParts};

use crate::device::Specialization;

/// Returns all specializations of this module's kernels, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    let of_elements = |bytes| {
        let layout = layout::LayoutKernels::specialization(bytes);
        [layout, write::WriteKernels::specialization(bytes), parse::ParseKernels::specialization(bytes)]
    };
    let others = [hash::HashKernels::specialization(), table::TableKernels::specialization()];
    [4, 8].into_iter().flat_map(of_elements).chain(others).collect()
}
