//! Quantized tiles: integers to Huffman symbols with sparse outliers, and back.

#[cfg(target_arch = "x86_64")]
mod avx2;

use super::lorenzo::{Scratch, difference, integrate, predict, predict_simple};
use super::tile::{Outlier, TileInfo, at_outlier};
use crate::geometry::MAX_SMALL_TILE_ELEMENTS;
#[cfg(target_arch = "x86_64")]
use crate::simd::Avx2;
use crate::simd::dispatched;

/// Radius of the codes unless too many residuals lie outside it.
pub const RADIUS: u32 = 512;
/// Radius with which every 16-bit code is valid.
pub const WIDE_RADIUS: u32 = 32768;

/// Radius of codes of one byte.
pub const NARROW_RADIUS: u32 = 128;

/// What the magnitude of a residual counts at most in the choice of a tile's predictor and class, so that one outlier
/// does not decide for all elements.
pub const RESIDUAL_LIMIT: u16 = 8192;

/// Predicts a tile with the cheapest of predictors 0 to `axes` and writes a code for each element: residual + `radius`,
/// or 0 for a residual outside, which goes to `outliers` (appended, ascending). Codes past the tile's elements become
/// `radius`.
///
/// # Panics
/// `q` has not the extents' length or is empty, or `codes` is shorter.
pub fn encode_tile(
    q: &[i32],
    extent: [usize; 3],
    axes: usize,
    radius: u32,
    codes: &mut [u16],
    outliers: &mut Vec<Outlier>,
) -> TileInfo<i32> {
    codes[q.len()..].fill(radius as u16);
    #[cfg(target_arch = "x86_64")]
    if extent == [8, 8, 8]
        && axes == 3
        && let Some(token) = Avx2::detected()
    {
        let (info, outside) = avx2::encode(token, q, radius, codes);
        if outside {
            collect_outliers(q, extent, info, codes, outliers);
        }
        return info;
    }
    let mut residuals = [0u32; MAX_SMALL_TILE_ELEMENTS];
    let residuals = &mut residuals[..q.len()];
    subtract_base(q, residuals);
    let (predictor, activity) = predict(residuals, extent, axes, Some(RESIDUAL_LIMIT), &mut Scratch::default());
    if write_codes(residuals, radius, codes) {
        collect(residuals, codes, outliers);
    }
    TileInfo { base: q[0], predictor, activity }
}

/// Computes [`encode_tile`] without vector instructions. This is the oracle of the tests.
#[doc(hidden)]
pub fn encode_tile_scalar(
    q: &[i32],
    extent: [usize; 3],
    axes: usize,
    radius: u32,
    codes: &mut [u16],
    outliers: &mut Vec<Outlier>,
) -> TileInfo<i32> {
    let mut residuals: Vec<u32> = q.iter().map(|&value| value.wrapping_sub(q[0]) as u32).collect();
    let (predictor, activity) = predict_simple(&mut residuals, extent, axes, Some(RESIDUAL_LIMIT));
    codes.fill(radius as u16);
    for (i, (&residual, code)) in residuals.iter().zip(codes).enumerate() {
        if (residual as i32).unsigned_abs() < radius {
            *code = residual.wrapping_add(radius) as u16;
        } else {
            *code = 0;
            outliers.push((i as u32, residual as i32));
        }
    }
    TileInfo { base: q[0], predictor, activity }
}

/// Finds the residuals of the codes that are 0.
#[cold]
fn collect_outliers(q: &[i32], extent: [usize; 3], info: TileInfo<i32>, codes: &[u16], outliers: &mut Vec<Outlier>) {
    let mut residuals = [0u32; MAX_SMALL_TILE_ELEMENTS];
    let residuals = &mut residuals[..q.len()];
    subtract_base(q, residuals);
    difference(residuals, extent, info.predictor);
    collect(residuals, codes, outliers);
}

fn collect(residuals: &[u32], codes: &[u16], outliers: &mut Vec<Outlier>) {
    let outside = residuals.iter().zip(codes).enumerate().filter(|(_, (_, code))| **code == 0);
    outliers.extend(outside.map(|(i, (&r, _))| (i as u32, r as i32)));
}

/// Reconstructs a tile's integers from its codes; the inverse of [`encode_tile`]. Accepts any codes: sums wrap, a code
/// 0 without its outlier counts as residual `-radius`, and an outlier outside of the tile is ignored.
///
/// # Panics
/// `codes` or `q` is shorter than the extents say.
pub fn decode_tile(
    codes: &[u16],
    extent: [usize; 3],
    predictor: u8,
    base: i32,
    radius: u32,
    outliers: &[Outlier],
    q: &mut [i32],
) {
    #[cfg(target_arch = "x86_64")]
    if extent == [8, 8, 8]
        && let Some(token) = Avx2::detected()
    {
        return avx2::decode(token, codes, predictor, base, radius, outliers, q);
    }
    decode_any(codes, extent, predictor, base, radius, outliers, q);
}

