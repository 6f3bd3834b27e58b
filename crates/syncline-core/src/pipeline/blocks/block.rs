//! One block: its elements to codes and back.

use super::plan::{Division, Order, Plan};
use super::quantizer::{MISSED, Quantizer};
use super::units::{Boxes, whole_row};
use crate::contexts::rans::{Decoder, SlotTable};
use crate::contexts::{CONTEXTS, context_row};
use crate::predict::levels::{Classes, Level, PASSES, joined, levels_of, predict_row, split};
use crate::quantize::Real;
use crate::quantize::mask::TileMask;
use crate::simd::{self, InstructionSet, Kernel};

/// Memory for one block, and what was found for it.
pub(super) struct Block<T> {
    extent: [usize; 3],
    order: Order,
    levels: Vec<Level>,
    boxes: Boxes,
    plan: Plan,
    /// Elements and their exclusion, by level and class.
    x: Vec<Classes<T>>,
    excluded: Vec<Classes<u8>>,
    any_excluded: bool,
    /// Reconstructed values and codes of each level.
    values: Classes<T>,
    codes: Vec<Classes<i32>>,
    /// The lattice of the level that is worked on.
    lattice: Vec<T>,
    code_lattice: Vec<i32>,
    next_codes: Vec<i32>,
    arranged: Vec<T>,
    arranged_excluded: Vec<u8>,
    /// Differences between values and predictions of the slice before.
    before: Vec<T>,
    pub anchors: Vec<i32>,
    /// The codes of each unit with their contexts, see [`Event`]: those of all levels but the finest, and those of the
    /// finest by unit.
    pub events: Vec<Vec<Event>>,
    /// Places, in raster order, of the elements that are not within the bound.
    pub missed: Vec<u32>,
}

fn count_units(boxes: &Boxes, division: Division) -> usize {
    match division {
        Division::One => 1,
        Division::Two | Division::Boxes => 1 + boxes.count(),
    }
}

/// Returns the number of units of a block.
pub(super) fn units_of(extent: [usize; 3], plan: Plan) -> usize {
    let extent = Order::new(extent, plan.slices).of(extent);
    let levels = levels_of(extent, plan.slices.is_some());
    count_units(&Boxes::new(extent, levels.first(), plan.division), plan.division)
}

/// A code and its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event(i32);

impl Event {
    #[inline(always)]
    fn new(code: i32, context: u8) -> Self {
        Self(code << 8 | i32::from(context))
    }

    #[inline(always)]
    pub fn code(self) -> i32 {
        self.0 >> 8
    }

