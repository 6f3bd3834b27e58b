//! The properties of a whole array that its stream depends on besides the elements themselves.

use super::scan::{Scan, bits_of};
use super::{Fill, Pattern};
use crate::array::{ArrayView, ElementType};
use crate::error::{Error, Result};

/// The value range of an array of `f32` or `f64`, and which special values it holds.
///
/// Two encoders that know the same of an array write the same stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArrayStats {
    pub(super) element: ElementType,
    pub(super) range: Option<(f64, f64)>,
    pub(super) nan: Option<Pattern>,
    pub(super) fill: Option<Pattern>,
    pub(super) minus_zero: Option<Pattern>,
    pub(super) zero: Option<Pattern>,
}

impl ArrayStats {
    /// Examines all elements of an array in memory.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the elements are not `f32` or `f64`.
    pub fn of(array: &ArrayView<'_>, fill: Fill) -> Result<Self> {
        let element = array.element_type();
        if !element.is_lossy_capable() {
            return Err(Error::invalid(format!("{element} is compressed without loss only: it needs no statistics")));
        }
        let mut first = Scan::new(element, array.shape().len(), fill);
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

    /// States what is assumed of an array whose elements are not known yet: it may hold quiet NaN, the given fill value
    /// and 0.0, and has this value range, if it is known.
    pub fn assumed(element: ElementType, fill: Fill, range: Option<(f64, f64)>) -> Self {
        let pattern = |value: f64| Some(Pattern { bits: bits_of(element, value), count: 0 });
        // As a scan finds it: values of the element type, and no -0.0.
        let end = |value: f64| match element {
            ElementType::F32 => f64::from(value as f32) + 0.0,
            _ => value + 0.0,
        };
        Self {
            element,
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

    /// Returns the smallest and largest finite value that is not fill, if known and there is one.
    pub fn range(&self) -> Option<(f64, f64)> {
        self.range
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
