//! Estimates the number of bits of codes in each mode from their counts, in integer arithmetic (`docs/ENCODER.md`).

use std::ops::Range;

use super::{LARGE_GROUP_LEN, LONGEST_RUN, MAGNITUDE_BITS, Mode, PLAIN_RADIUS, REST_IS_ZERO, WIDE_RADIUS, ZERO_RUN};
use super::{find_values, run_token, value_token};
use crate::bits::logarithm::{LOG_BITS, times_log2};

/// The symbols of mode *wide* for the codes that mode *plain* has symbols for.
const PLAIN_IN_WIDE: Range<usize> = (WIDE_RADIUS - PLAIN_RADIUS) as usize..(WIDE_RADIUS + PLAIN_RADIUS) as usize;

/// Symbols of a set of groups in each mode.
#[derive(Clone, Debug)]
pub struct Counts {
    /// Symbols by [`Mode`].
    symbols: [Vec<u32>; Mode::ALL.len()],
    /// Codes that mode *plain* has no symbol for.
    outside: u64,
    /// Codes that mode *wide* has no symbol for.
    outside_wide: u64,
}

impl Default for Counts {
    fn default() -> Self {
        let symbols = Mode::ALL.map(|mode| if mode == Mode::Wide { Vec::new() } else { vec![0; mode.alphabet()] });
        Self { symbols, outside: 0, outside_wide: 0 }
    }
}

impl Counts {
    /// Forgets all groups.
    pub fn clear(&mut self) {
        self.symbols.iter_mut().for_each(|symbols| symbols.fill(0));
        self.symbols[Mode::Wide as usize].clear();
        (self.outside, self.outside_wide) = (0, 0);
    }

    /// Returns whether mode *wide* may be the best: where it has symbols for all codes, and *plain* has not.
    pub fn may_be_wide(&self) -> bool {
        self.outside > 0 && self.outside_wide == 0
    }

    /// Begins to count in mode *wide*, with the codes that mode *plain* has symbols for.
    pub fn start_wide(&mut self) {
        let [plain, _, wide] = &mut self.symbols;
        wide.clear();
        wide.resize(Mode::Wide.alphabet(), 0);
        wide[PLAIN_IN_WIDE].copy_from_slice(plain);
    }

    /// Counts the codes of a group, which was counted before, that only mode *wide* has symbols for.
    pub fn add_wide_group(&mut self, group: &[i32]) {
        let wide = &mut self.symbols[Mode::Wide as usize];
        for &code in group {
            if !Mode::Plain.represents(code) {
                wide[value_token(code, WIDE_RADIUS).symbol as usize] += 1;
            }
        }
    }

    /// Adds the codes of another set that only mode *wide* has symbols for, if there are any.
    pub fn add_wide(&mut self, other: &Self) {
        let (sums, counts) = (&mut self.symbols[Mode::Wide as usize], &other.symbols[Mode::Wide as usize]);
        let others = sums.iter_mut().zip(counts).enumerate().filter(|(symbol, _)| !PLAIN_IN_WIDE.contains(symbol));
        others.for_each(|(_, (sum, count))| *sum += count);
    }

    /// Counts a group of at most 2^9 codes in all modes but *wide*.
    #[inline(always)]
    pub fn add_group(&mut self, group: &[i32]) {
        let [plain, runs, _] = &mut self.symbols;
        let (Ok(plain), Ok(runs)) = (plain.as_mut_slice().try_into(), runs.as_mut_slice().try_into()) else { return };
        let (plain, runs): (&mut [u32; Mode::Plain.alphabet()], &mut [u32; Mode::Runs.alphabet()]) = (plain, runs);
        let mut next = 0;
        let mut places = [0; LARGE_GROUP_LEN];
        let places = find_values(group, &mut places);
        for &place in places {
            let place = usize::from(place);
            let (code, mut zeros) = (group[place], (place - next) as u32);
            next = place + 1;
            if Mode::Plain.represents(code) {
                plain[(code + PLAIN_RADIUS) as usize] += 1;
            } else {
                self.outside += 1;
                self.outside_wide += u64::from(!Mode::Wide.represents(code));
            }
            if zeros >= LONGEST_RUN {
                runs[ZERO_RUN as usize] += zeros / LONGEST_RUN;
                zeros %= LONGEST_RUN;
            }
            runs[run_token(zeros, code).symbol as usize] += 1;
        }
        plain[PLAIN_RADIUS as usize] += (group.len() - places.len()) as u32;
        runs[REST_IS_ZERO as usize] += u32::from(next < group.len());
    }

