//! How an array is cut into tiles and chunks (`docs/FORMAT.md`, "Tiles and chunks").

mod window;

use std::ops::Range;

use crate::array::{MAX_RANK, Shape};
use crate::error::{Error, Result};

pub use window::Window;

/// Most elements a chunk may have.
pub const MAX_CHUNK_ELEMENTS: u64 = 1 << 22;
/// Most elements a tile may have.
pub const MAX_TILE_ELEMENTS: usize = 1024;

/// The tiling of one array. Axes are `[b, z, y, x]` throughout, slowest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    shape: Shape,
    dims: [u64; 4],
    tile: [usize; 3],
    grid: [u64; 4],
    axes: usize,
    tiles: u64,
    chunk_tiles: u64,
}

/// One tile: a box of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Raster number in the tile grid.
    pub number: u64,
    /// First element, `[b, z, y, x]`.
    pub origin: [u64; 4],
    /// Extents `[z, y, x]`, clipped at the array's edges; never 0.
    pub extent: [usize; 3],
}

impl Tile {
    /// Elements in the tile.
    #[expect(clippy::len_without_is_empty, reason = "a tile has at least one element")]
    pub fn len(&self) -> usize {
        self.extent[0] * self.extent[1] * self.extent[2]
    }

    /// Groups of `k` codes that the tile takes when it is not constant.
    pub fn groups(&self, k: usize) -> usize {
        self.len().div_ceil(k)
    }
}

impl Geometry {
    /// Tiling of an array with the writer's default number of tiles in a chunk.
    pub fn new(shape: Shape) -> Self {
        let target: u64 = match shape.len() {
            // Small arrays give every thread a few chunks.
            0..0x100_0000 => 1 << 19,
            0x100_0000..0x400_0000 => 1 << 20,
            0x400_0000..0x1000_0000 => 1 << 21,
            _ => 1 << 22,
        };
        Self::build(shape, |tile_elements| target / tile_elements)
    }

    /// Tiling with this many tiles in a chunk, as a stream's header states it.
    ///
    /// # Errors
    /// No tile in a chunk, or so many that a chunk may have more than [`MAX_CHUNK_ELEMENTS`] elements.
    pub fn with_chunk_tiles(shape: Shape, chunk_tiles: u32) -> Result<Self> {
        let geometry = Self::build(shape, |_| u64::from(chunk_tiles));
        if chunk_tiles == 0 || geometry.chunk_tiles * geometry.unclipped_len() > MAX_CHUNK_ELEMENTS {
            return Err(Error::invalid(format!(
                "{chunk_tiles} tiles of {} elements in a chunk: between 1 and {} are allowed",
                geometry.unclipped_len(),
                MAX_CHUNK_ELEMENTS / geometry.unclipped_len()
            )));
        }
        Ok(geometry)
    }

    fn build(shape: Shape, chunk_tiles: impl Fn(u64) -> u64) -> Self {
        let kept: Vec<u64> = shape.extents().iter().copied().filter(|&e| e != 1).collect();
        let mut dims = [1; 4];
        dims[4 - kept.len()..].copy_from_slice(&kept);
        let (axes, tile) = match kept.len() {
            0 | 1 => (1, [1, 1, 1024]),
            2 => (2, [1, 32, 32]),
            _ => (3, [8, 8, 8]),
        };
        let grid = [
            dims[0],
            dims[1].div_ceil(tile[0] as u64),
            dims[2].div_ceil(tile[1] as u64),
            dims[3].div_ceil(tile[2] as u64),
        ];
        let elements = tile.iter().product::<usize>() as u64;
        Self { shape, dims, tile, grid, axes, tiles: grid.iter().product(), chunk_tiles: chunk_tiles(elements) }
    }

    /// The array's shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Extents `[b, z, y, x]`.
    pub fn dims(&self) -> [u64; 4] {
        self.dims
    }

    /// Elements in the array.
    pub fn elements(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Axes along which tiles extend, 1 to 3; predictors 0 to `axes` are in use.
    pub fn axes(&self) -> usize {
        self.axes
    }

    /// Elements of a tile that no edge clips.
    pub fn unclipped_len(&self) -> u64 {
        self.tile.iter().product::<usize>() as u64
    }

    /// Extents `[z, y, x]` of a tile that no edge clips.
    pub fn unclipped_extent(&self) -> [usize; 3] {
        self.tile
    }

    /// Tiles in the array.
    pub fn tiles(&self) -> u64 {
        self.tiles
    }

    /// Tiles in each chunk but the last.
    pub fn tiles_per_chunk(&self) -> u32 {
        // At most 2^22 by construction.
        self.chunk_tiles as u32
    }

    /// Chunks in the array.
    pub fn chunks(&self) -> u64 {
        self.tiles.div_ceil(self.chunk_tiles)
    }

    /// Numbers of the tiles of chunk `chunk`.
    pub fn chunk_range(&self, chunk: u64) -> Range<u64> {
        let first = chunk.saturating_mul(self.chunk_tiles).min(self.tiles);
        first..first.saturating_add(self.chunk_tiles).min(self.tiles)
    }

    /// Elements of chunk `chunk`.
    pub fn chunk_elements(&self, chunk: u64) -> u64 {
        self.chunk(chunk).map(|t| t.len() as u64).sum()
    }

    /// The tiles of chunk `chunk`, in order.
    pub fn chunk(&self, chunk: u64) -> Tiles<'_> {
        self.range(self.chunk_range(chunk))
    }

