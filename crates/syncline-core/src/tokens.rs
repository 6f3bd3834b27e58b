//! Token codebooks: quantization codes as symbols of Huffman codebooks, with raw bits after the codewords
//! (`docs/FORMAT.md`, "Token stream").
//!
//! With one codeword per value, each value takes at least one bit, and values far from zero need a codebook entry each.
//! Mode [`Runs`](Mode::Runs) avoids both. One [`Entry`] describes a symbol of any mode, so that all modes share one
//! reader.

mod encode;
mod estimate;
mod group;
mod stream;
#[cfg(test)]
mod tests;

use crate::geometry::TileSize;

pub use encode::{EncodeScratch, encode, estimate};
pub use stream::{MAX_CLASSES, STREAM_HEADER_BYTES, StreamCounts, TokenStream, stream_header, write_head};

/// Codes of a group of a small tile. The last group of a tile may have fewer.
///
/// Groups of 128 make streams about 2 % longer, and groups of 512 about 1 % shorter, but then a GPU has half as many
/// groups to decode at the same time.
pub const GROUP_LEN: usize = 256;

/// Codes of a group of a large tile.
pub const LARGE_GROUP_LEN: usize = 512;

/// Returns the number of codes in a group of tiles of this size.
pub const fn group_len(tile_size: TileSize) -> usize {
    match tile_size {
        TileSize::Small => GROUP_LEN,
        TileSize::Large => LARGE_GROUP_LEN,
    }
}

/// Symbols of mode *plain* represent the codes from `-PLAIN_RADIUS` to `PLAIN_RADIUS - 1`.
pub const PLAIN_RADIUS: i32 = 512;

/// Symbols of mode *wide* represent the codes from `-WIDE_RADIUS` to `WIDE_RADIUS - 1`.
pub const WIDE_RADIUS: i32 = 1 << 15;

/// Bits of the largest magnitude.
const MAGNITUDE_BITS: u32 = 32;

/// Zeros of [`ZERO_RUN`]. A symbol with a value has fewer in front of it.
pub const LONGEST_RUN: u32 = 30;

/// Symbol of mode *runs* for [`LONGEST_RUN`] zeros.
pub const ZERO_RUN: u32 = LONGEST_RUN * MAGNITUDE_BITS;

/// Symbol of mode *runs* for zeros up to the end of the group.
pub const REST_IS_ZERO: u32 = ZERO_RUN + 1;

/// The meaning of the symbols of a codebook. The discriminant is its code in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mode {
    /// A symbol for each value.
    Plain = 0,
    /// A symbol for zeros and the number of bits of the value after them. The value's lower bits and sign are raw.
    Runs = 1,
    /// A symbol for each value of a larger range, for data with few different values.
    Wide = 2,
}

impl Mode {
    /// All modes, in the order of their codes.
    pub const ALL: [Self; 3] = [Self::Plain, Self::Runs, Self::Wide];

    /// Returns the mode with this code in a stream.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|m| *m as u8 == code)
    }

    /// Returns the number of symbols.
    pub const fn alphabet(self) -> usize {
        match self {
            Self::Plain => 2 * PLAIN_RADIUS as usize,
            Self::Wide => 2 * WIDE_RADIUS as usize,
            Self::Runs => REST_IS_ZERO as usize + 1,
        }
    }

    /// Returns whether the mode has a symbol for this code.
    pub const fn represents(self, code: i32) -> bool {
        match self {
            Self::Plain => code >= -PLAIN_RADIUS && code < PLAIN_RADIUS,
            Self::Wide => code >= -WIDE_RADIUS && code < WIDE_RADIUS,
            Self::Runs => true,
        }
    }
}

/// A symbol and the raw bits after its codeword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The symbol.
    pub symbol: u32,
    /// The raw bits, right-aligned.
    pub raw: u32,
    /// Number of raw bits, at most 32.
    pub raw_bits: u32,
}

