//! The absolute bound that another kind of bound stands for.

use std::f64::consts::LOG2_10;

use super::Bound;
use crate::array::ElementType;
use crate::quantize::math::exp2;

/// Returns the bound that is computed with for elements whose errors must not exceed `holds`. The errors of values that
/// are rounded to integers do not, if before they are below half of an integer more.
pub fn computed_bound(element: ElementType, holds: f64) -> f64 {
    if element.is_integer() { holds + 0.5 } else { holds }
}

/// Returns the absolute bound for values in a range, if the bound is linear. That of integers is a whole number.
pub(super) fn linear_bound(element: ElementType, bound: Bound, range: (f64, f64)) -> Option<f64> {
    let (low, high) = range;
    Some(match bound {
        Bound::Rel(share) if element.is_integer() => whole_share(share, high - low),
        _ if element.is_integer() => real_bound(bound, range)?.floor().min(element.integer_extent()),
        _ => real_bound(bound, range)?,
    })
}

/// Returns the integer below or at `share * extent`, at most `extent`, which is an integer.
fn whole_share(share: f64, extent: f64) -> f64 {
    let whole = (share * extent).min(extent).floor();
    // The product may have been rounded up to an integer. The sign of this difference is exact.
    if share.mul_add(extent, -whole) < 0.0 { whole - 1.0 } else { whole }
}

fn real_bound(bound: Bound, range: (f64, f64)) -> Option<f64> {
    let bound = match bound {
        Bound::Lossless | Bound::PwRel(_) => return None,
        Bound::Abs(error) => error,
        Bound::Rel(share) => of_extent(share, range),
        Bound::Psnr(decibels) => of_psnr(decibels, range),
    };
    Some(if bound.is_finite() { bound } else { f64::MAX })
}

/// Returns `share` times the extent of a range. The extent itself may overflow an f64 although its share does not.
fn of_extent(share: f64, (low, high): (f64, f64)) -> f64 {
    let extent = high - low;
    if extent.is_finite() { share * extent } else { share * high - share * low }
}

/// Returns the absolute bound to try first for a PSNR of `decibels` and an array with this range. It assumes errors
/// that are uniform in +-bound, whose root mean square is bound / sqrt(3).
fn of_psnr(decibels: f64, (low, high): (f64, f64)) -> f64 {
    let share = exp2(-decibels / 20.0 * LOG2_10);
    let bound = (high - low) * 3f64.sqrt() * share;
    if bound.is_finite() { bound } else { of_extent(3f64.sqrt() * share, (low, high)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_integers_are_rounded_down_exactly() {
        // 0.29 is below the decimal number: the exact product is below 29, and rounds to it.
        for (share, extent, expected) in [
            (0.29, 100.0, 28.0),
            (0.5, 9.0, 4.0),
            (1.0, 7.0, 7.0),
            (1e300, 7.0, 7.0),
            (0.1, 0.0, 0.0),
            (2f64.powi(-52), 4_503_599_627_370_496.0, 1.0),
            (2f64.powi(-53) * 3.0, 9_007_199_254_740_991.0, 2.0),
        ] {
            assert_eq!(whole_share(share, extent), expected, "{share} of {extent}");
        }
        let abs = |error| linear_bound(ElementType::U8, Bound::Abs(error), (0.0, 9.0));
        assert_eq!((abs(2.9), abs(0.9), abs(1e9)), (Some(2.0), Some(0.0), Some(255.0)));
    }
}
