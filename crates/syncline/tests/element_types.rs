//! Error bounds of integers and of floating-point types of 16 bits, against a simple oracle.

mod common;

use common::{Rng, repair_checksums};
use proptest::prelude::*;
use syncline::{
    ArrayView, Bound, CompressOptions, DecompressOptions, Effort, ElementType, Fill, Shape, Writer, compress,
    decompress, decompress_region, inspect,
};

const TYPES: [ElementType; 10] = [
    ElementType::F16,
    ElementType::Bf16,
    ElementType::U8,
    ElementType::I8,
    ElementType::U16,
    ElementType::I16,
    ElementType::U32,
    ElementType::I32,
    ElementType::U64,
    ElementType::I64,
];

/// The efforts that stand for tiles and for blocks.
const EFFORTS: [Effort; 2] = [Effort::Fast, Effort::Balanced];

/// An element as an exact number, if it is finite.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Number {
    Whole(i128),
    Real(f64),
}

fn number(element: ElementType, bits: u64) -> Option<Number> {
    if element.is_float() {
        let value = element.number_of_bits(bits);
        return value.is_finite().then_some(Number::Real(value));
    }
    let shift = 64 - 8 * element.size() as u32;
    Some(Number::Whole(match element.is_signed_integer() {
        true => i128::from((bits << shift) as i64 >> shift),
        false => i128::from(bits),
    }))
}

fn elements(element: ElementType, bytes: &[u8]) -> Vec<u64> {
    let bits = |bytes: &[u8]| {
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(all)
    };
    bytes.chunks_exact(element.size()).map(bits).collect()
}

fn bytes_of(element: ElementType, bits: &[u64]) -> Vec<u8> {
    bits.iter().flat_map(|bits| bits.to_le_bytes()[..element.size()].to_vec()).collect()
}

/// Checks that an array is restored within a bound, and in its range if that was known: every element, by exact
/// arithmetic. `fills` are kept.
fn check(
    element: ElementType,
    (before, after): (&[u64], &[u64]),
    bound: Bound,
    fills: &[u64],
    knows_range: bool,
) -> Result<(), String> {
    let ordinary = |bits: &u64| number(element, *bits).filter(|_| !fills.contains(bits));
    let mut range: Option<(Number, Number)> = None;
    for x in before.iter().filter_map(ordinary) {
        let (low, high) = range.unwrap_or((x, x));
        range = Some((if x < low { x } else { low }, if x > high { x } else { high }));
    }
    for (&a, &b) in before.iter().zip(after) {
        let minus_zero = element.is_float() && element.number_of_bits(a) == 0.0 && a != 0;
        let (Some(x), false) = (ordinary(&a), minus_zero) else {
            if a != b {
                return Err(format!("{a:x} became {b:x}"));
            }
            continue;
        };
        let y = number(element, b).ok_or_else(|| format!("{a:x} became {b:x}"))?;
        let (low, high) = range.unwrap_or((x, x));
        if knows_range && (y < low || y > high) || fills.contains(&b) {
            return Err(format!("{x:?} became {y:?}, which is outside of {low:?} to {high:?}, or fill"));
        }
        let holds = match (x, y, low, high) {
            (Number::Whole(x), Number::Whole(y), Number::Whole(low), Number::Whole(high)) => {
                let error = x.abs_diff(y);
                match bound {
                    Bound::Abs(most) => error as f64 <= most,
                    Bound::Rel(share) => is_within_share(error, share, high.abs_diff(low)),
                    _ => error == 0,
                }
            }
            (Number::Real(x), Number::Real(y), Number::Real(low), Number::Real(high)) => match bound {
                // Differences of such short numbers are exact.
                Bound::Abs(most) => (x - y).abs() <= most,
                Bound::Rel(share) => (x - y).abs() <= share * (high - low),
                Bound::PwRel(share) => (x - y).abs() <= share * x.abs(),
                _ => x == y,
            },
            _ => false,
        };
        if !holds {
            return Err(format!("{element}: {x:?} became {y:?} with {bound:?}"));
        }
    }
    Ok(())
}

/// Returns whether `error <= share * extent`, exactly.
fn is_within_share(error: u128, share: f64, extent: u128) -> bool {
    let bits = share.to_bits();
    let (mantissa, exponent) = (u128::from(bits & ((1 << 52) - 1) | 1 << 52), (bits >> 52) as i32 - 1075);
    let product = mantissa * extent;
    if exponent >= 0 || exponent <= -128 { error == 0 } else { error <= product >> -exponent }
}

