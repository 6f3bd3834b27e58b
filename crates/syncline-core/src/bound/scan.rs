//! Scans every value before compression for the range, special values, and a fill value that marks missing data.
//!
//! A scan may be made in parts, in any order and of any size; the result is the same.

mod block;
mod convert;
mod settle;
mod statistics;

use std::convert::Infallible;

pub use block::BlockStats;
use block::{Bytes, Key, Whole};
use convert::{bits_of, stored_bits};

use super::lattice::{MOST_VALUES, spacing};
use super::limits::{Limits, quantizable_magnitude};
use super::linear::{computed_bound, linear_bound};
use super::{Bound, Fill, MAX_FILLS};
use crate::array::ElementType;
use crate::bits::intervals::place_in_interval;

/// The approximate number of values that are sampled. They show whether an extreme repeats, and how many values are too
/// large for the bound to be quantized.
const SAMPLES: u64 = 1 << 16;

/// The most fill values that are detected, which leaves a pattern for NaN.
const MAX_DETECTED: usize = 3;

/// Values commonly used for missing data; they need a smaller gap to be taken for fill. 9.96921e36 is netCDF's default,
/// 1e20 CMIP's, -1e34 Ferret's, 1e35 IDL's, -32768 and -32767 those of packed 16-bit data.
pub const WELL_KNOWN_FILLS: [f64; 26] = [
    -9999.0,
    -999.0,
    -99999.0,
    -99.0,
    9999.0,
    99999.0,
    999999.0,
    -999999.0,
    -9999.9,
    -999.9,
    -999.25,
    -32768.0,
    -32767.0,
    32767.0,
    -2147483648.0,
    1e10,
    -1e10,
    1e15,
    1e20,
    -1e20,
    1e30,
    -1e30,
    1e34,
    -1e34,
    1e35,
    9.969_209_968_386_869e36,
];

/// Results for the elements that have been scanned so far.
///
/// Elements are looked at as the values that are computed with, which are f32 or f64, and integers of 64 bits as `i64`
/// in the same order. Bits in a scan are those of these values.
#[derive(Clone, Debug)]
pub struct Scan {
    element: ElementType,
    len: u64,
    bound: Bound,
    fill: Fill,
    /// Bits of the values that are left out, all different.
    excluded: Vec<u64>,
    stats: BlockStats,
    first_nan: Option<(u64, u64)>,
    samples: Vec<i64>,
    /// Whether one element alone is known to be the lowest, and the highest.
    single: [bool; 2],
    /// What the samples tell, if they were looked at elsewhere.
    samples_elsewhere: Option<Samples>,
    /// Number of samples, and how many of them are too large to be quantized.
    sampled: u64,
    sampled_too_large: u64,
    /// Some elements: their places in the list of [`Scan::value_element`], and their bits.
    values: Vec<(u64, u64)>,
}

/// The results for a part of an array, computed by another implementation. Results of several parts can be merged in
/// any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanResult {
    /// Counts and extremes.
    pub stats: BlockStats,
    /// The index in the array and the bits of the first NaN that is not excluded.
    pub first_nan: Option<(u64, u64)>,
    /// Whether one element alone is known to be the lowest of `stats`, and the highest. `false` where this is not
    /// known, which can cost another scan.
    pub single: [bool; 2],
    /// The samples among these elements. The extremes are in `stats`.
    pub samples: Samples,
}

impl ScanResult {
    /// Combines the results of two parts of an array.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        let stats = self.stats.merge(other.stats);
        let (low, high) = (stats.lowest, stats.highest);
        // A part whose extreme is not the array's has no sample there, and its furthest sample is one that follows.
        let lower = |part: &Self| match (part.samples, part.stats.lowest) {
            (samples, lowest) if lowest == low => (samples.at_lowest, samples.least_above),
            (samples, lowest) if samples.at_lowest > 0 => (0, Some(lowest)),
            (samples, _) => (0, samples.least_above),
        };
        let upper = |part: &Self| match (part.samples, part.stats.highest) {
            (samples, highest) if highest == high => (samples.at_highest, samples.greatest_below),
            (samples, highest) if samples.at_highest > 0 => (0, Some(highest)),
            (samples, _) => (0, samples.greatest_below),
        };
        let single_at = |end: usize, extreme: i64, of: fn(&BlockStats) -> i64| match (&self, &other) {
            (a, b) if of(&a.stats) == of(&b.stats) => false,
            (a, _) if of(&a.stats) == extreme => a.single[end],
            (_, b) => b.single[end],
        };
        let single = [single_at(0, low, |stats| stats.lowest), single_at(1, high, |stats| stats.highest)];
        let (lowers, uppers) = ([lower(&self), lower(&other)], [upper(&self), upper(&other)]);
        let samples = Samples {
            count: self.samples.count + other.samples.count,
            at_lowest: lowers.iter().map(|at| at.0).sum(),
            at_highest: uppers.iter().map(|at| at.0).sum(),
            least_above: lowers.iter().filter_map(|at| at.1).min(),
            greatest_below: uppers.iter().filter_map(|at| at.1).max(),
            too_large: self.samples.too_large + other.samples.too_large,
        };
        Self { stats, first_nan: earlier(self.first_nan, other.first_nan), single, samples }
    }
}

