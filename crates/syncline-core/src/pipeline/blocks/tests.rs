//! Blocks against a direct reading of `docs/FORMAT.md`, which visits elements by their coordinates.

use proptest::prelude::*;

use super::anchors::{self, Anchor};
use super::block::Block;
use super::plan::{Division, Order, Plan};
use super::quantizer::Quantizer;
use super::units::Units;
use crate::array::{ElementType, Shape};
use crate::bound::{Bound, Pipeline, Resolved};
use crate::container::Header;
use crate::contexts::lanes::{Decoder, Encoder, Events, ListEnd, SlotTables};
use crate::contexts::table::Tables;
use crate::contexts::{EventCounts, MASKS, PackedReader, PackedWriter};
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

/// An element but no anchor: its coordinates, its level, and its class.
type Element = ([usize; 3], u32, usize);

/// What stands for mask `m` in the place of a code is its symbol, of which there are four in an octave of magnitudes.
fn mask(m: usize) -> i32 {
    (4 + m as i32 % 4) << (16 + m / 4)
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
    fn elements(&self) -> Vec<Element> {
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

    /// Returns the kind and the number in it of the context of an element.
    fn context(&self, (at, level, class): Element) -> (usize, usize) {
        let boxed = level == 0 && self.plan.division == Division::Boxes;
        let (mut sum, mut masks) = (0, 0);
        for axis in (0..3).filter(|axis| class >> axis & 1 != 0) {
            let step = 1isize << level;
            let a = self.neighbor(at, axis, -step).unwrap();
            let mut there = at;
            there[axis] += 1 << level;
            let b = self
                .neighbor(at, axis, step)
                .filter(|_| !boxed || class.count_ones() == 1 || self.unit(there) == self.unit(at));
            for code in [a, b.unwrap_or(a)].map(|place| self.codes[place]) {
                let is_mask = code >= mask(0);
                masks += usize::from(is_mask);
                sum += if is_mask { 0 } else { code.abs().min(4095) };
            }
        }
        let stage = class.count_ones() as usize;
        let kind = match level {
            0 => stage - 1,
            1 => 3,
            _ => 4,
        };
        if masks > 0 {
            return (kind, 20 + usize::from(masks >= stage) + usize::from(masks == 2 * stage));
        }
        let w = 3 + 2 * sum * 6 / stage as i32;
        let e = w.ilog2() as usize;
        let o = 2 * e + usize::from(2 * w >= 3 << e) - 3;
        (kind, if o <= 10 { o } else { 10 + (o - 10) / 2 })
    }
}

/// Returns the number that a code stands for.
fn number_of(code: i32) -> usize {
    (if code < 0 { -2 * code - 1 } else { 2 * code }) as usize
}

/// Events of a part that are read one list after the other.
struct Reader<'a> {
    part: Events<'a>,
    events: usize,
    lists: usize,
}

impl Reader<'_> {
    /// Returns the codes of the next list, which must be of this segment and have events with these contexts.
    fn list(&mut self, segment: u32, contexts: &[usize]) -> Result<Vec<i32>, TestCaseError> {
        if contexts.is_empty() {
            return Ok(Vec::new());
        }
        let ListEnd { segment: own, end } = self.part.ends[self.lists];
        let events = &self.part.events[self.events..end as usize];
        prop_assert_eq!(own, segment);
        prop_assert!(events.iter().map(|event| usize::from(event.context())).eq(contexts.iter().copied()));
        (self.events, self.lists) = (self.events + events.len(), self.lists + 1);
        Ok(events.iter().map(|event| event.code()).collect())
    }

    /// Reads the codes of a segment: how many quiet elements are not as expected, the gaps between them, and then the
    /// elements that are coded.
    fn segment(&mut self, number: u32, segment: &[Element], oracle: &mut Oracle) -> Result<(), TestCaseError> {
        let places: Vec<_> = segment.iter().map(|&(at, ..)| oracle.place(at)).collect();
        let contexts: Vec<_> = segment.iter().map(|&element| oracle.context(element)).collect();
        let kind = contexts[0].0;
        let expected = |k: usize| if contexts[k].1 == 0 { 0 } else { mask(0) };
        let quiet: Vec<_> = (0..segment.len()).filter(|&k| [0, 22].contains(&contexts[k].1)).collect();
        let mut coded: Vec<_> = contexts.iter().map(|&(kind, bin)| Some(23 * kind + bin)).collect();
        let (most, mut count) = (quiet.len() / 8, None);
        if quiet.len() >= 32 {
            let code = self.list(number, &[115 + kind])?[0];
            count = Some(number_of(code)).filter(|&count| count <= most);
            prop_assert!(count.is_some() || code == mask(0));
        }
        if let Some(count) = count {
            for &k in &quiet {
                (coded[k], oracle.codes[places[k]]) = (None, expected(k));
            }
            let context = quiet.len().checked_div(count).map_or(0, |mean| 122 + mean.ilog2() as usize);
            let mut next = 0;
            for gap in self.list(number, &vec![context; count])? {
                let k = quiet[next + number_of(gap)];
                coded[k] = Some(if contexts[k].1 == 0 { 120 + kind } else { 23 * kind + 22 });
                next += number_of(gap) + 1;
            }
        }
        let codes = self.list(number, &coded.iter().flatten().copied().collect::<Vec<_>>())?;
        for ((k, _), code) in (0..).zip(&coded).filter(|(_, coded)| coded.is_some()).zip(codes) {
            oracle.codes[places[k]] = code;
        }
        if quiet.len() >= 32 {
            let others = quiet.iter().filter(|&&k| oracle.codes[places[k]] != expected(k)).count();
            prop_assert!(count.map_or(others > most, |count| count == others));
        }
        Ok(())
    }
}