/// Returns elements of a kind: smooth, random bits, extremes of the type, few values, and so on.
fn array(element: ElementType, kind: u32, count: usize, seed: u64) -> Vec<u64> {
    let mut rng = Rng(seed * 7919 + 13);
    let bits = 8 * element.size() as u32;
    let mask = u64::MAX >> (64 - bits);
    let of = |value: f64| element.bits_of_number(value);
    let wave = |i: usize, scale: f64| {
        let value = scale * ((i as f64 * 0.05).sin() + (i as f64 * 0.0031).cos() * 2.0);
        of(if element.is_integer() { value.abs().floor() } else { value }).unwrap_or(0)
    };
    let one = |i: usize, rng: &mut Rng| match kind {
        0 => wave(i, 30.0),
        1 => rng.next() & mask,
        2 => [0, mask, mask >> 1, (mask >> 1) + 1, 1][(rng.next() % 5) as usize],
        3 => wave(i, 12.0) + u64::from(i.is_multiple_of(97)),
        4 => 7,
        5 => [3, 11][(rng.next() % 2) as usize],
        // Subnormals, ties.
        6 => rng.next() % 2048,
        // Integers of 64 bits that are close to each other and far from 0.
        7 => (mask / 3).wrapping_add(rng.next() % 100) & mask,
        8 => (wave(i, 1.0) | ((rng.next() % 4) << (bits - 2))) & mask,
        _ => (rng.next() % 256 * (rng.next() % 256)) & mask,
    };
    (0..count).map(|i| one(i, &mut rng) & mask).collect()
}

fn options(bound: Bound) -> CompressOptions {
    CompressOptions::new(bound).with_threads(1).with_fill(Fill::None)
}

fn check_array(element: ElementType, bits: &[u64], extents: &[u64], options: &CompressOptions) -> Vec<u8> {
    let bytes = bytes_of(element, bits);
    let view = ArrayView::from_bytes(&bytes, element, Shape::new(extents).unwrap()).unwrap();
    let stream = compress(&view, options).unwrap();
    let back = decompress(&stream, &DecompressOptions::default().with_threads(1)).unwrap();
    let fills: Vec<u64> = options.fill().values().iter().filter_map(|&fill| element.bits_of_number(fill)).collect();
    check(element, (bits, &elements(element, back.bytes())), options.bound(), &fills, true)
        .unwrap_or_else(|error| panic!("{error}, {extents:?}"));
    stream
}

fn bounds(element: ElementType) -> Vec<Bound> {
    let mut bounds = vec![Bound::Rel(1e-2), Bound::Rel(1e-3), Bound::Rel(1e-4), Bound::Abs(1.0), Bound::Abs(2.9)];
    match element.is_integer() {
        true => bounds.extend([Bound::Abs(0.0), Bound::Abs(0.5), Bound::Abs(17.0), Bound::Abs(1e9)]),
        false => bounds.extend([Bound::Abs(1e-3), Bound::Abs(0.07), Bound::PwRel(0.01), Bound::PwRel(0.1)]),
    }
    bounds
}

