//! Elements of segments by vectors.

#![allow(unsafe_code, reason = "AVX2 intrinsics")]

use std::arch::x86_64::*;

use super::append::keep_coded_by_one;
use super::{Bits, ROOM, SEGMENT, WORD, WORDS, expected_events};
use crate::contexts::activity::Contexts;
use crate::contexts::event::Event;
use crate::contexts::symbol::code_of_mask;
use crate::simd::Avx2;

/// Integers of a vector.
const WIDTH: usize = 8;
const _: () = assert!(WIDTH == ROOM && WORD == size_of::<__m256i>() && WORD.is_multiple_of(WIDTH));

/// For each set of lanes: their numbers, in order.
static LANES: [[u8; WIDTH]; 1 << WIDTH] = {
    let mut all = [[0; WIDTH]; 1 << WIDTH];
    let mut set = 0;
    while set < all.len() {
        let (mut lane, mut at) = (0, 0);
        while lane < WIDTH {
            if set >> lane & 1 != 0 {
                all[set][at] = lane as u8;
                at += 1;
            }
            lane += 1;
        }
        set += 1;
    }
    all
};

/// For each set of lanes: how many of them are before each lane.
static BEFORE: [[u8; WIDTH]; 1 << WIDTH] = {
    let mut all = [[0; WIDTH]; 1 << WIDTH];
    let mut set = 0;
    while set < all.len() {
        let mut lane = 0;
        while lane < WIDTH {
            all[set][lane] = (set & ((1 << lane) - 1)).count_ones() as u8;
            lane += 1;
        }
        set += 1;
    }
    all
};

/// Returns eight bytes as a vector.
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
#[inline]
fn bytes(bytes: [u8; WIDTH]) -> __m128i {
    _mm_cvtsi64_si128(i64::from_le_bytes(bytes))
}

/// Does what [`super::read::bytes_of`] does.
#[inline(always)]
pub fn bytes_of(_: Avx2, all: &[[u8; WORD]], bytes: [u8; 2]) -> Bits {
    // SAFETY: the token proves that the processor has AVX2, FMA, BMI1, BMI2 and LZCNT.
    unsafe { bytes_of_enabled(all, bytes) }
}

#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
#[inline]
fn bytes_of_enabled(all: &[[u8; WORD]], bytes: [u8; 2]) -> Bits {
    let [first, second] = bytes.map(|byte| _mm256_set1_epi8(byte as i8));
    let mut found = [0; WORDS];
    for (found, word) in found.iter_mut().zip(all) {
        // SAFETY: a word is 32 bytes; the load needs no alignment.
        let own = unsafe { _mm256_loadu_si256(word.as_ptr().cast()) };
        let is_one = _mm256_or_si256(_mm256_cmpeq_epi8(own, first), _mm256_cmpeq_epi8(own, second));
        *found = _mm256_movemask_epi8(is_one) as u32;
    }
    found
}

/// Does what [`super::read::gather_by_one`] does.
#[inline(always)]
pub fn gather(
    _: Avx2,
    of_codes: &[[u8; WORD]],
    quiet_and_found: [u8; 2],
    coded: &Bits,
    out: &mut [u8; SEGMENT + ROOM],
) -> usize {
    // SAFETY: the token proves that the processor has AVX2, FMA, BMI1, BMI2 and LZCNT.
    unsafe { gather_enabled(of_codes, quiet_and_found, coded, out) }
}

#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
#[inline]
fn gather_enabled(
    of_codes: &[[u8; WORD]],
    quiet_and_found: [u8; 2],
    coded: &Bits,
    out: &mut [u8; SEGMENT + ROOM],
) -> usize {
    let [quiet, found] = quiet_and_found.map(|table| _mm_set1_epi8(table as i8));
    let mut count = 0;
    for (word, bits) in of_codes.iter().zip(coded).filter(|(_, bits)| **bits != 0) {
        let (eights, _) = word.as_chunks::<WIDTH>();
        for (&tables, set) in eights.iter().zip(bits.to_le_bytes()) {
            let tables = bytes(tables);
            let tables = _mm_blendv_epi8(tables, found, _mm_cmpeq_epi8(tables, quiet));
            let kept = _mm_shuffle_epi8(tables, bytes(LANES[usize::from(set)]));
            out[count..count + WIDTH].copy_from_slice(&_mm_cvtsi128_si64(kept).to_le_bytes());
            count += set.count_ones() as usize;
        }
    }
    count
}

