//! Syncline's stream format and every algorithm of it on the CPU.
//!
//! The crate `syncline` is the door for users; this one has the stages, in the order data flows: [`mod@array`],
//! [`bound`], [`geometry`], [`quantize`], [`predict`], [`lzss`], [`huffman`], [`container`]; [`pipeline`] wires them
//! for one chunk. `ARCHITECTURE.md` in the repository is the map.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc, missing_debug_implementations)]

pub mod array;
pub mod bits;
pub mod bound;
pub mod container;
pub mod error;
pub mod geometry;
pub mod huffman;
pub mod lzss;
pub mod mem;
pub mod pipeline;
pub mod predict;
pub mod quantize;
pub mod simd;
pub mod tokens;
