//! The elements of a block to codes.

use super::{Block, UnitEvents};
use crate::contexts::lanes::Event;
use crate::contexts::{context_row, half_octaves, kind_of};
use crate::pipeline::blocks::plan::Division;
use crate::pipeline::blocks::quantizer::{MISSED, Quantizer};
use crate::pipeline::blocks::units::whole_row;
use crate::predict::levels::{PASSES, predict_row, split};
use crate::quantize::Real;
use crate::quantize::mask::TileMask;
use crate::simd::{self, InstructionSet, Kernel};

impl<T: Real> Block<T> {
    /// Predicts and quantizes the elements `x`, in raster order, of a block that was begun and whose exclusion is
    /// known.
    pub fn encode(&mut self, x: &[T], quantizer: &Quantizer<T>) {
        let units = self.units();
        self.events.resize_with(units, UnitEvents::default);
        self.events.iter_mut().for_each(UnitEvents::clear);
        self.missed.clear();
        let mut arranged = std::mem::take(&mut self.arranged);
        if !self.order.is_raster() {
            self.order.arrange(self.extent, x, &mut arranged);
        }
        let whole = if self.order.is_raster() { x } else { &arranged };
        for (number, level) in self.levels.iter().enumerate() {
            let (finer, coarser) = self.x.split_at_mut(number);
            let from = finer.last().map_or(whole, |classes| &classes[0]);
            split(from, level, &mut coarser[0]);
        }
        let anchors = self.x[..self.levels.len()].last().map_or_else(|| whole.to_vec(), |classes| classes[0].clone());
        self.encode_anchors(anchors, quantizer);
        self.arranged = arranged;
        for number in (0..self.levels.len()).rev() {
            for class in PASSES {
                self.encode_class(number, class, quantizer);
            }
            // What the finest level becomes is not needed to code it.
            if number > 0 {
                self.join(number);
                self.join_codes(number);
            }
        }
    }

    /// Returns the reconstructed elements after [`Self::encode`], in raster order.
    pub fn reconstructed(&mut self, out: &mut [T]) {
        self.finish(out);
    }

    fn encode_anchors(&mut self, x: Vec<T>, quantizer: &Quantizer<T>) {
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
            let mut rounded = [value];
            quantizer.stored.round(&mut rounded);
            let is_reserved = |reserved: &T| reserved.bits() == rounded[0].bits();
            misses |= quantizer.interpolation.reserved().iter().any(is_reserved);
            misses |= quantizer.stored.element().is_half() && quantizer.linear.missed(&[x], &rounded).any();
            misses |= quantizer.range.is_some_and(|range| range.outside(&[x]).is_some());
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
        let mut before = block.take_before(ny * nx);
        let rho = T::nearest(block.plan.rho());
        let follows = block.plan.share > 0;
        let mut predicted = vec![T::from_bits(0); nx];
        let rounds = quantizer.rounds();
        let mut rounded = vec![T::from_bits(0); if rounds { nx } else { 0 }];
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
            if rounds {
                quantizer.check_stored(x, codes, values, &mut rounded);
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
    fn run<I: InstructionSet>(self, isa: I) {
        let Self { block, number, class } = self;
        let level = block.levels[number];
        let extent = level.class(class);
        let [_, ny, nx] = extent;
        let slices = block.plan.slices.is_some();
        let in_boxes = number == 0 && block.plan.division != Division::One;
        let of_kind = half_octaves(kind_of(number, class));
        let (mut sums, mut contexts) = (vec![0; nx], vec![0; nx]);
        for unit in 0..if in_boxes { block.boxes.count() } else { 1 } {
            let (range, mut part) = match in_boxes {
                true => {
                    let range = block.range(unit, class);
                    (range, block.boxes.part(unit, range[0][0], nx, slices))
                }
                false => (extent.map(|extent| [0, extent]), whole_row(0, nx, slices)),
            };
            let count = range[2][1].saturating_sub(range[2][0]);
            let UnitEvents { events, ends } = &mut block.events[if in_boxes { unit + 1 } else { 0 }];
            for z in range[0][0]..range[0][1] {
                for y in range[1][0]..range[1][1] {
                    let contexts = &mut contexts[..count];
                    let known = (&block.code_lattice[..], &block.codes[number]);
                    let out = (&of_kind, &mut sums[..], &mut *contexts);
                    context_row(isa, known, (&level, number), class, [z, y], &part, out);
                    let at = (z * ny + y) * nx + range[2][0];
                    let codes = &block.codes[number][class][at..][..count];
                    if block.any_excluded {
                        let excluded = &block.excluded[number][class][at..][..count];
                        let all = codes.iter().zip(&*contexts).zip(excluded);
                        events.extend(all.map(|((&code, &context), &excluded)| match excluded {
                            0 => Event::new(code, context),
                            _ => Event::NONE,
                        }));
                    } else {
                        events.extend(codes.iter().zip(&*contexts).map(|(&code, &context)| Event::new(code, context)));
                    }
                }
                // Slices of a unit but its first have one before.
                part.has_before = slices;
                if slices {
                    end_run(events, ends);
                }
            }
            end_run(events, ends);
        }
    }
}

/// Ends a run, unless it is empty.
fn end_run(events: &[Event], ends: &mut Vec<u32>) {
    let end = events.len() as u32;
    if ends.last().copied().unwrap_or(0) < end {
        ends.push(end);
    }
}