#[test]
fn every_type_holds_every_bound_for_every_kind_of_array() {
    let extents: [&[u64]; 3] = [&[1500], &[37, 41], &[11, 12, 13]];
    for element in TYPES {
        for (kind, extents) in (0..10).zip(extents.into_iter().cycle()) {
            let bits = array(element, kind, extents.iter().product::<u64>() as usize, kind.into());
            for bound in bounds(element) {
                for effort in EFFORTS {
                    check_array(element, &bits, extents, &options(bound).with_effort(effort));
                }
                for options in [options(bound).with_rewritable(true), options(bound).with_effort(Effort::Fast)] {
                    check_array(element, &bits, extents, &options);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn random_arrays_are_within_their_bounds(
        element in prop::sample::select(TYPES.to_vec()), kind in 0u32..10, seed in any::<u32>(),
        extents in prop_oneof![
            prop::collection::vec(1u64..3000, 1..=1), prop::collection::vec(1u64..60, 2..=2),
            prop::collection::vec(1u64..20, 3..=4),
        ],
        exponent in -4.0f64..4.5, relative in any::<bool>(), effort in prop::sample::select(EFFORTS.to_vec()),
        fill in prop::sample::select(vec![vec![], vec![7.0], vec![0.0, 3.0], vec![-1.0, 255.0]]),
        rewritable in any::<bool>(),
    ) {
        let bits = array(element, kind, extents.iter().product::<u64>() as usize, seed.into());
        let size = 10f64.powf(exponent);
        let bound = if relative { Bound::Rel((size / 1e4).min(0.9)) } else { Bound::Abs(size) };
        let options = options(bound).with_effort(effort).with_rewritable(rewritable);
        check_array(element, &bits, &extents, &options.with_fill(Fill::of(&fill).unwrap()));
    }
}

#[test]
fn bounds_that_allow_errors_make_streams_shorter() {
    for element in TYPES {
        let bits = array(element, 0, 40 * 1000, 3);
        let lossless = check_array(element, &bits, &[40, 1000], &options(Bound::Lossless)).len();
        let lossy = check_array(element, &bits, &[40, 1000], &options(Bound::Rel(0.03))).len();
        assert!(lossy * 10 < lossless * 9, "{element}: {lossy} of {lossless} bytes");
    }
}

#[test]
fn counts_without_their_fraction_are_the_bound_of_integers() {
    let bits = array(ElementType::U16, 0, 5000, 1);
    for (bound, holds) in [(0.0, 0.0), (0.99, 0.0), (1.0, 1.0), (3.7, 3.0), (1e300, 65_535.0)] {
        let stream = check_array(ElementType::U16, &bits, &[5000], &options(Bound::Abs(bound)));
        let header = inspect(&stream).unwrap();
        assert_eq!((header.bound, header.abs_bound), (Bound::Abs(bound), holds));
    }
}

#[test]
fn a_psnr_is_reached_by_what_is_stored() {
    for element in TYPES {
        let bits = array(element, 0, 8000, 9);
        for target in [25.0, 40.0, 55.0] {
            let bytes = bytes_of(element, &bits);
            let view = ArrayView::from_bytes(&bytes, element, Shape::new(&[80, 100]).unwrap()).unwrap();
            let stream = compress(&view, &options(Bound::Psnr(target))).unwrap();
            let back = decompress(&stream, &DecompressOptions::default()).unwrap();
            let back = back.view();
            let quality = syncline::quality::compare(&view, &back, &[], syncline::quality::Tolerance::Any).unwrap();
            assert!(quality.psnr.unwrap() >= target, "{element}: {:?} for {target}", quality.psnr);
        }
    }
}

#[test]
fn rewritten_arrays_do_not_change_again() {
    for element in TYPES {
        for (kind, effort) in [0, 1, 3, 9].into_iter().flat_map(|kind| EFFORTS.map(|effort| (kind, effort))) {
            let bits = array(element, kind, 37 * 41, 5);
            let options = options(Bound::Abs(2.0)).with_rewritable(true);
            let options = options.with_effort(effort);
            let shape = Shape::new(&[37, 41]).unwrap();
            let rewritten = |bytes: &[u8]| {
                let view = ArrayView::from_bytes(bytes, element, shape).unwrap();
                decompress(&compress(&view, &options).unwrap(), &DecompressOptions::default()).unwrap().bytes().to_vec()
            };
            let once = rewritten(&bytes_of(element, &bits));
            assert_eq!(rewritten(&once), once, "{element}, {kind}");
        }
    }
}

#[test]
fn regions_are_parts_of_the_whole() {
    for element in TYPES {
        let bits = array(element, 3, 30 * 40 * 50, 2);
        for effort in EFFORTS {
            let options = options(Bound::Rel(0.01)).with_effort(effort);
            let stream = check_array(element, &bits, &[30, 40, 50], &options);
            let whole = decompress(&stream, &DecompressOptions::default()).unwrap();
            let part = decompress_region(&stream, &[7..19, 3..33, 11..12], &DecompressOptions::default()).unwrap();
            let whole = elements(element, whole.bytes());
            let expected: Vec<u64> =
                (7..19).flat_map(|z| (3..33).map(move |y| (z * 40 + y) * 50 + 11)).map(|i| whole[i]).collect();
            assert_eq!(elements(element, part.bytes()), expected, "{element}");
        }
    }
}

#[test]
fn a_writer_holds_the_bound_without_knowing_the_array() {
    for element in TYPES {
        for kind in [0, 1, 2, 6, 9] {
            let bits = array(element, kind, 6000, 4);
            let (bytes, shape) = (bytes_of(element, &bits), Shape::new(&[6000]).unwrap());
            let options = CompressOptions::new(Bound::Abs(2.0)).with_threads(1);
            let mut writer = Writer::new(Vec::new(), element, shape, &options).unwrap();
            bytes.chunks(777).for_each(|piece| writer.push(piece).unwrap());
            let stated = {
                let mut writer = Writer::with_range(Vec::new(), element, shape, &options, 1.0, 9.0).unwrap();
                writer.push(&bytes).unwrap();
                writer.finish().unwrap()
            };
            for stream in [writer.finish().unwrap(), stated] {
                let back = decompress(&stream, &DecompressOptions::default()).unwrap();
                check(element, (&bits, &elements(element, back.bytes())), Bound::Abs(2.0), &[], false).unwrap();
            }
        }
    }
}

#[test]
fn wide_integers_that_are_far_from_each_other_are_exact() {
    for element in [ElementType::U64, ElementType::I64] {
        let mut bits = array(element, 7, 4000, 1);
        let options = options(Bound::Abs(5.0));
        let near = check_array(element, &bits, &[4000], &options);
        assert_eq!(inspect(&near).unwrap().abs_bound, 5.0);
        bits[77] = bits[77].wrapping_add(1 << 60);
        let far = check_array(element, &bits, &[4000], &options);
        assert_eq!(inspect(&far).unwrap().abs_bound, 0.0);
        // As a fill value, it may be as far away as it likes.
        bits[77] = 1 << 63;
        let fill = if element == ElementType::U64 { 2f64.powi(63) } else { -(2f64.powi(63)) };
        let filled = check_array(element, &bits, &[4000], &options.with_fill(Fill::Value(fill)));
        assert_eq!(inspect(&filled).unwrap().abs_bound, 5.0);
    }
}

#[test]
fn statistics_of_another_array_cost_bytes_but_not_the_bound() {
    for element in TYPES {
        let (known, other) = (array(element, 0, 3000, 1), array(element, 1, 3000, 2));
        let view_of = |bytes: &[u8]| -> syncline::ArrayStats {
            let view = ArrayView::from_bytes(bytes, element, Shape::new(&[3000]).unwrap()).unwrap();
            syncline::ArrayStats::of(&view, Bound::Abs(2.0), Fill::None).unwrap()
        };
        let stats = view_of(&bytes_of(element, &known));
        let options = CompressOptions::new(Bound::Abs(2.0)).with_threads(1);
        let mut writer = Writer::with_stats(Vec::new(), Shape::new(&[3000]).unwrap(), &options, &stats).unwrap();
        writer.push(&bytes_of(element, &other)).unwrap();
        let back = decompress(&writer.finish().unwrap(), &DecompressOptions::default()).unwrap();
        check(element, (&other, &elements(element, back.bytes())), Bound::Abs(2.0), &[], false).unwrap();
    }
}

#[test]
fn point_wise_bounds_of_integers_are_refused_with_a_hint() {
    let options = CompressOptions::new(Bound::PwRel(0.1));
    let error = compress(&ArrayView::new(&[1u16, 2], &[2]).unwrap(), &options).unwrap_err();
    assert!(error.to_string().contains("absolute bound in counts"), "{error}");
}

/// Zeros of integers are values like others: masks of them would take a bit for each element.
#[test]
fn scattered_zeros_of_integers_have_no_masks() {
    let mut rng = Rng(3);
    let counts: Vec<u64> = (0..64 * 64 * 64).map(|_| rng.next() % 2 * (1 + rng.next() % 20)).collect();
    for effort in EFFORTS {
        let options = options(Bound::Abs(30.0)).with_effort(effort).with_fill(Fill::None);
        let stream = check_array(ElementType::U16, &counts, &[64, 64, 64], &options);
        assert!(stream.len() < 64 * 64 * 64 / 64, "{effort}: {} bytes", stream.len());
    }
}

#[test]
fn damage_that_no_checksum_notices_is_harmless() {
    for element in TYPES {
        for effort in EFFORTS {
            let bits = array(element, 3, 40 * 50, 8);
            let options = options(Bound::Rel(0.02)).with_effort(effort);
            let fill = Fill::of(&[3.0, 9.0]).unwrap();
            let stream = check_array(element, &bits, &[40, 50], &options.with_fill(fill));
            let mut rng = Rng(5);
            for _ in 0..150 {
                let mut damaged = stream.clone();
                for _ in 0..1 + rng.next() % 3 {
                    let at = rng.next() as usize % damaged.len();
                    damaged[at] = rng.next() as u8;
                }
                repair_checksums(&mut damaged);
                if let Ok(back) = decompress(&damaged, &DecompressOptions::default().with_threads(1)) {
                    assert_eq!(back.bytes().len() as u64, back.shape().len() * back.element_type().size() as u64);
                }
            }
        }
    }
}
