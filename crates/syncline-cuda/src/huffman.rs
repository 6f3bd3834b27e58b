//! Huffman coding on the GPU: the stages of `syncline_core::huffman`, under the same names.

pub mod codebook;
mod codebook_small;
mod codebook_team;
pub mod decode;
pub mod encode;
pub mod histogram;

use crate::device::Specialization;

/// Every specialization of these stages' kernels on a device with this much shared memory a block, for the check that
/// all of them compile.
pub fn specializations(shared_memory: u32) -> Vec<Specialization> {
    [
        histogram::specializations(shared_memory),
        codebook::specializations(shared_memory),
        decode::specializations(shared_memory),
        encode::specializations(shared_memory),
    ]
    .concat()
}
