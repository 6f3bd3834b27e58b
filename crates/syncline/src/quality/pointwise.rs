//! Metrics of single elements: errors, counts, and moments.

use rayon::prelude::*;

use super::sample::{Sample, samples};
use super::{Criteria, Quality, Tolerance};

/// A largest error, and the element that has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    /// The error.
    pub value: f64,
    /// Number of the element, in C order.
    pub element: u64,
}

/// Metrics of the elements added so far. Parts can be merged, so that blocks are processed in parallel.
#[derive(Clone, Debug, Default)]
pub(super) struct Pointwise {
    special: u64,
    mismatches: u64,
    differing: u64,
    violations: u64,
    max_absolute: Option<Peak>,
    max_relative: Option<Peak>,
    /// Moments of the errors multiplied by [`error_scale`], like those of the values.
    squared_error: f64,
    moments: Moments,
}

/// Count, means and central second moments of pairs, merged without cancellation (Chan, Golub and LeVeque 1979).
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: f64,
    mean_x: f64,
    mean_y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

/// Elements that one thread takes at a time.
const PART: usize = 1 << 15;

impl Pointwise {
    /// Adds the elements from number `first` on.
    pub(super) fn push<T: Sample>(&mut self, original: &[u8], reconstructed: &[u8], first: u64, criteria: &Criteria) {
        let parts: Vec<Self> = original
            .par_chunks(PART * T::SIZE)
            .zip(reconstructed.par_chunks(PART * T::SIZE))
            .enumerate()
            .map(|(part, (x, y))| Self::of_part::<T>(x, y, first + (part * PART) as u64, criteria))
            .collect();
        // Merged in order, so that the result does not depend on the number of threads.
        for part in parts {
            self.merge(part);
        }
    }

    fn of_part<T: Sample>(original: &[u8], reconstructed: &[u8], first: u64, criteria: &Criteria) -> Self {
        let mut part = Self::default();
        let scale = error_scale(criteria);
        let mut moments = ShiftedSums::default();
        let pairs = samples::<T>(original).zip(samples::<T>(reconstructed));
        for (element, (x, y)) in (first..).zip(pairs) {
            let differs = x.bits() != y.bits();
            part.differing += u64::from(differs);
            if x.is_special(&criteria.fills) {
                part.special += 1;
                part.mismatches += u64::from(differs);
                continue;
            }
            if !y.value().is_finite() {
                part.mismatches += 1;
                continue;
            }
            part.mismatches += u64::from(differs && x.is_negative_zero());
            let (error, lost) = x.distance(y);
            part.violations += u64::from(is_beyond(criteria.tolerance, x.value(), error, lost));
            raise(&mut part.max_absolute, error, element);
            if x.value() != 0.0 {
                raise(&mut part.max_relative, error / x.value().abs(), element);
            }
            part.squared_error += (error * scale).powi(2);
            moments.push(x.value() * scale, y.value() * scale);
        }
        part.moments = moments.central();
        part
    }

    fn merge(&mut self, other: Self) {
        self.special += other.special;
        self.mismatches += other.mismatches;
        self.differing += other.differing;
        self.violations += other.violations;
        for (mine, theirs) in
            [(&mut self.max_absolute, other.max_absolute), (&mut self.max_relative, other.max_relative)]
        {
            if let Some(peak) = theirs {
                raise(mine, peak.value, peak.element);
            }
        }
        self.squared_error += other.squared_error;
        self.moments = self.moments.merged(other.moments);
    }

    pub(super) fn quality(self, criteria: Criteria, ssim: Option<f64>) -> Quality {
        let compared = self.moments.count;
        let scale = error_scale(&criteria);
        let extent = criteria.range.map(|(low, high)| high * scale - low * scale).filter(|&extent| extent > 0.0);
        let rmse = (compared > 0.0).then(|| (self.squared_error / compared).sqrt());
        let psnr =
            rmse.and_then(|rmse| if rmse == 0.0 { Some(f64::INFINITY) } else { Some(20.0 * (extent? / rmse).log10()) });
        let variances = self.moments.xx.sqrt() * self.moments.yy.sqrt();
        Quality {
            elements: criteria.shape.len(),
            compared: compared as u64,
            special: self.special,
            mismatches: self.mismatches,
            differing: self.differing,
            violations: self.violations,
            range: criteria.range,
            max_absolute: self.max_absolute,
            max_relative: self.max_relative,
            rmse: rmse.map(|rmse| rmse / scale),
            nrmse: rmse.zip(extent).map(|(rmse, extent)| rmse / extent),
            psnr,
            ssim,
            correlation: (variances > 0.0).then(|| (self.moments.xy / variances).clamp(-1.0, 1.0)),
            tolerance: criteria.tolerance,
        }
    }
}

