//! Symbols of codes: small magnitudes are symbols of their own, larger ones share four symbols for each octave.

/// Codes have smaller magnitudes.
pub const CODE_LIMIT: u32 = 1 << 18;
/// Magnitudes below this are symbols of their own.
const OWN: u32 = 8;
/// The exponent field of 4.0.
const EXPONENT_OF_4: u32 = 4.0f32.to_bits() >> 23;
/// Number of symbols.
pub const SYMBOLS: usize = 68;

/// The symbol of a code, and the bits that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The symbol.
    pub symbol: u8,
    /// Bits behind the symbol: the sign (1: negative) in bit 0, and above it the rest of the magnitude.
    pub bits: u32,
    /// How many of them there are: none for code 0, else 1 to 16.
    pub count: u32,
}

impl Symbol {
    /// Returns the symbol of a code, whose magnitude is below [`CODE_LIMIT`].
    #[inline(always)]
    pub fn of(code: i32) -> Self {
        // The exponent and the two highest bits of the fraction of a number from 4 on, which is exact, are its symbol.
        // Without branches, so that compilers make vectors of this.
        let magnitude = code.unsigned_abs();
        let float = (magnitude.max(4) as f32).to_bits();
        let rest = (float >> 23) - EXPONENT_OF_4;
        let symbol = if magnitude < 4 { magnitude } else { (float >> 21) - 4 * (EXPONENT_OF_4 - 1) };
        let bits = (magnitude & ((1 << rest) - 1)) << 1 | u32::from(code < 0);
        Self { symbol: symbol as u8, bits, count: if magnitude > 0 { rest + 1 } else { 0 } }
    }

    /// Returns the number of bits behind a symbol.
    #[inline(always)]
    pub const fn bits_of(symbol: u8) -> u32 {
        let symbol = symbol as u32;
        if symbol >= OWN { symbol / 4 } else { (symbol > 0) as u32 }
    }

    /// Returns the code of a symbol and the bits behind it.
    #[inline(always)]
    pub const fn code(symbol: u8, bits: u32) -> i32 {
        let base = match symbol {
            0..=7 => symbol as u32,
            _ => (4 | (symbol as u32 & 3)) << ((symbol as u32 - OWN) / 4 + 1),
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
        assert_eq!(usize::from(largest) + 1, SYMBOLS);
    }
}
