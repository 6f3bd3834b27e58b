//! Arrays through scan, masks, quantization and prediction and back, tile by tile as a pipeline does it.

use proptest::prelude::*;
use syncline_core::array::Shape;
use syncline_core::bound::{Bound, Fill, Pipeline, Resolved, Scan, resolve};
use syncline_core::geometry::{Geometry, Tile, Window};
use syncline_core::mem::scatter::Scatter;
use syncline_core::predict::orders;
use syncline_core::quantize::fill::{TileFill, fill_excluded, restore_fill};
use syncline_core::quantize::log::{restore_signs, signs};
use syncline_core::quantize::mask::TileMask;
use syncline_core::quantize::{Linear, Log, Real};

fn scan<T: Real>(bytes: &[u8], bound: Bound, fill: Fill) -> Scan {
    Scan::of(T::TYPE, bytes, bound, fill)
}

/// One tile there and back.
fn tile_round_trip<T: Real>(x: &[T], tile: &Tile, axes: usize, resolved: &Resolved) -> Vec<T> {
    let patterns: Vec<u64> = resolved.patterns.iter().map(|p| p.bits).collect();
    let mut q = vec![0; x.len()];
    let mut exact = TileMask::default();
    let fill = TileFill::find(x, &patterns);
    let linear = Linear::<T>::new(resolved.step, resolved.abs_bound);
    let log = Log::<T>::new(resolved.step, resolved.abs_bound);
    if resolved.pipeline == Pipeline::Quantized {
        linear.quantize_tile(x, &mut q, &mut exact);
    } else {
        log.quantize_tile(x, &mut q, &mut exact);
    }
    let excluded = exact.union(&fill.foreign).union(&fill.mask);
    let verbatim = excluded.without(&fill.mask);
    fill_excluded(&mut q, tile.extent, &excluded);
    let base = q[0];
    let residuals = |predictor| {
        let mut codes: Vec<i32> = q.iter().map(|q| q.wrapping_sub(base)).collect();
        orders::difference(&mut codes, tile.extent, predictor);
        codes
    };
    let size = |codes: &[i32]| codes.iter().map(|&code| u64::from(code.unsigned_abs())).sum::<u64>();
    let predictor = orders::predictors(axes).min_by_key(|&predictor| size(&residuals(predictor))).unwrap();
    let (sign_kind, negative) = signs(x, &excluded);

    let (mut back_q, mut back) = (residuals(predictor), vec![T::nearest(0.0); x.len()]);
    orders::restore(&mut back_q, tile.extent, predictor, base);
    assert_eq!(q, back_q);
    if resolved.pipeline == Pipeline::Quantized {
        linear.dequantize(&back_q, &mut back);
    } else {
        log.dequantize(&back_q, &mut back);
        restore_signs(&mut back, sign_kind, &negative);
    }
    if fill.mask.any() {
        restore_fill(&mut back, &fill.mask, patterns[fill.pattern as usize]);
    }
    for i in verbatim.ones() {
        back[i] = x[i];
    }
    back
}

/// Whether `y` may stand for `x`: bit for bit if it is special, else within the bound in exact arithmetic (two-sum, and
/// fma for the product).
fn allowed<T: Real>(x: T, y: T, resolved: &Resolved) -> bool {
    let (a, b) = (x.wide(), y.wide());
    let is_pattern = resolved.patterns.iter().any(|p| p.bits == x.bits());
    if !a.is_finite() || x.bits() == T::nearest(-0.0).bits() || is_pattern {
        return x.bits() == y.bits();
    }
    if resolved.pipeline == Pipeline::LogQuantized {
        let product = resolved.abs_bound * a.abs();
        let sign = x.is_negative() == y.is_negative();
        return sign && (a - b).abs() - product <= resolved.abs_bound.mul_add(a.abs(), -product);
    }
    let sum = a - b;
    let part = sum - a;
    let rest = (a - (sum - part)) + (-b - part);
    let (sum, rest) = if sum < 0.0 { (-sum, -rest) } else { (sum, rest) };
    sum < resolved.abs_bound || (sum == resolved.abs_bound && rest <= 0.0)
}

fn check<T: Real>(x: &[T], extents: &[u64], bound: Bound, fill: Fill) -> Result<(), TestCaseError> {
    let geometry = Geometry::with_chunk_tiles(Shape::new(extents).unwrap(), 2).unwrap();
    let bytes: Vec<u8> = x.iter().flat_map(|v| v.bits().to_le_bytes()[..size_of::<T>()].to_vec()).collect();
    let resolved = resolve(&scan::<T>(&bytes, bound, fill), false).unwrap();
    if resolved.pipeline == Pipeline::Lossless {
        return Ok(());
    }
    let window = Window::raster(&bytes, 0, &geometry);
    let mut output = vec![0; bytes.len()];
    for mut sink in Scatter::new(&mut output, &geometry, geometry.whole(), size_of::<T>()) {
        for tile in geometry.chunk(sink.chunk()) {
            let mut values = vec![T::nearest(0.0); tile.len()];
            window.gather(&tile, &mut values);
            sink.put(&tile_round_trip(&values, &tile, geometry.axes(), &resolved));
        }
    }
    for (i, (&x, y)) in x.iter().zip(output.chunks_exact(size_of::<T>())).enumerate() {
        let mut bits = [0; 8];
        bits[..y.len()].copy_from_slice(y);
        let y = T::from_bits(u64::from_le_bytes(bits));
        prop_assert!(allowed(x, y, &resolved), "element {i}: {x:?} became {y:?}, {resolved:?}");
    }
    Ok(())
}

fn any_bound() -> impl Strategy<Value = Bound> {
    prop_oneof![
        (-6f64..3.0).prop_map(|e| Bound::Abs(10f64.powf(e))),
        (-7f64..0.5).prop_map(|e| Bound::Rel(10f64.powf(e))),
        (1f64..140.0).prop_map(Bound::Psnr),
        (-7f64..-0.01).prop_map(|e| Bound::PwRel(10f64.powf(e))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn bounds_hold_and_special_values_are_exact(
        extents in prop_oneof![
            prop::collection::vec(1u64..=9, 0..=4), Just(vec![8, 8, 16]), Just(vec![17, 18, 19]), Just(vec![40, 33]),
                Just(vec![2500]),
        ],
        bound in any_bound(),
        fill in prop::sample::select(vec![Fill::Auto, Fill::None, Fill::Value(-9999.0), Fill::Value(1e20)]),
        specials in prop::collection::vec((
            any::<prop::sample::Index>(), 1usize..60,
            prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, -9999.0, 1e20, 3e38, 1e-40,
                f64::from_bits(0x7FF8_0000_2000_0000)]),
        ), 0..8),
        noise in any::<u64>(), amplitude in -3i32..8,
    ) {
        let n = extents.iter().product::<u64>() as usize;
        let mut x: Vec<f64> = (0..n as u64).map(|i| {
            let hash = noise.wrapping_mul(2 * i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let random = (hash >> 11) as f64 / (1u64 << 53) as f64;
            (i as f64 * 0.1).sin() * 50.0 + (random - 0.5) * 10f64.powi(amplitude)
        }).collect();
        for (at, run, value) in specials {
            let at = at.index(n);
            let end = (at + run).min(n);
            x[at..end].fill(value);
        }
        let narrow: Vec<f32> = x.iter().map(|&x| x as f32).collect();
        check(&x, &extents, bound, fill)?;
        check(&narrow, &extents, bound, fill)?;
    }
}
