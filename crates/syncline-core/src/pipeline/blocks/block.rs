//! One block: its elements to codes and back.

mod decode;
mod encode;

use super::anchors::Anchor;
use super::plan::{Division, Order, Plan};
use super::quantizer::Quantizer;
use super::units::Boxes;
use crate::contexts::segments::PartEvents;
use crate::contexts::{Contexts, Event, EventCounts, code_of_mask, mask_of_code};
use crate::geometry::Tile;
use crate::predict::levels::{Classes, Level, coarser, join, joined, levels_of};
use crate::quantize::Real;
use crate::simd::InstructionSet;

/// Memory for one block, and what was found for it.
pub(super) struct Block<T> {
    extent: [usize; 3],
    order: Order,
    levels: Vec<Level>,
    boxes: Boxes,
    plan: Plan,
    /// The elements of each level but the finest, and the anchors behind them.
    coarse: Vec<Vec<T>>,
    /// One byte for each element of each level, and behind them for each anchor: 0, or the number of its mask plus 1.
    masks: Vec<Vec<u8>>,
    any_masks: bool,
    /// Reconstructed values and codes of each level.
    values: Classes<T>,
    codes: Vec<Classes<i32>>,
    /// The lattice of the level that is worked on.
    lattice: Vec<T>,
    code_lattice: Vec<i32>,
    next_codes: Vec<i32>,
    arranged: Vec<T>,
    /// The tables of the elements of a class of a part, and its codes.
    of_codes: Vec<u8>,
    unit_codes: Vec<i32>,
    /// Sums of magnitudes of a row.
    sums: Vec<i32>,
    /// Differences between values and predictions of the slice before.
    before: Vec<T>,
    pub anchors: Vec<Anchor>,
    /// The codes, with their contexts, of the elements of each part that are of the class that is worked on.
    of_class: Vec<Vec<Event>>,
    /// The events of each part. Parts of earlier blocks, which were kept, are before these.
    parts: Vec<PartEvents>,
    first_part: usize,
    /// One past the last part of each block that was kept.
    kept: Vec<usize>,
    /// Places, in raster order, of the elements that are not within the bound.
    pub missed: Vec<u32>,
}

/// Elements of the finest level are predicted from others at most so far along each axis.
const FARTHEST_NEIGHBOR: usize = 3;

fn count_parts(boxes: &Boxes, division: Division) -> usize {
    match division {
        Division::One => 1,
        Division::Boxes => 1 + boxes.count(),
    }
}

