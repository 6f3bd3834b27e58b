//! The properties of a whole array that its stream depends on besides the elements themselves.

use super::{Bound, Fill, MAX_FILLS, Pattern};
use crate::array::ElementType;
use crate::quantize::mask::MAX_PATTERNS;

/// The value range of an array, which special values it holds, and whether its values suit a bound.
///
/// Two encoders that know the same about an array write the same stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArrayStats {
    pub(super) element: ElementType,
    pub(super) bound: Bound,
    /// The range of the values that are computed with: of integers of 64 bits, without `low`.
    pub(super) range: Option<(f64, f64)>,
    /// The bits of the smallest integer of 64 bits; 0 for other types.
    pub(super) low: u64,
    /// Number of samples, and how many of them are too large to be quantized with the bound, if known.
    pub(super) samples: Option<(u64, u64)>,
    /// A number above twice the bound of which the values seem to be whole multiples, if there is one.
    pub(super) lattice: Option<f64>,
    pub(super) nan: Option<Pattern>,
    pub(super) fills: [Option<Pattern>; MAX_FILLS],
    pub(super) minus_zero: Option<Pattern>,
    pub(super) zero: Option<Pattern>,
}

impl ArrayStats {
    /// States what is assumed of an array whose elements are not known yet: it may hold quiet NaN, the given fill
    /// values and 0.0, and has this value range, if it is known. Integers of 64 bits are compressed without loss then,
    /// because their smallest value is not known exactly.
    pub fn assumed(element: ElementType, bound: Bound, fill: Fill, range: Option<(f64, f64)>) -> Self {
        let pattern = |value: f64| Some(Pattern { bits: element.bits_of_number(value)?, count: 0 });
        let of_float = |value: f64| pattern(value).filter(|_| element.is_float());
        Self {
            element,
            bound,
            samples: None,
            lattice: None,
            range: range.and_then(|range| range_of_type(element, range)),
            low: 0,
            nan: of_float(f64::NAN),
            fills: {
                // A scan does not record -0.0 beside 0.0 either, unless an element holds it.
                let mut given = fill.signed().filter(|value| value.to_bits() != (-0.0f64).to_bits());
                std::array::from_fn(|_| given.next().and_then(pattern))
            },
            minus_zero: None,
            zero: of_float(0.0),
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

    /// Returns the smallest and largest finite value that is not fill, if known and there is one. Integers of more than
    /// 53 bits are rounded.
    pub fn range(&self) -> Option<(f64, f64)> {
        let low = if self.element.is_wide_integer() { self.element.number_of_bits(self.low) } else { 0.0 };
        self.range.map(|(first, last)| (low + first, low + last))
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
    /// quantized. Fill values come before others where there are more patterns than a stream holds: these others are
    /// then verbatim values.
    pub fn patterns(&self, zeros: bool) -> Vec<Pattern> {
        let others = [self.nan, self.minus_zero, self.zero.filter(|_| zeros)].map(|pattern| (pattern, false));
        let [nan, minus_zero, zero] = others;
        let all = [nan].into_iter().chain(self.fills.map(|fill| (fill, true))).chain([minus_zero, zero]);
        let mut patterns: Vec<(Pattern, bool)> = Vec::new();
        for (pattern, is_fill) in all.filter_map(|(pattern, is_fill)| Some((pattern?, is_fill))) {
            match patterns.iter_mut().find(|(known, _)| known.bits == pattern.bits) {
                Some(known) => known.1 |= is_fill,
                None => patterns.push((pattern, is_fill)),
            }
        }
        while patterns.len() > MAX_PATTERNS {
            let last = patterns.iter().rposition(|(_, is_fill)| !is_fill).unwrap_or(patterns.len() - 1);
            patterns.remove(last);
        }
        patterns.into_iter().map(|(pattern, _)| pattern).collect()
    }
}

/// Returns a stated range as values of the type, without -0.0, as in a scan.
fn range_of_type(element: ElementType, (low, high): (f64, f64)) -> Option<(f64, f64)> {
    if element.is_wide_integer() {
        return None;
    }
    let [least, most] = match element {
        _ if element.is_signed_integer() => {
            [-(element.integer_extent() + 1.0) / 2.0, (element.integer_extent() - 1.0) / 2.0]
        }
        _ if element.is_integer() => [0.0, element.integer_extent()],
        ElementType::F16 => [-65_504.0, 65_504.0],
        ElementType::Bf16 => [-MOST_BF16, MOST_BF16],
        _ => [f64::NEG_INFINITY, f64::INFINITY],
    };
    let whole = |value: f64, rounded: f64| if element.is_integer() { rounded } else { value };
    let (low, high) = (whole(low, low.ceil()).clamp(least, most), whole(high, high.floor()).clamp(least, most));
    let end = |value: f64| element.bits_of_number(value).map(|bits| element.number_of_bits(bits) + 0.0);
    Some((end(low)?, end(high)?)).filter(|(low, high)| low <= high)
}

/// The largest finite `bf16`.
const MOST_BF16: f64 = 3.389_531_389_251_535_5e38;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stated_ranges_become_values_of_the_type() {
        let range =
            |element, low, high| ArrayStats::assumed(element, Bound::Abs(1.0), Fill::None, Some((low, high))).range();
        assert_eq!(range(ElementType::U8, -3.0, 17.9), Some((0.0, 17.0)));
        assert_eq!(range(ElementType::I16, -1e9, 1e9), Some((-32768.0, 32767.0)));
        assert_eq!(range(ElementType::I32, 0.1, 0.9), None);
        assert_eq!(range(ElementType::F16, -1e9, 2049.0), Some((-65504.0, 2048.0)));
        assert_eq!(range(ElementType::Bf16, -f64::MAX, f64::MAX), Some((-MOST_BF16, MOST_BF16)));
        assert_eq!(range(ElementType::F32, -0.0, 0.1), Some((0.0, f64::from(0.1f32))));
        assert_eq!(range(ElementType::I64, 0.0, 1.0), None);
    }

    #[test]
    fn fill_values_come_before_other_patterns() {
        let element = ElementType::F32;
        let bits = |fills: &[f64]| -> Vec<u32> {
            let fill = Fill::of(fills).unwrap();
            let stats = ArrayStats::assumed(element, Bound::PwRel(0.1), fill, None);
            stats.patterns(true).iter().map(|pattern| pattern.bits as u32).collect()
        };
        let of = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
        assert_eq!(bits(&[1.0, 2.0]), of(&[f32::NAN, 1.0, 2.0, 0.0]));
        assert_eq!(bits(&[1.0, 2.0, 3.0]), of(&[f32::NAN, 1.0, 2.0, 3.0]));
        assert_eq!(bits(&[1.0, 2.0, 3.0, 4.0]), of(&[1.0, 2.0, 3.0, 4.0]));
        assert_eq!(bits(&[0.0, 2.0, 0.0, 4.0]), of(&[f32::NAN, 0.0, 2.0, 4.0]));
        // NaN as a fill value stays.
        assert_eq!(bits(&[1.0, 2.0, 3.0, f64::NAN]), of(&[f32::NAN, 1.0, 2.0, 3.0]));
    }
}
