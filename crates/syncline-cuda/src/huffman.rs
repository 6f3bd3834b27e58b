//! Huffman coding on the GPU: the stages of `syncline_core::huffman`, under the same names.

pub mod codebook;
pub mod decode;
pub mod encode;
mod symbol;

pub use symbol::Symbol;

use crate::device::Specialization;

/// Returns every specialization of these stages' kernels on a device with this much shared memory per block, in bytes,
/// for the test that all of them compile.
pub fn specializations(shared_memory: u32) -> Vec<Specialization> {
    [
        codebook::specializations(shared_memory),
        decode::specializations(shared_memory),
        encode::specializations(shared_memory),
    ]
    .concat()
}
