//! Binary logarithm and exponential, defined by their operations (`docs/FORMAT.md`): every machine computes the same
//! bits, which no mathematical library promises.
//!
//! They use only f64 additions, multiplications and divisions, rounded to nearest and not fused.

use std::f64::consts::{LN_2, LOG2_E};

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

/// Returns log2 of a positive finite value, within about 2 units in the last place of the larger of result and 1. The
/// result for other values is unspecified.
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

/// Returns 2 to the power of `y`, within about 1 unit in the last place; 0 or infinity if the result is out of range.
/// NaN counts as a very small exponent.
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

/// Returns 2 to the power of `k`, a wrapping integer from -1022 to 1023.
#[inline(always)]
fn power_of_two(k: u64) -> f64 {
    f64::from_bits(k.wrapping_add(1023) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn powers_of_two_are_exact() {
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

    /// Streams depend on the exact bits of the results.
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn close_to_the_library(bits in 1u64..0x7FF0_0000_0000_0000, y in -1020f64..1020.0) {
            let x = f64::from_bits(bits);
            prop_assert!((log2(x) - x.log2()).abs() <= 4e-16 * x.log2().abs().max(1.0), "{x:e}");
            prop_assert!((exp2(y) / y.exp2() - 1.0).abs() < 5e-16, "{y}");
        }
    }
}