    #[inline(always)]
    pub fn context(self) -> usize {
        (self.0 & 0xFF) as usize
    }
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
            x: Vec::new(),
            excluded: Vec::new(),
            any_excluded: false,
            values: Classes::default(),
            codes: Vec::new(),
            lattice: Vec::new(),
            code_lattice: Vec::new(),
            next_codes: Vec::new(),
            arranged: Vec::new(),
            arranged_excluded: Vec::new(),
            before: Vec::new(),
            anchors: Vec::new(),
            events: Vec::new(),
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
        self.x.resize_with(self.levels.len(), Classes::default);
        self.excluded.resize_with(self.levels.len(), Classes::default);
        self.codes.resize_with(self.levels.len(), Classes::default);
    }

    /// Returns the number of units.
    pub fn units(&self) -> usize {
        count_units(&self.boxes, self.plan.division)
    }

    /// Returns the number of anchors.
    pub fn anchor_count(&self) -> usize {
        self.levels.last().map_or_else(|| self.order.of(self.extent)[0], |level| level.class_len(0))
    }

    /// Divides which elements are excluded, one byte each in raster order, into levels and classes.
    pub fn exclude(&mut self, excluded: Option<&[u8]>) {
        self.any_excluded = excluded.is_some();
        let Some(excluded) = excluded else { return };
        self.order.arrange(self.extent, excluded, &mut self.arranged_excluded);
        for (number, level) in self.levels.iter().enumerate() {
            let (coarser, finer) = self.excluded.split_at_mut(number);
            let from = coarser.last().map_or(&self.arranged_excluded, |classes| &classes[0]);
            split(from, level, &mut finer[0]);
        }
    }

    /// Returns whether each anchor is excluded.
    fn anchor_exclusion(&self) -> &[u8] {
        match self.levels.len() {
            0 => &self.arranged_excluded,
            levels => &self.excluded[levels - 1][0],
        }
    }

    /// Predicts and quantizes the elements `x`, in raster order, of a block that was begun and whose exclusion is
    /// known.
    pub fn encode(&mut self, x: &[T], quantizer: &Quantizer<T>) {
        let units = self.units();
        self.events.resize_with(units, Vec::new);
        self.events.iter_mut().for_each(Vec::clear);
        self.missed.clear();
        self.order.arrange(self.extent, x, &mut self.arranged);
        for (number, level) in self.levels.iter().enumerate() {
            let (finer, coarser) = self.x.split_at_mut(number);
            let from = finer.last().map_or(&self.arranged, |classes| &classes[0]);
            split(from, level, &mut coarser[0]);
        }
        self.encode_anchors(quantizer);
        for number in (0..self.levels.len()).rev() {
            for class in PASSES {
                self.encode_class(number, class, quantizer);
            }
            self.join(number);
            if number > 0 {
                self.join_codes(number);
            }
        }
    }

    /// Returns the reconstructed elements after [`Self::encode`], in raster order.
    pub fn reconstructed(&self, out: &mut [T]) {
        self.order.restore(self.extent, &self.lattice, out);
    }

    /// Joins the classes of a level to the lattice of the next.
    fn join(&mut self, number: usize) {
        let mut next = std::mem::take(&mut self.arranged);
        joined(&self.lattice, &self.values, &self.levels[number], &mut next);
        self.arranged = std::mem::replace(&mut self.lattice, next);
    }

    fn join_codes(&mut self, number: usize) {
        joined(&self.code_lattice, &self.codes[number], &self.levels[number], &mut self.next_codes);
        std::mem::swap(&mut self.code_lattice, &mut self.next_codes);
    }

    fn encode_anchors(&mut self, quantizer: &Quantizer<T>) {
        let anchors = self.levels.len().checked_sub(1).map_or(&self.arranged, |last| &self.x[last][0]);
        let x = anchors.clone();
        self.anchors.clear();
        self.lattice.clear();
        let mut before = 0;
        let mut missed = Vec::new();
        for (number, &x) in x.iter().enumerate() {
            if self.any_excluded && self.anchor_exclusion()[number] != 0 {
                self.anchors.push(before);
                continue;
            }
            let (mut q, mut exact) = ([0], TileMask::default());
            let mut misses = quantizer.linear.quantize_tile(&[x], &mut q, &mut exact);
            let value = quantizer.linear.value(q[0]);
            misses |= quantizer.interpolation.reserved().iter().any(|reserved| reserved.bits() == value.bits());
            misses |= quantizer.range.is_some_and(|range| range.outside(&[x]).any());
            if misses {
                missed.push(number);
                q[0] = before;
            }
            before = q[0];
            self.anchors.push(before);
        }
        self.lattice.extend(self.anchors.iter().map(|&q| quantizer.linear.value(q)));
        self.code_lattice.clear();
        self.code_lattice.resize(x.len(), 0);
        for number in missed {
            self.missed.push(self.order.place(self.extent, [number, 0, 0]) as u32);
        }
    }

    fn encode_class(&mut self, number: usize, class: usize, quantizer: &Quantizer<T>) {
        let len = self.levels[number].class_len(class);
        self.codes[number][class].resize(len, 0);
        self.values[class].resize(len, T::from_bits(0));
        if len == 0 {
            return;
        }
        let mut values = std::mem::take(&mut self.values[class]);
        let mut codes = std::mem::take(&mut self.codes[number][class]);
        let rows = EncodeRows { block: self, number, class, quantizer, values: &mut values, codes: &mut codes };
        if simd::run(rows) {
            self.list_missed(number, class, &mut codes);
        }
        self.values[class] = values;
        self.codes[number][class] = codes;
        simd::run(CollectEvents { block: self, number, class });
    }

    /// Lists the elements of a class whose codes are [`MISSED`], and gives them code 0.
    fn list_missed(&mut self, number: usize, class: usize, codes: &mut [i32]) {
        let level = self.levels[number];
        let [_, ny, nx] = level.class(class);
        for (at, code) in codes.iter_mut().enumerate().filter(|(_, code)| **code == MISSED) {
            *code = 0;
            let at = [at / (ny * nx), at / nx % ny, at % nx];
            let place = std::array::from_fn(|axis| match level.halved[axis] {
                true => (2 * at[axis] + (class >> axis & 1)) << number,
                false => at[axis],
            });
            self.missed.push(self.order.place(self.extent, place) as u32);
        }
    }

    /// Reads the codes of all levels but the finest, and of that as well if the block has one unit.
    ///
    /// A unit without words has codes of 0 only.
    pub fn decode_coarse(&mut self, decoder: Option<Decoder>, tables: &ContextTables) -> bool {
        let last = match self.plan.division {
            Division::One => 0,
            _ => 1,
        };
        self.code_lattice.clear();
        self.code_lattice.resize(self.anchor_count(), 0);
        let mut decoder = decoder;
        for number in (last..self.levels.len()).rev() {
            for class in PASSES {
                self.clear_codes(number, class);
                if let Some(decoder) = &mut decoder {
                    let extent = self.levels[number].class(class);
                    let range = extent.map(|extent| [0, extent]);
                    simd::run(DecodeRows { block: self, number, class, range, unit: None, tables, decoder });
                }
            }
            if number > 0 {
                self.join_codes(number);
            }
        }
        if last == 1 && !self.levels.is_empty() {
            PASSES.iter().for_each(|&class| self.clear_codes(0, class));
        }
        decoder.is_none_or(|decoder| decoder.is_finished())
    }

    fn clear_codes(&mut self, number: usize, class: usize) {
        let len = self.levels[number].class_len(class);
        let codes = &mut self.codes[number][class];
        codes.clear();
        codes.resize(len, 0);
    }

    /// Reads the codes of units of the finest level, after [`Self::decode_coarse`]: those of several units of the same
    /// extents side by side, so that the processor works on one while another waits.
    pub fn decode_units(&mut self, units: Vec<(usize, Decoder)>, tables: &ContextTables) -> bool {
        if self.levels.is_empty() {
            return units.iter().all(|(_, decoder)| decoder.is_finished());
        }
        let mut rest = units.as_slice();
        while let Some(((first, decoder), after)) = rest.split_first() {
            let alike = rest.first_chunk::<LANES>().filter(|lanes| {
                !self.any_excluded && lanes.iter().all(|(unit, _)| self.lengths(*unit) == self.lengths(*first))
            });
            let is_whole = match alike {
                Some(lanes) => {
                    rest = &rest[LANES..];
                    let units = lanes.each_ref().map(|(unit, _)| *unit);
                    let decoders = lanes.each_ref().map(|(_, decoder)| decoder.clone());
                    simd::run(DecodeUnits { block: self, units, tables, decoders })
                }
                None => {
                    rest = after;
                    self.decode_unit(*first, decoder.clone(), tables)
                }
            };
            if !is_whole {
                return false;
            }
        }
        true
    }

    /// Returns the extents of the parts of the smallest and of the largest class that belong to a unit.
    fn lengths(&self, unit: usize) -> [[usize; 3]; 2] {
        [7, 0].map(|class| self.range(unit, class).map(|[start, end]| end.saturating_sub(start)))
    }

    /// Returns the part of a class of the finest level that belongs to a unit.
    fn range(&self, unit: usize, class: usize) -> [[usize; 2]; 3] {
        let extent = self.levels[0].class(class);
        let ranges = self.boxes.ranges(unit);
        std::array::from_fn(|axis| ranges[axis].map(|end| end.min(extent[axis])))
    }

    fn decode_unit(&mut self, unit: usize, mut decoder: Decoder, tables: &ContextTables) -> bool {
        for class in PASSES {
            let (range, decoder) = (self.range(unit, class), &mut decoder);
            simd::run(DecodeRows { block: self, number: 0, class, range, unit: Some(unit), tables, decoder });
        }
        decoder.is_finished()
    }

    /// Reconstructs the elements of a block from its anchors and codes, in raster order.
    pub fn reconstruct(&mut self, quantizer: &Quantizer<T>, out: &mut [T]) {
        self.lattice.clear();
        self.lattice.extend(self.anchors.iter().map(|&q| quantizer.linear.value(q)));
        for number in (0..self.levels.len()).rev() {
            for class in PASSES {
                let len = self.levels[number].class_len(class);
                let mut values = std::mem::take(&mut self.values[class]);
                values.resize(len, T::from_bits(0));
                simd::run(ReconstructRows { block: self, number, class, quantizer, values: &mut values });
                self.values[class] = values;
            }
            self.join(number);
        }
        self.order.restore(self.extent, &self.lattice, out);
    }
}

