//! The codes of a block back to elements.

use super::Block;
use crate::contexts::lanes::{Decoder, MOST_LANES, NO_TABLE, SlotTables};
use crate::contexts::{context_row, kind_of};
use crate::pipeline::blocks::plan::Division;
use crate::pipeline::blocks::quantizer::Quantizer;
use crate::pipeline::blocks::units::whole_row;
use crate::predict::levels::{PASSES, predict_row, take_row};
use crate::quantize::Real;
use crate::simd::{self, InstructionSet, Kernel};

impl<T: Real> Block<T> {
    /// Reads the codes of all levels but the finest, and of that as well if the block has one unit.
    ///
    /// A unit without words has codes of 0 only.
    pub fn decode_coarse(&mut self, mut decoder: Option<Decoder>, tables: &SlotTables) -> bool {
        let last = usize::from(self.plan.division != Division::One);
        self.code_lattice.clear();
        self.code_lattice.resize(self.anchor_count(), 0);
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

    /// Reads the codes of units of the finest level, after [`Self::decode_coarse`].
    pub fn decode_units(&mut self, units: Vec<(usize, Decoder)>, tables: &SlotTables) -> bool {
        units.into_iter().all(|(unit, mut decoder)| {
            for class in if self.levels.is_empty() { &[][..] } else { &PASSES } {
                let (range, decoder) = (self.range(unit, *class), &mut decoder);
                simd::run(DecodeRows {
                    block: self,
                    number: 0,
                    class: *class,
                    range,
                    unit: Some(unit),
                    tables,
                    decoder,
                });
            }
            decoder.is_finished()
        })
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
            if number > 0 {
                self.join(number);
            }
        }
        self.finish(out);
    }
}

/// Reads the codes of a class in a range of elements along z, y, and x.
struct DecodeRows<'a, 'd, 'w, T> {
    block: &'a mut Block<T>,
    number: usize,
    class: usize,
    range: [[usize; 2]; 3],
    unit: Option<usize>,
    tables: &'a SlotTables,
    decoder: &'d mut Decoder<'w>,
}

impl<T: Real> Kernel for DecodeRows<'_, '_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, isa: I) {
        let Self { block, number, class, range, unit, tables, decoder } = self;
        let level = block.levels[number];
        let [_, ny, nx] = level.class(class);
        let count = range.map(|[start, end]| end.saturating_sub(start));
        if count.contains(&0) {
            return;
        }
        let len = count.iter().product::<usize>();
        let padded = len.next_multiple_of(MOST_LANES);
        let mut of_run = std::mem::take(&mut block.of_run);
        let [mut sums, mut run_codes] = [&mut block.sums, &mut block.run_codes].map(std::mem::take);
        of_run.clear();
        of_run.resize(padded, NO_TABLE);
        sums.resize(nx.max(sums.len()), 0);
        run_codes.resize(padded.max(run_codes.len()), 0);
        let mut excluded = vec![0; if block.any_excluded { count[2] } else { 0 }];
        let of_kind = &tables.of_half_octaves[kind_of(number, class)];
        let part = unit.map_or_else(|| whole_row(nx), |unit| block.boxes.part(unit, nx));
        let rows = || (range[0][0]..range[0][1]).flat_map(|z| (range[1][0]..range[1][1]).map(move |y| (z, y)));
        for ((z, y), of_codes) in rows().zip(of_run.chunks_exact_mut(count[2])) {
            let known = (&block.code_lattice[..], &block.codes[number]);
            let out = (of_kind, &mut sums[..], &mut *of_codes);
            context_row(isa, known, (&level, number), class, [z, y], &part, out);
            if block.any_excluded {
                let excluded = &mut excluded[..of_codes.len()];
                take_row(&block.excluded[number], &level, class, [z, y], part.x[0], excluded);
                let all = of_codes.iter_mut().zip(&*excluded);
                all.filter(|(_, excluded)| **excluded != 0).for_each(|(table, _)| *table = NO_TABLE);
            }
        }
        decoder.run(isa, &of_run, tables, &mut run_codes[..padded]);
        for ((z, y), codes) in rows().zip(run_codes[..len].chunks_exact(count[2])) {
            let at = (z * ny + y) * nx + range[2][0];
            block.codes[number][class][at..][..codes.len()].copy_from_slice(codes);
        }
        (block.of_run, block.sums, block.run_codes) = (of_run, sums, run_codes);
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
        let mut before = block.take_before(ny * nx);
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
