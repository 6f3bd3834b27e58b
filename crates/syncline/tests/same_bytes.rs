//! `compress` and a `Writer` that knows the same of an array write the same bytes.

use proptest::prelude::*;
use syncline::{ArrayStats, ArrayView, Bound, CompressOptions, Element, Fill, Writer, compress, inspect};

fn written<T: Element>(values: &[T], options: &CompressOptions) -> Vec<u8> {
    let view = ArrayView::new(values, &[values.len() as u64]).unwrap();
    let stats = ArrayStats::of(&view, options.bound(), options.fill()).unwrap();
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

/// The first NaN, the fill value and a zero are those that a writer assumes.
fn with_assumed(mut values: Vec<f64>, fill: f64) -> Vec<f64> {
    for value in &mut values {
        if value.is_nan() || value.to_bits() == (-0.0f64).to_bits() {
            *value = 0.25;
        }
    }
    values.extend([f64::NAN, fill, 0.0, 0.5]);
    values
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_writer_with_the_range_writes_the_stream_of_compress_if_its_assumptions_hold(
        values in values(),
        bound in prop_oneof![
            (-3f64..3.0).prop_map(|e| Bound::Abs(10f64.powf(e))),
            (-9f64..0.0).prop_map(|e| Bound::Rel(10f64.powf(e))),
            (-7f64..-0.1).prop_map(|e| Bound::PwRel(10f64.powf(e))),
            Just(Bound::Lossless),
        ],
    ) {
        let fill = -777.0;
        let values = with_assumed(values, fill);
        let options = CompressOptions::new(bound).with_fill(Fill::Value(fill)).with_threads(1);
        let view = ArrayView::new(&values, &[values.len() as u64]).unwrap();
        let known: Vec<f64> = values.iter().copied().filter(|value| value.is_finite() && *value != fill).collect();
        let extend = |(low, high): (f64, f64), &value: &f64| (low.min(value), high.max(value));
        let (low, high) = known.iter().fold((f64::MAX, f64::MIN), extend);
        // `compress` writes a lossless stream if more of the finite values that are no fill values are too large.
        let too_large = |value: &&f64| matches!(bound, Bound::Abs(error) if value.abs() >= error * 1e8);
        prop_assume!(5 * known.iter().filter(too_large).count() <= known.len());
        let whole = compress(&view, &options).unwrap();
        // A writer cannot know that all values are whole multiples of a number above twice the bound.
        let report = inspect(&whole).unwrap();
        prop_assume!(matches!(bound, Bound::PwRel(_)) || report.step <= 2.0 * report.abs_bound);
        let mut writer =
            Writer::with_range(Vec::new(), view.element_type(), view.shape(), &options, low, high).unwrap();
        writer.push(view.bytes()).unwrap();
        prop_assert!(writer.finish().unwrap() == whole, "{bound:?}");
    }
}

#[test]
fn statistics_for_another_bound_are_refused() {
    let view = ArrayView::new(&[1f32, 2.0], &[2]).unwrap();
    let stats = ArrayStats::of(&view, Bound::Abs(1e-3), Fill::Auto).unwrap();
    let options = CompressOptions::new(Bound::Abs(1e-2));
    let error = Writer::with_stats(Vec::new(), view.shape(), &options, &stats).unwrap_err();
    assert!(error.to_string().contains("another bound"), "{error}");
}
