//! One block: its elements to codes and back.

mod decode;
mod encode;

use super::plan::{Division, Order, Plan};
use super::units::Boxes;
use crate::contexts::Event;
use crate::contexts::lanes::{Events, lanes_of};
use crate::geometry::Tile;
use crate::predict::levels::{Classes, Level, coarser, join, joined, levels_of};
use crate::quantize::Real;

/// Memory for one block, and what was found for it.
pub(super) struct Block<T> {
    extent: [usize; 3],
    order: Order,
    levels: Vec<Level>,
    boxes: Boxes,
    plan: Plan,
    /// The elements of each level but the finest, and the anchors behind them.
    coarse: Vec<Vec<T>>,
    /// One byte for each element of each level, and behind them for each anchor: 1 if it is excluded.
    excluded: Vec<Vec<u8>>,
    any_excluded: bool,
    /// Reconstructed values and codes of each level.
    values: Classes<T>,
    codes: Vec<Classes<i32>>,
    /// The lattice of the level that is worked on.
    lattice: Vec<T>,
    code_lattice: Vec<i32>,
    next_codes: Vec<i32>,
    arranged: Vec<T>,
    /// The numbers of the tables of a run, and its codes.
    of_run: Vec<u8>,
    run_codes: Vec<i32>,
    /// Sums of magnitudes of a row.
    sums: Vec<i32>,
    /// Differences between values and predictions of the slice before.
    before: Vec<T>,
    pub anchors: Vec<i32>,
    /// The codes of each unit with their contexts: those of all levels but the finest, and those of the finest by unit.
    /// Units of earlier blocks are before these.
    units: Vec<UnitEvents>,
    first_unit: usize,
    /// Places, in raster order, of the elements that are not within the bound.
    pub missed: Vec<u32>,
}

/// Elements of the finest level are predicted from others at most so far along each axis.
const FARTHEST_NEIGHBOR: usize = 3;

fn count_units(boxes: &Boxes, division: Division) -> usize {
    match division {
        Division::One => 1,
        Division::Two | Division::Boxes => 1 + boxes.count(),
    }
}

/// The events of a unit: those of all elements of its runs, and where each run ends.
#[derive(Debug, Default)]
pub(super) struct UnitEvents {
    events: Vec<Event>,
    ends: Vec<u32>,
    lanes: usize,
}

impl UnitEvents {
    fn begin(&mut self, lanes: usize) {
        self.events.clear();
        self.ends.clear();
        self.lanes = lanes;
    }

    /// Ends a run, unless it is empty.
    fn end_run(&mut self) {
        let end = self.events.len() as u32;
        if self.ends.last().copied().unwrap_or(0) < end {
            self.ends.push(end);
        }
    }

    /// Returns the events, and the number of states that they are coded with.
    pub fn get(&self) -> (Events<'_>, usize) {
        (Events { events: &self.events, ends: &self.ends }, self.lanes)
    }
}

/// Returns the number of units of a block.
pub(super) fn units_of(extent: [usize; 3], plan: Plan) -> usize {
    let extent = Order::new(extent, plan.slices).of(extent);
    let levels = levels_of(extent, plan.slices.is_some());
    count_units(&Boxes::new(extent, levels.first(), plan.division), plan.division)
}

impl<T: Real> Default for Block<T> {
    fn default() -> Self {
        let plan = Plan::default();
        Self {
            extent: [0; 3],
            order: Order::new([0; 3], None),
            levels: Vec::new(),
            boxes: Boxes::new([1; 3], None, Division::One),
            plan,
            coarse: Vec::new(),
            excluded: Vec::new(),
            any_excluded: false,
            values: Classes::default(),
            codes: Vec::new(),
            lattice: Vec::new(),
            code_lattice: Vec::new(),
            next_codes: Vec::new(),
            arranged: Vec::new(),
            of_run: Vec::new(),
            run_codes: Vec::new(),
            sums: Vec::new(),
            before: Vec::new(),
            anchors: Vec::new(),
            units: Vec::new(),
            first_unit: 0,
            missed: Vec::new(),
        }
    }
}

impl<T: Real> Block<T> {
    /// Prepares for a block of these extents.
    pub fn begin(&mut self, extent: [usize; 3], plan: Plan) {
        let order = Order::new(extent, plan.slices);
        if (self.extent, self.plan) != (extent, plan) {
            self.levels = levels_of(order.of(extent), plan.slices.is_some());
            self.boxes = Boxes::new(order.of(extent), self.levels.first(), plan.division);
        }
        (self.extent, self.plan, self.order) = (extent, plan, order);
        self.coarse.resize_with(self.levels.len(), Vec::new);
        self.excluded.resize_with(self.levels.len() + 1, Vec::new);
        self.codes.resize_with(self.levels.len(), Classes::default);
    }

