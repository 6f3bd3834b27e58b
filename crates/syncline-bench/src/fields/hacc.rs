use rayon::prelude::*;

use super::gaussian::gaussian_field;
use super::{Field, Generator, side, volume};
use crate::random::Stream;

/// Number of particles of the original.
pub(super) const PARTICLES: usize = 280_953_867;
/// Standard deviation of the virial (small-scale, random) part of the velocity, compared with 250 for the flow.
const VIRIAL: f32 = 21.0;
/// Side of the box in Mpc/h.
const BOX: f32 = 256.0;

/// Returns the displacement of lattice particles in Zel'dovich's approximation: the spectrum of the gradient is that of
/// the density divided by k squared.
fn displacement(n: usize, seed: u64) -> Vec<f32> {
    gaussian_field([n; 3], seed, [1.0; 3], |k| k / (1.0 + (k / 5.0).powi(2)).powf(2.2) / (k * k))
}

/// Returns one velocity component in lattice order: a large-scale flow plus random motion, which is stronger where the
/// flow converges.
pub(super) fn velocities(scale: f64) -> Field {
    let n = side(656, scale, 8);
    let mut values = displacement(n, 41);
    let thermal = Stream::new(42);
    values.par_chunks_mut(2).enumerate().for_each(|(pair, out)| {
        let noise = thermal.normal_pair(pair as u64);
        for (v, noise) in out.iter_mut().zip([noise.0, noise.1]) {
            *v = *v * 250.0 + VIRIAL * noise * (1.0 + v.max(0.0));
        }
    });
    particles(Generator::Hacc, values, scale)
}

/// Returns one position component of displaced lattice particles in lattice order, in a periodic box.
pub(super) fn positions(scale: f64) -> Field {
    let n = side(656, scale, 8);
    let mut values = displacement(n, 43);
    values.par_chunks_mut(n * n).enumerate().for_each(|(i, plane)| {
        plane.iter_mut().for_each(|v| *v = ((i as f32 + 3.0 * *v) * (BOX / n as f32)).rem_euclid(BOX));
    });
    particles(Generator::Haccx, values, scale)
}

fn particles(name: Generator, mut values: Vec<f32>, scale: f64) -> Field {
    values.truncate(volume(PARTICLES, scale));
    let count = values.len();
    Field::new(name, values, &[count], 1)
}
