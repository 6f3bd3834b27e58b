//! Lossless streams on the GPU: writes the same bytes as `syncline_core`, and reads what it writes.
//!
//! The host makes the small decisions (how a chunk is coded, where its sections are) from samples and counts of the
//! device; all other elements, codes, and tokens never leave the device.

mod compress;
mod cost_model;
mod decompress;
mod number_choices;
mod number_records;
mod planes;
mod read_numbers;
mod read_tokens;
mod record_headers;
mod records;
pub(crate) mod structs;
mod tiles;
mod write_numbers;
mod write_tokens;

pub use compress::LosslessCompressor;
pub use decompress::LosslessDecompressor;

use crate::device::Specialization;

/// Returns every specialization of these kernels, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    let of_elements = [1, 2, 4, 8].map(tiles::TileKernels::specialization);
    let of_numbers = [read_numbers::specializations(), write_numbers::specializations()].concat();
    [&of_elements[..], &[record_headers::RecordHeaderKernels::specialization()], &of_numbers].concat()
}
