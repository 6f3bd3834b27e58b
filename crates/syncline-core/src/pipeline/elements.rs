//! Elements on their way between memory and the values that are computed with.

use super::destination::Tiles;
use crate::container::Header;
use crate::error::Result;
use crate::geometry::{Tile, Window};
use crate::quantize::stored::{ComputedIn, Visitor};
use crate::quantize::{Real, Stored};

/// Converts the elements of tiles, and has memory for one tile.
#[derive(Debug)]
pub(super) struct Elements<T> {
    pub stored: Stored<T>,
    /// The elements of a tile, as words because of their alignment.
    memory: Vec<u64>,
    /// Whether an element was found that no value stands for.
    pub any_lost: bool,
}

impl<T: Real> Elements<T> {
    pub fn new(header: &Header) -> Self {
        Self { stored: header.stored(), memory: Vec::new(), any_lost: false }
    }

    /// Copies the values of the elements of a tile to the front of `x`, in raster order of the tile.
    #[inline]
    pub fn gather(&mut self, window: &Window, tile: &Tile, x: &mut [T]) {
        if self.stored.is_same() {
            return window.gather(tile, x);
        }
        let Self { stored, memory, any_lost } = self;
        let x = &mut x[..tile.len()];
        stored.visit(Gather { stored, memory, window, tile, x: &mut *x });
        if stored.element().is_wide_integer() {
            *any_lost |= x.iter().any(|&value| stored.is_lost(value));
        }
    }

    /// Gives a sink the elements of its next tile.
    #[inline]
    pub fn put<K: Tiles + ?Sized>(&mut self, x: &[T], sink: &mut K) -> Result<()> {
        if self.stored.is_same() {
            return sink.put(x);
        }
        let Self { stored, memory, .. } = self;
        stored.visit(Put { stored, memory, x, sink })
    }

    /// Appends the bytes of the elements with these values.
    pub fn append(stored: &Stored<T>, x: impl IntoIterator<Item = T>, out: &mut Vec<u8>) {
        for x in x {
            out.extend_from_slice(&stored.bits(x).to_le_bytes()[..stored.size()]);
        }
    }
}

/// Returns memory for so many elements.
fn elements<S: bytemuck::Pod>(memory: &mut Vec<u64>, count: usize) -> &mut [S] {
    let words = (count * size_of::<S>()).div_ceil(8);
    if memory.len() < words {
        memory.resize(words, 0);
    }
    &mut bytemuck::cast_slice_mut(memory)[..count]
}

struct Gather<'a, 'w, T> {
    stored: &'a Stored<T>,
    memory: &'a mut Vec<u64>,
    window: &'a Window<'w>,
    tile: &'a Tile,
    x: &'a mut [T],
}

impl<T: Real> Visitor<T> for Gather<'_, '_, T> {
    type Output = ();

    fn visit<S: ComputedIn<T>>(self) {
        let elements = elements::<S>(self.memory, self.x.len());
        self.window.gather(self.tile, elements);
        self.stored.load(elements, self.x);
    }
}

struct Put<'a, T, K: ?Sized> {
    stored: &'a Stored<T>,
    memory: &'a mut Vec<u64>,
    x: &'a [T],
    sink: &'a mut K,
}

impl<T: Real, K: Tiles + ?Sized> Visitor<T> for Put<'_, T, K> {
    type Output = Result<()>;

    fn visit<S: ComputedIn<T>>(self) -> Result<()> {
        let elements = elements::<S>(self.memory, self.x.len());
        self.stored.store(self.x, elements);
        self.sink.put(&*elements)
    }
}