/// Summary of the sampled finite values, as keys: the values that determine whether an extreme of the array may be
/// fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Samples {
    /// Samples.
    pub count: u64,
    /// Samples that are the lowest value of the array.
    pub at_lowest: u64,
    /// Samples that are the highest.
    pub at_highest: u64,
    /// The smallest sample above the lowest.
    pub least_above: Option<i64>,
    /// The largest sample below the highest.
    pub greatest_below: Option<i64>,
    /// Samples whose magnitude is at least [`Scan::magnitude_limit`].
    pub too_large: u64,
}

impl Samples {
    fn of(keys: &[i64], too_large: u64, low: i64, high: i64) -> Self {
        let count = |test: &dyn Fn(i64) -> bool| keys.iter().filter(|&&key| test(key)).count() as u64;
        Self {
            count: keys.len() as u64,
            at_lowest: count(&|key| key <= low),
            at_highest: count(&|key| key >= high),
            least_above: keys.iter().copied().filter(|&key| key > low).min(),
            greatest_below: keys.iter().copied().filter(|&key| key < high).max(),
            too_large,
        }
    }
}

impl Scan {
    /// Returns an empty scan of an array of `len` elements, for compression with this bound.
    pub fn new(element: ElementType, len: u64, bound: Bound, fill: Fill) -> Self {
        let mut excluded: Vec<u64> = Vec::new();
        for bits in fill.signed().filter_map(|value| bits_of(element, value)) {
            if !excluded.contains(&bits) {
                excluded.push(bits);
            }
        }
        Self {
            element,
            len,
            bound,
            fill,
            excluded,
            stats: BlockStats::default(),
            first_nan: None,
            samples: Vec::new(),
            single: [false; 2],
            samples_elsewhere: None,
            sampled: 0,
            sampled_too_large: 0,
            values: Vec::new(),
        }
    }

    /// Scans a whole array in memory, given as little-endian bytes, as often as its fill values require.
    ///
    /// # Panics
    /// `bytes` is not a whole number of elements.
    pub fn of(element: ElementType, bytes: &[u8], bound: Bound, fill: Fill) -> Self {
        let pass = |mut empty: Self| {
            empty.add(0, bytes);
            empty
        };
        let first = pass(Self::new(element, (bytes.len() / element.size()) as u64, bound, fill));
        let Ok(scan) = first.settle(|empty| Ok::<_, Infallible>(pass(empty)));
        scan
    }

    /// Adds the elements from number `first` of the array on, as little-endian bytes.
    ///
    /// # Panics
    /// `bytes` is not a whole number of elements.
    pub fn add(&mut self, first: u64, bytes: &[u8]) {
        match (self.element, self.element.computed()) {
            (ElementType::F32, _) => self.add_words::<i32, _>(first, as_words::<4>(bytes)),
            (ElementType::F64, _) => self.add_words::<i64, _>(first, as_words::<8>(bytes)),
            (ElementType::I64, _) => self.add_words::<Whole, _>(first, as_words::<8>(bytes)),
            (ElementType::U64, _) => {
                let mut words = as_words::<8>(bytes).to_vec();
                words.iter_mut().for_each(|word| word[7] ^= 0x80);
                self.add_words::<Whole, _>(first, &words);
            }
            (_, ElementType::F32) => {
                self.add_converted(first, bytes, |scan, first, values: &[f32]| {
                    let words: Vec<[u8; 4]> = values.iter().map(|value| value.to_le_bytes()).collect();
                    scan.add_words::<i32, _>(first, &words);
                });
            }
            _ => self.add_converted(first, bytes, |scan, first, values: &[f64]| {
                let words: Vec<[u8; 8]> = values.iter().map(|value| value.to_le_bytes()).collect();
                scan.add_words::<i64, _>(first, &words);
            }),
        }
    }