    /// Adds the groups of another set.
    pub fn add(&mut self, other: &Self) {
        for (sums, counts) in self.symbols.iter_mut().zip(&other.symbols) {
            sums.resize(sums.len().max(counts.len()), 0);
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        self.outside += other.outside;
        self.outside_wide += other.outside_wide;
    }

    /// Returns how often each symbol of a mode occurs.
    pub fn of(&self, mode: Mode) -> &[u32] {
        &self.symbols[mode as usize]
    }

    /// Returns the raw bits of the groups in a mode. Only those of mode *runs* have any.
    fn raw_bits(&self, mode: Mode) -> u64 {
        let raw_bits = |symbol: u32| u64::from(symbol % MAGNITUDE_BITS + 1);
        match mode {
            Mode::Runs => (0..ZERO_RUN).zip(self.of(mode)).map(|(at, &count)| raw_bits(at) * u64::from(count)).sum(),
            Mode::Plain | Mode::Wide => 0,
        }
    }

    /// Returns the bits of the groups in a mode whose codewords have these lengths.
    pub fn bits(&self, mode: Mode, lengths: &[u8]) -> u64 {
        let codewords = self.of(mode).iter().zip(lengths).map(|(&count, &length)| u64::from(count) * u64::from(length));
        codewords.sum::<u64>() + self.raw_bits(mode)
    }

    /// Returns the mode with the fewest bits, the first of equals, and these bits, those of the codebook included.
    pub fn best_mode(&self) -> (Mode, u64) {
        let has_all = |mode| match mode {
            Mode::Plain => self.outside == 0,
            Mode::Wide => self.may_be_wide(),
            Mode::Runs => true,
        };
        let modes = Mode::ALL.into_iter().filter(|&mode| has_all(mode));
        let bits = modes.map(|mode| (mode, codeword_bits(self.of(mode)) + self.raw_bits(mode)));
        let best = bits.min_by_key(|&(_, bits)| bits);
        best.expect("mode runs represents all codes")
    }
}

/// Estimates the bits of a Huffman code for symbols with these counts, and of its codebook.
fn codeword_bits(counts: &[u32]) -> u64 {
    let (mut total, mut most, mut used, mut runs) = (0u32, 0, 0, 0);
    let mut before = 0;
    // The sum of all counts times their logarithm.
    let mut weighted = 0;
    for &count in counts {
        // Most symbols of a large alphabet do not occur.
        if count == 0 {
            before = 0;
            continue;
        }
        total += count;
        most = most.max(count);
        used += 1;
        runs += u64::from(before == 0);
        weighted += times_log2(count);
        before = count;
    }
    if total == 0 {
        return 0;
    }
    let others = total - most;
    let bits = if most > others {
        // The most frequent symbol takes one bit; so does the bit that distinguishes other symbols from it.
        u64::from(total) + ((times_log2(others) - (weighted - times_log2(most))) >> LOG_BITS)
    } else {
        (times_log2(total) - weighted) >> LOG_BITS
    };
    bits + 8 * (4 + used + runs)
}

#[cfg(test)]
mod tests {
    use super::super::tokenize;
    use super::*;
    use crate::huffman::lengths::{LengthScratch, code_lengths};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_are_counted_as_if_one_by_one(codes in prop::collection::vec(any::<i32>(), 0..300), shift in 0..32u32) {
            let codes: Vec<i32> = codes.iter().map(|code| code >> shift).collect();
            let mut counts = Counts::default();
            codes.chunks(128).for_each(|group| counts.add_group(group));
            let (mut symbols, mut raw_bits) = (vec![0; Mode::Runs.alphabet()], 0);
            codes.chunks(128).for_each(|group| tokenize(group, Mode::Runs, |token| {
                symbols[token.symbol as usize] += 1;
                raw_bits += u64::from(token.raw_bits);
            }));
            prop_assert_eq!(counts.of(Mode::Runs), &symbols[..]);
            prop_assert_eq!(counts.raw_bits(Mode::Runs), raw_bits);
            let outside = codes.iter().filter(|&&code| !Mode::Plain.represents(code)).count();
            prop_assert_eq!(counts.outside, outside as u64);
        }

        #[test]
        fn estimates_are_close_to_huffman_codes(counts in prop::collection::vec(0..5000u32, 1..300), power in 0..9u32) {
            let counts: Vec<u32> = counts.iter().map(|&c| (u64::from(c).pow(2) >> (power * 3)) as u32).collect();
            let mut lengths = Vec::new();
            code_lengths(&counts, &mut LengthScratch::default(), &mut lengths);
            let bits: u64 = counts.iter().zip(&lengths).map(|(&c, &l)| u64::from(c) * u64::from(l)).sum();
            let used = counts.iter().filter(|&&count| count > 0).count() as u64;
            let estimate = codeword_bits(&counts);
            prop_assert!(estimate <= bits + 8 * (4 + 2 * used), "{estimate} {bits}");
            // The redundancy of a Huffman code is below the share of the most frequent symbol plus 0.086 bits per
            // symbol (Gallager 1978). If that share exceeds a half, it is below one bit for each other symbol.
            prop_assert!(estimate as f64 >= bits as f64 * 0.63 - 8.0, "{estimate} {bits}");
        }
    }

    #[test]
    fn estimates_of_codes_around_zero_are_within_a_twentieth() {
        for percent in 5..95u64 {
            let share = percent as f64 / 100.0;
            let counts: Vec<u32> = (0..129i32).map(|n| (1e6 * share.powi((n - 64).abs())) as u32).collect();
            let mut lengths = Vec::new();
            code_lengths(&counts, &mut LengthScratch::default(), &mut lengths);
            let bits: u64 = counts.iter().zip(&lengths).map(|(&c, &l)| u64::from(c) * u64::from(l)).sum();
            let estimate = codeword_bits(&counts);
            assert!(estimate as f64 >= bits as f64 * 0.95, "{percent}: {estimate} {bits}");
        }
    }

    #[test]
    fn a_set_without_groups_takes_nothing() {
        assert_eq!(Counts::default().best_mode(), (Mode::Plain, 0));
    }
}
