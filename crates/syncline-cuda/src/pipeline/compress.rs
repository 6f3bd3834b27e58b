//! Compresses arrays in device memory to streams in device memory.

use syncline_core::bound::{Bound, ErrorSummary, Fill, Resolved};
use syncline_core::container::Header;

/// Options of a compression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompressOptions {
    /// The error bound.
    pub bound: Bound,
    /// Which values are fill values: these do not count in the range and are stored exactly.
    pub fill: Fill,
}

impl CompressOptions {
    /// Returns the defaults with this bound: detected fill values.
    pub fn new(bound: Bound) -> Self {
        Self { bound, fill: Fill::Auto }
    }
}

/// The result of a compression.
#[derive(Debug, Clone)]
pub struct Compressed {
    /// Size of the stream in bytes.
    pub bytes: u64,
    /// The stream's header.
    pub header: Header,
    /// The resolved bound and the fill patterns, with the number of elements that hold each pattern.
    pub resolved: Resolved,
}

/// The records of some consecutive chunks.
#[derive(Debug, Clone)]
pub struct ChunkRecords {
    /// Length of each record in bytes; records are adjacent.
    pub lengths: Vec<u32>,
    /// Sums of squared errors, if the bound is a PSNR.
    pub errors: ErrorSummary,
}
