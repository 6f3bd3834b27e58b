//! The pieces of a buffer that are hashed, and where their hashes go.

use cudarc::driver::CudaView;
use cudarc::driver::sys::CUdeviceptr;
use syncline_core::container::RECORD_HEADER_LEN;

use super::{BLOCK, SUMS_WORDS};

/// A range of bytes in each piece that its hash leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExcludedRange {
    /// Offset in the piece in bytes.
    pub at: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl ExcludedRange {
    /// An empty range: the hash covers the whole piece.
    pub const NONE: Self = Self { at: 0, bytes: 0 };
    /// The range of a record that holds the record's own hash.
    pub const RECORD: Self = Self { at: RECORD_HEADER_LEN as u64 - 8, bytes: 8 };
}

/// Pieces of a buffer, described in device memory.
#[derive(Debug, Clone, Copy)]
pub struct Pieces<'a> {
    /// Start of each piece in bytes from the start of the buffer.
    pub starts: &'a CudaView<'a, u64>,
    /// Length of each piece in bytes, including the excluded range.
    pub lengths: &'a CudaView<'a, u32>,
    /// Upper bound of the lengths. A longer piece is treated as missing.
    pub longest: u32,
    /// The bytes of each piece that its hash leaves out.
    pub excluded: ExcludedRange,
}

impl Pieces<'_> {
    pub(super) fn sums_words(&self) -> usize {
        sums_words(self.starts.len(), self.longest)
    }
}

/// Returns the 64-bit words for the accumulator sums of `pieces` pieces of at most `longest` bytes.
pub(in crate::container) fn sums_words(pieces: usize, longest: u32) -> usize {
    pieces * (longest / BLOCK) as usize * SUMS_WORDS
}

/// Destinations of the results. Each field is an address or 0: an array of hashes, the buffer whose excluded ranges
/// receive the hashes with a counter of those that have, or an array of flags whether the stored hashes differ.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HashDestination {
    pub hashes: CUdeviceptr,
    pub checksummed_bytes: CUdeviceptr,
    pub checksummed: CUdeviceptr,
    pub differs: CUdeviceptr,
}
