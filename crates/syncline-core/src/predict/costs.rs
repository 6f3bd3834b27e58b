//! What codes cost: about the bits of their magnitudes, in units of 2^-11 (`docs/ENCODER.md`, "Codes of quantized
//! chunks").

use crate::simd::InstructionSet;

/// Fraction bits of costs.
pub const COST_LOG2: u32 = 11;

/// Codes whose cost is computed together.
pub const COST_GROUP: usize = 4;

/// Returns a factor of a cost: twice the magnitude of a code plus 1.
#[inline(always)]
pub fn cost_factor(code: i32) -> f32 {
    (code as f32).abs() * 2.0 + 1.0
}

/// Returns the approximate number of bits, in units of 2^-11, of codes whose [`cost_factor`]s have this product: its
/// logarithm, linearly interpolated between powers of two.
#[inline(always)]
pub fn product_cost(product: f32) -> u32 {
    (product.to_bits() - 1f32.to_bits()) >> (f32::MANTISSA_DIGITS - 1 - COST_LOG2)
}

/// Returns the sum of the costs of at most 4,096 codes, in groups of four.
#[inline(always)]
pub fn total_cost<I: InstructionSet>(isa: I, codes: &[i32]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = isa.avx2() {
        let (blocks, rest) = codes.as_chunks::<32>();
        return super::avx2::total_cost(token, blocks) + total_cost_portable(rest);
    }
    let _ = isa;
    total_cost_portable(codes)
}

/// Computes [`total_cost`].
#[inline(always)]
fn total_cost_portable(codes: &[i32]) -> u32 {
    let of_group = |group: &[i32]| product_cost(group.iter().fold(1.0, |product, &code| product * cost_factor(code)));
    codes.chunks(COST_GROUP).map(of_group).sum()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::simd::{self, Kernel};
    use proptest::prelude::*;

    /// Computes [`total_cost`] one code after another.
    pub fn cost_by_definition(codes: &[i32]) -> u32 {
        total_cost_portable(codes)
    }

    struct Total<'a>(&'a [i32]);

    impl Kernel for Total<'_> {
        type Output = u32;

        #[inline(always)]
        fn run<I: InstructionSet>(self, isa: I) -> u32 {
            total_cost(isa, self.0)
        }
    }

    proptest! {
        #[test]
        fn costs_in_vectors_are_those_of_the_definition(
            codes in prop::collection::vec(prop_oneof![-9..9i32, any::<i32>(), Just(i32::MIN)], 0..200),
        ) {
            prop_assert_eq!(simd::run(Total(&codes)), cost_by_definition(&codes));
        }
    }

    #[test]
    fn costs_are_about_bits() {
        let cost = |code| cost_by_definition(&[code]);
        assert_eq!((cost(0), cost(-1) >> 11, cost(i32::MIN)), (0, 1, cost(i32::MAX)));
        for code in [1, 3, 100, 77_777] {
            let exact = (2.0 * f64::from(code) + 1.0).log2() * 2048.0;
            assert!((f64::from(cost(code)) - exact).abs() < 0.09 * 2048.0);
            let four = cost_by_definition(&[code; 4]);
            assert!((f64::from(four) - 4.0 * exact).abs() < 0.36 * 2048.0);
        }
        // No sum over a tile overflows.
        assert!(cost_by_definition(&[i32::MIN; 4]) < u32::MAX / 4096);
    }
}
