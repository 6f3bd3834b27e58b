//! Binary logarithm and exponential, defined by their operations (`docs/FORMAT.md`): every machine gets the same bits,
//! which no library promises.
//!
//! Only f64 additions, multiplications and divisions rounded to nearest, none of them fused.

use std::f64::consts::{LN_2, LOG2_E};
use std::marker::PhantomData;

use super::Real;
use super::mask::{MaskKind, TileMask};
use crate::arch::float::{self, StepLog};

/// Coefficients of `log2((1 + s) / (1 - s)) / s` in powers of `s^2`: `2 / ln 2 / (2 k + 1)`. With `|s| < 0.172` the
/// next one is below 2^-56.
pub const LOG_COEFFICIENTS: [f64; 11] = {
    let mut c = [0.0; 11];
    let mut k = 0;
    while k < c.len() {
        c[k] = 2.0 * LOG2_E / (2 * k + 1) as f64;
        k += 1;
    }
    c
};

/// Coefficients of `exp(t)`: `1 / k!`. With `|t| < 0.347` the next one is below 2^-57.
pub const EXP_COEFFICIENTS: [f64; 14] = {
    let mut c = [1.0; 14];
    let mut factorial = 1u64;
    let mut k = 1;
    while k < c.len() {
        factorial *= k as u64;
        c[k] = 1.0 / factorial as f64;
        k += 1;
    }
    c
};

/// Bits of the f64 next to sqrt(1/2).
pub const SQRT_HALF_BITS: u64 = 0x3FE6_A09E_667F_3BCD;

/// Evaluates a polynomial by Horner's rule.
#[inline(always)]
fn horner<const N: usize>(coefficients: &[f64; N], t: f64) -> f64 {
    let mut sum = coefficients[N - 1];
    for &c in coefficients[..N - 1].iter().rev() {
        sum = sum * t + c;
    }
    sum
}

/// Adding it to an integer below 2^51 in magnitude puts the integer into the low bits; exact, and vectors have no
/// conversion of 64 bits before AVX-512.
const MAGIC: f64 = 6_755_399_441_055_744.0;

/// log2 of a positive finite value, within about 2 units in the last place of the larger of result and 1. Of other
/// values, anything.
#[inline(always)]
pub fn log2(x: f64) -> f64 {
    let subnormal = x < f64::MIN_POSITIVE;
    let x = if subnormal { x * 18_014_398_509_481_984.0 } else { x };
    // Biased so that the shift is unsigned: there is no vector of signed 64-bit shifts before AVX-512 either.
    let offset = x.to_bits().wrapping_sub(SQRT_HALF_BITS).wrapping_add(1 << 62);
    let exponent = (offset >> 52).wrapping_sub(1 << 10);
    let m = f64::from_bits(x.to_bits().wrapping_sub(exponent << 52));
    let s = (m - 1.0) / (m + 1.0);
    let fraction = s * horner(&LOG_COEFFICIENTS, s * s);
    let whole = f64::from_bits(MAGIC.to_bits().wrapping_add(exponent)) - MAGIC;
    (whole - if subnormal { 54.0 } else { 0.0 }) + fraction
}

/// 2 to the power of `y`, within about 1 unit in the last place; 0 or infinity where that is out of range. NaN counts
/// as very small.
#[inline(always)]
pub fn exp2(y: f64) -> f64 {
    let y = if y > -2000.0 { y } else { -2000.0 };
    let y = if y < 2000.0 { y } else { 2000.0 };
    let whole = y.round_ties_even();
    let t = (y - whole) * LN_2;
    let p = horner(&EXP_COEFFICIENTS, t);
    let k = (whole + MAGIC).to_bits().wrapping_sub(MAGIC.to_bits());
    let half = (k.wrapping_add(1 << 12) >> 1).wrapping_sub(1 << 11);
    // In two factors, both normal: the product rounds once, also to a subnormal.
    p * power_of_two(half) * power_of_two(k.wrapping_sub(half))
}

