//! Error bounds, and the quantization steps that hold them.

mod fill;
mod pieces;
mod psnr;
pub mod scan;
mod stats;

use crate::array::ElementType;
use crate::error::{Error, Result};
use crate::quantize::log;

pub use fill::{Fill, FillValues, MAX_FILLS};
pub use pieces::{PieceBound, Scaling};
pub use psnr::{ErrorSummary, PsnrGoal};
pub use scan::Scan;
pub use stats::ArrayStats;

/// A bound on the error of every finite value. Values that are not finite, and fill values, are always kept exactly.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Bound {
    /// No error: every element is restored bit for bit.
    Lossless,
    /// Largest absolute error, in the unit of the values.
    Abs(f64),
    /// Largest absolute error as a fraction of the value range: the largest minus the smallest finite value that is not
    /// fill.
    Rel(f64),
    /// Smallest peak signal-to-noise ratio in dB. The peak is the value range. Single errors are not limited.
    Psnr(f64),
    /// Largest error of each value as a fraction of its magnitude.
    PwRel(f64),
}

impl Bound {
    /// Returns the code of the kind of bound in the stream.
    pub fn code(self) -> u8 {
        match self {
            Self::Lossless => 0,
            Self::Abs(_) => 1,
            Self::Rel(_) => 2,
            Self::Psnr(_) => 3,
            Self::PwRel(_) => 4,
        }
    }

    /// Returns the name of the kind of bound: `lossless`, `abs`, `rel`, `psnr`, or `pw_rel`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lossless => "lossless",
            Self::Abs(_) => "abs",
            Self::Rel(_) => "rel",
            Self::Psnr(_) => "psnr",
            Self::PwRel(_) => "pw_rel",
        }
    }

    /// Returns the number of the bound; 0 if lossless.
    pub fn value(self) -> f64 {
        match self {
            Self::Lossless => 0.0,
            Self::Abs(v) | Self::Rel(v) | Self::Psnr(v) | Self::PwRel(v) => v,
        }
    }

    /// Returns the bound with a code and a number from the header of a stream; `None` for an unknown code.
    pub fn from_code(code: u8, value: f64) -> Option<Self> {
        Some(match code {
            0 => Self::Lossless,
            1 => Self::Abs(value),
            2 => Self::Rel(value),
            3 => Self::Psnr(value),
            4 => Self::PwRel(value),
            _ => return None,
        })
    }

    /// Checks that elements of this type can be compressed with the bound.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the number is not positive and finite, for a point-wise relative bound of 1 or
    /// more, and for a bound with loss on elements that are not `f32` or `f64`.
    pub fn validate(self, element: ElementType) -> Result<()> {
        if self == Self::Lossless {
            return Ok(());
        }
        if !element.is_lossy_capable() {
            return Err(Error::invalid(format!(
                "arrays of {element} can only be compressed losslessly: choose the lossless bound"
            )));
        }
        let value = self.value();
        if !(value.is_finite() && value > 0.0) {
            return Err(Error::invalid(format!(
                "the error bound is {value:?}, but it must be positive and finite: use another number, or lossless"
            )));
        }
        if matches!(self, Self::PwRel(r) if r >= 1.0) {
            return Err(Error::invalid(format!(
                "the point-wise relative bound is {value:?}, which would allow every value to become 0: use a number \
                 below 1, or an absolute bound"
            )));
        }
        Ok(())
    }
}

/// The kind of a stream: how elements become integers. The discriminant is the code in the stream.
///
/// The kinds are those of a format version, so that a match may name them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Pipeline {
    /// The elements' bits.
    Lossless = 1,
    /// Linear quantization, for absolute bounds.
    Quantized = 2,
    /// Quantization of the logarithm, for point-wise relative bounds.
    LogQuantized = 3,
}

impl Pipeline {
    /// Returns the pipeline with this code in a stream.
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Lossless, Self::Quantized, Self::LogQuantized].into_iter().find(|p| *p as u8 == code)
    }
}

impl std::fmt::Display for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Lossless => "lossless",
            Self::Quantized => "quantized",
            Self::LogQuantized => "log-quantized",
        })
    }
}

