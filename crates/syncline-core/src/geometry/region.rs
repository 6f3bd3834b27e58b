//! Regions of an array.

use std::ops::Range;
use std::sync::Arc;

use super::{Geometry, Tile};
use crate::error::{Error, Result};

/// A box of elements of an array, in the axes `[b, z, y, x]` of its [`Geometry`].
///
/// If the axis `b` is merged from several axes of the array, a box in those need not be a range of `b`. The region then
/// has all fields `b` whose coordinates are in the box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    start: [u64; 4],
    extent: [u64; 4],
    /// The box in the axes that `b` is merged from, slowest first, unless it is a range of `b`.
    merged: Option<Arc<[MergedAxis]>>,
}

/// The part of one of the axes that are merged into `b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MergedAxis {
    start: u64,
    len: u64,
    /// The extent of the axis in the array.
    of: u64,
}

impl Region {
    /// Returns the number of elements in the region.
    pub fn len(&self) -> u64 {
        self.extent.iter().product()
    }

    /// Returns whether the region has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the first element, `[b, z, y, x]`.
    pub fn start(&self) -> [u64; 4] {
        self.start
    }

    /// Returns the extents, `[b, z, y, x]`. The first is the number of fields, which are consecutive if
    /// [`Self::is_box`] is true.
    pub fn extent(&self) -> [u64; 4] {
        self.extent
    }

    /// Returns whether the region is a box in the axes `[b, z, y, x]`.
    pub fn is_box(&self) -> bool {
        self.merged.is_none()
    }

    /// Returns the position of field `b` among the region's fields, or `None` if the region does not have it.
    #[inline]
    pub fn position_of(&self, b: u64) -> Option<u64> {
        match &self.merged {
            None => b.checked_sub(self.start[0]).filter(|&position| position < self.extent[0]),
            Some(axes) => position_in(axes, b),
        }
    }

    /// Returns the number of the field at `position`, which is less than the first extent.
    pub fn field_at(&self, position: u64) -> u64 {
        let Some(axes) = &self.merged else { return self.start[0] + position };
        let (mut rest, mut stride, mut field) = (position, 1, 0);
        for axis in axes.iter().rev() {
            field += (axis.start + rest % axis.len) * stride;
            rest /= axis.len;
            stride *= axis.of;
        }
        field
    }

    /// Returns whether the tile has an element of the region.
    pub fn meets(&self, tile: &Tile) -> bool {
        self.position_of(tile.origin[0]).is_some()
            && (1..4).all(|a| {
                let extent = tile.extent[a - 1] as u64;
                tile.origin[a] < self.start[a] + self.extent[a] && self.start[a] < tile.origin[a] + extent
            })
    }
}

/// Returns the position of field `b` among those of a box in the merged axes.
#[inline(never)]
fn position_in(axes: &[MergedAxis], b: u64) -> Option<u64> {
    let (mut rest, mut stride, mut position) = (b, 1, 0);
    for axis in axes.iter().rev() {
        let at = (rest % axis.of).checked_sub(axis.start).filter(|&at| at < axis.len)?;
        position += at * stride;
        rest /= axis.of;
        stride *= axis.len;
    }
    Some(position)
}

