//! Values that a bound alone does not speak of: those at the ends of the range, zeros, and fill values.

use proptest::prelude::*;
use syncline::{
    ArrayView, Bound, CompressOptions, DecompressOptions, Effort, ElementType, Error, Fill, Header, Shape, StreamFile,
    Writer, compress, decompress,
};

fn stream_of(values: &[f32], extents: &[u64], options: &CompressOptions) -> Vec<u8> {
    compress(&ArrayView::new(values, extents).unwrap(), options).unwrap()
}

fn values_of(stream: &[u8]) -> Vec<f32> {
    decompress(stream, &DecompressOptions::default()).unwrap().to_vec().unwrap()
}

fn header_of(stream: &[u8]) -> Header {
    StreamFile::open(stream.to_vec()).unwrap().header().clone()
}

fn round_trip(values: &[f32], extents: &[u64], options: &CompressOptions) -> Vec<f32> {
    values_of(&stream_of(values, extents, options))
}

/// Rain that falls in a disk: zeros outside, a smooth hill inside.
fn rain(side: usize) -> Vec<f32> {
    let value = |i: usize| {
        let (y, x) = ((i / side) as f32, (i % side) as f32);
        (10.0 * (-((y - 128.0).powi(2) + (x - 100.0).powi(2)) / 3000.0).exp() - 1.0).max(0.0)
    };
    (0..side * side).map(value).collect()
}

#[test]
fn no_value_leaves_the_range_and_zeros_stay_zero() {
    let rain = rain(256);
    let fraction: Vec<f32> = rain.iter().map(|value| (value / 5.0).min(1.0)).collect();
    for effort in Effort::ALL {
        for (values, bound) in [(&rain, 0.05), (&rain, 0.4), (&fraction, 0.01)] {
            let options = CompressOptions::new(Bound::Abs(bound)).with_effort(effort);
            let back = round_trip(values, &[256, 256], &options);
            let highest = values.iter().copied().fold(0.0, f32::max);
            assert!(back.iter().all(|value| (0.0..=highest).contains(value)), "{effort}");
            let changed = values.iter().zip(&back).filter(|(a, b)| **a == 0.0 && b.to_bits() != 0).count();
            assert_eq!(changed, 0, "{effort}: zeros that changed, bound {bound}");
        }
    }
}

#[test]
fn a_range_that_does_not_hold_makes_values_verbatim() {
    let values: Vec<f32> = (0..4096).map(|i| (i as f32 * 0.01).sin() * 3.0).collect();
    let view = ArrayView::new(&values, &[64, 64]).unwrap();
    for effort in Effort::ALL {
        let options = CompressOptions::new(Bound::Abs(0.05)).with_effort(effort);
        let mut writer =
            Writer::with_range(Vec::new(), view.element_type(), view.shape(), &options, -1.0, 2.0).unwrap();
        writer.push(view.bytes()).unwrap();
        let back = values_of(&writer.finish().unwrap());
        for (value, back) in values.iter().zip(&back) {
            let outside = !(-1.0..=2.0).contains(value);
            assert!((value - back).abs() <= if outside { 0.0 } else { 0.05 }, "{effort}: {value} became {back}");
        }
    }
}

#[test]
fn valid_values_never_become_a_given_fill_value() {
    let gamma: Vec<f32> = (0..90_000u32)
        .map(|i| {
            let random = f64::from(i.wrapping_mul(2_654_435_769) >> 8) / f64::from(1 << 24);
            if i < 15_000 { 0.0 } else { (0.2 * random.powi(4)) as f32 }
        })
        .collect();
    for effort in Effort::ALL {
        for (fill, bound) in [(0.0, Bound::Abs(0.1)), (0.5, Bound::Abs(0.3)), (0.1, Bound::PwRel(0.3))] {
            for values in [&gamma[..], &gamma[15_000..]] {
                let options = CompressOptions::new(bound).with_effort(effort).with_fill(Fill::Value(fill));
                let back = round_trip(values, &[values.len() as u64 / 300, 300], &options);
                let fill = fill as f32;
                let (mut fills, mut became) = (0, 0);
                for (value, back) in values.iter().zip(&back) {
                    fills += usize::from(*value == fill && back.to_bits() != value.to_bits());
                    became += usize::from(*value != fill && *back == fill);
                }
                assert_eq!((fills, became), (0, 0), "{effort}, fill {fill}");
            }
        }
    }
}

