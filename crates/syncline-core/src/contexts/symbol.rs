//! Symbols of codes: small magnitudes are symbols of their own, larger ones share four symbols for each octave.
//!
//! The first numbers beyond the range of codes stand for masks: elements that hold a fill pattern, or 0.0.

use crate::predict::word::Word;
use crate::quantize::mask::MAX_PATTERNS;

/// Codes have smaller magnitudes.
pub const CODE_LIMIT: u32 = 1 << 18;
/// Magnitudes below this are symbols of their own.
pub const OWN_SYMBOLS: u32 = 8;
/// The exponent field of 4.0.
const EXPONENT_OF_4: u32 = 4.0f32.to_bits() >> 23;
/// Number of symbols of codes.
const OF_CODES: usize = 68;
/// Most masks of a block: one for each fill pattern, and one for 0.0.
pub const MASKS: usize = MAX_PATTERNS + 1;
/// Number of symbols.
pub const SYMBOLS: usize = OF_CODES + MASKS;
/// The symbol of the first mask.
pub const FIRST_MASK: u8 = OF_CODES as u8;

/// Returns what stands for an element of a mask in the place of its code.
pub const fn code_of_mask(mask: usize) -> i32 {
    Symbol::code(FIRST_MASK + mask as u8, 0)
}

/// Returns the mask that a number stands for, if it is no code.
pub fn mask_of_code(code: i32) -> Option<usize> {
    (code >= CODE_LIMIT as i32).then(|| usize::from(Symbol::of(code).symbol - FIRST_MASK))
}

/// Returns the code that stands for a number: that whose zigzag code it is.
#[inline(always)]
pub fn code_of_number(number: u32) -> i32 {
    number.unzigzag() as i32
}

/// Returns the number that a code stands for. Those of masks are larger than all others.
#[inline(always)]
pub fn number_of_code(code: i32) -> u32 {
    (code as u32).zigzag()
}

/// The symbol of a code, and the bits that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The symbol.
    pub symbol: u8,
    /// Bits behind the symbol: the sign (1: negative) in bit 0, and above it the rest of the magnitude.
    pub bits: u32,
    /// How many of them there are: none for code 0 and for masks, else 1 to 16.
    pub count: u32,
}

impl Symbol {
    /// Returns the symbol of a code, whose magnitude is below [`CODE_LIMIT`], or of a mask.
    #[inline(always)]
    pub fn of(code: i32) -> Self {
        // The exponent and the two highest bits of the fraction of a number from 4 on, which is exact, are its symbol.
        // Without branches, so that compilers make vectors of this.
        let magnitude = code.unsigned_abs();
        let float = (magnitude.max(4) as f32).to_bits();
        let rest = (float >> 23) - EXPONENT_OF_4;
        let symbol = if magnitude < 4 { magnitude } else { (float >> 21) - 4 * (EXPONENT_OF_4 - 1) };
        let bits = (magnitude & ((1 << rest) - 1)) << 1 | u32::from(code < 0);
        Self { symbol: symbol as u8, bits, count: Self::bits_of(symbol as u8) }
    }

    /// Returns the number of bits behind a symbol.
    #[inline(always)]
    pub const fn bits_of(symbol: u8) -> u32 {
        let symbol = symbol as u32;
        match symbol {
            0 => 0,
            1..OWN_SYMBOLS => 1,
            _ if symbol >= FIRST_MASK as u32 => 0,
            _ => symbol / 4,
        }
    }

    /// Returns the code of a symbol and the bits behind it.
    #[inline(always)]
    pub const fn code(symbol: u8, bits: u32) -> i32 {
        let base = match symbol {
            0..=7 => symbol as u32,
            _ => (4 | (symbol as u32 & 3)) << ((symbol as u32 - OWN_SYMBOLS) / 4 + 1),
        };
        let magnitude = (base + (bits >> 1)) as i32;
        if bits & 1 != 0 { -magnitude } else { magnitude }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_their_symbols_and_bits() {
        let limit = CODE_LIMIT as i32;
        let mut largest = 0;
        for code in (-5000..5000).chain([limit - 1, 1 - limit, 99_999, -131_072, 131_071]) {
            let Symbol { symbol, bits, count } = Symbol::of(code);
            assert_eq!((Symbol::bits_of(symbol), Symbol::code(symbol, bits)), (count, code), "{code}");
            assert!(count <= 16 && bits >> count == 0, "{code}");
            largest = largest.max(symbol);
        }
        assert_eq!(usize::from(largest) + 1, OF_CODES);
    }

    #[test]
    fn numbers_are_their_codes() {
        let all = |number: u32| number_of_code(code_of_number(number));
        assert!((0..5000).chain([1 << 18, 2 * CODE_LIMIT - 1]).all(|number| all(number) == number));
        assert_eq!([0, 1, 2, 3, 4].map(code_of_number), [0, -1, 1, -2, 2]);
        assert!((0..MASKS).all(|mask| number_of_code(code_of_mask(mask)) >= 2 * CODE_LIMIT));
    }

    #[test]
    fn masks_are_numbers_beyond_codes() {
        for mask in 0..MASKS {
            let code = code_of_mask(mask);
            assert!(code >= CODE_LIMIT as i32);
            let Symbol { symbol, bits, count } = Symbol::of(code);
            assert_eq!((usize::from(symbol), bits, count), (OF_CODES + mask, 0, 0));
            assert_eq!(mask_of_code(code), Some(mask));
        }
        assert_eq!([0, 1 - CODE_LIMIT as i32, CODE_LIMIT as i32 - 1].map(mask_of_code), [None; 3]);
    }
}
