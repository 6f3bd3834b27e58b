//! Chunks of numbers: every kind of numbers, all types and shapes, values that are not numbers, regions, and damage
//! that no checksum notices.

use proptest::prelude::*;
use syncline::{
    Advanced, ArrayView, Bound, Coder, CompressOptions, DecompressOptions, Effort, Element, IndexKind, compress,
    decompress, decompress_region, inspect,
};
use xxhash_rust::xxh3::xxh3_64;

const HEADER: usize = 144;
/// The record header and the table of sections.
const PLAN: usize = HEADER + 32 + 48;

fn options() -> CompressOptions {
    let advanced = Advanced::default().with_coder(Coder::Numbers);
    CompressOptions::new(Bound::Lossless).with_advanced(advanced).with_threads(1)
}

/// Compresses and decompresses, compares the bits, and returns the stream.
fn check<T: Element>(values: &[T], extents: &[u64]) -> Vec<u8> {
    let view = ArrayView::new(values, extents).unwrap();
    let stream = compress(&view, &options()).unwrap();
    let back = decompress(&stream, &DecompressOptions::default()).unwrap();
    assert!(back.bytes() == view.bytes(), "{extents:?} {}", T::TYPE);
    stream
}

/// The kind of numbers of the first chunk, which is not raw.
fn kind(stream: &[u8]) -> u8 {
    assert_eq!(stream[HEADER + 16], 1, "the chunk is one of numbers");
    stream[PLAN]
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 20
}

/// Integers that wander.
fn walk(count: usize, step: u64) -> Vec<i64> {
    let mut state = 7;
    let mut value = 0;
    (0..count)
        .map(|_| {
            value += (random(&mut state) % (2 * step + 1)) as i64 - step as i64;
            value
        })
        .collect()
}

#[test]
fn each_kind_of_numbers_is_found_and_comes_back() {
    let walk = walk(20_000, 9);
    let extents = [20_000];
    let decimals: Vec<f64> = walk.iter().map(|&k| k as f64 / 100.0).collect();
    let stream = check(&decimals, &extents);
    assert_eq!(kind(&stream), 2, "decimals");
    assert!(stream.len() < 20_000, "{}", stream.len());
    let feet: Vec<f32> = walk.iter().map(|&k| k as f32 * 3.28).collect();
    assert_eq!(kind(&check(&feet, &extents)), 2, "a common factor");
    let unpacked: Vec<f32> = walk.iter().map(|&k| (k as f64 * 0.8 + 1234.567) as f32).collect();
    assert_eq!(kind(&check(&unpacked, &extents)), 2, "a step and an offset");
    let noisy: Vec<f32> = walk
        .iter()
        .enumerate()
        .map(|(i, &k)| f32::from_bits(((k + 9000) as f32 * 0.001).to_bits().wrapping_add(i as u32 * 7 % 3)))
        .collect();
    assert_eq!(kind(&check(&noisy, &extents)), 3, "units in the last place beside");
    let multiples: Vec<i64> = walk.iter().map(|&k| k * 1000 + 17).collect();
    assert_eq!(kind(&check(&multiples, &extents)), 1, "a common divisor");
    let integers: Vec<i32> = walk.iter().map(|&k| k as i32).collect();
    assert_eq!(kind(&check(&integers, &extents)), 0, "integers");
    for exact in [&decimals[..1], &decimals[..5], &decimals[..1023]] {
        check(exact, &[exact.len() as u64]);
    }
}

/// Values at which conversions and predictions may go wrong, in between many that are decimals.
fn with_extremes<T: Element>(narrow: impl Fn(f64) -> T, extremes: &[T], every: usize) -> Vec<T> {
    let mut values: Vec<T> = walk(6_000, 3).iter().map(|&k| narrow(k as f64 / 4.0)).collect();
    for (place, &extreme) in (5..values.len()).step_by(every).zip(extremes.iter().cycle()) {
        values[place] = extreme;
    }
    values
}

