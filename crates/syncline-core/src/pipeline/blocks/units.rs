//! The units of a block: parts of its codes with a state of their own.

use std::ops::Range;

use super::plan::Division;
use crate::contexts::Unit;
use crate::geometry::{Tile, balanced_extent};
use crate::predict::levels::Level;

/// Binary logarithm of the elements of a box.
pub const UNIT_LOG2: u32 = 15;

/// The units of the finest level of a block: boxes of its elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Boxes {
    /// Extents of a unit in elements of a class of the finest level.
    side: [usize; 3],
    /// Units along each axis.
    grid: [usize; 3],
    /// Extents of the classes that the units divide: the largest along each axis.
    extent: [usize; 3],
}

impl Boxes {
    /// Divides the finest level of a block; there is none in blocks of a single lattice of anchors.
    pub fn new(extent: [usize; 3], level: Option<&Level>, division: Division) -> Self {
        let whole = extent.map(|extent| extent.next_power_of_two());
        let of_unit = match division {
            Division::Boxes => balanced_extent(whole, UNIT_LOG2),
            Division::One | Division::Two => whole,
        };
        let halved = level.map_or([false; 3], |level| level.halved);
        let side = std::array::from_fn(|axis| if halved[axis] { of_unit[axis].div_ceil(2) } else { of_unit[axis] });
        let extent: [usize; 3] =
            std::array::from_fn(|axis| if halved[axis] { extent[axis].div_ceil(2) } else { extent[axis] });
        Self { side, grid: std::array::from_fn(|axis| extent[axis].div_ceil(side[axis])), extent }
    }

    /// Returns the number of units.
    pub fn count(&self) -> usize {
        self.grid.iter().product()
    }

    /// Returns the ranges along z and y of the classes that belong to unit `number`, before they are clipped to a
    /// class, and the range along x.
    pub fn ranges(&self, number: usize) -> [[usize; 2]; 3] {
        let [_, gy, gx] = self.grid;
        let at = [number / (gy * gx), number / gx % gy, number % gx];
        std::array::from_fn(|axis| {
            let start = at[axis] * self.side[axis];
            [start, (start + self.side[axis]).min(self.extent[axis])]
        })
    }

    /// Returns the units that the rows at `[z, y]` of the classes belong to.
    pub fn units_of_row(&self, [z, y]: [usize; 2]) -> Range<usize> {
        let [_, gy, gx] = self.grid;
        let first = (z / self.side[0] * gy + y / self.side[1]) * gx;
        first..first + gx
    }

    /// Returns the part of a row of `len` elements of a class that belongs to unit `number`, for the context.
    pub fn part(&self, number: usize, len: usize) -> Unit {
        let [z, y, x] = self.ranges(number);
        Unit { x: [x[0].min(len), x[1].min(len)], ends: [z[1], y[1], x[1]] }
    }
}

/// Returns parts of a block that are about as large as its units at least are.
pub(in super::super) fn boxes_of(block: &Tile) -> Vec<Tile> {
    let boxes = Boxes::new(block.extent, None, Division::Boxes);
    let of_number = |number: usize| {
        let ranges = boxes.ranges(number);
        block.part(ranges.map(|[start, _]| start), ranges.map(|[start, end]| end - start))
    };
    (0..boxes.count()).map(of_number).collect()
}

/// Returns a whole row of a class as the part of a unit without limits.
pub(super) fn whole_row(len: usize) -> Unit {
    Unit { x: [0, len], ends: [usize::MAX; 3] }
}
