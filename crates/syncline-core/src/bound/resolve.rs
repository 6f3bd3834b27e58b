//! The kind of a stream and its quantization step, for an array and a bound.

use super::limits::Limits;
use super::linear::{computed_bound, linear_bound};
use super::stats::ArrayStats;
use super::{Bound, Pattern, Pipeline};
use crate::array::ElementType;
use crate::error::Result;
use crate::quantize::log;

/// The pipeline and the quantization step for an array and a bound.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// The kind of stream.
    pub pipeline: Pipeline,
    /// The requested bound.
    pub bound: Bound,
    /// The bound that holds: an absolute error, or relative to each value for [`Bound::PwRel`]; 0 if lossless.
    pub abs_bound: f64,
    /// Quantization step; 0 if lossless.
    pub step: f64,
    /// Smallest and largest finite value that is not fill, as computed with; `None` if unknown or if there is none.
    pub range: Option<(f64, f64)>,
    /// The bits of what integers of 64 bits are computed relative to, their smallest one; 0 for other types.
    pub low: u64,
    /// Patterns to mask, at most 4, all different.
    pub patterns: Vec<Pattern>,
    /// Whether the step depends on the bound alone.
    pub rewritable: bool,
}

impl Resolved {
    /// Returns the resolution of [`Bound::Lossless`], which needs no scan.
    pub fn lossless() -> Self {
        Self {
            pipeline: Pipeline::Lossless,
            bound: Bound::Lossless,
            abs_bound: 0.0,
            step: 0.0,
            range: None,
            low: 0,
            patterns: Vec::new(),
            rewritable: false,
        }
    }

    /// Returns this resolution with the absolute bound multiplied by `factor`, which is below 1.
    pub fn tightened(&self, element: ElementType, factor: f64) -> Self {
        let mut tighter = self.clone();
        if self.pipeline == Pipeline::Quantized {
            tighter.abs_bound = self.abs_bound * factor;
            // What the samples of 16-bit types have shown stays.
            let is_decided = element.is_half() && self.largest_integer() >= Limits::of(element).largest_integer;
            tighter.quantize(element, |_| is_decided, None);
        }
        tighter
    }

    /// Returns the largest magnitude of the range in steps.
    fn largest_integer(&self) -> f64 {
        self.range.map_or(0.0, |(low, high)| low.abs().max(high.abs())) / self.step
    }

    /// Takes the step for the resolved absolute bound, or lossless if no step will do. `most_fit` tells whether most
    /// values of the array are below a magnitude. `lattice` is a number of which the values are whole multiples.
    fn quantize(&mut self, element: ElementType, most_fit: impl Fn(f64) -> bool, lattice: Option<f64>) {
        let limits = Limits::of(element);
        let magnitude = self.range.map(|(low, high)| low.abs().max(high.abs()));
        if element.is_integer() {
            self.abs_bound = self.abs_bound.floor();
            if self.abs_bound < 1.0 {
                return self.give_up();
            }
        }
        let computed = computed_bound(element, self.abs_bound);
        // With a bound above every magnitude, every value is reconstructed as 0. The bound is reduced, because a larger
        // step could overflow.
        let largest = computed_bound(element, magnitude.unwrap_or(f64::INFINITY));
        let bound = computed.min(largest).min(limits.largest_bound);
        let rounding = limits.rounding_of(element, magnitude.unwrap_or(0.0));
        let mut step = match magnitude {
            _ if self.rewritable => 2.0 * limits.rewritable_share * computed.min(limits.largest_bound),
            Some(_) if bound - rounding >= bound / 2.0 => 2.0 * (bound - rounding),
            _ => 2.0 * bound,
        };
        // Whole multiples of more than twice the bound are fewer than multiples of a smaller step, and exact.
        let lattice = lattice.filter(|&lattice| lattice > 2.0 * computed && !self.rewritable);
        let of_lattice = |&lattice: &f64| {
            lattice <= limits.largest_bound && magnitude.unwrap_or(f64::INFINITY) / lattice < limits.largest_integer
        };
        if let Some(lattice) = lattice.filter(of_lattice) {
            step = lattice;
        }
        let mut fits = magnitude.unwrap_or(0.0) / step < limits.largest_integer;
        if !fits && most_fit(2.0 * bound * limits.largest_integer) {
            // With an absolute bound, a few values that are too large to be quantized are stored verbatim, and their
            // rounding does not matter. A bound that is a share of the range fits either all values or nearly none,
            // but for types of 16 bits.
            if !self.rewritable {
                step = 2.0 * bound;
            }
            fits = true;
        }
        if step >= limits.smallest_step && fits {
            (self.pipeline, self.step) = (Pipeline::Quantized, step);
        } else {
            self.give_up();
        }
    }

