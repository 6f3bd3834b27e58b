//! The Huffman stage alone: sets of symbols on which each encoder and decoder is timed, with every round trip checked.

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

/// Number of symbols of a stream on the CPU.
pub const STREAM_SYMBOLS: usize = 1 << 20;
/// log2 of the number of symbols in a group.
pub const GROUP_LOG2: u8 = 7;

/// Returns the number of symbols in a stream for a field of `values` values: that of a container chunk.
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

/// A set of symbols on which the stage is measured.
pub struct Set {
    /// Name of the set in tables.
    pub name: String,
    /// The symbols, in whole groups.
    pub symbols: Symbols,
    /// Number of repetitions, each with its own streams. A field that is small for a GPU is measured as several
    /// snapshots.
    pub copies: usize,
}

/// Names of the sets of bytes, in addition to the generated fields.
pub const BYTE_SETS: [&str; 5] = ["text", "geometric-1.4", "geometric-5.9", "never-flat", "never-cycle"];

impl Set {
    /// Returns the codes of a field at a relative bound.
    pub fn of_field(generator: Generator, scale: f64, relative: f64) -> Self {
        let field = generator.generate(scale);
        let mut codes = quantization_codes(&field, relative, Tiling::Zeros);
        codes.truncate(codes.len() >> GROUP_LOG2 << GROUP_LOG2);
        Self { name: field.name, symbols: Symbols::Codes(codes), copies: 1 }
    }

    /// Returns the bytes of the symbols, including repetitions.
    pub fn bytes(&self) -> usize {
        self.copies
            * match &self.symbols {
                Symbols::Bytes(symbols) => symbols.len(),
                Symbols::Codes(symbols) => 2 * symbols.len(),
            }
    }

    /// Returns the set, repeated until it has at least `bytes` bytes, or `None` if it has them already. The new name
    /// contains the number of repetitions.
    pub fn repeated(&self, bytes: usize) -> Option<Self> {
        let copies = bytes.div_ceil(self.bytes().max(1));
        (copies > 1).then(|| Self { name: format!("{}-x{copies}", self.name), symbols: self.symbols.clone(), copies })
    }

    /// Returns the first `bytes` bytes of the set, rounded to whole groups.
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

    /// Returns a set of geometric bytes whose probabilities fall by the factor `ratio`.
    pub fn geometric(name: &str, count: usize, ratio: f64) -> Self {
        let symbols = bytes::geometric(count >> GROUP_LOG2 << GROUP_LOG2, ratio, 4);
        Self { name: name.to_owned(), symbols: Symbols::Bytes(symbols), copies: 1 }
    }

    /// Returns one of [`BYTE_SETS`] with about `count` bytes; `None` if there is no such set.
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
    /// Name of the set.
    pub set: String,
    /// Bytes of the set's symbols.
    pub bytes: usize,
    /// Name of the device.
    pub device: String,
    /// Either `encode` or `decode`.
    pub direction: &'static str,
    /// Name of the encoder or decoder.
    pub method: String,
    /// Name of the stream's index.
    pub index: String,
    /// Whether groups that only contain the most frequent symbol are zero-bit groups.
    pub free_groups: bool,
    /// Bits of the stream per symbol.
    pub bits: f64,
    /// Bytes of symbols divided by bytes of the stream.
    pub ratio: f64,
    /// Throughput of the median run, in 10^9 bytes of symbols per second.
    pub median: f64,
    /// Throughput of the fastest run.
    pub best: f64,
    /// Throughput of the slowest run.
    pub slowest: f64,
    /// Duration of the median run in microseconds.
    pub microseconds: f64,
    /// Median throughput divided by that of a device copy in the same run; on a GPU only.
    pub share_of_copy: Option<f64>,
    /// Throughput of single calls [queued while the device was busy](cuda::rotation), in 10^9 bytes of symbols per
    /// second. In contrast, `median` is for calls on an idle device, including the launch. Only for small sets on a
    /// GPU.
    pub queued: Option<f64>,
    /// Throughput of [consecutive calls](cuda::rotation), in the same unit.
    pub one_after_another: Option<f64>,
}

/// Times `work` after a warm-up run. `work` returns the seconds it took.
///
/// # Errors
/// The errors of `work`.
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
