//! The lanes of a unit as vectors of eight states.

#![allow(unsafe_code, reason = "AVX2 intrinsics")]

use std::arch::x86_64::*;

use super::{Decoder, FIRST_BITS, SlotTables, TABLES};
use crate::contexts::symbol::FIRST_MASK;
use crate::contexts::table::{TABLE_LOG2, TOTAL};
use crate::simd::Avx2;

/// States of a vector.
const WIDTH: usize = 8;

/// For each set of lanes of a vector that take a word: the number of the word of each of them.
static WORD_OF_LANE: [[u8; WIDTH]; 1 << WIDTH] = {
    let mut all = [[0; WIDTH]; 1 << WIDTH];
    let mut set = 0;
    while set < all.len() {
        let (mut lane, mut words) = (0, 0);
        while lane < WIDTH {
            all[set][lane] = words;
            words += (set >> lane & 1) as u8;
            lane += 1;
        }
        set += 1;
    }
    all
};

/// Bytes of a load of words.
const LOADED: usize = 16;
/// Bytes that a group of `vectors` may read, in both of its steps.
const fn reach(vectors: usize) -> usize {
    2 * vectors * 2 * WIDTH + LOADED
}

/// Does what [`Decoder::list_by_one`] does, for units of `VECTORS` times [`WIDTH`] lanes.
#[inline(always)]
pub fn run<const VECTORS: usize>(
    _: Avx2,
    decoder: &mut Decoder,
    of_codes: &[u8],
    tables: &SlotTables,
    codes: &mut [i32],
) {
    // SAFETY: the token proves that the processor has AVX2, FMA, BMI1, BMI2 and LZCNT.
    unsafe { run_enabled::<VECTORS>(decoder, of_codes, tables, codes) }
}

#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
fn run_enabled<const VECTORS: usize>(decoder: &mut Decoder, of_codes: &[u8], tables: &SlotTables, codes: &mut [i32]) {
    let mut states = [_mm256_setzero_si256(); VECTORS];
    let (of_decoder, _) = decoder.states.as_chunks_mut::<WIDTH>();
    for (state, from) in states.iter_mut().zip(&*of_decoder) {
        // SAFETY: eight states are 32 bytes; the load needs no alignment.
        *state = unsafe { _mm256_loadu_si256(from.as_ptr().cast()) };
    }
    let (of_codes, _) = of_codes.as_chunks::<WIDTH>();
    let (codes, _) = codes.as_chunks_mut::<WIDTH>();
    let mut at = decoder.at;
    for (of_codes, codes) in of_codes.chunks_exact(VECTORS).zip(codes.chunks_exact_mut(VECTORS)) {
        let mut words = Words::new::<VECTORS>(decoder.words, &mut at);
        group(of_codes, &tables.slots, &mut states, &mut words, codes);
    }
    decoder.at = at;
    for (state, to) in states.iter().zip(of_decoder) {
        // SAFETY: eight states are 32 bytes, exclusively borrowed; the store needs no alignment.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), *state) };
    }
}

/// The next words, and zeros behind the last.
struct Words<'a> {
    all: &'a [u8],
    /// A copy of the last words, if a group could read beyond them.
    last: [u8; reach(4)],
    is_last: bool,
    /// Bytes that the group has taken.
    taken: usize,
    /// Byte of the first word of the group, which moves on when it ends.
    at: &'a mut usize,
}

impl<'a> Words<'a> {
    #[inline(always)]
    fn new<const VECTORS: usize>(all: &'a [u8], at: &'a mut usize) -> Self {
        const { assert!(VECTORS <= 4) };
        let is_last = at.saturating_add(reach(VECTORS)) > all.len();
        let mut words = Self { all, last: [0; reach(4)], is_last, taken: 0, at };
        if is_last {
            let rest = all.get(*words.at..).unwrap_or_default();
            words.last[..rest.len()].copy_from_slice(rest);
        }
        words
    }

    /// Returns the next eight words, as integers.
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
    #[inline]
    fn next(&self) -> __m256i {
        let from = if self.is_last { self.last.as_ptr() } else { self.all[*self.at..].as_ptr() };
        // SAFETY: a group takes at most 16 bytes for each of its vectors in each of its steps, and 16 more than it has
        // taken so far are within `reach`, by which `last` is long, and `all` behind `at` if it is not the last.
        _mm256_cvtepu16_epi32(unsafe { _mm_loadu_si128(from.add(self.taken).cast()) })
    }
}

impl Drop for Words<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        *self.at += self.taken;
    }
}