#[test]
fn floats_that_are_no_numbers_come_back_bit_by_bit() {
    let f32s =
        [0x7fc0_0001_u32, 0xffff_ffff, 0x7f80_0000, 0xff80_0000, 0x8000_0000, 1, 0x8000_0001, 0x7f7f_ffff, 0xff7f_ffff]
            .map(f32::from_bits);
    let f64s = [
        0x7ff8_0000_0000_0001_u64,
        u64::MAX,
        0x7ff0_0000_0000_0000,
        0xfff0_0000_0000_0000,
        1 << 63,
        1,
        (1 << 63) + 1,
        0x7fef_ffff_ffff_ffff,
    ]
    .map(f64::from_bits);
    for every in [2, 7, 100, 3000] {
        for extents in [&[6_000][..], &[60, 100], &[10, 20, 30], &[2, 10, 20, 15], &[1, 6_000], &[3, 2_000]] {
            check(&with_extremes(|x| x as f32, &f32s, every), extents);
            check(&with_extremes(|x| x, &f64s, every), extents);
            let half = |bits: u16| half::f16::from_bits(bits);
            check(&with_extremes(half::f16::from_f64, &[0x7e01, 0x8000, 1, 0x7bff, 0xfc00].map(half), every), extents);
            let brain = |bits: u16| half::bf16::from_bits(bits);
            check(
                &with_extremes(half::bf16::from_f64, &[0x7fc1, 0x8000, 1, 0x7f7f, 0xff80].map(brain), every),
                extents,
            );
        }
    }
}

#[test]
fn fill_values_become_masks() {
    let mut state = 5;
    let values: Vec<f32> = walk(64 * 64 * 20, 4)
        .iter()
        .enumerate()
        .map(|(i, &k)| {
            let (x, y) = (i % 64, i / 64 % 64);
            let is_land = (x / 16 + y / 16) % 3 == 0 || random(&mut state).is_multiple_of(400);
            if is_land { -9999.0 } else { k as f32 / 8.0 + x as f32 }
        })
        .collect();
    let stream = check(&values, &[20, 64, 64]);
    assert!(inspect(&stream).unwrap().totals.masked_tiles > 0);
    check(&vec![f32::NAN; 5_000], &[5_000]);
    check(&vec![f32::NAN; 5_000], &[50, 10, 10]);
}

#[test]
fn integers_at_their_limits_come_back() {
    macro_rules! types {
        ($($type:ty),*) => {$({
            let limits = [<$type>::MIN, <$type>::MAX, 0, 1, <$type>::MAX / 2, <$type>::MAX / 3 * 2];
            let jumps: Vec<$type> = (0..5_000usize).map(|i| limits[i * i % 6]).collect();
            let mut state = 3;
            let mut next = || (random(&mut state) ^ random(&mut state) << 30) as $type;
            let noise: Vec<$type> = (0..5_000).map(|_| next()).collect();
            let small: Vec<$type> = (0..5_000usize).map(|i| (i * i % 11) as $type).collect();
            let ramp: Vec<$type> = (0..5_000usize).map(|i| (i as $type).wrapping_mul(3)).collect();
            for values in [jumps, noise, small, ramp] {
                for extents in [&[5_000u64][..], &[50, 100], &[5, 10, 100], &[5, 10, 10, 10]] {
                    check(&values, extents);
                }
            }
        })*};
    }
    types!(u8, u16, u32, u64, i8, i16, i32, i64);
}

#[test]
fn efforts_and_indices_come_back() {
    let values: Vec<f32> = walk(70_000, 90).iter().map(|&k| k as f32 / 10.0).collect();
    let view = ArrayView::new(&values, &[700, 100]).unwrap();
    for effort in Effort::ALL {
        for index in IndexKind::ALL {
            let advanced = Advanced::default().with_index(index);
            let options = CompressOptions::new(Bound::Lossless).with_effort(effort).with_advanced(advanced);
            let stream = compress(&view, &options).unwrap();
            let back = decompress(&stream, &DecompressOptions::default()).unwrap();
            assert!(back.bytes() == view.bytes(), "{effort} {index}");
            let region = [3..40, 90..91];
            let part = decompress_region(&stream, &region, &DecompressOptions::default()).unwrap();
            let expected: Vec<f32> = (3..40).map(|row| values[row * 100 + 90]).collect();
            assert_eq!(part.to_vec::<f32>().unwrap(), expected);
        }
    }
}

/// Puts a new checksum on the stream's only record.
fn seal(stream: &mut [u8], record: usize) {
    let bytes = [&stream[HEADER..HEADER + 24], &stream[HEADER + 32..HEADER + record]].concat();
    stream[HEADER + 24..HEADER + 32].copy_from_slice(&xxh3_64(&bytes).to_le_bytes());
}

