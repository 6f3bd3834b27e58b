//! Memory that is kept from chunk to chunk.

use super::lossy::buffers::EncodeBuffers;
use super::lzss;
use crate::geometry::Tile;
use crate::mem::kept::Kept;

/// Memory that the encoder keeps from chunk to chunk.
#[derive(Debug, Default)]
pub struct EncodeScratch {
    pub(super) tiles: Vec<Tile>,
    pub(super) window: Vec<u8>,
    pub(super) huffman: crate::huffman::EncodeScratch,
    pub(super) quantized: EncodeBuffers,
    pub(super) lzss: lzss::EncodeBuffers,
    pub(super) block: Kept,
    pub(super) numbers: Kept,
    /// Elements of a lossless chunk, as words because of their alignment.
    pub(super) elements: Vec<u64>,
    pub(super) residuals: Vec<u64>,
}

/// Memory that the decoder keeps from chunk to chunk.
#[derive(Debug, Default)]
pub struct DecodeScratch {
    pub(super) lzss: lzss::DecodeBuffers,
    pub(super) batch: Kept,
    pub(super) block: Kept,
}
