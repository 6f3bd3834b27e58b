//! Tokens of a block back to symbols, where distances have one byte (levels 1 to 4).
//!
//! In two passes over the block. The first goes from match to match and notes for every symbol how far back its source
//! is (0: it is a literal). The second makes the symbols, without looking at tokens.

use std::cell::RefCell;

use super::decode::{OUTSIDE, TOO_EARLY};
use super::{SymbolWidth, TokenParts};
use crate::arch::spread::{Aligned, BlockTokens, Reach, SPREAD_ROOM, Spread, Spreading, are_inside, with_best};
use crate::mem::prefetch::PrefetchTargets;
use crate::mem::uninit::{UninitBytes, Written};

/// Most bytes in a block.
const MAX_BYTES: usize = 1 << 14;

/// Decodes a block to the first `symbols` symbols of `out`. Counts have been checked. As many bytes as it has may be
/// asked for meanwhile.
pub(super) fn decode<'m>(
    parts: &TokenParts,
    (width, min_match): (SymbolWidth, usize),
    out: UninitBytes<'m>,
    symbols: usize,
    ahead: PrefetchTargets,
) -> Result<Written<'m>, &'static str> {
    let decode = Decode { parts, width, min_match, out, symbols, ahead };
    ENTRIES.with_borrow_mut(|entries| decode.in_two_passes(entries, |note| with_best(note), |follow| with_best(follow)))
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
    out: UninitBytes<'m>,
    symbols: usize,
    ahead: PrefetchTargets,
}

impl<'m> Decode<'_, 'm> {
    /// The passes are given how to be run. They are compiled apart, each with registers enough.
    fn in_two_passes(
        self,
        Aligned(entries): &mut Entries,
        note: impl FnOnce(Note) -> Result<Reach, &'static str>,
        follow: impl FnOnce(Follow<'_, 'm>) -> Written<'m>,
    ) -> Result<Written<'m>, &'static str> {
        let Self { parts, width, min_match, out, symbols, ahead } = self;
        let &TokenParts { tokens, matches, flags, literals, lengths, distances } = parts;
        let block = BlockTokens { flags, tokens, lengths, distances, min_match };
        let reach = note(Note { entries, symbols, block, matches })?;
        Ok(follow(Follow { out, width, symbols, distances: entries, reach, ahead, literals }))
    }
}

/// The first pass: [`Spread::note`], and what is to be known before the second.
struct Note<'a> {
    entries: &'a mut [u8],
    symbols: usize,
    block: BlockTokens<'a>,
    matches: usize,
}

impl Spreading for Note<'_> {
    type Output = Result<Reach, &'static str>;

    #[inline(always)]
    fn run<S: Spread>(self, spread: S) -> Self::Output {
        let Self { entries, symbols, block, matches } = self;
        let reach = Reach::of(&block.distances[..matches]).ok_or(OUTSIDE)?;
        let end = spread.note(entries, symbols, &block).ok_or(OUTSIDE)?;
        // A match may start before there is anything so far back.
        if !are_inside(&entries[..end]) {
            return Err(OUTSIDE);
        }
        if end < symbols {
            return Err(TOO_EARLY);
        }
        Ok(reach)
    }
}

/// The second: [`Spread::follow`].
struct Follow<'a, 'm> {
    out: UninitBytes<'m>,
    width: SymbolWidth,
    symbols: usize,
    distances: &'a [u8],
    reach: Reach,
    ahead: PrefetchTargets,
    literals: &'a [u8],
}

impl<'m> Spreading for Follow<'_, 'm> {
    type Output = Written<'m>;

    #[inline(always)]
    fn run<S: Spread>(self, spread: S) -> Self::Output {
        let Self { out, width, symbols, distances, reach, ahead, literals } = self;
        match width {
            SymbolWidth::One => spread.follow::<1>(out, symbols, distances, reach, ahead, literals),
            SymbolWidth::Two => spread.follow::<2>(out, symbols, distances, reach, ahead, literals),
            SymbolWidth::Four => spread.follow::<4>(out, symbols, distances, reach, ahead, literals),
            SymbolWidth::Eight => spread.follow::<8>(out, symbols, distances, reach, ahead, literals),
        }
    }
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
        let one = decode(&parts, (width, min_match), best.as_mut_slice().into(), symbols, PrefetchTargets::default())
            .map(|_| ());
        let decode = Decode {
            parts: &parts,
            width,
            min_match,
            out: portable.as_mut_slice().into(),
            symbols,
            ahead: PrefetchTargets::default(),
        };
        let mut entries = Aligned([0xA5; _]);
        let other =
            decode.in_two_passes(&mut entries, |note| note.run(Portable), |follow| follow.run(Portable)).map(|_| ());
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
