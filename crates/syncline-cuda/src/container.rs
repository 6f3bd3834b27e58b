//! Chunk records on the device (`docs/FORMAT.md`, "Chunk record"): launchers of `kernels/container/`.

pub mod hash;
pub mod layout;
pub mod parse;
pub mod parsed;
mod pieces;
pub mod progress;
pub mod records;
pub(crate) mod structs;
pub mod table;
mod write;

pub use structs::{ErrorSums, MAX_CHUNKS, ParsedChunk, TilePlace};

use crate::device::Specialization;

/// Returns all specializations of this module's kernels, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    let mut all = vec![
        hash::HashKernels::specialization(),
        layout::LayoutKernels::specialization(),
        table::TableKernels::specialization(),
        pieces::PieceKernels::specialization(),
        write::WriteKernels::specialization(),
    ];
    all.extend([1, 2, 4, 8].map(parse::ParseKernels::specialization));
    all
}
