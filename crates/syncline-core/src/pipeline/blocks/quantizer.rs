//! Codes of predicted elements, and values of codes.

use crate::container::Header;
use crate::contexts::{CODE_LIMIT, code_of_mask};
use crate::pipeline::lossy::reserved_patterns;
use crate::predict::interpolate::Interpolation;
use crate::quantize::linear::Linear;
use crate::quantize::value_range::ValueRange;
use crate::quantize::{Real, Stored};

/// The code of elements that are not within the bound, until they are listed.
pub(super) const MISSED: i32 = i32::MIN;

/// Integers that predictions are rounded to have smaller magnitudes.
const GRID_LIMIT: u32 = 1 << 30;

/// Properties that all blocks of a stream share.
pub(super) struct Quantizer<T: Real> {
    pub interpolation: Interpolation<T>,
    pub linear: Linear<T>,
    pub stored: Stored<T>,
    pub range: Option<ValueRange<T>>,
}

impl<T: Real> Quantizer<T> {
    pub fn new(header: &Header) -> Self {
        let (reserved, bound) = (reserved_patterns::<T>(header), header.computed_bound());
        let interpolation = Interpolation::new(header.step, bound).for_elements(header.element_type);
        Self {
            interpolation: interpolation.with_reserved(&reserved),
            linear: Linear::new(header.step, bound),
            stored: header.stored(),
            range: header.range.map(ValueRange::new),
        }
    }

    /// Returns the integer that a prediction is rounded to, 0 if it is too large.
    #[inline(always)]
    fn on_grid(&self, predicted: T) -> i32 {
        predicted.times(self.interpolation.constants()[1]).round_ties_even().to_code::<GRID_LIMIT>().0
    }

    /// Returns the value of a code; of a mask, the prediction.
    #[inline(always)]
    pub fn value(&self, on_grid: bool, predicted: T, code: i32) -> T {
        let is_mask = code >= CODE_LIMIT as i32;
        if on_grid {
            return self.linear.value(self.on_grid(predicted).wrapping_add(if is_mask { 0 } else { code }));
        }
        let value = T::from_code(code).mul_add(self.interpolation.constants()[0], predicted);
        // A code of 0 gives the prediction itself, of whatever sign. One choice, so that compilers make vectors of it.
        if (code == 0) | is_mask { predicted } else { value }
    }

    /// Quantizes the differences of a row of elements from their predictions.
    #[inline(always)]
    pub fn quantize_from(&self, x: &[T], predicted: &[T], codes: &mut [i32], values: &mut [T]) {
        let ([step, inverse, bound], kept) = (self.interpolation.constants(), self.interpolation.kept());
        let count = x.len();
        let (predicted, codes, values) = (&predicted[..count], &mut codes[..count], &mut values[..count]);
        for k in 0..count {
            let (wanted, predicted) = (x[k], predicted[k]);
            let (code, small) = (wanted - predicted).times(inverse).round_ties_even().to_code::<CODE_LIMIT>();
            let value = T::from_code(code).mul_add(step, predicted);
            let value = if code != 0 { value } else { predicted };
            let error = (wanted - value).magnitude();
            // 0.0 is kept exactly, and -0.0 is verbatim.
            let same_zero = (wanted != kept) | (value.bits() | wanted.bits() == 0);
            let good = small & (error < bound) & same_zero;
            codes[k] = if good { code } else { MISSED };
            values[k] = if good { value } else { predicted };
        }
    }

    /// Quantizes a row of elements, and subtracts the integers of their predictions, which become their values.
    #[inline(always)]
    pub fn quantize_on_grid(&self, x: &[T], predicted: &mut [T], codes: &mut [i32], values: &mut [T]) {
        let count = x.len();
        let (predicted, codes, values) = (&mut predicted[..count], &mut codes[..count], &mut values[..count]);
        for k in 0..count {
            let before = self.on_grid(predicted[k]);
            let (q, good) = self.linear.quantize(x[k]);
            let code = q.wrapping_sub(before);
            let good = good & (code.unsigned_abs() < CODE_LIMIT);
            predicted[k] = self.linear.value(before);
            codes[k] = if good { code } else { MISSED };
            values[k] = if good { self.linear.value(q) } else { predicted[k] };
        }
    }

    /// Returns whether values are other ones when they are rounded to their type, and this matters.
    pub fn rounds(&self) -> bool {
        self.stored.element().is_half() || !(self.stored.is_same() || self.interpolation.reserved().is_empty())
    }

    /// Gives elements the code [`MISSED`] that miss the bound, or become a fill pattern, only when they are rounded to
    /// their type. `rounded` is memory for the row.
    #[inline(always)]
    pub fn check_stored(&self, x: &[T], codes: &mut [i32], values: &[T], rounded: &mut [T]) {
        let rounded = &mut rounded[..x.len()];
        rounded.copy_from_slice(&values[..x.len()]);
        self.stored.round(rounded);
        let [_, _, bound] = self.interpolation.constants();
        for ((code, &x), &value) in codes.iter_mut().zip(x).zip(&*rounded) {
            *code = if (x - value).magnitude() < bound { *code } else { MISSED };
        }
        for reserved in self.interpolation.reserved() {
            for (code, value) in codes.iter_mut().zip(&*rounded) {
                *code = if value.bits() == reserved.bits() { MISSED } else { *code };
            }
        }
    }

    /// Gives masked elements what stands for their masks, and [`MISSED`] to those that may not have their values. Masks
    /// are 0, or their number plus 1. Returns whether any element is missed.
    #[inline(always)]
    pub fn check(&self, x: &[T], masks: &[u8], predicted: &[T], (codes, values): (&mut [i32], &mut [T])) -> bool {
        let count = x.len();
        let (predicted, codes, values) = (&predicted[..count], &mut codes[..count], &mut values[..count]);
        let reserved = self.interpolation.reserved();
        let mut bad = 0;
        for &code in codes.iter() {
            bad |= i32::from(code == MISSED);
        }
        if let Some([low, high]) = self.range.map(|range| range.ends()) {
            for &x in x {
                bad |= i32::from((x < low) | (x > high));
            }
        }
        if bad == 0 && reserved.is_empty() && masks.is_empty() {
            return false;
        }
        let ends = self.range.map(|range| range.ends());
        let mut any_missed = false;
        for k in 0..count {
            let is_reserved = reserved.iter().any(|reserved| reserved.bits() == values[k].bits());
            let is_outside = ends.is_some_and(|[low, high]| x[k] < low || x[k] > high);
            if codes[k] == MISSED || is_reserved || is_outside {
                (values[k], codes[k]) = (predicted[k], MISSED);
            }
            if let Some(mask) = masks.get(k).and_then(|&mask| mask.checked_sub(1)) {
                (values[k], codes[k]) = (predicted[k], code_of_mask(mask.into()));
            }
            any_missed |= codes[k] == MISSED;
        }
        any_missed
    }
}
