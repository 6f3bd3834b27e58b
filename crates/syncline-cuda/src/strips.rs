//! The codes of quantized chunks on the GPU (`docs/FORMAT.md`, "Codes"): choices of chunks, codebooks, and the strips
//! of tiles as bits.

mod encoded;
mod encoder;
mod ordinary;
pub(crate) mod structs;

pub use encoded::Encoded;
pub use encoder::{Form, TileEncoder};
pub use structs::{BITMAP_CODEBOOK_AT, CODEBOOK_ROOM, CODEBOOKS, ChunkChoice, TileFacts};

use crate::device::Specialization;

/// Every specialization of the kernels of this module, for the check that all of them compile.
pub fn specializations() -> Vec<Specialization> {
    encoder::specializations()
}
