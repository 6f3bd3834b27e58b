//! The stream of codes: quantization codes of tiles as run/size symbols of Huffman codebooks, with extra bits after the
//! codewords (`docs/FORMAT.md`, "Codes").
//!
//! As in JPEG, a symbol stands for a run of zeros and the size in bits of the value after it; the value's lower bits
//! and its sign follow as extra bits. The codes of a tile form strips of [`STRIP_LEN`], which are encoded apart from
//! each other, so that a GPU decodes them side by side. A strip ends with its last value that is not zero: the index
//! says how many bits it has, and the rest of it is zeros.

mod alphabet;
mod codebook;
mod counts;
mod decode;
mod encode;
mod index;
mod stream;
#[cfg(test)]
mod tests;
mod writer;

pub use alphabet::{Meaning, SYMBOLS, Symbol};
pub use codebook::{Encoder, MAX_LENGTH};
pub use counts::{Counts, build};
pub use encode::Strip;
pub use stream::{CODES_HEADER_LEN, CodeStream, StreamWriter, codewords_at};

/// Codes of a strip. The last strip of a tile may have fewer.
pub const STRIP_LEN: usize = 128;

/// Returns the number of strips of a tile of `codes` codes.
pub const fn strips_of(codes: usize) -> usize {
    codes.div_ceil(STRIP_LEN)
}
