use rayon::prelude::*;

use super::{Field, Generator, side};

/// Number of time steps at full scale.
const STEPS: f64 = 900.0;
/// Peak frequency of the source, in cycles per step.
const FREQUENCY: f64 = 0.020;
/// Width of the absorbing border in cells.
const BORDER: usize = 20;

/// Solves the acoustic wave equation in a layered medium with a Ricker source near the top: fourth order in space,
/// second order in time. Returns a snapshot of the wave.
pub(super) fn snapshot(scale: f64) -> Field {
    let shape = [side(449, scale, 1), side(449, scale, 1), side(235, scale, 1)];
    let [n0, n1, n2] = shape;
    let medium = Medium::new(shape);
    let mut now = vec![0f32; n0 * n1 * n2];
    // The previous step; each step overwrites it with the next one.
    let mut other = now.clone();
    for t in 0..(STEPS * scale) as usize {
        medium.step(&now, &mut other);
        let source = [n0 / 2, n1 / 2, n2 / 8];
        if medium.is_interior(source) {
            other[(source[0] * n1 + source[1]) * n2 + source[2]] += ricker(t as f64);
        }
        std::mem::swap(&mut now, &mut other);
    }
    Field::new(Generator::Rtm, now, &shape, 3)
}

/// Returns the second derivative of a Gaussian, delayed by one and a half periods.
fn ricker(t: f64) -> f32 {
    let a = (std::f64::consts::PI * FREQUENCY * (t - 1.5 / FREQUENCY)).powi(2);
    ((1.0 - 2.0 * a) * (-a).exp()) as f32
}

struct Medium {
    shape: [usize; 3],
    /// Squared velocity in cells per step, by axis 0 and axis 2 (depth).
    velocity2: Vec<f32>,
    /// Damping along a row (axis 2), for each distance 0..=BORDER of the row from the sides of the other axes.
    damping: Vec<f32>,
}

impl Medium {
    fn new(shape: [usize; 3]) -> Self {
        let [n0, _, n2] = shape;
        let velocity = |i: usize, k: usize| {
            let depth = k as f32 / n2 as f32;
            let layers = 0.18 + 0.22 * (depth * 7.0).floor() / 7.0 + 0.03 * (depth * 40.0).sin();
            layers + 0.02 * (i as f32 * 12.0 / n0 as f32).sin()
        };
        let velocity2 = (0..n0).flat_map(|i| (0..n2).map(move |k| velocity(i, k).powi(2))).collect();
        let damping = (0..=BORDER)
            .flat_map(|side| {
                (0..n2).map(move |k| {
                    let inside = side.min(k).min(n2 - 1 - k).min(BORDER);
                    let outwards = (BORDER - inside) as f32;
                    1.0 - 0.0035 * outwards * outwards / BORDER as f32
                })
            })
            .collect();
        Self { shape, velocity2, damping }
    }

    /// Returns whether the five-point stencil fits around this cell.
    fn is_interior(&self, cell: [usize; 3]) -> bool {
        cell.iter().zip(self.shape).all(|(&c, n)| c >= 2 && c + 2 < n)
    }

    /// Replaces `before` by the step after `now`. Cells where the stencil does not fit stay 0.
    fn step(&self, now: &[f32], before: &mut [f32]) {
        let [n0, n1, n2] = self.shape;
        if n0 < 5 || n1 < 5 || n2 < 5 {
            return;
        }
        before.par_chunks_mut(n1 * n2).enumerate().skip(2).take(n0 - 4).for_each(|(i, plane)| {
            let velocity2 = &self.velocity2[i * n2..][..n2];
            for j in 2..n1 - 2 {
                let side = i.min(n0 - 1 - i).min(j).min(n1 - 1 - j).min(BORDER);
                let damping = &self.damping[side * n2..][..n2];
                let row = &mut plane[j * n2..][..n2];
                let start = (i * n1 + j) * n2;
                // The row and its neighbors at a distance of up to two along both slower axes.
                let near = |step: isize| &now[start.wrapping_add_signed(step)..][..n2];
                let (s0, s1) = ((n1 * n2) as isize, n2 as isize);
                let one = [near(-s0), near(s0), near(-s1), near(s1)];
                let two = [near(-2 * s0), near(2 * s0), near(-2 * s1), near(2 * s1)];
                step_row(row, near(0), one, two, velocity2, damping);
            }
        });
    }
}

fn step_row(row: &mut [f32], here: &[f32], one: [&[f32]; 4], two: [&[f32]; 4], velocity2: &[f32], damping: &[f32]) {
    let n = row.len();
    // Equal lengths let the compiler remove bounds checks and vectorize the loop.
    let (here, velocity2, damping) = (&here[..n], &velocity2[..n], &damping[..n]);
    let (one, two) = (one.map(|r| &r[..n]), two.map(|r| &r[..n]));
    for k in 2..n - 2 {
        let ones = here[k - 1] + here[k + 1] + one[0][k] + one[1][k] + one[2][k] + one[3][k];
        let twos = here[k - 2] + here[k + 2] + two[0][k] + two[1][k] + two[2][k] + two[3][k];
        let laplacian = -7.5 * here[k] + (4.0 / 3.0) * ones - (1.0 / 12.0) * twos;
        let next = (2.0 * here[k] - row[k] + velocity2[k] * laplacian) * damping[k];
        // The wave ahead of the front would have subnormal values, which many times slow down arithmetic.
        row[k] = if next.abs() < 1e-30 { 0.0 } else { next };
    }
}
