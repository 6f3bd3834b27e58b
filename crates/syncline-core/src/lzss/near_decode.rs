//! Tokens of a block back to symbols, where distances have one byte (levels 1 to 4).
//!
//! In two passes over the block. The first goes from match to match and notes for every symbol how far back its source is (0: it is a literal). The second makes the symbols,
//! without looking at tokens.

use super::decode::{OUTSIDE, TOO_EARLY};
use super::{SymbolWidth, TokenParts};
use crate::arch::spread::{SPREAD_ROOM, Spread, Spreading, TokenWord, are_inside, with_best};

/// Most bytes in a block.
const MAX_BYTES: usize = 1 << 14;

/// Decodes a block to the first `symbols` symbols of `out`. Counts have been checked.
pub(super) fn decode(
    parts: &TokenParts,
    width: SymbolWidth,
    min_match: usize,
    out: &mut [u8],
    symbols: usize,
) -> Result<(), &'static str> {
    with_best(Decode { parts, width, min_match, out, symbols })
}

pub(super) struct Decode<'a> {
    pub parts: &'a TokenParts<'a>,
    pub width: SymbolWidth,
    pub min_match: usize,
    pub out: &'a mut [u8],
    pub symbols: usize,
}

impl Spreading for Decode<'_> {
    type Output = Result<(), &'static str>;

    #[inline(always)]
    fn run<S: Spread>(self, spread: S) -> Self::Output {
        match self.width {
            SymbolWidth::One => self.block::<1, { MAX_BYTES + SPREAD_ROOM }, S>(spread),
            SymbolWidth::Two => self.block::<2, { MAX_BYTES / 2 + SPREAD_ROOM }, S>(spread),
            SymbolWidth::Four => self.block::<4, { MAX_BYTES / 4 + SPREAD_ROOM }, S>(spread),
            SymbolWidth::Eight => self.block::<8, { MAX_BYTES / 8 + SPREAD_ROOM }, S>(spread),
        }
    }
}

impl Decode<'_> {
    /// `ROOM`: the most symbols of a block, and [`SPREAD_ROOM`].
    #[inline(always)]
    fn block<const WIDTH: usize, const ROOM: usize, S: Spread>(self, spread: S) -> Result<(), &'static str> {
        let matches = &self.parts.distances[..self.parts.matches];
        let (nearest, farthest) = matches.iter().fold((u8::MAX, 0), |(low, high), &d| (d.min(low), d.max(high)));
        if nearest == 0 {
            return Err(OUTSIDE);
        }
        let mut distances = [0; ROOM];
        let end = self.note(&mut distances, spread).ok_or(OUTSIDE)?;
        // A match may start before there is anything so far back.
        if !are_inside(&distances[..self.symbols]) {
            return Err(OUTSIDE);
        }
        if end < self.symbols {
            return Err(TOO_EARLY);
        }
        spread.follow::<WIDTH>(self.out, self.symbols, &distances, farthest, self.parts.literals);
        Ok(())
    }

    /// Writes the distance of every symbol to `distances`, which are 0. Returns the end of the last token, or `None` if that is behind the block's.
    #[inline(always)]
    fn note<const ROOM: usize, S: Spread>(&self, distances: &mut [u8; ROOM], spread: S) -> Option<usize> {
        let TokenParts { tokens, flags, lengths, distances: of_matches, .. } = *self.parts;
        let (mut at, mut number) = (0, 0);
        for (i, &flags) in flags.iter().enumerate() {
            let tokens = (tokens - i * 64).min(64);
            let word = TokenWord { flags, tokens, lengths: &lengths[number..], distances: &of_matches[number..] };
            at = spread.note(distances, at, self.symbols, word, self.min_match)?;
            number += flags.count_ones() as usize;
        }
        Some(at)
    }
}
