//! `compress` and a `Writer` that knows the same of an array write the same bytes.

use proptest::prelude::*;
use syncline::{
    ArrayStats, ArrayView, Bound, CompressOptions, Element, Fill, Pipeline, Writer, compress, decompress, inspect,
};

fn written<T: Element>(values: &[T], options: &CompressOptions) -> Vec<u8> {
    let view = ArrayView::new(values, &[values.len() as u64]).unwrap();
    let stats = ArrayStats::of(&view, options.fill()).unwrap();
    let mut writer = Writer::with_stats(Vec::new(), view.shape(), options, &stats).unwrap();
    for part in view.bytes().chunks(10_001) {
        writer.push(part).unwrap();
    }
    writer.finish().unwrap()
}

fn compressed<T: Element>(values: &[T], options: &CompressOptions) -> Vec<u8> {
    compress(&ArrayView::new(values, &[values.len() as u64]).unwrap(), options).unwrap()
}

/// Waves with NaN of several kinds, zeros of both signs, fill values, infinities and far outliers.
fn values() -> impl Strategy<Value = Vec<f64>> {
    let special = prop_oneof![
        Just(f64::NAN),
        Just(-f64::NAN),
        Just(0.0),
        Just(-0.0),
        Just(-9999.0),
        Just(f64::INFINITY),
        Just(1e30),
        Just(-1e12),
        -1e6f64..1e6,
    ];
    (1usize..6000, prop::collection::vec((any::<prop::sample::Index>(), special, 1usize..400), 0..8)).prop_map(
        |(length, specials)| {
            let mut values: Vec<f64> = (0..length).map(|i| (i as f64 * 0.01).sin() * 3.0 + 1.5).collect();
            for (at, value, run) in specials {
                let at = at.index(length);
                let end = (at + run).min(length);
                values[at..end].fill(value);
            }
            values
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_writer_with_statistics_writes_the_stream_of_compress(
        values in values(),
        bound in prop_oneof![
            (-9f64..3.0).prop_map(|e| Bound::Abs(10f64.powf(e))),
            (-9f64..0.0).prop_map(|e| Bound::Rel(10f64.powf(e))),
            (-7f64..-0.1).prop_map(|e| Bound::PwRel(10f64.powf(e))),
        ],
        fill in prop::sample::select(vec![Fill::Auto, Fill::None, Fill::Value(-9999.0), Fill::Value(f64::NAN)]),
    ) {
        let options = CompressOptions::new(bound).with_fill(fill).with_threads(1);
        prop_assert!(written(&values, &options) == compressed(&values, &options), "f64 {bound:?} {fill:?}");
        let narrow: Vec<f32> = values.iter().map(|&value| value as f32).collect();
        prop_assert!(written(&narrow, &options) == compressed(&narrow, &options), "f32 {bound:?} {fill:?}");
    }
}

#[test]
fn an_outlier_beyond_all_steps_is_stored_verbatim() {
    let mut values: Vec<f32> = (0..20_000).map(|i| (i as f32 * 0.01).sin()).collect();
    values[7] = 1e30;
    let stream = compressed(&values, &CompressOptions::new(Bound::Abs(1e-3)));
    let report = inspect(&stream).unwrap();
    assert_eq!((report.pipeline, report.totals.verbatim), (Pipeline::Quantized, 1));
    assert!(report.ratio() > 4.0, "{}", report.ratio());
    let back = decompress(&stream, &Default::default()).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(back[7], 1e30);
    assert!(values.iter().zip(&back).all(|(a, b)| (a - b).abs() <= 1e-3));
}
