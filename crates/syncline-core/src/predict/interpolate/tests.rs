//! Plans by their definition, and codes back to values.

use proptest::prelude::*;

use super::*;
use crate::strips::STRIP_LEN;

/// Extents of tiles, their number of axes, and a scheme.
fn tiles() -> impl Strategy<Value = ([usize; 3], usize, Scheme)> {
    extents().prop_flat_map(|(extent, axes)| (Just(extent), Just(axes), prop::sample::select(schemes(axes))))
}

fn schemes(axes: usize) -> Vec<Scheme> {
    (0..=u8::MAX).filter_map(|code| Scheme::from_code(code, axes)).collect()
}

fn extents() -> impl Strategy<Value = ([usize; 3], usize)> {
    prop_oneof![
        (1..=8usize, 1..=8usize, 1..=8usize).prop_map(|(z, y, x)| ([z, y, x], 3)),
        (1..=32usize, 1..=32usize).prop_map(|(y, x)| ([1, y, x], 2)),
        (1..=1024usize).prop_map(|x| ([1, 1, x], 1)),
    ]
}

#[test]
fn positions_of_an_axis_come_from_coarse_to_fine() {
    let plan = Plan::<f32>::new(scheme_of(true, false, false), [1, 1, 8], 1);
    let order: Vec<u16> = plan.points().iter().map(|point| point.place).collect();
    assert_eq!((plan.anchors(), order.as_slice()), (&[0u16, 7][..], &[4, 2, 6, 1, 3, 5][..]));
    let frozen = Plan::<f32>::new(scheme_of(true, true, true), [8, 8, 8], 3);
    assert_eq!((frozen.lattice(), frozen.anchors().len()), ([8, 2, 2], 32));
}

#[test]
fn lines_of_small_whole_tiles_stay_in_one_strip() {
    for (extent, axes) in [([8, 8, 8], 3), ([1, 32, 32], 2)] {
        for scheme in schemes(axes) {
            let plan = Plan::<f32>::new(scheme, extent, axes);
            let mut points = plan.points();
            for &length in plan.lines() {
                let (line, rest) = points.split_at(usize::from(length));
                let codes: Vec<usize> = line.iter().map(|point| usize::from(point.code)).collect();
                assert!(codes.windows(2).all(|pair| pair[1] == pair[0] + 1), "{extent:?} {scheme:?}: {codes:?}");
                assert_eq!(codes.first().map(|code| code / STRIP_LEN), codes.last().map(|code| code / STRIP_LEN));
                points = rest;
            }
        }
    }
}

fn scheme_of(is_cubic: bool, x_first: bool, in_planes: bool) -> Scheme {
    Scheme { is_cubic, x_first, in_planes }
}

