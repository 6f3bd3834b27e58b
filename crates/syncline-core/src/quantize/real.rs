//! The types that lossy compression computes in: f32 and f64.

use super::step::{LinearStep, StepF32, StepF64};
use super::stored::Visitor;
use crate::array::{Element, ElementType};
use crate::simd::float_to_int::{f32_to_i32_below, f64_to_i32_below};
use half::{bf16, f16};

/// A floating-point element that the lossy pipelines take.
pub trait Real:
    Element + PartialEq + PartialOrd + std::ops::Add<Output = Self> + std::ops::Sub<Output = Self> + std::fmt::Debug
{
    /// Constants of linear quantization of this type.
    type Step: LinearStep<Self>;
    /// Does something for an element type whose values are computed with as this one.
    fn visit<V: Visitor<Self>>(element: ElementType, visitor: V) -> V::Output;
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
    /// Returns the largest value that is not above `wide`.
    fn not_above(wide: f64) -> Self;
    /// Returns the product, rounded.
    fn times(self, other: Self) -> Self;
    /// Returns `self * factor + term`, rounded once.
    fn mul_add(self, factor: Self, term: Self) -> Self;
    /// Returns the nearest integer, the even one on a tie.
    fn round_ties_even(self) -> Self;
    /// Returns the value without its sign.
    fn magnitude(self) -> Self;
    /// Returns whether the value is 0.0 or -0.0.
    fn is_zero(self) -> bool;
    /// Returns whether the value is 0.0, and not -0.0.
    fn is_positive_zero(self) -> bool;
    /// Returns the largest finite value.
    fn largest() -> Self;
    /// Returns the value of an integer, rounded.
    fn from_code(code: i32) -> Self;
    /// Returns the integer of a value that is one, and whether its magnitude is below `LIMIT`. If not, as for NaN, the
    /// integer is 0.
    fn to_code<const LIMIT: u32>(self) -> (i32, bool);
}

macro_rules! real {
    ($type:ty, $step:ty, $bits:ty, $to_i32_below:ident, $($stored:ident $other:ty),*) => {
        impl Real for $type {
            type Step = $step;

            #[inline]
            fn visit<V: Visitor<Self>>(element: ElementType, visitor: V) -> V::Output {
                match element {
                    $(ElementType::$stored => visitor.visit::<$other>(),)*
                    _ => visitor.visit::<Self>(),
                }
            }

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

            #[inline(always)]
            fn not_above(wide: f64) -> Self {
                let nearest = wide as Self;
                if f64::from(nearest) > wide { nearest.next_down() } else { nearest }
            }

            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn mul_add(self, factor: Self, term: Self) -> Self {
                Self::mul_add(self, factor, term)
            }

            #[inline(always)]
            fn round_ties_even(self) -> Self {
                Self::round_ties_even(self)
            }

            #[inline(always)]
            fn magnitude(self) -> Self {
                self.abs()
            }

            #[inline(always)]
            fn is_zero(self) -> bool {
                self == 0.0
            }

            #[inline(always)]
            fn is_positive_zero(self) -> bool {
                self.to_bits() == 0
            }

            #[inline(always)]
            fn largest() -> Self {
                Self::MAX
            }

            #[inline(always)]
            fn from_code(code: i32) -> Self {
                code as Self
            }

            #[inline(always)]
            fn to_code<const LIMIT: u32>(self) -> (i32, bool) {
                $to_i32_below::<LIMIT>(self, true)
            }
        }
    };
}
real!(f32, StepF32, u32, f32_to_i32_below, F16 f16, Bf16 bf16, U8 u8, I8 i8, U16 u16, I16 i16);
real!(f64, StepF64, u64, f64_to_i32_below, U32 u32, I32 i32, U64 u64, I64 i64);
