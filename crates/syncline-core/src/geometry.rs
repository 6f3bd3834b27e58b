//! Divides arrays into tiles and chunks (`docs/FORMAT.md`, "Tiles and chunks").

mod region;
mod window;

use std::fmt;
use std::ops::Range;

use crate::array::Shape;
use crate::error::{Error, Result};

pub use region::Region;
pub use window::Window;

/// Most elements a chunk may have.
pub const MAX_CHUNK_ELEMENTS: u64 = 1 << 22;
/// Most elements a tile of [`TileSize::Small`] may have.
pub const MAX_TILE_ELEMENTS: usize = 1024;

/// The extents of tiles that no edge of the array clips.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TileSize {
    /// 8x8x8, 32x32, or 1,024 elements.
    #[default]
    Small,
    /// Blocks: up to 64x64x64, 512x512, or 262,144 elements, interpolated level by level, with codes by contexts. The
    /// smallest streams; a part of an array takes the coarse levels of all blocks that it meets. Only in quantized
    /// streams.
    Block,
}

/// Binary logarithm of the most elements of a block.
const BLOCK_LOG2: u32 = 18;

/// Returns extents that are powers of two, none above that of `most`, whose product is 2^`log2` or as large as `most`
/// allows, and which differ as little as possible, with the faster axes the longer ones.
///
/// ```
/// use syncline_core::geometry::balanced_extent;
/// assert_eq!(balanced_extent([64, 64, 64], 15), [32, 32, 32]);
/// assert_eq!(balanced_extent([16, 1 << 20, 4], 18), [16, 4096, 4]);
/// assert_eq!(balanced_extent([4, 2, 1], 18), [4, 2, 1]);
/// ```
pub fn balanced_extent(most: [usize; 3], log2: u32) -> [usize; 3] {
    let mut extent = [1; 3];
    for _ in 0..log2 {
        let growing = (0..3).rev().filter(|&axis| extent[axis] < most[axis]);
        match growing.min_by_key(|&axis| extent[axis]) {
            Some(axis) => extent[axis] *= 2,
            None => break,
        }
    }
    extent
}

impl TileSize {
    /// All sizes.
    pub const ALL: [Self; 2] = [Self::Small, Self::Block];

    /// Returns the name in descriptions of streams: `small` or `block`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Block => "block",
        }
    }

    /// Returns the extents `[z, y, x]` of tiles that extend along `axes` axes, 1 to 3, of an array of these extents.
    pub fn extent(self, axes: usize, dims: [u64; 3]) -> [usize; 3] {
        match (self, axes) {
            (Self::Block, _) => balanced_extent(
                dims.map(|extent| (extent.min(1 << BLOCK_LOG2) as usize).next_power_of_two()),
                BLOCK_LOG2,
            ),
            (Self::Small, 1) => [1, 1, 1024],
            (Self::Small, 2) => [1, 32, 32],
            (Self::Small, _) => [8, 8, 8],
        }
    }
}

impl fmt::Display for TileSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The tiling of one array. Axes are `[b, z, y, x]` throughout, slowest first.
///
/// Axes of extent 1 are removed. If more than four axes remain, all but the last three are merged into `b`. This is the
/// only place that knows the array's own axes: all other parts of the codec work with `[b, z, y, x]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    shape: Shape,
    dims: [u64; 4],
    tile_size: TileSize,
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
    /// Returns the number of elements in the tile.
    #[expect(clippy::len_without_is_empty, reason = "a tile has at least one element")]
    pub fn len(&self) -> usize {
        self.extent[0] * self.extent[1] * self.extent[2]
    }

    /// Returns the part of the tile that begins at `start` and has these extents, both along z, y, and x.
    pub fn part(&self, start: [usize; 3], extent: [usize; 3]) -> Self {
        let [w, z, y, x] = self.origin;
        let [dz, dy, dx] = start.map(|start| start as u64);
        Self { number: self.number, origin: [w, z + dz, y + dy, x + dx], extent }
    }

    /// Returns the number of groups of `k` codes that the tile takes if it is not constant.
    pub fn groups(&self, k: usize) -> usize {
        self.len().div_ceil(k)
    }
}

