//! The tiling of an array (`syncline_core::geometry`) as plain numbers that kernels take by value.

use std::ops::Range;

use cudarc::driver::CudaView;
use syncline_core::geometry::{Geometry, Tile, TileSize};
use syncline_core::strips::{STRIP_LEN, strips_of};

use crate::device_struct::{DeviceStruct, device_struct};
use crate::error::{CudaError, Result};

/// The structs of `geometry/structs.cuh`.
pub(crate) const STRUCTS: &[DeviceStruct] = &[Divider::C, Divider32::C, DeviceGeometry::C, ChunkBatch::C];

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

device_struct! {
    /// Division of 32-bit numbers by an invariant divisor; see [`Divider`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Divider32 {
        magic: u32,
        first_shift: u32,
        second_shift: u32,
    }
}

impl Divider32 {
    /// Prepares division by `divisor`. A divisor of 0, with which nothing is divided, is replaced by 1.
    pub(crate) fn new(divisor: u32) -> Self {
        let divisor = u64::from(divisor.max(1));
        let log = u64::BITS - (divisor - 1).leading_zeros();
        let magic = ((((1_u64 << log) - divisor) << 32) / divisor + 1) as u32;
        Self { magic, first_shift: log.min(1), second_shift: log.saturating_sub(1) }
    }

    #[cfg(test)]
    fn quotient(self, dividend: u32) -> u32 {
        let high = ((u64::from(self.magic) * u64::from(dividend)) >> 32) as u32;
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
        group_log2: u32,
        strip_slots: u32,
        has_large_tiles: u32,
    }
}

impl DeviceGeometry {
    /// Returns the tiling with groups of `1 << group_log2` codes.
    pub fn new(geometry: &Geometry, group_log2: u8) -> Self {
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
            group_log2: group_log2.into(),
            strip_slots: (strips_of(elements) + 2 * elements.div_ceil(BITS_OF_BITMAP_STRIP)) as u32,
            has_large_tiles: (geometry.tile_size() == TileSize::Large).into(),
        }
    }

    /// Returns the number of tiles of the array.
    pub fn tiles(&self) -> u64 {
        self.tiles
    }

    /// Returns the number of tiles along z, y and x.
    pub(crate) fn grid(&self) -> [u64; 3] {
        self.grid
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

    /// Returns the most strips of a tile: those of its mask, its signs, and its codes.
    pub fn strip_slots(&self) -> u32 {
        self.strip_slots
    }

    /// Returns log2 of the number of codes in a group.
    pub fn group_log2(&self) -> u32 {
        self.group_log2
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

    /// Returns the number of groups of the largest tile.
    pub fn max_groups_of_tile(&self) -> u32 {
        self.groups_of([0, 1, 2].map(|axis| self.dims[axis + 1].min(self.side[axis].into()))) as u32
    }

    /// Returns the number of groups of a tile with these extents.
    fn groups_of(&self, extents: [u64; 3]) -> u64 {
        extents.iter().product::<u64>().div_ceil(1 << self.group_log2)
    }

    /// Returns the sum of `of` over the tiles along an axis, given their extents along it. Only the last tile's extent
    /// may be smaller.
    fn along(&self, axis: usize, of: impl Fn(u64) -> u64) -> u64 {
        let (length, side) = (self.dims[axis + 1], u64::from(self.side[axis]));
        let rest = length % side;
        length / side * of(side) + if rest > 0 { of(rest) } else { 0 }
    }

    /// Returns the number of groups that each chunk has room for: the maximum over all chunks, rounded up, because the
    /// encoder processes groups in larger units.
    pub(crate) fn chunk_slots(&self) -> u64 {
        let in_chunk = u64::from(self.chunk_tiles);
        let bound = self.tiles.min(in_chunk) * u64::from(self.max_groups_of_tile());
        let chunks = self.tiles.div_ceil(in_chunk);
        if chunks > MAX_CHUNKS_COUNTED {
            return bound;
        }
        let groups = Groups::new(self);
        (0..chunks).map(|chunk| groups.slots_of(chunk)).max().unwrap_or(0).min(bound)
    }

    /// Returns how many of these chunks have room for `slots` groups each, and for how many groups the others have
    /// room, such that the total is minimal.
    fn full_chunks(&self, chunks: Range<u64>, slots: u64) -> (u64, u64) {
        let count = chunks.end - chunks.start;
        let (mut best, mut least, mut most) = ((count, slots), count * slots, 0);
        if count > MAX_CHUNKS_COUNTED {
            return best;
        }
        let groups = Groups::new(self);
        for full in (0..count).rev() {
            most = groups.slots_of(chunks.start + full).max(most).min(slots);
            let all = full * slots + (count - full) * most;
            if all < least {
                (best, least) = ((full, most), all);
            }
        }
        best
    }
}

/// Counts the groups of tiles, as if no tile were constant. What is the same for all chunks is computed once, since a
/// call visits all of them.
struct Groups<'g> {
    geometry: &'g DeviceGeometry,
    /// Groups of a tile of full width, of a row of tiles and of a plane of tiles, indexed by whether an edge clips
    /// their depth and their height.
    tile: [[u64; 2]; 2],
    row: [[u64; 2]; 2],
    plane: [u64; 2],
    /// Groups of all tiles along the innermost three axes.
    volume: u64,
}