    /// Takes the step in log2 for the resolved relative bound, or lossless if no step will do.
    fn quantize_logarithm(&mut self, element: ElementType) {
        let step = log::step(self.abs_bound, Limits::of(element).rounding);
        // The logarithm of every finite f64 is between -1,100 and 1,100. If the bound is a few units in the last place,
        // the rounding of x' alone exceeds it. If the error of the logarithm alone exceeds the bound, the step is not
        // above 0.
        if step > 0.0 && 1100.0 / step < 1_073_741_824.0 && self.abs_bound > 4.0 * Limits::of(element).rounding {
            (self.pipeline, self.step) = (Pipeline::LogQuantized, step);
        } else {
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        (self.pipeline, self.abs_bound, self.step) = (Pipeline::Lossless, 0.0, 0.0);
        self.patterns.clear();
    }
}

/// Integers of 64 bits have bounds if the largest and the smallest differ by less.
pub const MOST_DISTANT: f64 = 9_007_199_254_740_992.0;

/// Resolves the bound of an array with these statistics. This function alone decides the header of a stream, so that
/// all encoders with the same knowledge of an array write the same stream.
///
/// If no quantization satisfies the bound (a range of 0, or a bound near the precision of the values), the pipeline is
/// lossless.
///
/// With `rewritable`, the step is a function of the bound alone, so that all arrays with the same absolute or pointwise
/// relative bound are quantized to the same values, and quantizing these again does not change them.
///
/// # Errors
/// See [`Bound::validate`].
pub fn resolve(stats: impl Into<ArrayStats>, rewritable: bool) -> Result<Resolved> {
    let stats = stats.into();
    let (bound, element) = (stats.bound(), stats.element_type());
    bound.validate(element)?;
    let mut resolved = Resolved { bound, range: stats.range, low: stats.low, rewritable, ..Resolved::lossless() };
    if bound == Bound::Lossless {
        return Ok(resolved);
    }
    resolved.patterns = stats.patterns(matches!(bound, Bound::PwRel(_)));
    let range = stats.range.unwrap_or((0.0, 0.0));
    resolved.abs_bound = match bound {
        Bound::PwRel(ratio) => ratio,
        _ => linear_bound(element, bound, range).unwrap_or(0.0),
    };
    match bound {
        // Those that are not known to be close to each other are not exact as f64.
        _ if element.is_wide_integer() && stats.range.is_none_or(|(_, high)| high >= MOST_DISTANT) => {
            resolved.give_up();
        }
        Bound::PwRel(_) => resolved.quantize_logarithm(element),
        // If there are no finite values, any step is valid, unless the bound is relative to their range.
        _ if resolved.abs_bound > 0.0 => {
            let knows = matches!(bound, Bound::Abs(_)) || element.is_half();
            resolved.quantize(element, |magnitude| knows && stats.most_values_fit(magnitude), stats.lattice);
        }
        _ => resolved.give_up(),
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::{Fill, Scan};
    use crate::error::Error;
    use crate::quantize::mask::TileMask;
    use crate::quantize::{Linear, Real};
    use proptest::prelude::*;

    fn scan<T: Real>(x: &[T], bound: Bound, fill: Fill) -> Scan {
        let bytes: Vec<u8> = x.iter().flat_map(|v| v.bits().to_le_bytes()[..size_of::<T>()].to_vec()).collect();
        Scan::of(T::TYPE, &bytes, bound, fill)
    }

    fn stats(x: &[f32], bound: Bound, fill: Fill) -> ArrayStats {
        ArrayStats::from(&scan(x, bound, fill))
    }

    fn f32s(n: u32, f: impl Fn(u32) -> f32) -> Vec<f32> {
        (0..n).map(f).collect()
    }

    #[test]
    fn invalid_bounds_are_errors() {
        for bound in
            [Bound::Abs(0.0), Bound::Rel(-1.0), Bound::Psnr(f64::NAN), Bound::Abs(f64::INFINITY), Bound::PwRel(1.0)]
        {
            assert!(matches!(bound.validate(ElementType::F32), Err(Error::InvalidArgument(_))), "{bound:?}");
        }
        assert!(
            Bound::Abs(0.0).validate(ElementType::I32).is_ok() && Bound::Abs(0.0).validate(ElementType::F16).is_err()
        );
        assert!(Bound::Rel(0.0).validate(ElementType::I32).is_err());
        let error = Bound::PwRel(0.1).validate(ElementType::I32).unwrap_err();
        assert!(error.to_string().contains("counts"), "{error}");
        assert!(Bound::PwRel(0.1).validate(ElementType::Bf16).is_ok());
    }

    #[test]
    fn a_resolution_has_a_step_or_is_lossless() {
        let x = [1.0, 2.0, -3.0];
        for exponent in 0..64 {
            let bound = Bound::PwRel(1e-16 * 1.5f64.powi(exponent));
            let resolved = resolve(&scan(&x, bound, Fill::Auto), false).unwrap();
            assert_eq!(resolved.pipeline == Pipeline::Lossless, resolved.step == 0.0, "{bound:?}");
            assert!(resolved.step >= 0.0 && resolved.step.is_finite(), "{bound:?}");
        }
    }

    #[test]
    fn shares_of_a_range_beyond_all_numbers() {
        let x = [-1.7e308, 1.0, 1.7e308];
        let resolved = |bound| resolve(&scan(&x, bound, Fill::Auto), false).unwrap();
        assert_eq!(resolved(Bound::Rel(1e-9)).abs_bound, 2.0 * 1e-9 * 1.7e308);
        let psnr = resolved(Bound::Psnr(140.0)).abs_bound;
        assert!((psnr / (2.0 * 1.7e301 * 3f64.sqrt()) - 1.0).abs() < 1e-12, "{psnr}");
        assert_eq!(resolved(Bound::Psnr(1e300)).pipeline, Pipeline::Lossless);
        assert_eq!(resolved(Bound::Rel(1e300)).abs_bound, f64::MAX);
    }

    #[test]
    fn bounds_are_relative_to_the_range_without_fill() {
        let x = f32s(5000, |i| {
            if i % 10 == 0 {
                -9999.0
            } else if i == 7 {
                f32::NAN
            } else {
                10.0 + (i % 100) as f32
            }
        });
        let r = resolve(&scan(&x, Bound::Rel(1e-3), Fill::Auto), false).unwrap();
        assert_eq!(r.range, Some((11.0, 109.0)));
        assert_eq!(r.abs_bound, 1e-3 * 98.0);
        assert_eq!(
            r.patterns,
            [
                Pattern { bits: u64::from(f32::NAN.to_bits()), count: 1 },
                Pattern { bits: u64::from((-9999f32).to_bits()), count: 500 }
            ]
        );
        let r = resolve(&scan(&x, Bound::Rel(1e-3), Fill::None), false).unwrap();
        assert_eq!(r.range, Some((-9999.0, 109.0)));
        let r = resolve(&scan(&x, Bound::Rel(1e-3), Fill::Value(11.0)), false).unwrap();
        assert_eq!((r.range, r.patterns[1].count), (Some((-9999.0, 109.0)), 50));
    }

    #[test]
    fn a_far_extreme_that_repeats_is_fill() {
        let with = |v: f32, every: u32| f32s(20_000, |i| if i % every == 3 { v } else { (i % 1000) as f32 });
        for (value, every, expected) in [
            (6000.0, 100, true),  // gap 5 ranges
            (4000.0, 100, false), // gap 3 ranges
            (1e20, 100, true),    // well known
            (-9999.0, 100, true),
            (-999.0, 100, true), // well known, gap 1 range
            (-32768.0, 100, true),
            (-9999.0, 10_000, true), // twice, well known, gap 10 ranges
            (-999.0, 10_000, false), // twice, gap 1 range
            (1e9, 10_000, false),    // twice, not well known
            (1e9, 4_000, true),      // five times
            (1e20, 100_000, false),  // once
        ] {
            let found = stats(&with(value, every), Bound::Rel(1e-3), Fill::Auto).patterns(false);
            assert_eq!(found.len(), usize::from(expected), "{value} every {every}");
        }
        // Several at either end, also where they lie closer to each other than to the rest.
        let several = f32s(20_000, |i| match i {
            17 | 4_017 | 9_017 => 1e20,
            _ if i % 500 == 3 => -32768.0,
            _ if i % 700 == 5 => -32767.0,
            _ => (i % 1000) as f32,
        });
        let found = stats(&several, Bound::Rel(1e-3), Fill::Auto);
        assert_eq!(found.range(), Some((0.0, 999.0)));
        let values: Vec<f32> =
            found.patterns(false).iter().map(|pattern| f32::from_bits(pattern.bits as u32)).collect();
        assert_eq!(values, [1e20, -32768.0, -32767.0]);
        // One that occurs once is a value like others, and the others are fill all the same if it is well known.
        let once = f32s(20_000, |i| if i == 17 { 1e20 } else { several[i as usize].min(1e3) });
        let found = stats(&once, Bound::Rel(1e-3), Fill::Auto);
        assert_eq!((found.patterns(false).len(), found.range()), (2, Some((0.0, 1e20f32.into()))));
        // Two values: nothing says which is data.
        assert!(
            stats(&f32s(1000, |i| if i % 2 == 0 { -9999.0 } else { 5.0 }), Bound::Rel(1e-3), Fill::Auto)
                .patterns(false)
                .is_empty()
        );
    }

    #[test]
    fn degenerate_ranges_become_lossless() {
        for x in [vec![], vec![1.5f32; 9], vec![f32::NAN; 9], vec![f32::INFINITY]] {
            let r = resolve(&scan(&x, Bound::Rel(1e-3), Fill::Auto), false).unwrap();
            assert_eq!((r.pipeline, r.abs_bound, r.step), (Pipeline::Lossless, 0.0, 0.0));
        }
        let r = resolve(&scan(&[1.1f32, 2.0], Bound::Abs(1e-9), Fill::Auto), false).unwrap();
        assert_eq!(r.pipeline, Pipeline::Lossless);
        let r = resolve(&scan(&[1.1f64, 2.0], Bound::Abs(1e-8), Fill::Auto), false).unwrap();
        assert_eq!(r.pipeline, Pipeline::Quantized);
    }

    #[test]
    fn whole_multiples_of_more_than_twice_the_bound_take_these_as_the_step() {
        let whole = f32s(5000, |i| if i == 7 { f32::NAN } else { (i * 37 % 1000) as f32 - 300.0 });
        let quarters = f32s(5000, |i| (i * 37 % 1000) as f32 / 4.0);
        for (x, bound, step) in [
            (&whole, Bound::Abs(0.4), 1.0),
            (&whole, Bound::Rel(1e-4), 1.0),
            (&quarters, Bound::Rel(1e-4), 0.25),
            (&quarters, Bound::Psnr(90.0), 0.25),
        ] {
            assert_eq!(resolve(&scan(x, bound, Fill::Auto), false).unwrap().step, step, "{bound:?}");
            assert_ne!(resolve(&scan(x, bound, Fill::Auto), true).unwrap().step, step, "{bound:?}");
        }
        for bound in [Bound::Abs(0.5), Bound::Rel(1e-3), Bound::PwRel(1e-3)] {
            assert_ne!(resolve(&scan(&whole, bound, Fill::Auto), false).unwrap().step, 1.0, "{bound:?}");
        }
        // Some values are between.
        let odd = f32s(5000, |i| if i % 100 == 9 { 0.3 } else { i as f32 });
        assert!(resolve(&scan(&odd, Bound::Rel(1e-5), Fill::Auto), false).unwrap().step < 0.2);
        // Magnitudes that have more steps than there are integers.
        let large = f32s(5000, |i| 2f32.powi((i % 40) as i32));
        assert!(resolve(&scan(&large, Bound::Abs(0.3), Fill::Auto), false).unwrap().step < 1.0);
    }

    #[test]
    fn psnr_is_that_of_a_uniform_error() {
        let r = resolve(&scan(&[0f32, 8.0], Bound::Psnr(60.0), Fill::Auto), false).unwrap();
        assert!((r.abs_bound / (8.0 * 3f64.sqrt() * 1e-3) - 1.0).abs() < 1e-14);
        assert!(r.tightened(ElementType::F32, 0.5).step < 0.51 * r.step);
    }

    #[test]
    fn zeros_are_patterns_when_they_matter() {
        let x = f32s(4096, |i| match i % 512 {
            0 => -0.0,
            1 => 0.0,
            _ => i as f32,
        });
        let stats = stats(&x, Bound::Rel(1e-3), Fill::Auto);
        assert_eq!(stats.patterns(false), [Pattern { bits: 1 << 31, count: 8 }]);
        assert_eq!(stats.patterns(true), [Pattern { bits: 1 << 31, count: 8 }, Pattern { bits: 0, count: 8 }]);
    }

    proptest! {
        #[test]
        fn the_step_leaves_nothing_verbatim(x in prop::collection::vec(-1e6f32..1e6, 2..500), exponent in -5f64..2.0) {
            let r = resolve(&scan(&x, Bound::Rel(10f64.powf(exponent)), Fill::None), false).unwrap();
            if r.pipeline == Pipeline::Quantized {
                let linear = Linear::<f32>::new(r.step, r.abs_bound);
                let mut exact = TileMask::default();
                linear.quantize_tile(&x, &mut vec![0; x.len()], &mut exact);
                prop_assert_eq!(exact.count(), x.iter().filter(|x| x.to_bits() == 1 << 31).count());
            }
        }

        #[test]
        fn splitting_changes_nothing(
            special in prop::collection::vec((0usize..3000,
                prop::sample::select(vec![f64::NAN, -f64::NAN, 1e30, -0.0, 0.0, f64::INFINITY, -9999.0])), 0..60),
            fill in prop::sample::select(vec![Fill::Auto, Fill::None, Fill::Value(-9999.0),
                Fill::of(&[1e30, -9999.0]).unwrap()]),
            cuts in prop::collection::vec(0usize..3000, 0..5), n in 1usize..3000, reverse in any::<bool>(),
        ) {
            let mut x: Vec<f64> = (0..n).map(|i| (i as f64 * 0.01).sin()).collect();
            for (i, v) in special {
                x[i % n] = v;
            }
            let whole = scan(&x, Bound::Abs(1e-3), fill);
            let mut cuts: Vec<_> = cuts.into_iter().map(|c| c % n).chain([0, n]).collect();
            cuts.sort_unstable();
            let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
            let pass = |empty: Scan| {
                let mut parts: Vec<Scan> = cuts.windows(2).map(|w| {
                    let mut part = empty.clone();
                    part.add(w[0] as u64, &bytes[w[0] * 8..w[1] * 8]);
                    part
                }).collect();
                if reverse {
                    parts.reverse();
                }
                parts.into_iter().fold(empty, Scan::merge)
            };
            let first = pass(Scan::new(ElementType::F64, n as u64, Bound::Abs(1e-3), fill));
            let split = first.settle(|empty| Ok::<_, Error>(pass(empty))).unwrap();
            prop_assert_eq!(ArrayStats::from(&whole), ArrayStats::from(&split));
        }
    }
}
