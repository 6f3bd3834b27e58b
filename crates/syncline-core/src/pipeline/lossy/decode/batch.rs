//! Consecutive tiles that are decoded together, the interpolated ones side by side.

use crate::error::Result;
use crate::geometry::Tile;
use crate::mem::kept::Kept;
use crate::predict::interpolate::{Interpolation, Lanes, Plans, Scheme, deinterleave, lanes};
use crate::quantize::{Linear, Real};

/// Tiles of a batch.
pub(super) const LANES: usize = 8;

/// A tile and its place in the chunk.
#[derive(Clone, Copy)]
pub(super) struct PlacedTile {
    pub(super) tile: Tile,
    /// Tiles before it.
    pub(super) number: usize,
    /// Elements before it.
    pub(super) position: u32,
    /// Its first strip.
    pub(super) strip: usize,
}

/// Consecutive tiles whose elements are known, but for those that are interpolated together.
pub(super) struct Batch<T: Real> {
    tiles: Vec<PlacedTile>,
    memory: BatchMemory<T>,
    stride: usize,
    /// `None` if no tile of the chunk is interpolated.
    interpolator: Option<Interpolator<T>>,
    /// Extents of all tiles that wait for interpolation, if there are any.
    extent: Option<[usize; 3]>,
    /// Bit `lane` is set of tiles that wait for interpolation.
    waiting: u8,
    /// The base of each tile.
    bases: [i32; LANES],
}

/// Interpolates the tiles of a batch.
#[derive(Clone, Copy)]
pub(super) struct Interpolator<T: Real> {
    pub(super) interpolation: Interpolation<T>,
    pub(super) linear: Linear<T>,
    pub(super) scheme: Scheme,
}

/// Memory for the tiles of a batch. Its contents are of no use for another one, except for the plans.
#[derive(Debug)]
pub(super) struct BatchMemory<T> {
    plans: Plans<T>,
    /// The elements of each tile, a stride apart.
    elements: Vec<T>,
    codes: Box<Lanes<i32, LANES>>,
    values: Box<Lanes<T, LANES>>,
}

impl<T: Real> BatchMemory<T> {
    /// Takes the memory that was kept, for tiles that extend along `axes` axes.
    pub(super) fn take(kept: &mut Kept, axes: usize) -> Self {
        let new = || Self { plans: Plans::new(axes), elements: Vec::new(), codes: lanes(), values: lanes() };
        let mut memory = kept.take().unwrap_or_else(new);
        memory.plans.prepare(axes);
        memory
    }
}

impl<T: Real> Batch<T> {
    /// Returns an empty batch for tiles of at most `longest` elements.
    pub(super) fn new(longest: usize, interpolator: Option<Interpolator<T>>, mut memory: BatchMemory<T>) -> Self {
        // Tiles that are a power of two apart would share few sets of the cache.
        let stride = longest + 64 / size_of::<T>();
        memory.elements.resize(LANES * stride, T::zeroed());
        Self {
            tiles: Vec::with_capacity(LANES),
            memory,
            stride,
            interpolator,
            extent: None,
            waiting: 0,
            bases: [0; LANES],
        }
    }

    pub(super) fn into_memory(self) -> BatchMemory<T> {
        self.memory
    }

    /// Returns whether a tile can be added.
    pub(super) fn has_room(&self, tile: &Tile, interpolated: bool) -> bool {
        self.tiles.len() < LANES && (!interpolated || self.extent.is_none_or(|extent| extent == tile.extent))
    }

    /// Returns whether tiles wait for interpolation.
    pub(super) fn waits(&self) -> bool {
        self.waiting != 0
    }

    /// Adds a tile and returns its elements, which the caller sets.
    pub(super) fn add(&mut self, tile: PlacedTile) -> &mut [T] {
        let start = self.tiles.len() * self.stride;
        self.tiles.push(tile);
        &mut self.memory.elements[start..start + tile.tile.len()]
    }

    /// Adds a tile that is interpolated. Returns its codes, zeros in one lane, which the caller sets, and that lane.
    /// Returns `None` if the chunk has no interpolation scheme.
    pub(super) fn add_interpolated(&mut self, tile: PlacedTile, base: i32) -> Option<(&mut [[i32; LANES]], usize)> {
        self.interpolator?;
        let codes = &mut self.memory.codes[..tile.tile.len()];
        if self.extent.replace(tile.tile.extent).is_none() {
            codes.fill([0; LANES]);
        }
        let lane = self.tiles.len();
        self.tiles.push(tile);
        self.bases[lane] = base;
        self.waiting |= 1 << lane;
        Some((codes, lane))
    }

    /// Calls `put` with each tile and its elements, in order, and empties the batch.
    pub(super) fn finish(&mut self, mut put: impl FnMut(&PlacedTile, &mut [T]) -> Result<()>) -> Result<()> {
        if let Some(extent) = self.extent.take() {
            self.interpolate(extent);
        }
        for (tile, elements) in self.tiles.drain(..).zip(self.memory.elements.chunks_mut(self.stride)) {
            put(&tile, &mut elements[..tile.tile.len()])?;
        }
        Ok(())
    }

    fn interpolate(&mut self, extent: [usize; 3]) {
        let Some(Interpolator { interpolation, linear, scheme }) = self.interpolator else { return };
        let BatchMemory { plans, elements, codes, values } = &mut self.memory;
        let anchor = |lane: usize, integer: i32| linear.value(integer.wrapping_add(self.bases[lane]));
        interpolation.decode(plans.get(scheme, extent), codes, anchor, values);
        let count: usize = extent.iter().product();
        let mut tiles = elements.chunks_mut(self.stride);
        let waiting = std::mem::take(&mut self.waiting);
        let wanted = std::array::from_fn(|lane| {
            let count = if waiting >> lane & 1 != 0 { count } else { 0 };
            &mut tiles.next().unwrap_or_default()[..count]
        });
        deinterleave(&values[..], wanted);
    }
}