impl<'g> Groups<'g> {
    fn new(geometry: &'g DeviceGeometry) -> Self {
        let [depth, height, width] = geometry.side.map(u64::from);
        let (depths, heights) = ([depth, geometry.dims[1] % depth], [height, geometry.dims[2] % height]);
        let of_tile = |depth, height| geometry.groups_of([depth, height, width]);
        let of_row = |depth, height| geometry.along(2, |width| geometry.groups_of([depth, height, width]));
        let of_plane = |depth| geometry.along(1, |height| of_row(depth, height));
        Self {
            geometry,
            tile: depths.map(|depth| heights.map(|height| of_tile(depth, height))),
            row: depths.map(|depth| heights.map(|height| of_row(depth, height))),
            plane: depths.map(of_plane),
            volume: geometry.along(0, of_plane),
        }
    }

    /// Returns the groups of tiles `0..number`.
    fn before(&self, number: u64) -> u64 {
        let geometry = self.geometry;
        if number >= geometry.tiles {
            return geometry.dims[0] * self.volume;
        }
        let [b, z, y, x] = geometry.grid_coord(number);
        let clipped = |axis: usize, tile: u64| {
            let side = u64::from(geometry.side[axis]);
            usize::from(geometry.dims[axis + 1] - tile * side < side)
        };
        let (thin, low) = (clipped(0, z), clipped(1, y));
        b * self.volume + z * self.plane[0] + y * self.row[thin][0] + x * self.tile[thin][low]
    }

    /// Returns the groups that a chunk needs room for.
    fn slots_of(&self, chunk: u64) -> u64 {
        let in_chunk = u64::from(self.geometry.chunk_tiles);
        (self.before((chunk + 1) * in_chunk) - self.before(chunk * in_chunk)).next_multiple_of(SLOT_MULTIPLE)
    }
}

/// Arrays with more chunks than this get an upper bound instead of an exact count.
const MAX_CHUNKS_COUNTED: u64 = 1 << 12;
/// The groups of a chunk, of 64 or 128 codes, make whole segments of the encoder.
const SLOT_MULTIPLE: u64 = 256;

device_struct! {
    /// Consecutive chunks that a kernel processes together. Their tiles are numbered from the batch's first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ChunkBatch = "ChunkBatchFields" {
        first_chunk: u64,
        first_tile: u64,
        chunks: u32,
        tiles: u32,
        slots: u32,
        chunk_tiles: u32,
        full_chunks: u32,
        later_slots: u32,
    }
}

impl ChunkBatch {
    /// Maximum number of groups of codes in a batch, such that code numbers fit 32 bits with room to spare.
    const MAX_GROUPS: u64 = 1 << 24;

    /// Returns the maximum number of chunks of a batch, at least 1.
    pub(crate) fn most_chunks(geometry: &DeviceGeometry) -> u64 {
        (Self::MAX_GROUPS / geometry.chunk_slots().max(1)).max(1)
    }

