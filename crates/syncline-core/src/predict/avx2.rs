//! Rows of eight integers as AVX2 vectors: prefix sums of rows, squares of eight rows, and costs of codes.

#![allow(unsafe_code, reason = "AVX2 intrinsics")]

use std::arch::x86_64::*;

use super::costs::COST_LOG2;
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
    if nx < 8 {
        return v.chunks_exact_mut(nx).for_each(|row| prefix_rest(row, 0));
    }
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
        if !rest.is_empty() {
            prefix_rest(rest, lanes(sum)[0] as u32);
        }
    }
}

/// Replaces the rest of a row by its prefix sums, after a sum.
#[inline(always)]
fn prefix_rest(rest: &mut [u32], mut sum: u32) {
    for value in rest {
        sum = sum.wrapping_add(*value);
        *value = sum;
    }
}

/// Replaces the rows of a square by its columns.
#[inline(always)]
pub fn transpose(_: Avx2, rows: &mut [[i32; 8]; 8]) {
    // SAFETY: the token proves that the processor has AVX2, FMA, BMI1, BMI2 and LZCNT.
    unsafe { transpose_enabled(rows) }
}

#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
#[inline]
fn transpose_enabled(rows: &mut [[i32; 8]; 8]) {
    let mut v = [_mm256_setzero_si256(); 8];
    for (v, row) in v.iter_mut().zip(&*rows) {
        *v = load(row);
    }
    let mut pairs = [_mm256_setzero_si256(); 8];
    for i in 0..4 {
        pairs[2 * i] = _mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
        pairs[2 * i + 1] = _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
    }
    // Columns of four rows, in both halves.
    let mut fours = [_mm256_setzero_si256(); 8];
    for i in 0..2 {
        for high in 0..2 {
            let (a, b) = (pairs[4 * i + high], pairs[4 * i + 2 + high]);
            fours[4 * i + 2 * high] = _mm256_unpacklo_epi64(a, b);
            fours[4 * i + 2 * high + 1] = _mm256_unpackhi_epi64(a, b);
        }
    }
    for i in 0..4 {
        store(&mut rows[i], _mm256_permute2x128_si256::<0x20>(fours[i], fours[4 + i]));
        store(&mut rows[4 + i], _mm256_permute2x128_si256::<0x31>(fours[i], fours[4 + i]));
    }
}

/// Returns the sum of the costs of codes, in groups of four ([`super::costs`]).
#[inline(always)]
pub fn total_cost(_: Avx2, codes: &[[i32; 32]]) -> u32 {
    // SAFETY: the token proves that the processor has AVX2, FMA, BMI1, BMI2 and LZCNT.
    unsafe { total_cost_enabled(codes) }
}

#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
#[inline]
fn total_cost_enabled(codes: &[[i32; 32]]) -> u32 {
    let (magnitude, one) = (_mm256_castsi256_ps(_mm256_set1_epi32(i32::MAX)), _mm256_set1_ps(1.0));
    let one_bits = _mm256_castps_si256(one);
    let factor = |row: &[i32; 8]| {
        let code = _mm256_and_ps(_mm256_cvtepi32_ps(load(row)), magnitude);
        // Doubling is exact, so that fusing does not change the result.
        _mm256_add_ps(_mm256_add_ps(code, code), one)
    };
    let mut sum = _mm256_setzero_si256();
    for codes in codes {
        let (rows, _) = codes.as_chunks::<8>();
        let [a, b, c, d] = [factor(&rows[0]), factor(&rows[1]), factor(&rows[2]), factor(&rows[3])];
        // The first codes of eight groups, the second ones, and so on.
        let (ab_low, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        let (cd_low, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
        let first = _mm256_shuffle_ps::<0x44>(ab_low, cd_low);
        let second = _mm256_shuffle_ps::<0xEE>(ab_low, cd_low);
        let third = _mm256_shuffle_ps::<0x44>(ab_high, cd_high);
        let fourth = _mm256_shuffle_ps::<0xEE>(ab_high, cd_high);
        let product = _mm256_mul_ps(_mm256_mul_ps(_mm256_mul_ps(first, second), third), fourth);
        let cost = _mm256_srli_epi32::<COST_SHIFT>(_mm256_sub_epi32(_mm256_castps_si256(product), one_bits));
        sum = _mm256_add_epi32(sum, cost);
    }
    lanes(sum).iter().map(|&sum| sum as u32).sum()
}

/// Bits of a product below the fraction bits of a cost.
const COST_SHIFT: i32 = (f32::MANTISSA_DIGITS - 1 - COST_LOG2) as i32;
