//! Blocks against a direct reading of `docs/FORMAT.md`, which visits elements by their coordinates.

use proptest::prelude::*;

use super::block::{Block, UnitEvents};
use super::plan::{Division, Order, Plan};
use super::quantizer::Quantizer;
use crate::array::{ElementType, Shape};
use crate::bound::{Bound, Pipeline, Resolved};
use crate::container::Header;
use crate::contexts::lanes::{Decoder, Encoder, SlotTables};
use crate::contexts::table::Tables;
use crate::contexts::{BINS, Event, EventCounts, PackedWriter};
use crate::geometry::balanced_extent;
use crate::huffman::IndexKind;
use crate::quantize::Real;

fn header(bound: f64, step: f64) -> Header {
    let resolved = Resolved {
        pipeline: Pipeline::Quantized,
        bound: Bound::Abs(bound),
        abs_bound: bound,
        step,
        ..Resolved::lossless()
    };
    Header::new(ElementType::F32, Shape::new(&[1]).unwrap(), IndexKind::Symbol, &resolved)
}

/// A block whose elements are found by their coordinates, in the order of its axes.
struct Oracle {
    extent: [usize; 3],
    plan: Plan,
    values: Vec<f32>,
    /// Predictions without the share of the slice before.
    plain: Vec<f32>,
    codes: Vec<i32>,
}

impl Oracle {
    fn place(&self, at: [usize; 3]) -> usize {
        (at[0] * self.extent[1] + at[1]) * self.extent[2] + at[2]
    }

    fn is_halved(&self, axis: usize) -> bool {
        axis > 0 || self.plan.slices.is_none()
    }

    /// Returns the coordinates of all elements but anchors with their levels and classes, in the order of
    /// reconstruction.
    fn elements(&self) -> Vec<([usize; 3], u32, usize)> {
        let mut all = Vec::new();
        for number in 0..self.extent.iter().product::<usize>() {
            let at = [
                number / (self.extent[1] * self.extent[2]),
                number / self.extent[2] % self.extent[1],
                number % self.extent[2],
            ];
            let halved = (0..3).filter(|&axis| self.is_halved(axis));
            let Some(level) = halved.clone().map(|axis| at[axis].trailing_zeros()).min().filter(|&l| l < 60) else {
                continue;
            };
            let class: usize = halved.filter(|&axis| at[axis] >> level & 1 != 0).map(|axis| 1 << axis).sum();
            all.push((at, level, class));
        }
        let rank = |class: usize| [1, 2, 4, 3, 5, 6, 7].iter().position(|&c| c == class);
        all.sort_by_key(|&(at, level, class)| (std::cmp::Reverse(level), rank(class), at));
        all
    }

    /// Returns the element `steps` steps from `at` along an axis.
    fn neighbor(&self, at: [usize; 3], axis: usize, steps: isize) -> Option<usize> {
        let mut other = at;
        other[axis] = at[axis].checked_add_signed(steps).filter(|&there| there < self.extent[axis])?;
        Some(self.place(other))
    }

    fn plain_prediction(&self, at: [usize; 3], level: u32, class: usize) -> f32 {
        let mut sum = None;
        for axis in (0..3).filter(|axis| class >> axis & 1 != 0) {
            let step = 1isize << level;
            let [p, a, b, n] =
                [-3, -1, 1, 3].map(|steps| self.neighbor(at, axis, steps * step).map(|place| self.values[place]));
            let a = a.unwrap();
            let own = match (p, b, n, self.plan.cubic) {
                (Some(p), Some(b), Some(n), true) => (a + b).mul_add(0.5625, (p + n) * -0.0625),
                (Some(p), Some(b), None, true) => a.mul_add(0.75, b.mul_add(0.375, p * -0.125)),
                (None, Some(b), Some(n), true) => b.mul_add(0.75, a.mul_add(0.375, n * -0.125)),
                (_, Some(b), _, _) => (a + b) * 0.5,
                (Some(p), None, _, _) => a.mul_add(1.5, p * -0.5),
                (None, None, _, _) => a,
            };
            sum = Some(sum.map_or(own, |sum: f32| sum + own));
        }
        sum.unwrap() * [1.0, 0.5, (1.0f64 / 3.0) as f32][class.count_ones() as usize - 1]
    }

