//! What quantizing leaves of a chunk for its record: mirror of `kernels/quantize/summary.cuh`.

#![allow(unsafe_code, reason = "declares structs that kernels take by value")]

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{DeviceRepr, ValidAsZeroBits};

use crate::device::device_struct;

/// Counts of a quantized chunk, for the radius that the chunk takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ChunkSummary {
    /// Groups of codes.
    pub groups: u32,
    /// Residuals that no code represents.
    pub outliers: u32,
    /// Values stored verbatim.
    pub verbatim: u32,
    /// Bytes of the bitmaps of masks.
    pub mask_bytes: u32,
    /// Bytes of the bitmaps of signs.
    pub sign_bytes: u32,
    /// Radius of the chunk's codes: 512 or 32,768.
    pub radius: u32,
    /// Sum of the squared errors in `syncline_core`'s units, if the bound is a PSNR.
    pub squared_error: u64,
    /// Elements in `squared_error`.
    pub counted: u64,
}

// SAFETY: plain numbers without padding, laid out as `ChunkSummary` in quantize/summary.cuh.
unsafe impl DeviceRepr for ChunkSummary {}
// SAFETY: all bits 0 are valid for its fields, which are numbers.
unsafe impl ValidAsZeroBits for ChunkSummary {}

device_struct! {
    /// Sums over some of a chunk's tiles.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct TileSums {
        /// Tiles that are not constant.
        pub live: u32,
        /// Bit 0: some tile has a mask. Bit 2: some tile has signs.
        pub flags: u32,
        /// Words of 32 bits of the packed bases.
        pub words_of_bases: u32,
        unused: u32,
    }
}

impl TileSums {
    /// Sums over tiles of which `live` are not constant and whose packed bases take `words_of_bases` words.
    pub fn new(live: u32, masks: bool, signs: bool, words_of_bases: u32) -> Self {
        Self { live, flags: u32::from(masks) | u32::from(signs) << 2, words_of_bases, unused: 0 }
    }
}

/// `RecordInputs` in quantize/summary.cuh: where quantizing leaves what records need. All null if nobody makes records.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct RecordInputsArgument {
    /// Spans, tile sums, hash progress, summaries in host memory, control words.
    pub pointers: [CUdeviceptr; 5],
    pub control_words: u64,
    pub streams: u32,
    pub element_bytes: u32,
}

// SAFETY: addresses and numbers without padding, laid out as `RecordInputs` in quantize/summary.cuh.
unsafe impl DeviceRepr for RecordInputsArgument {}
