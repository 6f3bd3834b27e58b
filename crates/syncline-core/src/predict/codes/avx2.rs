//! Tiles of 8 x 8 x 8 with AVX2: one vector is one row.
//!
//! With `D` a row differenced along x, `E` that along y too, `F` that along z too, the residuals are `D`, `E` and `F`
//! for predictors 1 to 3, except that predictors 1 and 2 difference their first column or element along the other axes;
//! there `E` and `F` have the right first elements.

#![allow(unsafe_code, reason = "AVX2 intrinsics")]

use std::arch::x86_64::*;

use crate::predict::avx2::{lanes, load, prefix_x, store};
use crate::predict::codes::RESIDUAL_LIMIT;
use crate::predict::tile::{Outlier, TileInfo, at_outlier};
use crate::simd::Avx2;

/// A tile of 8 x 8 x 8 as rows.
type Cube<T> = [[T; 8]; 64];

/// Predicts a tile of 8 x 8 x 8 and writes its codes. The second result is true if some residuals are outside of the
/// radius; their codes are 0.
///
/// # Panics
/// `q` has not 512 values, or `codes` is shorter.
#[inline]
pub fn encode(_: Avx2, q: &[i32], radius: u32, codes: &mut [u16]) -> (TileInfo<i32>, bool) {
    let q: &Cube<i32> = q.as_chunks().0.try_into().expect("512 values");
    let codes: &mut Cube<u16> = codes[..512].as_chunks_mut().0.try_into().expect("512 codes");
    // SAFETY: the token proves that the processor has AVX2, BMI1, BMI2 and LZCNT.
    unsafe { encode_cube(q, radius, codes) }
}

/// Reconstructs a tile's integers from any codes; the inverse of [`encode`].
///
/// # Panics
/// `codes` or `q` has fewer than 512 entries.
#[inline]
pub fn decode(_: Avx2, codes: &[u16], predictor: u8, base: i32, radius: u32, outliers: &[Outlier], q: &mut [i32]) {
    let codes: &Cube<u16> = codes[..512].as_chunks().0.try_into().expect("512 codes");
    let q: &mut Cube<i32> = q[..512].as_chunks_mut().0.try_into().expect("512 values");
    // SAFETY: the token proves that the processor has AVX2, BMI1, BMI2 and LZCNT.
    unsafe { decode_cube(codes, predictor, base, radius, outliers, q) }
}

/// Returns the differences within a row: each element minus the one before it, the first minus 0.
#[target_feature(enable = "avx2")]
#[inline]
fn difference_x(v: __m256i) -> __m256i {
    let moved = _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 0, 1, 2, 3, 4, 5, 6));
    _mm256_sub_epi32(v, _mm256_blend_epi32::<1>(moved, _mm256_setzero_si256()))
}

/// Returns `v` with its first element replaced by that of `first`.
#[target_feature(enable = "avx2")]
#[inline]
fn with_first(v: __m256i, first: __m256i) -> __m256i {
    _mm256_blend_epi32::<1>(v, first)
}

/// Calls `row` with the number of each row and its residuals under predictors 0 to 3. Residuals that are not used are
/// not computed.
#[target_feature(enable = "avx2")]
#[inline]
fn for_rows(q: &Cube<i32>, mut row: impl FnMut(usize, [__m256i; 4])) {
    let base = _mm256_set1_epi32(q[0][0]);
    let mut before_z = [_mm256_setzero_si256(); 8];
    for z in 0..8 {
        let mut before_y = _mm256_setzero_si256();
        for y in 0..8 {
            let v = _mm256_sub_epi32(load(&q[z * 8 + y]), base);
            let d = difference_x(v);
            let e = _mm256_sub_epi32(d, before_y);
            let f = _mm256_sub_epi32(e, before_z[y]);
            (before_y, before_z[y]) = (d, e);
            let residuals =
                if y == 0 { [v, with_first(d, f), with_first(e, f), f] } else { [v, with_first(d, e), e, f] };
            row(z * 8 + y, residuals);
        }
    }
}

/// Returns the sums of the residuals' magnitudes under each predictor, each [`RESIDUAL_LIMIT`] at most.
#[target_feature(enable = "avx2")]
#[inline]
fn activities(q: &Cube<i32>) -> [u64; 4] {
    let limit = _mm256_set1_epi32(RESIDUAL_LIMIT.into());
    let mut sums = [_mm256_setzero_si256(); 4];
    for_rows(q, |_, residuals| {
        for p in 0..4 {
            // The magnitude of -2^31 is 2^31 as an unsigned number.
            let magnitudes = _mm256_min_epu32(_mm256_abs_epi32(residuals[p]), limit);
            sums[p] = _mm256_add_epi32(sums[p], magnitudes);
        }
    });
    sums.map(|s| lanes(s).iter().map(|&l| u64::from(l as u32)).sum())
}

