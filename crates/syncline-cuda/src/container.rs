//! Chunk records on the device (`docs/FORMAT.md`, "Chunk record"): launchers of `kernels/container/`.

pub mod assemble;
pub mod hash;
pub mod parse;
pub mod parsed;
pub mod prepared;
pub mod progress;
pub mod records;

pub use parsed::{Parsed, ParsedArgument, ParsedChunk};

use crate::device::Specialization;

/// What the compile check compiles.
pub fn specializations() -> Vec<Specialization> {
    [vec![hash::specialization()], parse::specializations(), records::specializations()].concat()
}
