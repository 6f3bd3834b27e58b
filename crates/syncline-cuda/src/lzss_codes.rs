//! Quantized chunks whose codes are LZSS tokens (kind 4 of docs/FORMAT.md): the codes of `syncline_core`'s pipelines
//! `lzss+huffman` and `auto` with an error bound, and back.

mod decode;
mod encode;
pub(crate) mod structs;

pub(crate) use decode::CodeTokens;
pub(crate) use encode::CodeEncoder;

use crate::device::Specialization;

/// Every specialization of these kernels, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    [decode::specialization(6), decode::specialization(7), encode::specialization(4), encode::specialization(8)].into()
}
