//! The bound of an array on the GPU: the scan that finds its range, and the constants of the quantizer.

mod bound_scan;
mod queued_bound;
mod step;
pub(crate) mod structs;

pub use bound_scan::BoundScan;
pub(crate) use queued_bound::{QueuedBound, STATUS_LOSSLESS};

use crate::device::Specialization;

/// Every specialization of the kernels of this module, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    bound_scan::specializations()
}