/// The tables of a chunk for the decoder, by context.
pub(super) struct ContextTables {
    pub tables: Vec<SlotTable>,
    pub of_context: [u8; CONTEXTS],
}

/// Predicts and quantizes the elements of a class. Returns whether any is not within the bound.
struct EncodeRows<'a, T: Real> {
    block: &'a mut Block<T>,
    number: usize,
    class: usize,
    quantizer: &'a Quantizer<T>,
    values: &'a mut [T],
    codes: &'a mut [i32],
}

impl<T: Real> Kernel for EncodeRows<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> bool {
        let Self { block, number, class, quantizer, values, codes } = self;
        let level = block.levels[number];
        let [_, ny, nx] = level.class(class);
        let mut before = std::mem::take(&mut block.before);
        before.clear();
        before.resize(ny * nx, T::from_bits(0));
        let rho = T::nearest(block.plan.rho());
        let follows = block.plan.share > 0;
        let mut predicted = vec![T::from_bits(0); nx];
        let mut any_missed = false;
        let rows = values.chunks_exact_mut(nx).zip(codes.chunks_exact_mut(nx));
        for (row, (values, codes)) in rows.enumerate() {
            let (z, y) = (row / ny, row % ny);
            predict_row((&block.lattice, &block.values), &level, class, [z, y], block.plan.cubic, &mut predicted);
            let before = &mut before[y * nx..][..nx];
            if follows {
                // The difference of a slice to come is measured from the prediction without this share.
                for k in 0..nx {
                    let own = before[k];
                    before[k] = predicted[k];
                    predicted[k] = rho.mul_add(own, predicted[k]);
                }
            }
            let x = &block.x[number][class][row * nx..][..nx];
            let excluded = if block.any_excluded { &block.excluded[number][class][row * nx..][..nx] } else { &[] };
            if block.plan.on_grid {
                quantizer.quantize_on_grid(x, &mut predicted, codes, values);
            } else {
                quantizer.quantize_from(x, &predicted, codes, values);
            }
            any_missed |= quantizer.check(x, excluded, &predicted, (codes, values));
            if follows {
                for k in 0..nx {
                    before[k] = values[k] - before[k];
                }
            }
        }
        block.before = before;
        any_missed
    }
}

