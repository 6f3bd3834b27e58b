//! The codes of a block back to elements.

use super::Block;
use crate::contexts::lanes::{Decoder, MOST_LANES, NO_TABLE, SlotTables};
use crate::contexts::segments::read;
use crate::contexts::{CONTEXT_ROOM, context_row, kind_of, mask_of_code};
use crate::pipeline::blocks::plan::Division;
use crate::pipeline::blocks::quantizer::Quantizer;
use crate::pipeline::blocks::units::whole_row;
use crate::predict::levels::{PASSES, predict_row};
use crate::quantize::Real;
use crate::simd::{self, InstructionSet, Kernel};

impl<T: Real> Block<T> {
    /// Reads the codes of the first part, after the anchors: those of all levels but the finest, and of that as well if
    /// the block has no other part.
    ///
    /// All events of a unit without words have symbol 0.
    pub fn decode_coarse(
        &mut self,
        mut units: Vec<Option<Decoder>>,
        tables: &SlotTables,
        quantizer: &Quantizer<T>,
    ) -> bool {
        let last = usize::from(self.plan.division != Division::One);
        self.begin_lattices(quantizer);
        self.any_masks = self.anchors.iter().any(|anchor| anchor.mask.is_some());
        for number in (last..self.levels.len()).rev() {
            for class in PASSES {
                self.clear_codes(number, class);
                let range = self.levels[number].class(class).map(|extent| [0, extent]);
                let units = &mut units[..];
                simd::run(DecodeRows { block: self, number, class, range, number_of_box: None, tables, units });
            }
            if number > 0 {
                self.join_codes_of_level(number);
            }
        }
        if last == 1 && !self.levels.is_empty() {
            PASSES.iter().for_each(|&class| self.clear_codes(0, class));
        }
        units.into_iter().flatten().all(|decoder| decoder.is_finished())
    }

    fn clear_codes(&mut self, number: usize, class: usize) {
        let len = self.levels[number].class_len(class);
        let codes = &mut self.codes[number][class];
        codes.clear();
        codes.resize(len, 0);
    }

    /// Reads the codes of boxes of the finest level, after [`Self::decode_coarse`].
    pub fn decode_boxes(&mut self, boxes: Vec<(usize, Option<Decoder>)>, tables: &SlotTables) -> bool {
        boxes.into_iter().all(|(number_of_box, mut decoder)| {
            for class in if self.levels.is_empty() { &[][..] } else { &PASSES } {
                let range = self.range(number_of_box, *class);
                simd::run(DecodeRows {
                    block: self,
                    number: 0,
                    class: *class,
                    range,
                    number_of_box: Some(number_of_box),
                    tables,
                    units: std::slice::from_mut(&mut decoder),
                });
            }
            decoder.is_none_or(|decoder| decoder.is_finished())
        })
    }

    /// Reconstructs the elements of a block from its anchors and codes, in raster order.
    pub fn reconstruct(&mut self, quantizer: &Quantizer<T>, out: &mut [T]) {
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
    number_of_box: Option<usize>,
    tables: &'a SlotTables,
    units: &'d mut [Option<Decoder<'w>>],
}

impl<T: Real> Kernel for DecodeRows<'_, '_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, isa: I) {
        let Self { block, number, class, range, number_of_box, tables, units } = self;
        let level = block.levels[number];
        let [_, ny, nx] = level.class(class);
        let count = range.map(|[start, end]| end.saturating_sub(start));
        if count.contains(&0) {
            return;
        }
        // Codes are 0 already.
        if units.iter().all(Option::is_none) && !block.any_masks {
            return;
        }
        let len = count.iter().product::<usize>();
        let padded = len.next_multiple_of(MOST_LANES);
        let mut of_codes = std::mem::take(&mut block.of_codes);
        let [mut sums, mut codes] = [&mut block.sums, &mut block.unit_codes].map(std::mem::take);
        of_codes.resize((padded + CONTEXT_ROOM).max(of_codes.len()), NO_TABLE);
        sums.resize((nx + CONTEXT_ROOM).max(sums.len()), 0);
        codes.resize(padded.max(codes.len()), 0);
        let contexts = tables.of_kind(kind_of(number, class));
        let part = number_of_box.map_or_else(|| whole_row(nx), |number| block.boxes.part(number, nx));
        let rows = || (range[0][0]..range[0][1]).flat_map(|z| (range[1][0]..range[1][1]).map(move |y| (z, y)));
        for ((z, y), start) in rows().zip((0..len).step_by(count[2])) {
            let known = (&block.code_lattice[..], &block.codes[number]);
            let (contexts, out) = ((&contexts, block.any_masks), (&mut sums[..], &mut of_codes[start..]));
            context_row(isa, known, (&level, number, class), [z, y], &part, contexts, out);
        }
        of_codes[len..padded].fill(NO_TABLE);
        read(isa, units, (tables, &contexts), &of_codes[..padded], &mut codes[..padded]);
        if tables.any_masks && !block.any_masks {
            let largest = codes[..len].iter().fold(0, |largest, &code| code.max(largest));
            block.any_masks = mask_of_code(largest).is_some();
        }
        for ((z, y), codes) in rows().zip(codes[..len].chunks_exact(count[2])) {
            let at = (z * ny + y) * nx + range[2][0];
            block.codes[number][class][at..][..codes.len()].copy_from_slice(codes);
        }
        (block.of_codes, block.sums, block.unit_codes) = (of_codes, sums, codes);
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
