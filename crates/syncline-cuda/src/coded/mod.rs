//! Quantised chunks whose codes are LZSS tokens (kind 4 of docs/FORMAT.md): the codes of `syncline_core`'s pipelines `lzss+huffman` and `auto` with an error bound, and back.

mod decode;

pub(crate) use decode::CodeTokens;

use crate::device::Specialization;

/// Every specialization of these kernels, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    [6, 7].map(decode::specialization).to_vec()
}