/// Appends the codes of a class and their contexts to the events of their units.
struct CollectEvents<'a, T> {
    block: &'a mut Block<T>,
    number: usize,
    class: usize,
}

impl<T: Real> Kernel for CollectEvents<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let Self { block, number, class } = self;
        let level = block.levels[number];
        let [nz, ny, nx] = level.class(class);
        let slices = block.plan.slices.is_some();
        let in_boxes = number == 0 && block.plan.division != Division::One;
        let mut sums = Vec::new();
        let mut contexts = vec![0; nx];
        for (z, y) in (0..nz).flat_map(|z| (0..ny).map(move |y| (z, y))) {
            let mut unit = if in_boxes { block.boxes.first_of_row([z, y]) } else { 0 };
            let mut start = 0;
            while start < nx {
                let part = match in_boxes {
                    true => block.boxes.part(unit, z, nx, slices),
                    false => whole_row(z, nx, slices),
                };
                let contexts = &mut contexts[..part.x[1] - part.x[0]];
                let known = (&block.code_lattice[..], &block.codes[number]);
                context_row(known, (&level, number), class, [z, y], &part, (&mut sums, contexts));
                let at = (z * ny + y) * nx + start;
                let codes = &block.codes[number][class][at..][..contexts.len()];
                let events = &mut block.events[if in_boxes { unit + 1 } else { 0 }];
                if block.any_excluded {
                    let excluded = &block.excluded[number][class][at..][..contexts.len()];
                    let all = codes.iter().zip(&*contexts).zip(excluded);
                    let coded = all.filter(|(_, excluded)| **excluded == 0);
                    events.extend(coded.map(|((&code, &context), _)| Event::new(code, context)));
                } else {
                    events.extend(codes.iter().zip(&*contexts).map(|(&code, &context)| Event::new(code, context)));
                }
                start = part.x[1];
                unit += 1;
            }
        }
    }
}

