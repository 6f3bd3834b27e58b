//! Vector kernels of full tiles: prediction, codes, and their inverse. None of them is needed: where there is none, the
//! scalar code in `predict` does the same.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod cube_avx2;
#[cfg(target_arch = "x86_64")]
pub(super) use cube_avx2::prefix_rows as prefix_rows_avx2;

use crate::predict::TileInfo;
use crate::predict::codes::{Outlier, decode_tile_scalar};
use crate::simd::dispatched;

/// A tile of 8 x 8 x 8 as rows.
#[cfg(target_arch = "x86_64")]
type Cube<T> = [[T; 8]; 64];

/// Predicts a tile of 8 x 8 x 8 and writes its codes; the second result is whether residuals lie outside the radius
/// (their code is 0). None if the machine has no vectors for it, or if the values are too far apart for its narrow
/// sums.
///
/// # Panics
/// `q` has not 512 values, or `codes` is shorter.
#[inline]
pub fn encode_cube(q: &[i32], radius: u32, codes: &mut [u16]) -> Option<(TileInfo<i32>, bool)> {
    #[cfg(target_arch = "x86_64")]
    if crate::simd::Avx2::detected().is_some() {
        let q: &Cube<i32> = q.as_chunks().0.try_into().expect("512 values");
        let codes: &mut Cube<u16> = codes[..512].as_chunks_mut().0.try_into().expect("512 codes");
        // SAFETY: the token proves that the processor has AVX2, BMI1, BMI2 and LZCNT.
        return unsafe { cube_avx2::encode(q, radius, codes) };
    }
    let _ = (q, radius, codes);
    None
}

/// Inverse of [`encode_cube`] on any codes; false if the machine has no vectors for it.
///
/// # Panics
/// `codes` or `q` has fewer than 512 entries.
#[inline]
pub fn decode_cube(codes: &[u16], predictor: u8, base: i32, radius: u32, outliers: &[Outlier], q: &mut [i32]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if crate::simd::Avx2::detected().is_some() {
        let codes: &Cube<u16> = codes[..512].as_chunks().0.try_into().expect("512 codes");
        let q: &mut Cube<i32> = q[..512].as_chunks_mut().0.try_into().expect("512 values");
        // SAFETY: the token proves that the processor has AVX2, BMI1, BMI2 and LZCNT.
        unsafe { cube_avx2::decode(codes, predictor, base, radius, outliers, q) };
        return true;
    }
    let _ = (codes, predictor, base, radius, outliers, q);
    false
}

#[inline(always)]
fn subtract_base_body(q: &[i32], out: &mut [u32]) {
    let base = q[0];
    for (out, &q) in out.iter_mut().zip(q) {
        *out = q.wrapping_sub(base) as u32;
    }
}

#[inline(always)]
fn write_codes_body(residuals: &[u32], radius: u32, codes: &mut [u16]) -> bool {
    // Residual + radius - 1 is in 0 ..= 2 radius - 2 exactly if the residual is inside.
    let mut outside = 0u32;
    for (code, &residual) in codes.iter_mut().zip(residuals) {
        let shifted = residual.wrapping_add(radius - 1);
        let inside = shifted <= 2 * radius - 2;
        outside |= u32::from(!inside);
        *code = if inside { shifted + 1 } else { 0 } as u16;
    }
    outside != 0
}

dispatched! {
    /// Integers of a tile less the first of them.
    pub fn subtract_base(q: &[i32], out: &mut [u32]) = subtract_base_body
}
dispatched! {
    /// Codes of residuals, 0 for those outside the radius; returns whether there is any.
    pub fn write_codes(residuals: &[u32], radius: u32, codes: &mut [u16]) -> bool = write_codes_body
}

dispatched! {
    /// [`decode_tile_scalar`], on tiles of any extents.
    pub fn decode_any(
        codes: &[u16], extent: [usize; 3], predictor: u8, base: i32, radius: u32, outliers: &[Outlier], q: &mut [i32],
    ) = decode_tile_scalar
}
