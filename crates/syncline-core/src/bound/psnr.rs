//! Reaching a PSNR: what was achieved is known only after coding, and the bound tightened by what it missed.

use std::f64::consts::LOG2_10;

use super::linear::computed_bound;
use super::resolve::Resolved;
use crate::array::ElementType;
use crate::quantize::linear::mean_squared_error;
use crate::quantize::math::exp2;

/// The squared errors of the elements of a chunk or a stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct ErrorSummary {
    /// Sum of the squared errors if the bound is a PSNR, otherwise 0, in the unit of [`mean_squared_error`].
    pub squared_error: u128,
    /// Number of elements in the sum: those that are neither masked nor stored verbatim.
    pub counted: u64,
}

/// The mean squared error that a PSNR allows.
#[derive(Clone, Copy, Debug)]
pub struct PsnrGoal {
    /// The mean squared error that is allowed, in squares of `unit`.
    allowed: f64,
    /// The unit of errors: 1, or half the value range if its square overflows or underflows f64.
    unit: f64,
}

impl PsnrGoal {
    /// Number of attempts whose bound is tightened in proportion to the error of the attempt before. The second attempt
    /// nearly always reaches the goal.
    const GRADUAL: usize = 8;

    /// Returns the goal of `target` dB for an array whose bound and range are `resolved`.
    pub fn new(target: f64, resolved: &Resolved) -> Self {
        let (low, high) = resolved.range.unwrap_or((0.0, 0.0));
        let share = exp2(-target / 10.0 * LOG2_10);
        let allowed = (high - low).powi(2) * share;
        match allowed.is_normal() {
            true => Self { allowed, unit: 1.0 },
            false => Self { allowed: 4.0 * share, unit: high / 2.0 - low / 2.0 },
        }
    }

    /// Returns the bound to try after attempt number `attempt`, counted from 0, whose errors over all chunks are
    /// `summary`; `None` if that attempt reached the goal. Attempt 9 reaches it at the latest.
    pub fn next(
        &self,
        element: ElementType,
        resolved: &Resolved,
        summary: &ErrorSummary,
        attempt: usize,
    ) -> Option<Resolved> {
        let bound = computed_bound(element, resolved.abs_bound);
        let achieved = mean_squared_error(summary.squared_error, summary.counted, bound / self.unit);
        if achieved <= self.allowed || resolved.step == 0.0 {
            return None;
        }
        // A little more than what was missed.
        let missed = (self.allowed / achieved).sqrt() * 0.999;
        // In arrays of few values, all of them may be close to the ends of their steps, even after the bound has been
        // tightened. Half of the first bound is always enough: no error exceeds it, and the PSNR allows a root mean
        // square of 1 / sqrt(3) of the first bound.
        Some(resolved.tightened(element, if attempt < Self::GRADUAL { missed } else { missed.min(0.5) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::linear::linear_bound;
    use crate::bound::{Bound, Pipeline};

    fn bound(decibels: f64, range: (f64, f64)) -> f64 {
        linear_bound(ElementType::F64, Bound::Psnr(decibels), range).unwrap()
    }

    fn resolved(low: f64, high: f64, decibels: f64) -> Resolved {
        let mut resolved = Resolved { bound: Bound::Psnr(decibels), range: Some((low, high)), ..Resolved::lossless() };
        (resolved.pipeline, resolved.abs_bound) = (Pipeline::Quantized, bound(decibels, (low, high)));
        resolved.tightened(ElementType::F64, 1.0)
    }

    #[test]
    fn targets_do_not_depend_on_scale() {
        // The mean of errors that are uniform in +-bound is a third of the squared bound, here in the unit of the sums.
        // The first attempt misses the PSNR slightly.
        let sum = u128::from((32768_u64 * 32768) / 3);
        let next = |scale: f64| {
            let resolved = resolved(0.0, scale, 60.0);
            let summary = ErrorSummary { squared_error: sum + sum / 50, counted: 1 };
            PsnrGoal::new(60.0, &resolved).next(ElementType::F64, &resolved, &summary, 0).expect("missed").abs_bound
                / scale
        };
        for scale in [1e-160, 1e-170, 1e170, 1e300] {
            assert!((next(scale) / next(1.0) - 1.0).abs() < 1e-9, "{scale}");
        }
        let wide = resolved(-1.7e308, 1.7e308, 140.0);
        assert!(wide.abs_bound > 5e301 && wide.abs_bound < 6e301, "{}", wide.abs_bound);
        assert_eq!(bound(1e300, (-1.5e308, 1.5e308)), 0.0);
    }

    #[test]
    fn the_last_attempts_reach_any_goal() {
        let mut now = resolved(0.0, 1.0, 0.5);
        let goal = PsnrGoal::new(0.5, &now);
        // Every value is off by the whole bound.
        let summary = ErrorSummary { squared_error: 1 << 30, counted: 1 };
        let mut attempts = 0;
        while let Some(tightened) = goal.next(ElementType::F64, &now, &summary, attempts) {
            (now, attempts) = (tightened, attempts + 1);
        }
        assert!(attempts <= PsnrGoal::GRADUAL + 1, "{attempts}");
    }
}