/// Reads the codes of a class in a range of elements along z, y, and x.
struct DecodeRows<'a, 'd, 'w, T> {
    block: &'a mut Block<T>,
    number: usize,
    class: usize,
    range: [[usize; 2]; 3],
    unit: Option<usize>,
    tables: &'a ContextTables,
    decoder: &'d mut Decoder<'w>,
}

impl<T: Real> Kernel for DecodeRows<'_, '_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let Self { block, number, class, range, unit, tables, decoder } = self;
        let level = block.levels[number];
        let [_, ny, nx] = level.class(class);
        let slices = block.plan.slices.is_some();
        let mut sums = Vec::new();
        let mut contexts = vec![0; range[2][1].saturating_sub(range[2][0])];
        if contexts.is_empty() {
            return;
        }
        for (z, y) in (range[0][0]..range[0][1]).flat_map(|z| (range[1][0]..range[1][1]).map(move |y| (z, y))) {
            let part = match unit {
                Some(unit) => block.boxes.part(unit, z, nx, slices),
                None => whole_row(z, nx, slices),
            };
            let known = (&block.code_lattice[..], &block.codes[number]);
            context_row(known, (&level, number), class, [z, y], &part, (&mut sums, &mut contexts));
            let at = (z * ny + y) * nx + part.x[0];
            let codes = &mut block.codes[number][class][at..][..contexts.len()];
            let table = |context: u8| &tables.tables[usize::from(tables.of_context[usize::from(context)])];
            if block.any_excluded {
                let excluded = &block.excluded[number][class][at..][..contexts.len()];
                for k in (0..codes.len()).filter(|&k| excluded[k] == 0) {
                    codes[k] = decoder.code(table(contexts[k]));
                }
            } else {
                for (code, &context) in codes.iter_mut().zip(&contexts) {
                    *code = decoder.code(table(context));
                }
            }
        }
    }
}

/// Units that are decoded side by side.
const LANES: usize = 4;

