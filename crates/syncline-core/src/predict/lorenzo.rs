//! The Lorenzo predictor and its inverse on wrapping integers of any width.
//!
//! Ibarria et al., "Out-of-core compression and decompression of large n-dimensional scalar fields" (2003). The fast
//! version takes differences over the whole tile as one long row, which vectorizes well, and then corrects those that
//! crossed an edge. The simple version is its oracle.

use super::word::Word;
use crate::geometry::MAX_SMALL_TILE_ELEMENTS;
use crate::simd::{self, InstructionSet, Kernel};

/// Buffers for a tile's residuals under each predictor. Their contents do not matter.
#[derive(Clone, Debug)]
pub struct Scratch<W>([[W; MAX_SMALL_TILE_ELEMENTS]; 3]);

impl<W: Word> Default for Scratch<W> {
    fn default() -> Self {
        Self([[W::ZERO; MAX_SMALL_TILE_ELEMENTS]; 3])
    }
}

/// Replaces the tile's integers, from which the base is subtracted already, by their residuals under the predictor from
/// 0 to `axes` with the smallest sum of magnitudes; of several, under the one with the largest number. A magnitude
/// counts as `limit` at most. Returns that predictor and that sum, saturating.
#[inline]
pub fn predict<W: Word>(
    v: &mut [W],
    extent: [usize; 3],
    axes: usize,
    limit: Option<u16>,
    scratch: &mut Scratch<W>,
) -> (u8, u64) {
    simd::run(Predict { v, extent, axes, limit, scratch })
}

struct Predict<'a, W> {
    v: &'a mut [W],
    extent: [usize; 3],
    axes: usize,
    limit: Option<u16>,
    scratch: &'a mut Scratch<W>,
}

impl<W: Word> Kernel for Predict<'_, W> {
    type Output = (u8, u64);

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> (u8, u64) {
        let Self { v, extent, axes, limit, scratch } = self;
        let activity = |residuals: &[W]| activity(residuals, limit);
        let [_, ny, nx] = extent;
        let (n, plane) = (v.len(), ny * nx);
        let [x, xy, xyz] = &mut scratch.0;
        let (x, xy, xyz) = (&mut x[..n], &mut xy[..n], &mut xyz[..n]);
        let mut best = (0, activity(v));
        let mut consider = |predictor: u8, activity: u64| {
            if activity < best.1 || (activity == best.1 && predictor > best.0) {
                best = (predictor, activity);
            }
        };
        difference_along(v, 1, x);
        for row in (0..n).step_by(nx) {
            x[row] = v[row];
        }
        if axes >= 2 {
            difference_along(x, nx, xy);
            for row in (0..n).step_by(plane) {
                xy[row..row + nx].copy_from_slice(&x[row..row + nx]);
            }
        }
        if axes >= 3 {
            difference_along(xy, plane, xyz);
            consider(3, activity(xyz));
        }
        // The first elements of predictors 1 and 2 are differenced along the other axes; nothing above reads them any
        // more.
        for row in (plane..n).step_by(plane).rev() {
            let along_z = v[row].minus(v[row - plane]);
            xy[row] = along_z;
            x[row] = along_z;
        }
        for z in (0..n).step_by(plane) {
            for row in (z + nx..z + plane).step_by(nx) {
                x[row] = v[row].minus(v[row - nx]);
            }
        }
        consider(1, activity(x));
        if axes >= 2 {
            consider(2, activity(xy));
        }
        match best.0 {
            0 => {}
            1 => v.copy_from_slice(x),
            2 => v.copy_from_slice(xy),
            _ => v.copy_from_slice(xyz),
        }
        best
    }
}

/// Returns the sum of magnitudes, each `limit` at most, saturating.
#[inline(always)]
fn activity<W: Word>(residuals: &[W], limit: Option<u16>) -> u64 {
    if let Some(limit) = limit {
        // At most 1,024 times 2^16.
        return u64::from(residuals.iter().map(|r| r.magnitude().min(limit.into()) as u32).sum::<u32>());
    }
    if W::BITS <= 16 {
        // At most 1,024 times 2^15.
        return u64::from(residuals.iter().map(|r| r.magnitude() as u32).sum::<u32>());
    }
    let sum = residuals.iter().fold(0u64, |sum, r| sum.wrapping_add(r.magnitude()));
    if W::BITS == 64 {
        // At most 1,024 numbers below 2^54 cannot overflow.
        let bits = residuals.iter().fold(0u64, |bits, r| bits | r.magnitude());
        if bits >> 54 != 0 {
            return residuals.iter().fold(0u64, |sum, r| sum.saturating_add(r.magnitude()));
        }
    }
    sum
}

