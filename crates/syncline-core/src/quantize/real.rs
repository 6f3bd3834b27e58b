//! The element types that can be quantized: f32 and f64.

use super::step::{LinearStep, StepF32, StepF64};
use crate::array::Element;

/// A floating-point element that the lossy pipelines take.
pub trait Real: Element + PartialEq + PartialOrd + std::fmt::Debug {
    /// Constants of linear quantization of this type.
    type Step: LinearStep<Self>;
    /// Returns the bit pattern, zero-extended.
    fn bits(self) -> u64;
    /// Returns the value whose bit pattern is in the low bits of `bits`.
    fn from_bits(bits: u64) -> Self;
    /// Returns the same value as f64.
    fn wide(self) -> f64;
    /// Returns the value nearest to `wide`.
    fn nearest(wide: f64) -> Self;
    /// Returns whether the sign bit is set.
    fn is_negative(self) -> bool;
    /// Returns the value with the sign bit set if `negative`, else unchanged.
    fn with_sign(self, negative: bool) -> Self;
}

macro_rules! real {
    ($type:ty, $step:ty, $bits:ty) => {
        impl Real for $type {
            type Step = $step;

            #[inline(always)]
            fn bits(self) -> u64 {
                self.to_bits().into()
            }

            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                Self::from_bits(bits as $bits)
            }

            #[inline(always)]
            fn wide(self) -> f64 {
                self.into()
            }

            #[inline(always)]
            fn nearest(wide: f64) -> Self {
                wide as Self
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
    };
}
real!(f32, StepF32, u32);
real!(f64, StepF64, u64);
