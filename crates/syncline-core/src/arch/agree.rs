//! Which bytes agree.

/// Bytes that are compared at once.
pub const AGREE: usize = 32;

/// A way to compare [`AGREE`] bytes. Loops are generic over it, and inlined where its instructions are enabled.
pub trait Agree: Copy {
    /// Bit i is set if byte i of `a` and `b` is the same.
    fn bytes(self, a: &[u8; AGREE], b: &[u8; AGREE]) -> u32;
}

/// Byte by byte, on any machine.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

impl Agree for Portable {
    #[inline(always)]
    fn bytes(self, a: &[u8; AGREE], b: &[u8; AGREE]) -> u32 {
        a.iter().zip(b).rev().fold(0, |mask, (a, b)| mask << 1 | u32::from(a == b))
    }
}

/// One vector comparison.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Agree for Avx2 {
    #[inline(always)]
    fn bytes(self, a: &[u8; AGREE], b: &[u8; AGREE]) -> u32 {
        use std::arch::x86_64::{_mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_movemask_epi8};
        // SAFETY: only `with_best` makes an `Avx2`, and only where it has found AVX2; the loads are of 32 bytes that the references hold, unaligned.
        unsafe {
            let (a, b) = (_mm256_loadu_si256(a.as_ptr().cast()), _mm256_loadu_si256(b.as_ptr().cast()));
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(a, b)) as u32
        }
    }
}

/// A loop that compares.
pub trait Comparing {
    /// What the loop returns.
    type Output;

    /// The loop. Must be `#[inline(always)]`, as must be everything hot that it calls.
    fn run<A: Agree>(self, agree: A) -> Self::Output;
}

/// Runs `comparing`, compiled for the best comparison of this machine. The result is the same everywhere.
#[inline]
pub fn with_best<C: Comparing>(comparing: C) -> C::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
        fn wide<C: Comparing>(comparing: C) -> C::Output {
            comparing.run(Avx2(()))
        }
        if super::has_avx2() {
            // SAFETY: `has_avx2` has just found every feature that `wide` enables.
            return unsafe { wide(comparing) };
        }
    }
    comparing.run(Portable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy)]
    struct Compare<'a>(&'a [u8; AGREE], &'a [u8; AGREE]);

    impl Comparing for Compare<'_> {
        type Output = u32;

        #[inline(always)]
        fn run<A: Agree>(self, agree: A) -> u32 {
            agree.bytes(self.0, self.1)
        }
    }

    #[test]
    fn differences_clear_their_bits() {
        let a: [u8; AGREE] = std::array::from_fn(|i| i as u8 * 7);
        assert_eq!((with_best(Compare(&a, &a)), Portable.bytes(&a, &a)), (u32::MAX, u32::MAX));
        for first in 0..AGREE {
            for second in 0..first {
                let mut b = a;
                b[first] ^= 1;
                b[second] ^= 0x80;
                let expected = !(1 << first | 1 << second);
                assert_eq!((with_best(Compare(&a, &b)), Portable.bytes(&a, &b)), (expected, expected));
            }
        }
    }
}