proptest! {
    #[test]
    fn every_code_has_a_place((extent, axes, scheme) in tiles()) {
        let plan = Plan::<f32>::new(scheme, extent, axes);
        let mut codes: Vec<u16> = plan.anchor_codes().to_vec();
        codes.extend(plan.points().iter().map(|point| point.code));
        codes.sort_unstable();
        prop_assert!(codes.iter().copied().eq(0..extent.iter().product::<usize>() as u16));
        prop_assert_eq!(plan.lines().iter().map(|&line| usize::from(line)).sum::<usize>(), plan.points().len());
    }

    #[test]
    fn each_element_comes_once_after_its_neighbors((extent, axes, scheme) in tiles()) {
        let plan = Plan::<f64>::new(scheme, extent, axes);
        let count: usize = extent.iter().product();
        // Values that are not known yet would make predictions from them NaN.
        let mut values = [[f64::NAN]; MAX_TILE_ELEMENTS];
        let mut seen = vec![false; count];
        for &place in plan.anchors() {
            (values[usize::from(place)], seen[usize::from(place)]) = ([1.0], true);
        }
        plan.predict(&mut values, |point, [predicted]| {
            let place = usize::from(point.place);
            assert!(!seen[place] && (predicted - 1.0).abs() < 1e-12, "{place}: {predicted}");
            seen[place] = true;
            [1.0]
        });
        prop_assert!(seen.iter().all(|&seen| seen));
    }

    #[test]
    fn cubics_are_predicted_exactly((extent, axes) in extents()) {
        let value = |i: usize| {
            let (z, y, x) = (i / extent[2] / extent[1], i / extent[2] % extent[1], i % extent[2]);
            2.0 * z as f64 - 3.0 * y as f64 + 0.5 * x as f64
        };
        for scheme in schemes(axes) {
            let plan = Plan::<f64>::new(scheme, extent, axes);
            let mut values = [[0.0]; MAX_TILE_ELEMENTS];
            plan.anchors().iter().for_each(|&i| values[usize::from(i)] = [value(i.into())]);
            plan.predict(&mut values, |point, [predicted]| {
                let place = usize::from(point.place);
                assert!((predicted - value(place)).abs() < 1e-9);
                [value(place)]
            });
        }
    }

    #[test]
    fn codes_come_back_within_the_bound(
        (extent, axes, scheme) in tiles(),
        seed in prop::collection::vec(prop_oneof![8 => -50.0..50.0f32, 1 => any::<f32>()], 1..200),
        step in 0.01f64..3.0,
    ) {
        let count: usize = extent.iter().product();
        let interpolation = Interpolation::<f32>::new(step, step / 2.0);
        let plan = Plan::new(scheme, extent, axes);
        let (mut source, mut encoded) = (Source::<f32, 8>::default(), Encoded::<f32, 8>::default());
        for i in 0..count {
            for lane in 0..8 {
                let x = seed[(i + 17 * lane) % seed.len()];
                source.x[i][lane] = x;
                source.excluded[i] |= u8::from(lane > 5 && (i % 7 == lane || !x.is_finite())) << lane;
            }
        }
        source.any_excluded = source.excluded.iter().any(|&bits| bits != 0);
        let integer = |lane: usize, i: usize| (f64::from(source.x[i][lane]) / step).round() as i32 >> 8 << 8;
        let anchor = |lane: usize, q: i32| (q as f32 + lane as f32) * step as f32;
        interpolation.encode(&plan, &source, (integer, anchor), &mut encoded);
        let mut back = lanes();
        interpolation.decode(&plan, &encoded.codes, anchor, &mut back);
        for lane in 0..8 {
            // Several tiles at once are what each is alone.
            let (mut alone, mut out) = (Source::<f32, 1>::default(), Encoded::<f32, 1>::default());
            for i in 0..count {
                alone.x[i] = [source.x[i][lane]];
                alone.excluded[i] = source.excluded[i] >> lane & 1;
            }
            alone.any_excluded = true;
            interpolation.encode(&plan, &alone, (|_, i| integer(lane, i), |_, q| anchor(lane, q)), &mut out);
            prop_assert_eq!(out.any_missed[0], encoded.any_missed[lane]);
            for (i, value) in back.iter().take(count).map(|values| values[lane]).enumerate() {
                prop_assert_eq!(out.codes[i][0], encoded.codes[i][lane]);
                prop_assert_eq!(value.to_bits(), encoded.values[i][lane].to_bits());
                let excluded = source.excluded[i] >> lane & 1 != 0;
                if plan.anchors().contains(&(i as u16)) {
                    prop_assert!(excluded || value.to_bits() == anchor(lane, integer(lane, i)).to_bits());
                } else if !excluded && encoded.missed[i][lane] == 0 {
                    prop_assert!((f64::from(source.x[i][lane]) - f64::from(value)).abs() <= step / 2.0);
                } else {
                    prop_assert!(excluded || encoded.any_missed[lane]);
                }
            }
        }
    }

    #[test]
    fn any_codes_are_decoded(
        (extent, axes, scheme) in tiles(), seed in prop::collection::vec(any::<i32>(), 1..50),
    ) {
        let count: usize = extent.iter().product();
        let mut codes = lanes();
        codes[..count].iter_mut().enumerate().for_each(|(i, v)| *v = [seed[i % seed.len()].rotate_left(i as u32)]);
        let plan = Plan::new(scheme, extent, axes);
        let mut back = lanes::<f64, 1>();
        Interpolation::new(0.1, 0.05).decode(&plan, &codes, |_, q| f64::from(q), &mut back);
    }
}