#[test]
fn damage_behind_a_right_checksum_is_an_error_or_other_values() {
    let walk = walk(4_000, 40);
    let noisy = |i: usize, k: i64| f32::from_bits(((k + 9000) as f32 * 0.001).to_bits().wrapping_add(i as u32 * 7 % 3));
    let ulps: Vec<f32> = walk.iter().enumerate().map(|(i, &k)| noisy(i, k)).collect();
    let masked: Vec<f32> =
        walk.iter().enumerate().map(|(i, &k)| if i % 90 < 20 { f32::NAN } else { k as f32 }).collect();
    let integers: Vec<f32> = walk.iter().enumerate().map(|(i, &k)| if i % 500 == 3 { 0.3 } else { k as f32 }).collect();
    for values in [ulps, masked, integers] {
        let stream = check(&values, &[40, 100]);
        let record = u32::from_le_bytes(stream[HEADER + 4..HEADER + 8].try_into().unwrap()) as usize;
        let mut errors = 0;
        for at in HEADER + 32..HEADER + record {
            for bit in [0, 3, 7] {
                let mut damaged = stream.clone();
                damaged[at] ^= 1 << bit;
                seal(&mut damaged, record);
                match decompress(&damaged, &DecompressOptions::default().with_threads(1)) {
                    Ok(array) => assert_eq!(array.to_vec::<f32>().unwrap().len(), values.len()),
                    Err(_) => errors += 1,
                }
                let _ = inspect(&damaged);
            }
        }
        assert!(errors > 100, "{errors}");
        for length in (0..stream.len()).step_by(7) {
            assert!(decompress(&stream[..length], &DecompressOptions::default()).is_err(), "{length}");
        }
    }
}

#[test]
fn lying_plans_are_errors() {
    let values: Vec<f32> = walk(4_000, 40).iter().map(|&k| k as f32).collect();
    let stream = check(&values, &[4_000]);
    let record = u32::from_le_bytes(stream[HEADER + 4..HEADER + 8].try_into().unwrap()) as usize;
    assert_eq!(kind(&stream), 2);
    let (nan, zero) = (f64::NAN.to_le_bytes(), 0f64.to_le_bytes());
    let lies: [(usize, &[u8]); 12] = [
        (0, &[5]),
        (0, &[1]),
        (1, &[3]),
        (2, &[0]),
        (2, &[3]),
        (2, &[16]),
        (3, &[9]),
        (4, &[2]),
        (5, &[1]),
        (16, &nan),
        (16, &zero),
        (24, &nan),
    ];
    for (at, lie) in lies {
        let mut damaged = stream.clone();
        damaged[PLAN + at..PLAN + at + lie.len()].copy_from_slice(lie);
        seal(&mut damaged, record);
        let error = decompress(&damaged, &DecompressOptions::default()).unwrap_err().to_string();
        assert!(error.contains("damaged"), "{at}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn regions_are_what_the_array_has_there(
        seed in any::<u64>(), extents in [1..40u64, 1..60u64, 1..70u64], divisor in 1..40u32, holes in 0..60u64,
        cut in [0.0..1.0f64, 0.0..1.0, 0.0..1.0], size in [0.0..1.0f64, 0.0..1.0, 0.0..1.0],
    ) {
        let mut state = seed;
        let values: Vec<f32> = walk(extents.iter().product::<u64>() as usize, 1 + seed % 50).iter()
            .map(|&k| if random(&mut state) % 60 < holes { f32::NAN } else { k as f32 / divisor as f32 }).collect();
        let stream = check(&values, &extents);
        let region: [_; 3] = std::array::from_fn(|i| {
            let first = (extents[i] as f64 * cut[i]) as u64;
            first..first + ((extents[i] - first) as f64 * size[i]) as u64
        });
        let got = decompress_region(&stream, &region, &DecompressOptions::default()).unwrap().to_vec::<f32>().unwrap();
        let mut want = Vec::new();
        for z in region[0].clone() {
            for y in region[1].clone() {
                let row = (z * extents[1] + y) * extents[2];
                want.extend(region[2].clone().map(|x| values[(row + x) as usize].to_bits()));
            }
        }
        prop_assert_eq!(got.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), want);
    }
}
