//! Constants of linear quantization, and the arithmetic on one value (`docs/FORMAT.md`).

use crate::simd::float_to_int::{f32_to_i32_below, f64_to_i32_below};

/// Quantizes and reconstructs single values of type `T` with one step and one bound.
pub trait LinearStep<T>: Copy + Send + Sync + std::fmt::Debug {
    /// Returns the constants for reconstruction as `q * step` with errors below `bound`.
    fn new(step: f64, bound: T) -> Self;

    /// Returns the integer of a value and whether it reconstructs the value within the bound. If not, the integer is 0.
    fn quantize(&self, x: T) -> (i32, bool);

    /// Reconstructs the value of an integer.
    fn reconstruct(&self, q: i32) -> T;
}

/// Constants of linear quantization of f32.
#[derive(Clone, Copy, Debug)]
pub struct StepF32 {
    /// Inverse of the step, rounded.
    pub inv_hi: f32,
    /// Rounding error of `inv_hi`.
    pub inv_lo: f32,
    /// Step, rounded.
    pub hi: f32,
    /// Rounding error of `hi`.
    pub lo: f32,
    /// Bound, rounded down.
    pub bound: f32,
}

impl StepF32 {
    #[inline(always)]
    fn reconstruct_float(&self, q: f32) -> f32 {
        q.mul_add(self.hi, q * self.lo)
    }
}

impl LinearStep<f32> for StepF32 {
    fn new(step: f64, bound: f32) -> Self {
        let inv = 1.0 / step;
        let (inv_hi, hi) = (inv as f32, step as f32);
        Self { inv_hi, inv_lo: (inv - f64::from(inv_hi)) as f32, hi, lo: (step - f64::from(hi)) as f32, bound }
    }

    #[inline(always)]
    fn quantize(&self, x: f32) -> (i32, bool) {
        let rounded = (x * self.inv_hi).round_ties_even();
        let rest = x.mul_add(self.inv_lo, x.mul_add(self.inv_hi, -rounded));
        let q = rounded + rest.round_ties_even();
        let error = (x - self.reconstruct_float(q)).abs();
        // The comparison is strict: the subtraction rounds monotonically, so the exact error is below the bound too.
        f32_to_i32_below::<{ 1 << 22 }>(q, (error < self.bound) & (x.to_bits() != 1 << 31))
    }

    #[inline(always)]
    fn reconstruct(&self, q: i32) -> f32 {
        self.reconstruct_float(q as f32)
    }
}

/// Constants of linear quantization of f64.
#[derive(Clone, Copy, Debug)]
pub struct StepF64 {
    /// Inverse of the step.
    pub inv: f64,
    /// Step.
    pub step: f64,
    /// Bound.
    pub bound: f64,
}

impl LinearStep<f64> for StepF64 {
    fn new(step: f64, bound: f64) -> Self {
        Self { inv: 1.0 / step, step, bound }
    }

    #[inline(always)]
    fn quantize(&self, x: f64) -> (i32, bool) {
        let q = (x * self.inv).round_ties_even();
        let error = (x - q * self.step).abs();
        f64_to_i32_below::<{ 1 << 30 }>(q, (error < self.bound) & (x.to_bits() != 1 << 63))
    }

    #[inline(always)]
    fn reconstruct(&self, q: i32) -> f64 {
        f64::from(q) * self.step
    }
}
