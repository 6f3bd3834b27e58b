//! Bits in 32-bit little-endian words: reading and writing codewords (most significant bit first) and packing small
//! integers (from bit 0 up), fields of bytes, integer logarithms, and places of samples.

pub mod fields;
pub mod intervals;
pub mod logarithm;
pub mod pack;
pub mod reader;
pub mod writer;
