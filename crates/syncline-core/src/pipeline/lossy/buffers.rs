//! Memory of the encoder of quantized chunks.

use crate::container::TileMeta;
use crate::huffman::lengths::LengthScratch;
use crate::mem::kept::Kept;
use crate::quantize::Real;
use crate::quantize::mask::TileMask;
use crate::strips::StreamWriter;

/// Results of coding the tiles of a chunk, and memory that is kept from chunk to chunk.
#[derive(Debug, Default)]
pub(in super::super) struct EncodeBuffers {
    pub(super) metas: Vec<TileMeta>,
    pub(super) bases: Vec<u32>,
    pub(super) verbatim: Vec<u32>,
    pub(super) verbatim_bytes: Vec<u8>,
    pub(super) codes: StreamWriter,
    pub(super) lengths: LengthScratch,
    pub(super) tiles: Kept,
}

impl EncodeBuffers {
    /// Lists the elements `exact` of the tile `x`, which follows `position` elements of the chunk.
    pub fn push_verbatim<T: Real>(&mut self, position: u32, x: &[T], exact: &TileMask) {
        for i in exact.ones() {
            self.verbatim.push(position + i as u32);
            self.verbatim_bytes.extend_from_slice(&x[i].bits().to_le_bytes()[..size_of::<T>()]);
        }
    }

    /// Forgets the chunk before, but for memory.
    pub fn clear(&mut self) {
        self.metas.clear();
        self.bases.clear();
        self.verbatim.clear();
        self.verbatim_bytes.clear();
        self.codes.clear();
    }
}
