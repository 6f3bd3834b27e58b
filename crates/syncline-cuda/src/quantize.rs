//! The bound of an array on the GPU: the scan that finds its range, and the constants of the quantizer.

mod bound_scan;
mod queued_bound;
mod step;
pub(crate) mod structs;

pub use bound_scan::{BoundScan, ScannedPart};
pub(crate) use queued_bound::{QueuedBound, STATUS_LOSSLESS};
pub(crate) use step::{STEP_WORDS, pattern_values};

use syncline_core::array::ElementType;
use syncline_core::container::Header;

use self::structs::Step;
use crate::device::Specialization;

/// Returns the quantizer's constants for streams with this header, as kernels read them from device memory.
/// `minus_zeros` says whether there may be -0.0 among the elements.
pub fn constants(header: &Header, minus_zeros: bool) -> [u64; STEP_WORDS] {
    Step::new(header, minus_zeros).words()
}

/// Returns the element types for which the check that all kernels compile takes them: one of each kind of conversion.
pub(crate) fn compiled_types() -> impl Iterator<Item = ElementType> {
    use ElementType::{Bf16, F16, F32, F64, I16, I64, U8, U32};
    [F32, F64, F16, Bf16, U8, I16, U32, I64].into_iter()
}

/// Every specialization of the kernels of this module, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    bound_scan::specializations()
}
