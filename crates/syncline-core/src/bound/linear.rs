//! The absolute bound that another kind of bound stands for.

use std::f64::consts::LOG2_10;

use super::Bound;
use super::limits::of_extent;
use crate::quantize::math::exp2;

/// Returns the absolute bound for values in a range, if the bound is linear.
pub(super) fn linear_bound(bound: Bound, range: (f64, f64)) -> Option<f64> {
    let bound = match bound {
        Bound::Lossless | Bound::PwRel(_) => return None,
        Bound::Abs(error) => error,
        Bound::Rel(share) => of_extent(share, range),
        Bound::Psnr(decibels) => of_psnr(decibels, range),
    };
    Some(if bound.is_finite() { bound } else { f64::MAX })
}

/// Returns the absolute bound to try first for a PSNR of `decibels` and an array with this range. It assumes errors
/// that are uniform in +-bound, whose root mean square is bound / sqrt(3).
fn of_psnr(decibels: f64, (low, high): (f64, f64)) -> f64 {
    let share = exp2(-decibels / 20.0 * LOG2_10);
    let bound = (high - low) * 3f64.sqrt() * share;
    if bound.is_finite() { bound } else { of_extent(3f64.sqrt() * share, (low, high)) }
}