/// `k` from -1022 to 1023, wrapping.
#[inline(always)]
fn power_of_two(k: u64) -> f64 {
    f64::from_bits(k.wrapping_add(1023) << 52)
}

/// Step in log2 for a relative bound `r`: twice log2(1 + r), less what rounding to the element's type (`rounding`, half
/// a unit in the last place, relative) and the logarithm itself may add. The other side, -log2(1 - r), is farther.
pub fn step(r: f64, rounding: f64) -> f64 {
    2.0 * (log2(1.0 + (r - rounding)) - 2f64.powi(-41))
}

/// The quantizer of logarithms (pipeline 3): `q = rint(log2 |x| / step)`, `|x'| = exp2(q * step)`, signs apart.
#[derive(Clone, Copy, Debug)]
pub struct Log<T> {
    step: StepLog,
    element: PhantomData<T>,
}

impl<T: Real> Log<T> {
    /// Quantizer with this step in log2 that keeps a value only if its relative error is below `ratio`.
    pub fn new(step: f64, ratio: f64) -> Self {
        Self { step: StepLog::new(step, ratio), element: PhantomData }
    }

    /// Quantizes the magnitudes of a tile (at most 1,024 values). Sets in `exact` the bits of the values that must be
    /// stored verbatim: zeros, NaN, infinities, and what is not reconstructed within the bound. Their `q` is 0. Returns
    /// whether there is any.
    ///
    /// # Panics
    /// `q` is shorter than `x`.
    #[inline]
    pub fn quantize_tile(&self, x: &[T], q: &mut [i32], exact: &mut TileMask) -> bool {
        T::quantize_log(&self.step, x, &mut q[..x.len()], exact)
    }

    /// Reconstructs magnitudes.
    ///
    /// # Panics
    /// `x` is shorter than `q`.
    #[inline]
    pub fn dequantize(&self, q: &[i32], x: &mut [T]) {
        T::dequantize_log(&self.step, q, &mut x[..q.len()]);
    }
}

/// Which elements of a tile are negative. Excluded (masked or verbatim) ones do not count, and have no bit.
pub fn signs<T: Real>(x: &[T], excluded: &TileMask) -> (MaskKind, TileMask) {
    let negative = float::negative(x).without(excluded);
    let kind = if !negative.any() {
        MaskKind::Nothing
    } else if negative == TileMask::full(x.len()).without(excluded) {
        MaskKind::All
    } else {
        MaskKind::Bitmap
    };
    (kind, negative)
}

