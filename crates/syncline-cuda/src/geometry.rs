//! The tiling of an array (`syncline_core::geometry`) as plain numbers that kernels take by value.

pub mod boxes;

use std::ops::Range;

use cudarc::driver::CudaView;
use syncline_core::geometry::{Geometry, Tile};
use syncline_core::strips::{STRIP_LEN, strips_of};

use crate::device_struct::{DeviceStruct, device_struct};
use crate::error::{CudaError, Result};

/// The structs of `geometry/structs.cuh`.
pub(crate) const STRUCTS: &[DeviceStruct] =
    &[Divider::C, DeviceGeometry::C, ChunkBatch::C, boxes::BoxRows::C, boxes::BoxShape::C];

device_struct! {
    /// Division by an invariant divisor as a multiplication (Granlund and Montgomery 1994).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Divider {
        magic: u64,
        first_shift: u32,
        second_shift: u32,
    }
}

impl Divider {
    /// Prepares division by `divisor`. A divisor of 0, with which nothing is divided, is replaced by 1.
    fn new(divisor: u64) -> Self {
        let divisor = u128::from(divisor.max(1));
        let log = 128 - (divisor - 1).leading_zeros();
        let magic = ((((1_u128 << log) - divisor) << 64) / divisor + 1) as u64;
        Self { magic, first_shift: log.min(1), second_shift: log.saturating_sub(1) }
    }

    fn quotient(self, dividend: u64) -> u64 {
        let high = ((u128::from(self.magic) * u128::from(dividend)) >> 64) as u64;
        (high + ((dividend - high) >> self.first_shift)) >> self.second_shift
    }
}

/// Bits of a bitmap in each of its strips: four in a code.
pub const BITS_OF_BITMAP_STRIP: usize = 4 * STRIP_LEN;

device_struct! {
    /// The tiling of one array, for kernels.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DeviceGeometry = "GeometryFields" {
        dims: [u64; 4],
        strides: [u64; 3],
        grid: [u64; 3],
        tiles: u64,
        by_grid: [Divider; 3],
        by_chunk: Divider,
        side: [u32; 3],
        axes: u32,
        chunk_tiles: u32,
        strip_capacity: u32,
    }
}

impl DeviceGeometry {
    /// Returns the tiling of an array.
    pub fn new(geometry: &Geometry) -> Self {
        let dims = geometry.dims();
        let side = geometry.unclipped_extent();
        let grid: [u64; 3] = std::array::from_fn(|axis| dims[axis + 1].div_ceil(side[axis] as u64));
        let chunk_tiles = geometry.tiles_per_chunk();
        let elements: usize = side.iter().product();
        Self {
            dims,
            strides: geometry.strides(),
            grid,
            tiles: geometry.tiles(),
            by_grid: grid.map(Divider::new),
            by_chunk: Divider::new(chunk_tiles.into()),
            side: side.map(|side| side as u32),
            axes: geometry.axes() as u32,
            chunk_tiles,
            strip_capacity: (strips_of(elements) + 2 * elements.div_ceil(BITS_OF_BITMAP_STRIP)) as u32,
        }
    }

    /// Returns the number of tiles of the array.
    pub fn tiles(&self) -> u64 {
        self.tiles
    }

    /// Returns the number of axes along which tiles extend, 1 to 3.
    pub fn axes(&self) -> u32 {
        self.axes
    }

    /// Returns the number of tiles of each chunk except the last.
    pub fn chunk_tiles(&self) -> u32 {
        self.chunk_tiles
    }

    /// Returns the number of elements of an unclipped tile.
    pub fn tile_elements(&self) -> u32 {
        self.side.iter().product()
    }

    /// Returns the number of elements of a row of the array.
    pub(crate) fn row(&self) -> u64 {
        self.dims[3]
    }

    /// Returns the most elements of a chunk.
    pub(crate) fn chunk_elements(&self) -> u64 {
        u64::from(self.chunk_tiles).min(self.tiles.max(1)) * u64::from(self.tile_elements())
    }

    /// Returns the most strips of a tile: those of its mask, its signs, and its codes.
    pub fn strip_capacity(&self) -> u32 {
        self.strip_capacity
    }

