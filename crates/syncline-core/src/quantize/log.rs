//! Logarithmic quantization (pipeline 3): `q = rint(log2 |x| / step)`, `|x'| = exp2(q * step)`. Signs are stored apart.

use std::marker::PhantomData;

use super::Real;
use super::mask::{MaskKind, TileMask};
use super::math::{exp2, log2};
use super::select::{mask_of_pairs, negative};
use crate::simd::float_to_int::f64_to_i32_below;
use crate::simd::{self, InstructionSet, Kernel};

/// Integers of this magnitude or more are stored verbatim.
const LIMIT: u32 = 1 << 30;

/// Constants of logarithmic quantization.
#[derive(Clone, Copy, Debug)]
pub struct StepLog {
    /// The step's inverse.
    pub inv: f64,
    /// The step in log2.
    pub step: f64,
    /// The bound on the relative error, two floats lower.
    pub ratio: f64,
}

impl StepLog {
    /// Keeps the step in log2 and its inverse; the bound `ratio` gives way by two units in the last place.
    pub fn new(step: f64, ratio: f64) -> Self {
        // The product of a ratio two units lower with a value, rounded, is not above the exact product with `ratio`.
        Self { inv: 1.0 / step, step, ratio: ratio.next_down().next_down() }
    }

    /// Returns the integer for a magnitude, as a float of any size.
    #[inline(always)]
    fn integer(&self, magnitude: f64) -> f64 {
        (log2(magnitude) * self.inv).round_ties_even()
    }

    /// Returns whether the integer is below 2^30 in magnitude and reconstructs the value within the bound.
    #[inline(always)]
    fn is_good<T: Real>(&self, q: f64, magnitude: f64) -> bool {
        let error = (magnitude - self.reconstruct::<T>(q).wide()).abs();
        let limit = self.ratio * magnitude;
        // If the limit is subnormal, its rounding error is not small; such values are stored verbatim.
        (q.abs() < f64::from(LIMIT)) & (error < limit) & (limit >= f64::MIN_POSITIVE)
    }

    #[inline(always)]
    fn reconstruct<T: Real>(&self, q: f64) -> T {
        T::nearest(exp2(q * self.step))
    }
}

/// Returns the step in log2 for a relative bound `r`: twice log2(1 + r), minus the error that rounding to the element's
/// type (`rounding`, half a unit in the last place, relative) and the logarithm itself may add. The lower limit,
/// -log2(1 - r), is farther away.
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
    /// Returns a quantizer with this step in log2 that keeps a value only if its relative error is below `ratio`.
    pub fn new(step: f64, ratio: f64) -> Self {
        Self { step: StepLog::new(step, ratio), element: PhantomData }
    }

    /// Quantizes the magnitudes of a tile (at most 1,024 values). Sets in `exact` the bits of the values that must be
    /// stored verbatim: zeros, NaN, infinities, and values that are not reconstructed within the bound. Their `q` is 0.
    /// Returns whether there are any.
    ///
    /// # Panics
    /// `q` is shorter than `x`.
    #[inline]
    pub fn quantize_tile(&self, x: &[T], q: &mut [i32], verbatim: &mut TileMask) -> bool {
        simd::run(Quantize { step: self.step, x, q: &mut q[..x.len()], verbatim })
    }

    /// Returns the elements of a tile that become `back`, with their signs, and are not within the bound.
    pub fn missed(&self, x: &[T], back: &[T]) -> TileMask {
        let limit = |x: T| self.step.ratio * x.wide().abs();
        // The error of a NaN is not within the bound.
        let is_within = |x: T, back: T| (x.wide() - back.wide()).abs() < limit(x);
        mask_of_pairs(x, back, |x, back| !is_within(x, back))
    }

    /// Reconstructs magnitudes.
    ///
    /// # Panics
    /// `x` is shorter than `q`.
    #[inline]
    pub fn dequantize(&self, q: &[i32], x: &mut [T]) {
        simd::run(Dequantize { step: self.step, q, x: &mut x[..q.len()] });
    }
}

/// Returns which elements of a tile are negative. Excluded elements (masked or verbatim) do not count and have no bit.
pub fn signs<T: Real>(x: &[T], excluded: &TileMask) -> (MaskKind, TileMask) {
    let negative = negative(x).without(excluded);
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

/// Values that the kernels process together: long enough to hide the latency of the polynomials, short enough for the
/// registers.
const BATCH: usize = 16;

struct Quantize<'a, T> {
    step: StepLog,
    x: &'a [T],
    q: &'a mut [i32],
    verbatim: &'a mut TileMask,
}

