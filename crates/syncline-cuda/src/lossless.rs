//! Lossless streams on the GPU: writes the same bytes as the coders `lzss` and `lzss+huffman` of `syncline_core`, and
//! reads what all coders write.
//!
//! The host makes the small decisions (how a chunk is coded, where its sections are) from counts of the device; array
//! data and tokens never leave the device.

mod compress;
mod cost_model;
mod decompress;
mod planes;
mod read_numbers;
mod read_tokens;
mod record_headers;
mod records;
pub(crate) mod structs;
mod tiles;
mod write_tokens;

pub use compress::{LosslessCompressor, is_supported};
pub use decompress::LosslessDecompressor;

use crate::device::Specialization;

/// Returns every specialization of these kernels, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    let of_elements = [1, 2, 4, 8].map(tiles::TileKernels::specialization);
    let of_numbers = read_numbers::specializations();
    [&of_elements[..], &[record_headers::RecordHeaderKernels::specialization()], &of_numbers].concat()
}
