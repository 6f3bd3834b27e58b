//! Linear quantization (pipeline 2): `q = rint(x / step)`, `x' = q * step`, by the operations that `docs/FORMAT.md`
//! states.

use super::Real;
use super::mask::TileMask;
use super::select::mask_of_pairs;
use super::step::LinearStep;
use crate::simd::{self, InstructionSet, Kernel};

/// The linear quantizer of one step and bound.
#[derive(Clone, Copy, Debug)]
pub struct Linear<T: Real> {
    step: T::Step,
    bound: f64,
}

impl<T: Real> Linear<T> {
    /// Returns a quantizer that reconstructs `q * step` and accepts a value only if its error is below `bound`.
    pub fn new(step: f64, bound: f64) -> Self {
        Self { step: T::Step::new(step, T::not_above(bound)), bound }
    }

    /// Quantizes a tile of at most 1,024 values. Sets in `verbatim` the bits of the values that must be stored
    /// verbatim, whose `q` becomes 0: NaN, infinities, -0.0, and values that are not reconstructed within the bound.
    /// Returns whether there is any.
    ///
    /// # Panics
    /// `q` is shorter than `x`.
    #[inline]
    pub fn quantize_tile(&self, x: &[T], q: &mut [i32], verbatim: &mut TileMask) -> bool {
        simd::run(Quantize { step: self.step, x, q: &mut q[..x.len()], verbatim })
    }

    /// Quantizes one value. Returns its integer, and whether it is reconstructed within the bound.
    #[inline(always)]
    pub fn quantize(&self, x: T) -> (i32, bool) {
        self.step.quantize(x)
    }

    /// Returns the elements of a tile that become `back` and are not within the bound.
    pub fn missed(&self, x: &[T], back: &[T]) -> TileMask {
        simd::run(Missed { x, back, bound: T::not_above(self.bound) })
    }

    /// Reconstructs one value.
    #[inline(always)]
    pub fn value(&self, q: i32) -> T {
        self.step.reconstruct(q)
    }

    /// Reconstructs values.
    ///
    /// # Panics
    /// `x` is shorter than `q`.
    #[inline]
    pub fn dequantize(&self, q: &[i32], x: &mut [T]) {
        simd::run(Dequantize { step: self.step, q, x: &mut x[..q.len()] });
    }

    /// Returns the sum of squared errors of a tile's elements that are not excluded, in units of `(bound * 2^-15)^2`.
    /// Errors are rounded to integers of `bound * 2^-15`, so sums over tiles do not depend on their order. See
    /// [`mean_squared_error`].
    ///
    /// # Panics
    /// `q` is shorter than `x`.
    pub fn squared_error(&self, x: &[T], q: &[i32], excluded: &TileMask) -> u64 {
        let mut back = [T::from_bits(0); BLOCK];
        let blocks = x.chunks(BLOCK).zip(q[..x.len()].chunks(BLOCK)).enumerate();
        blocks
            .map(|(block, (x, q))| {
                let back = &mut back[..q.len()];
                self.dequantize(q, back);
                self.squared_error_of_block(x, back, block * BLOCK, excluded)
            })
            .sum()
    }

    /// Returns [`Self::squared_error`] of a tile whose elements become `back`.
    ///
    /// # Panics
    /// `back` is shorter than `x`.
    pub fn squared_error_of(&self, x: &[T], back: &[T], excluded: &TileMask) -> u64 {
        let blocks = x.chunks(BLOCK).zip(back[..x.len()].chunks(BLOCK)).enumerate();
        blocks.map(|(block, (x, back))| self.squared_error_of_block(x, back, block * BLOCK, excluded)).sum()
    }

    /// Computes [`Self::squared_error_of`] for at most [`BLOCK`] elements of a tile, from element `first` on.
    fn squared_error_of_block(&self, x: &[T], back: &[T], first: usize, excluded: &TileMask) -> u64 {
        if !excluded.any() {
            return squared_error(x, back, ERROR_UNITS / self.bound);
        }
        // Excluded values may be NaN or infinite.
        let clean = |values: &[T]| {
            let mut clean = [T::from_bits(0); BLOCK];
            clean[..values.len()].copy_from_slice(values);
            let own = excluded.ones().filter_map(|i| index_in_block(i, first, values.len()));
            own.for_each(|i| clean[i] = T::from_bits(0));
            clean
        };
        squared_error(&clean(x)[..x.len()], &clean(back)[..x.len()], ERROR_UNITS / self.bound)
    }
}

/// Elements whose errors are computed at a time.
const BLOCK: usize = 1024;

/// Returns the index of element `i` of a tile among the `len` elements from element `first` on.
fn index_in_block(i: usize, first: usize, len: usize) -> Option<usize> {
    i.checked_sub(first).filter(|&index| index < len)
}

/// Units of error in a bound.
pub const ERROR_UNITS: f64 = 32768.0;

/// Returns the mean squared error of `count` values with this sum of [`Linear::squared_error`]. It is not below the
/// true one, because each error was rounded by at most half a unit, and is the same on every machine.
pub fn mean_squared_error(sum: u128, count: u64, bound: f64) -> f64 {
    let root = (sum as f64 / count.max(1) as f64).sqrt() + 0.5;
    (root * (bound / ERROR_UNITS)).powi(2)
}

