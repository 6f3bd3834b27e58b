//! Distributions of values and errors.

/// Bins of the histogram of errors; odd, so that one is around 0.
pub const ERROR_BINS: usize = 101;
/// Bins of the distributions of values.
const VALUE_BINS: usize = 4096;

/// Statistics of an array and its reconstruction, from all elements.
#[derive(Debug)]
pub struct Statistics {
    /// The largest error in the histogram.
    pub limit: f64,
    /// Errors from `-limit` to `limit`.
    pub errors: Vec<u64>,
    range: (f64, f64),
    values: [Vec<u64>; 2],
    count: f64,
    mean: f64,
    squares: f64,
}

impl Statistics {
    /// Starts with the largest absolute error and the range of the values.
    pub fn new(limit: f64, range: Option<(f64, f64)>) -> Self {
        Self {
            limit,
            errors: vec![0; ERROR_BINS],
            range: range.unwrap_or((0.0, 0.0)),
            values: [vec![0; VALUE_BINS], vec![0; VALUE_BINS]],
            count: 0.0,
            mean: 0.0,
            squares: 0.0,
        }
    }

    /// Adds elements. NaN means that there is no value.
    pub fn push(&mut self, original: &[f64], other: &[f64]) {
        let (low, high) = self.range;
        for (&x, &y) in original.iter().zip(other).filter(|(x, y)| x.is_finite() && y.is_finite()) {
            let bin = bin_of(y - x, -self.limit, self.limit, ERROR_BINS);
            self.errors[bin] += 1;
            self.values[0][bin_of(x, low, high, VALUE_BINS)] += 1;
            self.values[1][bin_of(y, low, high, VALUE_BINS)] += 1;
            self.count += 1.0;
            let distance = x - self.mean;
            self.mean += distance / self.count;
            self.squares += distance * (x - self.mean);
        }
    }

    /// Returns the mean of the original's values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then_some(self.mean)
    }

    /// Returns the standard deviation of the original's values.
    pub fn deviation(&self) -> Option<f64> {
        (self.count > 0.0).then(|| (self.squares / self.count).sqrt())
    }

    /// Returns the largest difference of the two cumulative distributions of values (Kolmogorov and Smirnov), between
    /// the bins.
    pub fn distribution_distance(&self) -> Option<f64> {
        let mut sums = (0, 0);
        let distances = self.values[0].iter().zip(&self.values[1]).map(|(x, y)| {
            sums = (sums.0 + x, sums.1 + y);
            sums.0.abs_diff(sums.1)
        });
        let most = distances.max().unwrap_or(0);
        (self.count > 0.0).then(|| most as f64 / self.count)
    }

    /// Returns the entropy of the histogram of errors, in bits.
    pub fn error_entropy(&self) -> Option<f64> {
        let share = |&count: &u64| count as f64 / self.count;
        let bits = |share: f64| if share > 0.0 { -share * share.log2() } else { 0.0 };
        (self.count > 0.0).then(|| self.errors.iter().map(share).map(bits).sum())
    }
}

fn bin_of(value: f64, low: f64, high: f64, bins: usize) -> usize {
    // A cast of NaN, which a range of 0 makes, is 0.
    (((value - low) / (high - low) * bins as f64) as usize).min(bins - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions() {
        let mut statistics = Statistics::new(1.0, Some((0.0, 4.0)));
        statistics.push(&[0.0, 2.0, 4.0, f64::NAN], &[0.0, 3.0, 4.0, f64::NAN]);
        assert_eq!((statistics.errors[ERROR_BINS / 2], statistics.errors[ERROR_BINS - 1]), (2, 1));
        assert_eq!((statistics.mean(), statistics.distribution_distance()), (Some(2.0), Some(1.0 / 3.0)));
        assert!((statistics.deviation().unwrap() - (8.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!((statistics.error_entropy().unwrap() - 0.918_295_834).abs() < 1e-6);
        let mut constant = Statistics::new(0.0, Some((5.0, 5.0)));
        constant.push(&[5.0], &[5.0]);
        assert_eq!(constant.error_entropy(), Some(0.0));
    }
}