/// Writes codes. Returns false if a residual is outside of the radius; the codes are then invalid.
#[target_feature(enable = "avx2")]
#[inline]
fn write_codes<const P: usize>(q: &Cube<i32>, radius: u32, codes: &mut Cube<u16>) -> bool {
    // Residual + radius - 1 is in 0 ..= 2 radius - 2 exactly if the residual is inside.
    let shift = _mm256_set1_epi32(radius as i32 - 1);
    let mut largest = _mm256_setzero_si256();
    let mut even = _mm256_setzero_si256();
    for_rows(q, |i, residuals| {
        let shifted = _mm256_add_epi32(residuals[P], shift);
        largest = _mm256_max_epu32(largest, shifted);
        if i % 2 == 0 {
            even = shifted;
        } else {
            let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(even, shifted));
            let packed = _mm256_add_epi16(packed, _mm256_set1_epi16(1));
            let rows: &mut [u16] = codes[i - 1..=i].as_flattened_mut();
            assert_eq!(rows.len(), 16);
            // SAFETY: two rows of codes are 32 bytes, exclusively borrowed; the store needs no alignment.
            unsafe { _mm256_storeu_si256(rows.as_mut_ptr().cast(), packed) };
        }
    });
    lanes(largest).iter().all(|&l| l as u32 <= 2 * radius - 2)
}

/// Writes codes where some residuals lie outside the radius.
#[target_feature(enable = "avx2")]
#[cold]
fn write_codes_with_outliers(q: &Cube<i32>, predictor: u8, radius: u32, codes: &mut Cube<u16>) {
    for_rows(q, |i, residuals| {
        let residuals = lanes(residuals[predictor as usize]);
        for (code, r) in codes[i].iter_mut().zip(residuals) {
            *code = if r.unsigned_abs() < radius { (r as u32).wrapping_add(radius) as u16 } else { 0 };
        }
    });
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn encode_cube(q: &Cube<i32>, radius: u32, codes: &mut Cube<u16>) -> (TileInfo<i32>, bool) {
    let activities = activities(q);
    let mut predictor = 0;
    for p in 1..4 {
        if activities[p] <= activities[predictor] {
            predictor = p;
        }
    }
    let info = TileInfo { base: q[0][0], predictor: predictor as u8, activity: activities[predictor] };
    let inside = match predictor {
        _ if info.is_constant() => {
            codes.as_flattened_mut().fill(radius as u16);
            true
        }
        0 => write_codes::<0>(q, radius, codes),
        1 => write_codes::<1>(q, radius, codes),
        2 => write_codes::<2>(q, radius, codes),
        _ => write_codes::<3>(q, radius, codes),
    };
    if !inside {
        write_codes_with_outliers(q, info.predictor, radius, codes);
    }
    (info, !inside)
}

/// Reconstructs integers from the residuals of predictor `P`. `row` returns the residuals of a row.
#[target_feature(enable = "avx2")]
#[inline]
fn integrate<const P: u8>(base: i32, q: &mut Cube<i32>, row: impl Fn(usize, &Cube<i32>) -> __m256i) {
    let base = _mm256_set1_epi32(base);
    let zero = _mm256_setzero_si256();
    // Sums along z: of whole planes for predictor 3, of the very first elements for 1 and 2.
    let mut along_z = [zero; 8];
    for z in 0..8 {
        let mut along_y = zero;
        for y in 0..8 {
            let mut v = row(z * 8 + y, q);
            if P == 3 || (P != 0 && y == 0) {
                along_z[y] = _mm256_add_epi32(along_z[y], v);
                v = if P == 3 { along_z[y] } else { with_first(v, along_z[y]) };
            }
            if P != 0 {
                along_y = _mm256_add_epi32(along_y, v);
                v = if P == 1 { with_first(v, along_y) } else { along_y };
                v = prefix_x(v);
            }
            store(&mut q[z * 8 + y], _mm256_add_epi32(v, base));
        }
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn decode_cube(codes: &Cube<u16>, predictor: u8, base: i32, radius: u32, outliers: &[Outlier], q: &mut Cube<i32>) {
    let shift = _mm256_set1_epi32(radius as i32);
    let residuals = |i: usize| {
        // SAFETY: a row of codes is 16 bytes; the load needs no alignment.
        let row = unsafe { _mm_loadu_si128(codes[i].as_ptr().cast()) };
        _mm256_sub_epi32(_mm256_cvtepu16_epi32(row), shift)
    };
    if outliers.is_empty() {
        let row = |i: usize, _: &Cube<i32>| residuals(i);
        match predictor {
            0 => integrate::<0>(base, q, row),
            1 => integrate::<1>(base, q, row),
            2 => integrate::<2>(base, q, row),
            _ => integrate::<3>(base, q, row),
        }
        return;
    }
    for (i, row) in q.iter_mut().enumerate() {
        store(row, residuals(i));
    }
    for &(position, residual) in outliers {
        if let Some(value) = q.as_flattened_mut().get_mut(position as usize) {
            *value = at_outlier(*value as u32, residual, radius) as i32;
        }
    }
    let row = |i: usize, q: &Cube<i32>| load(&q[i]);
    match predictor {
        0 => integrate::<0>(base, q, row),
        1 => integrate::<1>(base, q, row),
        2 => integrate::<2>(base, q, row),
        _ => integrate::<3>(base, q, row),
    }
}
