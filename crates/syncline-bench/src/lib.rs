//! The benchmarks of Syncline: generators of fields like those in the papers, streams of codes and bytes, and other
//! projects' codecs behind one trait. This crate is not published.

pub mod ablation;
pub mod bytes;
mod check;
pub mod clock;
pub mod codes;
pub mod fields;
mod gpu;
pub mod huffman;
pub mod lossy;
pub mod lzss;
pub mod measure;
pub mod nvcomp;
pub mod random;
pub mod ratio;
pub mod rivals;
pub mod statistics;
pub mod table;
pub mod tpch;
