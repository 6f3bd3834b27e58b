//! What the encoder chooses for a chunk, by samples of it (`docs/ENCODER.md`, "Numbers").

use super::Plan;
use super::tile::{TakenTile, predict_tile, take_numbers};
use crate::array::ElementType;
use crate::bits::intervals::place_in_interval;
use crate::bits::logarithm::{LOG_BITS, times_log2};
use crate::geometry::{MAX_TILE_ELEMENTS, Tile};
use crate::numbers::cells::{Cells, Estimate, MAX_CELLS, Range, equal_cell};
use crate::numbers::find::candidates;
use crate::numbers::number::Number;
use crate::predict::orders::predictors;
use crate::predict::word::Word;
use crate::quantize::mask::MaskKind;

/// Elements of the tiles of a chunk that predictions are compared on.
const SAMPLED_OF_TILES: usize = 1 << 12;
/// Elements of a chunk that numbers are looked for among.
pub const SAMPLED_ELEMENTS: usize = 1024;
/// A value that this share of the sample holds may be masked.
const LEAST_PATTERN_SHARE: usize = 128;
/// Bits of the position of a verbatim value.
const POSITION_BITS: u64 = 32;

/// Memory for choosing.
#[derive(Debug)]
pub(super) struct Sample<W> {
    numbers: Vec<W>,
    taken: Vec<TakenTile>,
    /// Bits besides those of codes and bases, in units of 2^-16.
    besides: u64,
    codes: Vec<W>,
    other: Vec<W>,
    mask_bytes: Vec<u8>,
    rests: Vec<u16>,
    estimate: Estimate,
}

impl<W: Word> Default for Sample<W> {
    fn default() -> Self {
        Self {
            numbers: Vec::new(),
            taken: Vec::new(),
            besides: 0,
            codes: Vec::new(),
            other: vec![W::ZERO; MAX_TILE_ELEMENTS],
            mask_bytes: Vec::new(),
            rests: Vec::new(),
            estimate: Estimate::default(),
        }
    }
}

/// A tile of the sample: its extent and its elements.
pub(super) type SampledTile<'a, W> = ([usize; 3], &'a [W]);

/// Chooses the plan of a chunk with these sampled elements and tiles, but for the bins of a symbol.
pub(super) fn choose<W: Word>(
    element: ElementType,
    axes: usize,
    (elements, tiles): (&[W], &[SampledTile<'_, W>]),
    memory: &mut Sample<W>,
) -> Plan {
    let pattern = likely_pattern(element, elements);
    let sampled: Vec<W> = elements.iter().copied().filter(|word| Some(word.widen()) != pattern).collect();
    let widest = (1 << axes) - 1;
    let plain = Plan { number: Number::Ordered, pattern: None, predictor: widest, center: 0, tuple: 1 };
    let (mut best, mut least) = (plain, u64::MAX);
    for number in std::iter::once(Number::Ordered).chain(candidates(element, &sampled)) {
        for pattern in std::iter::once(None).chain(pattern.map(Some)) {
            let plan = Plan { number, pattern, ..plain };
            memory.take(&plan, element, tiles);
            let bits = memory.bits(&plan, tiles);
            if bits < least {
                (least, best) = (bits, plan);
            }
        }
    }
    memory.take(&best, element, tiles);
    for predictor in predictors(axes).filter(|&predictor| predictor != widest) {
        let plan = Plan { predictor, ..best };
        let bits = memory.bits(&plan, tiles);
        if bits < least {
            (least, best) = (bits, plan);
        }
    }
    let center = memory.commonest(&best, tiles);
    Plan { center, ..best }
}

/// Returns elements that are spread evenly.
pub(super) fn sampled_elements<W: Word>(elements: &[W]) -> Vec<W> {
    let len = elements.len().div_ceil(SAMPLED_ELEMENTS).max(1);
    let intervals = elements.chunks(len).zip(0..);
    intervals.map(|(interval, number)| interval[place_in_interval(number, interval.len() as u64) as usize]).collect()
}

/// Returns the numbers of the sampled tiles of a chunk with so many tiles, of which the first has `first` elements:
/// tiles that are spread evenly.
pub(super) fn sampled_numbers(tiles: usize, first: usize) -> Vec<usize> {
    let len = (tiles * first).div_ceil(SAMPLED_OF_TILES).min(tiles).max(1);
    let intervals = (0..tiles).step_by(len).zip(0..);
    intervals.map(|(from, number)| from + place_in_interval(number, len.min(tiles - from) as u64) as usize).collect()
}

/// Returns the sampled tiles with their elements.
pub(super) fn sampled_tiles<'a, W: Word>(tiles: &[Tile], elements: &'a [W]) -> Vec<SampledTile<'a, W>> {
    let mut numbers = sampled_numbers(tiles.len(), tiles[0].len()).into_iter().peekable();
    let (mut next, mut sampled) = (0, Vec::new());
    for (number, tile) in tiles.iter().enumerate() {
        if numbers.next_if_eq(&number).is_some() {
            sampled.push((tile.extent, &elements[next..next + tile.len()]));
        }
        next += tile.len();
    }
    sampled
}

