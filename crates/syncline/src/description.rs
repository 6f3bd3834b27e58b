//! Descriptions of streams and of compressions.

use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, Pipeline};
use syncline_core::container::{FORMAT_VERSION, Header};
use syncline_core::geometry::TileSize;
use syncline_core::huffman::IndexKind;
use syncline_core::pipeline::ChunkReport;

use crate::backend::Execution;

/// A value that is masked instead of being predicted: NaN, a value for missing data, or a zero.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct FillPattern {
    /// Bits of the element, zero-extended.
    pub bits: u64,
    /// Value of the element.
    pub value: f64,
    /// Number of elements that hold it (for NaN: any NaN) as the encoder counted them; 0 if unknown.
    pub count: u64,
}

impl FillPattern {
    pub(crate) fn new(element_type: ElementType, bits: u64, count: u64) -> Self {
        Self { bits, value: element_type.number_of_bits(bits), count }
    }
}

/// Results of a compression.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// Element type.
    pub element_type: ElementType,
    /// Shape of the array.
    pub shape: Shape,
    /// Requested bound.
    pub bound: Bound,
    /// Bound that holds: an absolute error, or for [`Bound::PwRel`] the relative error of each value; 0 if lossless.
    pub abs_bound: f64,
    /// Quantization step; 0 if lossless.
    pub step: f64,
    /// Smallest and largest finite value that is not fill.
    pub range: Option<(f64, f64)>,
    /// Fill patterns, and the number of elements that hold them.
    pub fills: Vec<FillPattern>,
    /// Length of the array in bytes.
    pub uncompressed_bytes: u64,
    /// Length of the stream in bytes.
    pub compressed_bytes: u64,
    /// Processor that compressed the array, and the reason for it.
    pub execution: Execution,
}

impl Summary {
    /// Returns the uncompressed bytes divided by the compressed bytes.
    pub fn ratio(&self) -> f64 {
        self.uncompressed_bytes as f64 / self.compressed_bytes as f64
    }

    /// Returns the compressed bits per value; 0 for an empty array.
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

/// Description of a stream: its contents, the options that it was made with, and the sizes of its parts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Description {
    /// Format version.
    pub version: u16,
    /// Element type.
    pub element_type: ElementType,
    /// Shape of the array.
    pub shape: Shape,
    /// Kind of the stream.
    pub pipeline: Pipeline,
    /// Requested bound.
    pub bound: Bound,
    /// Bound that holds: an absolute error, or for [`Bound::PwRel`] the relative error of each value; 0 if lossless.
    pub abs_bound: f64,
    /// Quantization step; 0 if lossless.
    pub step: f64,
    /// Smallest and largest finite value that is not fill, if known.
    pub range: Option<(f64, f64)>,
    /// Fill patterns. The stream does not contain their counts.
    pub fills: Vec<FillPattern>,
    /// Requested kind of index of lossless streams.
    pub index: IndexKind,
    /// Size of the tiles.
    pub tile_size: TileSize,
    /// Length of the array in bytes.
    pub uncompressed_bytes: u64,
    /// Length of the stream in bytes.
    pub compressed_bytes: u64,
    /// Sums over all chunks.
    pub totals: ChunkReport,
}

impl Description {
    pub(crate) fn new(header: &Header, compressed_bytes: u64) -> Self {
        let patterns = header.patterns.iter();
        Self {
            version: FORMAT_VERSION,
            element_type: header.element_type,
            shape: header.shape,
            pipeline: header.pipeline,
            bound: header.bound,
            abs_bound: header.abs_bound,
            step: header.step,
            range: header.value_range(),
            fills: patterns.map(|&bits| FillPattern::new(header.element_type, bits, 0)).collect(),
            index: header.index,
            tile_size: header.tile_size,
            uncompressed_bytes: header.shape.len() * header.element_type.size() as u64,
            compressed_bytes,
            totals: ChunkReport::default(),
        }
    }

    /// Returns the uncompressed bytes divided by the compressed bytes.
    pub fn ratio(&self) -> f64 {
        self.uncompressed_bytes as f64 / self.compressed_bytes as f64
    }

    /// Returns the compressed bits per value; 0 for an empty array.
    pub fn bits_per_value(&self) -> f64 {
        bits_per_value(self.compressed_bytes, self.shape)
    }
}
