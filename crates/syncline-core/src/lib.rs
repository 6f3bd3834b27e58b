//! syncline-core.

pub mod array;
pub mod bits;
pub mod error;
pub mod huffman;
