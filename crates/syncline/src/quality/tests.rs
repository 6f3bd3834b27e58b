use half::f16;
use proptest::prelude::*;
use syncline_core::array::Element;

use super::*;

fn quality<T: Element>(x: &[T], y: &[T], extents: &[u64], fills: &[u64], tolerance: Tolerance) -> Quality {
    let view = |elements| ArrayView::new(elements, extents).unwrap();
    compare(&view(x), &view(y), fills, tolerance).unwrap()
}

fn flat<T: Element>(x: &[T], y: &[T], tolerance: Tolerance) -> Quality {
    quality(x, y, &[x.len() as u64], &[], tolerance)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
}

#[test]
fn known_figures() {
    let q = flat(&[1.0f32, 2.0, 4.0, -8.0], &[1.5f32, 2.0, 4.0, -8.25], Tolerance::Absolute(0.5));
    assert!(q.holds());
    assert_eq!((q.elements, q.compared, q.special, q.mismatches, q.differing, q.violations), (4, 4, 0, 0, 2, 0));
    assert_eq!(q.range, Some((-8.0, 4.0)));
    assert_eq!(q.max_absolute, Some(Peak { value: 0.5, element: 0 }));
    assert_eq!(q.max_relative, Some(Peak { value: 0.5, element: 0 }));
    assert_eq!(q.bound_ratio(), Some(1.0));
    let rmse = (0.3125f64 / 4.0).sqrt();
    assert!(close(q.rmse.unwrap(), rmse));
    assert!(close(q.nrmse.unwrap(), rmse / 12.0));
    assert!(close(q.psnr.unwrap(), 20.0 * (12.0 / rmse).log10()));
    // numpy.corrcoef of the same pairs.
    assert!((q.correlation.unwrap() - 0.9987827196987125).abs() < 1e-12, "{:?}", q.correlation);
    assert_eq!(q.ssim, None);
}

#[test]
fn the_bound_is_judged_exactly() {
    let bound = 0.1f64;
    // 1 - 0.9 rounds to just below 0.1 and 1.1 - 1 to just above.
    assert!(flat(&[1.0], &[0.9f64], Tolerance::Absolute(bound)).holds());
    assert!(!flat(&[1.0], &[1.1f64], Tolerance::Absolute(bound)).holds());
    // The true difference is 1 + 1e-30, which f64 rounds to 1.
    assert!(!flat(&[1.0f32], &[-1e-30f32], Tolerance::Absolute(1.0)).holds());
    assert!(flat(&[1.0f32], &[1e-30f32], Tolerance::Absolute(1.0)).holds());
    assert!(!flat(&[u64::MAX], &[1u64], Tolerance::Absolute((u64::MAX - 2) as f64 - 2048.0)).holds());
    // Integers whose f64 values coincide still differ.
    let q = flat(&[u64::MAX], &[u64::MAX - 1], Tolerance::Absolute(0.5));
    assert!(!q.holds());
    assert_eq!(q.max_absolute.unwrap().value, 1.0);
    assert!(!flat(&[(1i64 << 53) + 1], &[0i64], Tolerance::Absolute((1u64 << 53) as f64)).holds());
}

#[test]
fn pointwise_relative_bound() {
    let bound = Tolerance::PointwiseRelative(0.25);
    assert!(flat(&[8.0f32, -4.0, 0.0], &[6.0f32, -5.0, 0.0], bound).holds());
    assert_eq!(flat(&[8.0f32, -4.0], &[6.0f32, -4.5], bound).bound_ratio(), Some(1.0));
    assert!(!flat(&[8.0f32], &[5.9f32], bound).holds());
    assert!(!flat(&[0.0f32], &[1e-30f32], bound).holds(), "zeros are exact");
}

#[test]
fn pointwise_relative_bound_of_the_smallest_numbers() {
    let units = |count: u64| f64::from_bits(count);
    let bound = Tolerance::PointwiseRelative(0.5);
    // Half of three units is one and a half.
    assert!(flat(&[units(3)], &[units(2)], bound).holds());
    assert!(!flat(&[units(3)], &[units(1)], bound).holds());
    assert!(flat(&[units(4)], &[units(2)], bound).holds());
}