    /// Tiles with these numbers, in order. Numbers past the last tile are left out.
    pub fn range(&self, numbers: Range<u64>) -> Tiles<'_> {
        let end = numbers.end.min(self.tiles);
        let next = numbers.start.min(end);
        Tiles { geometry: self, at: if next < end { self.grid_coordinates(next) } else { [0; 4] }, next, end }
    }

    /// Tile `number`.
    ///
    /// # Panics
    /// There is no such tile.
    pub fn tile(&self, number: u64) -> Tile {
        assert!(number < self.tiles, "tile {number} of {}", self.tiles);
        self.tile_at(number, self.grid_coordinates(number))
    }

    fn grid_coordinates(&self, number: u64) -> [u64; 4] {
        let [_, gz, gy, gx] = self.grid;
        let (rows, x) = (number / gx, number % gx);
        let (planes, y) = (rows / gy, rows % gy);
        [planes / gz, planes % gz, y, x]
    }

    fn tile_at(&self, number: u64, at: [u64; 4]) -> Tile {
        let origin = [at[0], at[1] * self.tile[0] as u64, at[2] * self.tile[1] as u64, at[3] * self.tile[2] as u64];
        let clip = |axis: usize| (self.dims[axis + 1] - origin[axis + 1]).min(self.tile[axis] as u64) as usize;
        Tile { number, origin, extent: [clip(0), clip(1), clip(2)] }
    }

    /// Strides of the whole array in elements, of the axes b, z and y (x has 1).
    pub fn strides(&self) -> [u64; 3] {
        let [_, z, y, x] = self.dims;
        [z * y * x, y * x, x]
    }

    /// Raster number of the element at `[b, z, y, x]`.
    pub fn element(&self, at: [u64; 4]) -> u64 {
        let [sb, sz, sy] = self.strides();
        at[0] * sb + at[1] * sz + at[2] * sy + at[3]
    }

    /// The smallest range of raster element indices of the array that holds all of chunk `chunk`.
    pub fn chunk_span(&self, chunk: u64) -> Range<u64> {
        let (mut start, mut end) = (u64::MAX, 0);
        for tile in self.chunk(chunk) {
            let last: [u64; 4] =
                std::array::from_fn(|a| tile.origin[a] + if a == 0 { 0 } else { tile.extent[a - 1] as u64 - 1 });
            (start, end) = (start.min(self.element(tile.origin)), end.max(self.element(last) + 1));
        }
        start.min(end)..end
    }

    /// The region with these bounds, one range for each axis of the array, slowest first.
    ///
    /// # Errors
    /// Not one range for each axis, or a range that is reversed or leaves the array.
    pub fn region(&self, ranges: &[Range<u64>]) -> Result<Region> {
        let extents = self.shape.extents();
        if ranges.len() != extents.len() {
            return Err(Error::invalid(format!(
                "a region of {} ranges for an array of {} axes: give one range for each axis",
                ranges.len(),
                extents.len()
            )));
        }
        let mut region = Region { start: [0; 4], extent: [1; 4] };
        let mut kept = [(0, 1); MAX_RANK];
        let mut count = 0;
        let mut empty = false;
        for (axis, (range, &extent)) in ranges.iter().zip(extents).enumerate() {
            if range.start > range.end || range.end > extent {
                return Err(Error::invalid(format!(
                    "region {}:{} of axis {axis} leaves the array's 0:{extent}",
                    range.start, range.end
                )));
            }
            empty |= range.is_empty();
            if extent != 1 {
                kept[count] = (range.start, range.end - range.start);
                count += 1;
            }
        }
        for (slot, (start, extent)) in kept[..count].iter().enumerate() {
            region.start[4 - count + slot] = *start;
            region.extent[4 - count + slot] = *extent;
        }
        if empty {
            region.extent = [0; 4];
        }
        Ok(region)
    }

    /// Region of the whole array.
    pub fn whole(&self) -> Region {
        Region { start: [0; 4], extent: self.dims }
    }

    /// Extent of a tile along the slowest axis along which tiles extend: how thick a layer of tiles is.
    pub fn layer_side(&self) -> u64 {
        self.tile[3 - self.axes] as u64
    }

    /// Elements of a region in one layer of tiles.
    pub fn layer_len(&self, region: &Region) -> u64 {
        let faster = &region.extent[5 - self.axes..];
        faster.iter().fold(self.layer_side(), |len, &extent| len.saturating_mul(extent))
    }

    /// Calls `visit` with each longest run of consecutive tile numbers in a row of tiles that meets the region,
    /// ascending.
    fn for_tile_rows(&self, region: &Region, mut visit: impl FnMut(Range<u64>)) {
        if region.is_empty() {
            return;
        }
        let span = |axis: usize| {
            let side = if axis == 0 { 1 } else { self.tile[axis - 1] as u64 };
            let end = region.start[axis] + region.extent[axis];
            region.start[axis] / side..end.div_ceil(side)
        };
        let [_, gz, gy, gx] = self.grid;
        for b in span(0) {
            for z in span(1) {
                for y in span(2) {
                    let row = ((b * gz + z) * gy + y) * gx;
                    visit(row + span(3).start..row + span(3).end);
                }
            }
        }
    }

    /// Numbers of the chunks that hold a tile of the region, ascending.
    pub fn chunks_in(&self, region: &Region) -> Vec<u64> {
        let mut chunks = Vec::new();
        self.for_tile_rows(region, |tiles| {
            let (first, last) = (tiles.start / self.chunk_tiles, (tiles.end - 1) / self.chunk_tiles);
            let new = chunks.last().map_or(first, |&c: &u64| first.max(c + 1));
            chunks.extend(new..=last);
        });
        chunks
    }
}

