//! The whole codec through its public interface: every type, bound, dimension and index kind.

mod common;

use common::{Real, Rng, check_bound, smooth};
use proptest::prelude::*;
use syncline::{
    Advanced, ArrayView, Bound, CompressOptions, DecompressOptions, Effort, Element, Fill, IndexKind, compress,
    decompress,
};

const INDEX_KINDS: [IndexKind; 2] = [IndexKind::None, IndexKind::Symbol];

fn shapes() -> Vec<Vec<u64>> {
    [
        &[][..],
        &[0],
        &[1],
        &[2],
        &[1023],
        &[1024],
        &[1025],
        &[5000],
        &[0, 7],
        &[1, 1],
        &[3, 5],
        &[31, 33],
        &[97, 131],
        &[1, 64, 64],
        &[7, 11, 13],
        &[8, 8, 8],
        &[17, 23, 9],
        &[40, 1, 50],
        &[2, 3, 5, 7],
        &[3, 9, 17, 10],
        &[1, 1, 1, 1],
    ]
    .iter()
    .map(|s| s.to_vec())
    .collect()
}

fn bounds() -> [Bound; 8] {
    [
        Bound::Lossless,
        Bound::Abs(1e-2),
        Bound::Abs(1e-9),
        Bound::Abs(1e9),
        Bound::Rel(1e-3),
        Bound::Rel(1e-6),
        Bound::Psnr(60.0),
        Bound::PwRel(1e-3),
    ]
}

fn with_specials<T: Real>(values: &[f64], seed: u64) -> Vec<T> {
    let mut rng = Rng(seed);
    let specials =
        [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, 1e-310, -1e-42, 1e38, -3e38, 1e300, -9999.0];
    let pick =
        |rng: &mut Rng, v: f64| if rng.next().is_multiple_of(5) { specials[(rng.next() % 12) as usize] } else { v };
    values.iter().map(|&v| T::from_f64(pick(&mut rng, v))).collect()
}

fn every_shape_and_bound<T: Real>() {
    for shape in shapes() {
        let field = smooth(&shape, 1);
        let plain: Vec<T> = field.iter().map(|&v| T::from_f64(v)).collect();
        let special: Vec<T> = with_specials(&field, 2);
        for bound in bounds() {
            for (values, effort) in [(&plain, Effort::Fast), (&special, Effort::Fast), (&special, Effort::Balanced)] {
                check_bound(values, &shape, &CompressOptions::new(bound).with_effort(effort));
            }
        }
    }
}

#[test]
fn f32_holds_every_bound_on_every_shape() {
    every_shape_and_bound::<f32>();
}

#[test]
fn f64_holds_every_bound_on_every_shape() {
    every_shape_and_bound::<f64>();
}

#[test]
fn values_hold_the_bound_with_every_index() {
    let shape = [19, 70, 45];
    let mut values: Vec<f32> = smooth(&shape, 3).into_iter().map(|v| v as f32).collect();
    values[100..4000].fill(f32::NAN);
    for index in INDEX_KINDS {
        for bound in [Bound::Rel(1e-3), Bound::Rel(1e-6), Bound::PwRel(1e-2), Bound::Lossless] {
            let options = CompressOptions::new(bound)
                .with_advanced(Advanced::default().with_index(index))
                .with_effort(Effort::Fast);
            check_bound(&values, &shape, &options);
        }
    }
}

fn integers<T: Element + PartialEq + std::fmt::Debug>(make: impl Fn(u64, u64) -> T) {
    for shape in shapes() {
        let count = shape.iter().product::<u64>();
        let mut rng = Rng(9);
        for noise in [1, 17, u64::MAX] {
            let values: Vec<T> = (0..count).map(|i| make(i * 3, rng.next() % noise)).collect();
            let view = ArrayView::new(&values, &shape).unwrap();
            for index in INDEX_KINDS {
                let stream =
                    compress(&view, &CompressOptions::default().with_advanced(Advanced::default().with_index(index)))
                        .unwrap();
                assert!(stream.len() as u64 <= syncline::compress_bound(T::TYPE, view.shape()));
                let back = decompress(&stream, &DecompressOptions::default()).unwrap();
                assert!(back.to_vec::<T>().unwrap() == values, "{} {shape:?} noise {noise} {index}", T::TYPE);
            }
        }
    }
}

#[test]
fn every_integer_type_is_lossless() {
    integers::<u8>(|i, n| (i / 100 + n) as u8);
    integers::<u16>(|i, n| (i + n) as u16);
    integers::<u32>(|i, n| (i + n) as u32);
    integers::<u64>(|i, n| i.wrapping_add(n));
    integers::<i8>(|i, n| (i / 100 + n) as i8);
    integers::<i16>(|i, n| (i + n) as i16);
    integers::<i32>(|i, n| (i + n) as i32);
    integers::<i64>(|i, n| i.wrapping_add(n) as i64);
}