/// Returns the bits of NaN, or else of the smallest or the largest element, that many elements of a sample hold.
fn likely_pattern<W: Word>(element: ElementType, sample: &[W]) -> Option<u64> {
    let infinity = match element {
        ElementType::F32 => 0x7f80_0000,
        ElementType::F64 => 0x7ff0_0000_0000_0000,
        ElementType::F16 => 0x7c00,
        ElementType::Bf16 => 0x7f80,
        _ => u64::MAX,
    };
    let magnitude = |word: W| word.widen() & (u64::MAX >> (65 - W::BITS));
    let nan = sample.iter().copied().find(|&word| magnitude(word) > infinity);
    let by_value = |word: &W| if element.is_float() { crate::numbers::number::ordered(*word) } else { *word }.signed();
    let others = || sample.iter().copied().filter(|&word| magnitude(word) <= infinity);
    let ends = [others().max_by_key(by_value), others().min_by_key(by_value)];
    let shares = nan.into_iter().chain(ends.into_iter().flatten()).map(|pattern| {
        let count = sample.iter().filter(|&&word| word == pattern).count();
        (count, pattern.widen())
    });
    let (count, pattern) = shares.max_by_key(|&(count, _)| count)?;
    (count * LEAST_PATTERN_SHARE >= sample.len()).then_some(pattern)
}