/// Computes [`decode_tile`] without vector instructions.
#[inline(always)]
pub fn decode_tile_scalar(
    codes: &[u16],
    extent: [usize; 3],
    predictor: u8,
    base: i32,
    radius: u32,
    outliers: &[Outlier],
    q: &mut [i32],
) {
    let n = extent.iter().product();
    let q: &mut [u32] = bytemuck::cast_slice_mut(&mut q[..n]);
    for (value, &code) in q.iter_mut().zip(&codes[..n]) {
        *value = u32::from(code).wrapping_sub(radius);
    }
    for &(position, residual) in outliers {
        if let Some(value) = q.get_mut(position as usize) {
            *value = at_outlier(*value, residual, radius);
        }
    }
    integrate(q, extent, predictor);
    for value in q {
        *value = value.wrapping_add(base as u32);
    }
}

#[inline(always)]
fn subtract_base_body(q: &[i32], out: &mut [u32]) {
    let base = q[0];
    for (out, &q) in out.iter_mut().zip(q) {
        *out = q.wrapping_sub(base) as u32;
    }
}

#[inline(always)]
fn write_codes_body(residuals: &[u32], radius: u32, codes: &mut [u16]) -> bool {
    // Residual + radius - 1 is in 0 ..= 2 radius - 2 exactly if the residual is inside.
    let mut outside = 0u32;
    for (code, &residual) in codes.iter_mut().zip(residuals) {
        let shifted = residual.wrapping_add(radius - 1);
        let inside = shifted <= 2 * radius - 2;
        outside |= u32::from(!inside);
        *code = if inside { shifted + 1 } else { 0 } as u16;
    }
    outside != 0
}

dispatched! {
    /// Integers of a tile less the first of them.
    pub fn subtract_base(q: &[i32], out: &mut [u32]) = subtract_base_body
}
dispatched! {
    /// Codes of residuals, 0 for those outside the radius; returns whether there is any.
    pub fn write_codes(residuals: &[u32], radius: u32, codes: &mut [u16]) -> bool = write_codes_body
}

dispatched! {
    /// Computes [`decode_tile_scalar`] on tiles of any extents.
    pub fn decode_any(
        codes: &[u16], extent: [usize; 3], predictor: u8, base: i32, radius: u32, outliers: &[Outlier], q: &mut [i32],
    ) = decode_tile_scalar
}

/// Turns a tile's codes and outliers of [`RADIUS`] into those of [`WIDE_RADIUS`], as if encoded with it. The padding of
/// `codes` included.
pub fn widen(codes: &mut [u16], outliers: &mut Vec<Outlier>) {
    for code in codes.iter_mut().filter(|code| **code != 0) {
        *code += (WIDE_RADIUS - RADIUS) as u16;
    }
    outliers.retain(|&(position, residual)| {
        let inside = residual.unsigned_abs() < WIDE_RADIUS;
        if inside {
            codes[position as usize] = (residual as u32).wrapping_add(WIDE_RADIUS) as u16;
        }
        !inside
    });
}

