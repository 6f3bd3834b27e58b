//! A strip as symbols.

use super::STRIP_LEN;
use super::alphabet::{LONGEST_RUN, Symbol, extra_of};

/// The codes of a strip that is encoded.
#[derive(Clone, Copy, Debug)]
pub struct Strip<'a> {
    /// At most [`STRIP_LEN`] codes.
    pub codes: &'a [i32],
    /// Whether every zero up to the last value has a symbol of its own, which is shorter if there are few.
    pub is_dense: bool,
}

impl Strip<'_> {
    /// Calls `put` with each symbol of the strip and its extra bits. Values whose symbol is not in the codebook have
    /// their zeros as runs in front of them.
    ///
    /// # Panics
    /// The strip is longer than [`STRIP_LEN`].
    #[inline(always)]
    pub fn for_symbols(self, has: impl Fn(Symbol) -> bool, mut put: impl FnMut(Symbol, u32)) {
        let mut places = [0; STRIP_LEN];
        let mut next = 0;
        for &place in find_values(self.codes, &mut places) {
            let place = usize::from(place);
            let (zeros, value) = ((place - next) as u32, self.codes[place]);
            next = place + 1;
            if self.is_dense {
                (0..zeros).for_each(|_| put(Symbol::power(0), 0));
                put_value(0, value, &has, &mut put);
            } else {
                (0..zeros / LONGEST_RUN).for_each(|_| put(Symbol::LONG_RUN, 0));
                put_value(zeros % LONGEST_RUN, value, &has, &mut put);
            }
        }
    }
}

/// Puts a value after fewer than [`LONGEST_RUN`] zeros.
#[inline(always)]
fn put_value(run: u32, value: i32, has: &impl Fn(Symbol) -> bool, put: &mut impl FnMut(Symbol, u32)) {
    let mut symbol = Symbol::of(run, value).filter(|&symbol| has(symbol));
    if symbol.is_none() && run > 0 {
        for exponent in (0..LONGEST_RUN.ilog2() + 1).rev().filter(|&exponent| run >> exponent & 1 == 1) {
            put(Symbol::power(exponent), 0);
        }
        symbol = Symbol::of(0, value).filter(|&symbol| has(symbol));
    }
    match symbol {
        Some(symbol) if symbol.extra_bits() == 0 => put(symbol, 0),
        Some(symbol) => put(symbol, extra_of(value)),
        None => put(Symbol::ANY, value as u32),
    }
}

/// Returns the places of the codes that are not 0, with `places` as memory. Branches on each code would be as hard to
/// predict as the data.
///
/// # Panics
/// There are more than [`STRIP_LEN`] codes.
#[inline(always)]
fn find_values<'p>(codes: &[i32], places: &'p mut [u8; STRIP_LEN]) -> &'p [u8] {
    assert!(codes.len() <= STRIP_LEN);
    let mut count = 0;
    for (place, &code) in (0..).zip(codes) {
        // Always below the length; the mask removes the bounds check.
        places[count & (STRIP_LEN - 1)] = place;
        count += usize::from(code != 0);
    }
    &places[..count]
}
