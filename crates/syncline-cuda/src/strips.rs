//! The codes of quantized chunks on the GPU (`docs/FORMAT.md`, "Codes"): choices of chunks, codebooks, and the strips
//! of tiles as bits.

mod encoded;
pub(crate) mod structs;

pub use encoded::Encoded;
pub use structs::{BITMAP_CODEBOOK_AT, CODEBOOK_ROOM, CODEBOOKS, ChunkChoice, TileFacts};
