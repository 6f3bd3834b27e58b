//! Gaussian random fields with a given power spectrum, generated in Fourier space.

use rayon::prelude::*;
use realfft::RealFftPlanner;
use rustfft::num_complex::Complex32;
use rustfft::{Fft, FftPlanner};

use crate::random::Stream;

/// Number of columns that are transformed together, so that they share cache lines.
const COLUMNS: usize = 16;

/// Returns a field of mean 0 and variance 1 whose power at wave number k is proportional to `power(k)`.
///
/// `shape` has the slowest axis first. k counts cycles over the longest side; each axis's component of k is first
/// multiplied by its `axis_scale` (1 everywhere for an isotropic field). The field depends on the seed only, not on the
/// number of threads.
///
/// The spectrum is generated directly, on the half that a real field needs, in the order `[axis 1][axis 0][axis 2]`:
/// every pass then works on contiguous slabs, and one transform instead of two is sufficient.
pub fn gaussian_field(
    shape: [usize; 3],
    seed: u64,
    axis_scale: [f32; 3],
    power: impl Fn(f32) -> f32 + Sync,
) -> Vec<f32> {
    let [n0, n1, n2] = shape;
    if n0 * n1 * n2 == 0 {
        return Vec::new();
    }
    let half = n2 / 2 + 1;
    let mut spectrum = vec![Complex32::ZERO; n0 * n1 * half];
    let plan = |n| FftPlanner::<f32>::new().plan_fft_inverse(n);
    let along0 = plan(n0);
    spectrum.par_chunks_mut(n0 * half).enumerate().for_each_init(Vec::new, |buffer, (j, slab)| {
        draw_slab(slab, j, shape, seed, axis_scale, &power);
        transform_columns(slab, half, along0.as_ref(), buffer);
    });

    let along1 = plan(n1);
    let along2 = RealFftPlanner::<f32>::new().plan_fft_inverse(n2);
    let mut field = vec![0f32; n0 * n1 * n2];
    let moments: Vec<(f64, f64)> = field
        .par_chunks_mut(n1 * n2)
        .enumerate()
        .map_init(
            || (vec![Complex32::ZERO; n1 * half], Vec::new(), along2.make_scratch_vec()),
            |(slab, buffer, scratch), (i, out)| {
                for (j, row) in slab.chunks_exact_mut(half).enumerate() {
                    row.copy_from_slice(&spectrum[(j * n0 + i) * half..][..half]);
                }
                transform_columns(slab, half, along1.as_ref(), buffer);
                for (row, out) in slab.chunks_exact_mut(half).zip(out.chunks_exact_mut(n2)) {
                    // The imaginary part is 0 in a real field. Dropping it makes these two planes symmetric.
                    row[0].im = 0.0;
                    if n2.is_multiple_of(2) {
                        row[half - 1].im = 0.0;
                    }
                    along2.process_with_scratch(row, out, scratch).expect("lengths come from the plan");
                }
                slab_moments(out)
            },
        )
        .collect();
    drop(spectrum);
    standardize(&mut field, &moments);
    field
}

/// Draws the amplitudes of all (axis 0, axis 2) wave numbers at index `j` of axis 1.
fn draw_slab(
    slab: &mut [Complex32],
    j: usize,
    shape: [usize; 3],
    seed: u64,
    axis_scale: [f32; 3],
    power: &impl Fn(f32) -> f32,
) {
    let [n0, n1, n2] = shape;
    let half = n2 / 2 + 1;
    let longest = n0.max(n1).max(n2) as f32;
    let wave = |index: usize, axis: usize| {
        let n = shape[axis];
        let signed = if index <= (n - 1) / 2 { index as f32 } else { index as f32 - n as f32 };
        signed / n as f32 * longest * axis_scale[axis]
    };
    let stream = Stream::new(seed);
    let k1 = wave(j, 1);
    for (i, row) in slab.chunks_exact_mut(half).enumerate() {
        let k0 = wave(i, 0);
        let first = ((j * n0 + i) * half) as u64;
        for (k, value) in row.iter_mut().enumerate() {
            let k2 = k as f32 / n2 as f32 * longest * axis_scale[2];
            let mut amplitude = power((k0 * k0 + k1 * k1 + k2 * k2).sqrt()).sqrt();
            if i == 0 && j == 0 && k == 0 {
                amplitude = 0.0;
            }
            // These planes contain both k and -k; making them symmetric halves the variance of their sum.
            if k == 0 || 2 * k == n2 {
                amplitude *= std::f32::consts::SQRT_2;
            }
            let (re, im) = stream.normal_pair(first + k as u64);
            *value = Complex32::new(re * amplitude, im * amplitude);
        }
    }
}