/// Writes `v[i] - v[i - distance]` to `out[i]`, and copies the first `distance` elements.
#[inline(always)]
fn difference_along<W: Word>(v: &[W], distance: usize, out: &mut [W]) {
    let distance = distance.min(v.len());
    out[..distance].copy_from_slice(&v[..distance]);
    for ((out, a), b) in out[distance..].iter_mut().zip(&v[distance..]).zip(v) {
        *out = a.minus(*b);
    }
}

/// Replaces the tile's integers by their residuals under predictor 0 to 3. The base must be subtracted already.
///
/// # Panics
/// `v` has not the extents' length.
pub fn difference<W: Word>(v: &mut [W], extent: [usize; 3], predictor: u8) {
    let [nz, ny, nx] = extent;
    assert_eq!(v.len(), nz * ny * nx);
    if predictor == 0 || v.is_empty() {
        return;
    }
    for row in v.chunks_exact_mut(nx) {
        for x in (1..nx).rev() {
            row[x] = row[x].minus(row[x - 1]);
        }
    }
    let width = if predictor == 1 { 1 } else { nx };
    for plane in v.chunks_exact_mut(ny * nx) {
        for y in (1..ny).rev() {
            let (before, row) = plane.split_at_mut(y * nx);
            subtract(&mut row[..width], &before[(y - 1) * nx..]);
        }
    }
    let width = if predictor == 3 { ny * nx } else { 1 };
    for z in (1..nz).rev() {
        let (before, plane) = v.split_at_mut(z * ny * nx);
        subtract(&mut plane[..width], &before[(z - 1) * ny * nx..]);
    }
}

/// Reconstructs values from residuals; the inverse of [`difference`].
///
/// # Panics
/// `v` has not the extents' length.
#[inline(always)]
pub fn integrate<W: Word>(v: &mut [W], extent: [usize; 3], predictor: u8) {
    let [nz, ny, nx] = extent;
    assert_eq!(v.len(), nz * ny * nx);
    if predictor == 0 || v.is_empty() {
        return;
    }
    let width = if predictor == 3 { ny * nx } else { 1 };
    for z in 1..nz {
        let (before, plane) = v.split_at_mut(z * ny * nx);
        add(&mut plane[..width], &before[(z - 1) * ny * nx..]);
    }
    let width = if predictor == 1 { 1 } else { nx };
    for plane in v.chunks_exact_mut(ny * nx) {
        for y in 1..ny {
            let (before, row) = plane.split_at_mut(y * nx);
            add(&mut row[..width], &before[(y - 1) * nx..]);
        }
    }
    prefix_rows(v, nx);
}

/// Replaces rows of length `nx` by their prefix sums.
#[inline(always)]
pub fn prefix_rows<W: Word>(v: &mut [W], nx: usize) {
    #[cfg(target_arch = "x86_64")]
    if W::BITS == u32::BITS
        && nx >= 8
        && let Some(token) = simd::Avx2::detected()
    {
        return super::avx2::prefix_rows(token, bytemuck::cast_slice_mut(v), nx);
    }
    prefix_rows_simple(v, nx);
}

/// Does what [`prefix_rows`] does, one element after another: its oracle.
#[inline(always)]
pub fn prefix_rows_simple<W: Word>(v: &mut [W], nx: usize) {
    for row in v.chunks_exact_mut(nx) {
        let mut sum = W::ZERO;
        for value in row {
            sum = sum.plus(*value);
            *value = sum;
        }
    }
}

#[inline(always)]
fn subtract<W: Word>(row: &mut [W], before: &[W]) {
    for (value, &b) in row.iter_mut().zip(before) {
        *value = value.minus(b);
    }
}

#[inline(always)]
fn add<W: Word>(row: &mut [W], before: &[W]) {
    for (value, &b) in row.iter_mut().zip(before) {
        *value = value.plus(b);
    }
}

