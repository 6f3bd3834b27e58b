use rayon::prelude::*;

use super::gaussian::gaussian_field;
use super::{Field, Generator, side};

/// Amplitude of the fronts.
const FRONTS: f32 = 0.2;
/// Amplitude of the small-scale part of each layer.
const LOCAL: f32 = 0.007;

/// Returns layers that differ slowly from each other: zonal bands, a large-scale flow, fronts (tanh of a smooth field),
/// and local noise; clear sky is 0.
pub(super) fn cloud(scale: f64) -> Field {
    let layers = side(26, scale.clamp(0.31, 1.0), 2);
    let (rows, columns) = (side(1800, scale, 4), side(3600, scale, 4));
    let spectrum = |slope: f32, outer: f32| move |k: f32| k.powf(-slope) / (1.0 + (outer / k).powi(4));
    let plane = |seed, slope, outer| gaussian_field([1, rows, columns], seed, [1.0; 3], spectrum(slope, outer));
    let (flow, front) = rayon::join(|| plane(31, 3.2, 6.0), || plane(32, 2.9, 20.0));

    let mut values = vec![0f32; layers * rows * columns];
    values.par_chunks_mut(rows * columns).enumerate().for_each(|(layer, out)| {
        let height = layer as f32 / (layers - 1).max(1) as f32;
        let local = plane(300 + layer as u64, 2.6, 40.0);
        let threshold = 0.2 + 0.9 * (height - 0.5).abs();
        for (row, out) in out.chunks_exact_mut(columns).enumerate() {
            let latitude = 2.0 * row as f32 / (rows - 1) as f32 - 1.0;
            let band = 0.6 * (3.0 * latitude * (1.0 + 0.3 * height)).cos();
            let here = row * columns..(row + 1) * columns;
            let parts = flow[here.clone()].iter().zip(&front[here.clone()]).zip(&local[here]);
            for (v, ((flow, front), local)) in out.iter_mut().zip(parts) {
                let humidity = band + 0.5 * flow + FRONTS * (6.0 * (front - height)).tanh() + LOCAL * local;
                *v = (humidity - threshold).max(0.0);
            }
        }
    });
    Field::new(Generator::Cesm, values, &[layers, rows, columns], 3)
}