#[test]
fn half_floats_are_lossless_bit_for_bit() {
    let bits: Vec<u16> = (0..=u16::MAX).collect();
    let halves: Vec<half::f16> = bits.iter().map(|&b| half::f16::from_bits(b)).collect();
    let brains: Vec<half::bf16> = bits.iter().map(|&b| half::bf16::from_bits(b)).collect();
    let stream = compress(&ArrayView::new(&halves, &[256, 256]).unwrap(), &CompressOptions::default()).unwrap();
    let back = decompress(&stream, &DecompressOptions::default()).unwrap().to_vec::<half::f16>().unwrap();
    assert!(back.iter().map(|h| h.to_bits()).eq(bits.iter().copied()));
    let stream = compress(&ArrayView::new(&brains, &[65536]).unwrap(), &CompressOptions::default()).unwrap();
    let back = decompress(&stream, &DecompressOptions::default()).unwrap().to_vec::<half::bf16>().unwrap();
    assert!(back.iter().map(|h| h.to_bits()).eq(bits.iter().copied()));
}

#[test]
fn thread_counts_give_the_same_bytes() {
    let shape = [40, 200, 300];
    let values: Vec<f32> = smooth(&shape, 4).into_iter().map(|v| v as f32).collect();
    for bound in [Bound::Rel(1e-4), Bound::Psnr(70.0), Bound::PwRel(1e-3), Bound::Lossless] {
        let compress_with = |threads| {
            compress(&ArrayView::new(&values, &shape).unwrap(), &CompressOptions::new(bound).with_threads(threads))
                .unwrap()
        };
        let one = compress_with(1);
        assert!([2, 3, 7].into_iter().all(|threads| compress_with(threads) == one), "{bound:?}");
    }
}

#[test]
fn fill_values_are_kept_and_left_out_of_the_range() {
    let shape = [64, 96];
    let mut values: Vec<f32> = smooth(&shape, 5).into_iter().map(|v| v as f32).collect();
    for (i, value) in values.iter_mut().enumerate() {
        if (i / 96 + i % 96) % 50 < 20 {
            *value = -1e10;
        }
    }
    for (fill, masked) in [(Fill::Auto, true), (Fill::Value(-1e10), true), (Fill::None, false)] {
        let (stream, array) = check_bound(&values, &shape, &CompressOptions::new(Bound::Rel(1e-3)).with_fill(fill));
        let report = syncline::inspect(&stream).unwrap();
        assert_eq!(report.abs_bound < 1.0, masked, "{fill:?}: {}", report.abs_bound);
        if masked {
            let back = array.to_vec::<f32>().unwrap();
            assert!(values.iter().zip(&back).all(|(a, b)| (*a == -1e10) == (*b == -1e10)));
        }
    }
}

/// Fields of few values can miss a PSNR by as much as their bound is tightened, again and again.
#[test]
fn psnr_of_few_values_reaches_the_target() {
    let mut fields = vec![(0.5, [vec![1.0; 63], vec![0.0]].concat())];
    for i in 0..200 {
        let values = [0.1 + f64::from(i % 17) * 0.37, 1.0 - f64::from(i % 13) * 0.071, f64::from(i % 7)];
        fields.push((5.0 + f64::from(i % 16), (0..64).map(|k| values[k * (i as usize + 3) / 5 % 3]).collect()));
    }
    for (target, field) in fields {
        let view = ArrayView::new(&field, &[field.len() as u64]).unwrap();
        let stream = compress(&view, &CompressOptions::new(Bound::Psnr(target))).unwrap();
        let back = decompress(&stream, &DecompressOptions::default()).unwrap().to_vec::<f64>().unwrap();
        let mse = field.iter().zip(&back).map(|(x, y)| (x - y).powi(2)).sum::<f64>() / field.len() as f64;
        let extent = field.iter().copied().fold(f64::MIN, f64::max) - field.iter().copied().fold(f64::MAX, f64::min);
        assert!(mse == 0.0 || 10.0 * (extent * extent / mse).log10() >= target, "{target} dB of {field:?}");
    }
}

/// Bounds that only just have a step, or none.
#[test]
fn the_finest_pointwise_relative_bounds_come_back() {
    let field: Vec<f64> =
        (0..999).map(|i| f64::from(i).exp() * if i % 3 == 0 { -1.0 } else { 1.0 }).filter(|x| x.is_finite()).collect();
    for exponent in 0..64 {
        let ratio = 1e-16 * 1.5f64.powi(exponent);
        let view = ArrayView::new(&field, &[field.len() as u64]).unwrap();
        let stream = compress(&view, &CompressOptions::new(Bound::PwRel(ratio))).unwrap();
        let back = decompress(&stream, &DecompressOptions::default()).unwrap().to_vec::<f64>().unwrap();
        assert!(field.iter().zip(&back).all(|(x, y)| (x - y).abs() <= ratio * x.abs()), "{ratio}");
    }
}