struct Quantize<'a, T: Real> {
    step: T::Step,
    x: &'a [T],
    q: &'a mut [i32],
    verbatim: &'a mut TileMask,
}

impl<T: Real> Kernel for Quantize<'_, T> {
    type Output = bool;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> bool {
        let Self { step, x, q, verbatim } = self;
        quantize_blocks(x, q, verbatim, |x| step.quantize(x))
    }
}

/// Quantizes values in blocks of 64 with `one`, which returns the integer and whether it is valid. Sets the bits of
/// values without a valid integer in `verbatim`, and returns whether there are any.
#[inline(always)]
fn quantize_blocks<T: Copy>(x: &[T], q: &mut [i32], verbatim: &mut TileMask, one: impl Fn(T) -> (i32, bool)) -> bool {
    let mut any = false;
    for (block, (x, q)) in x.chunks(64).zip(q.chunks_mut(64)).enumerate() {
        let mut bad = 0;
        // A block of constant length is vectorized.
        if let (Ok(x), Ok(q)) = (<&[T; 64]>::try_from(x), <&mut [i32; 64]>::try_from(&mut *q)) {
            for i in 0..64 {
                let (value, good) = one(x[i]);
                q[i] = value;
                bad |= i32::from(!good);
            }
        } else {
            for (x, q) in x.iter().zip(q) {
                let (value, good) = one(*x);
                *q = value;
                bad |= i32::from(!good);
            }
        }
        // The bits are computed in a second pass, which few blocks need.
        if bad != 0 {
            any = true;
            let bits = x.iter().enumerate().fold(0u64, |bits, (i, &x)| bits | u64::from(!one(x).1) << i);
            verbatim.or_word(block, bits);
        }
    }
    any
}

struct Missed<'a, T> {
    x: &'a [T],
    back: &'a [T],
    bound: T,
}

impl<T: Real> Kernel for Missed<'_, T> {
    type Output = TileMask;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> TileMask {
        let bound = self.bound;
        // The error of a NaN is not within the bound.
        let is_within = |x: T, back: T| (x - back).magnitude() < bound;
        mask_of_pairs(self.x, self.back, |x, back| !is_within(x, back))
    }
}

struct Dequantize<'a, T: Real> {
    step: T::Step,
    q: &'a [i32],
    x: &'a mut [T],
}

impl<T: Real> Kernel for Dequantize<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let step = self.step;
        for (x, &q) in self.x.iter_mut().zip(self.q) {
            *x = step.reconstruct(q);
        }
    }
}

/// Returns the sum of squared differences of at most 1,024 values, none a NaN. Each difference is taken in units of
/// `1 / scale`, rounded to an integer and limited to 2^15, so that the sum is exact in any order.
fn squared_error<T: Real>(x: &[T], y: &[T], scale: f64) -> u64 {
    simd::run(SquaredError { x, y, scale })
}

struct SquaredError<'a, T> {
    x: &'a [T],
    y: &'a [T],
    scale: f64,
}

impl<T: Real> Kernel for SquaredError<'_, T> {
    type Output = u64;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> u64 {
        let mut sums = [0.0; 8];
        for (x, y) in self.x.chunks(8).zip(self.y.chunks(8)) {
            for ((x, y), sum) in x.iter().zip(y).zip(&mut sums) {
                let error = ((x.wide() - y.wide()) * self.scale).round_ties_even().clamp(-32768.0, 32768.0);
                *sum += error * error;
            }
        }
        sums.iter().sum::<f64>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantize::step::StepF32;
    use crate::simd::Portable;
    use proptest::prelude::*;

    /// Returns whether `|x - y| <= bound`, exactly for all finite values. Multiples of 2^-1074 do not fit an integer,
    /// so the exact difference is compared as a sum of two floats (Knuth's two-sum).
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
        fn the_bound_holds_for_any_f32(bits in prop::collection::vec(any::<u32>(), 1..200), exponent in -40f64..38.0,
            tight in any::<bool>()) {
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
        fn ordinary_values_are_not_verbatim(x in prop::collection::vec(-1000f32..1000.0, 1..1024),
            bound in 1e-2f64..10.0) {
            let step = 2.0 * (bound - 1000.0 * 2f64.powi(-24));
            prop_assert_eq!(check(&x, bound, step)?, x.iter().filter(|x| x.to_bits() == 1 << 31).count());
        }

        #[test]
        fn the_bound_holds_for_any_f64(bits in prop::collection::vec(any::<u64>(), 1..200),
            exponent in -300f64..300.0) {
            let x: Vec<f64> = bits.iter().map(|&b| f64::from_bits(b)).collect();
            let bound = 10f64.powf(exponent);
            check(&x, bound, bound * 2.0)?;
        }

        #[test]
        fn instruction_sets_agree(bits in prop::collection::vec(any::<u32>(), 1..300), scale in -30i32..30) {
            let step = StepF32::new(2f64.powi(scale) * 1.3, f32::not_above(2f64.powi(scale - 1) * 1.3));
            let x: Vec<f32> = bits.iter().map(|&b| f32::from_bits(b)).collect();
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
            prop_assert!(back.iter().zip(&back2).all(|(a, b)| a.to_bits() == b.to_bits()));
        }
    }
}