#[test]
fn figures_are_the_same_at_any_scale() {
    let figures = |scale: f64| {
        let x = [1.0, 2.0, 4.0, -8.0].map(|x| x * scale);
        let y = [1.5, 2.0, 4.0, -8.25].map(|y| y * scale);
        let q = flat(&x, &y, Tolerance::Any);
        (q.psnr, q.nrmse, q.correlation, q.rmse.map(|rmse| rmse / scale))
    };
    // Powers of two, so that nothing is rounded.
    for exponent in [-1000, -570, 560, 1019] {
        assert_eq!(figures(2f64.powi(exponent)), figures(1.0), "{exponent}");
    }
    // A range beyond all numbers.
    let q = flat(&[-1.5e308, 0.0, 1.5e308], &[-1.5e308, 3e307, 1.5e308], Tolerance::Any);
    assert!(close(q.psnr.unwrap(), 20.0 * (10.0 * 3f64.sqrt()).log10()), "{:?}", q.psnr);
}

#[test]
fn special_elements_must_come_back_bit_for_bit() {
    let nan = |payload: u32| f32::from_bits(0x7FC0_0000 | payload);
    let fill = -1e10f32;
    let x = [nan(5), f32::INFINITY, fill, -0.0, 1.0];
    let check = |y: [f32; 5]| quality(&x, &y, &[5], &[u64::from(fill.to_bits())], Tolerance::Absolute(2.0));
    let same = check(x);
    assert!(same.holds());
    assert_eq!((same.special, same.compared, same.differing), (3, 2, 0));
    assert_eq!(same.range, Some((0.0, 1.0)));
    assert_eq!(same.psnr, Some(f64::INFINITY));
    for (element, value) in
        [(0, nan(6)), (0, 0.0), (1, f32::NEG_INFINITY), (2, -0.99e10), (3, 0.0), (4, f32::NAN), (4, f32::INFINITY)]
    {
        let mut y = x;
        y[element] = value;
        let q = check(y);
        assert!(!q.holds(), "{element} {value}");
        assert_eq!((q.mismatches, q.differing, q.violations), (1, 1, 0), "{element} {value}");
    }
}

#[test]
fn lossless_means_equal_bits() {
    assert!(flat(&[f64::NAN, -0.0], &[f64::NAN, -0.0], Tolerance::Exact).holds());
    assert!(!flat(&[0.0], &[-0.0f64], Tolerance::Exact).holds());
    assert!(!flat(&[7u8], &[8u8], Tolerance::Exact).holds());
    assert!(flat(&[7u8], &[8u8], Tolerance::Any).holds());
}

#[test]
fn every_element_type() {
    fn one<T: Element>(low: T, high: T, error: f64) {
        let q = flat(&[low, high], &[high, high], Tolerance::Any);
        assert_eq!(q.max_absolute, Some(Peak { value: error, element: 0 }), "{}", T::TYPE);
        assert_eq!((q.compared, q.differing), (2, 1));
    }
    one(1.5f32, 2.0, 0.5);
    one(1.5f64, 2.0, 0.5);
    one(f16::from_f32(1.5), f16::from_f32(2.0), 0.5);
    one(half::bf16::from_f32(1.5), half::bf16::from_f32(2.0), 0.5);
    one(0u8, 255, 255.0);
    one(1u16, 3, 2.0);
    one(1u32, u32::MAX, 4294967294.0);
    one(0u64, u64::MAX, 18446744073709551615.0);
    one(i8::MIN, i8::MAX, 255.0);
    one(i16::MIN, i16::MAX, 65535.0);
    one(i32::MIN, i32::MAX, 4294967295.0);
    one(i64::MIN, i64::MAX, 18446744073709551615.0);
}

#[test]
fn empty_constant_and_all_special() {
    let q = quality::<f32>(&[], &[], &[0, 9], &[], Tolerance::Absolute(1.0));
    assert!(q.holds());
    assert_eq!((q.range, q.rmse, q.psnr, q.correlation, q.ssim), (None, None, None, None, None));
    let q = flat(&[3.0f32; 4], &[3.5f32; 4], Tolerance::Absolute(1.0));
    assert_eq!((q.psnr, q.nrmse, q.correlation), (None, None, None));
    assert_eq!(q.rmse, Some(0.5));
    let q = flat(&[f64::NAN; 3], &[f64::NAN; 3], Tolerance::Absolute(1.0));
    assert!(q.holds());
    assert_eq!((q.compared, q.special, q.rmse), (0, 3, None));
}

