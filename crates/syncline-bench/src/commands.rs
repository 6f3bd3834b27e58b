//! The subcommands.

pub mod calibrate;
pub mod cpu;
pub mod generate;
pub mod host;
pub mod huffman;
pub mod lossy;
pub mod lzss;
mod output;
pub mod ratio;
