//! Arrays that are decompressed, changed in parts, and compressed again, as stores do with their chunks.

use proptest::prelude::*;
use syncline::{
    ArrayView, Bound, CompressOptions, DecompressOptions, Effort, Element, Fill, Writer, compress, decompress,
};

fn round_trip<T: Element>(values: &[T], extents: &[u64], options: &CompressOptions) -> Vec<T> {
    let stream = compress(&ArrayView::new(values, extents).unwrap(), options).unwrap();
    decompress(&stream, &DecompressOptions::default()).unwrap().to_vec().unwrap()
}

/// A value that is written to an array, of one of several sizes, now and then special.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        20 => -1.0f64..1.0,
        10 => 270.0f64..310.0,
        5 => -1e5f64..1e5,
        2 => -1e-6f64..1e-6,
        2 => prop::sample::select(vec![0.0, -0.0, -9999.0, 1e20, f64::NAN, f64::INFINITY, 3.4e38, 1e-40]),
    ]
}

fn options() -> impl Strategy<Value = CompressOptions> {
    let bounds = prop_oneof![
        (-6f64..1.0).prop_map(|e| Bound::Abs(10f64.powf(e))),
        (-5f64..-0.5).prop_map(|e| Bound::PwRel(10f64.powf(e))),
    ];
    let fills = prop::sample::select(vec![Fill::None, Fill::Auto, Fill::Value(0.0), Fill::Value(-9999.0)]);
    let efforts = prop::sample::select(Effort::ALL.to_vec());
    (bounds, fills, efforts).prop_map(|(bound, fill, effort)| {
        let options = CompressOptions::new(bound).with_fill(fill).with_effort(effort);
        options.with_rewritable(true).with_threads(1)
    })
}

/// Returns whether an element may have become `now`.
fn holds(written: f64, now: f64, bound: Bound) -> bool {
    let same = written.to_bits() == now.to_bits() || (written.is_nan() && now.is_nan());
    let error = (written - now).abs();
    same || match bound {
        Bound::PwRel(ratio) => error <= ratio * written.abs() && written.is_sign_negative() == now.is_sign_negative(),
        _ => error <= bound.value(),
    }
}

/// Writes parts of an array again and again, and checks each element against the value that was last written to it.
fn rewrite<T: Element + Into<f64> + Copy>(
    extents: [usize; 2],
    parts: &[(usize, usize, Vec<f64>)],
    options: &CompressOptions,
    to_element: impl Fn(f64) -> T,
) -> Result<(), TestCaseError> {
    let [rows, columns] = extents;
    let shape = extents.map(|extent| extent as u64);
    let mut written = vec![to_element(0.0); rows * columns];
    let mut stored = round_trip(&written, &shape, options);
    for (first, step, values) in parts {
        for (i, &value) in values.iter().enumerate() {
            let at = (first + i * step) % written.len();
            written[at] = to_element(value);
            stored[at] = written[at];
        }
        stored = round_trip(&stored, &shape, options);
        for (i, (&written, &now)) in written.iter().zip(&stored).enumerate() {
            let (written, now) = (written.into(), now.into());
            prop_assert!(holds(written, now, options.bound()), "element {i}: {written:e} became {now:e}, {options:?}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn partial_writes_keep_the_bound_of_what_was_written_last(
        extents in [1usize..40, 1usize..70],
        parts in prop::collection::vec((0usize..3000, 1usize..60, prop::collection::vec(value(), 1..600)), 1..12),
        options in options(), wide in any::<bool>(),
    ) {
        match wide {
            false => rewrite::<f32>(extents, &parts, &options, |value| value as f32)?,
            true => rewrite::<f64>(extents, &parts, &options, |value| value)?,
        }
    }

    #[test]
    fn decompressed_values_compress_to_themselves(
        values in prop::collection::vec(value(), 1..3000), options in options(), scale in -4f64..4.0,
    ) {
        let values: Vec<f32> = values.iter().map(|value| (value * 10f64.powf(scale)) as f32).collect();
        let extents = [values.len() as u64];
        let once = round_trip(&values, &extents, &options);
        let twice = round_trip(&once, &extents, &options);
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&once), bits(&twice), "{:?}", options);
    }
}

#[test]
fn growing_slices_of_a_smooth_field_do_not_drift() {
    let value = |z: usize, y: usize, x: usize| {
        280.0 + 10.0 * (y as f64 / 9.0 + z as f64 / 3.0).sin() * (x as f64 / 7.0).cos() + z as f64
    };
    let (planes, side) = (24, 64);
    for effort in Effort::ALL {
        let options = CompressOptions::new(Bound::Abs(0.01)).with_effort(effort).with_rewritable(true);
        let mut stored = vec![0f32; planes * side * side];
        let mut written = stored.clone();
        for z in 0..planes {
            for i in 0..side * side {
                written[z * side * side + i] = value(z, i / side, i % side) as f32;
            }
            let plane = z * side * side..(z + 1) * side * side;
            stored[plane.clone()].copy_from_slice(&written[plane]);
            stored = round_trip(&stored, &[planes as u64, side as u64, side as u64], &options);
        }
        let worst = written.iter().zip(&stored).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max);
        assert!(worst <= 0.01, "{effort}: {worst}");
    }
}

#[test]
fn writers_without_a_range_write_values_that_compress_to_themselves() {
    let values: Vec<f32> = (0..5000).map(|i| 1000.0 * (i as f32 * 0.01).sin()).collect();
    let options = CompressOptions::new(Bound::Abs(0.37)).with_rewritable(true);
    let view = ArrayView::new(&values, &[5000]).unwrap();
    let mut writer = Writer::new(Vec::new(), view.element_type(), view.shape(), &options).unwrap();
    writer.push(view.bytes()).unwrap();
    let stream = writer.finish().unwrap();
    let once: Vec<f32> = decompress(&stream, &DecompressOptions::default()).unwrap().to_vec().unwrap();
    assert_eq!(round_trip(&once, &[5000], &options), once);
}