impl Geometry {
    /// Divides an array into small tiles, with the default number of tiles in a chunk.
    pub fn new(shape: Shape) -> Self {
        Self::with_tiles(shape, TileSize::Small)
    }

    /// Divides an array into tiles of this size, with the default number of tiles in a chunk.
    pub fn with_tiles(shape: Shape, size: TileSize) -> Self {
        let target: u64 = match shape.len() {
            // One chunk: a reader of a part of the array needs neither the chunk table nor the starts of other chunks.
            0..=0x10_0000 => {
                let most = |tile_elements| MAX_CHUNK_ELEMENTS / tile_elements;
                let one = Self::build(shape, size, most);
                let tiles = one.tiles.clamp(1, most(one.unclipped_len()));
                return Self { chunk_tiles: tiles, ..one };
            }
            // Every thread gets a few chunks.
            0x10_0001..0x100_0000 => 1 << 19,
            0x100_0000..0x400_0000 => 1 << 20,
            0x400_0000..0x1000_0000 => 1 << 21,
            _ => 1 << 22,
        };
        // Tables of contexts are worth their bytes in large chunks.
        let target = if size == TileSize::Block { target.max(1 << 21) } else { target };
        Self::build(shape, size, |tile_elements| target / tile_elements)
    }

    /// Divides an array into small tiles, with this number of tiles in a chunk.
    ///
    /// # Errors
    /// No tile in a chunk, or so many that a chunk may have more than [`MAX_CHUNK_ELEMENTS`] elements.
    pub fn with_chunk_tiles(shape: Shape, chunk_tiles: u32) -> Result<Self> {
        Self::of_stream(shape, TileSize::Small, chunk_tiles)
    }

    /// Divides an array into tiles, with the size of tiles and the number of tiles in a chunk that a stream's header
    /// contains.
    ///
    /// # Errors
    /// No tile in a chunk, or so many that a chunk may have more than [`MAX_CHUNK_ELEMENTS`] elements.
    pub fn of_stream(shape: Shape, size: TileSize, chunk_tiles: u32) -> Result<Self> {
        let geometry = Self::build(shape, size, |_| u64::from(chunk_tiles));
        if chunk_tiles == 0 || geometry.chunk_tiles * geometry.unclipped_len() > MAX_CHUNK_ELEMENTS {
            return Err(Error::invalid(format!(
                "{chunk_tiles} tiles of {} elements in a chunk: between 1 and {} are allowed",
                geometry.unclipped_len(),
                MAX_CHUNK_ELEMENTS / geometry.unclipped_len()
            )));
        }
        Ok(geometry)
    }

    fn build(shape: Shape, size: TileSize, chunk_tiles: impl Fn(u64) -> u64) -> Self {
        let kept: Vec<u64> = shape.extents().iter().copied().filter(|&e| e != 1).collect();
        let (merged, own) = kept.split_at(kept.len().saturating_sub(3));
        let mut dims = [1; 4];
        dims[0] = merged.iter().product();
        dims[4 - own.len()..].copy_from_slice(own);
        let axes = kept.len().clamp(1, 3);
        let tile = size.extent(axes, [dims[1], dims[2], dims[3]]);
        let grid = [
            dims[0],
            dims[1].div_ceil(tile[0] as u64),
            dims[2].div_ceil(tile[1] as u64),
            dims[3].div_ceil(tile[2] as u64),
        ];
        let elements = tile.iter().product::<usize>() as u64;
        Self {
            shape,
            dims,
            tile_size: size,
            tile,
            grid,
            axes,
            tiles: grid.iter().product(),
            chunk_tiles: chunk_tiles(elements),
        }
    }

    /// Returns the array's shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Extents `[b, z, y, x]`.
    pub fn dims(&self) -> [u64; 4] {
        self.dims
    }

