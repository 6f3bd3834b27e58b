//! Which bytes are one of two, by vectors.

#![allow(unsafe_code, reason = "AVX2 intrinsics")]

use std::arch::x86_64::*;

use super::{Bits, WORD, WORDS};
use crate::simd::Avx2;

/// Does what [`super::bytes_of`] does.
#[inline(always)]
pub fn bytes_of(_: Avx2, all: &[[u8; WORD]], bytes: [u8; 2]) -> Bits {
    // SAFETY: the token proves that the processor has AVX2, FMA, BMI1, BMI2 and LZCNT.
    unsafe { bytes_of_enabled(all, bytes) }
}

#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
#[inline]
fn bytes_of_enabled(all: &[[u8; WORD]], bytes: [u8; 2]) -> Bits {
    const { assert!(WORD == size_of::<__m256i>()) };
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
