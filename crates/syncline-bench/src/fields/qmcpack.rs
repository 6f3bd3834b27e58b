use rayon::prelude::*;

use super::{Field, Generator, side, volume};
use crate::random::Stream;

/// Number of plane waves in an orbital.
const WAVES: usize = 6;
/// Standard deviation of each component of a wave vector, in radians per side of the cell.
const WAVE_NUMBER: f64 = 63.0;

/// A plane wave: wave vector (slowest axis first), phase and amplitude.
struct Wave {
    vector: [f32; 3],
    phase: f32,
    amplitude: f32,
}

/// Returns orbitals on a B-spline grid, each the sum of a few plane waves.
pub(super) fn orbitals(scale: f64) -> Field {
    // At scales above 1 there are more orbitals in the same cell.
    let orbitals = if scale < 1.0 { side(288, scale, 1) } else { volume(288, scale) };
    let shrink = if scale < 0.5 { scale } else { 1.0 };
    let cell = [side(115, shrink, 1), side(69, shrink, 1), side(69, shrink, 1)];
    let mut values = vec![0f32; orbitals * cell.iter().product::<usize>()];
    values.par_chunks_mut(cell.iter().product()).enumerate().for_each(|(orbital, out)| {
        for wave in waves(orbital) {
            add_wave(out, cell, &wave);
        }
    });
    Field::new(Generator::Qmcpack, values, &[orbitals, cell[0], cell[1], cell[2]], 3)
}

fn waves(orbital: usize) -> impl Iterator<Item = Wave> {
    let stream = Stream::new(51).split(orbital as u64);
    (0..WAVES as u64).map(move |w| {
        let ((k0, k1), (k2, amplitude)) = (stream.normal_pair(3 * w), stream.normal_pair(3 * w + 1));
        let phase = (stream.uniform(3 * w + 2) * std::f64::consts::TAU) as f32;
        Wave { vector: [k0, k1, k2].map(|k| k * WAVE_NUMBER as f32), phase, amplitude }
    })
}

/// Adds amplitude cos(k.r + phase) with the addition theorem: two multiplications per value instead of a cosine.
fn add_wave(out: &mut [f32], [n0, n1, n2]: [usize; 3], wave: &Wave) {
    let step = |n: usize| 1.0 / (n - 1).max(1) as f32;
    let along_row: Vec<(f32, f32)> = (0..n2).map(|k| (wave.vector[2] * k as f32 * step(n2)).sin_cos()).collect();
    for i in 0..n0 {
        for j in 0..n1 {
            let angle = wave.vector[0] * i as f32 * step(n0) + wave.vector[1] * j as f32 * step(n1) + wave.phase;
            let (sin, cos) = angle.sin_cos();
            let (sin, cos) = (sin * wave.amplitude, cos * wave.amplitude);
            let row = &mut out[(i * n1 + j) * n2..][..n2];
            for (v, (row_sin, row_cos)) in row.iter_mut().zip(&along_row) {
                *v += cos * row_cos - sin * row_sin;
            }
        }
    }
}
