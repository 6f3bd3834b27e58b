//! Codebooks from the symbols of a sample.

use super::alphabet::{LONGEST_RUN, Meaning, SYMBOLS, Symbol};
use super::codebook::{Encoder, MAX_LENGTH};
use super::encode::Strip;
use crate::huffman::codebook::Codebook;
use crate::huffman::lengths::{LengthScratch, code_lengths_limited};

/// How often the symbols occur.
#[derive(Clone, Debug)]
pub struct Counts {
    symbols: [u32; SYMBOLS],
}

impl Default for Counts {
    fn default() -> Self {
        Self { symbols: [0; SYMBOLS] }
    }
}

/// A symbol of a sampled codebook that is not required is left out if it is rarer than one in this number.
const RAREST: u64 = 4096;

/// What a count in a sample weighs beside the presence of a required symbol.
const WEIGHT: u32 = 32;

impl Counts {
    /// Counts the symbols of a strip.
    #[inline(always)]
    pub fn add(&mut self, strip: Strip<'_>) {
        strip.for_symbols(|_| true, |symbol, _| self.symbols[symbol.number()] += 1);
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &Self) {
        self.symbols.iter_mut().zip(&other.symbols).for_each(|(count, other)| *count += other);
    }

    /// Returns the number of symbols.
    pub fn total(&self) -> u64 {
        self.symbols.iter().map(|&count| u64::from(count)).sum()
    }

    /// Returns the bits that the counted symbols take with these codewords, extra bits included.
    pub fn bits(&self, encoder: &Encoder) -> u64 {
        let counts = (0..).map_while(Symbol::from_number).zip(&self.symbols);
        counts.filter(|(_, count)| **count > 0).map(|(symbol, &count)| u64::from(count) * encoder.bits(symbol)).sum()
    }
}

/// Makes a codebook. If the counts are those of a sample, it also has every required symbol.
///
/// # Panics
/// Never: there are fewer symbols than codewords of [`MAX_LENGTH`] bits.
pub fn build(counts: &Counts, is_sample: bool, scratch: &mut LengthScratch) -> Codebook {
    let total = counts.total();
    let frequency = |symbol: Symbol| {
        let count = counts.symbols[symbol.number()];
        match symbol.is_required() {
            _ if !is_sample => count,
            true => WEIGHT * count + 1,
            false if u64::from(count) * RAREST >= total => WEIGHT * count,
            false => 0,
        }
    };
    let frequencies: Vec<u32> = (0..).map_while(Symbol::from_number).map(frequency).collect();
    let mut lengths = Vec::new();
    code_lengths_limited(&frequencies, MAX_LENGTH, scratch, &mut lengths);
    Codebook::new(lengths).unwrap_or_default()
}

impl Encoder {
    /// Returns the bits of a symbol, or of those that are written in its place if it has no codeword, with extra bits.
    pub(super) fn bits(&self, symbol: Symbol) -> u64 {
        if self.has(symbol) {
            return u64::from(self.length(symbol) + symbol.extra_bits());
        }
        let Meaning::Sized { run, size } = symbol.meaning() else { return 0 };
        let runs = (0..LONGEST_RUN.ilog2() + 1).filter(|exponent| run >> exponent & 1 == 1);
        let runs: u32 = runs.map(|exponent| self.length(Symbol::power(exponent))).sum();
        // About what a small value would take, too.
        let alone = Symbol::of(0, 1 << size.min(30)).filter(|&symbol| self.has(symbol)).unwrap_or(Symbol::ANY);
        u64::from(runs + self.length(alone) + alone.extra_bits())
    }
}
