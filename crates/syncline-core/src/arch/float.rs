//! Vector kernels between floating-point values and integers.

#![allow(unsafe_code)]

use crate::quantize::mask::TileMask;
use crate::quantize::{Real, log};
use crate::simd::dispatched;

/// Constants of linear quantization of f32.
#[derive(Clone, Copy, Debug)]
pub struct StepF32 {
    /// The step's inverse, rounded.
    pub inv_hi: f32,
    /// What rounding took from the inverse.
    pub inv_lo: f32,
    /// The step, rounded.
    pub hi: f32,
    /// What rounding took from the step.
    pub lo: f32,
    /// The bound, rounded down.
    pub bound: f32,
}

impl StepF32 {
    /// Splits the step and its inverse in two floats each and rounds the bound down.
    pub fn new(step: f64, bound: f64) -> Self {
        let inv = 1.0 / step;
        let (inv_hi, hi) = (inv as f32, step as f32);
        let nearest = bound as f32;
        let bound = if f64::from(nearest) > bound { nearest.next_down() } else { nearest };
        Self { inv_hi, inv_lo: (inv - f64::from(inv_hi)) as f32, hi, lo: (step - f64::from(hi)) as f32, bound }
    }

    /// The integer of a value, and whether it reconstructs the value within the bound.
    #[inline(always)]
    fn quantize(&self, x: f32) -> (i32, bool) {
        let rounded = (x * self.inv_hi).round_ties_even();
        let rest = x.mul_add(self.inv_lo, x.mul_add(self.inv_hi, -rounded));
        let q = rounded + rest.round_ties_even();
        let error = (x - self.reconstruct(q)).abs();
        // Strictly below: the subtraction rounds monotonically, so the exact error is then below too.
        let good = (q.abs() < 8_388_608.0) & (error < self.bound) & (x.to_bits() != 1 << 31);
        let q = if good { q } else { 0.0 };
        // SAFETY: `q` is 0 or below 2^23 in magnitude, in range of i32 and not NaN.
        (unsafe { q.to_int_unchecked::<i32>() }, good)
    }

    #[inline(always)]
    fn reconstruct(&self, q: f32) -> f32 {
        q.mul_add(self.hi, q * self.lo)
    }
}

/// Constants of linear quantization of f64.
#[derive(Clone, Copy, Debug)]
pub struct StepF64 {
    /// The step's inverse.
    pub inv: f64,
    /// The step.
    pub step: f64,
    /// The bound.
    pub bound: f64,
}

impl StepF64 {
    /// Keeps the step and its inverse.
    pub fn new(step: f64, bound: f64) -> Self {
        Self { inv: 1.0 / step, step, bound }
    }

    #[inline(always)]
    fn quantize(&self, x: f64) -> (i32, bool) {
        let q = (x * self.inv).round_ties_even();
        let error = (x - q * self.step).abs();
        let good = (q.abs() < 1_073_741_824.0) & (error < self.bound) & (x.to_bits() != 1 << 63);
        let q = if good { q } else { 0.0 };
        // SAFETY: `q` is 0 or below 2^30 in magnitude, in range of i32 and not NaN.
        (unsafe { q.to_int_unchecked::<i32>() }, good)
    }
}

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

    /// The integer for a magnitude, as a float of any size.
    #[inline(always)]
    fn integer(&self, magnitude: f64) -> f64 {
        (log::log2(magnitude) * self.inv).round_ties_even()
    }

    /// Whether the integer is below 2^30 in magnitude and reconstructs the value within the bound.
    #[inline(always)]
    fn is_good<T: Real>(&self, q: f64, magnitude: f64) -> bool {
        let error = (magnitude - self.reconstruct::<T>(q).wide()).abs();
        let limit = self.ratio * magnitude;
        // Where the limit is subnormal its rounding is not small; such values are kept as they are.
        (q.abs() < 1_073_741_824.0) & (error < limit) & (limit >= f64::MIN_POSITIVE)
    }

    #[inline(always)]
    fn reconstruct<T: Real>(&self, q: f64) -> T {
        T::nearest(log::exp2(q * self.step))
    }
}

