//! Arrays that benches compress: waves and noise, made by all cores.

use syncline_core::array::ElementType;

use crate::streams::parallel;

/// Waves and noise.
#[derive(Clone, Copy)]
pub struct Field {
    /// In elements.
    pub wavelength: f64,
    /// In quantization steps.
    pub noise: f64,
    /// Share of the array, in slabs, where there is nothing but one value.
    pub flat: f64,
}

impl Field {
    /// Bound of all fields here; values are between -3 and 3.
    pub const BOUND: f64 = 3e-3;

    /// Its elements.
    pub fn bytes(self, extents: &[u64], element: ElementType) -> Vec<u8> {
        let nx = extents[extents.len() - 1];
        let ny = if extents.len() > 1 { extents[extents.len() - 2] } else { 1 };
        let rows: u64 = extents.iter().product::<u64>() / nx;
        // One long row is cut, so that threads share it.
        let (rows, nx, ny) = if rows == 1 { (nx / 4096, 4096, u64::MAX) } else { (rows, nx, ny) };
        let wave = |at: u64, scale: f64| (at as f64 * std::f64::consts::TAU / self.wavelength * scale).sin();
        let along_x: Vec<f64> = (0..nx).map(|x| wave(x, 1.0)).collect();
        let across: Vec<f64> = (0..nx).map(|x| wave(x, 0.37)).collect();
        let rows_at_once = (1 << 16) / nx + 1;
        let parts = parallel(rows.div_ceil(rows_at_once) as usize, |part| {
            let mut out = Vec::new();
            for row in part as u64 * rows_at_once..rows.min((part as u64 + 1) * rows_at_once) {
                let (y, z) = (row % ny, row / ny);
                let (a, b) = (wave(y, 0.9) + wave(z, 0.7), wave(y + z, 0.31));
                let flat = (z as f64 / 37.0).fract() < self.flat || (y as f64 / 97.0).fract() < self.flat * 0.5;
                let mut state = row.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
                for x in 0..nx as usize {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let noise = ((state >> 40) as f64 / f64::from(1 << 24) - 0.5) * self.noise * 2.0 * Self::BOUND;
                    let value = if flat { 0.5 } else { along_x[x] * b + across[x] * a + noise };
                    match element {
                        ElementType::F32 => out.extend_from_slice(&(value as f32).to_le_bytes()),
                        _ => out.extend_from_slice(&value.to_le_bytes()),
                    }
                }
            }
            out
        });
        parts.concat()
    }
}