/// Calls `put` with each token of a group, whose codes `mode` can represent.
#[inline(always)]
pub fn tokenize(group: &[i32], mode: Mode, mut put: impl FnMut(Token)) {
    match mode {
        Mode::Plain => group.iter().for_each(|&code| put(value_token(code, PLAIN_RADIUS))),
        Mode::Wide => group.iter().for_each(|&code| put(value_token(code, WIDE_RADIUS))),
        Mode::Runs => tokenize_runs(group, put),
    }
}

/// Calls `put` with each token of a group in mode *runs*.
#[inline(always)]
fn tokenize_runs(group: &[i32], mut put: impl FnMut(Token)) {
    let mut next = 0;
    let mut places = [0; LARGE_GROUP_LEN];
    for &place in find_values(group, &mut places) {
        let place = usize::from(place);
        let zeros = (place - next) as u32;
        for _ in 0..zeros / LONGEST_RUN {
            put(Token { symbol: ZERO_RUN, raw: 0, raw_bits: 0 });
        }
        put(run_token(zeros % LONGEST_RUN, group[place]));
        next = place + 1;
    }
    if next < group.len() {
        put(Token { symbol: REST_IS_ZERO, raw: 0, raw_bits: 0 });
    }
}

/// Returns the places of the codes of a group that are not 0, with `places` as memory. Branches on each code would be
/// as hard to predict as the data.
///
/// # Panics
/// The group has more than [`LARGE_GROUP_LEN`] codes.
#[inline(always)]
fn find_values<'p>(group: &[i32], places: &'p mut [u16; LARGE_GROUP_LEN]) -> &'p [u16] {
    assert!(group.len() <= LARGE_GROUP_LEN);
    let mut count = 0;
    for (place, &code) in (0..).zip(group) {
        // Always below the length; the mask removes the bounds check.
        places[count & (LARGE_GROUP_LEN - 1)] = place;
        count += usize::from(code != 0);
    }
    &places[..count]
}

#[inline(always)]
fn run_token(zeros: u32, code: i32) -> Token {
    let magnitude = code.unsigned_abs();
    let bits = 32 - magnitude.leading_zeros();
    // Without the top bit, which is known.
    let low = magnitude ^ (1 << (bits - 1));
    Token { symbol: zeros * MAGNITUDE_BITS + bits - 1, raw: low << 1 | u32::from(code < 0), raw_bits: bits }
}

#[inline(always)]
fn value_token(code: i32, radius: i32) -> Token {
    Token { symbol: (code + radius) as u32, raw: 0, raw_bits: 0 }
}

/// The meaning of a symbol of any mode.
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
        /// The smallest magnitude that the symbol represents.
        base: u32,
        /// Number of raw bits after the codeword.
        raw_bits: u32,
        /// Whether the value is negative, or `None` if the last raw bit is the sign.
        negative: Option<bool>,
    },
}

impl Entry {
    /// Returns the meaning of `symbol`, or `None` if the mode has no such symbol.
    pub fn of(mode: Mode, symbol: u32) -> Option<Self> {
        match mode {
            _ if symbol as usize >= mode.alphabet() => None,
            Mode::Plain | Mode::Wide => {
                let code = symbol as i32 - if mode == Mode::Plain { PLAIN_RADIUS } else { WIDE_RADIUS };
                Some(Self::Value { zeros: 0, base: code.unsigned_abs(), raw_bits: 0, negative: Some(code < 0) })
            }
            Mode::Runs if symbol == REST_IS_ZERO => Some(Self::Rest),
            Mode::Runs if symbol == ZERO_RUN => Some(Self::Zeros(LONGEST_RUN)),
            Mode::Runs => {
                let (zeros, low_bits) = (symbol / MAGNITUDE_BITS, symbol % MAGNITUDE_BITS);
                Some(Self::Value { zeros, base: 1 << low_bits, raw_bits: low_bits + 1, negative: None })
            }
        }
    }
}
