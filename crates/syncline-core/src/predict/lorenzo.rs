//! The Lorenzo predictor and its inverse on wrapping integers of any width: the oracle of the vector kernels, and the
//! path of ragged tiles.
//!
//! Ibarria et al., "Out-of-core compression and decompression of large n-dimensional scalar fields" (2003) for the
//! predictor.

use crate::arch::lorenzo as arch;
use crate::geometry::MAX_TILE_ELEMENTS;

/// An unsigned integer that wraps.
pub trait Word: bytemuck::Pod + Eq + Ord + Send + Sync + std::fmt::Debug {
    /// 0.
    const ZERO: Self;
    /// Width in bits.
    const BITS: u32;
    /// Sum, wrapping.
    fn plus(self, other: Self) -> Self;
    /// Difference, wrapping.
    fn minus(self, other: Self) -> Self;
    /// Magnitude of the word read as a signed integer.
    fn magnitude(self) -> u64;
    /// Signed to unsigned: 0, -1, 1, -2, ... become 0, 1, 2, 3, ...
    fn zigzag(self) -> Self;
    /// Inverse of [`Word::zigzag`].
    fn unzigzag(self) -> Self;
    /// Zero-extended.
    fn widen(self) -> u64;
    /// The low bits.
    fn narrow(wide: u64) -> Self;
    /// Replaces the tile's integers, the base subtracted, by their residuals under the predictor from 0 to `axes` with
    /// the smallest sum of magnitudes, ties going to the larger number. Returns that predictor and that sum,
    /// saturating.
    fn predict(v: &mut [Self], extent: [usize; 3], axes: usize, scratch: &mut Scratch<Self>) -> (u8, u64);
    /// Prefix sums of the rows of length `nx`.
    fn prefix_rows(v: &mut [Self], nx: usize);
}

/// Room for a tile's residuals under each predictor; what it holds does not matter.
#[derive(Clone, Debug)]
pub struct Scratch<W>(pub(crate) [[W; MAX_TILE_ELEMENTS]; 3]);

impl<W: Word> Default for Scratch<W> {
    fn default() -> Self {
        Self([[W::ZERO; MAX_TILE_ELEMENTS]; 3])
    }
}

macro_rules! words {
    ($($word:ty, $signed:ty, $predict:path, $prefix:path);*) => {$(
        impl Word for $word {
            const ZERO: Self = 0;
            const BITS: u32 = <$word>::BITS;
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn magnitude(self) -> u64 {
                u64::from((self as $signed).unsigned_abs())
            }
            #[inline(always)]
            fn zigzag(self) -> Self {
                (self << 1) ^ ((self as $signed >> (<$word>::BITS - 1)) as $word)
            }
            #[inline(always)]
            fn unzigzag(self) -> Self {
                (self >> 1) ^ (self & 1).wrapping_neg()
            }
            #[inline(always)]
            fn widen(self) -> u64 {
                u64::from(self)
            }
            #[inline(always)]
            fn narrow(wide: u64) -> Self {
                wide as $word
            }
            #[inline]
            fn predict(v: &mut [Self], extent: [usize; 3], axes: usize, scratch: &mut Scratch<Self>) -> (u8, u64) {
                $predict(v, extent, axes, scratch)
            }
            #[inline(always)]
            fn prefix_rows(v: &mut [Self], nx: usize) {
                $prefix(v, nx);
            }
        }
    )*};
}
words!(
    u8, i8, arch::predict_u8, prefix_rows_simple;
    u16, i16, arch::predict_u16, prefix_rows_simple;
    u32, i32, arch::predict_u32, arch::prefix_rows_u32;
    u64, i64, arch::predict_u64, prefix_rows_simple
);

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

/// Inverse of [`difference`].
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
    W::prefix_rows(v, nx);
}

/// Prefix sums of rows of length `nx`: the oracle of [`Word::prefix_rows`].
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

/// The predictor from 0 to `axes` with the smallest sum of magnitudes, ties going to the larger number, and that sum,
/// saturating. `v` has the base subtracted and is replaced by the residuals. The oracle of [`Word::predict`].
pub fn predict_simple<W: Word>(v: &mut [W], extent: [usize; 3], axes: usize) -> (u8, u64) {
    let candidate = |predictor| {
        let mut residuals = v.to_vec();
        difference(&mut residuals, extent, predictor);
        let activity = residuals.iter().fold(0u64, |sum, r| sum.saturating_add(r.magnitude()));
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

    /// The text of the format, word by word: a value's neighbors below it in the tile, 0 outside.
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
        fn vectors_choose_as_the_oracle_does(extent in any_extent(), seed in any::<u64>(), axes in 1usize..=3, shift in 0u32..64, slope in 0u64..9) {
            fn check<W: Word>(v: &[u64], extent: [usize; 3], axes: usize) -> Result<(), TestCaseError> {
                let mut v: Vec<W> = v.iter().map(|&v| W::narrow(v)).collect();
                let mut expected = v.clone();
                let info = W::predict(&mut v, extent, axes, &mut Scratch([[W::narrow(7); MAX_TILE_ELEMENTS]; 3]));
                prop_assert_eq!(info, predict_simple(&mut expected, extent, axes));
                prop_assert_eq!(v, expected);
                Ok(())
            }
            let [nz, ny, nx] = extent;
            let v: Vec<u64> = (0..(nz * ny * nx) as u64)
                .map(|i| (seed.wrapping_mul(2 * i + 1) >> shift).wrapping_sub((i * slope) << (63 - shift)))
                .collect();
            check::<u8>(&v, extent, axes)?;
            check::<u16>(&v, extent, axes)?;
            check::<u32>(&v, extent, axes)?;
            check::<u64>(&v, extent, axes)?;
        }

        #[test]
        fn vectors_sum_rows_as_the_oracle_does(seed in any::<u32>(), nx in 1usize..70, rows in 0usize..9) {
            let mut v: Vec<u32> = (0..(nx * rows) as u32).map(|i| seed.wrapping_mul(2 * i + 1)).collect();
            let mut expected = v.clone();
            u32::prefix_rows(&mut v, nx);
            prefix_rows_simple(&mut expected, nx);
            prop_assert_eq!(v, expected);
        }

        #[test]
        fn zigzag_reverses(v in any::<u64>()) {
            prop_assert_eq!(v.zigzag().unzigzag(), v);
            prop_assert_eq!((v as u8).zigzag().unzigzag(), v as u8);
            prop_assert_eq!(u64::from((v as u16).zigzag()).div_ceil(2), (v as u16).magnitude());
        }
    }
}
