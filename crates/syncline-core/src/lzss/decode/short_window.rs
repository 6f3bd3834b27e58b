//! Decodes blocks of levels 1 to 4, whose distances have one byte.
//!
//! Two passes over the block. The first writes the distance from every symbol to its source, 0 for a literal. The
//! second produces the symbols from distances and literals without looking at tokens.

#![allow(unsafe_code, reason = "calls of functions that are compiled for AVX-512")]

use std::cell::RefCell;

use super::super::SymbolWidth;
use super::expand_matches::{
    Aligned, BlockTokens, DistanceRange, EXPAND_ROOM, are_inside, expand_distances, resolve_copies,
};
use super::token_parts::{ENDS_EARLY, OUTSIDE_BLOCK, TokenParts};
#[cfg(target_arch = "x86_64")]
use super::x86;
use crate::mem::prefetch::PrefetchTargets;
use crate::mem::uninit::{UninitBytes, Written};
use crate::simd::{self, InstructionSet, Isa, Kernel};

/// Most bytes of a block.
const MAX_BYTES: usize = 1 << 14;

/// Decodes a block, whose counts have been checked, to the first `symbols` symbols of `out`. Meanwhile prefetches as
/// many bytes as the block has.
pub(super) fn decode<'m>(
    parts: &TokenParts,
    (width, min_match): (SymbolWidth, usize),
    out: UninitBytes<'m>,
    symbols: usize,
    prefetch: PrefetchTargets,
) -> Result<Written<'m>, &'static str> {
    let decode = Decode { parts, width, min_match, out, symbols, prefetch };
    ENTRIES.with_borrow_mut(|entries| {
        decode.in_two_passes(entries, |expand| simd::run(expand), |resolve| simd::run(resolve))
    })
}

/// The distances of a block's symbols, and room for stores after them.
type Entries = Aligned<{ MAX_BYTES + EXPAND_ROOM }>;

thread_local! {
    /// Kept from block to block, because clearing it took a thirtieth of the decoding time.
    static ENTRIES: RefCell<Box<Entries>> = RefCell::new(Box::new(Aligned([0; _])));
}

struct Decode<'a, 'm> {
    parts: &'a TokenParts<'a>,
    width: SymbolWidth,
    min_match: usize,
    out: UninitBytes<'m>,
    symbols: usize,
    prefetch: PrefetchTargets,
}

impl<'m> Decode<'_, 'm> {
    /// Runs both passes by the given functions. They are compiled separately, so that each has enough registers.
    fn in_two_passes(
        self,
        Aligned(entries): &mut Entries,
        expand: impl FnOnce(ExpandDistances) -> Result<DistanceRange, &'static str>,
        resolve: impl FnOnce(ResolveCopies<'_, 'm>) -> Written<'m>,
    ) -> Result<Written<'m>, &'static str> {
        let Self { parts, width, min_match, out, symbols, prefetch } = self;
        let &TokenParts { tokens, matches, flags, literals, lengths, distances } = parts;
        let block = BlockTokens { flags, tokens, lengths, distances, min_match };
        let range = expand(ExpandDistances { entries, symbols, block, matches })?;
        Ok(resolve(ResolveCopies { out, width, symbols, distances: entries, range, prefetch, literals }))
    }
}

/// The first pass, and the checks that the second pass relies on.
struct ExpandDistances<'a> {
    entries: &'a mut [u8],
    symbols: usize,
    block: BlockTokens<'a>,
    matches: usize,
}

impl Kernel for ExpandDistances<'_> {
    type Output = Result<DistanceRange, &'static str>;

    const WIDEST: Isa = Isa::Avx512Vbmi2;

    #[inline(always)]
    fn run<I: InstructionSet>(self, isa: I) -> Self::Output {
        let Self { entries, symbols, block, matches } = self;
        let range = DistanceRange::new(&block.distances[..matches]).ok_or(OUTSIDE_BLOCK)?;
        let end = match isa.avx512_vbmi2() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the token proves that the processor has the instructions.
            Some(_) => unsafe { x86::expand_distances(entries, symbols, &block) },
            _ => expand_distances(entries, symbols, &block),
        };
        let end = end.ok_or(OUTSIDE_BLOCK)?;
        // The first matches may reach back further than the start of the block.
        if !are_inside(&entries[..end]) {
            return Err(OUTSIDE_BLOCK);
        }
        if end < symbols {
            return Err(ENDS_EARLY);
        }
        Ok(range)
    }
}