/// Returns a power of two that scales the range of the original to about 1, so that squares of errors and values stay
/// within f64. It changes nothing else.
/// beyond f64: nothing else changes.
fn error_scale(criteria: &Criteria) -> f64 {
    const BIAS: i32 = 1023;
    let (low, high) = criteria.range.unwrap_or((0.0, 0.0));
    // Half of the range, because the whole may be infinite.
    let exponent = ((high / 2.0 - low / 2.0).to_bits() >> 52) as i32 - BIAS;
    if low < high { f64::from_bits(((BIAS - exponent.clamp(1 - BIAS, BIAS - 1)) as u64) << 52) } else { 1.0 }
}

/// Returns whether an error of `error + lost` at a value `x` exceeds the tolerance, decided exactly.
fn is_beyond(tolerance: Tolerance, x: f64, error: f64, lost: f64) -> bool {
    match tolerance {
        Tolerance::Any | Tolerance::Exact => false,
        Tolerance::Absolute(bound) => error > bound || error == bound && lost > 0.0,
        Tolerance::PointwiseRelative(bound) => {
            // Near the smallest numbers, the rounding error of a product cannot be represented. A common power of two
            // as factor avoids that and changes nothing else.
            const TINY: f64 = f64::from_bits((1023 - 900) << 52);
            const LARGER: f64 = f64::from_bits((1023 + 200) << 52);
            let scale = if x.abs() < TINY { LARGER } else { 1.0 };
            let (x, error, lost) = (x.abs() * scale, error * scale, lost * scale);
            let limit = bound * x;
            let limit_lost = bound.mul_add(x, -limit);
            error > limit || error == limit && lost > limit_lost
        }
    }
}

fn raise(peak: &mut Option<Peak>, value: f64, element: u64) {
    if peak.is_none_or(|peak| value > peak.value) {
        *peak = Some(Peak { value, element });
    }
}

/// Sums of one part relative to its first pair, which is close enough to the mean to keep the digits of the variance.
#[derive(Default)]
struct ShiftedSums {
    count: f64,
    shift: (f64, f64),
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

impl ShiftedSums {
    fn push(&mut self, x: f64, y: f64) {
        if self.count == 0.0 {
            self.shift = (x, y);
        }
        let (x, y) = (x - self.shift.0, y - self.shift.1);
        self.count += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.yy += y * y;
        self.xy += x * y;
    }

    fn central(&self) -> Moments {
        if self.count == 0.0 {
            return Moments::default();
        }
        let (mean_x, mean_y) = (self.x / self.count, self.y / self.count);
        Moments {
            count: self.count,
            mean_x: self.shift.0 + mean_x,
            mean_y: self.shift.1 + mean_y,
            xx: (self.xx - self.x * mean_x).max(0.0),
            yy: (self.yy - self.y * mean_y).max(0.0),
            xy: self.xy - self.x * mean_y,
        }
    }
}

impl Moments {
    fn merged(self, other: Self) -> Self {
        let count = self.count + other.count;
        if count == 0.0 {
            return self;
        }
        let share = other.count / count;
        let (dx, dy) = (other.mean_x - self.mean_x, other.mean_y - self.mean_y);
        let weight = self.count * share;
        Self {
            count,
            mean_x: self.mean_x + dx * share,
            mean_y: self.mean_y + dy * share,
            xx: self.xx + other.xx + dx * dx * weight,
            yy: self.yy + other.yy + dy * dy * weight,
            xy: self.xy + other.xy + dx * dy * weight,
        }
    }
}
