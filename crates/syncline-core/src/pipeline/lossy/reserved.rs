//! Fill patterns that other values must not become.

use crate::bound::Pipeline;
use crate::container::Header;
use crate::quantize::{Real, Stored};

/// Returns the values of the fill patterns that other values could be reconstructed as: those within the bound of the
/// range. Most fill values are far outside. -0.0 is none of them, because a fill value of 0 is recorded as 0.0, too,
/// and logarithms never give 0.
pub fn reserved_patterns<T: Real>(header: &Header) -> Vec<u64> {
    let logarithm = header.pipeline == Pipeline::LogQuantized;
    let is_near = |value: f64| {
        let Some((low, high)) = header.range else { return true };
        let reach = if logarithm { header.abs_bound * low.abs().max(high.abs()) } else { header.computed_bound() };
        // Twice the reach, because the sums are rounded.
        (low - 2.0 * reach..=high + 2.0 * reach).contains(&value)
    };
    let is_reserved = |&bits: &u64| {
        let value = T::from_bits(bits);
        let is_reached = if value.is_zero() { !value.is_negative() && !logarithm } else { !value.wide().is_nan() };
        is_reached && is_near(value.wide())
    };
    // Those of integers of 64 bits, as codes could reach them.
    let stored = Stored::<T>::new(header.element_type, header.low, &[]);
    stored.values_of(&header.patterns).into_iter().filter(is_reserved).collect()
}