#[test]
fn wrong_use_is_an_error() {
    let criteria = Criteria {
        element_type: ElementType::F32,
        shape: Shape::new(&[2]).unwrap(),
        fills: vec![],
        range: None,
        tolerance: Tolerance::Any,
    };
    assert!(Comparison::new(criteria.clone()).push(&[0; 3], &[0; 3]).is_err());
    assert!(Comparison::new(criteria.clone()).push(&[0; 4], &[0; 8]).is_err());
    assert!(Comparison::new(criteria.clone()).push(&[0; 12], &[0; 12]).is_err());
    assert!(Comparison::new(criteria).finish().is_err());
    assert!(RangeScan::new(ElementType::U16, &[]).push(&[0]).is_err());
    let bytes = [0u8; 4];
    let view = |extents: &[u64]| ArrayView::new(&bytes, extents).unwrap();
    assert!(compare(&view(&[4]), &view(&[2, 2]), &[], Tolerance::Any).is_err());
}

/// The definition, window by window.
fn naive_ssim(x: &[f64], y: &[f64], slices: usize, height: usize, width: usize, excluded: &[bool]) -> Option<f64> {
    let kept = || x.iter().zip(excluded).filter(|(_, e)| !**e).map(|(x, _)| *x);
    let range = kept().fold(f64::MIN, f64::max) - kept().fold(f64::MAX, f64::min);
    let (c1, c2) = ((0.01 * range).powi(2), (0.03 * range).powi(2));
    let (mut sum, mut count) = (0.0, 0);
    for slice in 0..slices {
        for top in 0..(height + 1).saturating_sub(7) {
            for left in 0..(width + 1).saturating_sub(7) {
                let window: Vec<usize> =
                    (0..49).map(|i| (slice * height + top + i / 7) * width + left + i % 7).collect();
                if window.iter().any(|&i| excluded[i]) {
                    continue;
                }
                let mean = |a: &[f64]| window.iter().map(|&i| a[i]).sum::<f64>() / 49.0;
                let (mx, my) = (mean(x), mean(y));
                let co = |a: &[f64], ma: f64, b: &[f64], mb: f64| {
                    window.iter().map(|&i| (a[i] - ma) * (b[i] - mb)).sum::<f64>() / 48.0
                };
                sum += (2.0 * mx * my + c1) * (2.0 * co(x, mx, y, my) + c2)
                    / ((mx * mx + my * my + c1) * (co(x, mx, x, mx) + co(y, my, y, my) + c2));
                count += 1;
            }
        }
    }
    (count > 0).then(|| sum / f64::from(count))
}

#[test]
fn ssim_of_equal_fields_is_one_and_tiny_slices_have_none() {
    let field: Vec<f32> = (0..100).map(|i| (i as f32 * 0.7).sin() + 300.0).collect();
    let q = quality(&field, &field, &[1, 10, 10, 1], &[], Tolerance::Any);
    assert!((q.ssim.unwrap() - 1.0).abs() < 1e-9);
    assert_eq!(quality(&field, &field, &[5, 5, 4], &[], Tolerance::Any).ssim, None);
    assert_eq!(quality(&field, &field, &[100], &[], Tolerance::Any).ssim, None);
}