/// Transforms every column of a row-major slab in place; `buffer` is reused between calls.
fn transform_columns(slab: &mut [Complex32], width: usize, fft: &dyn Fft<f32>, buffer: &mut Vec<Complex32>) {
    let height = fft.len();
    if height < 2 {
        return;
    }
    let scratch_len = fft.get_inplace_scratch_len();
    buffer.resize(COLUMNS * height + scratch_len, Complex32::ZERO);
    let (columns, scratch) = buffer.split_at_mut(COLUMNS * height);
    for first in (0..width).step_by(COLUMNS) {
        let count = COLUMNS.min(width - first);
        for (i, row) in slab.chunks_exact(width).enumerate() {
            for (c, value) in row[first..first + count].iter().enumerate() {
                columns[c * height + i] = *value;
            }
        }
        fft.process_with_scratch(&mut columns[..count * height], scratch);
        for (i, row) in slab.chunks_exact_mut(width).enumerate() {
            for (c, value) in row[first..first + count].iter_mut().enumerate() {
                *value = columns[c * height + i];
            }
        }
    }
}

/// Returns the sum and the sum of squares.
fn slab_moments(slab: &[f32]) -> (f64, f64) {
    slab.iter().fold((0.0, 0.0), |(sum, square), &v| (sum + f64::from(v), square + f64::from(v) * f64::from(v)))
}

/// Scales the field to mean 0 and variance 1. The sums of the slabs are added in order, independently of the threads.
fn standardize(field: &mut [f32], moments: &[(f64, f64)]) {
    let count = field.len() as f64;
    let (sum, square) = moments.iter().fold((0.0, 0.0), |(s, q), m| (s + m.0, q + m.1));
    let mean = sum / count;
    let deviation = (square / count - mean * mean).max(0.0).sqrt();
    let scale = if deviation > 0.0 { (1.0 / deviation) as f32 } else { 0.0 };
    let mean = mean as f32;
    field.par_chunks_mut(1 << 16).for_each(|chunk| chunk.iter_mut().for_each(|v| *v = (*v - mean) * scale));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the mean squared difference of neighbors along each axis.
    fn roughness(field: &[f32], [n0, n1, n2]: [usize; 3]) -> [f64; 3] {
        let at = |i: usize, j: usize, k: usize| f64::from(field[((i % n0) * n1 + j % n1) * n2 + k % n2]);
        let mut sums = [0.0; 3];
        for i in 0..n0 {
            for j in 0..n1 {
                for k in 0..n2 {
                    let here = at(i, j, k);
                    let steps = [at(i + 1, j, k), at(i, j + 1, k), at(i, j, k + 1)];
                    for (sum, there) in sums.iter_mut().zip(steps) {
                        *sum += (there - here).powi(2);
                    }
                }
            }
        }
        sums.map(|s| s / field.len() as f64)
    }

    #[test]
    fn white_spectrum_gives_uncorrelated_values_also_on_odd_sides() {
        for shape in [[32, 32, 32], [31, 20, 45], [1, 128, 129]] {
            let field = gaussian_field(shape, 1, [1.0; 3], |_| 1.0);
            for (axis, r) in roughness(&field, shape).into_iter().enumerate() {
                let expected = if shape[axis] == 1 { 0.0 } else { 2.0 };
                assert!((r - expected).abs() < 0.1, "{shape:?}: {r}");
            }
        }
    }

    #[test]
    fn power_at_a_wave_number_is_as_asked() {
        // All power is at |k| = 4: neighbors differ by 2 (1 - mean of cos(2 pi k_i / n)) over the shell.
        let n = 48;
        let field = gaussian_field([n; 3], 2, [1.0; 3], |k| if (k - 4.0).abs() < 0.01 { 1.0 } else { 0.0 });
        // The shell consists of 6 vectors (4, 0, 0) with all signs and orders, so 4 of 6 have k_i = 0 for each axis.
        let expected = 2.0 / 3.0 * (1.0 - (std::f64::consts::TAU * 4.0 / n as f64).cos());
        let mean = roughness(&field, [n; 3]).iter().sum::<f64>() / 3.0;
        assert!((mean - expected).abs() < 0.01 * expected, "{mean} {expected}");
    }

    #[test]
    fn empty_and_single_values_round_trip() {
        assert!(gaussian_field([0, 4, 4], 1, [1.0; 3], |_| 1.0).is_empty());
        assert_eq!(gaussian_field([1, 1, 1], 1, [1.0; 3], |_| 1.0), [0.0]);
    }
}
