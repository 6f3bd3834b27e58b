//! Tokens of a block back to symbols, where distances have one byte (levels 1 to 4).
//!
//! In two passes over the block. The first goes from match to match and notes for every symbol how far back its source is (0: it is a literal). The second makes the symbols,
//! without looking at tokens.

use std::cell::RefCell;

use super::decode::{OUTSIDE, TOO_EARLY};
use super::{SymbolWidth, TokenParts};
use crate::arch::Ahead;
use crate::arch::place::{Place, Written};
use crate::arch::spread::{
    Aligned, Reach, SPREAD_ROOM, Spread, Spreading, TokenWord, are_inside, asks_for_few, with_best,
};

/// Most bytes in a block.
const MAX_BYTES: usize = 1 << 14;

/// Decodes a block to the first `symbols` symbols of `out`. Counts have been checked. As many bytes as it has may be asked for meanwhile.
pub(super) fn decode<'m>(
    parts: &TokenParts,
    (width, min_match): (SymbolWidth, usize),
    out: Place<'m>,
    symbols: usize,
    ahead: Ahead,
) -> Result<Written<'m>, &'static str> {
    // Not in a closure within, which is not compiled for this machine's vectors.
    ENTRIES.with_borrow_mut(|entries| with_best(Decode { parts, width, min_match, out, symbols, ahead, entries }))
}

/// Of each symbol of a block how far back its source is, and room for what is written behind.
type Entries = Aligned<{ MAX_BYTES + SPREAD_ROOM }>;

thread_local! {
    /// From block to block: to fill it with zeros for each took a thirtieth of the time.
    static ENTRIES: RefCell<Box<Entries>> = RefCell::new(Box::new(Aligned([0; _])));
}

struct Decode<'a, 'm> {
    parts: &'a TokenParts<'a>,
    width: SymbolWidth,
    min_match: usize,
    out: Place<'m>,
    symbols: usize,
    ahead: Ahead,
    entries: &'a mut Entries,
}

impl<'m> Spreading for Decode<'_, 'm> {
    type Output = Result<Written<'m>, &'static str>;

    #[inline(always)]
    fn run<S: Spread>(self, spread: S) -> Self::Output {
        match self.width {
            SymbolWidth::One => self.block::<1, S>(spread),
            SymbolWidth::Two => self.block::<2, S>(spread),
            SymbolWidth::Four => self.block::<4, S>(spread),
            SymbolWidth::Eight => self.block::<8, S>(spread),
        }
    }
}

impl<'m> Decode<'_, 'm> {
    #[inline(always)]
    fn block<const WIDTH: usize, S: Spread>(self, spread: S) -> Result<Written<'m>, &'static str> {
        let Self { parts, min_match, out, symbols, ahead, entries: Aligned(distances), .. } = self;
        let reach = Reach::of(&parts.distances[..parts.matches]).ok_or(OUTSIDE)?;
        let end = note(parts, min_match, symbols, distances, spread).ok_or(OUTSIDE)?;
        // A match may start before there is anything so far back.
        if !are_inside(&distances[..end]) {
            return Err(OUTSIDE);
        }
        if end < symbols {
            return Err(TOO_EARLY);
        }
        Ok(spread.follow::<WIDTH>(out, symbols, distances, reach, ahead, parts.literals))
    }
}

