//! Syncline's stream format and every algorithm of it on the CPU.
//!
//! The crate `syncline` is the door for users; this one has the stages, in the order data flows: [`mod@array`], [`bound`], [`geometry`],
//! [`quantize`], [`predict`], [`huffman`], [`container`]; [`pipeline`] wires them for one chunk. `ARCHITECTURE.md` in the repository is the map.

pub mod arch;
pub mod array;
pub mod bits;
pub mod bound;
pub mod container;
pub mod error;
pub mod geometry;
pub mod huffman;
pub mod lzss;
pub mod pipeline;
pub mod predict;
pub mod quantize;