    /// Returns the batch of chunks `chunks` of an array.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the array has no such chunks, or if there are too many for one batch.
    pub fn new(geometry: &Geometry, group_log2: u8, chunks: Range<u64>) -> Result<Self> {
        if chunks.start > chunks.end || chunks.end > geometry.chunks() {
            return Err(CudaError::invalid(format!("chunks {chunks:?} of an array with {}", geometry.chunks())));
        }
        let first_tile = geometry.chunk_range(chunks.start).start;
        let last = chunks.end.max(chunks.start + 1) - 1;
        let tiles = if chunks.is_empty() { 0 } else { geometry.chunk_range(last).end - first_tile };
        let chunk_tiles = geometry.tiles_per_chunk();
        let device = DeviceGeometry::new(geometry, group_log2);
        let slots = device.chunk_slots();
        let count = chunks.end - chunks.start;
        if count.saturating_mul(slots) > Self::MAX_GROUPS {
            return Err(CudaError::invalid(format!("{count} chunks of {slots} groups are too many for one batch")));
        }
        let (full_chunks, later_slots) = device.full_chunks(chunks.clone(), slots);
        Ok(Self {
            first_chunk: chunks.start,
            first_tile,
            chunks: count as u32,
            tiles: tiles as u32,
            slots: slots as u32,
            chunk_tiles,
            full_chunks: full_chunks as u32,
            later_slots: later_slots as u32,
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

    /// Returns the maximum number of groups of a chunk.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns the first group of chunk `chunk` in the batch's codes before encoding; for the number of chunks, the end
    /// of all. Chunks after the last large one have less room than the others, because the last planes of an array may
    /// be thin.
    pub fn first_slot(&self, chunk: u32) -> u64 {
        let full = chunk.min(self.full_chunks);
        u64::from(full) * u64::from(self.slots) + u64::from(chunk - full) * u64::from(self.later_slots)
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
        let needed = element_span(geometry, batch);
        let elements = self.bytes.len() as u64 / u64::from(element_bytes);
        let has = self.first_element..self.first_element.saturating_add(elements);
        if needed.is_empty() || (has.start <= needed.start && needed.end <= has.end) {
            return Ok(());
        }
        Err(CudaError::invalid(format!("the chunks need elements {needed:?}, but the slab holds {has:?}")))
    }
}

/// Returns the smallest range of raster element numbers that contains the batch's chunks.
pub fn element_span(geometry: &Geometry, batch: &ChunkBatch) -> Range<u64> {
    tile_span(geometry, batch.first_tile..batch.first_tile + u64::from(batch.tiles))
}

/// Returns the smallest range of raster element numbers that contains these tiles.
pub fn tile_span(geometry: &Geometry, tiles: Range<u64>) -> Range<u64> {
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
    fn short_division_is_exact() {
        let numbers =
            [1, 2, 3, 5, 7, 13, 63, 64, 65, 641, 13_104, 1 << 16, (1 << 31) - 1, 1 << 31, u32::MAX - 1, u32::MAX];
        for divisor in numbers {
            for n in numbers {
                for dividend in [n - 1, n, n.wrapping_mul(divisor), n.wrapping_mul(divisor).wrapping_sub(1)] {
                    assert_eq!(
                        Divider32::new(divisor).quotient(dividend),
                        dividend / divisor,
                        "{dividend} / {divisor}"
                    );
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
                for group_log2 in [6, 7] {
                    let device = DeviceGeometry::new(&geometry, group_log2);
                    let counted = Groups::new(&device);
                    let (mut elements, mut groups) = (0, 0);
                    for tile in geometry.range(0..u64::MAX) {
                        assert_eq!(device.elements_before(tile.number), elements);
                        assert_eq!(counted.before(tile.number), groups);
                        assert!(tile.groups(1 << group_log2) <= device.max_groups_of_tile() as usize);
                        elements += tile.len() as u64;
                        groups += tile.groups(1 << group_log2) as u64;
                    }
                    assert_eq!(device.elements_before(geometry.tiles()), elements);
                    assert_eq!(counted.before(geometry.tiles()), groups);
                    let batch = ChunkBatch::new(&geometry, group_log2, 0..geometry.chunks()).unwrap();
                    assert_eq!(u64::from(batch.tiles()), geometry.tiles());
                    for first in 0..geometry.chunks() {
                        for end in first..=geometry.chunks().min(first + 3) {
                            let batch = ChunkBatch::new(&geometry, group_log2, first..end).unwrap();
                            let spans = (first..end).map(|chunk| geometry.chunk_span(chunk));
                            let span = spans.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
                            assert_eq!(element_span(&geometry, &batch), span.unwrap_or(0..0));
                        }
                    }
                    for chunk in 0..geometry.chunks() {
                        let tiles = batch.tiles_of(chunk as u32);
                        assert_eq!(u64::from(tiles.start)..u64::from(tiles.end), geometry.chunk_range(chunk));
                        let groups =
                            geometry.range(geometry.chunk_range(chunk)).map(|tile| tile.groups(1 << group_log2));
                        let groups = groups.sum::<usize>() as u64;
                        assert!(groups <= u64::from(batch.slots()));
                        assert!(groups <= batch.first_slot(chunk as u32 + 1) - batch.first_slot(chunk as u32));
                    }
                }
            }
        }
    }

    #[test]
    fn chunks_outside_the_array_are_rejected() {
        let geometry = Geometry::new(Shape::new(&[100, 100, 100]).unwrap());
        assert!(ChunkBatch::new(&geometry, 7, 0..geometry.chunks() + 1).is_err());
        let geometry = Geometry::new(Shape::new(&[1 << 40]).unwrap());
        assert!(ChunkBatch::new(&geometry, 7, 0..geometry.chunks()).is_err());
        assert_eq!(ChunkBatch::new(&geometry, 7, 5..9).unwrap().first_tile(), 5 * 4096);
    }
}
