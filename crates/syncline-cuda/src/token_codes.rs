//! Quantized chunks with token codebooks (kind 5 of docs/FORMAT.md): encodes and decodes their codes.
//! [`crate::quantize`] computes codes from elements, and [`crate::reconstruct`] elements from codes.

mod codebooks;
mod decode;
mod encode;
mod statistics;
pub(crate) mod structs;

pub(crate) use codebooks::TokenCodebooksBuilder;
pub(crate) use decode::{DecodedCodes, TokenCodes};
pub(crate) use encode::{LaidOutTokens, StreamLayout, TokenCodeEncoder};
pub(crate) use statistics::Statistics;

use crate::device::Specialization;

/// Returns every specialization of these kernels, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    vec![
        decode::DecodeKernels::specialization(),
        encode::EncodeKernels::specialization(),
        statistics::StatisticsKernels::specialization(),
    ]
}
