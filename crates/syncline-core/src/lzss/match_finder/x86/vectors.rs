//! Loads, stores and comparisons of vectors of 64 bytes.

#![allow(unsafe_code, reason = "vector loads and stores")]

use std::arch::x86_64::*;

/// Bytes of a vector.
pub(super) const VECTOR: usize = 64;

/// Loads the 64 bytes from `at` on.
#[inline(always)]
pub(super) fn load(bytes: &[u8], at: usize) -> __m512i {
    let bytes: &[u8; VECTOR] = bytes[at..at + VECTOR].try_into().expect("64 bytes");
    // SAFETY: an unaligned load of the array. All callers enable AVX-512.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// Stores 64 bytes from `at` on.
#[inline(always)]
pub(super) fn store(bytes: &mut [u8], at: usize, vector: __m512i) {
    let bytes: &mut [u8; VECTOR] = (&mut bytes[at..at + VECTOR]).try_into().expect("64 bytes");
    // SAFETY: an unaligned store to the array. All callers enable AVX-512.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector) }
}

/// Returns how many bytes from `a` and `b` on are equal, at most `most`.
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
#[inline]
pub(super) fn common_bytes(bytes: &[u8], a: usize, b: usize, most: usize) -> usize {
    let mut at = 0;
    while at < most {
        let differ = _mm512_cmpneq_epi8_mask(load(bytes, a + at), load(bytes, b + at));
        if differ != 0 {
            return most.min(at + differ.trailing_zeros() as usize);
        }
        at += VECTOR;
    }
    most
}