/// Makes reconstructed magnitudes negative where the bit is set.
pub fn restore_signs<T: Real>(x: &mut [T], kind: MaskKind, negative: &TileMask) {
    let full;
    let negative = match kind {
        MaskKind::Nothing => return,
        MaskKind::All => {
            full = TileMask::full(x.len());
            &full
        }
        MaskKind::Bitmap => negative,
    };
    for (block, word) in x.chunks_mut(64).zip(negative.words()) {
        for (i, x) in block.iter_mut().enumerate() {
            *x = x.with_sign(word >> i & 1 != 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn exact_where_it_must_be() {
        for k in -1074..1024 {
            let x = exp2(f64::from(k));
            assert_eq!(log2(x), f64::from(k));
            assert_eq!(x.log2(), f64::from(k));
        }
        assert_eq!(exp2(1024.0), f64::INFINITY);
        assert_eq!(exp2(-1e300), 0.0);
        assert_eq!(exp2(f64::NAN), 0.0);
        assert_eq!(exp2(1e300), f64::INFINITY);
    }

    /// The bits themselves are the contract.
    #[test]
    fn known_bits() {
        let mut sum = 0u64;
        for i in 1..10_000u64 {
            let x = f64::from_bits(i.wrapping_mul(0x0003_4567_89AB_CDEF) % 0x7FF0_0000_0000_0000);
            sum = sum.rotate_left(7) ^ log2(x).to_bits() ^ exp2(log2(x) * 0.9).to_bits().rotate_left(32);
        }
        assert_eq!(sum, KNOWN);
    }
    const KNOWN: u64 = 15_281_604_719_138_083_875;

    /// Whether `|x - y| <= r |x|`: differences of close floats are exact, and the product is taken as a sum of two.
    fn within<T: Real>(x: T, y: T, r: f64) -> bool {
        let (x, y) = (x.wide(), y.wide());
        let (difference, product) = ((x - y).abs(), r * x.abs());
        difference - product <= r.mul_add(x.abs(), -product)
    }

    fn check<T: Real>(x: &[T], r: f64) -> Result<usize, TestCaseError> {
        let log = Log::<T>::new(step(r, if size_of::<T>() == 4 { 2f64.powi(-24) } else { 2f64.powi(-53) }), r);
        let (mut q, mut exact) = (vec![1; x.len()], TileMask::default());
        let any = log.quantize_tile(x, &mut q, &mut exact);
        prop_assert_eq!(any, exact.any());
        let (kind, negative) = signs(x, &exact);
        let mut back = x.to_vec();
        log.dequantize(&q, &mut back);
        restore_signs(&mut back, kind, &negative);
        for i in 0..x.len() {
            if exact.get(i) {
                prop_assert_eq!(q[i], 0);
            } else {
                prop_assert!(within(x[i], back[i], r), "{:?} -> {:?}, ratio {r:e}", x[i], back[i]);
                prop_assert_eq!(x[i].is_negative(), back[i].is_negative());
            }
        }
        Ok(exact.count())
    }

    #[test]
    fn special_values_are_verbatim() {
        let x = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, 1.0, -1.0, 3e38, 1e-38];
        assert_eq!(check(&x, 1e-3).unwrap(), 5);
        assert_eq!(check(&x.map(f64::from), 1e-3).unwrap(), 5);
    }

    #[test]
    fn signs_of_excluded_elements_do_not_count() {
        let mut excluded = TileMask::default();
        excluded.set(1);
        assert_eq!(signs(&[-1.0f32, 2.0, -3.0], &excluded).0, MaskKind::All);
        assert_eq!(signs(&[1.0f32, -2.0, 3.0], &excluded).0, MaskKind::Nothing);
        assert_eq!(signs(&[1.0f32, -2.0, -3.0], &excluded).0, MaskKind::Bitmap);
        let mut x = [1.0f64, 2.0, 3.0];
        restore_signs(&mut x, MaskKind::All, &excluded);
        restore_signs(&mut x, MaskKind::Nothing, &excluded);
        assert_eq!(x, [-1.0, -2.0, -3.0]);
        restore_signs(&mut x.map(f64::abs), MaskKind::Bitmap, &excluded);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn the_bound_holds_for_any_value(bits in prop::collection::vec(any::<u64>(), 1..300), exponent in -6.4f64..-0.001) {
            let r = 10f64.powf(exponent);
            let wide: Vec<f64> = bits.iter().map(|&b| f64::from_bits(b)).collect();
            let narrow: Vec<f32> = bits.iter().map(|&b| f32::from_bits(b as u32)).collect();
            check(&wide, r)?;
            check(&narrow, r)?;
        }

        #[test]
        fn ordinary_values_are_not_verbatim(y in prop::collection::vec(-120f64..120.0, 1..1024), negative in any::<bool>(), exponent in -6.0f64..-0.01) {
            let r = 10f64.powf(exponent);
            let sign = if negative { -1.0 } else { 1.0 };
            let wide: Vec<f64> = y.iter().map(|y| sign * y.exp2()).collect();
            let narrow: Vec<f32> = wide.iter().map(|&x| x as f32).collect();
            prop_assert_eq!(check(&wide, r)?, 0);
            prop_assert_eq!(check(&narrow, r)?, 0);
        }

        #[test]
        fn close_to_the_library(bits in 1u64..0x7FF0_0000_0000_0000, y in -1020f64..1020.0) {
            let x = f64::from_bits(bits);
            prop_assert!((log2(x) - x.log2()).abs() <= 4e-16 * x.log2().abs().max(1.0), "{x:e}");
            prop_assert!((exp2(y) / y.exp2() - 1.0).abs() < 5e-16, "{y}");
        }
    }
}
