//! The parts of the codes of a block, and the units that they are coded in.

use std::ops::Range;

use super::plan::Division;
use crate::contexts::RowPart;
use crate::contexts::lanes::MOST_LANES;
use crate::geometry::{Tile, balanced_extent};
use crate::predict::levels::Level;

/// Binary logarithm of the elements of a box.
pub const BOX_LOG2: u32 = 15;

/// The parts of the finest level of a block: boxes of its elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Boxes {
    /// Extents of a box in elements of a class of the finest level.
    side: [usize; 3],
    /// Boxes along each axis.
    grid: [usize; 3],
    /// Extents of the classes that the boxes divide: the largest along each axis.
    extent: [usize; 3],
}

impl Boxes {
    /// Divides the finest level of a block; there is none in blocks of a single lattice of anchors.
    pub fn new(extent: [usize; 3], level: Option<&Level>, division: Division) -> Self {
        let whole = extent.map(|extent| extent.next_power_of_two());
        let of_unit = match division {
            Division::Boxes => balanced_extent(whole, BOX_LOG2),
            Division::One => whole,
        };
        let halved = level.map_or([false; 3], |level| level.halved);
        let side = std::array::from_fn(|axis| if halved[axis] { of_unit[axis].div_ceil(2) } else { of_unit[axis] });
        let extent: [usize; 3] =
            std::array::from_fn(|axis| if halved[axis] { extent[axis].div_ceil(2) } else { extent[axis] });
        Self { side, grid: std::array::from_fn(|axis| extent[axis].div_ceil(side[axis])), extent }
    }

    /// Returns the number of boxes.
    pub fn count(&self) -> usize {
        self.grid.iter().product()
    }

    /// Returns the ranges along z and y of the classes that belong to box `number`, before they are clipped to a
    /// class, and the range along x.
    pub fn ranges(&self, number: usize) -> [[usize; 2]; 3] {
        let [_, gy, gx] = self.grid;
        let at = [number / (gy * gx), number / gx % gy, number % gx];
        std::array::from_fn(|axis| {
            let start = at[axis] * self.side[axis];
            [start, (start + self.side[axis]).min(self.extent[axis])]
        })
    }

    /// Returns the boxes that the rows at `[z, y]` of the classes belong to.
    pub fn of_row(&self, [z, y]: [usize; 2]) -> Range<usize> {
        let [_, gy, gx] = self.grid;
        let first = (z / self.side[0] * gy + y / self.side[1]) * gx;
        first..first + gx
    }

    /// Returns the part of a row of `len` elements of a class that belongs to box `number`, for the context.
    pub fn part(&self, number: usize, len: usize) -> RowPart {
        let [z, y, x] = self.ranges(number);
        RowPart { x: [x[0].min(len), x[1].min(len)], ends: [z[1], y[1], x[1]] }
    }
}

/// The units of a block: those of the part with all levels, or with all but the finest, and behind them one for each
/// box.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units {
    lanes: usize,
    boxes: usize,
}

/// Binary logarithm of the states of a part, at most.
pub const MOST_LANES_LOG2: u8 = 8;

/// A box has the states of the first part divided by this.
const LANES_FOR_BOX: usize = 4;

impl Units {
    /// Returns the units of a block with so many parts, the first of which has 2^`lanes_log2` states.
    pub fn new(lanes_log2: u8, parts: usize) -> Self {
        Self { lanes: 1 << lanes_log2, boxes: parts - 1 }
    }

    /// Chooses the states of the first part of a block with so many parts that takes about so many bytes, as a binary
    /// logarithm: many, so that units are coded fast, but few, so that they take few bytes.
    pub fn choose_lanes(bytes: u64, parts: usize) -> u8 {
        // A state takes about two bytes more than it carries.
        const BYTES_OF_LANE: u64 = 256;
        // A box has about a ninth of the bytes, and a quarter of the states.
        let of_first_part = if parts == 1 { bytes } else { bytes * LANES_FOR_BOX as u64 / 9 };
        (of_first_part / BYTES_OF_LANE).max(1).ilog2().min(MOST_LANES_LOG2.into()) as u8
    }

    /// Returns the number of units of the first part.
    pub fn of_first_part(&self) -> usize {
        self.lanes.div_ceil(MOST_LANES)
    }

    /// Returns the number of units.
    pub fn count(&self) -> usize {
        self.of_first_part() + self.boxes
    }

    /// Returns the number of units of a part.
    pub fn of_part(&self, part: usize) -> usize {
        if part == 0 { self.of_first_part() } else { 1 }
    }

    /// Returns the part of a unit, and its number in that.
    pub fn place(&self, unit: usize) -> [usize; 2] {
        self.box_of(unit).map_or([0, unit], |number| [1 + number, 0])
    }

    /// Returns the box that a unit codes, or `None` of a unit of the first part.
    pub fn box_of(&self, unit: usize) -> Option<usize> {
        unit.checked_sub(self.of_first_part())
    }

    /// Returns the number of states of a unit.
    pub fn lanes(&self, unit: usize) -> usize {
        let of_part = if self.box_of(unit).is_some() { (self.lanes / LANES_FOR_BOX).max(1) } else { self.lanes };
        of_part.min(MOST_LANES)
    }
}

/// Returns parts of a block that are as large as the boxes of its finest level.
pub(in super::super) fn boxes_of(block: &Tile) -> Vec<Tile> {
    let boxes = Boxes::new(block.extent, None, Division::Boxes);
    let of_number = |number: usize| {
        let ranges = boxes.ranges(number);
        block.part(ranges.map(|[start, _]| start), ranges.map(|[start, end]| end - start))
    };
    (0..boxes.count()).map(of_number).collect()
}

/// Returns a whole row of a class as a part without limits.
pub(super) fn whole_row(len: usize) -> RowPart {
    RowPart { x: [0, len], ends: [usize::MAX; 3] }
}
