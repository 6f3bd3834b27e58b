//! Tokens: three ways to write a group of codes as symbols of a Huffman codebook with raw bits behind them.
//!
//! A codeword for each value takes at least one bit, and values far from zero need a codebook entry each. [`Mode`]
//! says how a codebook avoids both: by runs of zeros, or by bins of magnitudes. One [`Entry`] describes a symbol of
//! any mode, so one reader serves all of them. [`select`] finds the mode that is shortest for a sample.
//!
//! No record of the stream has tokens yet.

mod group;
pub mod select;
#[cfg(test)]
mod tests;

pub use group::{TokenCodebook, read_group, write_group};

/// Plain symbols stand for codes from minus this to one below it.
pub const PLAIN_RADIUS: i32 = 512;

/// Codes of mode *runs* have magnitudes below two to this power.
pub const RUN_VALUE_BITS: u32 = 11;

/// Zeros of [`ZERO_RUN`]; a symbol with a value has fewer in front of it.
pub const LONGEST_RUN: u32 = 32;

/// Symbols that differ in the number of zeros by one are this far apart.
const RUN_STRIDE: u32 = RUN_VALUE_BITS + 1;

/// Symbol of mode *runs* for [`LONGEST_RUN`] zeros.
pub const ZERO_RUN: u32 = LONGEST_RUN * RUN_STRIDE;

/// Symbol of mode *runs* for zeros up to the end of the group.
pub const REST_IS_ZERO: u32 = ZERO_RUN + 1;

/// Bits of a magnitude that mode *bins* keeps in the symbol.
const BIN_BITS: u32 = 3;

/// What the symbols of a codebook stand for. The discriminant is its code in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mode {
    /// A symbol for each value.
    Plain = 0,
    /// A symbol for zeros and the number of bits of the value after them; the value's lower bits and sign are raw.
    Runs = 1,
    /// A symbol for the sign and the upper three bits of a magnitude; the lower bits are raw.
    Bins = 2,
}

impl Mode {
    /// All modes, in the order of their codes.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Runs, Self::Bins];

    /// Returns the mode with this code in a stream.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|m| *m as u8 == code)
    }

    /// Number of symbols.
    pub const fn alphabet(self) -> usize {
        match self {
            Self::Plain => 2 * PLAIN_RADIUS as usize,
            Self::Runs => REST_IS_ZERO as usize + 1,
            // Magnitudes have up to 31 bits.
            Self::Bins => 2 * (8 + 4 * (31 - BIN_BITS as usize)),
        }
    }

    /// Whether the mode has a symbol for this code.
    pub const fn represents(self, code: i32) -> bool {
        match self {
            Self::Plain => code >= -PLAIN_RADIUS && code < PLAIN_RADIUS,
            Self::Runs => code.unsigned_abs() < 1 << RUN_VALUE_BITS,
            Self::Bins => code != i32::MIN,
        }
    }
}

/// A symbol and the raw bits behind its codeword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The symbol.
    pub symbol: u32,
    /// The raw bits, right-aligned.
    pub raw: u32,
    /// How many raw bits there are.
    pub raw_bits: u32,
}

/// Calls `put` with each token of a group; `false`, after some calls, if a code is not representable in `mode`.
pub fn tokenize(group: &[i32], mode: Mode, mut put: impl FnMut(Token)) -> bool {
    let end = match mode {
        Mode::Runs => group.iter().rposition(|&c| c != 0).map_or(0, |last| last + 1),
        _ => group.len(),
    };
    let mut zeros = 0;
    for &code in &group[..end] {
        if !mode.represents(code) {
            return false;
        }
        if mode != Mode::Runs {
            put(value_token(code, mode));
        } else if code != 0 {
            put(run_token(zeros, code));
            zeros = 0;
        } else {
            zeros += 1;
            if zeros == LONGEST_RUN {
                put(Token { symbol: ZERO_RUN, raw: 0, raw_bits: 0 });
                zeros = 0;
            }
        }
    }
    if end < group.len() {
        put(Token { symbol: REST_IS_ZERO, raw: 0, raw_bits: 0 });
    }
    true
}

fn run_token(zeros: u32, code: i32) -> Token {
    let magnitude = code.unsigned_abs();
    let bits = 32 - magnitude.leading_zeros();
    let mantissa = magnitude - (1 << (bits - 1));
    Token { symbol: zeros * RUN_STRIDE + bits, raw: mantissa << 1 | u32::from(code < 0), raw_bits: bits }
}

fn value_token(code: i32, mode: Mode) -> Token {
    if mode == Mode::Plain {
        return Token { symbol: (code + PLAIN_RADIUS) as u32, raw: 0, raw_bits: 0 };
    }
    let magnitude = code.unsigned_abs();
    let raw_bits = (32 - magnitude.leading_zeros()).saturating_sub(BIN_BITS);
    // The top bit of the three is known where there are raw bits, so each number of raw bits has four bins.
    let bin = 4 * raw_bits + (magnitude >> raw_bits);
    Token { symbol: 2 * bin + u32::from(code < 0), raw: magnitude & ((1 << raw_bits) - 1), raw_bits }
}

/// What a symbol of any mode stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// This many zeros.
    Zeros(u32),
    /// Zeros up to the end of the group.
    Rest,
    /// A value after zeros.
    Value {
        /// Zeros before the value.
        zeros: u32,
        /// The smallest magnitude that the symbol stands for.
        base: u32,
        /// Raw bits behind the codeword.
        raw_bits: u32,
        /// Whether the value is negative, or `None` if the last raw bit says so.
        negative: Option<bool>,
    },
}

impl Entry {
    /// What `symbol` stands for; `None` if the mode has no such symbol.
    pub fn of(mode: Mode, symbol: u32) -> Option<Self> {
        match mode {
            _ if symbol as usize >= mode.alphabet() => None,
            Mode::Plain => {
                let code = symbol as i32 - PLAIN_RADIUS;
                Some(Self::Value { zeros: 0, base: code.unsigned_abs(), raw_bits: 0, negative: Some(code < 0) })
            }
            Mode::Runs if symbol == REST_IS_ZERO => Some(Self::Rest),
            Mode::Runs if symbol == ZERO_RUN => Some(Self::Zeros(LONGEST_RUN)),
            Mode::Runs => {
                let (zeros, bits) = (symbol / RUN_STRIDE, symbol % RUN_STRIDE);
                let base = 1 << bits.checked_sub(1)?;
                Some(Self::Value { zeros, base, raw_bits: bits, negative: None })
            }
            Mode::Bins => {
                let (bin, negative) = (symbol / 2, symbol % 2 == 1);
                let raw_bits = (bin / 4).saturating_sub(1);
                let base = (bin - 4 * raw_bits) << raw_bits;
                (base > 0 || !negative).then_some(Self::Value { zeros: 0, base, raw_bits, negative: Some(negative) })
            }
        }
    }

    /// Raw bits behind the codeword.
    pub const fn raw_bits(self) -> u32 {
        if let Self::Value { raw_bits, .. } = self { raw_bits } else { 0 }
    }
}
