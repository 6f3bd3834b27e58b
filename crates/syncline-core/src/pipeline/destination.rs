//! Where decoded tiles go: memory, or a sink of the caller.

use bytemuck::Pod;

use crate::error::Result;
use crate::geometry::Tile;
use crate::mem::scatter::ChunkSink;
use crate::mem::uninit::{UninitBytes, Written};

/// A destination of the decoder's elements that is not memory: the tiles of one chunk, each written or skipped, in
/// order.
pub trait TileSink {
    /// Returns the next tile, and whether its values are needed.
    fn peek(&self) -> Option<(Tile, bool)>;
    /// Returns whether the values of a tile of the chunk are needed.
    fn needs(&self, tile: &Tile) -> bool;
    /// Leaves the next tile out.
    fn skip(&mut self);
    /// Takes the elements of the next tile, in raster order of the tile and in the host's byte order; there may be more
    /// in `elements`.
    ///
    /// # Errors
    /// Whatever keeps the sink from taking them.
    fn put(&mut self, elements: &[u8]) -> Result<()>;
}

/// Where [`decode_chunk`](super::decode_chunk) writes. There is one function for both, so that the decoders of all
/// element types are compiled here, once, and not with each crate that has a sink.
pub enum Destination<'s, 'm> {
    /// The output array.
    Memory(&'s mut ChunkSink<'m>),
    /// Something else.
    Sink(&'s mut dyn TileSink),
}

impl std::fmt::Debug for Destination<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory(sink) => f.debug_tuple("Memory").field(sink).finish(),
            Self::Sink(_) => f.write_str("Sink(..)"),
        }
    }
}

impl<'s, 'm> From<&'s mut ChunkSink<'m>> for Destination<'s, 'm> {
    fn from(sink: &'s mut ChunkSink<'m>) -> Self {
        Self::Memory(sink)
    }
}

impl<'s, K: TileSink> From<&'s mut K> for Destination<'s, '_> {
    fn from(sink: &'s mut K) -> Self {
        Self::Sink(sink)
    }
}

/// What a [`Destination`] does for decoders.
pub(super) trait Tiles {
    /// Returns the next tile, and whether its values are needed.
    fn peek(&self) -> Option<(Tile, bool)>;
    /// Returns whether the values of a tile of the chunk are needed.
    fn needs(&self, tile: &Tile) -> bool;
    /// Fills memory like [`ChunkSink::fill`]. A sink may return `None` if it does not support this.
    fn fill<E>(
        &mut self,
        bytes: usize,
        slack: usize,
        fill: impl for<'m> FnOnce(UninitBytes<'m>) -> std::result::Result<Written<'m>, E>,
    ) -> Option<std::result::Result<usize, E>> {
        let _ = (bytes, slack, fill);
        None
    }
    /// Leaves the next tile out.
    fn skip(&mut self);
    /// Leaves the tiles before this one out.
    fn skip_to(&mut self, tile: &Tile) {
        while self.peek().is_some_and(|(next, _)| next.number < tile.number) {
            self.skip();
        }
    }
    /// Takes the elements of the next tile, in raster order of the tile; there may be more in `values`.
    fn put<T: Pod>(&mut self, values: &[T]) -> Result<()>;
}

impl Tiles for ChunkSink<'_> {
    fn peek(&self) -> Option<(Tile, bool)> {
        self.peek()
    }

    fn needs(&self, tile: &Tile) -> bool {
        self.needs(tile)
    }

    fn fill<E>(
        &mut self,
        bytes: usize,
        slack: usize,
        fill: impl for<'m> FnOnce(UninitBytes<'m>) -> std::result::Result<Written<'m>, E>,
    ) -> Option<std::result::Result<usize, E>> {
        self.fill(bytes, slack, fill)
    }

    fn skip(&mut self) {
        self.skip();
    }

    fn put<T: Pod>(&mut self, values: &[T]) -> Result<()> {
        self.put(values);
        Ok(())
    }
}

impl Tiles for dyn TileSink + '_ {
    fn peek(&self) -> Option<(Tile, bool)> {
        TileSink::peek(self)
    }

    fn needs(&self, tile: &Tile) -> bool {
        TileSink::needs(self, tile)
    }

    fn skip(&mut self) {
        TileSink::skip(self);
    }

    fn put<T: Pod>(&mut self, values: &[T]) -> Result<()> {
        TileSink::put(self, bytemuck::cast_slice(values))
    }
}
