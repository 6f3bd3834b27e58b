//! The results of the scan, codes and side lists equal those of the core bit for bit.

mod check;
#[path = "../common/mod.rs"]
mod common;

use check::{Setting, bytes_of, check, check_scan, check_single_highest, header_of};
use common::{Random, Share, pick};
use syncline_core::array::Shape;
use syncline_core::bound::{Bound, Fill};
use syncline_core::quantize::Real;
use syncline_cuda::geometry::Slab;
use syncline_cuda::quantize::Quantizer;
use syncline_cuda::{Arena, Device};

/// A smooth field: waves with noise of the given amplitude.
fn waves<T: Real>(extents: &[u64], noise: f64, seed: u64) -> Vec<T> {
    let mut random = Random(seed);
    let len: u64 = extents.iter().product();
    (0..len)
        .map(|i| {
            let mut rest = i;
            let mut sum = 0.0;
            for (axis, &extent) in extents.iter().enumerate().rev() {
                sum += ((rest % extent) as f64 * (0.05 + 0.02 * axis as f64)).sin();
                rest /= extent;
            }
            T::nearest(sum * 3.0 + 1.0 + (random.unit() - 0.5) * noise)
        })
        .collect()
}

const SHAPES: [&[u64]; 22] = [
    &[],
    &[0],
    &[1],
    &[5],
    &[1024],
    &[1025],
    &[10_000],
    &[3, 0],
    &[2, 2],
    &[32, 32],
    &[33, 65],
    &[100, 130],
    &[96, 128],
    &[8, 8, 8],
    &[2, 2, 2],
    &[9, 8, 17],
    &[16, 24, 64],
    &[20, 30, 42],
    &[17, 9, 70],
    &[3, 9, 10, 20],
    &[2, 16, 16, 16],
    &[1, 40, 1, 36],
];

fn bounds() -> [Bound; 6] {
    [Bound::Abs(0.01), Bound::Rel(1e-2), Bound::Rel(1e-4), Bound::Rel(2e-7), Bound::Psnr(50.0), Bound::PwRel(1e-3)]
}

fn every_shape<T: Real>(device: &Device, mut share: Share) {
    for (number, extents) in SHAPES.into_iter().enumerate() {
        for (i, bound) in bounds().into_iter().enumerate() {
            let mut setting = Setting::new(bound);
            setting.group_log2 = if (number + i) % 2 == 0 { 7 } else { 6 };
            setting.chunk_tiles = [None, Some(1), Some(3), Some(40)][(number + i / 2) % 4];
            let noise = [0.0, 0.3, 4.0][(number + i) % 3];
            if share.takes() {
                check::<T>(device, &waves(extents, noise, i as u64), extents, setting, "waves");
            }
        }
    }
}

#[test]
fn every_shape_of_f32() {
    let Some(device) = common::device() else { return };
    every_shape::<f32>(device, Share::one_in(5).if_tiny(23, 0));
}

#[test]
fn every_shape_of_f64() {
    let Some(device) = common::device() else { return };
    every_shape::<f64>(device, Share::one_in(5).if_tiny(43, 21));
}

/// Adds scattered values and areas that cannot be quantized.
fn add_special_values<T: Real>(values: &mut [T], seed: u64) {
    let mut random = Random(seed);
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, -9999.0, 1e30, 1e-42, -1e-310, 3e38, 1e300];
    let len = values.len() as u64;
    for _ in 0..len / 40 + 1 {
        values[random.below(len) as usize] = T::nearest(special[random.below(special.len() as u64) as usize]);
    }
    for area in [-9999.0, f64::NAN, 0.0, -0.0] {
        for _ in 0..3 {
            let start = random.below(len);
            let end = (start + random.below(len / 8 + 2)).min(len);
            values[start as usize..end as usize].fill(T::nearest(area));
        }
    }
    // NaNs with other payloads than the first.
    for _ in 0..3 {
        let bits = T::nearest(f64::NAN).bits() | random.below(1 << 20);
        values[random.below(len) as usize] = T::from_bits(bits);
    }
}

fn special_values<T: Real>(device: &Device, mut share: Share) {
    for (number, extents) in SHAPES.into_iter().enumerate() {
        if extents.contains(&0) {
            continue;
        }
        for (i, bound) in bounds().into_iter().enumerate() {
            for seed in 0..3 {
                let mut setting = Setting::new(bound);
                setting.fill =
                    [Fill::Auto, Fill::Value(-9999.0), Fill::None, Fill::Value(f64::NAN)][(number + i + seed) % 4];
                setting.chunk_tiles = [Some(7), None, Some(2)][(number + i) % 3];
                setting.group_log2 = if seed == 0 { 6 } else { 7 };
                let mut values = waves::<T>(extents, 0.1, 5);
                add_special_values(&mut values, (seed + 10 * i) as u64);
                if share.takes() {
                    check::<T>(device, &values, extents, setting, "special values");
                }
            }
        }
    }
}

