//! LZSS with and without Huffman coding: GPULZ's tables ("GPULZ: Optimizing LZSS lossless compression for multi-byte
//! data on modern GPUs", ICS 2023) with our results, and general-purpose compressors. Every round trip is checked.

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

/// Bytes of the chunks in the papers' tables; the last is also the size of our data blocks.
pub const CHUNKS: [usize; 4] = [2048, 4096, 8192, 16_384];
/// Levels with the windows of the paper's tables: 32, 64, 128 and 255 symbols.
pub const LEVELS: [u8; 4] = [1, 2, 3, 4];
/// Symbol widths of the paper's tables.
pub const WIDTHS: [SymbolWidth; 3] = [SymbolWidth::One, SymbolWidth::Two, SymbolWidth::Four];

/// Name of our stage in rows.
pub const STAGE: &str = "lzss stage";
/// Name of the stage with kernels like those of the paper in rows.
pub const PUBLISHED: &str = "lzss stage, kernels as published";

/// A measurement on a set.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name of the set.
    pub set: String,
    /// Type of the elements.
    pub element: String,
    /// Bytes of the set.
    pub bytes: u64,
    /// Name of the device.
    pub device: String,
    /// What was measured: [`STAGE`], a coder of ours, or another codec.
    pub codec: String,
    /// Bytes of a chunk (C), for the stage alone.
    pub chunk: Option<usize>,
    /// Level (window W), for the stage and our coders.
    pub level: Option<u8>,
    /// Bytes of a symbol (S), if that was fixed.
    pub symbol: Option<usize>,
    /// Uncompressed bytes divided by compressed bytes.
    pub ratio: f64,
    /// Throughput of compression.
    pub compress: Rate,
    /// Throughput of decompression, if it was measured.
    pub decompress: Option<Rate>,
}

impl Row {
    /// Returns the number of symbols in the window, if there is a level.
    pub fn window(&self) -> Option<usize> {
        self.level.map(|level| Params::new(SymbolWidth::One, level).window())
    }
}

/// All results of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Results {
    /// Results on lossless sets.
    pub rows: Vec<Row>,
    /// Results on lossy fields.
    pub lossy: Vec<lossy::Row>,
}
