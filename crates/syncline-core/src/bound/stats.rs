//! The properties of a whole array that its stream depends on besides the elements themselves.

use super::scan::{Scan, bits_of};
use super::{Bound, Fill, Pattern};
use crate::array::{ArrayView, ElementType};
use crate::error::{Error, Result};

/// The value range of an array of `f32` or `f64`, which special values it holds, and whether its values suit a bound.
///
/// Two encoders that know the same about an array write the same stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArrayStats {
    pub(super) element: ElementType,
    pub(super) bound: Bound,
    pub(super) range: Option<(f64, f64)>,
    /// Number of samples, and how many of them are too large to be quantized with the bound, if known.
    pub(super) samples: Option<(u64, u64)>,
    pub(super) nan: Option<Pattern>,
    pub(super) fill: Option<Pattern>,
    pub(super) minus_zero: Option<Pattern>,
    pub(super) zero: Option<Pattern>,
}

impl ArrayStats {
    /// Examines all elements of an array in memory that is to be compressed with this bound.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the elements are not `f32` or `f64`, or if the bound is invalid.
    pub fn of(array: &ArrayView<'_>, bound: Bound, fill: Fill) -> Result<Self> {
        let element = array.element_type();
        if !element.is_lossy_capable() {
            return Err(Error::invalid(format!(
                "an array of {element} has no statistics, because only f32 and f64 are compressed with loss: \
                 create the writer without statistics"
            )));
        }
        bound.validate(element)?;
        let mut first = Scan::new(element, array.shape().len(), bound, fill);
        first.add(0, array.bytes());
        let scan = match first.second_pass() {
            Some(mut second) => {
                second.add(0, array.bytes());
                first.settle(second)
            }
            None => first,
        };
        Ok(Self::from(&scan))
    }

    /// Returns the statistics to assume for an array whose elements are not known yet: it may contain quiet NaN, the
    /// given fill value, and 0.0, and has this value range, if it is known.
    pub fn assumed(element: ElementType, bound: Bound, fill: Fill, range: Option<(f64, f64)>) -> Self {
        let pattern = |value: f64| Some(Pattern { bits: bits_of(element, value), count: 0 });
        // The same conversions as in a scan: values of the element type, and no -0.0.
        let end = |value: f64| match element {
            ElementType::F32 => f64::from(value as f32) + 0.0,
            _ => value + 0.0,
        };
        Self {
            element,
            bound,
            samples: None,
            range: range.map(|(low, high)| (end(low), end(high))),
            nan: pattern(f64::NAN),
            fill: match fill {
                Fill::Value(value) => pattern(value),
                Fill::None | Fill::Auto => None,
            },
            minus_zero: None,
            zero: pattern(0.0),
        }
    }

    /// Returns the element type.
    pub fn element_type(&self) -> ElementType {
        self.element
    }

    /// Returns the bound for which the array was examined.
    pub fn bound(&self) -> Bound {
        self.bound
    }

    /// Returns the smallest and largest finite value that is not fill, if known and there is one.
    pub fn range(&self) -> Option<(f64, f64)> {
        self.range
    }

    /// Returns whether at least three quarters of the values are below a magnitude. If nothing is known about single
    /// values, returns whether any value of the range is.
    pub(super) fn most_values_fit(&self, magnitude: f64) -> bool {
        match (self.samples, self.range) {
            (Some((samples, too_large)), _) => 4 * too_large <= samples,
            (None, Some((low, high))) => (low..=high).contains(&0.0) || low.abs().min(high.abs()) < magnitude,
            (None, None) => true,
        }
    }

    /// Returns the patterns to mask, in the order in which the stream numbers them; 0.0 only if zeros cannot be
    /// quantized.
    pub fn patterns(&self, zeros: bool) -> Vec<Pattern> {
        let mut patterns: Vec<Pattern> = Vec::new();
        for pattern in [self.nan, self.fill, self.minus_zero, self.zero.filter(|_| zeros)].into_iter().flatten() {
            if patterns.iter().all(|known| known.bits != pattern.bits) {
                patterns.push(pattern);
            }
        }
        patterns
    }
}