impl<T: Real> Kernel for Quantize<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> bool {
        let Self { step, x, q, verbatim } = self;
        let mut any = false;
        let (mut magnitudes, mut integers, mut good) = ([0.0; BATCH], [0.0; BATCH], [0.0; BATCH]);
        for (batch, (x, q)) in x.chunks(BATCH).zip(q.chunks_mut(BATCH)).enumerate() {
            for (magnitude, x) in magnitudes.iter_mut().zip(x) {
                *magnitude = x.wide().abs();
            }
            // Each function has a loop of its own: one loop over all of them is too long to be vectorized.
            for (integer, &magnitude) in integers.iter_mut().zip(&magnitudes) {
                *integer = step.integer(magnitude);
            }
            let mut bad = 0.0;
            for ((good, integer), &magnitude) in good.iter_mut().zip(&mut integers).zip(&magnitudes) {
                let yes = step.is_good::<T>(*integer, magnitude);
                *integer = if yes { *integer } else { 0.0 };
                *good = if yes { 0.0 } else { 1.0 };
            }
            for (i, q) in q.iter_mut().enumerate() {
                *q = f64_to_i32_below::<LIMIT>(integers[i], true).0;
                bad += good[i];
            }
            if bad != 0.0 {
                any = true;
                let bits = good[..x.len()].iter().enumerate().fold(0, |bits, (i, &g)| bits | u64::from(g != 0.0) << i);
                verbatim.or_word(batch * BATCH / 64, bits << (batch * BATCH % 64));
            }
        }
        any
    }
}

struct Dequantize<'a, T> {
    step: StepLog,
    q: &'a [i32],
    x: &'a mut [T],
}

impl<T: Real> Kernel for Dequantize<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let step = self.step;
        for (x, &q) in self.x.iter_mut().zip(self.q) {
            *x = step.reconstruct(f64::from(q));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Portable;
    use proptest::prelude::*;

    /// Returns whether `|x - y| <= r |x|`. Differences of close floats are exact, and the product is computed as a sum
    /// of two floats.
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
        fn the_bound_holds_for_any_value(bits in prop::collection::vec(any::<u64>(), 1..300),
            exponent in -6.4f64..-0.001) {
            let r = 10f64.powf(exponent);
            let wide: Vec<f64> = bits.iter().map(|&b| f64::from_bits(b)).collect();
            let narrow: Vec<f32> = bits.iter().map(|&b| f32::from_bits(b as u32)).collect();
            check(&wide, r)?;
            check(&narrow, r)?;
        }

        #[test]
        fn ordinary_values_are_not_verbatim(y in prop::collection::vec(-120f64..120.0, 1..1024),
            negative in any::<bool>(), exponent in -6.0f64..-0.01) {
            let r = 10f64.powf(exponent);
            let sign = if negative { -1.0 } else { 1.0 };
            let wide: Vec<f64> = y.iter().map(|y| sign * y.exp2()).collect();
            let narrow: Vec<f32> = wide.iter().map(|&x| x as f32).collect();
            prop_assert_eq!(check(&wide, r)?, 0);
            prop_assert_eq!(check(&narrow, r)?, 0);
        }

        #[test]
        fn instruction_sets_agree(bits in prop::collection::vec(any::<u32>(), 1..300)) {
            let x: Vec<f32> = bits.iter().map(|&b| f32::from_bits(b)).collect();
            let step = StepLog::new(0.01, 0.01);
            let (mut q, mut verbatim) = (vec![0; x.len()], TileMask::default());
            let (mut q2, mut verbatim2) = (vec![0; x.len()], TileMask::default());
            simd::run(Quantize { step, x: &x, q: &mut q, verbatim: &mut verbatim });
            Quantize { step, x: &x, q: &mut q2, verbatim: &mut verbatim2 }.run(Portable);
            prop_assert_eq!(&q, &q2);
            prop_assert_eq!(verbatim, verbatim2);
            let integers: Vec<i32> = bits.iter().map(|&b| b as i32).collect();
            let (mut back, mut back2) = (x.clone(), x);
            simd::run(Dequantize { step, q: &integers, x: &mut back });
            Dequantize { step, q: &integers, x: &mut back2 }.run(Portable);
            prop_assert_eq!(back, back2);
        }
    }
}