    fn prediction(&mut self, at: [usize; 3], level: u32, class: usize) -> f32 {
        let plain = self.plain_prediction(at, level, class);
        let place = self.place(at);
        self.plain[place] = plain;
        if self.plan.share == 0 {
            return plain;
        }
        let before = self.neighbor(at, 0, -1).map_or(0.0, |before| self.values[before] - self.plain[before]);
        (self.plan.rho() as f32).mul_add(before, plain)
    }

    /// Returns the box of the finest level that an element belongs to.
    fn unit(&self, at: [usize; 3]) -> [usize; 3] {
        let side = balanced_extent(self.extent.map(usize::next_power_of_two), 15);
        std::array::from_fn(|axis| match self.is_halved(axis) {
            true => at[axis] / 2 / side[axis].div_ceil(2),
            false => at[axis] / side[axis],
        })
    }

    fn context(&self, at: [usize; 3], level: u32, class: usize) -> usize {
        let boxed = level == 0 && self.plan.division == Division::Boxes;
        let magnitude = |place: usize| self.codes[place].abs().min(4095);
        let mut sum = 0;
        for axis in (0..3).filter(|axis| class >> axis & 1 != 0) {
            let step = 1isize << level;
            let a = self.neighbor(at, axis, -step).unwrap();
            let mut there = at;
            there[axis] += 1 << level;
            let b = self
                .neighbor(at, axis, step)
                .filter(|_| !boxed || class.count_ones() == 1 || self.unit(there) == self.unit(at));
            sum += magnitude(a) + magnitude(b.unwrap_or(a));
        }
        let stage = class.count_ones() as i32;
        let t = sum * 6 / stage;
        let w = 3 + 2 * t;
        let e = w.ilog2() as usize;
        let o = 2 * e + usize::from(2 * w >= 3 << e) - 3;
        let bin = if o <= 10 { o } else { 10 + (o - 10) * 2 / 3 };
        let kind = match level {
            0 => class.count_ones() as usize - 1,
            1 => 3,
            _ => 4,
        };
        kind * BINS + bin
    }
}