/// The second pass.
struct ResolveCopies<'a, 'm> {
    out: UninitBytes<'m>,
    width: SymbolWidth,
    symbols: usize,
    distances: &'a [u8],
    range: DistanceRange,
    prefetch: PrefetchTargets,
    literals: &'a [u8],
}

impl<'m> Kernel for ResolveCopies<'_, 'm> {
    type Output = Written<'m>;

    const WIDEST: Isa = Isa::Avx512Vbmi2;

    #[inline(always)]
    fn run<I: InstructionSet>(self, isa: I) -> Self::Output {
        match self.width {
            SymbolWidth::One => self.symbols_of::<1, I>(isa),
            SymbolWidth::Two => self.symbols_of::<2, I>(isa),
            SymbolWidth::Four => self.symbols_of::<4, I>(isa),
            SymbolWidth::Eight => self.symbols_of::<8, I>(isa),
        }
    }
}

impl<'m> ResolveCopies<'_, 'm> {
    #[inline(always)]
    fn symbols_of<const WIDTH: usize, I: InstructionSet>(self, isa: I) -> Written<'m> {
        let Self { out, symbols, distances, range, prefetch, literals, .. } = self;
        match isa.avx512_vbmi2() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the token proves that the processor has the instructions.
            Some(_) => unsafe { x86::resolve_copies::<WIDTH>(out, symbols, distances, range, prefetch, literals) },
            _ => {
                let _ = (range, prefetch);
                resolve_copies::<WIDTH>(out, symbols, distances, literals)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::{BlockCounts, MAX_MIN_MATCH, Params, SLACK, Tokens, oracle};
    use super::*;
    use crate::simd::Portable;

    /// Returns values that repeat at short, medium, and long distances or never, with runs between them.
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
    fn every_instruction_set_decodes_the_same() {
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

    /// Distances of a caller that changes them meanwhile may have more literals than the flags.
    #[test]
    fn fewer_literals_than_distances_of_0_are_no_panic() {
        fn resolve<'m>(width: SymbolWidth, distances: &'m [u8], out: &'m mut [u8]) -> ResolveCopies<'m, 'm> {
            let range = DistanceRange { has_close: true, has_far: true };
            let (prefetch, literals) = (PrefetchTargets::default(), &[7; SLACK]);
            ResolveCopies { out: out.into(), width, symbols: 500, distances, range, prefetch, literals }
        }
        let distances = [0; 500 + SLACK];
        for width in SymbolWidth::ALL {
            let mut out = vec![0; 500 * width.bytes() + SLACK];
            simd::run(resolve(width, &distances, &mut out));
            resolve(width, &distances, &mut out).run(Portable);
        }
    }

    /// Checks that damaged tokens give the same error or the same bytes with every instruction set. Returns the errors.
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
        let none = PrefetchTargets::default();
        let one = decode(&parts, (width, min_match), best.as_mut_slice().into(), symbols, none).map(|_| ());
        let decode =
            Decode { parts: &parts, width, min_match, out: portable.as_mut_slice().into(), symbols, prefetch: none };
        let mut entries = Aligned([0xA5; _]);
        let other = decode
            .in_two_passes(&mut entries, |expand| expand.run(Portable), |resolve| resolve.run(Portable))
            .map(|_| ());
        assert_eq!(one, other, "{params:?}");
        best.truncate(length);
        portable.truncate(length);
        assert!(one.is_err() || best == portable, "{params:?}");
        one.map(|()| best)
    }

    /// Returns random tokens of a block and the number of its symbols. One match in `rare` is longer than the shortest,
    /// by less than `longest`; distances are at least `nearest`.
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

    /// Decodes token by token.
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
