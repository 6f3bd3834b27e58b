//! A strip as symbols.

use super::STRIP_LEN;
use super::alphabet::{Extra, LARGE, LONGEST_RUN, Symbol, extra_of};
use crate::bits::pack::pack_bytes;

/// The codes of a strip that is encoded.
#[derive(Clone, Copy, Debug)]
pub struct Strip<'a> {
    /// At most [`STRIP_LEN`] codes.
    pub codes: &'a [i32],
    /// Whether every zero up to the last value has a symbol of its own, which is shorter if there are few.
    pub is_dense: bool,
}

impl<'a> Strip<'a> {
    /// Gives each value and the number of zeros in front of it.
    ///
    /// # Panics
    /// The strip is longer than [`STRIP_LEN`].
    #[inline(always)]
    pub(super) fn give_values<S: SymbolSink>(self, mut sink: S) -> S {
        let mut next = 0;
        // Branches on each code would be as hard to predict as the data.
        for (word, mut bits) in (0..).zip(values_of(self.codes)) {
            while bits != 0 {
                let place = word * WORD + bits.trailing_zeros();
                bits &= bits - 1;
                sink = sink.take(place - next, self.codes[place as usize]);
                next = place + 1;
            }
        }
        sink
    }

    /// Returns the codes up to the last value.
    ///
    /// # Panics
    /// The strip is longer than [`STRIP_LEN`].
    #[inline(always)]
    pub(super) fn to_last_value(self) -> &'a [i32] {
        let [low, high] = values_of(self.codes);
        let count = if high != 0 { 2 * WORD - high.leading_zeros() } else { WORD - low.leading_zeros() };
        &self.codes[..count as usize]
    }
}

/// Takes the symbols of strips with their extra bits. A sink is handed on by value, so that it stays in registers, and
/// is no closure, because a closure may be compiled for the baseline.
pub(super) trait SymbolSink: Sized {
    /// Takes a value after any number of zeros as [`Self::put_after`] does, faster if it is one of a pair.
    fn take(self, zeros: u32, value: i32) -> Self;

    /// Returns whether the codebook has a symbol.
    fn has(&self, symbol: Symbol) -> bool;

    /// Takes a symbol, which the codebook has.
    fn put(self, symbol: Symbol, extra: Extra) -> Self;

    /// Takes a value after any number of zeros. If its symbol is not in the codebook, the zeros are runs of their own.
    #[inline(always)]
    fn put_after(self, zeros: u32, value: i32) -> Self {
        let (mut sink, mut run) = (self, zeros);
        while run >= LONGEST_RUN {
            sink = sink.put(Symbol::LONG_RUN, Extra::NONE);
            run -= LONGEST_RUN;
        }
        let (symbol, extra) = Symbol::of_sized(run, value);
        if value.unsigned_abs() < LARGE && sink.has(symbol) {
            return sink.put(symbol, extra);
        }
        sink.put_rare(run, value)
    }

    /// Takes a code on its own, also if it is 0.
    #[inline(always)]
    fn put_alone(self, code: i32) -> Self {
        match code {
            0 => self.put(Symbol::power(0), Extra::NONE),
            value => self.put_after(0, value),
        }
    }

    /// Takes a value after fewer than [`LONGEST_RUN`] zeros, whatever symbols there are.
    #[cold]
    #[inline(never)]
    fn put_rare(self, run: u32, value: i32) -> Self {
        let (mut sink, mut symbol) = (self, Symbol::of(run, value));
        if run > 0 && !symbol.is_some_and(|symbol| sink.has(symbol)) {
            for exponent in (0..LONGEST_RUN.ilog2() + 1).rev().filter(|&exponent| run >> exponent & 1 == 1) {
                sink = sink.put(Symbol::power(exponent), Extra::NONE);
            }
            symbol = Symbol::of(0, value);
        }
        match symbol.filter(|&symbol| sink.has(symbol)) {
            Some(symbol) if symbol.extra_bits() == 0 => sink.put(symbol, Extra::NONE),
            Some(symbol) => sink.put(symbol, Extra { bits: extra_of(value), count: symbol.extra_bits() }),
            None => sink.put(Symbol::ANY, Extra { bits: value as u32, count: 32 }),
        }
    }
}

/// The values from -8 to 7, each after every number of zeros that a symbol with a value can have, are pairs with a
/// number. Encoders look up pairs instead of symbols.
pub(super) const PAIRS: usize = LONGEST_RUN as usize * PAIR_VALUES;

const PAIR_VALUES: usize = 16;

/// Returns the number of a pair, if there is one.
#[inline(always)]
pub(super) fn pair_of(zeros: u32, value: i32) -> Option<usize> {
    let place = value.wrapping_add(PAIR_VALUES as i32 / 2) as u32 as usize;
    let number = zeros as usize * PAIR_VALUES + place;
    ((place < PAIR_VALUES) & (number < PAIRS)).then_some(number)
}

/// Returns the symbol of a pair, and its extra bits.
#[inline(always)]
pub(super) fn symbol_of_pair(number: usize) -> (Symbol, Extra) {
    let value = (number % PAIR_VALUES) as i32 - PAIR_VALUES as i32 / 2;
    Symbol::of_sized((number / PAIR_VALUES) as u32, value)
}

/// Codes that are looked up on their own: those from -128 to 127.
pub(super) const ALONE: usize = 256;

/// Returns the number of a code that is looked up on its own, if it is one.
#[inline(always)]
pub(super) fn alone_of(code: i32) -> Option<usize> {
    let place = code.wrapping_add(ALONE as i32 / 2) as u32 as usize;
    (place < ALONE).then_some(place)
}

/// Returns the symbol of a code that is looked up on its own, and its extra bits.
#[inline(always)]
pub(super) fn symbol_of_alone(number: usize) -> (Symbol, Extra) {
    Symbol::alone(number as i32 - ALONE as i32 / 2)
}

/// Codes of a word of bits.
const WORD: u32 = 64;

/// Returns a bit for each code that is not 0.
///
/// # Panics
/// There are more than [`STRIP_LEN`] codes.
#[inline(always)]
fn values_of(codes: &[i32]) -> [u64; 2] {
    if let Ok(codes) = <&[i32; STRIP_LEN]>::try_from(codes) {
        return values_of_whole(codes);
    }
    let mut whole = [0; STRIP_LEN];
    whole[..codes.len()].copy_from_slice(codes);
    values_of_whole(&whole)
}

#[inline(always)]
fn values_of_whole(codes: &[i32; STRIP_LEN]) -> [u64; 2] {
    let mut bytes = [0u8; STRIP_LEN];
    for (byte, &code) in bytes.iter_mut().zip(codes) {
        *byte = u8::from(code != 0);
    }
    let (words, _) = bytes.as_chunks::<64>();
    [pack_bytes(&words[0]), pack_bytes(&words[1])]
}