/// Quantizes with `one` in blocks of 64, going over a block once more for the bits only if one of its values failed.
#[inline(always)]
fn quantize<T: Copy>(x: &[T], q: &mut [i32], exact: &mut TileMask, one: impl Fn(T) -> (i32, bool)) -> bool {
    let mut any = false;
    for (block, (x, q)) in x.chunks(64).zip(q.chunks_mut(64)).enumerate() {
        let mut bad = 0;
        // The whole block of known length is what vectorizes.
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
        if bad != 0 {
            any = true;
            let bits = x.iter().enumerate().fold(0u64, |bits, (i, &x)| bits | u64::from(!one(x).1) << i);
            exact.or_word(block, bits);
        }
    }
    any
}

#[inline(always)]
fn quantize_f32_body(step: &StepF32, x: &[f32], q: &mut [i32], exact: &mut TileMask) -> bool {
    let step = *step;
    quantize(x, q, exact, |x| step.quantize(x))
}

#[inline(always)]
fn quantize_f64_body(step: &StepF64, x: &[f64], q: &mut [i32], exact: &mut TileMask) -> bool {
    let step = *step;
    quantize(x, q, exact, |x| step.quantize(x))
}

#[inline(always)]
fn dequantize_f32_body(step: &StepF32, q: &[i32], x: &mut [f32]) {
    let step = *step;
    for (x, &q) in x.iter_mut().zip(q) {
        *x = step.reconstruct(q as f32);
    }
}

#[inline(always)]
fn dequantize_f64_body(step: &StepF64, q: &[i32], x: &mut [f64]) {
    let step = step.step;
    for (x, &q) in x.iter_mut().zip(q) {
        *x = f64::from(q) * step;
    }
}

dispatched! {
    /// Quantizes f32 values; see `quantize::Real::quantize`.
    pub fn quantize_f32(step: &StepF32, x: &[f32], q: &mut [i32], exact: &mut TileMask) -> bool = quantize_f32_body
}
dispatched! {
    /// Quantizes f64 values; see `quantize::Real::quantize`.
    pub fn quantize_f64(step: &StepF64, x: &[f64], q: &mut [i32], exact: &mut TileMask) -> bool = quantize_f64_body
}
dispatched! {
    /// Reconstructs f32 values.
    pub fn dequantize_f32(step: &StepF32, q: &[i32], x: &mut [f32]) = dequantize_f32_body
}
dispatched! {
    /// Reconstructs f64 values.
    pub fn dequantize_f64(step: &StepF64, q: &[i32], x: &mut [f64]) = dequantize_f64_body
}

/// Values in flight together in the logarithmic kernels: long enough to hide the latency of the polynomials, short
/// enough for the registers.
const BATCH: usize = 16;

#[inline(always)]
fn quantize_log_body<T: Real>(step: &StepLog, x: &[T], q: &mut [i32], exact: &mut TileMask) -> bool {
    let step = *step;
    let mut any = false;
    let (mut magnitudes, mut integers, mut good) = ([0.0; BATCH], [0.0; BATCH], [0.0; BATCH]);
    for (batch, (x, q)) in x.chunks(BATCH).zip(q.chunks_mut(BATCH)).enumerate() {
        for (magnitude, x) in magnitudes.iter_mut().zip(x) {
            *magnitude = x.wide().abs();
        }
        // One pass for each function: a loop over all of it is too long to be vectorized.
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
            // SAFETY: 0 or below 2^30 in magnitude (`StepLog::is_good`), in range of i32 and not NaN.
            *q = unsafe { integers[i].to_int_unchecked::<i32>() };
            bad += good[i];
        }
        if bad != 0.0 {
            any = true;
            let bits = good[..x.len()].iter().enumerate().fold(0, |bits, (i, &g)| bits | u64::from(g != 0.0) << i);
            exact.or_word(batch * BATCH / 64, bits << (batch * BATCH % 64));
        }
    }
    any
}

#[inline(always)]
fn dequantize_log_body<T: Real>(step: &StepLog, q: &[i32], x: &mut [T]) {
    let step = *step;
    for (x, &q) in x.iter_mut().zip(q) {
        *x = step.reconstruct(f64::from(q));
    }
}

