//! The tiles of a sample, which are coded before their codebooks are known.

use super::buffers::EncodeBuffers;
use super::tile_coder::{Prediction, Prepared};
use super::{Encoders, TileFacts};
use crate::container::TileInfo;
use crate::geometry::Tile;
use crate::pipeline::elements::Elements;
use crate::quantize::mask::TileMask;
use crate::quantize::{Real, Stored};
use crate::strips::Strip;

/// Tiles that are coded, in ascending order.
#[derive(Debug, Default)]
pub(super) struct KeptTiles {
    tiles: Vec<KeptTile>,
    strips: Vec<KeptStrip>,
    codes: Vec<i32>,
    /// Elements of their tiles that are verbatim, and their bytes.
    verbatim: Vec<u32>,
    verbatim_bytes: Vec<u8>,
}

#[derive(Debug)]
struct KeptTile {
    number: u64,
    len: u32,
    info: TileInfo,
    class: usize,
    base: Option<u32>,
    strips: usize,
    verbatim: usize,
}

#[derive(Debug)]
struct KeptStrip {
    len: usize,
    is_dense: bool,
    is_bitmap: bool,
}

impl KeptTiles {
    /// Forgets all tiles.
    pub(super) fn clear(&mut self) {
        self.tiles.clear();
        self.strips.clear();
        self.codes.clear();
        self.verbatim.clear();
        self.verbatim_bytes.clear();
    }

    /// Adds a tile that is coded.
    pub(super) fn push<T: Real>(
        &mut self,
        prepared: &Prepared<T>,
        tile: &Tile,
        prediction: Prediction,
        (facts, class): (TileFacts, usize),
        stored: &Stored<T>,
    ) {
        let (strips, verbatim) = (self.strips.len(), self.verbatim.len());
        prepared.for_strips(tile.extent, prediction, |strip, is_bitmap| {
            self.codes.extend_from_slice(strip.codes);
            self.strips.push(KeptStrip { len: strip.codes.len(), is_dense: strip.is_dense, is_bitmap });
        });
        for i in facts.exact.iter().flat_map(TileMask::ones) {
            self.verbatim.push(i as u32);
            Elements::append(stored, [prepared.x[i]], &mut self.verbatim_bytes);
        }
        self.tiles.push(KeptTile {
            number: tile.number,
            len: tile.len() as u32,
            info: facts.info,
            class,
            base: facts.base,
            strips: self.strips.len() - strips,
            verbatim: self.verbatim.len() - verbatim,
        });
    }

    /// Returns a cursor at the first tile.
    pub(super) fn cursor(&self) -> Cursor<'_> {
        let Self { tiles, strips, codes, verbatim, verbatim_bytes } = self;
        Cursor { tiles, strips, codes, verbatim, verbatim_bytes }
    }
}

/// The tiles that have not been written.
pub(super) struct Cursor<'k> {
    tiles: &'k [KeptTile],
    strips: &'k [KeptStrip],
    codes: &'k [i32],
    verbatim: &'k [u32],
    verbatim_bytes: &'k [u8],
}

impl Cursor<'_> {
    /// Writes the tiles with numbers below `number`. Adds their elements to `position`, the elements of the chunk
    /// before them.
    pub(super) fn write_before(
        &mut self,
        number: u64,
        position: &mut u32,
        encoders: &Encoders,
        buffers: &mut EncodeBuffers,
    ) {
        while let Some((tile, tiles)) = self.tiles.split_first().filter(|(tile, _)| tile.number < number) {
            self.tiles = tiles;
            let class = if encoders.has_classes() { tile.class } else { 0 };
            let (own, strips) = self.strips.split_at(tile.strips);
            self.strips = strips;
            for strip in own {
                let (codes, rest) = self.codes.split_at(strip.len);
                self.codes = rest;
                let encoder = encoders.of(class, strip.is_bitmap);
                buffers.codes.push(Strip { codes, is_dense: strip.is_dense }, encoder);
            }
            let (own, verbatim) = self.verbatim.split_at(tile.verbatim);
            let bytes_each = self.verbatim_bytes.len() / self.verbatim.len().max(1);
            let (bytes, rest) = self.verbatim_bytes.split_at(tile.verbatim * bytes_each);
            (self.verbatim, self.verbatim_bytes) = (verbatim, rest);
            buffers.verbatim.extend(own.iter().map(|i| *position + i));
            buffers.verbatim_bytes.extend_from_slice(bytes);
            buffers.push_facts(tile.info, class, tile.base);
            *position += tile.len;
        }
    }
}
