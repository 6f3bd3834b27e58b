//! Quantization codes as the papers' compressor computes them, which are the input of their Huffman measurements.

use rayon::prelude::*;

use crate::fields::Field;

/// Deltas with a magnitude below this have a code; code 0 represents all others.
pub const RADIUS: i32 = 512;

/// Returns the codes of a field: `rint(x / (2 bound))`, Lorenzo prediction over `lorenzo_rank` dimensions of the
/// integers in tiles of 1,024 or 8x8x8 values with zeros around them, and the delta plus [`RADIUS`], or 0 if the delta
/// is too large. The bound is `relative` times the range of values.
pub fn quantization_codes(field: &Field, relative: f64) -> Vec<u16> {
    let bound = relative * field.range();
    let inverse = if bound > 0.0 { (1.0 / (2.0 * bound)) as f32 } else { 0.0 };
    if field.lorenzo_rank == 1 {
        codes_1d(&field.values, inverse)
    } else {
        let extents = &field.extents;
        let fastest = [extents[extents.len() - 2], extents[extents.len() - 1]];
        codes_3d(&field.values, fastest, inverse)
    }
}

fn quantize(value: f32, inverse: f32) -> i32 {
    (value * inverse).round_ties_even() as i32
}

fn code(delta: i32) -> u16 {
    if delta.unsigned_abs() < RADIUS.unsigned_abs() { (delta + RADIUS) as u16 } else { 0 }
}

fn codes_1d(values: &[f32], inverse: f32) -> Vec<u16> {
    const TILE: usize = 1024;
    let mut codes = vec![0u16; values.len()];
    codes.par_chunks_mut(TILE).enumerate().for_each(|(tile, out)| {
        let start = tile * TILE;
        let mut previous = 0;
        for (out, &v) in out.iter_mut().zip(&values[start..]) {
            let q = quantize(v, inverse);
            *out = code(q.wrapping_sub(previous));
            previous = q;
        }
    });
    codes
}

/// Slabs of eight planes start from zeros, and are computed independently.
fn codes_3d(values: &[f32], [n1, n2]: [usize; 2], inverse: f32) -> Vec<u16> {
    const TILE: usize = 8;
    let plane = n1 * n2;
    let mut codes = vec![0u16; values.len()];
    if values.is_empty() {
        return codes;
    }
    codes.par_chunks_mut(TILE * plane).enumerate().for_each_init(
        || (vec![0i32; plane], vec![0i32; plane]),
        |(before, here), (slab, out)| {
            let first = slab * TILE;
            before.fill(0);
            for (z, out) in out.chunks_exact_mut(plane).enumerate() {
                predict_plane(&values[(first + z) * plane..][..plane], n2, TILE, inverse, here);
                for (out, (here, before)) in out.iter_mut().zip(here.iter().zip(before.iter())) {
                    *out = code(here.wrapping_sub(*before));
                }
                std::mem::swap(before, here);
            }
        },
    );
    codes
}

/// Computes two-dimensional Lorenzo deltas of one plane, with zeros before every multiple of `edge`.
fn predict_plane(values: &[f32], width: usize, edge: usize, inverse: f32, deltas: &mut [i32]) {
    for (out, row) in deltas.chunks_exact_mut(width).zip(values.chunks_exact(width)) {
        let mut previous = 0;
        for (x, (out, &v)) in out.iter_mut().zip(row).enumerate() {
            let q = quantize(v, inverse);
            *out = if x % edge == 0 { q } else { q.wrapping_sub(previous) };
            previous = q;
        }
    }
    for y in (1..deltas.len() / width).rev().filter(|y| y % edge != 0) {
        let (above, here) = deltas[(y - 1) * width..].split_at_mut(width);
        here[..width].iter_mut().zip(above).for_each(|(h, a)| *h = h.wrapping_sub(*a));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes codes by their definition, one value at a time.
    fn slow_codes(values: &[f32], [n0, n1, n2]: [usize; 3], inverse: f32, tile: [usize; 3]) -> Vec<u16> {
        let q = |i: usize, j: usize, k: usize| quantize(values[(i * n1 + j) * n2 + k], inverse);
        let mut codes = Vec::new();
        for i in 0..n0 {
            for j in 0..n1 {
                for k in 0..n2 {
                    let mut delta = 0;
                    for corner in 0..8usize {
                        let back = [corner >> 2 & 1, corner >> 1 & 1, corner & 1];
                        let at = [i, j, k];
                        if (0..3).any(|a| back[a] == 1 && at[a] % tile[a] == 0) {
                            continue;
                        }
                        let sign = if corner.count_ones() % 2 == 0 { 1 } else { -1 };
                        delta += sign * q(i - back[0], j - back[1], k - back[2]);
                    }
                    codes.push(code(delta));
                }
            }
        }
        codes
    }

    fn wavy(extents: &[usize], lorenzo_rank: usize) -> Field {
        let n: usize = extents.iter().product();
        let values = (0..n).map(|i| (i as f32 * 0.37).sin() * (1.0 + (i as f32 * 0.011).cos()) * 3.0).collect();
        Field { name: "wavy".into(), values, extents: extents.to_vec(), lorenzo_rank }
    }

    #[test]
    fn codes_equal_the_definition() {
        for (extents, cube) in
            [(vec![19, 11, 21], [19, 11, 21]), (vec![3, 9, 5, 7], [27, 5, 7]), (vec![1, 1, 1], [1; 3])]
        {
            let field = wavy(&extents, 3);
            let inverse = (1.0 / (2.0 * 1e-2 * field.range().max(1e-9))) as f32;
            let inverse = if field.range() > 0.0 { inverse } else { 0.0 };
            assert_eq!(quantization_codes(&field, 1e-2), slow_codes(&field.values, cube, inverse, [8; 3]));
        }
        let line = wavy(&[5000], 1);
        let inverse = (1.0 / (2.0 * 1e-4 * line.range())) as f32;
        let expected = slow_codes(&line.values, [1, 1, 5000], inverse, [1, 1, 1024]);
        assert!(expected.contains(&0), "some deltas must not fit, or code 0 is not tested");
        assert_eq!(quantization_codes(&line, 1e-4), expected);
    }
}