/// Reads the codes of several units of the finest level whose parts of each class have the same extents. Returns
/// whether all of them are whole.
struct DecodeUnits<'a, 'w, T> {
    block: &'a mut Block<T>,
    units: [usize; LANES],
    tables: &'a ContextTables,
    decoders: [Decoder<'w>; LANES],
}

impl<T: Real> Kernel for DecodeUnits<'_, '_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> bool {
        let Self { block, units, tables, decoders } = self;
        let [mut a, mut b, mut c, mut d] = decoders;
        let level = block.levels[0];
        let slices = block.plan.slices.is_some();
        let mut sums = Vec::new();
        let longest = level.extent[2];
        let mut contexts: [Vec<u8>; LANES] = std::array::from_fn(|_| vec![0; longest]);
        let mut codes: [Vec<i32>; LANES] = std::array::from_fn(|_| vec![0; longest]);
        let table_of: [&SlotTable; 256] = std::array::from_fn(|context| {
            &tables.tables[tables.of_context.get(context).map_or(0, |&table| usize::from(table))]
        });
        for class in PASSES {
            let [_, ny, nx] = level.class(class);
            let ranges = units.map(|unit| block.range(unit, class));
            let [nz_own, ny_own, nx_own] = ranges[0].map(|[start, end]| end.saturating_sub(start));
            if nx_own == 0 {
                continue;
            }
            for (z, y) in (0..nz_own).flat_map(|z| (0..ny_own).map(move |y| (z, y))) {
                for lane in 0..LANES {
                    let at = [ranges[lane][0][0] + z, ranges[lane][1][0] + y];
                    let part = block.boxes.part(units[lane], at[0], nx, slices);
                    let known = (&block.code_lattice[..], &block.codes[0]);
                    context_row(known, (&level, 0), class, at, &part, (&mut sums, &mut contexts[lane][..nx_own]));
                }
                let [of_a, of_b, of_c, of_d] = contexts.each_ref().map(|contexts| &contexts[..nx_own]);
                let [to_a, to_b, to_c, to_d] = codes.each_mut().map(|codes| &mut codes[..nx_own]);
                for k in 0..nx_own {
                    to_a[k] = a.code(table_of[usize::from(of_a[k])]);
                    to_b[k] = b.code(table_of[usize::from(of_b[k])]);
                    to_c[k] = c.code(table_of[usize::from(of_c[k])]);
                    to_d[k] = d.code(table_of[usize::from(of_d[k])]);
                }
                for lane in 0..LANES {
                    let at = (ranges[lane][0][0] + z) * ny + ranges[lane][1][0] + y;
                    let start = at * nx + ranges[lane][2][0];
                    block.codes[0][class][start..start + nx_own].copy_from_slice(&codes[lane][..nx_own]);
                }
            }
        }
        [a, b, c, d].iter().all(Decoder::is_finished)
    }
}

/// Reconstructs the elements of a class from their codes.
struct ReconstructRows<'a, T: Real> {
    block: &'a mut Block<T>,
    number: usize,
    class: usize,
    quantizer: &'a Quantizer<T>,
    values: &'a mut [T],
}

impl<T: Real> Kernel for ReconstructRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let Self { block, number, class, quantizer, values } = self;
        if values.is_empty() {
            return;
        }
        let level = block.levels[number];
        let [_, ny, nx] = level.class(class);
        let mut before = std::mem::take(&mut block.before);
        before.clear();
        before.resize(ny * nx, T::from_bits(0));
        let rho = T::nearest(block.plan.rho());
        let follows = block.plan.share > 0;
        let on_grid = block.plan.on_grid;
        for (row, values) in values.chunks_exact_mut(nx).enumerate() {
            let (z, y) = (row / ny, row % ny);
            predict_row((&block.lattice, &block.values), &level, class, [z, y], block.plan.cubic, values);
            let codes = &block.codes[number][class][row * nx..][..nx];
            let before = &mut before[y * nx..][..nx];
            if follows {
                for k in 0..nx {
                    let plain = values[k];
                    values[k] = quantizer.value(on_grid, rho.mul_add(before[k], plain), codes[k]);
                    before[k] = values[k] - plain;
                }
            } else if on_grid {
                for k in 0..nx {
                    values[k] = quantizer.value(true, values[k], codes[k]);
                }
            } else {
                for k in 0..nx {
                    values[k] = quantizer.value(false, values[k], codes[k]);
                }
            }
        }
        block.before = before;
    }
}
