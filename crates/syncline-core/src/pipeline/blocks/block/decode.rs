//! The codes of a block back to elements.

use super::Block;
use crate::contexts::rans::{Decoder, SlotTable};
use crate::contexts::{CONTEXTS, context_row};
use crate::pipeline::blocks::plan::Division;
use crate::pipeline::blocks::quantizer::Quantizer;
use crate::pipeline::blocks::units::whole_row;
use crate::predict::levels::{PASSES, predict_row};
use crate::quantize::Real;
use crate::simd::{self, InstructionSet, Kernel};

/// The tables of a chunk for the decoder, by context.
pub(in super::super) struct ContextTables {
    pub tables: Vec<SlotTable>,
    pub of_context: [u8; CONTEXTS],
}

impl<T: Real> Block<T> {
    /// Reads the codes of all levels but the finest, and of that as well if the block has one unit.
    ///
    /// A unit without words has codes of 0 only.
    pub fn decode_coarse(&mut self, mut decoder: Option<Decoder>, tables: &ContextTables) -> bool {
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