/// Gives each lane whose state is too small the next word.
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
#[inline]
fn refill(state: __m256i, words: &mut Words) -> __m256i {
    let is_small = _mm256_cmpeq_epi32(_mm256_srli_epi32::<16>(state), _mm256_setzero_si256());
    let set = _mm256_movemask_ps(_mm256_castsi256_ps(is_small)) as u8;
    let numbers = i64::from_le_bytes(WORD_OF_LANE[usize::from(set)]);
    let numbers = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(numbers));
    let word = _mm256_permutevar8x32_epi32(words.next(), numbers);
    // The number of set bits is that of the last lane's word, and one if it takes that.
    words.taken += 2 * (usize::from(WORD_OF_LANE[usize::from(set)][WIDTH - 1]) + usize::from(set >> (WIDTH - 1)));
    let filled = _mm256_or_si256(_mm256_slli_epi32::<16>(state), word);
    _mm256_blendv_epi8(state, filled, is_small)
}

/// Decodes a group.
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
#[inline]
fn group<const VECTORS: usize>(
    of_codes: &[[u8; WIDTH]],
    slots: &[u32],
    states: &mut [__m256i; VECTORS],
    words: &mut Words,
    codes: &mut [[i32; WIDTH]],
) {
    const LOG2: i32 = TABLE_LOG2 as i32;
    assert!(slots.len() == TABLES << TABLE_LOG2);
    let (zero, one) = (_mm256_setzero_si256(), _mm256_set1_epi32(1));
    let slot_mask = _mm256_set1_epi32(TOTAL as i32 - 1);
    let first_bits = _mm256_set1_epi32(FIRST_BITS as i32);
    let last_code = _mm256_set1_epi32(i32::from(FIRST_MASK) - 1);
    let (mut symbols, mut counts, mut bits) = ([zero; VECTORS], [zero; VECTORS], [zero; VECTORS]);
    let mut most = zero;
    for v in 0..VECTORS {
        let table = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(i64::from_le_bytes(of_codes[v])));
        let table = _mm256_and_si256(table, _mm256_set1_epi32(TABLES as i32 - 1));
        let slot = _mm256_and_si256(states[v], slot_mask);
        let place = _mm256_or_si256(_mm256_slli_epi32::<LOG2>(table), slot);
        // SAFETY: a table is below TABLES and a slot below TOTAL, so that their place is one of `slots`.
        let found = unsafe { _mm256_i32gather_epi32::<4>(slots.as_ptr().cast(), place) };
        let frequency = _mm256_add_epi32(_mm256_and_si256(found, slot_mask), one);
        let offset = _mm256_and_si256(_mm256_srli_epi32::<LOG2>(found), slot_mask);
        let symbol = _mm256_srli_epi32::<{ 2 * LOG2 }>(found);
        let state = _mm256_mullo_epi32(frequency, _mm256_srli_epi32::<LOG2>(states[v]));
        let state = _mm256_add_epi32(state, offset);
        let count = _mm256_max_epi32(_mm256_srli_epi32::<2>(symbol), _mm256_min_epi32(symbol, one));
        let count = _mm256_andnot_si256(_mm256_cmpgt_epi32(symbol, last_code), count);
        let first = _mm256_min_epi32(count, first_bits);
        let mask = _mm256_sub_epi32(_mm256_sllv_epi32(one, first), one);
        bits[v] = _mm256_and_si256(state, mask);
        states[v] = refill(_mm256_srlv_epi32(state, first), words);
        (symbols[v], counts[v]) = (symbol, count);
        most = _mm256_max_epi32(most, count);
    }
    if _mm256_movemask_epi8(_mm256_cmpgt_epi32(most, first_bits)) != 0 {
        for v in 0..VECTORS {
            let count = _mm256_max_epi32(_mm256_sub_epi32(counts[v], first_bits), zero);
            let mask = _mm256_sub_epi32(_mm256_sllv_epi32(one, count), one);
            let further = _mm256_and_si256(states[v], mask);
            bits[v] = _mm256_or_si256(bits[v], _mm256_sllv_epi32(further, first_bits));
            states[v] = refill(_mm256_srlv_epi32(states[v], count), words);
        }
    }
    for v in 0..VECTORS {
        let quarter = _mm256_srli_epi32::<2>(symbols[v]);
        let large = _mm256_or_si256(_mm256_and_si256(symbols[v], _mm256_set1_epi32(3)), _mm256_set1_epi32(4));
        // Symbols below 4 are their magnitude; a shift by -1 gives 0.
        let large = _mm256_sllv_epi32(large, _mm256_sub_epi32(quarter, one));
        let small = _mm256_and_si256(symbols[v], _mm256_cmpeq_epi32(quarter, zero));
        let base = _mm256_or_si256(large, small);
        let magnitude = _mm256_add_epi32(base, _mm256_srli_epi32::<1>(bits[v]));
        let sign = _mm256_sub_epi32(zero, _mm256_and_si256(bits[v], one));
        let code = _mm256_sub_epi32(_mm256_xor_si256(magnitude, sign), sign);
        // SAFETY: eight codes are 32 bytes, exclusively borrowed; the store needs no alignment.
        unsafe { _mm256_storeu_si256(codes[v].as_mut_ptr().cast(), code) };
    }
}