/// Codes and outliers of [`RADIUS`] as those of [`NARROW_RADIUS`], a byte each, as if encoded with it. The padding of
/// `codes` included.
pub fn narrow(codes: &[u16], outliers: &[Outlier], bytes: &mut Vec<u8>, narrow_outliers: &mut Vec<Outlier>) {
    const BASE: u16 = (RADIUS - NARROW_RADIUS) as u16;
    const LARGEST: u16 = 2 * NARROW_RADIUS as u16 - 1;
    bytes.clear();
    bytes.extend(codes.iter().map(|&code| {
        let code = code.wrapping_sub(BASE);
        if code <= LARGEST { code as u8 } else { 0 }
    }));
    narrow_outliers.clear();
    let mut known = outliers.iter();
    // Few codes are 0. Blocks of 64 codes without a 0 are not examined one by one.
    for (first, some) in (0..).step_by(64).zip(bytes.chunks(64)) {
        if some.iter().fold(false, |any, &byte| any | (byte == 0)) {
            for (at, _) in (first..).zip(some).filter(|(_, byte)| **byte == 0) {
                let code = codes[at];
                narrow_outliers.extend(match code {
                    0 => known.next().copied(),
                    _ => Some((at as u32, i32::from(code) - RADIUS as i32)),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::lorenzo::tests::any_extent;
    use proptest::prelude::*;

    /// Returns a tile whose values have a spread of about `2^bits`, smooth or not.
    fn any_tile() -> impl Strategy<Value = ([usize; 3], Vec<i32>)> {
        (any_extent(), any::<u64>(), 0u32..=32, any::<bool>(), any::<i32>()).prop_map(
            |(extent, seed, bits, smooth, base)| {
                let [nz, ny, nx] = extent;
                let mut q = Vec::new();
                for z in 0..nz as u64 {
                    for y in 0..ny as u64 {
                        for x in 0..nx as u64 {
                            let noise = seed
                                .wrapping_mul(2 * (q.len() as u64) + 1)
                                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                                .rotate_left(17);
                            let noise = (noise & ((1u64 << bits) - 1)) as i32;
                            let slope = if smooth { (x * x * (seed % 7) + y * y * z) as i32 } else { 0 };
                            q.push(base.wrapping_add(slope).wrapping_add(noise));
                        }
                    }
                }
                (extent, q)
            },
        )
    }

    #[test]
    fn one_outlier_does_not_choose_the_predictor() {
        // Linear along each axis: the differences along all of them are 0.
        for extent in [[8usize, 8, 8], [1, 32, 32]] {
            let [nz, ny, nx] = extent;
            let axes = if nz > 1 { 3 } else { 2 };
            let value = |i: usize| 1000 * (i / ny / nx + i / nx % ny + i % nx) as i32;
            let mut q: Vec<i32> = (0..nz * ny * nx).map(value).collect();
            let mut codes = vec![0; q.len()];
            let predictor =
                |q: &[i32], codes: &mut [u16]| encode_tile(q, extent, axes, RADIUS, codes, &mut Vec::new()).predictor;
            assert_eq!(usize::from(predictor(&q, &mut codes)), axes);
            for outlier in [100_000, 3_000_000, -(1 << 29)] {
                q[nx * 3 + 5] = outlier;
                assert_eq!(usize::from(predictor(&q, &mut codes)), axes, "{outlier}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]
        #[test]
        fn tiles_round_trip_and_agree_with_the_oracle(
            (extent, q) in any_tile(), wide in any::<bool>(), k in prop::sample::select(vec![64usize, 128]),
        ) {
            let axes = if extent[0] > 1 { 3 } else if extent[1] > 1 { 2 } else { 1 };
            let radius = if wide { WIDE_RADIUS } else { RADIUS };
            let mut codes = vec![7; q.len().next_multiple_of(k)];
            let mut expected = codes.clone();
            let (mut outliers, mut expected_outliers) = (Vec::new(), Vec::new());
            let info = encode_tile(&q, extent, axes, radius, &mut codes, &mut outliers);
            let expected_info = encode_tile_scalar(&q, extent, axes, radius, &mut expected, &mut expected_outliers);
            prop_assert_eq!(info, expected_info);
            prop_assert_eq!(&codes, &expected);
            prop_assert_eq!(&outliers, &expected_outliers);
            prop_assert_eq!(info.is_constant(), codes.iter().all(|&c| u32::from(c) == radius));
            let mut back = vec![0; q.len()];
            decode_tile(&codes, extent, info.predictor, info.base, radius, &outliers, &mut back);
            prop_assert_eq!(&back, &q);
            if !wide {
                widen(&mut codes, &mut outliers);
                let (mut direct, mut direct_outliers) = (vec![0; codes.len()], Vec::new());
                encode_tile_scalar(&q, extent, axes, WIDE_RADIUS, &mut direct, &mut direct_outliers);
                prop_assert_eq!(codes, direct);
                prop_assert_eq!(outliers, direct_outliers);
            }
        }

        #[test]
        fn narrow_codes_are_those_of_the_radius((extent, q) in any_tile()) {
            let axes = if extent[0] > 1 { 3 } else if extent[1] > 1 { 2 } else { 1 };
            let mut codes = vec![7; q.len().next_multiple_of(128)];
            let (mut outliers, mut bytes, mut narrow_outliers) = (Vec::new(), vec![9], vec![(1, 1)]);
            let info = encode_tile(&q, extent, axes, RADIUS, &mut codes, &mut outliers);
            narrow(&codes, &outliers, &mut bytes, &mut narrow_outliers);
            let (mut direct, mut direct_outliers) = (vec![0; codes.len()], Vec::new());
            encode_tile_scalar(&q, extent, axes, NARROW_RADIUS, &mut direct, &mut direct_outliers);
            let codes: Vec<u16> = bytes.iter().map(|&byte| byte.into()).collect();
            prop_assert_eq!(&codes, &direct);
            prop_assert_eq!(&narrow_outliers, &direct_outliers);
            let mut back = vec![0; q.len()];
            decode_tile(&codes, extent, info.predictor, info.base, NARROW_RADIUS, &narrow_outliers, &mut back);
            prop_assert_eq!(back, q);
        }

        #[test]
        fn any_codes_decode_as_the_oracle_does(
            extent in any_extent(), predictor in 0u8..4, base in any::<i32>(),
                radius in prop::sample::select(vec![NARROW_RADIUS, RADIUS, WIDE_RADIUS]),
            seed in any::<u64>(), outliers in prop::collection::vec((0u32..1100, any::<i32>()), 0..5),
        ) {
            let n: usize = extent.iter().product();
            let codes: Vec<u16> = (0..n as u64).map(|i| (seed.wrapping_mul(2 * i + 1) >> 33) as u16).collect();
            let (mut q, mut expected) = (vec![0; n], vec![0; n]);
            decode_tile(&codes, extent, predictor, base, radius, &outliers, &mut q);
            decode_tile_scalar(&codes, extent, predictor, base, radius, &outliers, &mut expected);
            prop_assert_eq!(q, expected);
        }
    }
}
