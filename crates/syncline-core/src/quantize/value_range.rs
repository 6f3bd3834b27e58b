//! The range of the values of an array. Decoders limit what they reconstruct to it, so that no value leaves the range
//! of the data (`docs/FORMAT.md`).

use super::Real;
use super::mask::TileMask;
use super::select::mask_where;
use crate::simd::{self, InstructionSet, Kernel};

/// The smallest and the largest finite value that is not fill.
#[derive(Clone, Copy, Debug)]
pub struct ValueRange<T> {
    low: T,
    high: T,
}

impl<T: Real> ValueRange<T> {
    /// Returns the range that a header states, rounded to the type of the elements.
    pub fn new((low, high): (f64, f64)) -> Self {
        Self { low: T::nearest(low), high: T::nearest(high) }
    }

    /// Returns the ends of the range.
    pub fn ends(&self) -> [T; 2] {
        [self.low, self.high]
    }

    /// Replaces values that are not above the lower end by it, and then those that are not below the upper end by that.
    #[inline]
    pub fn clamp(&self, x: &mut [T]) {
        simd::run(Clamp { range: *self, x });
    }

    /// Returns the finite values of a tile that are outside of the range, if there are any: only if the range was
    /// stated by a caller who did not know the array.
    #[inline]
    pub fn outside(&self, x: &[T]) -> Option<TileMask> {
        simd::run(Outside { range: *self, x })
    }
}

struct Clamp<'a, T> {
    range: ValueRange<T>,
    x: &'a mut [T],
}

impl<T: Real> Kernel for Clamp<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) {
        let ValueRange { low, high } = self.range;
        for x in self.x {
            let raised = if *x > low { *x } else { low };
            *x = if raised < high { raised } else { high };
        }
    }
}

struct Outside<'a, T> {
    range: ValueRange<T>,
    x: &'a [T],
}

impl<T: Real> Kernel for Outside<'_, T> {
    type Output = Option<TileMask>;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> Option<TileMask> {
        let ValueRange { low, high } = self.range;
        let largest = T::largest();
        let is_outside = |x: T| ((x < low) | (x > high)) & (x.magnitude() <= largest);
        let any = self.x.iter().fold(false, |any, &x| any | is_outside(x));
        any.then(|| mask_where(self.x, is_outside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_outside_of_the_range_become_its_ends() {
        let range = ValueRange::<f32>::new((-1.0, 2.0));
        let mut x = [-1.5f32, -1.0, -0.0, 2.0, 2.5, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
        let outside: Vec<usize> = range.outside(&x).unwrap().ones().collect();
        assert_eq!((outside.as_slice(), range.outside(&x[1..4])), (&[0, 4][..], None));
        range.clamp(&mut x);
        assert_eq!(x.map(f32::to_bits), [-1.0f32, -1.0, -0.0, 2.0, 2.0, 2.0, -1.0, -1.0].map(f32::to_bits));
        let mut zero = [-0.0f32];
        ValueRange::new((0.0, 1.0)).clamp(&mut zero);
        assert_eq!(zero[0].to_bits(), 0);
    }
}
