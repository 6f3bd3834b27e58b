//! The lanes of a unit as vectors of eight states.

#![allow(unsafe_code, reason = "AVX2 intrinsics")]

use std::arch::x86_64::*;

use super::{BITS_SHIFT, Division, Encoder, Events, FIRST_WITH_FURTHER, ROOM, START_SHIFT};
use crate::contexts::event::{Event, PAIRS};
use crate::contexts::lanes::{FIRST_BITS, LOWEST, MOST_LANES};
use crate::contexts::symbol::FIRST_MASK;
use crate::contexts::table::{TABLE_LOG2, TOTAL};
use crate::simd::Avx2;

/// States of a vector.
const WIDTH: usize = 8;
const _: () = assert!(ROOM >= WIDTH);

/// For each set of lanes of a vector that give a word: which bytes of the words of all lanes go to the end, in order.
static LAST_WORDS: [[u8; 2 * WIDTH]; 1 << WIDTH] = {
    let mut all = [[0; 2 * WIDTH]; 1 << WIDTH];
    let mut set = 0;
    while set < all.len() {
        let (mut lane, mut at) = (WIDTH, WIDTH);
        while lane > 0 {
            lane -= 1;
            if set >> lane & 1 != 0 {
                at -= 1;
                all[set][2 * at] = 2 * lane as u8;
                all[set][2 * at + 1] = 2 * lane as u8 + 1;
            }
        }
        set += 1;
    }
    all
};

/// Does what [`super::EncodeUnit::run_by_one`] does, for units of `VECTORS` times [`WIDTH`] lanes.
#[inline(always)]
pub fn run<const VECTORS: usize>(_: Avx2, encoder: &mut Encoder, unit: Events) -> ([u32; MOST_LANES], usize) {
    // SAFETY: the token proves that the processor has AVX2, FMA, BMI1, BMI2 and LZCNT.
    unsafe { run_enabled::<VECTORS>(encoder, unit) }
}

#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
fn run_enabled<const VECTORS: usize>(encoder: &mut Encoder, unit: Events) -> ([u32; MOST_LANES], usize) {
    let mut states = [_mm256_set1_epi32(LOWEST as i32); VECTORS];
    let mut words = Words { at: encoder.words.len(), all: &mut encoder.words };
    let divisions = &encoder.divisions;
    for list in unit.lists() {
        let (whole, rest) = list.as_chunks::<WIDTH>();
        let (groups, vectors) = whole.split_at(whole.len() / VECTORS * VECTORS);
        if !(vectors.is_empty() && rest.is_empty()) {
            let mut last = [[Event::NONE; WIDTH]; VECTORS];
            last[..vectors.len()].copy_from_slice(vectors);
            last.as_flattened_mut()[vectors.len() * WIDTH..][..rest.len()].copy_from_slice(rest);
            put_group(&last, divisions, &mut states, &mut words);
        }
        for group in groups.rchunks_exact(VECTORS) {
            put_group(group, divisions, &mut states, &mut words);
        }
    }
    let mut all = [LOWEST; MOST_LANES];
    let (of_vectors, _) = all.as_chunks_mut::<WIDTH>();
    for (to, state) in of_vectors.iter_mut().zip(states) {
        // SAFETY: eight states are 32 bytes, exclusively borrowed; the store needs no alignment.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), state) };
    }
    (all, words.at)
}

/// Words that are found from the last to the first.
struct Words<'a> {
    all: &'a mut [u16],
    at: usize,
}

/// Takes a word from each lane that is too full for what comes.
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
#[inline]
fn put(state: __m256i, is_full: __m256i, words: &mut Words) -> __m256i {
    let set = _mm256_movemask_ps(_mm256_castsi256_ps(is_full)) as u8;
    // The low halves of all lanes, in order.
    let low = _mm256_blend_epi16::<0b1010_1010>(state, _mm256_setzero_si256());
    let packed = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(low, low));
    // SAFETY: an entry is 16 bytes; the load needs no alignment.
    let order = unsafe { _mm_loadu_si128(LAST_WORDS[usize::from(set)].as_ptr().cast()) };
    let last = _mm_shuffle_epi8(_mm256_castsi256_si128(packed), order);
    let out = &mut words.all[words.at - WIDTH..words.at];
    // SAFETY: eight words are 16 bytes, exclusively borrowed; the store needs no alignment.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), last) };
    words.at -= set.count_ones() as usize;
    _mm256_blendv_epi8(state, _mm256_srli_epi32::<16>(state), is_full)
}

