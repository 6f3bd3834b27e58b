use rayon::prelude::*;

use super::gaussian::gaussian_field;
use super::{Field, Generator, side};

/// Saturation level in standard deviations: 18 % of the volume is cloud.
const THRESHOLD: f32 = 0.9;

/// Returns the condensate: the part of a turbulent humidity above saturation, times a turbulent amplitude.
pub(super) fn condensate(scale: f64) -> Field {
    let shape = [side(100, scale, 4), side(500, scale, 4), side(500, scale, 4)];
    // Vertical motion is slower, so eddies are flat.
    let flattened = [0.6, 1.0, 1.0];
    let spectrum = |outer: f32| move |k: f32| k.powf(-11.0 / 3.0) / (1.0 + (outer / k).powi(4));
    let mut values = gaussian_field(shape, 21, flattened, spectrum(3.0));
    let amplitude = gaussian_field(shape, 22, flattened, spectrum(2.0));
    values.par_iter_mut().zip(&amplitude).for_each(|(v, w)| {
        let excess = (*v - THRESHOLD).max(0.0) * (1.0 + 0.5 * w);
        *v = excess * excess * 1e-3;
    });
    Field::new(Generator::Hurricane, values, &shape, 3)
}