    fn add_words<K: Key, W: Bytes<K>>(&mut self, first: u64, words: &[W]) {
        let mut patterns = [K::ZERO; MAX_FILLS];
        for (pattern, &bits) in patterns.iter_mut().zip(&self.excluded) {
            *pattern = K::from_bits(bits);
        }
        let excluded = &patterns[..self.excluded.len().min(MAX_FILLS)];
        for (i, block) in words.chunks(block::BLOCK).enumerate() {
            let found = W::block(block, excluded);
            if found.nans > 0 {
                let at = first + (i * block::BLOCK) as u64;
                let nan = block.iter().map(W::load).position(|w| w.is_nan() && !excluded.contains(&w));
                let nan = nan.map(|p| (at + p as u64, block[p].load().bits()));
                self.first_nan = earlier(self.first_nan, nan);
            }
            self.stats = self.stats.merge(found);
        }
        let places = first / self.value_stride()..;
        let numbers = places.map(|place| (place, self.value_element(place)));
        let end = first + words.len() as u64;
        let here = numbers.skip_while(|&(_, number)| number < first).take_while(|&(_, number)| number < end);
        let values: Vec<_> =
            here.map(|(place, number)| (place, words[(number - first) as usize].load().bits())).collect();
        self.values.extend(values);
        let (stride, limit) = (self.sample_stride(), K::from_bits(self.magnitude_limit()));
        let skip = usize::try_from((stride - first % stride) % stride).unwrap_or(usize::MAX);
        for word in words.iter().skip(skip).step_by(usize::try_from(stride).unwrap_or(usize::MAX)).map(W::load) {
            if word.is_finite() && !excluded.contains(&word) {
                self.sampled += 1;
                self.sampled_too_large += u64::from(word.magnitude() >= limit);
                if self.detects_fill() {
                    self.samples.push(word.key().widen());
                }
            }
        }
    }

    /// Returns the number of elements of which one is taken for [`Self::add_values`].
    pub fn value_stride(&self) -> u64 {
        self.len.div_ceil(MOST_VALUES).max(1)
    }

    /// Returns the number of the element at this place of the list of those that propose a lattice. Distances change,
    /// so that the list does not follow a pattern of the array.
    pub fn value_element(&self, place: u64) -> u64 {
        let stride = self.value_stride();
        place * stride + place_in_interval(place as u32, stride)
    }

    /// Adds the bits of elements of the list of [`Self::value_element`], from place `first` on.
    pub fn add_values(&mut self, first: u64, bits: impl IntoIterator<Item = u64>) {
        self.values.extend((first..).zip(bits));
    }

    /// Returns the number of which the values are whole multiples, if the bound is linear and there is one.
    fn lattice(&self) -> Option<f64> {
        let bound = computed_bound(self.element, linear_bound(self.element, self.bound, self.computed_range()?)?);
        spacing(&self.finite_values(), bound, Limits::of(self.element).rounding)
    }

    /// Returns those of [`Self::value_element`] that are finite and not excluded, as computed with.
    fn finite_values(&self) -> Vec<f64> {
        let mut values = self.values.clone();
        values.sort_unstable();
        let values = values.iter().map(|&(_, bits)| bits).filter(|bits| !self.excluded.contains(bits));
        let value = |bits: u64| match self.element.is_wide_integer() {
            true => (bits as i64).wrapping_sub(self.stats.lowest) as u64 as f64,
            false => self.value_of_bits(bits),
        };
        values.map(value).filter(|value| value.is_finite()).collect()
    }

    /// Returns how many values were sampled, and how many of them are too large for the bound. Of types of 16 bits,
    /// this is also known for bounds that depend on the range.
    fn samples_of_bound(&self) -> (u64, u64) {
        if !self.element.is_half() {
            return (self.sampled, self.sampled_too_large);
        }
        let bound = self.range().and_then(|range| linear_bound(self.element, self.bound, range));
        let limit = quantizable_magnitude(self.element, bound.unwrap_or(f64::INFINITY));
        let values = self.finite_values();
        (values.len() as u64, values.iter().filter(|value| value.abs() >= limit).count() as u64)
    }

