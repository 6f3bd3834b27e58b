//! What quantising says of a chunk.

use cudarc::driver::{DeviceRepr, ValidAsZeroBits};

/// What quantising says of a chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ChunkSummary {
    /// Groups of codes.
    pub groups: u32,
    /// Outliers.
    pub outliers: u32,
    /// Verbatim values.
    pub verbatim: u32,
    /// Bytes of the bitmaps of masks.
    pub mask_bytes: u32,
    /// Bytes of the bitmaps of signs.
    pub sign_bytes: u32,
    /// The radius that the chunk takes.
    pub radius: u32,
    /// Sum of the squared errors.
    pub squared_error: u64,
    /// Elements that the sum is over.
    pub counted: u64,
}

// SAFETY: plain numbers without padding.
unsafe impl DeviceRepr for ChunkSummary {}
// SAFETY: numbers.
unsafe impl ValidAsZeroBits for ChunkSummary {}
