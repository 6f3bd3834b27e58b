//! A view of the part of an array that is in memory, to copy tiles from.

use bytemuck::Pod;

use super::{Geometry, Tile};
use crate::mem::prefetch::prefetch;

/// Little-endian elements of a part of an array: element `(b, z, y, x)` is number
/// `b * strides[0] + z * strides[1] + y * strides[2] + x - base` of `bytes`.
///
/// So it can be the whole array, a range of its elements, or a box copied out of it.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    bytes: &'a [u8],
    base: u64,
    strides: [u64; 3],
}

impl<'a> Window<'a> {
    /// Returns a window with these strides in elements, of the axes b, z and y.
    pub fn new(bytes: &'a [u8], base: u64, strides: [u64; 3]) -> Self {
        Self { bytes, base, strides }
    }

    /// Returns a window over the elements of the whole array, starting at raster index `first`.
    pub fn raster(bytes: &'a [u8], first: u64, geometry: &Geometry) -> Self {
        Self::new(bytes, first, geometry.strides())
    }

    /// Copies the elements of a tile to the front of `out`, in raster order of the tile.
    ///
    /// # Panics
    /// The window does not hold the tile, or `out` is shorter than it.
    #[inline]
    pub fn gather<T: Pod>(&self, tile: &Tile, out: &mut [T]) {
        let out = &mut out[..tile.len()];
        let row = tile.extent[2] * size_of::<T>();
        let target: &mut [u8] = bytemuck::cast_slice_mut(out);
        // The copy of a row of constant length is a load and a store or two instead of a call.
        match row {
            32 => self.copy_rows::<T, 32>(tile, target, row),
            64 => self.copy_rows::<T, 64>(tile, target, row),
            128 => self.copy_rows::<T, 128>(tile, target, row),
            _ => self.copy_rows::<T, 0>(tile, target, row),
        }
        if cfg!(target_endian = "big") {
            bytemuck::cast_slice_mut::<T, u8>(out).chunks_exact_mut(size_of::<T>()).for_each(<[u8]>::reverse);
        }
    }

    /// Returns the elements of these tiles if the window contains them contiguously and in the order of the tiles.
    pub fn whole<T: Pod>(&self, tiles: &[Tile]) -> Option<&'a [T]> {
        let [b, z, y, first] = tiles.first()?.origin;
        let mut next = first;
        for tile in tiles {
            if tile.origin != [b, z, y, next] || tile.extent[..2] != [1, 1] {
                return None;
            }
            next += tile.extent[2] as u64;
        }
        let start = (b * self.strides[0] + z * self.strides[1] + y * self.strides[2] + first - self.base) as usize;
        let bytes = &self.bytes[start * size_of::<T>()..][..(next - first) as usize * size_of::<T>()];
        bytemuck::try_cast_slice(bytes).ok().filter(|_| cfg!(target_endian = "little"))
    }

    /// Asks for a tile's elements (of `element` bytes) to be brought to the cache while the one before is worked on.
    /// Its rows lie far apart, so the hardware does not foresee them.
    #[inline]
    pub fn prefetch(&self, tile: &Tile, element: usize) {
        let [b, z0, y0, x0] = tile.origin;
        for z in 0..tile.extent[0] as u64 {
            let first = b * self.strides[0] + (z0 + z) * self.strides[1] + y0 * self.strides[2] + x0 - self.base;
            let mut at = first as usize * element;
            for _ in 0..tile.extent[1] {
                prefetch(self.bytes.as_ptr().wrapping_add(at), tile.extent[2] * element);
                at += self.strides[2] as usize * element;
            }
        }
    }

    /// Copies rows of `ROW` bytes, or of `row` bytes where `ROW` is 0.
    #[inline(always)]
    fn copy_rows<T, const ROW: usize>(&self, tile: &Tile, target: &mut [u8], row: usize) {
        let row = if ROW == 0 { row } else { ROW };
        let mut rows = target.chunks_exact_mut(row);
        let [b, z0, y0, x0] = tile.origin;
        for z in 0..tile.extent[0] as u64 {
            let first = b * self.strides[0] + (z0 + z) * self.strides[1] + y0 * self.strides[2] + x0 - self.base;
            let mut at = first as usize * size_of::<T>();
            for target in rows.by_ref().take(tile.extent[1]) {
                target.copy_from_slice(&self.bytes[at..at + row]);
                at += self.strides[2] as usize * size_of::<T>();
            }
        }
    }
}
