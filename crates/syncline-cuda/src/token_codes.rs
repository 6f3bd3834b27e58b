//! Quantized chunks with token codebooks (kind 5 of docs/FORMAT.md): decodes their codes.
//! [`crate::reconstruct`] computes elements from these.

mod decode;
pub(crate) mod structs;

pub(crate) use decode::{DecodedCodes, TokenCodes};

use crate::device::Specialization;

/// Returns every specialization of these kernels, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    vec![decode::specialization()]
}