/// Writes the distance of every symbol to `distances`. Returns the end of the last token, or `None` if that is behind the block's `symbols`.
#[inline(always)]
fn note<S: Spread>(
    parts: &TokenParts,
    min_match: usize,
    symbols: usize,
    distances: &mut [u8],
    spread: S,
) -> Option<usize> {
    let asks_for_few = asks_for_few(&parts.lengths[..parts.matches], min_match);
    let (mut at, mut number) = (0, 0);
    for (i, &flags) in parts.flags.iter().enumerate() {
        let tokens = (parts.tokens - i * 64).min(64);
        let (lengths, of_matches) = (&parts.lengths[number..], &parts.distances[number..]);
        let word = TokenWord { flags, tokens, lengths, distances: of_matches, asks_for_few };
        at = spread.note(distances, at, symbols, word, min_match)?;
        number += flags.count_ones() as usize;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{BlockCounts, MAX_MIN_MATCH, Params, SLACK, Tokens, oracle};
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
                    let errors = damage(&tokens, &params, length);
                    assert!(errors > 3 || tokens.lengths.is_empty(), "{params:?}");
                }
            }
        }
    }

    /// Tokens that lie are the same error, or the same bytes.
    fn damage(tokens: &Tokens, params: &Params, length: usize) -> usize {
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
        errors
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
        let one = decode(&parts, (width, min_match), best.as_mut_slice().into(), symbols, Ahead::default()).map(|_| ());
        let decode = Decode {
            parts: &parts,
            width,
            min_match,
            out: portable.as_mut_slice().into(),
            symbols,
            ahead: Ahead::default(),
            entries: &mut Aligned([0xA5; _]),
        };
        let other = decode.run(Portable).map(|_| ());
        assert_eq!(one, other, "{params:?}");
        best.truncate(length);
        portable.truncate(length);
        assert!(one.is_err() || best == portable, "{params:?}");
        one.map(|()| best)
    }

    /// Tokens of a block at random: lengths up to `longest`, distances from `nearest` on.
    fn random_tokens(width: SymbolWidth, nearest: usize, longest: u64, rare: u64, seed: u64) -> (Tokens, usize) {
        let mut state = seed;
        let mut next = |below: u64| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (state >> 33) % below
        };
        let (mut tokens, mut symbols, mut counts) = (Tokens::default(), 0, (0, 0));
        let mut flags = vec![0_u64; MAX_BYTES / 64];
        while symbols + 300 < MAX_BYTES / width.bytes() {
            if symbols >= nearest && next(5) < 2 {
                let farthest = symbols.min(if next(50) == 0 { 255 } else { 128 });
                let length = if next(rare) == 0 { next(longest) } else { 0 };
                tokens.distances.push((nearest + next((farthest - nearest + 1) as u64) as usize) as u8);
                tokens.lengths.push(length as u8);
                flags[counts.0 / 64] |= 1 << (counts.0 % 64);
                counts.1 += 1;
                symbols += 3 + length as usize;
            } else {
                tokens.literals.extend((0..width.bytes()).map(|_| next(256) as u8));
                symbols += 1;
            }
            counts.0 += 1;
        }
        flags.truncate(counts.0.div_ceil(64));
        tokens.flags = flags;
        tokens.blocks.push(BlockCounts { tokens: counts.0 as u32, matches: counts.1 });
        (tokens, symbols)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn every_length_and_distance(
            seed in any::<u64>(), nearest in 1_usize..9, longest in 1_u64..40, rare in 1_u64..60, far in any::<bool>(),
        ) {
            for width in SymbolWidth::ALL {
                let (mut tokens, symbols) = random_tokens(width, nearest, longest, rare, seed);
                if !far {
                    tokens.distances.iter_mut().for_each(|distance| *distance = (*distance).min(128));
                }
                let params = Params { min_match: 3, ..Params::new(width, 4) };
                let decoded = decode_both(&tokens, &params, symbols * width.bytes());
                prop_assert_eq!(decoded, Ok(by_symbol(&tokens, width)));
                damage(&tokens, &params, symbols * width.bytes());
            }
        }
    }

    /// The simple way.
    fn by_symbol(tokens: &Tokens, width: SymbolWidth) -> Vec<u8> {
        let (mut bytes, mut literal, mut number) = (Vec::new(), 0, 0);
        for i in 0..tokens.blocks[0].tokens as usize {
            if tokens.flags[i / 64] >> (i % 64) & 1 == 1 {
                for _ in 0..(3 + usize::from(tokens.lengths[number])) * width.bytes() {
                    bytes.push(bytes[bytes.len() - usize::from(tokens.distances[number]) * width.bytes()]);
                }
                number += 1;
            } else {
                bytes.extend_from_slice(&tokens.literals[literal..literal + width.bytes()]);
                literal += width.bytes();
            }
        }
        bytes
    }
}