    /// Combines the scans of two parts of an array.
    pub fn merge(mut self, other: Self) -> Self {
        self.stats = self.stats.merge(other.stats);
        self.first_nan = earlier(self.first_nan, other.first_nan);
        self.samples.extend(other.samples);
        self.single = [false; 2];
        self.sampled += other.sampled;
        self.sampled_too_large += other.sampled_too_large;
        self.values.extend(other.values);
        self
    }

    /// Returns the bits of the elements that the scan leaves out, at most four different ones.
    pub fn fill_bits(&self) -> Vec<u64> {
        self.excluded.iter().map(|&bits| stored_bits(self.element, bits)).collect()
    }

    /// Returns the bits, in the scan, of the values that it leaves out, at most four.
    pub fn excluded(&self) -> &[u64] {
        &self.excluded
    }

    /// Returns the distance between sampled elements in elements. An element is sampled if its index is a multiple of
    /// it and its value is finite and not excluded.
    pub fn sample_stride(&self) -> u64 {
        (self.len / SAMPLES) | 1
    }

    /// Returns the bits of the magnitude from which on values are too large to be quantized with the bound. Returns
    /// those of infinity if the bound depends on the range.
    pub fn magnitude_limit(&self) -> u64 {
        let limit = match self.bound {
            Bound::Abs(error) => quantizable_magnitude(self.element, error),
            _ => f64::INFINITY,
        };
        // Floating-point types have every bits.
        self.element.computed().bits_of_number(limit).unwrap_or(u64::MAX)
    }

    /// Returns whether the scan looks for a fill value among the extremes: detection is on, and none is excluded yet.
    fn detects_fill(&self) -> bool {
        self.fill == Fill::Auto && self.excluded.len() < MAX_DETECTED
    }

    /// Returns the smallest and the largest finite value that is not fill.
    pub fn range(&self) -> Option<(f64, f64)> {
        // Adding 0 makes -0 positive.
        self.stats.range().map(|(low, high)| (self.value(low) + 0.0, self.value(high) + 0.0))
    }

    /// Returns the range of the values that are computed with: of integers of 64 bits, without the smallest one.
    fn computed_range(&self) -> Option<(f64, f64)> {
        let (low, high) = self.stats.range()?;
        match self.element.is_wide_integer() {
            true => Some((0.0, high.wrapping_sub(low) as u64 as f64)),
            false => self.range(),
        }
    }

    /// Returns the number of elements that have been scanned.
    pub fn count(&self) -> u64 {
        self.stats.count
    }

    /// Returns the number of scanned elements that are finite and not fill.
    pub fn valid(&self) -> u64 {
        self.stats.count - self.stats.excluded.iter().sum::<u64>() - self.stats.nans - self.stats.infinities
    }

    /// Returns the number of scanned elements that are -0.0.
    pub fn minus_zeros(&self) -> u64 {
        self.stats.minus_zeros
    }

    fn bits(&self, key: i64) -> u64 {
        match self.element.computed() {
            _ if self.element.is_wide_integer() => key as u64,
            ElementType::F32 => Key::bits(Key::key(key as i32)),
            _ => Key::bits(key.key()),
        }
    }

    fn value_of_bits(&self, bits: u64) -> f64 {
        match self.element.is_wide_integer() {
            true => self.element.number_of_bits(stored_bits(self.element, bits)),
            false => self.element.computed().number_of_bits(bits),
        }
    }

    fn value(&self, key: i64) -> f64 {
        self.value_of_bits(self.bits(key))
    }
}

fn as_words<const N: usize>(bytes: &[u8]) -> &[[u8; N]] {
    let (words, rest) = bytes.as_chunks::<N>();
    assert!(rest.is_empty(), "{} bytes are no whole number of elements", bytes.len());
    words
}