/// Computes [`predict`] in the simplest way. This is the oracle of the tests.
pub fn predict_simple<W: Word>(v: &mut [W], extent: [usize; 3], axes: usize, limit: Option<u16>) -> (u8, u64) {
    let counted = |residual: &W| residual.magnitude().min(limit.map_or(u64::MAX, u64::from));
    let candidate = |predictor| {
        let mut residuals = v.to_vec();
        difference(&mut residuals, extent, predictor);
        let activity = residuals.iter().map(counted).fold(0u64, u64::saturating_add);
        (predictor, activity, residuals)
    };
    let others = (1..=axes as u8).map(&candidate);
    let (predictor, activity, residuals) = others.fold(candidate(0), |a, b| if b.1 <= a.1 { b } else { a });
    v.copy_from_slice(&residuals);
    (predictor, activity)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computes a residual according to the text of the format, from a value's neighbors with lower indices in the
    /// tile, or 0 outside of it.
    fn residual_by_definition(v: &[u16], [_, ny, nx]: [usize; 3], predictor: u8, z: usize, y: usize, x: usize) -> u16 {
        let at = |dz: usize, dy: usize, dx: usize| -> u16 {
            if z < dz || y < dy || x < dx { 0 } else { v[((z - dz) * ny + y - dy) * nx + x - dx] }
        };
        let along_x = |dz, dy| at(dz, dy, 0).wrapping_sub(at(dz, dy, 1));
        let along_xy = |dz| along_x(dz, 0).wrapping_sub(along_x(dz, 1));
        match predictor {
            0 => at(0, 0, 0),
            1 if x > 0 => along_x(0, 0),
            1 if y > 0 => at(0, 0, 0).wrapping_sub(at(0, 1, 0)),
            2 if x > 0 || y > 0 => along_xy(0),
            1 | 2 => at(0, 0, 0).wrapping_sub(at(1, 0, 0)),
            _ => along_xy(0).wrapping_sub(along_xy(1)),
        }
    }

    /// Extents of a tile: ragged, or one of the full ones.
    pub(crate) fn any_extent() -> impl Strategy<Value = [usize; 3]> {
        prop_oneof![
            (1usize..=9, 1usize..=9, 1usize..=9).prop_map(|(z, y, x)| [z.min(8), y.min(8), x.min(8)]),
            (1usize..=32, 1usize..=32).prop_map(|(y, x)| [1, y, x]),
            (1usize..=1024).prop_map(|x| [1, 1, x]),
            Just([8, 8, 8]),
            Just([1, 32, 32]),
            Just([1, 1, 1024]),
        ]
    }

    proptest! {
        #[test]
        fn residuals_are_as_defined_and_reversible(extent in any_extent(), seed in any::<u64>(), predictor in 0u8..4) {
            let [nz, ny, nx] = extent;
            let v: Vec<u16> = (0..nz * ny * nx).map(|i| (seed.wrapping_mul(i as u64 * 2 + 1) >> 40) as u16).collect();
            let mut r = v.clone();
            difference(&mut r, extent, predictor);
            for z in 0..nz { for y in 0..ny { for x in 0..nx {
                prop_assert_eq!(r[(z * ny + y) * nx + x], residual_by_definition(&v, extent, predictor, z, y, x));
            }}}
            integrate(&mut r, extent, predictor);
            prop_assert_eq!(r, v);
        }

        #[test]
        fn vectors_choose_as_the_oracle_does(extent in any_extent(), seed in any::<u64>(), axes in 1usize..=3,
            shift in 0u32..64, slope in 0u64..9, limit in prop::option::of(any::<u16>())) {
            fn check<W: Word>(
                v: &[u64], extent: [usize; 3], axes: usize, limit: Option<u16>,
            ) -> Result<(), TestCaseError> {
                let mut v: Vec<W> = v.iter().map(|&v| W::narrow(v)).collect();
                let mut expected = v.clone();
                let mut scratch = Scratch([[W::narrow(7); MAX_SMALL_TILE_ELEMENTS]; 3]);
                let info = predict(&mut v, extent, axes, limit, &mut scratch);
                prop_assert_eq!(info, predict_simple(&mut expected, extent, axes, limit));
                prop_assert_eq!(v, expected);
                Ok(())
            }
            let [nz, ny, nx] = extent;
            let v: Vec<u64> = (0..(nz * ny * nx) as u64)
                .map(|i| (seed.wrapping_mul(2 * i + 1) >> shift).wrapping_sub((i * slope) << (63 - shift)))
                .collect();
            check::<u8>(&v, extent, axes, limit)?;
            check::<u16>(&v, extent, axes, limit)?;
            check::<u32>(&v, extent, axes, limit)?;
            check::<u64>(&v, extent, axes, limit)?;
        }

        #[test]
        fn vectors_sum_rows_as_the_oracle_does(seed in any::<u32>(), nx in 1usize..70, rows in 0usize..9) {
            let mut v: Vec<u32> = (0..(nx * rows) as u32).map(|i| seed.wrapping_mul(2 * i + 1)).collect();
            let mut expected = v.clone();
            prefix_rows(&mut v, nx);
            prefix_rows_simple(&mut expected, nx);
            prop_assert_eq!(v, expected);
        }
    }
}