    /// Returns the coordinates of tile `number` in the grid of tiles: b, z, y and x.
    fn grid_coord(&self, number: u64) -> [u64; 4] {
        let rows = self.by_grid[2].quotient(number);
        let planes = self.by_grid[1].quotient(rows);
        let b = self.by_grid[0].quotient(planes);
        [b, planes - b * self.grid[0], rows - planes * self.grid[1], number - rows * self.grid[2]]
    }

    /// Returns the number of elements in the tiles before tile `number`, in tile order. For numbers from
    /// [`Self::tiles`] on, returns the number of elements of the array. Minus the value for a chunk's first tile, this
    /// is the position of the tile's first element in the chunk.
    pub fn elements_before(&self, number: u64) -> u64 {
        if number >= self.tiles {
            return self.dims[0] * self.strides[0];
        }
        let [b, z, y, x] = self.grid_coord(number);
        let [z, y, x] = [z * u64::from(self.side[0]), y * u64::from(self.side[1]), x * u64::from(self.side[2])];
        let depth = (self.dims[1] - z).min(self.side[0].into());
        let height = (self.dims[2] - y).min(self.side[1].into());
        b * self.strides[0] + z * self.strides[1] + depth * (y * self.dims[3] + height * x)
    }
}

device_struct! {
    /// Consecutive chunks that a kernel processes together. Their tiles are numbered from the batch's first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ChunkBatch = "ChunkBatchFields" {
        first_chunk: u64,
        first_tile: u64,
        chunks: u32,
        tiles: u32,
        chunk_tiles: u32,
        unused: u32,
    }
}

impl ChunkBatch {
    /// Most elements of a batch, such that element numbers fit 32 bits with room to spare.
    const MAX_ELEMENTS: u64 = 1 << 31;

    /// Returns the maximum number of chunks of a batch, at least 1.
    pub(crate) fn most_chunks(geometry: &DeviceGeometry) -> u64 {
        (Self::MAX_ELEMENTS / geometry.chunk_elements()).max(1)
    }

    /// Returns the batch of chunks `chunks` of an array.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the array has no such chunks, or if there are too many for one batch.
    pub fn new(geometry: &Geometry, chunks: Range<u64>) -> Result<Self> {
        if chunks.start > chunks.end || chunks.end > geometry.chunks() {
            return Err(CudaError::invalid(format!("chunks {chunks:?} of an array with {}", geometry.chunks())));
        }
        let first_tile = geometry.chunk_range(chunks.start).start;
        let last = chunks.end.max(chunks.start + 1) - 1;
        let tiles = if chunks.is_empty() { 0 } else { geometry.chunk_range(last).end - first_tile };
        let (count, most) = (chunks.end - chunks.start, Self::most_chunks(&DeviceGeometry::new(geometry)));
        if count > most {
            return Err(CudaError::invalid(format!("{count} chunks are too many for one batch: use {most} at most")));
        }
        Ok(Self {
            first_chunk: chunks.start,
            first_tile,
            chunks: count as u32,
            tiles: tiles as u32,
            chunk_tiles: geometry.tiles_per_chunk(),
            unused: 0,
        })
    }

    /// Returns the number of the first chunk in the array.
    pub fn first_chunk(&self) -> u64 {
        self.first_chunk
    }

    /// Returns the number of the first tile in the array.
    pub fn first_tile(&self) -> u64 {
        self.first_tile
    }

    /// Returns the number of chunks.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Returns the number of tiles of all chunks.
    pub fn tiles(&self) -> u32 {
        self.tiles
    }

    /// Returns the tiles of chunk `chunk`, counted from the batch's first.
    pub fn tiles_of(&self, chunk: u32) -> Range<u32> {
        let bound = |chunk: u32| (u64::from(chunk) * u64::from(self.chunk_tiles)).min(self.tiles.into()) as u32;
        bound(chunk)..bound(chunk + 1)
    }
}

/// A stretch of an array's elements in device memory, in raster order.
#[derive(Debug)]
pub struct Slab<'v> {
    /// Little-endian elements.
    pub bytes: CudaView<'v, u8>,
    /// Raster number in the array of the first element.
    pub first_element: u64,
}

impl Slab<'_> {
    /// Checks that the slab has all elements of the batch's chunks.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] otherwise.
    pub fn check(&self, geometry: &Geometry, batch: &ChunkBatch, element_bytes: u32) -> Result<()> {
        let needed = element_range(geometry, batch);
        let elements = self.bytes.len() as u64 / u64::from(element_bytes);
        let has = self.first_element..self.first_element.saturating_add(elements);
        if needed.is_empty() || (has.start <= needed.start && needed.end <= has.end) {
            return Ok(());
        }
        Err(CudaError::invalid(format!("the chunks need elements {needed:?}, but the slab holds {has:?}")))
    }
}

