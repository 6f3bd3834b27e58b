//! Lossless streams of LZSS chunks on the GPU, alone and before Huffman: the bytes of `syncline_core`'s pipelines
//! `lzss` and `lzss+huffman`, and back.
//!
//! What is small (how a chunk is coded, where its sections stand) is decided on the host from what the device counts;
//! what is large never leaves the device.

mod compress;
mod cost_model;
mod decompress;
mod planes;
mod read_tokens;
mod record_headers;
mod records;
pub(crate) mod structs;
mod tiles;
mod transfer;
mod write_tokens;

pub use compress::{LosslessCompressor, is_supported};
pub use decompress::LosslessDecompressor;

pub(crate) use read_tokens::{TokenDecoder, Tokens};
pub(crate) use records::TokenSections;
pub(crate) use structs::RecordHeader;
pub(crate) use write_tokens::{FoundTokens, LaidOutPlanes, Source as TokenSource, TokenEncoder, TokenPlaces, sections};

use crate::device::Specialization;

/// Every specialization of these kernels, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    let of_elements = [1, 2, 4, 8]
        .into_iter()
        .flat_map(|bytes| [tiles::specialization(bytes), record_headers::specialization(bytes)]);
    of_elements.chain([transfer::specialization()]).collect()
}