#[test]
fn special_values_of_f32() {
    let Some(device) = common::device() else { return };
    special_values::<f32>(device, Share::one_in(17).if_tiny(67, 0));
}

#[test]
fn special_values_of_f64() {
    let Some(device) = common::device() else { return };
    special_values::<f64>(device, Share::one_in(17).if_tiny(131, 33));
}

/// Arbitrary bits, which give mostly verbatim values and outliers.
#[test]
fn any_bits() {
    let Some(device) = common::device() else { return };
    let mut random = Random(77);
    let mut share = Share::all().if_tiny(7, 0);
    for extents in pick([&[5000][..], &[70, 90], &[20, 17, 33]], [&[2100], &[33, 40], &[9, 17, 12]]) {
        let len: u64 = extents.iter().product();
        for bound in [Bound::Abs(1e30), Bound::Abs(1e-3), Bound::Rel(1e-5), Bound::PwRel(0.1), Bound::Psnr(90.0)] {
            let narrow: Vec<f32> = (0..len).map(|_| f32::from_bits(random.next() as u32)).collect();
            if share.takes() {
                check(device, &narrow, extents, Setting::new(bound), "any bits");
            }
            let wide: Vec<f64> = (0..len).map(|_| f64::from_bits(random.next())).collect();
            if share.takes() {
                check(device, &wide, extents, Setting::new(bound), "any bits");
            }
        }
    }
}

/// Steps, so that most tiles are constant and some chunks have no codes at all.
#[test]
fn constant_tiles() {
    let Some(device) = common::device() else { return };
    let mut random = Random(3);
    let mut share = Share::one_in(2);
    for extents in pick(
        [&[200_000][..], &[300, 333], &[40, 80, 96], &[40, 83, 90]],
        [&[70_000], &[70, 333], &[16, 24, 64], &[16, 27, 50]],
    ) {
        let len: u64 = extents.iter().product();
        let mut values = vec![1.0_f32; len as usize];
        for _ in 0..20 {
            let start = random.below(len);
            let end = (start + random.below(3000)).min(len);
            values[start as usize..end as usize].iter_mut().for_each(|v| *v = random.unit() as f32);
        }
        values[len as usize / 2..].fill(f32::NAN);
        for chunk_tiles in [None, Some(5), Some(64)] {
            let setting = Setting { chunk_tiles, ..Setting::new(Bound::Rel(1e-3)) };
            if share.takes() {
                check(device, &values, extents, setting, "constant tiles");
            }
        }
    }
}

/// Integers near the limits of the vector path and of the format.
#[test]
fn large_integers() {
    let Some(device) = common::device() else { return };
    let mut random = Random(8);
    let mut share = Share::one_in(5);
    for extents in [&[8192][..], &[64, 96], &[16, 16, 32]] {
        let len: u64 = extents.iter().product();
        for bits in 17..=24 {
            let scale = f64::from(1_u32 << bits);
            let mut noise = || (random.unit() - 0.5) * 2.0 * scale;
            let narrow: Vec<f32> = (0..len).map(|i| (noise() + if i % 3 == 0 { scale } else { 0.0 }) as f32).collect();
            let wide: Vec<f64> = (0..len).map(|_| noise() * 64.0).collect();
            for bound in [0.5, 0.75] {
                let setting = Setting { fill: Fill::None, ..Setting::new(Bound::Abs(bound)) };
                if share.takes() {
                    check(device, &narrow, extents, setting, "large integers");
                    check(device, &wide, extents, setting, "large integers");
                }
            }
        }
    }
}

/// Residuals that count no more than the limit in the choice of the predictor: those of some outliers, and of noise.
#[test]
fn residuals_beyond_the_limit() {
    fn each<T: Real>(device: &Device) {
        for (extents, noise) in [
            (&[5000][..], 0.01),
            (&[64, 90], 0.01),
            (&[16, 24, 20], 0.01),
            (&[2048], 100.0),
            (&[32, 70], 40.0),
            (&[8, 20, 16], 100.0),
        ] {
            let mut values = waves::<T>(extents, noise, 3);
            let outliers = [90.0, -30.0, 300.0, 12.0, 2000.0];
            for (i, value) in values.iter_mut().skip(11).step_by(397).enumerate() {
                *value = T::nearest(outliers[i % outliers.len()]);
            }
            let setting = Setting { fill: Fill::None, ..Setting::new(Bound::Abs(1e-3)) };
            check(device, &values, extents, setting, "residuals beyond the limit");
        }
    }
    let Some(device) = common::device() else { return };
    each::<f32>(device);
    each::<f64>(device);
}

