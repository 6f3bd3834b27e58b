//! Which values stand for missing data.

use crate::container::MAX_PATTERNS;
use crate::error::{Error, Result};

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
            _ if values.len() <= MAX_FILLS => {
                let mut all = [0.0; MAX_FILLS];
                all[..values.len()].copy_from_slice(values);
                Ok(Self::Values(FillValues { values: all, count: values.len() }))
            }
            _ => Err(Error::invalid(format!(
                "there are {} fill values, but a stream holds at most {MAX_FILLS}: leave out the rarest ones",
                values.len()
            ))),
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
        let error = Fill::of(&[0.0; 5]).unwrap_err();
        assert!(error.to_string().contains("at most 4"), "{error}");
    }
}