    /// Returns the number of elements in the array.
    pub fn elements(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Axes along which tiles extend, 1 to 3; predictors 0 to `axes` are in use.
    pub fn axes(&self) -> usize {
        self.axes
    }

    /// Returns the size of the tiles.
    pub fn tile_size(&self) -> TileSize {
        self.tile_size
    }

    /// Returns the number of elements of a tile that the array's edges do not clip.
    pub fn unclipped_len(&self) -> u64 {
        self.tile.iter().product::<usize>() as u64
    }

    /// Extents `[z, y, x]` of a tile that no edge clips.
    pub fn unclipped_extent(&self) -> [usize; 3] {
        self.tile
    }

    /// Returns the number of tiles in the array.
    pub fn tiles(&self) -> u64 {
        self.tiles
    }

    /// Returns the number of tiles in each chunk except the last.
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

    /// Returns the number of elements of chunk `chunk`.
    pub fn chunk_elements(&self, chunk: u64) -> u64 {
        self.chunk(chunk).map(|t| t.len() as u64).sum()
    }

    /// Returns the tiles of chunk `chunk`, in order.
    pub fn chunk(&self, chunk: u64) -> Tiles<'_> {
        self.range(self.chunk_range(chunk))
    }

    /// Returns the tiles with these numbers, in order. Numbers past the last tile are skipped.
    pub fn range(&self, numbers: Range<u64>) -> Tiles<'_> {
        let end = numbers.end.min(self.tiles);
        let next = numbers.start.min(end);
        Tiles { geometry: self, at: if next < end { self.grid_coordinates(next) } else { [0; 4] }, next, end }
    }

    /// Returns tile `number`.
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

    /// Returns the raster index of the element at `[b, z, y, x]`.
    pub fn element(&self, at: [u64; 4]) -> u64 {
        let [sb, sz, sy] = self.strides();
        at[0] * sb + at[1] * sz + at[2] * sy + at[3]
    }

    /// Returns the smallest range of raster indices that contains all elements of chunk `chunk`.
    pub fn element_range(&self, chunk: u64) -> Range<u64> {
        let (mut start, mut end) = (u64::MAX, 0);
        for tile in self.chunk(chunk) {
            let last: [u64; 4] =
                std::array::from_fn(|a| tile.origin[a] + if a == 0 { 0 } else { tile.extent[a - 1] as u64 - 1 });
            (start, end) = (start.min(self.element(tile.origin)), end.max(self.element(last) + 1));
        }
        start.min(end)..end
    }

    /// Returns the thickness of a layer of tiles in elements: the extent of a tile along the slowest axis along which
    /// tiles extend.
    pub fn layer_side(&self) -> u64 {
        self.tile[3 - self.axes] as u64
    }

    /// Returns the number of elements of a region in one layer of tiles.
    pub fn layer_len(&self, region: &Region) -> u64 {
        let extent = region.extent();
        let faster = &extent[5 - self.axes..];
        faster.iter().fold(self.layer_side(), |len, &extent| len.saturating_mul(extent))
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
    fn the_slowest_of_more_than_four_axes_are_merged() {
        assert_eq!(geometry(&[2, 3, 1, 5, 9, 9, 9]).dims(), [30, 9, 9, 9]);
        assert_eq!(geometry(&[2, 3, 5, 9, 9, 9]).tiles(), 240);
        assert_eq!(geometry(&[2; 32]).dims(), [1 << 29, 2, 2, 2]);
        assert_eq!(geometry(&[3, 0, 5, 4, 4, 4]).tiles(), 0);
    }

    #[test]
    fn empty_arrays_have_no_tile() {
        for extents in [&[0][..], &[0, 5], &[7, 0, 3], &[1, 0, 1], &[1 << 20, 0, 1 << 20, 1], &[2, 3, 4, 5, 6, 0]] {
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

    proptest! {
        #[test]
        fn every_element_is_in_one_tile(extents in prop::collection::vec(1u64..40, 0..=4), chunk_tiles in 1u32..9) {
            let shape = Shape::new(&extents).unwrap();
            let g = Geometry::with_chunk_tiles(shape, chunk_tiles).unwrap();
            let mut seen = vec![0u8; shape.len() as usize];
            let [sb, sz, sy] = g.strides();
            let mut number = 0;
            for c in 0..g.chunks() {
                let range = g.element_range(c);
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
                                prop_assert!(range.contains(&index));
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
    }
}
