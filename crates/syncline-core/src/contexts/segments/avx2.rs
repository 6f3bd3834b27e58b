//! Calm segments, found by a vector for each.

#![allow(unsafe_code, reason = "AVX2 intrinsics")]

use std::arch::x86_64::*;

use super::SEGMENT;
use crate::simd::Avx2;

/// Returns a bit for each of up to 32 segments: whether each of its bytes is one of two.
#[inline(always)]
pub fn segments_of(_: Avx2, segments: &[[u8; SEGMENT]], bytes: [u8; 2]) -> u32 {
    // SAFETY: the token proves that the processor has AVX2, FMA, BMI1, BMI2 and LZCNT.
    unsafe { segments_of_enabled(segments, bytes) }
}

#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
#[inline]
fn segments_of_enabled(segments: &[[u8; SEGMENT]], bytes: [u8; 2]) -> u32 {
    const { assert!(SEGMENT == size_of::<__m256i>()) };
    let [first, second] = bytes.map(|byte| _mm256_set1_epi8(byte as i8));
    segments.iter().rev().fold(0, |found, segment| {
        // SAFETY: a segment is 32 bytes; the load needs no alignment.
        let own = unsafe { _mm256_loadu_si256(segment.as_ptr().cast()) };
        let is_one = _mm256_or_si256(_mm256_cmpeq_epi8(own, first), _mm256_cmpeq_epi8(own, second));
        found << 1 | u32::from(_mm256_movemask_epi8(is_one) == -1)
    })
}