#[test]
fn psnr_is_reached() {
    let shape = [50, 60, 70];
    let values: Vec<f32> = smooth(&shape, 6).into_iter().map(|v| v as f32).collect();
    for target in [30.0, 50.0, 80.0, 100.0] {
        let (_, array) = check_bound(&values, &shape, &CompressOptions::new(Bound::Psnr(target)));
        let back = array.to_vec::<f32>().unwrap();
        let pairs = || values.iter().zip(&back);
        let mse = pairs().map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>() / values.len() as f64;
        let low = values.iter().copied().fold(f32::INFINITY, f32::min);
        let high = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let psnr = 20.0 * (f64::from(high - low) / mse.sqrt()).log10();
        assert!(psnr >= target, "asked for {target} dB, got {psnr}");
    }
}

#[test]
fn bad_requests_are_errors() {
    let values = [1.0f32; 10];
    let view = ArrayView::new(&values, &[10]).unwrap();
    for bound in [Bound::Abs(-1.0), Bound::Abs(f64::NAN), Bound::Rel(f64::INFINITY), Bound::PwRel(-2.0)] {
        assert!(compress(&view, &CompressOptions::new(bound)).is_err(), "{bound:?}");
    }
    let integers = [1u8, 2, 3];
    let view = ArrayView::new(&integers, &[3]).unwrap();
    assert!(compress(&view, &CompressOptions::new(Bound::PwRel(0.1))).is_err());
    assert!(ArrayView::new(&integers, &[4]).is_err());
    assert!(ArrayView::new(&integers, &[1, 1, 1, 1, 3]).is_ok(), "up to 32 axes");
    assert!(ArrayView::new(&integers, &[[1; 32].as_slice(), &[3]].concat()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_bits_of_f32_hold_the_bound(
        bits in prop::collection::vec(any::<u32>(), 0..3000),
        rows in 1..9u64,
        bound in prop::sample::select(bounds().to_vec()),
        effort in prop::sample::select(Effort::ALL.to_vec()),
    ) {
        let values: Vec<f32> = bits.iter().map(|&b| f32::from_bits(b)).collect();
        let columns = values.len() as u64 / rows;
        let options = CompressOptions::new(bound).with_effort(effort);
        check_bound(&values[..(rows * columns) as usize], &[rows, columns], &options);
    }

    #[test]
    fn any_bits_of_f64_hold_the_bound(
        bits in prop::collection::vec(any::<u64>(), 0..2000),
        planes in 1..9u64,
        bound in prop::sample::select(bounds().to_vec()),
        effort in prop::sample::select(Effort::ALL.to_vec()),
    ) {
        let values: Vec<f64> = bits.iter().map(|&b| f64::from_bits(b)).collect();
        let columns = values.len() as u64 / planes / 3;
        let options = CompressOptions::new(bound).with_effort(effort);
        check_bound(&values[..(3 * planes * columns) as usize], &[planes, 3, columns], &options);
    }

    #[test]
    fn regions_are_cut_from_the_whole(
        extents in prop::collection::vec(1..40u64, 1..=4),
        cuts in prop::collection::vec((0.0..1.0f64, 0.0..1.0f64), 4),
        index in prop::sample::select(INDEX_KINDS.to_vec()),
    ) {
        let values: Vec<f32> = smooth(&extents, 7).into_iter().map(|v| v as f32).collect();
        let options = CompressOptions::new(Bound::Rel(1e-3)).with_effort(Effort::Fast);
        let options = options.with_advanced(Advanced::default().with_index(index));
        let (stream, whole) = check_bound(&values, &extents, &options);
        let whole = whole.to_vec::<f32>().unwrap();
        let region: Vec<_> = extents.iter().zip(&cuts).map(|(&e, &(a, b))| {
            let (a, b) = ((a * e as f64) as u64, (b * (e + 1) as f64) as u64);
            a.min(b)..a.max(b)
        }).collect();
        let part = syncline::decompress_region(&stream, &region, &DecompressOptions::default()).unwrap();
        let mut expected = Vec::new();
        for (i, value) in whole.iter().enumerate() {
            let mut rest = i as u64;
            let inside = extents.iter().zip(&region).rev().all(|(&e, r)| {
                let at = rest % e;
                rest /= e;
                r.contains(&at)
            });
            if inside {
                expected.push(*value);
            }
        }
        prop_assert_eq!(part.to_vec::<f32>().unwrap(), expected);
    }
}
