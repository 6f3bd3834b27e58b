//! Values that are too large for every step of an absolute bound are stored verbatim. All other values keep their
//! compression ratio.

use syncline::{
    Advanced, ArrayView, Backend, Bound, Coder, CompressOptions, CudaDevices, Element, Error, Fill, Pipeline, compress,
    decompress, inspect,
};

const SIDE: usize = 500;
const BOUND: f64 = 1e-3;

/// The numbers of the elements that are replaced by outliers.
#[derive(Clone, Copy, Debug)]
enum Place {
    One,
    /// One element of each tile of 32 x 32.
    OnePerTile,
    OnePercent,
    WholeTile,
}

impl Place {
    fn contains(self, number: usize) -> bool {
        let (y, x) = (number / SIDE, number % SIDE);
        match self {
            Self::One => number == SIDE * SIDE / 2 + 77,
            Self::OnePerTile => y % 32 == 9 && x % 32 == 5,
            Self::OnePercent => random(number + (1 << 30)) < 0.01,
            Self::WholeTile => y / 32 == 3 && x / 32 == 7,
        }
    }

    /// The share of the ratio without outliers that must remain. A verbatim value takes 8 bytes as f32 and 12 as f64.
    fn bar(self) -> f64 {
        match self {
            Self::One | Self::WholeTile => 0.99,
            Self::OnePerTile => 0.97,
            Self::OnePercent => 0.93,
        }
    }
}

/// A random number from 0 to 1.
fn random(number: usize) -> f64 {
    let mut bits = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (bits >> 32) as f64 / 2f64.powi(32)
}

fn smooth(number: usize) -> f64 {
    let (y, x) = (number / SIDE, number % SIDE);
    // The noise takes some steps of the quantizer.
    (y as f64 * 0.02).sin() * (x as f64 * 0.03).cos() + 0.015 * random(number)
}

/// Compresses on the CPU and on the GPU, if there is one. Checks that the bytes are equal and that the bound holds.
fn compressed<T: Element + Into<f64>>(values: &[T], bound: Bound, what: &str) -> Vec<u8> {
    let view = ArrayView::new(values, &[SIDE as u64, SIDE as u64]).unwrap();
    let options = CompressOptions::new(bound)
        .with_fill(Fill::Auto)
        .with_advanced(Advanced::default().with_coder(Coder::Numbers))
        .with_threads(2);
    let stream = compress(&view, &options.clone().with_backend(Backend::Cpu)).unwrap();
    if bound != Bound::Lossless {
        match compress(&view, &options.with_backend(Backend::Cuda(CudaDevices::One(0)))) {
            Ok(by_gpu) => assert!(by_gpu == stream, "{what}: the GPU writes other bytes"),
            Err(Error::Gpu { .. }) if std::env::var_os("SYNCLINE_REQUIRE_CUDA").is_none_or(|v| v != "1") => {}
            Err(error) => panic!("{what}: {error}"),
        }
    }
    let back = decompress(&stream, &Default::default()).unwrap().to_vec::<T>().unwrap();
    for (&value, &back) in values.iter().zip(&back) {
        let (value, back) = (value.into(), back.into());
        assert!((value - back).abs() <= BOUND || value == back, "{what}: {value} became {back}");
    }
    stream
}

fn ratio<T: Element + Into<f64>>(values: &[T], bound: Bound, what: &str) -> f64 {
    let stream = compressed(values, bound, what);
    let report = inspect(&stream).unwrap();
    if bound != Bound::Lossless {
        assert_eq!(report.pipeline, Pipeline::Quantized, "{what}");
    }
    report.ratio()
}

fn check<T: Element + Into<f64>>(outliers: &[f64], places: &[Place], narrow: impl Fn(f64) -> T) {
    let clean: Vec<T> = (0..SIDE * SIDE).map(|i| narrow(smooth(i))).collect();
    let clean_ratio = ratio(&clean, Bound::Abs(BOUND), "clean");
    // An emulated GPU takes a second for each array, so that it has one kind of outliers.
    let few = std::env::var("SYNCLINE_TEST_SIZE").is_ok_and(|size| size == "tiny");
    for &outlier in if few { &outliers[1..2] } else { outliers } {
        for &place in places {
            let value = |i| if place.contains(i) { outlier } else { smooth(i) };
            let values: Vec<T> = (0..SIDE * SIDE).map(|i| narrow(value(i))).collect();
            let what = format!("{} of {outlier} at {place:?}", T::TYPE);
            let ratio = ratio(&values, Bound::Abs(BOUND), &what);
            assert!(ratio >= place.bar() * clean_ratio, "{what}: ratio {ratio}, without outliers {clean_ratio}");
        }
    }
}

const PLACES: [Place; 4] = [Place::One, Place::OnePerTile, Place::OnePercent, Place::WholeTile];

#[test]
fn outliers_of_f32_leave_the_ratio() {
    check(&[1e6, 1e12, 1e20, -9999.0], &PLACES, |x| x as f32);
}

#[test]
fn outliers_of_f64_leave_the_ratio() {
    check(&[1e6, 1e12, 1e20, -9999.0], &PLACES, |x| x);
}

#[test]
fn two_scales_in_one_array() {
    // Noise of both signs that is too large for every step, in a number of rows.
    let large = |i: usize| 9e8 * random(i) - 4e8;
    for (rows, as_lossless) in [(SIDE / 10, false), (SIDE / 2, true)] {
        let values: Vec<f32> =
            (0..SIDE * SIDE).map(|i| if i / SIDE < rows { large(i) } else { smooth(i) } as f32).collect();
        let what = format!("{rows} rows of large values");
        let lossless = ratio(&values, Bound::Lossless, &what);
        let stream = compressed(&values, Bound::Abs(BOUND), &what);
        let report = inspect(&stream).unwrap();
        assert_eq!(report.pipeline == Pipeline::Lossless, as_lossless, "{what}");
        let bar = if as_lossless { 0.99 } else { 1.3 };
        assert!(report.ratio() >= bar * lossless, "{what}: ratio {}, lossless {lossless}", report.ratio());
    }
}

#[test]
fn a_bound_below_the_precision_of_most_values_is_lossless() {
    let values: Vec<f32> = (0..SIDE * SIDE).map(|i| (1000.0 * smooth(i)) as f32).collect();
    let ratio_of = |bound| {
        let view = ArrayView::new(&values, &[SIDE as u64, SIDE as u64]).unwrap();
        inspect(
            &compress(
                &view,
                &CompressOptions::new(bound).with_advanced(Advanced::default().with_coder(Coder::Numbers)),
            )
            .unwrap(),
        )
        .unwrap()
    };
    let (tiny, lossless) = (ratio_of(Bound::Abs(1e-7)), ratio_of(Bound::Lossless));
    assert_eq!(tiny.pipeline, Pipeline::Lossless);
    assert!(tiny.ratio() >= 0.99 * lossless.ratio());
}