    /// Returns the number of units.
    pub fn units(&self) -> usize {
        count_units(&self.boxes, self.plan.division)
    }

    /// Returns the number of states of each unit.
    pub fn lanes(&self) -> usize {
        lanes_of(self.extent.iter().product(), self.plan.lanes_log2)
    }

    /// Returns the number of anchors.
    pub fn anchor_count(&self) -> usize {
        self.levels.last().map_or_else(|| self.order.of(self.extent)[0], |level| level.class_len(0))
    }

    /// Takes which elements are excluded, one byte each in raster order.
    pub fn exclude(&mut self, excluded: Option<&[u8]>) {
        self.any_excluded = excluded.is_some();
        let Some(excluded) = excluded else { return };
        self.order.arrange(self.extent, excluded, &mut self.excluded[0]);
        for (number, level) in self.levels.iter().enumerate() {
            let (finer, next) = self.excluded.split_at_mut(number + 1);
            coarser(&finer[number], level, &mut next[0]);
        }
    }

    /// Returns whether a unit of a block is needed, where `needs` tells it of parts of the block. The first unit always
    /// is: it has all levels but the finest, or all.
    pub fn needs_unit(&self, unit: usize, block: &Tile, needs: impl Fn(&Tile) -> bool) -> bool {
        unit.checked_sub(1).is_none_or(|number| needs(&self.reach(number, block)))
    }

    /// Returns the elements of a block whose values depend on box `number` of the finest level, as a part of the block.
    fn reach(&self, number: usize, block: &Tile) -> Tile {
        let (mut starts, mut extent) = ([0; 3], [0; 3]);
        for (own, [start, end]) in self.boxes.ranges(number).into_iter().enumerate() {
            let (axis, whole) = (self.order.axis(own), self.order.of(self.extent)[own]);
            let [start, end] = match self.levels.first().is_some_and(|level| level.halved[own]) {
                true => [(2 * start).saturating_sub(FARTHEST_NEIGHBOR), 2 * end + FARTHEST_NEIGHBOR],
                // The shares of slices pass on to all that follow.
                false if self.plan.share > 0 => [start, whole],
                false => [start, end],
            };
            (starts[axis], extent[axis]) = (start, end.min(whole) - start);
        }
        block.part(starts, extent)
    }

    /// Forgets the units of all blocks.
    pub fn forget_units(&mut self) {
        self.first_unit = 0;
    }

    /// Keeps the units of this block. Those of the next block will be behind them.
    pub fn keep_units(&mut self) {
        self.first_unit += self.units();
    }

    /// Returns the units that were kept.
    pub fn kept_units(&self) -> &[UnitEvents] {
        &self.units[..self.first_unit]
    }

    /// Ends the runs of all units of this block.
    fn end_runs(&mut self) {
        let units = self.first_unit..self.first_unit + self.units();
        self.units[units].iter_mut().for_each(UnitEvents::end_run);
    }

    /// Returns the part of a class of the finest level that belongs to a unit.
    fn range(&self, unit: usize, class: usize) -> [[usize; 2]; 3] {
        let extent = self.levels[0].class(class);
        let ranges = self.boxes.ranges(unit);
        std::array::from_fn(|axis| ranges[axis].map(|end| end.min(extent[axis])))
    }

    /// Takes the memory for the differences of a slice of `len` elements, which are 0 before the first slice.
    fn take_before(&mut self, len: usize) -> Vec<T> {
        let mut before = std::mem::take(&mut self.before);
        before.clear();
        before.resize(len, T::from_bits(0));
        before
    }

    /// Joins the classes of a level to the lattice of the next.
    fn join(&mut self, number: usize) {
        let mut next = std::mem::take(&mut self.arranged);
        joined(&self.lattice, &self.values, &self.levels[number], &mut next);
        self.arranged = std::mem::replace(&mut self.lattice, next);
    }

    /// Writes the elements, in raster order, of which those of the coarser levels are joined and those of the finest
    /// are in their classes.
    fn finish(&mut self, out: &mut [T]) {
        if let Some(level) = self.levels.first() {
            if self.order.is_raster() {
                return join(&self.lattice, &self.values, level, out);
            }
            self.join(0);
        }
        self.order.restore(self.extent, &self.lattice, out);
    }

    fn join_codes(&mut self, number: usize) {
        joined(&self.code_lattice, &self.codes[number], &self.levels[number], &mut self.next_codes);
        std::mem::swap(&mut self.code_lattice, &mut self.next_codes);
    }
}