/// A bit pattern whose elements are masked instead of being predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The element's bits, zero-extended.
    pub bits: u64,
    /// Number of elements that hold the value, if they have been counted; for NaN, the number of elements that hold any
    /// NaN.
    pub count: u64,
}

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
    /// Smallest and largest finite value that is not fill; `None` if unknown or if there is none.
    pub range: Option<(f64, f64)>,
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
            patterns: Vec::new(),
            rewritable: false,
        }
    }

    /// Returns this resolution with the absolute bound multiplied by `factor`, which is below 1.
    pub fn tightened(&self, element: ElementType, factor: f64) -> Self {
        let mut tighter = self.clone();
        if self.pipeline == Pipeline::Quantized {
            tighter.abs_bound = self.abs_bound * factor;
            tighter.quantize(element, None);
        }
        tighter
    }

    /// Takes the step for the resolved absolute bound, or lossless if no step will do. `stats` are those of the array;
    /// `None` for a bound that depends on the range.
    fn quantize(&mut self, element: ElementType, stats: Option<&ArrayStats>) {
        let limits = Limits::of(element);
        let magnitude = self.range.map(|(low, high)| low.abs().max(high.abs()));
        // With a bound above every magnitude, every value is reconstructed as 0. The bound is reduced, because a larger
        // step could overflow.
        let bound = self.abs_bound.min(magnitude.unwrap_or(f64::INFINITY)).min(limits.largest_bound);
        let rounding = magnitude.unwrap_or(0.0) * limits.rounding;
        let mut step = match magnitude {
            _ if self.rewritable => 2.0 * REWRITABLE_SHARE * self.abs_bound.min(limits.largest_bound),
            Some(_) if bound - rounding >= bound / 2.0 => 2.0 * (bound - rounding),
            _ => 2.0 * bound,
        };
        let mut fits = magnitude.unwrap_or(0.0) / step < limits.largest_integer;
        if !fits && stats.is_some_and(|stats| stats.most_values_fit(2.0 * bound * limits.largest_integer)) {
            // With an absolute bound, a few values that are too large to be quantized are stored verbatim, and their
            // rounding does not matter. A bound that is a share of the range fits either all values or nearly none.
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

/// The share of twice the bound that the step of a rewritable stream is: the rest is for the rounding of reconstructed
/// values, which is not known if the range is not. It suffices for magnitudes of up to 2^15 steps of `f32`.
const REWRITABLE_SHARE: f64 = 1.0 - 1.0 / 256.0;

/// Limits of the linear quantization of a type.
struct Limits {
    /// Half a unit in the last place, relative.
    rounding: f64,
    smallest_step: f64,
    largest_bound: f64,
    /// Integers from here on would be mostly verbatim.
    largest_integer: f64,
}

impl Limits {
    fn of(element: ElementType) -> Self {
        if element == ElementType::F32 {
            // The step and its inverse must be normal f32.
            Self {
                rounding: 2f64.powi(-24),
                smallest_step: 2f64.powi(-120),
                largest_bound: 2f64.powi(120),
                largest_integer: 4_194_304.0,
            }
        } else {
            Self {
                rounding: 2f64.powi(-53),
                smallest_step: 2f64.powi(-1000),
                largest_bound: 2f64.powi(1000),
                largest_integer: 536_870_912.0,
            }
        }
    }
}

/// Returns `share` times the extent of a range. The extent itself may overflow an f64 although its share does not.
fn of_extent(share: f64, (low, high): (f64, f64)) -> f64 {
    let extent = high - low;
    if extent.is_finite() { share * extent } else { share * high - share * low }
}

/// Returns the magnitude from which on values are too large to be quantized with this absolute bound.
fn quantizable_magnitude(element: ElementType, error: f64) -> f64 {
    let limits = Limits::of(element);
    2.0 * error.min(limits.largest_bound) * limits.largest_integer
}

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
    let mut resolved = Resolved { bound, range: stats.range(), rewritable, ..Resolved::lossless() };
    if bound == Bound::Lossless {
        return Ok(resolved);
    }
    resolved.patterns = stats.patterns(matches!(bound, Bound::PwRel(_)));
    let range = stats.range().unwrap_or((0.0, 0.0));
    resolved.abs_bound = match bound {
        Bound::Lossless => 0.0,
        Bound::Abs(error) => error,
        Bound::Rel(share) => of_extent(share, range),
        Bound::Psnr(decibels) => psnr::bound(decibels, range),
        Bound::PwRel(ratio) => ratio,
    };
    if !resolved.abs_bound.is_finite() {
        resolved.abs_bound = f64::MAX;
    }
    match bound {
        Bound::PwRel(_) => resolved.quantize_logarithm(element),
        // If there are no finite values, any step is valid, unless the bound is relative to their range.
        _ if resolved.abs_bound > 0.0 => {
            resolved.quantize(element, Some(&stats).filter(|_| matches!(bound, Bound::Abs(_))));
        }
        _ => resolved.give_up(),
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantize::mask::TileMask;
    use crate::quantize::{Linear, Real};
    use proptest::prelude::*;

    fn scan<T: Real>(x: &[T], bound: Bound, fill: Fill) -> Scan {
        let bytes: Vec<u8> = x.iter().flat_map(|v| v.bits().to_le_bytes()[..size_of::<T>()].to_vec()).collect();
        Scan::of(T::TYPE, &bytes, bound, fill)
    }

    fn f32s(n: u32, f: impl Fn(u32) -> f32) -> Vec<f32> {
        (0..n).map(f).collect()
    }

    #[test]
    fn nonsense_is_refused() {
        for bound in
            [Bound::Abs(0.0), Bound::Rel(-1.0), Bound::Psnr(f64::NAN), Bound::Abs(f64::INFINITY), Bound::PwRel(1.0)]
        {
            assert!(matches!(bound.validate(ElementType::F32), Err(Error::InvalidArgument(_))), "{bound:?}");
        }
        assert!(Bound::Abs(1.0).validate(ElementType::I32).is_err());
        assert!(Bound::Lossless.validate(ElementType::I32).is_ok());
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
            let found = scan(&with(value, every), Bound::Rel(1e-3), Fill::Auto).patterns(false);
            assert_eq!(found.len(), usize::from(expected), "{value} every {every}");
        }
        // Several at either end, also where they lie closer to each other than to the rest.
        let several = f32s(20_000, |i| match i {
            17 | 4_017 | 9_017 => 1e20,
            _ if i % 500 == 3 => -32768.0,
            _ if i % 700 == 5 => -32767.0,
            _ => (i % 1000) as f32,
        });
        let found = scan(&several, Bound::Rel(1e-3), Fill::Auto);
        assert_eq!(found.range(), Some((0.0, 999.0)));
        let values: Vec<f32> =
            found.patterns(false).iter().map(|pattern| f32::from_bits(pattern.bits as u32)).collect();
        assert_eq!(values, [1e20, -32768.0, -32767.0]);
        // One that occurs once is a value like others, and the others are fill all the same if it is well known.
        let once = f32s(20_000, |i| if i == 17 { 1e20 } else { several[i as usize].min(1e3) });
        let found = scan(&once, Bound::Rel(1e-3), Fill::Auto);
        assert_eq!((found.patterns(false).len(), found.range()), (2, Some((0.0, 1e20f32.into()))));
        // Two values: nothing says which is data.
        assert!(
            scan(&f32s(1000, |i| if i % 2 == 0 { -9999.0 } else { 5.0 }), Bound::Rel(1e-3), Fill::Auto)
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
        let r = resolve(&scan(&[1f32, 2.0], Bound::Abs(1e-9), Fill::Auto), false).unwrap();
        assert_eq!(r.pipeline, Pipeline::Lossless);
        let r = resolve(&scan(&[1f64, 2.0], Bound::Abs(1e-8), Fill::Auto), false).unwrap();
        assert_eq!(r.pipeline, Pipeline::Quantized);
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
        let scan = scan(&x, Bound::Rel(1e-3), Fill::Auto);
        assert_eq!(scan.patterns(false), [Pattern { bits: 1 << 31, count: 8 }]);
        assert_eq!(scan.patterns(true), [Pattern { bits: 1 << 31, count: 8 }, Pattern { bits: 0, count: 8 }]);
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
