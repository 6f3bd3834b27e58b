//! Chunk records on the device (`docs/FORMAT.md`, "Chunk record"): launchers of `kernels/container_*.cu`.

pub mod hash;

use crate::device::Specialization;

/// What the compile check compiles.
pub fn specializations() -> Vec<Specialization> {
    vec![hash::specialization()]
}