/// Does what [`super::read::spread_by_one`] does.
#[inline(always)]
pub fn spread(
    _: Avx2,
    of_codes: &[[u8; WORD]],
    masked: u8,
    coded: &Bits,
    from: &[i32; SEGMENT + ROOM],
    codes: &mut [i32],
) {
    // SAFETY: the token proves that the processor has AVX2, FMA, BMI1, BMI2 and LZCNT.
    unsafe { spread_enabled(of_codes, masked, coded, from, codes) }
}

#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
#[inline]
fn spread_enabled(of_codes: &[[u8; WORD]], masked: u8, coded: &Bits, from: &[i32; SEGMENT + ROOM], codes: &mut [i32]) {
    let mask = _mm256_set1_epi32(code_of_mask(0));
    let masked = _mm256_set1_epi32(masked.into());
    let lanes = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    let sets = coded.iter().flat_map(|bits| bits.to_le_bytes());
    let (tables, (codes, _)) = (of_codes.as_flattened().as_chunks::<WIDTH>().0, codes.as_chunks_mut::<WIDTH>());
    let mut at = 0;
    for ((codes, &tables), set) in codes.iter_mut().zip(tables).zip(sets) {
        let is_masked = _mm256_cmpeq_epi32(_mm256_cvtepu8_epi32(bytes(tables)), masked);
        let mut all = _mm256_and_si256(is_masked, mask);
        if set != 0 {
            let next: &[i32; WIDTH] = from[at..].first_chunk().unwrap_or(&[0; WIDTH]);
            // SAFETY: eight codes are 32 bytes; the load needs no alignment.
            let next = unsafe { _mm256_loadu_si256(next.as_ptr().cast()) };
            let next = _mm256_permutevar8x32_epi32(next, _mm256_cvtepu8_epi32(bytes(BEFORE[usize::from(set)])));
            let is_coded = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(set.into()), lanes), lanes);
            all = _mm256_blendv_epi8(all, next, is_coded);
            at += set.count_ones() as usize;
        }
        // SAFETY: eight codes are 32 bytes, exclusively borrowed; the store needs no alignment.
        unsafe { _mm256_storeu_si256(codes.as_mut_ptr().cast(), all) };
    }
}

/// Does what [`super::append::keep_coded_by_one`] does.
#[inline(always)]
pub fn keep_coded(_: Avx2, segment: &[Event], contexts: &Contexts, out: &mut [Event]) -> usize {
    // SAFETY: the token proves that the processor has AVX2, FMA, BMI1, BMI2 and LZCNT.
    unsafe { keep_coded_enabled(segment, contexts, out) }
}

#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
#[inline]
fn keep_coded_enabled(segment: &[Event], contexts: &Contexts, out: &mut [Event]) -> usize {
    let [zero, mask] = expected_events(contexts).map(|event| _mm256_set1_epi32(event.0 as i32));
    let of_contexts = _mm256_set1_epi32(Event::CONTEXT_MASK as i32);
    let quiet = _mm256_and_si256(zero, of_contexts);
    let change = (u32::from(contexts.quiet()) ^ u32::from(contexts.found)) << Event::PAIR_SHIFT;
    let (change, mut count) = (_mm256_set1_epi32(change as i32), 0);
    let (vectors, rest) = segment.as_chunks::<WIDTH>();
    for events in vectors {
        // SAFETY: eight events, which are integers, are 32 bytes; the load needs no alignment.
        let events = unsafe { _mm256_loadu_si256(events.as_ptr().cast()) };
        let is_expected = _mm256_or_si256(_mm256_cmpeq_epi32(events, zero), _mm256_cmpeq_epi32(events, mask));
        let set = !_mm256_movemask_ps(_mm256_castsi256_ps(is_expected)) as u8;
        let is_quiet = _mm256_cmpeq_epi32(_mm256_and_si256(events, of_contexts), quiet);
        let events = _mm256_xor_si256(events, _mm256_and_si256(is_quiet, change));
        let kept = _mm256_permutevar8x32_epi32(events, _mm256_cvtepu8_epi32(bytes(LANES[usize::from(set)])));
        let to = &mut out[count..count + WIDTH];
        // SAFETY: eight events are 32 bytes, exclusively borrowed; the store needs no alignment.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), kept) };
        count += set.count_ones() as usize;
    }
    count + keep_coded_by_one(rest, contexts, &mut out[count..])
}