impl<W: Word> Sample<W> {
    /// Computes the numbers of all sampled tiles as a plan has them, and what does not depend on its predictor.
    fn take(&mut self, plan: &Plan, element: ElementType, tiles: &[SampledTile<'_, W>]) {
        let Self { numbers, taken, mask_bytes, rests, .. } = self;
        let count = tiles.iter().map(|(_, elements)| elements.len()).sum();
        numbers.resize(count, W::ZERO);
        rests.clear();
        rests.resize(if plan.number.has_rest() { count } else { 0 }, 0);
        taken.clear();
        mask_bytes.clear();
        let (mut from, mut verbatim) = (0, 0);
        for &(extent, elements) in tiles {
            let rests = rests.get_mut(from..).unwrap_or_default();
            let numbers = &mut numbers[from..from + elements.len()];
            let tile = take_numbers(plan, element, elements, numbers, rests);
            verbatim += tile.verbatim.count() as u64;
            if MaskKind::of(&tile.masked, elements.len()) == MaskKind::Bitmap {
                tile.masked.to_bytes(extent, mask_bytes);
            }
            taken.push(tile);
            from += elements.len();
        }
        self.besides = (verbatim * (POSITION_BITS + u64::from(W::BITS))) << LOG_BITS;
        if plan.number.has_rest() {
            self.besides += rest_bits(&mut self.rests);
        }
        if !self.mask_bytes.is_empty() {
            let mut counts = [0u32; 256];
            self.mask_bytes.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
            self.besides += entropy(&counts);
        }
    }

    /// Returns the bits of the sampled tiles in units of 2^-16, of which [`Self::take`] has taken the numbers.
    fn bits(&mut self, plan: &Plan, tiles: &[SampledTile<'_, W>]) -> u64 {
        let bases = self.predict(plan, tiles);
        self.estimate.clear();
        self.estimate.add(&self.codes);
        let mut of_codes = self.estimate.bits();
        if !plan.has_bases() {
            of_codes = of_codes.min(equal_bits(&self.codes));
        }
        self.besides + (bases << LOG_BITS) + of_codes
    }

    /// Computes the codes of all sampled tiles. Returns the bits of bases.
    fn predict(&mut self, plan: &Plan, tiles: &[SampledTile<'_, W>]) -> u64 {
        let Self { numbers, taken, codes, other, .. } = self;
        codes.clear();
        let (mut bits, mut base) = (0, W::ZERO);
        let mut rest = &mut numbers[..];
        for (&(extent, elements), taken) in tiles.iter().zip(taken) {
            let from = codes.len();
            codes.resize(from + elements.len(), W::ZERO);
            let (numbers, others) = rest.split_at_mut(elements.len());
            rest = others;
            let (own, constant) = predict_tile(plan, extent, taken, (numbers, base), &mut codes[from..], other);
            if plan.has_bases() {
                bits += u64::from(64 - own.minus(base).zigzag().widen().leading_zeros());
            }
            base = own;
            if constant {
                codes.truncate(from);
            }
        }
        bits
    }

    /// Returns the code that most elements have if that is more than a quarter of them.
    fn commonest(&mut self, plan: &Plan, tiles: &[SampledTile<'_, W>]) -> i64 {
        self.predict(plan, tiles);
        let codes = &mut self.codes;
        if codes.is_empty() {
            return 0;
        }
        // In ascending order, more than a quarter of them in a row include one of these.
        let [first, half, last] = [1, 2, 3].map(|quarters| quarters * codes.len() / 4);
        let (low, &mut middle, high) = codes.select_nth_unstable(half);
        let first = if low.is_empty() { middle } else { *low.select_nth_unstable(first).1 };
        let last = if high.is_empty() { middle } else { *high.select_nth_unstable(last - half - 1).1 };
        let counted = [first, middle, last].map(|code| (codes.iter().filter(|&&other| other == code).count(), code));
        match counted.into_iter().max() {
            Some((count, code)) if count * 4 > codes.len() => code.signed(),
            _ => 0,
        }
    }
}

/// Returns the bits of symbols by entropy, in units of 2^-16.
fn entropy(counts: &[u32]) -> u64 {
    let total: u32 = counts.iter().sum();
    let coded: u64 = counts.iter().map(|&count| times_log2(count)).sum();
    times_log2(total).saturating_sub(coded)
}

/// Returns the bits of codes in cells of equal width, in units of 2^-16.
fn equal_bits<W: Word>(codes: &[W]) -> u64 {
    const CELLS_LOG2: u32 = 8;
    let Some(Cells::Equal { low, shift }) = Cells::equal(Range::of(codes)) else { return u64::MAX };
    let mut counts = [0; 1 << CELLS_LOG2];
    let coarser = MAX_CELLS.ilog2() - CELLS_LOG2;
    for code in codes {
        counts[equal_cell(code.signed(), low, shift) >> coarser] += 1;
    }
    entropy(&counts) + ((codes.len() as u64 * u64::from(shift + coarser)) << LOG_BITS)
}

/// Returns the bits of rests in units of 2^-16: by entropy, and for each that occurs what describing it takes, and by
/// how much the entropy of a sample is too small.
fn rest_bits(rests: &mut [u16]) -> u64 {
    rests.sort_unstable();
    let mut bits = times_log2(rests.len() as u32);
    let mut different = 0u64;
    for run in rests.chunk_by(|a, b| a == b) {
        bits -= times_log2(run.len() as u32).min(bits);
        different += 1;
    }
    bits + (different << LOG_BITS)
}
