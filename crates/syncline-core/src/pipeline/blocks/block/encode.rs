//! The elements of a block to codes.

use super::Block;
use crate::contexts::segments::PartEvents;
use crate::contexts::{CONTEXT_ROOM, Contexts, Event, EventCounts, RowPart, context_row, kind_of};
use crate::pipeline::blocks::anchors::Anchor;
use crate::pipeline::blocks::plan::Division;
use crate::pipeline::blocks::quantizer::{MISSED, Quantizer};
use crate::pipeline::blocks::units::whole_row;
use crate::predict::levels::{PASSES, coarser, predict_row, take_row};
use crate::quantize::Real;
use crate::quantize::mask::TileMask;
use crate::simd::{self, InstructionSet, Kernel};

impl<T: Real> Block<T> {
    /// Predicts and quantizes the elements `x`, in raster order, of a block that was begun and whose masks are known.
    /// Counts the events that are coded.
    pub fn encode(&mut self, x: &[T], quantizer: &Quantizer<T>, counts: &mut EventCounts) {
        let parts = self.part_count();
        self.parts.resize_with(self.parts.len().max(self.first_part + parts), PartEvents::default);
        self.parts[self.first_part..][..parts].iter_mut().for_each(PartEvents::clear);
        self.of_class.resize_with(parts, Vec::new);
        self.missed.clear();
        let mut arranged = std::mem::take(&mut self.arranged);
        let mut coarse = std::mem::take(&mut self.coarse);
        if !self.order.is_raster() {
            self.order.arrange(self.extent, x, &mut arranged);
        }
        let whole = if self.order.is_raster() { x } else { &arranged };
        for (number, level) in self.levels.iter().enumerate() {
            let (finer, next) = coarse.split_at_mut(number);
            coarser(finer.last().map_or(whole, |lattice| lattice), level, &mut next[0]);
        }
        let lattice = |number: usize| number.checked_sub(1).map_or(whole, |number| &coarse[number]);
        self.encode_anchors(lattice(self.levels.len()), quantizer);
        for number in (0..self.levels.len()).rev() {
            for class in PASSES {
                let len = self.levels[number].class_len(class);
                let mut values = std::mem::take(&mut self.values[class]);
                values.resize(len, T::from_bits(0));
                self.codes[number][class].resize(len, 0);
                if len > 0 {
                    let x = lattice(number);
                    simd::run(EncodeClass { block: self, number, class, x, quantizer, values: &mut values, counts });
                }
                self.values[class] = values;
            }
            // What the finest level becomes is not needed to code it.
            if number > 0 {
                self.join(number);
                self.join_codes_of_level(number);
            }
        }
        (self.arranged, self.coarse) = (arranged, coarse);
    }

    /// Returns the reconstructed elements after [`Self::encode`], in raster order.
    pub fn reconstructed(&mut self, out: &mut [T]) {
        self.finish(out);
    }

    fn encode_anchors(&mut self, x: &[T], quantizer: &Quantizer<T>) {
        self.anchors.clear();
        self.lattice.clear();
        let mut before = 0;
        let mut missed = Vec::new();
        for (number, &x) in x.iter().enumerate() {
            if let Some(&masked) = self.masks[self.levels.len()].get(number).filter(|&&m| self.any_masks && m != 0) {
                self.anchors.push(Anchor { integer: before, mask: Some(masked - 1) });
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
            self.anchors.push(Anchor { integer: before, mask: None });
        }
        self.begin_lattices(quantizer);
        for number in missed {
            self.missed.push(self.order.place(self.extent, [number, 0, 0]) as u32);
        }
    }

    /// Lists the elements of a row of a class whose codes are [`MISSED`], and gives them code 0.
    fn list_missed(&mut self, number: usize, class: usize, [z, y]: [usize; 2], codes: &mut [i32]) {
        let halved = self.levels[number].halved;
        for (x, code) in codes.iter_mut().enumerate().filter(|(_, code)| **code == MISSED) {
            *code = 0;
            let at = [z, y, x];
            let place = std::array::from_fn(|axis| match halved[axis] {
                true => (2 * at[axis] + (class >> axis & 1)) << number,
                false => at[axis],
            });
            self.missed.push(self.order.place(self.extent, place) as u32);
        }
    }

    /// Appends the codes of a row of a class, or of a box's part of it, to those of a part.
    #[inline(always)]
    fn collect<I: InstructionSet>(
        &mut self,
        isa: I,
        (number, class): (usize, usize),
        at: [usize; 2],
        (part, of_row): (usize, RowPart),
        (of_kind, sums, contexts): (&Contexts, &mut [i32], &mut [u8]),
    ) {
        let level = &self.levels[number];
        let [start, end] = of_row.x;
        if start >= end {
            return;
        }
        let known = (&self.code_lattice[..], &self.codes[number]);
        context_row(isa, known, (level, number, class), at, &of_row, (of_kind, self.any_masks), (sums, &mut *contexts));
        let [_, ny, nx] = level.class(class);
        let codes = &self.codes[number][class][(at[0] * ny + at[1]) * nx..][start..end];
        self.of_class[part].extend(codes.iter().zip(&*contexts).map(|(&code, &context)| Event::new(code, context)));
    }
}

/// Predicts and quantizes the elements of a class, and appends the codes and their contexts to the events of their
/// parts.
struct EncodeClass<'a, T: Real> {
    block: &'a mut Block<T>,
    number: usize,
    class: usize,
    /// The elements of the level.
    x: &'a [T],
    quantizer: &'a Quantizer<T>,
    values: &'a mut [T],
    counts: &'a mut EventCounts,
}

