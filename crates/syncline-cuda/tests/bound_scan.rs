//! Scans of arrays on the device find what those of the core find.

mod common;

use common::{Random, Share, pick, unless_tiny_one};
use syncline_core::array::ElementType;
use syncline_core::bound::scan::ScanResult;
use syncline_core::bound::{ArrayStats, Bound, Fill, Scan};
use syncline_core::quantize::Real;
use syncline_cuda::quantize::{BoundScan, ScannedPart};
use syncline_cuda::{CudaError, Device};

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

fn bytes_of<T: Real>(values: &[T]) -> Vec<u8> {
    values.iter().flat_map(|value| value.bits().to_le_bytes()[..size_of::<T>()].to_vec()).collect()
}

fn core_scan<T: Real>(bytes: &[u8], bound: Bound, fill: Fill) -> Scan {
    Scan::of(T::TYPE, bytes, bound, fill)
}

fn check_scan<T: Real>(device: &Device, bytes: &[u8], bound: Bound, fill: Fill, what: &str) {
    let stream = device.context().default_stream();
    let mut scan = BoundScan::new(device, T::TYPE).unwrap();
    let expected = core_scan::<T>(bytes, bound, fill);
    let same = |found: &Scan, what: &str| {
        assert_eq!(found.range(), expected.range(), "{what}: range");
        assert_eq!(found.excluded(), expected.excluded(), "{what}: excluded");
        assert_eq!((found.count(), found.valid()), (expected.count(), expected.valid()), "{what}: counts");
        assert_eq!(ArrayStats::from(found), ArrayStats::from(&expected), "{what}: statistics");
    };
    // Also at an address that is not aligned for vector loads.
    for &skip in unless_tiny_one(&[0, size_of::<T>()], bytes.len() / size_of::<T>()) {
        let shifted = [&vec![0; skip], bytes, &[0]].concat();
        let buffer = stream.clone_htod(&shifted).unwrap();
        let view = buffer.slice(skip..skip + bytes.len());
        same(&scan.scan(&stream, &view, bound, fill).unwrap(), what);
        // Also scans the array in parts, as with several devices.
        let len = bytes.len() / size_of::<T>();
        let empty = Scan::new(T::TYPE, len as u64, bound, fill);
        let mut parts = |empty: &Scan| {
            let mut part = |from: usize, to: usize| {
                let view = buffer.slice(skip + from * size_of::<T>()..skip + to * size_of::<T>());
                scan.scan_range(&stream, &view, from as u64, empty)
            };
            let (a, b) = (len / 3, len * 3 / 5);
            Ok::<_, CudaError>([part(0, a)?, part(a, b)?, part(b, len)?])
        };
        let merged = |[a, b, c]: &[ScannedPart; 3]| a.result.merge(b.result).merge(c.result);
        let (first, mut whole) = (parts(&empty).unwrap(), empty);
        first.iter().for_each(|part| part.add_values(&mut whole));
        let found = merged(&first);
        check_single::<T>(&found, bytes, what);
        let whole = whole.settle_result(&found, |again| parts(again).map(|parts| merged(&parts))).unwrap();
        same(&whole, &format!("{what}, in parts"));
    }
}

/// A scan says of an extreme that it is single only where one element alone has its bits.
fn check_single<T: Real>(found: &ScanResult, bytes: &[u8], what: &str) {
    let count = |extreme: i64| bytes.chunks_exact(size_of::<T>()).filter(|word| key_of(word) == extreme).count();
    for (end, extreme) in [found.stats.lowest, found.stats.highest].into_iter().enumerate() {
        assert!(!found.single[end] || count(extreme) == 1, "{what}: extreme {end} is not single");
    }
}

/// Returns the key of an f32 or f64, given as bytes.
fn key_of(word: &[u8]) -> i64 {
    match *word {
        [a, b, c, d] => {
            let bits = i32::from_le_bytes([a, b, c, d]);
            i64::from(bits ^ (bits >> 31 & i32::MAX))
        }
        _ => {
            let bits = i64::from_le_bytes(word.try_into().unwrap());
            bits ^ (bits >> 63 & i64::MAX)
        }
    }
}

/// Checks whether a scan on the device finds that one element alone is the highest.
fn check_single_highest(device: &Device, values: &[f32], expected: bool, what: &str) {
    let stream = device.context().default_stream();
    let buffer = stream.clone_htod(&bytes_of(values)).unwrap();
    let mut scan = BoundScan::new(device, ElementType::F32).unwrap();
    let empty = Scan::new(ElementType::F32, values.len() as u64, Bound::Rel(1e-3), Fill::Auto);
    let found = scan.scan_range(&stream, &buffer.as_view(), 0, &empty).unwrap();
    assert_eq!(found.result.single[1], expected, "{what}");
}

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
fn scans_are_those_of_the_core() {
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
            if round / 2 == 2 {
                values
                    .iter_mut()
                    .filter(|value| value.abs() < 9.0)
                    .for_each(|value| *value = (*value * 4.0).round() / 4.0);
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
