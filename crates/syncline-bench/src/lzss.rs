//! LZSS, alone and before Huffman coding: GPULZ's tables ("GPULZ: Optimizing LZSS lossless compression for multi-byte
//! data on modern GPUs", ICS 2023) with our figures, and general compressors beside. Every round trip is checked.

pub mod codecs;
pub mod cpu;
pub mod cuda;
pub mod lossy;
mod papers;
mod sets;
pub mod tables;

pub use sets::Set;

use serde::Serialize;
use syncline_core::lzss::{Params, SymbolWidth};

use crate::lossy::Rate;

/// Bytes of the chunks of the papers' tables: blocks of ours have the last.
pub const CHUNKS: [usize; 4] = [2048, 4096, 8192, 16_384];
/// Levels with the windows of the paper's tables: 32, 64, 128 and 255 symbols.
pub const LEVELS: [u8; 4] = [1, 2, 3, 4];
/// Symbol widths of the paper's tables.
pub const WIDTHS: [SymbolWidth; 3] = [SymbolWidth::One, SymbolWidth::Two, SymbolWidth::Four];

/// Our stage in rows.
pub const STAGE: &str = "lzss stage";
/// The stage's first kernels, after the paper.
pub const PUBLISHED: &str = "lzss stage, kernels as published";

/// Something measured on a set.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The set.
    pub set: String,
    /// Type of its elements.
    pub element: String,
    /// Bytes of it.
    pub bytes: u64,
    /// Where it ran.
    pub device: String,
    /// What ran: [`STAGE`], a pipeline of ours, or another codec.
    pub codec: String,
    /// Bytes of a chunk (C), of the stage alone.
    pub chunk: Option<usize>,
    /// Level (window W), of the stage and our pipelines.
    pub level: Option<u8>,
    /// Bytes of a symbol (S), if that was fixed.
    pub symbol: Option<usize>,
    /// Uncompressed bytes over compressed ones.
    pub ratio: f64,
    /// Compression.
    pub compress: Rate,
    /// Decompression, if it was measured.
    pub decompress: Option<Rate>,
}

impl Row {
    /// Symbols of the window, if there is a level.
    pub fn window(&self) -> Option<usize> {
        self.level.map(|level| Params::new(SymbolWidth::One, level).window())
    }
}

/// Everything that was measured in a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Results {
    /// Of lossless sets.
    pub rows: Vec<Row>,
    /// Of lossy fields.
    pub lossy: Vec<lossy::Row>,
}
