//! The Huffman stage alone: sets of symbols, and each encoder and decoder timed on them with every round trip checked.

pub mod cpu;

use anyhow::Result;
use serde::Serialize;

use crate::bytes;
use crate::codes::{Tiling, quantisation_codes};
use crate::fields::Generator;

/// Symbols of a stream, as a field of some size is cut into: a container chunk.
pub const STREAM_SYMBOLS: usize = 1 << 20;
/// log2 of the symbols in a group.
pub const GROUP_LOG2: u8 = 7;

/// Symbols of one or two bytes.
pub enum Symbols {
    /// Bytes.
    Bytes(Vec<u8>),
    /// 16-bit codes.
    Codes(Vec<u16>),
}

/// What the stage is measured on.
pub struct Set {
    /// Its name in tables.
    pub name: String,
    /// The symbols, whole groups of them.
    pub symbols: Symbols,
}

/// Bytes sets, beside the generated fields.
pub const BYTE_SETS: [&str; 5] = ["text", "geometric-1.4", "geometric-5.9", "never-flat", "never-cycle"];

impl Set {
    /// The codes of a field at a relative bound.
    pub fn of_field(generator: Generator, scale: f64, relative: f64) -> Self {
        let field = generator.generate(scale);
        let mut codes = quantisation_codes(&field, relative, Tiling::Zeros);
        codes.truncate(codes.len() >> GROUP_LOG2 << GROUP_LOG2);
        Self { name: field.name, symbols: Symbols::Codes(codes) }
    }

    /// One of [`BYTE_SETS`], of about `count` bytes; `None` if there is no such set.
    pub fn of_bytes(name: &str, count: usize) -> Option<Self> {
        let count = count >> GROUP_LOG2 << GROUP_LOG2;
        let mut symbols = match name {
            "text" => bytes::text(count, 1),
            "geometric-1.4" => bytes::geometric(count, 0.30, 2),
            "geometric-5.9" => bytes::geometric(count, 0.955, 3),
            "never-flat" => bytes::never_synchronising_flat(count),
            "never-cycle" => bytes::never_synchronising_cycle(count),
            _ => return None,
        };
        symbols.truncate(symbols.len() >> GROUP_LOG2 << GROUP_LOG2);
        Some(Self { name: name.to_owned(), symbols: Symbols::Bytes(symbols) })
    }
}

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The set.
    pub set: String,
    /// Where it ran.
    pub device: String,
    /// `encode` or `decode`.
    pub direction: &'static str,
    /// Encoder or decoder.
    pub method: String,
    /// Index of the stream.
    pub index: String,
    /// Whether groups of nothing but the commonest symbol are free.
    pub free_groups: bool,
    /// Bits a symbol, everything included.
    pub bits: f64,
    /// Bytes of symbols over bytes of stream.
    pub ratio: f64,
    /// 10^9 bytes of symbols a second, median run.
    pub median: f64,
    /// The same, fastest run.
    pub best: f64,
    /// Median over the rate of a device copy in the same run; on a GPU only.
    pub share_of_copy: Option<f64>,
}

/// Times `work` after one run that is not counted: median and fastest seconds.
///
/// # Errors
/// Those of `work`, which returns the seconds it took.
pub fn timed(runs: usize, mut work: impl FnMut() -> Result<f64>) -> Result<(f64, f64)> {
    work()?;
    let mut seconds = (0..runs.max(1)).map(|_| work()).collect::<Result<Vec<_>>>()?;
    seconds.sort_by(f64::total_cmp);
    Ok((seconds[seconds.len() / 2], seconds[0]))
}