/// Codes a group, the last event first.
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
#[inline]
fn put_group<const VECTORS: usize>(
    group: &[[Event; WIDTH]],
    divisions: &[Division],
    states: &mut [__m256i; VECTORS],
    words: &mut Words,
) {
    let mut events = [_mm256_setzero_si256(); VECTORS];
    let mut most = _mm256_setzero_si256();
    for (event, from) in events.iter_mut().zip(group) {
        // SAFETY: eight events, which are integers, are 32 bytes; the load needs no alignment.
        *event = unsafe { _mm256_loadu_si256(from.as_ptr().cast()) };
        most = _mm256_max_epu32(most, *event);
    }
    // Events are below 2^31, so that they may be compared as signed integers.
    let first = _mm256_set1_epi32(FIRST_WITH_FURTHER.0 as i32 - 1);
    if _mm256_movemask_epi8(_mm256_cmpgt_epi32(most, first)) != 0 {
        for v in (0..VECTORS).rev() {
            states[v] = put_further(events[v], states[v], words);
        }
    }
    for v in (0..VECTORS).rev() {
        states[v] = put_symbols(events[v], divisions, states[v], words);
    }
}

/// Codes the raw bits that do not leave a state together with the symbol.
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
#[inline]
fn put_further(event: __m256i, state: __m256i, words: &mut Words) -> __m256i {
    let zero = _mm256_setzero_si256();
    // From 8 on, symbols have a quarter of their number of raw bits.
    let quarter = _mm256_srli_epi32::<{ Event::SYMBOL_SHIFT as i32 + 2 }>(event);
    let count = _mm256_max_epi32(_mm256_sub_epi32(quarter, _mm256_set1_epi32(FIRST_BITS as i32)), zero);
    // Masks have none.
    let is_mask = _mm256_cmpgt_epi32(quarter, _mm256_set1_epi32(i32::from(FIRST_MASK) / 4 - 1));
    let count = _mm256_andnot_si256(is_mask, count);
    // A shift by 32, of lanes without such bits, gives 0.
    let above = _mm256_srlv_epi32(state, _mm256_sub_epi32(_mm256_set1_epi32(32), count));
    let before = put(state, _mm256_cmpgt_epi32(above, zero), words);
    let bits = _mm256_and_si256(event, _mm256_set1_epi32(Event::BITS_MASK as i32));
    let further = _mm256_srli_epi32::<{ FIRST_BITS as i32 }>(bits);
    _mm256_or_si256(_mm256_sllv_epi32(before, count), further)
}

/// Codes the symbols, and the raw bits that leave a state together with them.
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
#[inline]
fn put_symbols(event: __m256i, divisions: &[Division], state: __m256i, words: &mut Words) -> __m256i {
    assert!(divisions.len() == PAIRS);
    const { assert!(PAIRS.is_power_of_two() && size_of::<Division>() == 8) };
    let one = _mm256_set1_epi32(1);
    let pair = _mm256_srli_epi32::<{ Event::PAIR_SHIFT as i32 }>(event);
    let pair = _mm256_and_si256(pair, _mm256_set1_epi32(PAIRS as i32 - 1));
    let from = divisions.as_ptr().cast::<i32>();
    // SAFETY: a pair is below PAIRS, the number of divisions, each of which is two integers.
    let inverse = unsafe { _mm256_i32gather_epi32::<8>(from, pair) };
    // SAFETY: as above, of the second integer.
    let fields = unsafe { _mm256_i32gather_epi32::<8>(from.add(1), pair) };
    let frequency = _mm256_and_si256(fields, _mm256_set1_epi32((1 << START_SHIFT) - 1));
    let start = _mm256_srli_epi32::<{ START_SHIFT as i32 }>(fields);
    let start = _mm256_and_si256(start, _mm256_set1_epi32(TOTAL as i32 - 1));
    let count = _mm256_srli_epi32::<{ BITS_SHIFT as i32 }>(fields);
    let room = _mm256_sub_epi32(_mm256_set1_epi32(32 - TABLE_LOG2 as i32), count);
    // At least 16 bits are shifted out, so that signed integers may be compared.
    let has_room = _mm256_cmpgt_epi32(frequency, _mm256_srlv_epi32(state, room));
    let is_full = _mm256_xor_si256(has_room, _mm256_set1_epi32(-1));
    let before = put(state, is_full, words);
    let mask = _mm256_sub_epi32(_mm256_sllv_epi32(one, count), one);
    let above = _mm256_or_si256(_mm256_sllv_epi32(before, count), _mm256_and_si256(event, mask));
    // The high halves of the products, of lanes with even and odd numbers.
    let even = _mm256_srli_epi64::<32>(_mm256_mul_epu32(above, inverse));
    let odd = _mm256_mul_epu32(_mm256_srli_epi64::<32>(above), _mm256_srli_epi64::<32>(inverse));
    let quotient = _mm256_blend_epi32::<0b1010_1010>(even, odd);
    let rest = _mm256_sub_epi32(above, _mm256_mullo_epi32(quotient, frequency));
    let is_less = _mm256_cmpgt_epi32(frequency, rest);
    let more = _mm256_andnot_si256(is_less, _mm256_sub_epi32(_mm256_set1_epi32(TOTAL as i32), frequency));
    let sum = _mm256_add_epi32(_mm256_add_epi32(start, rest), more);
    _mm256_add_epi32(_mm256_slli_epi32::<{ TABLE_LOG2 as i32 }>(quotient), sum)
}