fn check(extent: [usize; 3], plan: Plan, noise: f32, masked: bool) -> Result<(), TestCaseError> {
    let mut random = 1u32;
    let mut next = || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        random >> 8
    };
    let len = extent.iter().product::<usize>();
    let value = |i: usize, random: u32| (i as f32 * 0.13).sin() * 3.0 + (random % 1000) as f32 * 1e-3 * noise;
    let x: Vec<f32> = (0..len).map(|i| if i % 97 == 3 { f32::NAN } else { value(i, next()) }).collect();
    let excluded: Vec<u8> = (0..len).map(|_| u8::from(masked && next() % 7 == 0)).collect();
    let quantizer = Quantizer::<f32>::new(&header(0.01, 0.02));
    let mut block = Block::default();
    block.begin(extent, plan);
    block.exclude(masked.then_some(&excluded));
    let mut counts = EventCounts::default();
    block.encode(&x, &quantizer, &mut counts);
    block.keep_units();
    let units: Vec<_> = block.kept_units().iter().map(UnitEvents::get).collect();

    let order = Order::new(extent, plan.slices);
    let own = order.of(extent);
    let mut arranged = Vec::new();
    order.arrange(extent, &excluded, &mut arranged);
    let (values, plain) = (vec![0.0; len], vec![0.0; len]);
    let mut oracle = Oracle { extent: own, plan, values, plain, codes: vec![0; len] };
    for (slice, &anchor) in block.anchors.iter().enumerate() {
        let place = oracle.place([slice, 0, 0]);
        oracle.values[place] = quantizer.linear.value(anchor);
    }
    let mut read = vec![0; units.len()];
    // The level and the class of the elements of each run of each unit, and where the run ends.
    let mut runs = vec![Vec::new(); units.len()];
    let boxes: Vec<[usize; 3]> = {
        let mut units: Vec<_> = oracle.elements().iter().map(|&(at, ..)| oracle.unit(at)).collect();
        units.push([0; 3]);
        let most: [usize; 3] = std::array::from_fn(|axis| units.iter().map(|unit| unit[axis]).max().unwrap());
        let all = (0..=most[0]).flat_map(|z| (0..=most[1]).flat_map(move |y| (0..=most[2]).map(move |x| [z, y, x])));
        all.collect()
    };
    for (at, level, class) in oracle.elements() {
        let place = oracle.place(at);
        let prediction = oracle.prediction(at, level, class);
        let unit = match plan.division {
            Division::One => 0,
            _ if level > 0 => 0,
            Division::Two => 1,
            Division::Boxes => 1 + boxes.iter().position(|&unit| unit == oracle.unit(at)).unwrap(),
        };
        let event = units[unit].0.events[read[unit]];
        read[unit] += 1;
        let run = (level, class);
        if runs[unit].last().is_none_or(|&(last, _)| last != run) {
            runs[unit].push((run, 0));
        }
        runs[unit].last_mut().unwrap().1 = read[unit] as u32;
        prop_assert_eq!(event == Event::NONE, arranged[place] != 0);
        if arranged[place] == 0 {
            prop_assert_eq!(usize::from(event.context()), oracle.context(at, level, class), "{:?}", at);
            oracle.codes[place] = event.code();
        }
        oracle.values[place] = quantizer.value(plan.on_grid, prediction, oracle.codes[place]);
    }
    for ((read, runs), (unit, _)) in read.iter().zip(&runs).zip(&units) {
        prop_assert_eq!(*read, unit.events.len());
        prop_assert!(runs.iter().map(|&(_, end)| end).eq(unit.ends.iter().copied()));
    }
    let mut expected = vec![0.0; len];
    order.restore(extent, &oracle.values, &mut expected);
    for (place, (x, y)) in x.iter().zip(&expected).enumerate() {
        let is_exact = excluded[place] != 0 || block.missed.contains(&(place as u32));
        prop_assert!(is_exact || (x - y).abs() < 0.01, "{place}: {x} {y}");
    }

    let tables = Tables::build(&counts.of_contexts(), &mut PackedWriter::default());
    let mut encoder = Encoder::new(&tables);
    let mut words = vec![Vec::new(); units.len()];
    for (&(unit, lanes), words) in units.iter().zip(&mut words) {
        encoder.encode(unit, lanes, words);
    }
    let tables = SlotTables::new(&tables);
    let mut back = Block::default();
    back.begin(extent, plan);
    back.exclude(masked.then_some(&excluded));
    back.anchors.clone_from(&block.anchors);
    let mut decoders = words.iter().map(|words| match words.is_empty() {
        true => None,
        false => Some(Decoder::new(words, back.lanes()).unwrap()),
    });
    let (coarse, fine) = (decoders.next().unwrap(), decoders.enumerate());
    let fine = fine.filter_map(|(unit, decoder)| Some((unit, decoder?))).collect();
    prop_assert!(back.decode_coarse(coarse, &tables));
    prop_assert!(back.decode_units(fine, &tables));
    let mut values = vec![0.0; len];
    back.reconstruct(&quantizer, &mut values);
    let bits = |values: &[f32]| values.iter().map(|value| value.bits()).collect::<Vec<_>>();
    prop_assert_eq!(bits(&values), bits(&expected));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn blocks_are_as_the_format_states(
        extent in prop_oneof![
            [1usize..9, 1usize..9, 1usize..70],
            [1usize..3, 1usize..40, 1usize..40],
            prop::sample::select(vec![[1, 1, 1], [1, 1, 3000], [34, 33, 35], [1, 140, 130], [3, 1, 9], [64, 2, 300]]),
        ],
        (slices, share) in prop_oneof![
            Just((None, 0)),
            (prop::sample::select(vec![Some(0), Some(1), Some(2)]), 0u8..3),
        ],
        division in prop::sample::select(vec![Division::One, Division::Two, Division::Boxes]),
        (cubic, on_grid, masked) in any::<(bool, bool, bool)>(),
        lanes_log2 in 0u8..6,
        noise in prop::sample::select(vec![0.0f32, 0.3, 100.0]),
    ) {
        check(extent, Plan { cubic, on_grid, slices, share, division, lanes_log2 }, noise, masked)?;
    }
}
