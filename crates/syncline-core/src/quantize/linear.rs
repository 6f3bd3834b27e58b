//! Linear quantization (pipeline 2): `q = rint(x / step)`, `x' = q * step`, by the operations that `docs/FORMAT.md`
//! states.

use super::Real;
use super::mask::TileMask;
use crate::arch::float::{self, StepF32, StepF64, StepLog};
use crate::geometry::MAX_TILE_ELEMENTS;

/// The quantizer of one step and bound.
#[derive(Clone, Copy, Debug)]
pub struct Linear<T: Real> {
    step: T::Step,
    bound: f64,
}

impl<T: Real> Linear<T> {
    /// Quantizer that reconstructs `q * step` and keeps a value only if its error is below `bound`.
    pub fn new(step: f64, bound: f64) -> Self {
        Self { step: T::step(step, bound), bound }
    }

    /// Quantizes a tile (at most 1,024 values). Sets in `exact` the bits of the values that must be stored verbatim:
    /// NaN, infinities, -0.0, and what is not reconstructed within the bound. Their `q` is 0. Returns whether there is
    /// any.
    ///
    /// # Panics
    /// `q` is shorter than `x`.
    #[inline]
    pub fn quantize_tile(&self, x: &[T], q: &mut [i32], exact: &mut TileMask) -> bool {
        T::quantize(&self.step, x, q, exact)
    }

    /// Reconstructs values.
    ///
    /// # Panics
    /// `x` is shorter than `q`.
    #[inline]
    pub fn dequantize(&self, q: &[i32], x: &mut [T]) {
        T::dequantize(&self.step, q, x);
    }

    /// Sum of squared errors of a tile's elements that are not excluded, in units of `(bound * 2^-15)^2`: errors are
    /// rounded to integers of `bound * 2^-15`, so sums over tiles do not depend on their order. See
    /// [`mean_squared_error`].
    ///
    /// # Panics
    /// `q` is shorter than `x`, or `x` has more than 1,024 values.
    pub fn squared_error(&self, x: &[T], q: &[i32], excluded: &TileMask) -> u64 {
        let mut back = [T::from_bits(0); MAX_TILE_ELEMENTS];
        let back = &mut back[..x.len()];
        self.dequantize(&q[..x.len()], back);
        if !excluded.any() {
            return T::squared_error(x, back, ERROR_UNITS / self.bound);
        }
        // Excluded values may be NaN or infinite, whose difference is no number.
        let mut clean = [T::from_bits(0); MAX_TILE_ELEMENTS];
        let clean = &mut clean[..x.len()];
        clean.copy_from_slice(x);
        for i in excluded.ones() {
            (clean[i], back[i]) = (T::from_bits(0), T::from_bits(0));
        }
        T::squared_error(clean, back, ERROR_UNITS / self.bound)
    }
}

/// Units of the squared error's root in a bound.
pub const ERROR_UNITS: f64 = 32768.0;

/// Mean squared error of `count` values with this sum of [`Linear::squared_error`]; not below the true one, since each
/// error was rounded by at most half a unit. The same on every machine.
pub fn mean_squared_error(sum: u128, count: u64, bound: f64) -> f64 {
    let root = (sum as f64 / count.max(1) as f64).sqrt() + 0.5;
    (root * (bound / ERROR_UNITS)).powi(2)
}

impl Real for f32 {
    type Step = StepF32;

    #[inline(always)]
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        Self::from_bits(bits as u32)
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn nearest(wide: f64) -> Self {
        wide as Self
    }
    fn step(step: f64, bound: f64) -> StepF32 {
        StepF32::new(step, bound)
    }
    #[inline]
    fn quantize(step: &StepF32, x: &[Self], q: &mut [i32], exact: &mut TileMask) -> bool {
        float::quantize_f32(step, x, &mut q[..x.len()], exact)
    }
    #[inline]
    fn dequantize(step: &StepF32, q: &[i32], x: &mut [Self]) {
        float::dequantize_f32(step, q, &mut x[..q.len()]);
    }
    #[inline]
    fn squared_error(x: &[Self], y: &[Self], scale: f64) -> u64 {
        float::squared_error_f32(x, y, scale)
    }
    #[inline]
    fn quantize_log(step: &StepLog, x: &[Self], q: &mut [i32], exact: &mut TileMask) -> bool {
        float::quantize_log_f32(step, x, q, exact)
    }
    #[inline]
    fn dequantize_log(step: &StepLog, q: &[i32], x: &mut [Self]) {
        float::dequantize_log_f32(step, q, x);
    }
    #[inline(always)]
    fn is_negative(self) -> bool {
        self.is_sign_negative()
    }
    #[inline(always)]
    fn with_sign(self, negative: bool) -> Self {
        if negative { -self.abs() } else { self }
    }
}

impl Real for f64 {
    type Step = StepF64;

