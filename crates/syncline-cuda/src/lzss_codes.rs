//! Quantized chunks whose codes are LZSS tokens (kind 4 of docs/FORMAT.md): encodes and decodes the codes of the coders
//! `lzss+huffman` and `auto` of `syncline_core` with an error bound.

mod decode;
mod encode;
pub(crate) mod structs;

pub(crate) use decode::CodeTokens;
pub(crate) use encode::CodeEncoder;

use crate::device::Specialization;

/// Returns every specialization of these kernels, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    [6, 7]
        .map(decode::DecodeKernels::specialization)
        .into_iter()
        .chain([4, 8].map(encode::EncodeKernels::specialization))
        .collect()
}
