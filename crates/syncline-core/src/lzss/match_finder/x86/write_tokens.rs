//! Writes the tokens that start at some of 64 positions.

use std::arch::x86_64::*;

use super::super::block_tokens::{TokenCounts, TokensOut, WRITE_SLACK};
use super::vectors::{VECTOR, load, store};

/// Writes the tokens that start at those of 64 positions that are set in `starts`. `bytes` begins with the symbols of
/// these positions; `matches` and `literals` (bytes) are what `out` holds already. Returns one flag for each token.
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
#[inline]
pub(super) fn write_tokens<const WIDTH: usize>(
    starts: u64,
    lengths: &[u8],
    distances: &[u8],
    min_match: usize,
    bytes: &[u8],
    out: &mut TokensOut,
    (matches, literals): (usize, usize),
) -> u64 {
    let distances = load(distances, 0);
    let of_matches = _mm512_test_epi8_mask(distances, distances) & starts;
    if of_matches != 0 {
        let stored = _mm512_sub_epi8(load(lengths, 0), _mm512_set1_epi8(min_match as i8));
        store(out.lengths, matches, _mm512_maskz_compress_epi8(of_matches, stored));
        store(out.distances, matches, _mm512_maskz_compress_epi8(of_matches, distances));
    }
    let of_literals = starts & !of_matches;
    let bytes: &[u8; WRITE_SLACK] = bytes[..WRITE_SLACK].try_into().expect("WRITE_SLACK bytes");
    let mut at = literals;
    for number in 0..WIDTH {
        let lanes = VECTOR / WIDTH;
        let mask = of_literals >> (number * lanes) & u64::MAX >> (VECTOR - lanes);
        let symbols = load(bytes, number * VECTOR);
        let symbols = match WIDTH {
            1 => _mm512_maskz_compress_epi8(mask, symbols),
            2 => _mm512_maskz_compress_epi16(mask as u32, symbols),
            4 => _mm512_maskz_compress_epi32(mask as u16, symbols),
            _ => _mm512_maskz_compress_epi64(mask as u8, symbols),
        };
        store(out.literals, at, symbols);
        at += mask.count_ones() as usize * WIDTH;
    }
    _pext_u64(of_matches, starts)
}

/// The numbers of a block's tokens and bytes that have been written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    /// Number of tokens.
    pub tokens: usize,
    /// Number of matches.
    pub matches: usize,
    /// Bytes of literals.
    pub literals: usize,
    /// Flags of the last word while it is incomplete.
    pub flags: u64,
}

impl Written {
    /// Adds tokens, and writes their flags whenever a word is complete.
    #[inline(always)]
    pub fn add<const WIDTH: usize>(&mut self, flags: u64, tokens: u32, out: &mut [u64]) {
        let shift = (self.tokens % 64) as u32;
        self.flags |= flags << shift;
        if shift + tokens >= 64 {
            out[self.tokens / 64] = self.flags;
            self.flags = flags.checked_shr(64 - shift).unwrap_or(0);
        }
        let matches = flags.count_ones();
        self.tokens += tokens as usize;
        self.matches += matches as usize;
        self.literals += (tokens - matches) as usize * WIDTH;
    }

    /// Writes the flags of the last word if it is incomplete. Returns the counts.
    #[inline(always)]
    pub fn finish(self, out: &mut [u64]) -> TokenCounts {
        if !self.tokens.is_multiple_of(64) {
            out[self.tokens / 64] = self.flags;
        }
        TokenCounts { tokens: self.tokens, matches: self.matches }
    }
}
