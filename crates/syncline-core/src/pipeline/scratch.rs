//! Memory that is kept from chunk to chunk.

use super::lossy::buffers::EncodeBuffers;
use super::lzss;
use crate::contexts::lanes::SlotTables;
use crate::geometry::Tile;
use crate::mem::kept::Kept;
use crate::predict::word::Word;

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
}

/// Memory that the decoder keeps from chunk to chunk.
#[derive(Debug, Default)]
pub struct DecodeScratch {
    pub(super) lzss: lzss::DecodeBuffers,
    pub(super) batch: Kept,
    pub(super) block: Kept,
    pub(super) slots: SlotTables,
}

/// Returns memory for this many words, whose values are unspecified.
pub(super) fn words_in<W: Word>(memory: &mut Vec<u64>, count: usize) -> &mut [W] {
    let length = (count * size_of::<W>()).div_ceil(8);
    if memory.len() < length {
        memory.resize(length, 0);
    }
    &mut bytemuck::cast_slice_mut(memory)[..count]
}
