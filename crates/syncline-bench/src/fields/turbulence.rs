use super::gaussian::gaussian_field;
use super::{Field, Generator, side};

/// Returns a turbulent field with Kolmogorov's spectrum: the energy per shell falls with exponent 5/3, the spectral
/// density in three dimensions with 11/3.
pub(super) fn velocity(scale: f64) -> Field {
    let shape = [side(64, scale, 4), side(512, scale, 8), side(512, scale, 8)];
    let values = gaussian_field(shape, 71, [1.0; 3], |k| k.powf(-11.0 / 3.0));
    Field::new(Generator::Turbulence, values, &shape, 3)
}