/// Values half a step off the grid, where rounding decides.
#[test]
fn ties() {
    let Some(device) = common::device() else { return };
    let mut random = Random(21);
    let extents = [24, 16, 40];
    for step in [1.0, 0.1, 3e-5, 7.3] {
        let values: Vec<f32> = (0..15360)
            .map(|_| {
                let x = ((random.below(4000) as f64 - 2000.0 + 0.5) * step) as f32;
                f32::from_bits(x.to_bits().wrapping_add_signed(random.below(5) as i32 - 2))
            })
            .collect();
        let setting = Setting { fill: Fill::None, ..Setting::new(Bound::Abs(step / 2.0 * 1.0001)) };
        check(device, &values, &extents, setting, "ties");
    }
}

/// NaNs of several kinds at all places in a block: the first one counts.
/// A single extreme needs no second scan, which would leave it out. Blocks look at 16,384 elements at once, and do not
/// say of those of an incomplete block whether they are single.
#[test]
fn a_scan_finds_single_extremes() {
    let Some(device) = common::device() else { return };
    let values = waves::<f32>(&[40_000], 0.5, 1);
    let with = |places: &[usize]| {
        let mut values = values.clone();
        places.iter().for_each(|&at| values[at] = 1000.0);
        values
    };
    for (places, single) in [
        (&[5][..], true),
        (&[20_000], true),
        (&[32_767], true),
        (&[39_999], false),
        (&[20_000, 20_001], false),
        (&[20_000, 24_096], false),
        (&[20_000, 20_100], false),
        (&[5, 39_999], false),
        (&[5, 20_005], false),
    ] {
        check_single_highest(device, &with(places), single, &format!("{places:?}"));
        let mut with_nan = with(places);
        with_nan[places[0] - 1] = f32::NAN;
        check_single_highest(device, &with_nan, single, &format!("{places:?} with NaN"));
    }
}

#[test]
fn scans() {
    let Some(device) = common::device() else { return };
    let mut random = Random(31);
    let mut share = Share::one_in(5);
    for len in [1, 2, 3, 4, 5, 63, 1023, 1024, 1025, 5000, pick(300_000, 60_000)] {
        for round in 0..6 {
            let mut values = waves::<f32>(&[len], 0.5, round);
            for _ in 0..round * 3 {
                let at = random.below(len) as usize;
                values[at] = f32::from_bits(0x7FC0_0000 | random.below(3) as u32 | (random.below(2) as u32) << 31);
            }
            if round % 2 == 1 {
                let fill = [1e20, -9999.0, 40.0][round as usize / 2];
                (0..len / 9).for_each(|_| values[random.below(len) as usize] = fill);
            }
            let several = Fill::of(&[1e20, -9999.0, f64::NAN]).unwrap();
            for fill in [Fill::Auto, Fill::None, Fill::Value(f64::NAN), Fill::Value(1e20), several] {
                if !share.takes() {
                    continue;
                }
                // The value 1e20 is too large for this bound; in some rounds all values are.
                let bound = Bound::Abs([1e-3, 1e-9][round as usize % 2]);
                check_scan::<f32>(device, &bytes_of(&values), bound, fill, &format!("scan {len} {round} {fill:?}"));
                let wide: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
                check_scan::<f64>(
                    device,
                    &bytes_of(&wide),
                    bound,
                    fill,
                    &format!("scan of f64 {len} {round} {fill:?}"),
                );
            }
        }
    }
}

#[test]
fn invalid_arguments_are_rejected() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    let values = waves::<f32>(&[20, 20, 20], 0.0, 1);
    let bytes = bytes_of(&values);
    let setting = Setting { chunk_tiles: Some(4), ..Setting::new(Bound::Rel(1e-3)) };
    let (header, geometry) = header_of::<f32>(&bytes, Shape::new(&[20, 20, 20]).unwrap(), setting);
    let quantizer = Quantizer::new(device, &header, &geometry).unwrap();
    let buffer = stream.clone_htod(&bytes).unwrap();
    let mut arena = Arena::new(stream.clone());
    let mut frame = arena.frame().unwrap();
    let chunks = geometry.chunks();
    let short = Slab { bytes: buffer.slice(..bytes.len() - 4), first_element: 0 };
    assert!(quantizer.quantize(&mut frame, &short, 0..chunks).is_err());
    assert!(quantizer.quantize(&mut frame, &short, 0..1).is_ok());
    let late = Slab { bytes: buffer.slice(4..), first_element: 1 };
    assert!(quantizer.quantize(&mut frame, &late, 0..chunks).is_err());
    assert!(quantizer.quantize(&mut frame, &late, chunks..chunks + 1).is_err());
    let odd = Slab { bytes: buffer.slice(1..), first_element: 0 };
    assert!(quantizer.quantize(&mut frame, &odd, 0..1).is_err());
    let whole = Slab { bytes: buffer.slice(..), first_element: 0 };
    let mut out = quantizer.quantize(&mut frame, &whole, 0..chunks).unwrap();
    assert!(quantizer.gather(&mut frame, &whole, &mut out, &[]).is_err());
    assert!(quantizer.widen(&mut frame, &whole, &mut out, &[]).is_err());
}