#[test]
fn bound_holds_in_tiles_without_fill_values_after_tiles_with_them() {
    let (side, bound) = (64u64, 1e-3);
    let value = |i: u64| {
        let (z, y, x) = (i / side / side, i / side % side, i % side);
        let wave = ((x as f32) * 0.1).sin() + ((y as f32) * 0.07).cos() + z as f32 * 0.01;
        let has_fills = y < 32 && (x / 3 + z) % 5 == 0;
        if has_fills { 0.5 } else { wave }
    };
    let values: Vec<f32> = (0..side.pow(3)).map(value).collect();
    for fill in [Fill::Value(0.5), Fill::of(&[0.5, 0.0]).unwrap()] {
        for effort in Effort::ALL {
            let options = CompressOptions::new(Bound::Abs(bound)).with_effort(effort).with_fill(fill);
            let back = round_trip(&values, &[side; 3], &options);
            let worst = values.iter().zip(&back).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max);
            assert!(worst <= bound, "{effort}, {fill:?}: {worst}");
        }
    }
}

#[test]
fn a_given_zero_stands_for_both_zeros() {
    let value = |i: u32, zero: f32| match i % 3 {
        0 => zero,
        _ => 1000.0 + (i.wrapping_mul(2_654_435_769) >> 8) as f32 / 16_777_216.0,
    };
    for fill in [0.0, -0.0] {
        for zero in [0.0, -0.0] {
            let values: Vec<f32> = (0..10_000).map(|i| value(i, zero)).collect();
            let options = CompressOptions::new(Bound::Rel(1e-3)).with_fill(Fill::Value(fill));
            let stream = stream_of(&values, &[10_000], &options);
            let bound = header_of(&stream).abs_bound;
            assert!((bound - 1e-3).abs() < 1e-6, "fill {fill:?}, zero {zero:?}: bound {bound}");
            let back = values_of(&stream);
            assert!(values.iter().zip(&back).all(|(a, b)| *a != 0.0 || a.to_bits() == b.to_bits()));
        }
    }
}

#[test]
fn a_header_with_the_records_of_another_stream_is_refused() {
    let first: Vec<f32> = (0..40_000).map(|i| (i as f32 * 0.01).sin() * 100.0).collect();
    let second: Vec<f32> = first.iter().map(|value| value * 3.0).collect();
    for bound in [Bound::Rel(1e-3), Bound::Abs(1e-3), Bound::Psnr(60.0)] {
        let options = CompressOptions::new(bound);
        let [first, second] = [&first, &second].map(|values| stream_of(values, &[200, 200], &options));
        let spliced = [&first[..144], &second[144..]].concat();
        let error = decompress(&spliced, &DecompressOptions::default()).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{bound:?}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn decompressed_values_are_in_the_range_and_no_foreign_fill(
        values in prop::collection::vec(prop_oneof![5 => -1.0f32..1.0, 1 => Just(0.0f32), 1 => Just(0.25f32)], 1..2000),
        exponent in -4f64..0.5, effort in prop::sample::select(Effort::ALL.to_vec()), wave in any::<bool>(),
    ) {
        let count = values.len();
        let values: Vec<f32> = match wave {
            true => (0..count).map(|i| if i % 7 == 0 { values[i] } else { (i as f32 * 0.05).sin() }).collect(),
            false => values,
        };
        let options =
            CompressOptions::new(Bound::Abs(10f64.powf(exponent))).with_effort(effort).with_fill(Fill::Value(0.25));
        let back = round_trip(&values, &[count as u64], &options);
        let valid = || values.iter().copied().filter(|value| *value != 0.25);
        let (low, high) = (valid().fold(f32::INFINITY, f32::min), valid().fold(f32::NEG_INFINITY, f32::max));
        for (value, back) in values.iter().zip(&back) {
            prop_assert_eq!(*value == 0.25, *back == 0.25, "{} became {}", value, back);
            prop_assert!(*value == 0.25 || (low..=high).contains(back), "{} became {}", value, back);
        }
    }
}

#[test]
fn an_unknown_range_limits_nothing() {
    let options = CompressOptions::new(Bound::Abs(0.5));
    let shape = Shape::new(&[3]).unwrap();
    let mut writer = Writer::new(Vec::new(), ElementType::F32, shape, &options).unwrap();
    writer.push(&[1.5f32, -7.0, 9.25].map(f32::to_le_bytes).concat()).unwrap();
    let stream = writer.finish().unwrap();
    assert_eq!(header_of(&stream).range, None);
    assert!(values_of(&stream).iter().zip([1.5, -7.0, 9.25]).all(|(a, b)| (a - b).abs() <= 0.5));
}
