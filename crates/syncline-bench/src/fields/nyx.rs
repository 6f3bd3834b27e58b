use rayon::prelude::*;

use super::gaussian::gaussian_field;
use super::{Field, Generator, side};

/// Standard deviation of the logarithm of the density, which determines the length of the distribution's tail.
const SIGMA: f32 = 2.2;

/// Returns a log-normal density with a spectrum similar to cold dark matter, smoothed at the smallest scales as by gas
/// pressure.
pub(super) fn density(scale: f64) -> Field {
    let n = side(512, scale, 16);
    let smallest = 0.30 * n as f32;
    let mut values = gaussian_field([n; 3], 11, [1.0; 3], |k| {
        k / (1.0 + (k / 6.0).powi(2)).powf(2.2) * (-(k / smallest).powi(2)).exp()
    });
    values.par_iter_mut().for_each(|v| *v = (SIGMA * *v).exp());
    Field::new(Generator::Nyx, values, &[n; 3], 3)
}
