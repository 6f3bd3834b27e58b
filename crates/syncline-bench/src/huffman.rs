//! The Huffman stage alone: sets of symbols, and each encoder and decoder timed on them with every round trip checked.

pub mod cpu;
pub mod cuda;
pub mod tables;

use anyhow::Result;
use serde::Serialize;
use syncline_core::array::Shape;
use syncline_core::geometry::Geometry;
use syncline_cuda::timing::Times;

use crate::bytes;
use crate::codes::{Tiling, quantization_codes};
use crate::fields::Generator;

/// Symbols of a stream on the CPU.
pub const STREAM_SYMBOLS: usize = 1 << 20;
/// log2 of the symbols in a group.
pub const GROUP_LOG2: u8 = 7;

/// Symbols of a stream as a field of so many values has them: those of a container chunk.
pub fn chunk_symbols(values: usize) -> usize {
    let geometry = Shape::new(&[values as u64]).map(Geometry::new);
    geometry.map_or(STREAM_SYMBOLS, |g| (u64::from(g.tiles_per_chunk()) * g.unclipped_len()) as usize)
}

/// Symbols of one or two bytes.
#[derive(Clone)]
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
    /// How often they are repeated, each time with streams of their own: fields that are small for a GPU stand for as
    /// many snapshots.
    pub copies: usize,
}

/// Bytes sets, beside the generated fields.
pub const BYTE_SETS: [&str; 5] = ["text", "geometric-1.4", "geometric-5.9", "never-flat", "never-cycle"];

impl Set {
    /// The codes of a field at a relative bound.
    pub fn of_field(generator: Generator, scale: f64, relative: f64) -> Self {
        let field = generator.generate(scale);
        let mut codes = quantization_codes(&field, relative, Tiling::Zeros);
        codes.truncate(codes.len() >> GROUP_LOG2 << GROUP_LOG2);
        Self { name: field.name, symbols: Symbols::Codes(codes), copies: 1 }
    }

    /// Bytes of the symbols, repetitions included.
    pub fn bytes(&self) -> usize {
        self.copies
            * match &self.symbols {
                Symbols::Bytes(symbols) => symbols.len(),
                Symbols::Codes(symbols) => 2 * symbols.len(),
            }
    }

    /// The set repeated until it has at least so many bytes; `None` if it has them already. Called as it was, and so
    /// often.
    pub fn repeated(&self, bytes: usize) -> Option<Self> {
        let copies = bytes.div_ceil(self.bytes().max(1));
        (copies > 1).then(|| Self { name: format!("{}-x{copies}", self.name), symbols: self.symbols.clone(), copies })
    }

    /// The first `bytes` of the set, in whole groups.
    pub fn cut(&self, name: &str, bytes: usize) -> Self {
        fn head<S: Copy>(symbols: &[S], bytes: usize) -> Vec<S> {
            symbols[..symbols.len().min(bytes / size_of::<S>()) >> GROUP_LOG2 << GROUP_LOG2].to_vec()
        }
        let symbols = match &self.symbols {
            Symbols::Bytes(symbols) => Symbols::Bytes(head(symbols, bytes)),
            Symbols::Codes(symbols) => Symbols::Codes(head(symbols, bytes)),
        };
        Self { name: format!("{}-{name}", self.name), symbols, copies: 1 }
    }

    /// Geometric bytes whose probabilities fall by `ratio`.
    pub fn geometric(name: &str, count: usize, ratio: f64) -> Self {
        let symbols = bytes::geometric(count >> GROUP_LOG2 << GROUP_LOG2, ratio, 4);
        Self { name: name.to_owned(), symbols: Symbols::Bytes(symbols), copies: 1 }
    }

    /// One of [`BYTE_SETS`], of about `count` bytes; `None` if there is no such set.
    pub fn of_bytes(name: &str, count: usize) -> Option<Self> {
        let count = count >> GROUP_LOG2 << GROUP_LOG2;
        let mut symbols = match name {
            "text" => bytes::text(count, 1),
            "geometric-1.4" => bytes::geometric(count, 0.30, 2),
            "geometric-5.9" => bytes::geometric(count, 0.955, 3),
            "never-flat" => bytes::never_synchronizing_flat(count),
            "never-cycle" => bytes::never_synchronizing_cycle(count),
            _ => return None,
        };
        symbols.truncate(symbols.len() >> GROUP_LOG2 << GROUP_LOG2);
        Some(Self { name: name.to_owned(), symbols: Symbols::Bytes(symbols), copies: 1 })
    }
}

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The set.
    pub set: String,
    /// Bytes of its symbols.
    pub bytes: usize,
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
    /// The same, slowest run.
    pub slowest: f64,
    /// Microseconds of the median run.
    pub microseconds: f64,
    /// Median over the rate of a device copy in the same run; on a GPU only.
    pub share_of_copy: Option<f64>,
    /// 10^9 bytes of symbols a second of single calls [queued while the device was busy](cuda::rotation), where
    /// `median` is of calls on an idle device, launch included; of small sets on a GPU.
    pub queued: Option<f64>,
    /// The same of [calls one after another](cuda::rotation).
    pub one_after_another: Option<f64>,
}

/// Times `work` after one run that is not counted.
///
/// # Errors
/// Those of `work`, which returns the seconds it took.
pub fn timed(runs: usize, mut work: impl FnMut() -> Result<f64>) -> Result<Times> {
    work()?;
    Ok(Times::new((0..runs.max(1)).map(|_| work()).collect::<Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_repeated_and_cut_in_whole_groups() {
        let set = Set::geometric("g", 1 << 20, 0.5);
        assert!(set.repeated(1 << 20).is_none());
        let repeated = set.repeated((5 << 19) - 1).unwrap();
        assert_eq!((repeated.name.as_str(), repeated.copies, repeated.bytes()), ("g-x3", 3, 3 << 20));
        let cut = set.cut("10MB", 1000);
        assert_eq!((cut.name.as_str(), cut.bytes()), ("g-10MB", 896));
        assert_eq!([1 << 20, 1 << 24, 512 << 18, 1 << 28].map(chunk_symbols), [1 << 19, 1 << 20, 1 << 21, 1 << 22]);
    }
}
