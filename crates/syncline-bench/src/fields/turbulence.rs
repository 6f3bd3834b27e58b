use super::gaussian::gaussian_field;
use super::{Field, Generator, side};

/// Kolmogorov's spectrum: 5/3 of the shell energy, so 11/3 of the density in three dimensions.
pub(super) fn velocity(scale: f64) -> Field {
    let shape = [side(64, scale, 4), side(512, scale, 8), side(512, scale, 8)];
    let values = gaussian_field(shape, 71, [1.0; 3], |k| k.powf(-11.0 / 3.0));
    Field::new(Generator::Turbulence, values, &shape, 3)
}