dispatched! {
    /// Quantizes logarithms of f32 magnitudes; see [`Log`](crate::quantize::Log).
    pub fn quantize_log_f32(step: &StepLog, x: &[f32], q: &mut [i32], exact: &mut TileMask) -> bool = quantize_log_body::<f32>
}
dispatched! {
    /// Quantizes logarithms of f64 magnitudes; see [`Log`](crate::quantize::Log).
    pub fn quantize_log_f64(step: &StepLog, x: &[f64], q: &mut [i32], exact: &mut TileMask) -> bool = quantize_log_body::<f64>
}
dispatched! {
    /// Reconstructs f32 magnitudes.
    pub fn dequantize_log_f32(step: &StepLog, q: &[i32], x: &mut [f32]) = dequantize_log_body::<f32>
}
dispatched! {
    /// Reconstructs f64 magnitudes.
    pub fn dequantize_log_f64(step: &StepLog, q: &[i32], x: &mut [f64]) = dequantize_log_body::<f64>
}

/// Bits from bytes that are 0 or 1: the product moves bit 0 of byte `i` to bit `56 + i`.
#[inline(always)]
fn pack_bits(bytes: &[u8; 64]) -> u64 {
    let (octets, _) = bytes.as_chunks::<8>();
    octets.iter().enumerate().fold(0, |bits, (i, octet)| {
        bits | (u64::from_le_bytes(*octet).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i)
    })
}

/// The elements for which `test` holds; at most 1,024.
#[inline(always)]
fn mask_where<W: Copy>(words: &[W], test: impl Fn(W) -> bool) -> TileMask {
    let mut mask = TileMask::default();
    for (i, block) in words.chunks(64).enumerate() {
        // The pass that only asks whether there is any is the fast one, and mostly all.
        if block.iter().fold(false, |any, &w| any | test(w)) {
            let mut bytes = [0; 64];
            for (byte, &w) in bytes.iter_mut().zip(block) {
                *byte = u8::from(test(w));
            }
            mask.or_word(i, pack_bits(&bytes));
        }
    }
    mask
}

#[inline(always)]
fn equal_body<W: Copy + PartialEq>(words: &[W], pattern: W) -> TileMask {
    mask_where(words, |w| w == pattern)
}

dispatched! {
    fn equal_u32(words: &[u32], pattern: u32) -> TileMask = equal_body::<u32>
}
dispatched! {
    fn equal_u64(words: &[u64], pattern: u64) -> TileMask = equal_body::<u64>
}

#[inline(always)]
fn negative_u32_body(words: &[u32]) -> TileMask {
    mask_where(words, |w| w >> 31 != 0)
}

#[inline(always)]
fn negative_u64_body(words: &[u64]) -> TileMask {
    mask_where(words, |w| w >> 63 != 0)
}

dispatched! {
    fn negative_u32(words: &[u32]) -> TileMask = negative_u32_body
}
dispatched! {
    fn negative_u64(words: &[u64]) -> TileMask = negative_u64_body
}

#[inline(always)]
fn select_body<W: Copy>(words: &mut [W], mask: &TileMask, pattern: W) {
    for (block, &bits) in words.chunks_mut(64).zip(mask.words()) {
        if bits == u64::MAX {
            block.fill(pattern);
        } else if bits != 0 {
            for (i, w) in block.iter_mut().enumerate() {
                *w = if bits >> i & 1 != 0 { pattern } else { *w };
            }
        }
    }
}

dispatched! {
    fn select_u32(words: &mut [u32], mask: &TileMask, pattern: u32) = select_body::<u32>
}
dispatched! {
    fn select_u64(words: &mut [u64], mask: &TileMask, pattern: u64) = select_body::<u64>
}

/// Writes `pattern` over the masked values of a tile.
pub fn select<T: Real>(x: &mut [T], mask: &TileMask, pattern: T) {
    match size_of::<T>() {
        4 => select_u32(bytemuck::cast_slice_mut(x), mask, pattern.bits() as u32),
        _ => select_u64(bytemuck::cast_slice_mut(x), mask, pattern.bits()),
    }
}

/// The values of a tile (at most 1,024) with the bit pattern of `pattern`.
pub fn matches<T: Real>(x: &[T], pattern: T) -> TileMask {
    match size_of::<T>() {
        4 => equal_u32(bytemuck::cast_slice(x), pattern.bits() as u32),
        _ => equal_u64(bytemuck::cast_slice(x), pattern.bits()),
    }
}

