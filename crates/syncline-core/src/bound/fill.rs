//! Which values stand for missing data.

use crate::error::{Error, Result};
use crate::quantize::mask::MAX_PATTERNS;

/// The largest number of fill values.
pub const MAX_FILLS: usize = MAX_PATTERNS;

/// Which values, besides NaN, stand for missing data. Fill values are kept exactly and do not count in the value range.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Fill {
    /// No value.
    None,
    /// The given value.
    Value(f64),
    /// Several given values.
    Values(FillValues),
    /// Up to three values that are detected: extreme values that repeat and lie far from all others. See "Fill values"
    /// in `docs/ENCODER.md`.
    #[default]
    Auto,
}

/// A bit pattern whose elements are masked instead of being predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The element's bits, zero-extended.
    pub bits: u64,
    /// Number of elements that hold the value, if they have been counted; for NaN, the number of elements that hold any
    /// NaN.
    pub count: u64,
}

/// One to four fill values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FillValues {
    values: [f64; MAX_FILLS],
    count: usize,
}

impl Fill {
    /// Returns the option for these values, of which there may be none.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for more than four values.
    pub fn of(values: &[f64]) -> Result<Self> {
        match *values {
            [] => Ok(Self::None),
            [value] => Ok(Self::Value(value)),
            _ if values.len() <= MAX_FILLS && signed(values).count() <= MAX_FILLS => {
                let mut all = [0.0; MAX_FILLS];
                all[..values.len()].copy_from_slice(values);
                Ok(Self::Values(FillValues { values: all, count: values.len() }))
            }
            _ => {
                let zero = if values.contains(&0.0) { ", of which 0 counts as 0.0 and -0.0" } else { "" };
                Err(Error::invalid(format!(
                    "there are {} fill values{zero}, but a stream holds at most {MAX_FILLS}: leave out the rarest ones",
                    values.len()
                )))
            }
        }
    }

    /// Returns the given values. There are none if values are detected.
    pub fn values(&self) -> &[f64] {
        match self {
            Self::None | Self::Auto => &[],
            Self::Value(value) => std::slice::from_ref(value),
            Self::Values(several) => &several.values[..several.count],
        }
    }

    /// Returns the given values as they are looked for in an array: a zero stands for 0.0 and -0.0. There are at most
    /// [`MAX_FILLS`].
    pub(super) fn signed(&self) -> impl Iterator<Item = f64> + '_ {
        signed(self.values())
    }
}

/// Returns values, with 0.0 and -0.0 in place of the first zero and without further zeros.
fn signed(values: &[f64]) -> impl Iterator<Item = f64> + '_ {
    let first_zero = values.iter().position(|&value| value == 0.0);
    values.iter().enumerate().flat_map(move |(i, &value)| {
        let is_zero = value == 0.0;
        let both = [0.0, -0.0].into_iter().filter(move |_| first_zero == Some(i));
        both.chain((!is_zero).then_some(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_four_values() {
        assert_eq!(Fill::of(&[]).unwrap(), Fill::None);
        assert_eq!(Fill::of(&[-9999.0]).unwrap(), Fill::Value(-9999.0));
        let three = Fill::of(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(three.values(), [1.0, 2.0, 3.0]);
        assert_eq!((Fill::Value(4.0).values(), Fill::Auto.values().len()), (&[4.0][..], 0));
        let error = Fill::of(&[1.0; 5]).unwrap_err();
        assert!(error.to_string().contains("at most 4"), "{error}");
    }

    #[test]
    fn a_given_zero_stands_for_both_zeros() {
        let bits = |fill: Fill| fill.signed().map(f64::to_bits).collect::<Vec<_>>();
        let of = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(Fill::Value(0.0)), of(&[0.0, -0.0]));
        assert_eq!(bits(Fill::Value(-0.0)), of(&[0.0, -0.0]));
        assert_eq!(bits(Fill::of(&[1.0, -0.0, 0.0, 2.0]).unwrap()), of(&[1.0, 0.0, -0.0, 2.0]));
        let error = Fill::of(&[1.0, 0.0, 2.0, 3.0]).unwrap_err();
        assert!(error.to_string().contains("0 counts as 0.0 and -0.0"), "{error}");
    }
}
