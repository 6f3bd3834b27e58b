//! temporary
use super::Real;
use super::log::{exp2, log2};
use super::mask::TileMask;
/// x
pub struct Logarithm<T> {
    step: f64,
    bound: f64,
    t: std::marker::PhantomData<T>,
}
#[allow(missing_docs)]
impl<T: Real> Logarithm<T> {
    pub fn new(step: f64, bound: f64) -> Self {
        Self { step, bound, t: std::marker::PhantomData }
    }
    pub fn signs(&self, x: &[T]) -> TileMask {
        let mut m = TileMask::default();
        for (i, v) in x.iter().enumerate() {
            if v.wide() < 0.0 {
                m.set(i)
            }
        }
        m
    }
    pub fn quantize_tile(&self, x: &[T], q: &mut [i32], exact: &mut TileMask) -> bool {
        let mut any = false;
        for (i, (x, q)) in x.iter().zip(q).enumerate() {
            let a = x.wide().abs();
            let t = (log2(a) / self.step).round_ties_even();
            let back = T::nearest(exp2(t * self.step)).wide();
            let ok = a > 0.0 && t.abs() < 1e9 && (a - back).abs() <= self.bound * a * (1.0 - 1e-15);
            *q = if ok {
                t as i32
            } else {
                any = true;
                exact.set(i);
                0
            };
        }
        any
    }
    pub fn dequantize(&self, q: &[i32], negative: &TileMask, x: &mut [T]) {
        for (i, (q, x)) in q.iter().zip(x).enumerate() {
            let v = exp2(f64::from(*q) * self.step);
            *x = T::nearest(if negative.get(i) { -v } else { v });
        }
    }
}