/// The values of a tile (at most 1,024) with the sign bit set.
pub fn negative<T: Real>(x: &[T]) -> TileMask {
    match size_of::<T>() {
        4 => negative_u32(bytemuck::cast_slice(x)),
        _ => negative_u64(bytemuck::cast_slice(x)),
    }
}

/// Sum of the squares of `rint((x - y) * scale)`. Exact in any order, as each square is at most 2^30 (clamped) and
/// there are at most 1,024.
#[inline(always)]
fn squared_error<T: Real>(x: &[T], y: &[T], scale: f64) -> u64 {
    let mut sums = [0.0; 8];
    for (x, y) in x.chunks(8).zip(y.chunks(8)) {
        for ((x, y), sum) in x.iter().zip(y).zip(&mut sums) {
            let error = ((x.wide() - y.wide()) * scale).round_ties_even().clamp(-32768.0, 32768.0);
            *sum += error * error;
        }
    }
    sums.iter().sum::<f64>() as u64
}

dispatched! {
    /// Sum of squared errors of f32 values, in units of `1 / scale^2`; for at most 1,024 values, none a NaN.
    pub fn squared_error_f32(x: &[f32], y: &[f32], scale: f64) -> u64 = squared_error::<f32>
}
dispatched! {
    /// Sum of squared errors of f64 values, in units of `1 / scale^2`; for at most 1,024 values, none a NaN.
    pub fn squared_error_f64(x: &[f64], y: &[f64], scale: f64) -> u64 = squared_error::<f64>
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn masks_are_as_tested(x in prop::collection::vec(prop::sample::select(vec![0.0f32, -0.0, 1.0, -9999.0, f32::NAN]), 0..200)) {
            for pattern in [-0.0f32, -9999.0, f32::NAN] {
                let mask = matches(&x, pattern);
                prop_assert!((0..x.len()).all(|i| mask.get(i) == (x[i].to_bits() == pattern.to_bits())));
                let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
                prop_assert_eq!(matches(&wide, f64::from(pattern)), mask);
                prop_assert_eq!(negative(&wide), negative(&x));
            }
            let mask = negative(&x);
            prop_assert!((0..x.len()).all(|i| mask.get(i) == x[i].is_sign_negative()));
            prop_assert_eq!(mask.without(&TileMask::full(x.len())), TileMask::default());
        }

        #[test]
        fn instances_agree(bits in prop::collection::vec(any::<u32>(), 1..300), scale in -30i32..30) {
            let step = StepF32::new(2f64.powi(scale) * 1.3, 2f64.powi(scale - 1) * 1.3);
            let x: Vec<f32> = bits.iter().map(|&b| f32::from_bits(b)).collect();
            let (mut q, mut mask) = (vec![0; x.len()], TileMask::default());
            let (mut q2, mut mask2) = (vec![0; x.len()], TileMask::default());
            quantize_f32(&step, &x, &mut q, &mut mask);
            quantize_f32_body(&step, &x, &mut q2, &mut mask2);
            prop_assert_eq!(&q, &q2);
            prop_assert_eq!(mask, mask2);
            let integers: Vec<i32> = bits.iter().map(|&b| b as i32).collect();
            let (mut back, mut back2) = (x.clone(), x);
            dequantize_f32(&step, &integers, &mut back);
            dequantize_f32_body(&step, &integers, &mut back2);
            prop_assert!(back.iter().zip(&back2).all(|(a, b)| a.to_bits() == b.to_bits()));

            let step = StepLog::new(0.01, 0.01);
            let (mut mask, mut mask2) = (TileMask::default(), TileMask::default());
            quantize_log_f32(&step, &back, &mut q, &mut mask);
            quantize_log_body(&step, &back, &mut q2, &mut mask2);
            prop_assert_eq!(&q, &q2);
            prop_assert_eq!(mask, mask2);
            dequantize_log_f32(&step, &integers, &mut back);
            dequantize_log_body(&step, &integers, &mut back2);
            prop_assert_eq!(back, back2);
        }
    }
}