/// Returns the smallest range of raster element numbers that contains the batch's chunks.
pub fn element_range(geometry: &Geometry, batch: &ChunkBatch) -> Range<u64> {
    element_range_of_tiles(geometry, batch.first_tile..batch.first_tile + u64::from(batch.tiles))
}

/// Returns the smallest range of raster element numbers that contains these tiles.
pub fn element_range_of_tiles(geometry: &Geometry, tiles: Range<u64>) -> Range<u64> {
    if tiles.is_empty() {
        return 0..0;
    }
    let [sb, sz, sy] = geometry.strides();
    let number = |tile: &Tile, last: bool| {
        let end = |axis: usize| tile.origin[axis + 1] + if last { tile.extent[axis] as u64 - 1 } else { 0 };
        tile.origin[0] * sb + end(0) * sz + end(1) * sy + end(2)
    };
    // First elements ascend with the tiles' numbers. Last elements do not, but that of the last tile is after all
    // others: it is in the last row of the last plane.
    number(&geometry.tile(tiles.start), false)..number(&geometry.tile(tiles.end - 1), true) + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_core::array::Shape;

    #[test]
    fn division_is_exact() {
        let numbers = [
            1,
            2,
            3,
            5,
            7,
            63,
            64,
            65,
            641,
            1 << 20,
            (1 << 32) - 1,
            1 << 32,
            (1 << 32) + 1,
            1 << 63,
            u64::MAX - 1,
            u64::MAX,
        ];
        for divisor in numbers {
            for n in numbers {
                for dividend in [n - 1, n, n.wrapping_mul(divisor), n.wrapping_mul(divisor).wrapping_sub(1)] {
                    assert_eq!(Divider::new(divisor).quotient(dividend), dividend / divisor, "{dividend} / {divisor}");
                }
            }
        }
    }

    #[test]
    fn positions_equal_those_of_core() {
        for extents in [&[][..], &[1], &[5000], &[2, 3], &[70, 33], &[9, 17, 30], &[3, 9, 8, 17], &[2, 2, 40], &[0, 4]]
        {
            for chunk_tiles in [1, 3, 7] {
                let geometry = Geometry::with_chunk_tiles(Shape::new(extents).unwrap(), chunk_tiles).unwrap();
                let device = DeviceGeometry::new(&geometry);
                let mut elements = 0;
                for tile in geometry.range(0..u64::MAX) {
                    assert_eq!(device.elements_before(tile.number), elements);
                    elements += tile.len() as u64;
                }
                assert_eq!(device.elements_before(geometry.tiles()), elements);
                let batch = ChunkBatch::new(&geometry, 0..geometry.chunks()).unwrap();
                assert_eq!(u64::from(batch.tiles()), geometry.tiles());
                for first in 0..geometry.chunks() {
                    for end in first..=geometry.chunks().min(first + 3) {
                        let batch = ChunkBatch::new(&geometry, first..end).unwrap();
                        let ranges = (first..end).map(|chunk| geometry.element_range(chunk));
                        let range = ranges.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
                        assert_eq!(element_range(&geometry, &batch), range.unwrap_or(0..0));
                    }
                }
                for chunk in 0..geometry.chunks() {
                    let tiles = batch.tiles_of(chunk as u32);
                    assert_eq!(u64::from(tiles.start)..u64::from(tiles.end), geometry.chunk_range(chunk));
                    let tiles = geometry.range(geometry.chunk_range(chunk));
                    assert!(tiles.map(|tile| tile.len() as u64).sum::<u64>() <= device.chunk_elements());
                }
            }
        }
    }

    #[test]
    fn chunks_outside_the_array_are_rejected() {
        let geometry = Geometry::new(Shape::new(&[100, 100, 100]).unwrap());
        assert!(ChunkBatch::new(&geometry, 0..geometry.chunks() + 1).is_err());
        let geometry = Geometry::new(Shape::new(&[1 << 40]).unwrap());
        assert!(ChunkBatch::new(&geometry, 0..geometry.chunks()).is_err());
        assert_eq!(ChunkBatch::new(&geometry, 5..9).unwrap().first_tile(), 5 * 4096);
    }
}
