//! Syncline's stream format and every algorithm of it on the CPU.
//!
//! The crate `syncline` is the public interface. This crate contains the stages, in the order of the data flow:
//! [`mod@array`], [`bound`], [`geometry`], [`quantize`], [`predict`], [`lzss`], [`huffman`], [`container`].
//! [`pipeline`] combines them for one chunk. `ARCHITECTURE.md` in the repository gives an overview.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc, missing_debug_implementations)]

pub mod array;
pub mod bits;
pub mod bound;
pub mod container;
pub mod contexts;
pub mod error;
pub mod geometry;
pub mod huffman;
pub mod lzss;
pub mod mem;
pub mod numbers;
pub mod pipeline;
pub mod predict;
pub mod quantize;
pub mod simd;
pub mod strips;
