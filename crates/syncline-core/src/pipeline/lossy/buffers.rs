//! Memory of the encoder of quantized chunks.

use super::kept_tiles::KeptTiles;
use crate::container::TileInfo;
use crate::huffman::lengths::LengthScratch;
use crate::mem::kept::Kept;
use crate::pipeline::elements::Elements;
use crate::quantize::mask::TileMask;
use crate::quantize::{Real, Stored};
use crate::strips::StreamWriter;

/// Results of coding the tiles of a chunk, and memory that is kept from chunk to chunk.
#[derive(Debug, Default)]
pub(in super::super) struct EncodeBuffers {
    pub(super) infos: Vec<TileInfo>,
    pub(super) bases: Vec<u32>,
    pub(super) verbatim: Vec<u32>,
    pub(super) verbatim_bytes: Vec<u8>,
    pub(super) codes: StreamWriter,
    /// The tiles of the sample.
    pub(super) kept: KeptTiles,
    pub(super) lengths: LengthScratch,
    pub(super) tiles: Kept,
}

impl EncodeBuffers {
    /// Lists the elements `exact` of the tile `x`, which follows `position` elements of the chunk.
    #[inline]
    pub fn push_verbatim<T: Real>(&mut self, position: u32, x: &[T], exact: &TileMask, stored: &Stored<T>) {
        self.verbatim.extend(exact.ones().map(|i| position + i as u32));
        Elements::append(stored, exact.ones().map(|i| x[i]), &mut self.verbatim_bytes);
    }

    /// Adds the properties of a tile, with its class, and its base, if it has one; else, that of the tile before it.
    pub fn push_facts(&mut self, info: TileInfo, class: usize, base: Option<u32>) {
        self.infos.push(TileInfo { class: if info.constant { 0 } else { class as u8 }, ..info });
        let before = self.bases.last().copied().unwrap_or(0);
        self.bases.push(base.unwrap_or(before));
    }

    /// Forgets the chunk before, but for memory.
    pub fn clear(&mut self) {
        self.infos.clear();
        self.bases.clear();
        self.verbatim.clear();
        self.verbatim_bytes.clear();
        self.codes.clear();
        self.kept.clear();
    }
}