impl Geometry {
    /// Returns the region with these bounds, one range for each axis of the array, slowest first.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is not one range for each axis, or if a range is reversed or is not inside
    /// of the array.
    pub fn region(&self, ranges: &[Range<u64>]) -> Result<Region> {
        let extents = self.shape.extents();
        if ranges.len() != extents.len() {
            return Err(Error::invalid(format!(
                "a region of {} ranges for an array of {} axes: give one range for each axis",
                ranges.len(),
                extents.len()
            )));
        }
        let mut kept = Vec::new();
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
                kept.push(MergedAxis { start: range.start, len: range.end - range.start, of: extent });
            }
        }
        let (merged, own) = kept.split_at(kept.len().saturating_sub(3));
        let mut region = Region { start: [0; 4], extent: [1; 4], merged: None };
        for (slot, axis) in own.iter().enumerate() {
            region.start[4 - own.len() + slot] = axis.start;
            region.extent[4 - own.len() + slot] = axis.len;
        }
        region.start[0] += merged.iter().fold(0, |b, axis| b * axis.of + axis.start);
        region.extent[0] *= merged.iter().map(|axis| axis.len).product::<u64>();
        // Consecutive fields: one coordinate in some slow axes, a range of the next, and all of those that follow.
        let ranged = merged.iter().position(|axis| axis.len != 1).unwrap_or(merged.len());
        if merged.iter().skip(ranged + 1).any(|axis| axis.len != axis.of) {
            region.merged = Some(merged.into());
        }
        if empty {
            region.extent = [0; 4];
            region.merged = None;
        }
        Ok(region)
    }

    /// Returns the region of the whole array.
    pub fn whole(&self) -> Region {
        Region { start: [0; 4], extent: self.dims, merged: None }
    }

    /// Calls `visit` with each maximal run of consecutive tile numbers in a row of tiles that intersects the region, in
    /// ascending order.
    fn for_tile_rows(&self, region: &Region, mut visit: impl FnMut(Range<u64>)) {
        if region.is_empty() {
            return;
        }
        let tiles_along = |axis: usize| {
            let side = self.tile[axis - 1] as u64;
            let end = region.start[axis] + region.extent[axis];
            region.start[axis] / side..end.div_ceil(side)
        };
        let [_, gz, gy, gx] = self.grid;
        for position in 0..region.extent[0] {
            let b = region.field_at(position);
            for z in tiles_along(1) {
                for y in tiles_along(2) {
                    let row = ((b * gz + z) * gy + y) * gx;
                    visit(row + tiles_along(3).start..row + tiles_along(3).end);
                }
            }
        }
    }

    /// Returns the number of the tile that has the element at `[b, z, y, x]`.
    pub fn tile_with(&self, at: [u64; 4]) -> u64 {
        let [_, gz, gy, gx] = self.grid;
        let [z, y, x] = std::array::from_fn(|axis| at[axis + 1] / self.tile[axis] as u64);
        ((at[0] * gz + z) * gy + y) * gx + x
    }

    /// Returns the numbers of the chunks that hold a tile of the region, ascending.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::array::Shape;

    fn geometry(extents: &[u64]) -> Geometry {
        Geometry::new(Shape::new(extents).unwrap())
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

    #[test]
    fn ranges_of_merged_axes_are_boxes_where_fields_are_consecutive() {
        let g = geometry(&[4, 1, 5, 6, 7, 8, 9]);
        let region = |slow: [Range<u64>; 3]| {
            let [first, second, third] = slow;
            g.region(&[first, 0..1, second, third, 0..7, 2..3, 4..9]).unwrap()
        };
        for (slow, start, count) in [
            ([0..4, 0..5, 0..6], 0, 120),
            ([1..3, 0..5, 0..6], 30, 60),
            ([2..3, 1..4, 0..6], 66, 18),
            ([2..3, 1..2, 3..5], 69, 2),
            ([3..4, 4..5, 5..6], 119, 1),
        ] {
            let region = region(slow);
            assert!(region.is_box());
            assert_eq!((region.start(), region.extent()), ([start, 0, 2, 4], [count, 7, 1, 5]));
        }
        let region = region([1..3, 2..3, 0..6]);
        assert!(!region.is_box());
        assert_eq!((region.start()[0], region.extent()[0]), (42, 12));
        assert_eq!((region.position_of(47), region.position_of(48), region.position_of(72)), (Some(5), None, Some(6)));
    }

    proptest! {
        #[test]
        fn fields_of_a_region_are_in_the_order_of_the_array(
            axes in prop::collection::vec((1u64..5, 0u64..5, 0u64..5), 4..=7),
        ) {
            let extents: Vec<u64> = axes.iter().map(|a| a.0).collect();
            let g = geometry(&extents);
            let ranges: Vec<_> = axes.iter().map(|&(e, a, b)| a.min(b).min(e)..a.max(b).min(e)).collect();
            let region = g.region(&ranges).unwrap();
            prop_assert_eq!(region.len(), ranges.iter().map(|range| range.end - range.start).product::<u64>());
            let fields: Vec<u64> = (0..region.extent()[0]).map(|position| region.field_at(position)).collect();
            prop_assert!(fields.is_sorted());
            for b in 0..g.dims()[0] {
                let position = fields.iter().position(|&field| field == b).map(|position| position as u64);
                prop_assert_eq!(region.position_of(b), position);
            }
        }

        #[test]
        fn regions_name_their_chunks(
            axes in prop::collection::vec((1u64..40, 0u64..40, 0u64..40), 1..=4), chunk_tiles in 1u32..9,
        ) {
            check_chunks(&axes, chunk_tiles)?;
        }

        #[test]
        fn regions_of_merged_axes_name_their_chunks(
            axes in prop::collection::vec((1u64..6, 0u64..6, 0u64..6), 5..=7), chunk_tiles in 1u32..9,
        ) {
            check_chunks(&axes, chunk_tiles)?;
        }
    }

    /// Checks the chunks of a region of an array, given by the extents and two bounds for each axis.
    fn check_chunks(axes: &[(u64, u64, u64)], chunk_tiles: u32) -> std::result::Result<(), TestCaseError> {
        let extents: Vec<u64> = axes.iter().map(|a| a.0).collect();
        let g = Geometry::with_chunk_tiles(Shape::new(&extents).unwrap(), chunk_tiles).unwrap();
        let ranges: Vec<_> = axes.iter().map(|&(e, a, b)| a.min(b).min(e)..a.max(b).min(e)).collect();
        let region = g.region(&ranges).unwrap();
        let expected: Vec<u64> =
            (0..g.chunks()).filter(|&c| !region.is_empty() && g.chunk(c).any(|t| region.meets(&t))).collect();
        prop_assert_eq!(g.chunks_in(&region), expected);
        Ok(())
    }
}
