//! Codebooks from the symbols of a sample.

use super::alphabet::{Extra, LONGEST_RUN, Meaning, SYMBOLS, Symbol};
use super::codebook::{Encoder, MAX_LENGTH};
use super::encode::{ALONE, PAIRS, Strip, SymbolSink, alone_of, pair_of, symbol_of_alone, symbol_of_pair};
use crate::huffman::codebook::Codebook;
use crate::huffman::lengths::{LengthScratch, code_lengths_limited};
use crate::simd::{self, InstructionSet, Kernel};

/// How often the symbols occur.
#[derive(Clone, Debug)]
pub struct Counts {
    symbols: [u32; SYMBOLS],
    /// What was counted by other numbers than those of symbols, as in the tables of an encoder.
    pairs: [u32; PAIRS],
    alone: [u32; ALONE],
}

impl Default for Counts {
    fn default() -> Self {
        Self { symbols: [0; SYMBOLS], pairs: [0; PAIRS], alone: [0; ALONE] }
    }
}

/// A symbol of a sampled codebook that is not required is left out if it is rarer than one in this number.
const RAREST: u64 = 4096;

/// What a count in a sample weighs beside the presence of a required symbol.
const WEIGHT: u32 = 32;

impl Counts {
    /// Counts the symbols of a strip.
    #[inline]
    pub fn add(&mut self, strip: Strip<'_>) {
        simd::run(Add { counts: self, strip });
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &Self) {
        let add = |counts: &mut [u32], other: &[u32]| counts.iter_mut().zip(other).for_each(|(a, b)| *a += b);
        add(&mut self.symbols, &other.symbols);
        add(&mut self.pairs, &other.pairs);
        add(&mut self.alone, &other.alone);
    }

    /// Returns how often each symbol was counted.
    pub(super) fn of_symbols(&self) -> [u32; SYMBOLS] {
        let mut symbols = self.symbols;
        for (number, &count) in self.pairs.iter().enumerate().filter(|&(_, &count)| count > 0) {
            symbols[symbol_of_pair(number).0.number()] += count;
        }
        for (number, &count) in self.alone.iter().enumerate().filter(|&(_, &count)| count > 0) {
            symbols[symbol_of_alone(number).0.number()] += count;
        }
        symbols
    }

    /// Returns the bits that the counted symbols take with these codewords, extra bits included.
    pub fn bits(&self, encoder: &Encoder) -> u64 {
        let counts = (0..).map_while(Symbol::from_number).zip(self.of_symbols());
        counts.filter(|&(_, count)| count > 0).map(|(symbol, count)| u64::from(count) * encoder.bits(symbol)).sum()
    }
}

/// Computes [`Counts::add`].
struct Add<'a> {
    counts: &'a mut Counts,
    strip: Strip<'a>,
}

impl Kernel for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let Self { counts, strip } = self;
        if !strip.is_dense {
            strip.give_values(counts);
            return;
        }
        for &code in strip.to_last_value() {
            match alone_of(code) {
                Some(number) => counts.alone[number] += 1,
                None => _ = counts.put_alone(code),
            }
        }
    }
}

impl SymbolSink for &mut Counts {
    #[inline(always)]
    fn take(self, zeros: u32, value: i32) -> Self {
        let Some(number) = pair_of(zeros, value) else { return self.put_after(zeros, value) };
        self.pairs[number] += 1;
        self
    }

    #[inline(always)]
    fn has(&self, _: Symbol) -> bool {
        true
    }

    #[inline(always)]
    fn put(self, symbol: Symbol, _: Extra) -> Self {
        self.symbols[symbol.number()] += 1;
        self
    }
}

/// Makes a codebook. If the counts are those of a sample, it also has every required symbol.
///
/// # Panics
/// Never: there are fewer symbols than codewords of [`MAX_LENGTH`] bits.
pub fn build(counts: &Counts, is_sample: bool, scratch: &mut LengthScratch) -> Codebook {
    let counts = counts.of_symbols();
    let total: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let frequency = |symbol: Symbol| {
        let count = counts[symbol.number()];
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