    #[inline(always)]
    fn bits(self) -> u64 {
        self.to_bits()
    }
    #[inline(always)]
    fn from_bits(bits: u64) -> Self {
        Self::from_bits(bits)
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
    #[inline(always)]
    fn nearest(wide: f64) -> Self {
        wide
    }
    fn step(step: f64, bound: f64) -> StepF64 {
        StepF64::new(step, bound)
    }
    #[inline]
    fn quantize(step: &StepF64, x: &[Self], q: &mut [i32], exact: &mut TileMask) -> bool {
        float::quantize_f64(step, x, &mut q[..x.len()], exact)
    }
    #[inline]
    fn dequantize(step: &StepF64, q: &[i32], x: &mut [Self]) {
        float::dequantize_f64(step, q, &mut x[..q.len()]);
    }
    #[inline]
    fn squared_error(x: &[Self], y: &[Self], scale: f64) -> u64 {
        float::squared_error_f64(x, y, scale)
    }
    #[inline]
    fn quantize_log(step: &StepLog, x: &[Self], q: &mut [i32], exact: &mut TileMask) -> bool {
        float::quantize_log_f64(step, x, q, exact)
    }
    #[inline]
    fn dequantize_log(step: &StepLog, q: &[i32], x: &mut [Self]) {
        float::dequantize_log_f64(step, q, x);
    }
    #[inline(always)]
    fn is_negative(self) -> bool {
        self.is_sign_negative()
    }
    #[inline(always)]
    fn with_sign(self, negative: bool) -> Self {
        if negative { -self.abs() } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Whether `|x - y| <= bound`, decided on integers: exact for any finite values. Multiples of 2^-1074 do not fit an
    /// integer, so the comparison is made on the exact difference as a sum of two floats (Knuth's two-sum).
    fn within<T: Real>(x: T, y: T, bound: f64) -> bool {
        let (a, b) = (x.wide(), -y.wide());
        let sum = a + b;
        let bb = sum - a;
        let rest = (a - (sum - bb)) + (b - bb);
        let (sum, rest) = if sum < 0.0 { (-sum, -rest) } else { (sum, rest) };
        sum < bound || (sum == bound && rest <= 0.0)
    }

    fn check<T: Real>(x: &[T], bound: f64, step: f64) -> Result<usize, TestCaseError> {
        let linear = Linear::<T>::new(step, bound);
        let (mut q, mut exact) = (vec![1; x.len()], TileMask::default());
        let any = linear.quantize_tile(x, &mut q, &mut exact);
        prop_assert_eq!(any, exact.any());
        let mut back = x.to_vec();
        linear.dequantize(&q, &mut back);
        for i in 0..x.len() {
            if !exact.get(i) {
                prop_assert!(within(x[i], back[i], bound), "{:?} -> {:?}, bound {bound:e}", x[i], back[i]);
                prop_assert!(back[i].bits() != T::nearest(-0.0).bits() && x[i].bits() != T::nearest(-0.0).bits());
            } else {
                prop_assert_eq!(q[i], 0);
            }
        }
        Ok(exact.count())
    }

    #[test]
    fn special_values_are_verbatim() {
        let x = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, f32::MAX, 0.0, 1.0, f32::MIN_POSITIVE / 2.0];
        assert_eq!(check(&x, 0.25, 0.5).unwrap(), 5);
        assert_eq!(check(&x.map(f64::from), 0.25, 0.5).unwrap(), 5);
        // The largest value becomes q = 2, whose reconstruction overflows.
        assert_eq!(check(&x, 1e38, 2e38).unwrap(), 5);
        assert_eq!(check(&[f32::MAX; 3], f64::from(f32::MAX), 2.0 * f64::from(f32::MAX)).unwrap(), 3);
    }

    #[test]
    fn mean_squared_error_is_barely_above_the_true_one() {
        let x: Vec<f32> = (0..900).map(|i| (i as f32 * 0.37).sin()).chain([f32::NAN]).collect();
        let linear = Linear::<f32>::new(0.02, 0.01);
        let (mut q, mut exact) = (vec![0; x.len()], TileMask::default());
        linear.quantize_tile(&x, &mut q, &mut exact);
        let mut back = x.clone();
        linear.dequantize(&q, &mut back);
        let sum: f64 = x[..900].iter().zip(&back).map(|(x, y)| f64::from(x - y).powi(2)).sum();
        let found = mean_squared_error(u128::from(linear.squared_error(&x, &q, &exact)), 900, 0.01);
        let expected = sum / 900.0;
        assert!(found >= expected && found < 1.0003 * expected, "{found} {expected}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn the_bound_holds_for_any_f32(bits in prop::collection::vec(any::<u32>(), 1..200), exponent in -40f64..38.0, tight in any::<bool>()) {
            let x: Vec<f32> = bits.iter().map(|&b| f32::from_bits(b)).collect();
            let bound = 10f64.powf(exponent);
            check(&x, bound, bound * if tight { 2.0 } else { 1.9 })?;
        }

        #[test]
        fn the_bound_holds_near_ties_f32(
            q in prop::collection::vec((-5000i32..5000, -3i32..=3), 1..200), step in 1e-3f64..10.0, ulps in -2i32..=2,
        ) {
            // Values half a step off a grid point, give or take some units in the last place.
            let x: Vec<f32> = q.iter().map(|&(q, d)| {
                let x = ((f64::from(q) + 0.5) * step) as f32;
                f32::from_bits(x.to_bits().wrapping_add_signed(d))
            }).collect();
            let bound = step / 2.0 * (1.0 + f64::from(ulps) * f64::from(f32::EPSILON) / 2.0);
            check(&x, bound, step)?;
            let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            check(&wide, bound, step)?;
        }

        #[test]
        fn ordinary_values_are_not_verbatim(x in prop::collection::vec(-1000f32..1000.0, 1..1024), bound in 1e-2f64..10.0) {
            let step = 2.0 * (bound - 1000.0 * 2f64.powi(-24));
            prop_assert_eq!(check(&x, bound, step)?, x.iter().filter(|x| x.to_bits() == 1 << 31).count());
        }

        #[test]
        fn the_bound_holds_for_any_f64(bits in prop::collection::vec(any::<u64>(), 1..200), exponent in -300f64..300.0) {
            let x: Vec<f64> = bits.iter().map(|&b| f64::from_bits(b)).collect();
            let bound = 10f64.powf(exponent);
            check(&x, bound, bound * 2.0)?;
        }
    }
}
