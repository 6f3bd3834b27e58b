//! Chunk records on the device (`docs/FORMAT.md`, "Chunk record"): launchers of `kernels/container_*.cu`.

pub mod assemble;
pub mod hash;
pub mod records;

use crate::device::Specialization;

/// What the compile check compiles.
pub fn specializations() -> Vec<Specialization> {
    [hash::specialization()].into_iter().chain(records::specializations()).collect()
}