/// Returns the number of parts of a block.
pub(super) fn parts_of(extent: [usize; 3], plan: Plan) -> usize {
    let extent = Order::new(extent, plan.slices).of(extent);
    let levels = levels_of(extent, plan.slices.is_some());
    count_parts(&Boxes::new(extent, levels.first(), plan.division), plan.division)
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
            masks: Vec::new(),
            any_masks: false,
            values: Classes::default(),
            codes: Vec::new(),
            lattice: Vec::new(),
            code_lattice: Vec::new(),
            next_codes: Vec::new(),
            arranged: Vec::new(),
            of_codes: Vec::new(),
            unit_codes: Vec::new(),
            sums: Vec::new(),
            before: Vec::new(),
            anchors: Vec::new(),
            of_class: Vec::new(),
            parts: Vec::new(),
            first_part: 0,
            kept: Vec::new(),
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
        self.masks.resize_with(self.levels.len() + 1, Vec::new);
        self.codes.resize_with(self.levels.len(), Classes::default);
    }

    /// Returns the number of parts.
    pub fn part_count(&self) -> usize {
        count_parts(&self.boxes, self.plan.division)
    }

    /// Returns the number of anchors.
    pub fn anchor_count(&self) -> usize {
        self.levels.last().map_or_else(|| self.order.of(self.extent)[0], |level| level.class_len(0))
    }

    /// Takes the masks of elements, one byte each in raster order: 0, or the number of a mask plus 1.
    pub fn mask(&mut self, masks: Option<&[u8]>) {
        self.any_masks = masks.is_some();
        let Some(masks) = masks else { return };
        self.order.arrange(self.extent, masks, &mut self.masks[0]);
        for (number, level) in self.levels.iter().enumerate() {
            let (finer, next) = self.masks.split_at_mut(number + 1);
            coarser(&finer[number], level, &mut next[0]);
        }
    }

    /// Returns whether a part of a block is needed, where `needs` tells it of tiles in the block. The first one always
    /// is: it has all levels but the finest, or all.
    pub fn needs_part(&self, part: usize, block: &Tile, needs: impl Fn(&Tile) -> bool) -> bool {
        part.checked_sub(1).is_none_or(|number| needs(&self.reach(number, block)))
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

    /// Forgets the parts of all blocks.
    pub fn forget_parts(&mut self) {
        (self.first_part, self.kept) = (0, Vec::new());
    }

    /// Keeps the parts of this block. Those of the next block will be behind them.
    pub fn keep_parts(&mut self) {
        self.first_part += self.part_count();
        self.kept.push(self.first_part);
    }

    /// Returns the parts of each block that was kept.
    pub fn kept_blocks(&self) -> impl Iterator<Item = &[PartEvents]> {
        let start = |number: usize| number.checked_sub(1).map_or(0, |before| self.kept[before]);
        (0..self.kept.len()).map(move |number| &self.parts[start(number)..self.kept[number]])
    }

    /// Ends a class, whose elements are of a kind with these contexts, in all parts of this block.
    #[inline(always)]
    fn end_class<I: InstructionSet>(&mut self, isa: I, contexts: &Contexts, counts: &mut EventCounts) {
        for (part, of_class) in self.parts[self.first_part..].iter_mut().zip(&mut self.of_class) {
            part.append(isa, of_class, contexts, counts);
            of_class.clear();
        }
    }

    /// Returns the part of a class of the finest level that belongs to a box.
    fn range(&self, number: usize, class: usize) -> [[usize; 2]; 3] {
        let extent = self.levels[0].class(class);
        let ranges = self.boxes.ranges(number);
        std::array::from_fn(|axis| ranges[axis].map(|end| end.min(extent[axis])))
    }

    /// Begins the lattices of values and codes with the anchors.
    fn begin_lattices(&mut self, quantizer: &Quantizer<T>) {
        self.lattice.clear();
        self.lattice.extend(self.anchors.iter().map(|anchor| quantizer.linear.value(anchor.integer)));
        self.code_lattice.clear();
        let code = |anchor: &Anchor| anchor.mask.map_or(0, |mask| code_of_mask(mask.into()));
        self.code_lattice.extend(self.anchors.iter().map(code));
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

    /// Writes the patterns of masked elements, in raster order, after decoding. `None` if there is no such mask.
    pub fn restore_masked(&mut self, patterns: &[u64], out: &mut [T]) -> Option<()> {
        if !self.any_masks {
            return Some(());
        }
        let mut arranged = &self.code_lattice;
        if let Some(level) = self.levels.first() {
            joined(&self.code_lattice, &self.codes[0], level, &mut self.next_codes);
            arranged = &self.next_codes;
        }
        let mut codes = std::mem::take(&mut self.unit_codes);
        codes.resize(out.len(), 0);
        self.order.restore(self.extent, arranged, &mut codes);
        let mut masked = out.iter_mut().zip(&codes).filter_map(|(out, &code)| Some((out, mask_of_code(code)?)));
        let restored = masked.try_for_each(|(out, mask)| {
            *out = T::from_bits(*patterns.get(mask)?);
            Some(())
        });
        self.unit_codes = codes;
        restored
    }

    /// Joins the codes of all coarser lattices with those of the level, whose neighbors are then known.
    fn join_codes_of_level(&mut self, level: usize) {
        joined(&self.code_lattice, &self.codes[level], &self.levels[level], &mut self.next_codes);
        std::mem::swap(&mut self.code_lattice, &mut self.next_codes);
    }
}
