//! What the encoder takes elements from, and what the decoders of all kinds of chunks know.

use crate::container::Header;
use crate::error::{Error, Result};
use crate::geometry::{Geometry, Tile, Window};

/// A source of the encoder's elements.
pub trait ElementSource: Sync {
    /// Returns a window that contains the tiles of `run`, which are consecutive tiles of one row of tiles. `buffer` may
    /// be used as its memory.
    ///
    /// # Errors
    /// Whatever keeps the source from giving them.
    fn window<'s>(&'s self, geometry: &Geometry, run: &[Tile], buffer: &'s mut Vec<u8>) -> Result<Window<'s>>;
}

/// Returns the runs of consecutive tiles of one row of tiles, for each of which there is a window.
pub(super) fn runs_of_rows(tiles: &[Tile]) -> impl Iterator<Item = &[Tile]> {
    tiles.chunk_by(|a, b| a.origin[..3] == b.origin[..3])
}

/// The context of decoding a chunk.
pub(super) struct Context<'a> {
    pub header: &'a Header,
    pub geometry: &'a Geometry,
    pub chunk: u64,
    pub place: String,
}

impl Context<'_> {
    /// Returns the error of a chunk that contradicts itself.
    pub fn corrupt(&self, what: &str) -> Error {
        Error::corrupt(self.place.as_str(), what)
    }

    /// Returns the tiles of the chunk.
    pub fn tile_count(&self) -> usize {
        let range = self.geometry.chunk_range(self.chunk);
        (range.end - range.start) as usize
    }
}
