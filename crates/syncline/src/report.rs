//! What a stream consists of, and what became of an array that was compressed.

use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, Pipeline};
use syncline_core::container::{FORMAT_VERSION, Header};
use syncline_core::huffman::IndexKind;
use syncline_core::pipeline::ChunkReport;

use crate::backend::Execution;

/// A value that is masked instead of being predicted: NaN, or what stands for missing data.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct FillPattern {
    /// The element's bits, zero-extended.
    pub bits: u64,
    /// Its value.
    pub value: f64,
    /// Elements that hold it (for NaN: any NaN), as the encoder counted them; 0 where that is not known.
    pub count: u64,
}

impl FillPattern {
    pub(crate) fn new(element_type: ElementType, bits: u64, count: u64) -> Self {
        let value = match element_type {
            ElementType::F32 => f64::from(f32::from_bits(bits as u32)),
            _ => f64::from_bits(bits),
        };
        Self { bits, value, count }
    }
}

/// What a compression did.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// Element type.
    pub element_type: ElementType,
    /// Shape of the array.
    pub shape: Shape,
    /// The bound that was asked for.
    pub bound: Bound,
    /// The bound that holds: absolute, or for [`Bound::PwRel`] the relative error of each value; 0 if lossless.
    pub abs_bound: f64,
    /// Quantization step, 0 if lossless.
    pub step: f64,
    /// Smallest and largest finite value that is not fill.
    pub range: Option<(f64, f64)>,
    /// Fill patterns and how many elements hold them.
    pub fills: Vec<FillPattern>,
    /// Bytes of the array.
    pub uncompressed_bytes: u64,
    /// Bytes of the stream.
    pub compressed_bytes: u64,
    /// Where it was compressed, and why there.
    pub execution: Execution,
}

impl Summary {
    /// Uncompressed bytes over compressed bytes.
    pub fn ratio(&self) -> f64 {
        self.uncompressed_bytes as f64 / self.compressed_bytes as f64
    }

    /// Compressed bits a value; 0 for an empty array.
    pub fn bits_per_value(&self) -> f64 {
        bits_per_value(self.compressed_bytes, self.shape)
    }
}

fn bits_per_value(compressed_bytes: u64, shape: Shape) -> f64 {
    match shape.len() {
        0 => 0.0,
        count => compressed_bytes as f64 * 8.0 / count as f64,
    }
}

/// Description of a stream: its contents, the options it was made with, and the sizes of its parts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Format version.
    pub version: u16,
    /// Element type.
    pub element_type: ElementType,
    /// Shape of the array.
    pub shape: Shape,
    /// Stages between the array and the Huffman coder.
    pub pipeline: Pipeline,
    /// Whether the codes of a chunk may be LZSS tokens ([`ChunkReport::lzss_chunks`] says how many are).
    pub lzss_codes: bool,
    /// The bound that was asked for.
    pub bound: Bound,
    /// The bound that holds: absolute, or for [`Bound::PwRel`] the relative error of each value; 0 if lossless.
    pub abs_bound: f64,
    /// Quantization step, 0 if lossless.
    pub step: f64,
    /// Smallest and largest finite value that is not fill, if known.
    pub range: Option<(f64, f64)>,
    /// Fill patterns; their counts are not in the stream.
    pub fills: Vec<FillPattern>,
    /// Index kind that was asked for.
    pub index: IndexKind,
    /// Symbols in a group of the codes.
    pub group_size: u32,
    /// Bytes of the array.
    pub uncompressed_bytes: u64,
    /// Bytes of the stream.
    pub compressed_bytes: u64,
    /// Counts over all chunks.
    pub totals: ChunkReport,
}

impl Report {
    pub(crate) fn new(header: &Header, compressed_bytes: u64) -> Self {
        let patterns = header.patterns.iter();
        Self {
            version: FORMAT_VERSION,
            element_type: header.element_type,
            shape: header.shape,
            pipeline: header.pipeline,
            lzss_codes: header.lzss_codes,
            bound: header.bound,
            abs_bound: header.abs_bound,
            step: header.step,
            range: header.range,
            fills: patterns.map(|&bits| FillPattern::new(header.element_type, bits, 0)).collect(),
            index: header.index,
            group_size: 1 << header.group_log2,
            uncompressed_bytes: header.shape.len() * header.element_type.size() as u64,
            compressed_bytes,
            totals: ChunkReport::default(),
        }
    }

    /// Uncompressed bytes over compressed bytes.
    pub fn ratio(&self) -> f64 {
        self.uncompressed_bytes as f64 / self.compressed_bytes as f64
    }

    /// Compressed bits a value; 0 for an empty array.
    pub fn bits_per_value(&self) -> f64 {
        bits_per_value(self.compressed_bytes, self.shape)
    }
}