fn check(extent: [usize; 3], (plan, lanes_log2): (Plan, u8), noise: f32, masked: bool) -> Result<(), TestCaseError> {
    let mut random = 1u32;
    let mut next = || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        random >> 8
    };
    let len = extent.iter().product::<usize>();
    let value = |i: usize, random: u32| (i as f32 * 0.13).sin() * 3.0 + (random % 1000) as f32 * 1e-3 * noise;
    let x: Vec<f32> = (0..len).map(|i| if i % 97 == 3 { f32::NAN } else { value(i, next()) }).collect();
    // Regions of masks, and single ones.
    let number = |i: usize, random: u32| match (i / 150 % 3, random % 20) {
        (1, _) => 1,
        (_, 0) => 1 + random as usize / 20 % MASKS,
        _ => 0,
    };
    let masks: Vec<u8> = (0..len).map(|i| if masked { number(i, next()) as u8 } else { 0 }).collect();
    let quantizer = Quantizer::<f32>::new(&header(0.01, 0.02));
    let mut block = Block::default();
    block.begin(extent, plan);
    block.mask(masked.then_some(&masks));
    let mut counts = EventCounts::default();
    block.encode(&x, &quantizer, &mut counts);
    block.keep_parts();
    let parts = block.kept_blocks().next().unwrap();

    let order = Order::new(extent, plan.slices);
    let own = order.of(extent);
    let (values, plain) = (vec![0.0; len], vec![0.0; len]);
    let mut oracle = Oracle { extent: own, plan, values, plain, codes: vec![0; len] };
    for (slice, anchor) in block.anchors.iter().enumerate() {
        let place = oracle.place([slice, 0, 0]);
        oracle.values[place] = quantizer.linear.value(anchor.integer);
        oracle.codes[place] = anchor.mask.map_or(0, |m| mask(m.into()));
    }
    let boxes: Vec<[usize; 3]> = {
        let mut units: Vec<_> = oracle.elements().iter().map(|&(at, ..)| oracle.unit(at)).collect();
        units.push([0; 3]);
        let most: [usize; 3] = std::array::from_fn(|axis| units.iter().map(|unit| unit[axis]).max().unwrap());
        let all = (0..=most[0]).flat_map(|z| (0..=most[1]).flat_map(move |y| (0..=most[2]).map(move |x| [z, y, x])));
        all.collect()
    };
    prop_assert_eq!(parts.len(), if plan.division == Division::Boxes { 1 + boxes.len() } else { 1 });
    let mut readers: Vec<_> =
        parts.iter().map(|part| Reader { part: part.of_unit([0, 1]), events: 0, lists: 0 }).collect();
    let part_of = |oracle: &Oracle, (at, level, _): Element| match plan.division {
        Division::Boxes if level == 0 => 1 + boxes.iter().position(|&own| own == oracle.unit(at)).unwrap(),
        _ => 0,
    };
    for class in oracle.elements().chunk_by(|a, b| (a.1, a.2) == (b.1, b.2)) {
        for (number, reader) in readers.iter_mut().enumerate() {
            let is_own = |element: &&Element| part_of(&oracle, **element) == number;
            let own: Vec<_> = class.iter().filter(is_own).copied().collect();
            for (number, segment) in (0..).zip(own.chunks(1024)) {
                reader.segment(number, segment, &mut oracle)?;
            }
        }
        for &(at, level, class) in class {
            let (place, prediction) = (oracle.place(at), oracle.prediction(at, level, class));
            let code = if oracle.codes[place] < mask(0) { oracle.codes[place] } else { 0 };
            oracle.values[place] = quantizer.value(plan.on_grid, prediction, code);
        }
    }
    for reader in readers {
        prop_assert_eq!((reader.events, reader.lists), (reader.part.events.len(), reader.part.ends.len()));
    }
    let mut expected = vec![0.0; len];
    order.restore(extent, &oracle.values, &mut expected);
    let mut codes = vec![0; len];
    order.restore(extent, &oracle.codes, &mut codes);
    let patterns: [u64; MASKS] = std::array::from_fn(|number| 0x4000_0000 + number as u64);
    for (place, (x, y)) in x.iter().zip(&mut expected).enumerate() {
        let own = masks[place].checked_sub(1).map(usize::from);
        prop_assert!(own.map_or(codes[place] < mask(0), |m| codes[place] == mask(m)), "{place}");
        let is_exact = own.is_some() || block.missed.contains(&(place as u32));
        prop_assert!(is_exact || (*x - *y).abs() < 0.01, "{place}: {x} {y}");
        *y = own.map_or(*y, |m| f32::from_bits(patterns[m] as u32));
    }

    let (tables, _) = Tables::build(&counts.of_contexts(), &mut PackedWriter::default());
    let mut encoder = Encoder::new(&tables);
    // The states of the units of each part.
    let lanes = 1usize << lanes_log2;
    let mut lanes_of: Vec<(usize, [usize; 2], usize)> =
        (0..(lanes / 32).max(1)).map(|unit| (0, [unit, (lanes / 32).max(1)], lanes.min(32))).collect();
    lanes_of.extend((1..parts.len()).map(|part| (part, [0, 1], (lanes / 4).clamp(1, 32))));
    let units = Units::new(lanes_log2, parts.len());
    prop_assert_eq!(units.count(), lanes_of.len());
    let mut words = Vec::new();
    for (number, &(part, unit, lanes)) in lanes_of.iter().enumerate() {
        prop_assert_eq!((units.place(number), units.lanes(number)), ([part, unit[0]], lanes));
        let mut of_unit = Vec::new();
        encoder.encode(parts[part].of_unit(unit), lanes, &mut of_unit);
        words.push((of_unit, lanes));
    }
    let tables = SlotTables::new(&tables);
    let mut back = Block::default();
    back.begin(extent, plan);
    let mut anchors = PackedWriter::default();
    anchors::write(&block.anchors, &mut 7, &mut anchors);
    let anchors = anchors.finish();
    let mut reader = PackedReader::new(&anchors);
    prop_assert!(anchors::read(&mut reader, back.anchor_count(), &mut 7, &mut back.anchors).is_some());
    prop_assert!(reader.is_finished() && back.anchors == block.anchors);
    let decoders = words.iter().map(|(words, lanes)| match words.is_empty() {
        true => None,
        false => Some(Decoder::new(words, *lanes).unwrap()),
    });
    let mut coarse: Vec<_> = decoders.collect();
    let fine = coarse.split_off(units.of_part(0)).into_iter().enumerate().collect();
    prop_assert!(back.decode_coarse(coarse, &tables, &quantizer));
    prop_assert!(back.decode_boxes(fine, &tables));
    let mut values = vec![0.0; len];
    back.reconstruct(&quantizer, &mut values);
    // A mask that no pattern belongs to is damage.
    let used = masks.iter().copied().max().unwrap_or(0).into();
    if used > 0 {
        prop_assert!(back.restore_masked(&patterns[..used - 1], &mut values.clone()).is_none());
    }
    prop_assert!(back.restore_masked(&patterns[..used], &mut values).is_some());
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
        division in prop::sample::select(vec![Division::One, Division::Boxes]),
        (cubic, on_grid, masked) in any::<(bool, bool, bool)>(),
        lanes_log2 in 0u8..9,
        noise in prop::sample::select(vec![0.0f32, 0.012, 0.3, 100.0]),
    ) {
        check(extent, (Plan { cubic, on_grid, slices, share, division }, lanes_log2), noise, masked)?;
    }
}

#[test]
fn parts_of_several_units_are_as_the_format_states() {
    for (extent, lanes_log2) in [([40, 41, 42], 8), ([1, 260, 600], 8), ([1, 260, 600], 6)] {
        for (division, masked) in [(Division::One, false), (Division::Boxes, true)] {
            let plan = Plan { cubic: true, division, ..Plan::default() };
            check(extent, (plan, lanes_log2), 0.012, masked).unwrap();
        }
    }
}

#[test]
fn anchors_of_masks_that_no_stream_has_are_damage() {
    for number in 0..8 {
        let mut writer = PackedWriter::default();
        writer.put(1, 1);
        writer.put(number, 3);
        let (bytes, mut first, mut anchors) = (writer.finish(), 3, Vec::new());
        let read = anchors::read(&mut PackedReader::new(&bytes), 1, &mut first, &mut anchors);
        assert_eq!(read.is_some(), (number as usize) < MASKS);
        let expected = Anchor { integer: 0, mask: Some(number as u8) };
        assert!(read.is_none() || (first, anchors) == (3, vec![expected]));
    }
}