fn earlier(a: Option<(u64, u64)>, b: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bound::ArrayStats;

    /// Returns the result that a device reports for a part of the array.
    fn found(empty: &Scan, first: u64, bytes: &[u8]) -> ScanResult {
        let mut scan = empty.clone();
        scan.add(first, bytes);
        let mut samples = Samples::of(&scan.samples, scan.sampled_too_large, scan.stats.lowest, scan.stats.highest);
        // A device counts the samples even where it does not look for fill.
        samples.count = scan.sampled;
        let bits = bytes.as_chunks::<4>().0.iter().map(|word| u64::from(u32::from_le_bytes(*word)));
        let single = [scan.stats.lowest, scan.stats.highest].map(|key| {
            scan.stats.range().is_some() && bits.clone().filter(|&bits| bits == scan.bits(key)).count() == 1
        });
        ScanResult { stats: scan.stats, first_nan: scan.first_nan, single, samples }
    }

    fn value() -> impl Strategy<Value = f32> {
        prop_oneof![
            8 => -1.0f32..1.0,
            4 => Just(-9999.0f32),
            2 => Just(1e20f32),
            1 => Just(-32768.0f32),
            1 => Just(-32767.0f32),
            1 => any::<u32>().prop_map(f32::from_bits),
            1 => Just(f32::from_bits(0x7FC0_0001)),
        ]
    }

    proptest! {
        #[test]
        fn parts_looked_at_elsewhere_add_up(
            values in prop::collection::vec(value(), 1..300),
            // In arrays longer than the sample, elements at regular distances are sampled.
            length in prop_oneof![Just(0u64), Just(5 << 16)],
            cuts in prop::collection::vec(0usize..300, 0..4),
            fill in prop_oneof![Just(Fill::Auto), Just(Fill::None),
                Just(Fill::Value(f64::from(f32::from_bits(0x7FC0_0001)))),
                Just(Fill::of(&[-9999.0, 1e20, f64::NAN]).unwrap())],
            error in prop::sample::select(vec![1e-7, 1e-3, 1e20]),
        ) {
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            let empty = Scan::new(ElementType::F32, length.max(values.len() as u64), Bound::Abs(error), fill);
            let cuts = cuts.into_iter().map(|cut| cut.min(values.len()));
            let mut cuts: Vec<usize> = cuts.chain([0, values.len()]).collect();
            cuts.sort_unstable();
            let look = |empty: &Scan| {
                let parts = cuts.windows(2).map(|cut| found(empty, cut[0] as u64, &bytes[4 * cut[0]..4 * cut[1]]));
                parts.reduce(ScanResult::merge).unwrap()
            };
            prop_assert_eq!(look(&empty), found(&empty, 0, &bytes));

            let pass = |mut empty: Scan| {
                empty.add(0, &bytes);
                empty
            };
            let whole = pass(empty.clone()).settle(|empty| Ok::<_, ()>(pass(empty))).unwrap();
            let mut elsewhere = empty.clone();
            let numbers = (0..).map(|place| empty.value_element(place) as usize).take_while(|&i| i < values.len());
            elsewhere.add_values(0, numbers.map(|i| u64::from(values[i].to_bits())));
            let settled = elsewhere.settle_result(&look(&empty), |again| Ok::<_, ()>(look(again))).unwrap();
            prop_assert_eq!(settled.stats, whole.stats);
            prop_assert_eq!(&settled.excluded, &whole.excluded);
            prop_assert_eq!(ArrayStats::from(&settled), ArrayStats::from(&whole));
        }
    }

    #[test]
    fn a_single_extreme_needs_no_second_scan() {
        for (extreme, looks) in [(1e6f32, 0), (1e20, 1)] {
            let values: Vec<f32> = (0..500).map(|i| if i == 77 { extreme } else { (i % 100) as f32 }).collect();
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            // 1e6 is not among the samples.
            let empty = Scan::new(ElementType::F32, 5 << 16, Bound::Rel(1e-3), Fill::Auto);
            let first = found(&empty, 0, &bytes);
            for (single, looks) in [(first.single, looks), ([false; 2], 1)] {
                let mut looked = 0;
                let settled = empty.clone().settle_result(&ScanResult { single, ..first }, |again| {
                    looked += 1;
                    Ok::<_, ()>(found(again, 0, &bytes))
                });
                assert_eq!((settled.unwrap().range(), looked), (Some((0.0, f64::from(extreme))), looks), "{extreme}");
            }
        }
    }

    #[test]
    fn a_nan_that_is_the_fill_value_is_not_the_first_nan() {
        let words = [1.0f32.to_bits(), 0x7FC0_0001, 0x7FC0_0002, 2.0f32.to_bits()];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        // As an f64, the payload is shifted left by 29 bits.
        let mut scan =
            Scan::new(ElementType::F32, 4, Bound::Abs(1.0), Fill::Value(f64::from_bits(0x7FF8_0000_2000_0000)));
        scan.add(0, &bytes);
        let bits: Vec<u64> = ArrayStats::from(&scan).patterns(false).iter().map(|pattern| pattern.bits).collect();
        assert_eq!(bits, [0x7FC0_0002, 0x7FC0_0001]);
    }
}
