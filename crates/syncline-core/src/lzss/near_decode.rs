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

struct Decode<'a> {
    parts: &'a TokenParts<'a>,
    width: SymbolWidth,
    min_match: usize,
    out: &'a mut [u8],
    symbols: usize,
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

#[cfg(test)]
mod tests {
    use super::super::{MAX_MIN_MATCH, Params, SLACK, Tokens, oracle};
    use super::*;
    use crate::arch::spread::Portable;

    /// Values that repeat at once, soon, late and never, with runs between.
    fn bytes(length: usize) -> Vec<u8> {
        let mut state = 11_u64;
        let mut next = || {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            state >> 33
        };
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let values = [2, 9, 90, 1 << 30][bytes.len() / 1500 % 4];
            let (value, times) = (next() % values, if next() % 30 == 0 { next() % 400 } else { 1 });
            (0..times).for_each(|_| bytes.extend_from_slice(&(value as u32).to_le_bytes()));
        }
        bytes.truncate(length);
        bytes
    }

    #[test]
    fn every_way_gives_the_same() {
        for (length, level) in [(8, 1), (1000, 2), (9000, 3), (MAX_BYTES, 3), (MAX_BYTES, 4), (5000, 4)] {
            let bytes = bytes(length);
            for width in SymbolWidth::ALL {
                for more in [0, 1, 3, 7] {
                    let params = Params::new(width, level);
                    let params = Params { min_match: (params.min_match + more).min(MAX_MIN_MATCH), ..params };
                    let tokens = oracle::encode(&bytes, &params);
                    assert_eq!(decode_both(&tokens, &params, length), Ok(bytes.clone()), "{params:?}");
                    damage(&tokens, &params, length);
                }
            }
        }
    }

    /// Tokens that lie are the same error, or the same bytes.
    fn damage(tokens: &Tokens, params: &Params, length: usize) {
        let mut errors = 0;
        for i in 0..30 {
            let mut tokens = tokens.clone();
            let part = if i % 2 == 0 { &mut tokens.lengths } else { &mut tokens.distances };
            let count = part.len();
            if count > 0 {
                part[i * 37 % count] ^= 1 << (i % 8);
            }
            errors += usize::from(decode_both(&tokens, params, length).is_err());
        }
        assert!(errors > 3 || tokens.lengths.is_empty(), "{params:?}");
    }

    fn decode_both(tokens: &Tokens, params: &Params, length: usize) -> Result<Vec<u8>, &'static str> {
        let slack = |bytes: &[u8]| [bytes, &[0x5A; SLACK]].concat();
        let (literals, lengths, distances) =
            (slack(&tokens.literals), slack(&tokens.lengths), slack(&tokens.distances));
        let counts = tokens.blocks[0];
        let parts = TokenParts {
            tokens: counts.tokens as usize,
            matches: counts.matches as usize,
            flags: &tokens.flags,
            literals: &literals,
            lengths: &lengths,
            distances: &distances,
        };
        let [mut best, mut portable] = [0xA5, 0x5A].map(|byte| vec![byte; length + SLACK]);
        let (width, min_match, symbols) = (params.width, params.min_match.into(), length / params.width.bytes());
        let one = decode(&parts, width, min_match, &mut best, symbols);
        let decode = Decode { parts: &parts, width, min_match, out: &mut portable, symbols };
        let other = decode.run(Portable);
        assert_eq!(one, other, "{params:?}");
        best.truncate(length);
        portable.truncate(length);
        assert!(one.is_err() || best == portable, "{params:?}");
        one.map(|()| best)
    }
}
