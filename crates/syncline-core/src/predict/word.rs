//! Wrapping integers of any width, which residuals are computed in.

/// An integer with wrapping arithmetic.
pub trait Wrapping: bytemuck::Pod + Eq + Ord + Send + Sync + std::fmt::Debug {
    /// 0.
    const ZERO: Self;
    /// Width in bits.
    const BITS: u32;
    /// Returns the sum, wrapping.
    fn plus(self, other: Self) -> Self;
    /// Returns the difference, wrapping.
    fn minus(self, other: Self) -> Self;
}

/// An unsigned integer with wrapping arithmetic.
pub trait Word: Wrapping {
    /// Returns the magnitude of the word read as a signed integer.
    fn magnitude(self) -> u64;
    /// Maps signed to unsigned integers: 0, -1, 1, -2, ... become 0, 1, 2, 3, ...
    fn zigzag(self) -> Self;
    /// Inverts [`Word::zigzag`].
    fn unzigzag(self) -> Self;
    /// Returns the word zero-extended.
    fn widen(self) -> u64;
    /// Returns the low bits of `wide`.
    fn narrow(wide: u64) -> Self;
    /// Returns the product, wrapping.
    fn times(self, other: Self) -> Self;
    /// Returns the word read as a signed integer.
    fn signed(self) -> i64;
}

macro_rules! wrapping {
    ($($integer:ty),*) => {$(
        impl Wrapping for $integer {
            const ZERO: Self = 0;
            const BITS: u32 = <$integer>::BITS;
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
        }
    )*};
}
wrapping!(u8, u16, u32, u64, i32);

macro_rules! words {
    ($($word:ty, $signed:ty);*) => {$(
        impl Word for $word {
            #[inline(always)]
            fn magnitude(self) -> u64 {
                u64::from((self as $signed).unsigned_abs())
            }
            #[inline(always)]
            fn zigzag(self) -> Self {
                (self << 1) ^ ((self as $signed >> (<$word>::BITS - 1)) as $word)
            }
            #[inline(always)]
            fn unzigzag(self) -> Self {
                (self >> 1) ^ (self & 1).wrapping_neg()
            }
            #[inline(always)]
            fn widen(self) -> u64 {
                u64::from(self)
            }
            #[inline(always)]
            fn narrow(wide: u64) -> Self {
                wide as $word
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn signed(self) -> i64 {
                i64::from(self as $signed)
            }
        }
    )*};
}
words!(u8, i8; u16, i16; u32, i32; u64, i64);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn zigzag_is_reversible(v in any::<u64>()) {
            prop_assert_eq!(v.zigzag().unzigzag(), v);
            prop_assert_eq!((v as u8).zigzag().unzigzag(), v as u8);
            prop_assert_eq!(u64::from((v as u16).zigzag()).div_ceil(2), (v as u16).magnitude());
        }
    }
}
