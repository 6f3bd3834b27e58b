//! Spectra and autocorrelation along the fastest axis, from sampled rows.

use realfft::RealFftPlanner;

/// Rows that are looked at in a slice.
const ROWS: usize = 64;
/// The shortest row with a spectrum.
const SHORTEST: usize = 16;
/// The largest distance of the autocorrelation.
pub const LAGS: usize = 64;

/// Sums over rows.
#[derive(Debug, Default)]
pub struct Signal {
    rows: u32,
    power: [Vec<f64>; 2],
    products: Vec<f64>,
    pairs: Vec<f64>,
}

impl Signal {
    /// Adds rows of a slice: values, and errors. NaN means that there is no value; it counts as the mean of its row.
    pub fn push(&mut self, values: &[f64], errors: &[f64], width: usize) {
        if width < SHORTEST {
            return;
        }
        let rows = values.len() / width;
        for row in (0..rows).step_by(rows.div_ceil(ROWS).max(1)) {
            let range = row * width..(row + 1) * width;
            let errors = centered(&errors[range.clone()]);
            self.add_power(0, &centered(&values[range]));
            self.add_power(1, &errors);
            self.add_products(&errors);
            self.rows += 1;
        }
    }

    fn add_power(&mut self, which: usize, row: &[f64]) {
        let transform = RealFftPlanner::<f64>::new().plan_fft_forward(row.len());
        let step = std::f64::consts::TAU / row.len() as f64;
        let mut input: Vec<f64> =
            row.iter().enumerate().map(|(i, value)| value * (0.5 - 0.5 * (i as f64 * step).cos())).collect();
        let mut output = transform.make_output_vec();
        // Lengths fit, so that this does not fail.
        if transform.process(&mut input, &mut output).is_ok() {
            let sums = &mut self.power[which];
            sums.resize(output.len(), 0.0);
            sums.iter_mut().zip(&output).for_each(|(sum, value)| *sum += value.norm_sqr() / row.len() as f64);
        }
    }

    fn add_products(&mut self, errors: &[f64]) {
        let lags = LAGS.min(errors.len() / 2);
        self.products.resize(lags + 1, 0.0);
        self.pairs.resize(lags + 1, 0.0);
        for lag in 0..=lags {
            let pairs = errors.iter().zip(&errors[lag..]);
            self.products[lag] += pairs.map(|(a, b)| a * b).sum::<f64>();
            self.pairs[lag] += (errors.len() - lag) as f64;
        }
    }

    /// Returns the spectrum of the values, or of the errors: frequencies in cycles per element, and the decimal
    /// logarithm of the power.
    pub fn spectrum(&self, of_errors: bool) -> Vec<(f64, f64)> {
        let power = &self.power[usize::from(of_errors)];
        let last = power.len().saturating_sub(1).max(1) as f64;
        let point = |(i, &sum): (usize, &f64)| (0.5 * i as f64 / last, (sum / f64::from(self.rows)).log10());
        power.iter().enumerate().skip(1).map(point).filter(|(_, level)| level.is_finite()).collect()
    }

    /// Returns the autocorrelation of the errors by distance; empty if there are no errors.
    pub fn autocorrelation(&self) -> Vec<(f64, f64)> {
        let mean = |lag: usize| self.products[lag] / self.pairs[lag];
        match self.products.first() {
            Some(&all) if all > 0.0 => (0..self.products.len()).map(|lag| (lag as f64, mean(lag) / mean(0))).collect(),
            _ => Vec::new(),
        }
    }
}

/// Returns a row without its mean, and with 0 for NaN.
fn centered(row: &[f64]) -> Vec<f64> {
    let finite = || row.iter().filter(|value| value.is_finite());
    let mean = finite().sum::<f64>() / finite().count().max(1) as f64;
    row.iter().map(|value| if value.is_finite() { value - mean } else { 0.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wave_is_one_line_of_the_spectrum() {
        let wave = |i: usize| (std::f64::consts::TAU * i as f64 / 8.0).sin();
        let values: Vec<f64> = (0..4 * 64).map(wave).collect();
        let mut signal = Signal::default();
        signal.push(&values, &values, 64);
        let spectrum = signal.spectrum(false);
        let highest = spectrum.iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
        assert!((highest.0 - 0.125).abs() < 1e-9, "{highest:?}");
        let correlation = signal.autocorrelation();
        assert!((correlation[0].1 - 1.0).abs() < 1e-12 && correlation[4].1 < -0.9 && correlation[8].1 > 0.9);
        // Rows that are too short, and no errors.
        let mut signal = Signal::default();
        signal.push(&[1.0; 8], &[0.0; 8], 4);
        assert!(signal.spectrum(true).is_empty() && signal.autocorrelation().is_empty());
        signal.push(&[1.0; 32], &[0.0; 32], 32);
        assert!(signal.autocorrelation().is_empty());
    }
}