impl<T: Real> Kernel for EncodeClass<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, isa: I) {
        let Self { block, number, class, x: from, quantizer, values, counts } = self;
        let (level, plan) = (block.levels[number], block.plan);
        let [nz, ny, nx] = level.class(class);
        let mut before = block.take_before(ny * nx);
        let rho = T::nearest(plan.rho());
        let follows = plan.share > 0;
        let in_boxes = number == 0 && plan.division != Division::One;
        let of_kind = Contexts::of_kind(kind_of(number, class));
        let [mut x, mut predicted, mut rounded] = [(); 3].map(|()| vec![T::from_bits(0); nx]);
        let (mut codes, mut sums) = (vec![0; nx], vec![0; nx + CONTEXT_ROOM]);
        let (mut masks, mut contexts) = (vec![0; nx], vec![0; nx + CONTEXT_ROOM]);
        for z in 0..nz {
            for y in 0..ny {
                let values = &mut values[(z * ny + y) * nx..][..nx];
                take_row(from, &level, class, [z, y], 0, &mut x);
                if block.any_masks {
                    take_row(&block.masks[number], &level, class, [z, y], 0, &mut masks);
                }
                predict_row((&block.lattice, &block.values), &level, class, [z, y], plan.cubic, &mut predicted);
                let before = &mut before[y * nx..][..nx];
                if follows {
                    // The difference of a slice to come is measured from the prediction without this share.
                    for k in 0..nx {
                        let own = before[k];
                        before[k] = predicted[k];
                        predicted[k] = rho.mul_add(own, predicted[k]);
                    }
                }
                if plan.on_grid {
                    quantizer.quantize_on_grid(&x, &mut predicted, &mut codes, values);
                } else {
                    quantizer.quantize_from(&x, &predicted, &mut codes, values);
                }
                if quantizer.rounds() {
                    quantizer.check_stored(&x, &mut codes, values, &mut rounded);
                }
                let masks = if block.any_masks { &masks[..] } else { &[] };
                if quantizer.check(&x, masks, &predicted, (&mut codes, &mut *values)) {
                    block.list_missed(number, class, [z, y], &mut codes);
                }
                if follows {
                    for k in 0..nx {
                        before[k] = values[k] - before[k];
                    }
                }
                block.codes[number][class][(z * ny + y) * nx..][..nx].copy_from_slice(&codes);
                let boxes = block.boxes;
                for number_in_row in if in_boxes { boxes.of_row([z, y]) } else { 0..1 } {
                    let part = match in_boxes {
                        true => (number_in_row + 1, boxes.part(number_in_row, nx)),
                        false => (0, whole_row(nx)),
                    };
                    let memory = (&of_kind, &mut sums[..], &mut contexts[..]);
                    block.collect(isa, (number, class), [z, y], part, memory);
                }
            }
        }
        block.end_class(isa, &of_kind, counts);
        block.before = before;
    }
}