#[test]
fn bands_of_a_large_slice_join() {
    let (height, width) = (2100usize, 700usize);
    let x: Vec<f64> =
        (0..height * width).map(|i| ((i % width) as f64 * 0.05).sin() + (i / width) as f64 * 0.01).collect();
    let y: Vec<f64> = x.iter().enumerate().map(|(i, x)| x + ((i * 7919 % 13) as f64 - 6.0) * 0.02).collect();
    let q = quality(&x, &y, &[height as u64, width as u64], &[], Tolerance::Any);
    let expected = naive_ssim(&x, &y, 1, height, width, &vec![false; x.len()]).unwrap();
    assert!((q.ssim.unwrap() - expected).abs() < 1e-9, "{:?} {expected}", q.ssim);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn ssim_is_its_definition(
        slices in 1usize..3, height in 2usize..12, width in 2usize..12,
        noise in prop::collection::vec(-1.0f64..1.0, 300), hole in 0usize..600,
    ) {
        let n = slices * height * width;
        let x: Vec<f64> = (0..n).map(|i| 50.0 + noise[i % 300]).collect();
        let mut y: Vec<f64> = (0..n).map(|i| x[i] + 0.1 * noise[(i * 31 + 7) % 300]).collect();
        let mut excluded = vec![false; n];
        let mut x_fill = x.clone();
        if hole < n {
            excluded[hole] = true;
            x_fill[hole] = f64::NAN;
            y[hole] = f64::NAN;
        }
        let extents = [slices as u64, height as u64, width as u64];
        let q = quality(&x_fill, &y, &extents, &[], Tolerance::Any);
        let expected = naive_ssim(&x, &y, slices, height, width, &excluded);
        prop_assert_eq!(q.ssim.is_some(), expected.is_some());
        if let (Some(a), Some(b)) = (q.ssim, expected) {
            prop_assert!((a - b).abs() < 1e-9, "{} {}", a, b);
        }
    }

    #[test]
    fn pieces_give_what_the_whole_gives(cuts in prop::collection::vec(0usize..3000, 0..5), seed in 1u64..1000) {
        let (height, width) = (60usize, 50usize);
        let x: Vec<f32> = (0..height * width).map(|i| ((i as u64 * seed) % 1009) as f32).collect();
        let y: Vec<f32> = x.iter().map(|x| x + 0.25).collect();
        let whole = quality(&x, &y, &[60, 50], &[], Tolerance::Absolute(0.25));
        let mut comparison = Comparison::new(Criteria {
            element_type: ElementType::F32,
            shape: Shape::new(&[60, 50]).unwrap(),
            fills: vec![],
            range: whole.range,
            tolerance: Tolerance::Absolute(0.25),
        });
        let mut cuts = cuts;
        cuts.extend([0, x.len()]);
        cuts.sort_unstable();
        for cut in cuts.windows(2) {
            let bytes = |v: &[f32]| v[cut[0]..cut[1]].iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
            comparison.push(&bytes(&x), &bytes(&y)).unwrap();
        }
        let pieces = comparison.finish().unwrap();
        prop_assert_eq!(pieces.max_absolute, whole.max_absolute);
        prop_assert!(close(pieces.rmse.unwrap(), whole.rmse.unwrap()));
        prop_assert!((pieces.correlation.unwrap() - whole.correlation.unwrap()).abs() < 1e-9);
        prop_assert!((pieces.ssim.unwrap() - whole.ssim.unwrap()).abs() < 1e-12);
        prop_assert!(pieces.holds() && whole.holds());
    }
}

#[test]
fn any_number_of_threads_gives_the_same() {
    let x: Vec<f32> = (0..300 * 400).map(|i| (i as f32 * 0.37).sin()).collect();
    let y: Vec<f32> = x.iter().map(|x| x + 1e-3 * (x * 91.0).cos()).collect();
    let view = |elements| ArrayView::new(elements, &[300, 400]).unwrap();
    let tolerance = Tolerance::Absolute(1e-3);
    let expected = compare(&view(&x), &view(&y), &[], tolerance).unwrap();
    for threads in [0, 1, 2, 4] {
        let mut scan = RangeScan::new(ElementType::F32, &[]).with_threads(threads).unwrap();
        scan.push(view(&x).bytes()).unwrap();
        let criteria = Criteria {
            element_type: ElementType::F32,
            shape: view(&x).shape(),
            fills: Vec::new(),
            range: scan.range(),
            tolerance,
        };
        let mut comparison = Comparison::new(criteria).with_threads(threads).unwrap();
        if threads > 0 {
            assert_eq!(comparison.pool.threads(), threads);
        }
        comparison.push(view(&x).bytes(), view(&y).bytes()).unwrap();
        assert_eq!(comparison.finish().unwrap(), expected, "{threads} threads");
    }
}
