//! The parts of chunk records, and their destinations.

use std::mem::size_of;

use cudarc::driver::CudaView;
use syncline_core::container::{ALIGNMENT, ChunkKind, RECORD_HEADER_LEN, SECTIONS};

use super::structs::{RecordPlan, TokenParts};
use crate::geometry::{ChunkBatch, DeviceGeometry, Slab};

/// Number of the section of codes.
const CODES_SECTION: usize = 3;

/// The lists of records with LZSS tokens, in place of the lists of other records.
pub struct TokenLists<'t> {
    /// One entry for each chunk of the batch.
    pub parts: CudaView<'t, TokenParts>,
    /// Positions of outliers in their chunks.
    pub positions: CudaView<'t, u32>,
    /// Residuals of the outliers.
    pub residuals: CudaView<'t, i32>,
}

impl RecordPlan {
    /// Returns the offset of the section of codes in the output in bytes, if the codes are LZSS tokens.
    pub(super) fn token_place(&self) -> Option<u64> {
        let head = RECORD_HEADER_LEN + SECTIONS * size_of::<u32>();
        let lengths = self.lengths[..CODES_SECTION].iter().map(|&bytes| u64::from(bytes));
        let parts = std::iter::once(head as u64).chain(lengths).map(|bytes| bytes.next_multiple_of(ALIGNMENT as u64));
        (self.kind == ChunkKind::LzssCodes as u32).then(|| self.place + parts.sum::<u64>())
    }
}

/// Outliers and verbatim values of all chunks of a batch, chunk after chunk.
#[derive(Debug)]
pub struct Lists<'a> {
    /// Positions of outliers in their chunks.
    pub outlier_positions: CudaView<'a, u32>,
    /// Residuals of the outliers.
    pub outlier_residuals: CudaView<'a, i32>,
    /// Positions of verbatim values in their chunks.
    pub verbatim_positions: CudaView<'a, u32>,
    /// Verbatim values, as little-endian bytes.
    pub verbatim_values: CudaView<'a, u8>,
}

/// The contents of a batch's records, except for the Huffman streams.
#[derive(Debug)]
pub struct Contents<'a> {
    /// Tiling of the array.
    pub geometry: DeviceGeometry,
    /// Chunks of the batch.
    pub batch: ChunkBatch,
    /// Bit fields of each tile: [`TileBits`](crate::quantize::TileBits).
    pub metas: &'a CudaView<'a, u16>,
    /// Base of each tile.
    pub bases: &'a CudaView<'a, i32>,
    /// Outliers and verbatim values.
    pub lists: &'a Lists<'a>,
    /// Elements of the array that include all those of the chunks.
    pub slab: &'a Slab<'a>,
}

impl Contents<'_> {
    /// Returns an upper bound of the elements in a chunk of the batch.
    pub fn max_chunk_elements(&self) -> u64 {
        u64::from(self.batch.slots()) << self.geometry.group_log2()
    }
}
