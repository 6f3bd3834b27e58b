//! Rows of eight integers as AVX2 vectors, and prefix sums of rows.

#![allow(unsafe_code, reason = "AVX2 intrinsics")]

use std::arch::x86_64::*;

use crate::simd::Avx2;

/// Loads a row.
#[target_feature(enable = "avx2")]
#[inline]
pub fn load(row: &[i32; 8]) -> __m256i {
    // SAFETY: a row is 32 bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(row.as_ptr().cast()) }
}

/// Stores a row.
#[target_feature(enable = "avx2")]
#[inline]
pub fn store(row: &mut [i32; 8], v: __m256i) {
    // SAFETY: a row is 32 bytes, exclusively borrowed; the store needs no alignment.
    unsafe { _mm256_storeu_si256(row.as_mut_ptr().cast(), v) }
}

/// Returns the elements of a vector.
#[target_feature(enable = "avx2")]
#[inline]
pub fn lanes(v: __m256i) -> [i32; 8] {
    let mut row = [0; 8];
    store(&mut row, v);
    row
}

/// Returns the prefix sums of a row.
#[target_feature(enable = "avx2")]
#[inline]
pub fn prefix_x(v: __m256i) -> __m256i {
    let v = _mm256_add_epi32(v, _mm256_slli_si256::<4>(v));
    let v = _mm256_add_epi32(v, _mm256_slli_si256::<8>(v));
    // The sum of the low half goes to each element of the high half.
    let low = _mm256_permute2x128_si256::<0x08>(v, v);
    _mm256_add_epi32(v, _mm256_shuffle_epi32::<0xFF>(low))
}

/// Replaces rows of length `nx` by their prefix sums.
#[inline]
pub fn prefix_rows(_: Avx2, v: &mut [u32], nx: usize) {
    // SAFETY: the token proves that the processor has AVX2, BMI1, BMI2 and LZCNT.
    unsafe { prefix_rows_enabled(v, nx) }
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn prefix_rows_enabled(v: &mut [u32], nx: usize) {
    for row in v.chunks_exact_mut(nx) {
        let mut sum = _mm256_setzero_si256();
        let (octets, rest) = row.as_chunks_mut::<8>();
        for octet in octets {
            let octet: &mut [i32; 8] = bytemuck::cast_mut(octet);
            let sums = prefix_x(load(octet));
            store(octet, _mm256_add_epi32(sums, sum));
            // The only dependency from octet to octet is one addition.
            sum = _mm256_add_epi32(sum, _mm256_permutevar8x32_epi32(sums, _mm256_set1_epi32(7)));
        }
        let mut sum = lanes(sum)[0] as u32;
        for value in rest {
            sum = sum.wrapping_add(*value);
            *value = sum;
        }
    }
}
