//! Integers that only elements with a fill pattern may have, so that no other value becomes a fill value.

use super::quantize_tile::Quantizer;
use crate::bound::Pipeline;
use crate::container::Header;
use crate::quantize::Real;
use crate::quantize::mask::TileMask;
use crate::quantize::select::{integers_equal_to, negative};

/// An integer that is reconstructed as a fill pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The integer.
    pub integer: i32,
    /// Whether the pattern is negative, where signs are stored apart.
    pub sign: Option<bool>,
}

impl Reserved {
    /// Returns the reserved integers of a stream.
    pub fn of_stream<T: Real>(header: &Header) -> Vec<Self> {
        let quantizer = Quantizer::<T>::new(header);
        let reserved = |bits: u64| {
            let value = T::from_bits(bits);
            Some(match &quantizer {
                Quantizer::Linear(linear) => Self { integer: linear.integer_of(value)?, sign: None },
                Quantizer::Logarithm(logarithm) => {
                    Self { integer: logarithm.integer_of(value.magnitude())?, sign: Some(value.is_negative()) }
                }
            })
        };
        reserved_patterns::<T>(header).into_iter().filter_map(reserved).collect()
    }

    /// Returns the elements of a tile that would be reconstructed as the pattern.
    pub(super) fn elements<T: Real>(&self, x: &[T], q: &[i32]) -> TileMask {
        let equal = integers_equal_to(q, self.integer);
        match self.sign {
            None => equal,
            Some(true) => equal.without(&equal.without(&negative(x))),
            Some(false) => equal.without(&negative(x)),
        }
    }
}

/// Returns the fill patterns that other values may become: those within the bound of the range. Most fill values are far
/// outside.
pub fn reserved_patterns<T: Real>(header: &Header) -> Vec<u64> {
    let is_near = |&bits: &u64| {
        let Some((low, high)) = header.range else { return true };
        let reach = match header.pipeline {
            Pipeline::LogQuantized => header.abs_bound * low.abs().max(high.abs()),
            _ => header.abs_bound,
        };
        let value = T::from_bits(bits).wide();
        // Twice the reach, because the sums are rounded.
        (low - 2.0 * reach..=high + 2.0 * reach).contains(&value)
    };
    header.patterns.iter().copied().filter(is_near).collect()
}