/// Tiles in raster order.
#[derive(Clone, Debug)]
pub struct Tiles<'a> {
    geometry: &'a Geometry,
    at: [u64; 4],
    next: u64,
    end: u64,
}

impl Iterator for Tiles<'_> {
    type Item = Tile;

    fn next(&mut self) -> Option<Tile> {
        if self.next >= self.end {
            return None;
        }
        let tile = self.geometry.tile_at(self.next, self.at);
        self.next += 1;
        for axis in (0..4).rev() {
            self.at[axis] += 1;
            if self.at[axis] < self.geometry.grid[axis] {
                break;
            }
            self.at[axis] = 0;
        }
        Some(tile)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.end - self.next) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Tiles<'_> {}

/// A box of elements of an array, in the axes `[b, z, y, x]` of its [`Geometry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    start: [u64; 4],
    extent: [u64; 4],
}

impl Region {
    /// Elements in the region.
    pub fn len(&self) -> u64 {
        self.extent.iter().product()
    }

    /// Whether the region has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// First element, `[b, z, y, x]`.
    pub fn start(&self) -> [u64; 4] {
        self.start
    }

    /// Extents, `[b, z, y, x]`.
    pub fn extent(&self) -> [u64; 4] {
        self.extent
    }

    /// Whether the tile has an element of the region.
    pub fn meets(&self, tile: &Tile) -> bool {
        (0..4).all(|a| {
            let extent = if a == 0 { 1 } else { tile.extent[a - 1] as u64 };
            tile.origin[a] < self.start[a] + self.extent[a] && self.start[a] < tile.origin[a] + extent
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn geometry(extents: &[u64]) -> Geometry {
        Geometry::new(Shape::new(extents).unwrap())
    }

    #[test]
    fn layers_are_as_thick_as_tiles() {
        let layer = |extents: &[u64]| geometry(extents).layer_len(&geometry(extents).whole());
        assert_eq!(layer(&[]), 1024);
        assert_eq!(layer(&[5000, 1]), 1024);
        assert_eq!(layer(&[100, 1, 70]), 32 * 70);
        assert_eq!(layer(&[20, 30, 40]), 8 * 30 * 40);
        assert_eq!(layer(&[3, 9, 10, 11]), 8 * 10 * 11);
    }

    #[test]
    fn axes_of_extent_one_are_dropped() {
        assert_eq!(geometry(&[1, 70, 1, 40]).dims(), [1, 1, 70, 40]);
        assert_eq!(geometry(&[1, 70, 1, 40]).unclipped_extent(), [1, 32, 32]);
        assert_eq!(geometry(&[]).dims(), [1, 1, 1, 1]);
        assert_eq!(geometry(&[]).tiles(), 1);
        assert_eq!(geometry(&[5, 9, 9, 9]).dims(), [5, 9, 9, 9]);
        assert_eq!(geometry(&[5, 9, 9, 9]).tiles(), 40);
    }

    #[test]
    fn empty_arrays_have_no_tile() {
        for extents in [&[0][..], &[0, 5], &[7, 0, 3], &[1, 0, 1], &[1 << 20, 0, 1 << 20, 1]] {
            let g = geometry(extents);
            assert_eq!((g.tiles(), g.chunks(), g.elements()), (0, 0, 0));
            assert_eq!(g.chunk(0).count(), 0);
        }
    }

    #[test]
    fn chunks_grow_with_the_array() {
        assert_eq!(geometry(&[100, 500, 500]).tiles_per_chunk(), 2048);
        assert_eq!(geometry(&[512, 512, 512]).tiles_per_chunk(), 4096);
        assert_eq!(geometry(&[1 << 28]).tiles_per_chunk(), 4096);
        assert_eq!(geometry(&[1 << 28]).chunks(), 64);
    }

    #[test]
    fn more_than_32_bits_of_elements() {
        let g = geometry(&[1 << 20, 1 << 20, 1 << 19]);
        let last = g.tile(g.tiles() - 1);
        assert_eq!(last.origin, [0, (1 << 20) - 8, (1 << 20) - 8, (1 << 19) - 8]);
        assert_eq!(g.chunk_range(g.chunks() - 1).end, g.tiles());
    }

    #[test]
    fn tiles_in_a_chunk_are_limited() {
        let shape = Shape::new(&[9, 9, 9]).unwrap();
        assert!(Geometry::with_chunk_tiles(shape, 0).is_err());
        assert!(Geometry::with_chunk_tiles(shape, 8192).is_ok());
        assert!(Geometry::with_chunk_tiles(shape, 8193).is_err());
        assert!(Geometry::with_chunk_tiles(shape, u32::MAX).is_err());
    }

    #[test]
    fn regions_are_checked() {
        let g = geometry(&[4, 1, 6]);
        assert!(g.region(&[0..4, 0..1]).is_err());
        assert!(g.region(&[0..5, 0..1, 0..6]).is_err());
        #[expect(clippy::reversed_empty_ranges, reason = "what is tested")]
        let reversed = g.region(&[3..2, 0..1, 0..6]);
        assert!(reversed.is_err());
        assert!(g.region(&[0..4, 0..0, 0..6]).unwrap().is_empty());
        assert_eq!(g.region(&[1..3, 0..1, 2..6]).unwrap().start(), [0, 0, 1, 2]);
    }

    proptest! {
        #[test]
        fn every_element_is_in_one_tile(extents in prop::collection::vec(1u64..40, 0..=4), chunk_tiles in 1u32..9) {
            let shape = Shape::new(&extents).unwrap();
            let g = Geometry::with_chunk_tiles(shape, chunk_tiles).unwrap();
            let mut seen = vec![0u8; shape.len() as usize];
            let [sb, sz, sy] = g.strides();
            let mut number = 0;
            for c in 0..g.chunks() {
                let span = g.chunk_span(c);
                let mut elements = 0;
                for tile in g.chunk(c) {
                    prop_assert_eq!(tile, g.tile(number));
                    number += 1;
                    elements += tile.len() as u64;
                    let [depth, height, width] = tile.extent.map(|extent| extent as u64);
                    let [b, oz, oy, ox] = tile.origin;
                    for z in 0..depth {
                        for y in 0..height {
                            for x in 0..width {
                                let index = b * sb + (oz + z) * sz + (oy + y) * sy + ox + x;
                                prop_assert!(span.contains(&index));
                                seen[index as usize] += 1;
                            }
                        }
                    }
                }
                prop_assert_eq!(elements, g.chunk_elements(c));
            }
            prop_assert_eq!(number, g.tiles());
            prop_assert!(seen.iter().all(|&s| s == 1));
        }

        #[test]
        fn regions_name_their_chunks(
            axes in prop::collection::vec((1u64..40, 0u64..40, 0u64..40), 1..=4), chunk_tiles in 1u32..9,
        ) {
            let extents: Vec<u64> = axes.iter().map(|a| a.0).collect();
            let g = Geometry::with_chunk_tiles(Shape::new(&extents).unwrap(), chunk_tiles).unwrap();
            let ranges: Vec<_> = axes.iter().map(|&(e, a, b)| a.min(b).min(e)..a.max(b).min(e)).collect();
            let region = g.region(&ranges).unwrap();
            let expected: Vec<u64> =
                (0..g.chunks()).filter(|&c| !region.is_empty() && g.chunk(c).any(|t| region.meets(&t))).collect();
            prop_assert_eq!(g.chunks_in(&region), expected);
        }
    }
}
