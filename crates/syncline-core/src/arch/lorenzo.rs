//! Vector kernels of the Lorenzo predictor on tiles of any extents.
//!
//! Differences are taken over the whole tile as one long row, which vectorizes well, and put right where they crossed
//! an edge.

#![allow(unsafe_code)]

use crate::predict::lorenzo::{Scratch, Word, prefix_rows_simple};
use crate::simd::dispatched;

/// Sum of magnitudes, saturating.
#[inline(always)]
fn activity<W: Word>(residuals: &[W]) -> u64 {
    if W::BITS <= 16 {
        // At most 1,024 times 2^15.
        return u64::from(residuals.iter().map(|r| r.magnitude() as u32).sum::<u32>());
    }
    let sum = residuals.iter().fold(0u64, |sum, r| sum.wrapping_add(r.magnitude()));
    if W::BITS == 64 {
        // At most 1,024 numbers below 2^54 cannot overflow.
        let bits = residuals.iter().fold(0u64, |bits, r| bits | r.magnitude());
        if bits >> 54 != 0 {
            return residuals.iter().fold(0u64, |sum, r| sum.saturating_add(r.magnitude()));
        }
    }
    sum
}

/// `out[i] = v[i] - v[i - distance]`, the first `distance` as they are.
#[inline(always)]
fn difference<W: Word>(v: &[W], distance: usize, out: &mut [W]) {
    let distance = distance.min(v.len());
    out[..distance].copy_from_slice(&v[..distance]);
    for ((out, a), b) in out[distance..].iter_mut().zip(&v[distance..]).zip(v) {
        *out = a.minus(*b);
    }
}

/// See [`Word::predict`].
#[inline(always)]
fn predict<W: Word>(v: &mut [W], extent: [usize; 3], axes: usize, scratch: &mut Scratch<W>) -> (u8, u64) {
    let [_, ny, nx] = extent;
    let (n, plane) = (v.len(), ny * nx);
    let [x, xy, xyz] = &mut scratch.0;
    let (x, xy, xyz) = (&mut x[..n], &mut xy[..n], &mut xyz[..n]);
    let mut best = (0, activity(v));
    let mut consider = |predictor: u8, activity: u64| {
        if activity < best.1 || (activity == best.1 && predictor > best.0) {
            best = (predictor, activity);
        }
    };
    difference(v, 1, x);
    for row in (0..n).step_by(nx) {
        x[row] = v[row];
    }
    if axes >= 2 {
        difference(x, nx, xy);
        for row in (0..n).step_by(plane) {
            xy[row..row + nx].copy_from_slice(&x[row..row + nx]);
        }
    }
    if axes >= 3 {
        difference(xy, plane, xyz);
        consider(3, activity(xyz));
    }
    // The first elements of predictors 1 and 2 are differenced along the other axes; nothing above reads them any more.
    for row in (plane..n).step_by(plane).rev() {
        let along_z = v[row].minus(v[row - plane]);
        xy[row] = along_z;
        x[row] = along_z;
    }
    for z in (0..n).step_by(plane) {
        for row in (z + nx..z + plane).step_by(nx) {
            x[row] = v[row].minus(v[row - nx]);
        }
    }
    consider(1, activity(x));
    if axes >= 2 {
        consider(2, activity(xy));
    }
    match best.0 {
        0 => {}
        1 => v.copy_from_slice(x),
        2 => v.copy_from_slice(xy),
        _ => v.copy_from_slice(xyz),
    }
    best
}

dispatched! {
    /// [`Word::predict`] for u8.
    pub fn predict_u8(v: &mut [u8], extent: [usize; 3], axes: usize, scratch: &mut Scratch<u8>) -> (u8, u64) = predict::<u8>
}
dispatched! {
    /// [`Word::predict`] for u16.
    pub fn predict_u16(v: &mut [u16], extent: [usize; 3], axes: usize, scratch: &mut Scratch<u16>) -> (u8, u64) = predict::<u16>
}
dispatched! {
    /// [`Word::predict`] for u32.
    pub fn predict_u32(v: &mut [u32], extent: [usize; 3], axes: usize, scratch: &mut Scratch<u32>) -> (u8, u64) = predict::<u32>
}
dispatched! {
    /// [`Word::predict`] for u64.
    pub fn predict_u64(v: &mut [u64], extent: [usize; 3], axes: usize, scratch: &mut Scratch<u64>) -> (u8, u64) = predict::<u64>
}

/// [`Word::prefix_rows`] for u32.
#[inline]
pub fn prefix_rows_u32(v: &mut [u32], nx: usize) {
    #[cfg(target_arch = "x86_64")]
    if nx >= 8 && crate::simd::Avx2::detected().is_some() {
        // SAFETY: the token proves that the processor has AVX2, BMI1, BMI2 and LZCNT.
        return unsafe { super::tile::prefix_rows_avx2(v, nx) };
    }
    prefix_rows_simple(v, nx);
}
