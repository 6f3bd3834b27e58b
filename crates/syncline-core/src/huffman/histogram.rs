//! Counting symbols.
//!
//! Consecutive symbols are counted in different copies of the histogram. On skewed data, a single counter would be
//! incremented again before its previous store has completed. The copies are not whole pages apart, because the
//! processor compares only the low 12 bits of addresses at first: it would take a counter for the one in the other copy
//! and wait for its store.

use super::{MAX_CLASSES, Symbol};
use crate::simd::{self, InstructionSet, Kernel};

/// Alphabets up to this many symbols use the small counters.
pub const NARROW: usize = 1024;
const WIDE: usize = 1 << 16;
const PADDING: usize = 16;
const NARROW_COPIES: usize = 8;
const WIDE_COPIES: usize = 2;

/// Counters that are reused from stream to stream.
#[derive(Debug, Default)]
pub struct HistogramScratch {
    narrow: Vec<u32>,
    wide: Vec<u32>,
}

/// Which groups are coded, and the largest symbol there is.
#[derive(Debug, Default)]
pub struct Survey {
    /// For each group whether it has a symbol that is not the zero-bit one.
    pub are_coded: Vec<bool>,
    /// The largest symbol (0 if there is none).
    pub largest: u16,
}

impl Survey {
    /// Surveys groups of `group_len` symbols.
    pub fn fill<S: Symbol>(&mut self, symbols: &[S], group_len: usize, zero_bit: S) {
        self.are_coded.clear();
        self.largest = simd::run(SurveyKernel { symbols, group_len, zero_bit, are_coded: &mut self.are_coded });
    }
}

struct SurveyKernel<'a, S> {
    symbols: &'a [S],
    group_len: usize,
    zero_bit: S,
    are_coded: &'a mut Vec<bool>,
}

impl<S: Symbol> Kernel for SurveyKernel<'_, S> {
    type Output = u16;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> u16 {
        let zero_bit: u16 = self.zero_bit.into();
        let mut largest = 0;
        self.are_coded.extend(self.symbols.chunks_exact(self.group_len).map(|group| {
            let mut differences = 0u16;
            for &symbol in group {
                let symbol: u16 = symbol.into();
                differences |= symbol ^ zero_bit;
                largest = largest.max(symbol);
            }
            differences != 0
        }));
        largest
    }
}

/// Returns the most frequent symbol, the smallest of several, or 0 if there are no symbols.
pub fn commonest<S: Symbol>(symbols: &[S], scratch: &mut HistogramScratch) -> u16 {
    let largest = symbols.iter().max().map_or(0, |&s| s.into());
    let mut counts = [Vec::new()];
    count(symbols, symbols.len().max(1), |_| Some(0), largest, scratch, &mut counts);
    let best = counts[0].iter().enumerate().max_by_key(|&(symbol, &n)| (n, std::cmp::Reverse(symbol)));
    best.map_or(0, |(symbol, _)| symbol as u16)
}

/// Counts the symbols of each group into the histogram of its class (`None`: not counted). Every histogram gets
/// `largest + 1` entries.
pub fn count<S: Symbol>(
    symbols: &[S],
    group_len: usize,
    class_of: impl Fn(usize) -> Option<u8>,
    largest: u16,
    scratch: &mut HistogramScratch,
    histograms: &mut [Vec<u32>],
) {
    debug_assert!(histograms.len() <= MAX_CLASSES);
    let alphabet = largest as usize + 1;
    if alphabet <= NARROW {
        const ROOM: usize = NARROW + PADDING;
        let counters = &mut scratch.narrow;
        count_into::<_, NARROW, ROOM, NARROW_COPIES>(symbols, group_len, class_of, alphabet, counters, histograms);
    } else {
        const ROOM: usize = WIDE + PADDING;
        let counters = &mut scratch.wide;
        count_into::<_, WIDE, ROOM, WIDE_COPIES>(symbols, group_len, class_of, alphabet, counters, histograms);
    }
}

/// Counts symbols with histograms of `BINS` entries. `BINS` is a power of two above every symbol, so that masking a
/// symbol changes nothing but removes the bounds check.
fn count_into<S: Symbol, const BINS: usize, const ROOM: usize, const COPIES: usize>(
    symbols: &[S],
    group_len: usize,
    class_of: impl Fn(usize) -> Option<u8>,
    alphabet: usize,
    counters: &mut Vec<u32>,
    histograms: &mut [Vec<u32>],
) {
    // Flat, because resizing by whole copies would pass them on the stack, which is too small without optimization.
    counters.resize(counters.len().max(histograms.len() * COPIES * ROOM), 0);
    let counters = counters.as_chunks_mut::<ROOM>().0.as_chunks_mut::<COPIES>().0;
    for (g, group) in symbols.chunks(group_len).enumerate() {
        let Some(class) = class_of(g) else { continue };
        let copies = &mut counters[class as usize];
        let (rows, tail) = group.as_chunks::<COPIES>();
        for row in rows {
            for (&symbol, copy) in row.iter().zip(copies.iter_mut()) {
                copy[symbol.index() & (BINS - 1)] += 1;
            }
        }
        for symbol in tail {
            copies[0][symbol.index() & (BINS - 1)] += 1;
        }
    }
    // The sums leave the counters at zero for the next stream.
    for (histogram, copies) in histograms.iter_mut().zip(counters.iter_mut()) {
        histogram.clear();
        histogram.resize(alphabet, 0);
        for copy in copies.iter_mut() {
            for (sum, counter) in histogram.iter_mut().zip(copy.iter_mut()) {
                *sum += std::mem::take(counter);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_per_class_and_leaves_nothing_behind() {
        let mut scratch = HistogramScratch::default();
        for largest in [5u16, 1023, 1024, 65535] {
            let symbols: Vec<u16> =
                (0..128 * 9).map(|i| (i as u16).wrapping_mul(40503) % largest.max(1)).chain([largest; 128]).collect();
            let class = |g: usize| [Some(0), Some(1), None][g % 3];
            let mut histograms = [Vec::new(), Vec::new()];
            count(&symbols, 128, class, largest, &mut scratch, &mut histograms);
            let mut expected = [vec![0; largest as usize + 1], vec![0; largest as usize + 1]];
            for (i, &s) in symbols.iter().enumerate() {
                if let Some(c) = class(i / 128) {
                    expected[c as usize][s as usize] += 1;
                }
            }
            assert_eq!(histograms, expected);
        }
    }

    #[test]
    fn survey_and_commonest() {
        let mut symbols = vec![7u8; 64 * 4];
        symbols[64] = 9;
        symbols[255] = 0;
        let mut survey = Survey::default();
        survey.fill(&symbols, 64, 7);
        assert_eq!((survey.are_coded.as_slice(), survey.largest), (&[false, true, false, true][..], 9));
        survey.fill(&[0u16; 64], 64, 0);
        assert_eq!(survey.largest, 0);
        let mut scratch = HistogramScratch::default();
        assert_eq!(commonest(&symbols, &mut scratch), 7);
        assert_eq!(commonest::<u16>(&[], &mut scratch), 0);
        assert_eq!(commonest(&[4u16, 3, 3, 4], &mut scratch), 3);
    }
}
