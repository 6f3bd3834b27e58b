//! One bound for all pieces of an array that are compressed apart.

use super::{Bound, Fill, Pipeline, Scan, resolve};
use crate::array::ElementType;
use crate::error::Error;

/// The bound for each piece of an array whose pieces are compressed apart, such as chunks in HDF5 and Zarr.
#[derive(Clone, Debug, PartialEq)]
pub struct PieceBound {
    /// Bound for each piece, which refers to no other values: lossless, absolute, or relative to each value.
    pub bound: Bound,
    /// The bound that holds: an absolute error, or relative to each value; 0 if lossless.
    pub holds: f64,
    /// Values that stand for missing data. None are NaN.
    pub fills: Vec<f64>,
}

/// How readers turn stored values into those that a bound refers to: `factor * stored + offset`, the `scale_factor` and
/// the `add_offset` of the conventions for climate and forecast data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling {
    /// What stored values are multiplied by.
    pub factor: f64,
    /// What is added then.
    pub offset: f64,
}

impl Default for Scaling {
    fn default() -> Self {
        Self { factor: 1.0, offset: 0.0 }
    }
}

impl Scaling {
    /// Roundings of a value that is read, as a share of the numbers in it.
    const ROUNDING: f64 = 4.0 * f64::EPSILON;

    fn is_none(self) -> bool {
        self == Self::default()
    }

    /// Returns by how much values from this range differ at most when they are computed once more.
    fn rounding(self, (low, high): (f64, f64)) -> f64 {
        Self::ROUNDING * (self.factor.abs() * low.abs().max(high.abs()) + 2.0 * self.offset.abs())
    }
}

impl PieceBound {
    /// Resolves a bound that may refer to the range of the whole array, and that is one of the values that are read.
    /// `pass` adds all elements of the array to a scan; it is called once or twice if the range is needed, and else
    /// not.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the bound is not valid for the type, or not possible with the scaling; those of
    /// `pass`.
    pub fn resolve<E: From<Error>>(
        element: ElementType,
        len: u64,
        bound: Bound,
        scaling: Scaling,
        fill: Fill,
        mut pass: impl FnMut(Scan) -> Result<Scan, E>,
    ) -> Result<Self, E> {
        let given = fill.values().to_vec();
        if bound == Bound::Lossless {
            return Ok(Self { bound: Bound::Lossless, holds: 0.0, fills: given });
        }
        bound.validate(element)?;
        if let Bound::PwRel(relative) = bound {
            return Ok(Self { bound: relative_to_stored(relative, scaling)?, holds: relative, fills: given });
        }
        if matches!(bound, Bound::Abs(_)) && scaling.is_none() {
            return Ok(Self { bound, holds: bound.value(), fills: given });
        }
        // The range is needed for a bound that refers to it, and for the roundings of the scaling.
        let scanned = if matches!(bound, Bound::Abs(_)) { Bound::Rel(1.0) } else { bound };
        let scan = pass(Scan::new(element, len, scanned, fill))?.settle(&mut pass)?;
        let fills = match fill {
            Fill::Auto => scan.fill_bits().iter().map(|&bits| element.number_of_bits(bits)).collect(),
            _ => given,
        };
        let fills = fills.into_iter().filter(|value| !value.is_nan()).collect();
        let range = scan.range().unwrap_or_default();
        let resolved = resolve(&scan, false)?;
        let holds = match bound {
            Bound::Abs(absolute) => absolute,
            // The resolved bound is a first attempt, which assumes that errors are spread evenly. A bound of the root
            // mean square that the PSNR allows reaches it in any case.
            Bound::Psnr(_) => resolved.abs_bound / 3f64.sqrt() * scaling.factor.abs(),
            _ => resolved.abs_bound * scaling.factor.abs(),
        };
        if resolved.pipeline == Pipeline::Lossless && !matches!(bound, Bound::Abs(_)) {
            return Ok(Self { bound: Bound::Lossless, holds: 0.0, fills });
        }
        Ok(Self { bound: Bound::Abs(absolute_of_stored(holds, scaling, range)?), holds, fills })
    }
}

/// Returns the absolute bound of stored values for that of the values that are read.
fn absolute_of_stored(absolute: f64, scaling: Scaling, range: (f64, f64)) -> Result<f64, Error> {
    if scaling.is_none() {
        return Ok(absolute);
    }
    let stored = ((absolute - scaling.rounding(range)) / scaling.factor.abs()).next_down();
    if stored > 0.0 && stored < f64::MAX { Ok(stored) } else { Err(impossible(absolute, scaling)) }
}

/// Returns the bound of stored values, relative to each, for that of the values that are read.
fn relative_to_stored(relative: f64, scaling: Scaling) -> Result<Bound, Error> {
    if scaling.is_none() {
        return Ok(Bound::PwRel(relative));
    }
    if scaling.offset != 0.0 {
        let text = "values are stored with an add_offset, which a bound relative to each value does not allow: use abs";
        return Err(Error::InvalidArgument(text.into()));
    }
    let stored = ((relative - Scaling::ROUNDING) / (1.0 + Scaling::ROUNDING)).next_down();
    if stored > 0.0 && scaling.factor != 0.0 { Ok(Bound::PwRel(stored)) } else { Err(impossible(relative, scaling)) }
}

fn impossible(bound: f64, scaling: Scaling) -> Error {
    let Scaling { factor, offset } = scaling;
    Error::InvalidArgument(format!(
        "with scale_factor {factor} and add_offset {offset}, reading rounds values by more than the bound of \
         {bound:e}: use a larger one"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resolves a bound for `f32` values that are scanned in pieces of 100. Returns the passes, too.
    fn resolved(values: &[f32], bound: Bound, fill: Fill) -> (Result<PieceBound, Error>, usize) {
        let mut passes = 0;
        let pass = |mut scan: Scan| -> Result<Scan, Error> {
            passes += 1;
            for (number, piece) in (0..).zip(values.chunks(100)) {
                let bytes: Vec<u8> = piece.iter().flat_map(|value| value.to_le_bytes()).collect();
                scan.add(number * 100, &bytes);
            }
            Ok(scan)
        };
        (PieceBound::resolve(ElementType::F32, values.len() as u64, bound, Scaling::default(), fill, pass), passes)
    }

    #[test]
    fn bounds_that_refer_to_the_range_become_absolute_ones_of_the_whole_array() {
        let mut values: Vec<f32> = (0..1000u16).map(|i| f32::from(i) / 999.0 * 4.0).collect();
        values[17] = -9999.0;
        let fill = Fill::of(&[-9999.0]).unwrap();
        let (rel, passes) = resolved(&values, Bound::Rel(1e-3), fill);
        let rel = rel.unwrap();
        assert!(passes > 0 && rel.fills == [-9999.0]);
        assert!((rel.holds - 4e-3).abs() < 1e-6 && rel.bound == Bound::Abs(rel.holds), "{rel:?}");
        // A PSNR of 40 dB allows a root mean square error of 1 % of the range.
        let psnr = resolved(&values, Bound::Psnr(40.0), fill).0.unwrap();
        assert!((psnr.holds - 0.04).abs() < 1e-3, "{psnr:?}");
    }

    #[test]
    fn other_bounds_need_no_pass() {
        for (bound, holds) in [(Bound::Abs(0.5), 0.5), (Bound::PwRel(0.1), 0.1), (Bound::Lossless, 0.0)] {
            let (made, passes) = resolved(&[1.0, 2.0], bound, Fill::Auto);
            assert_eq!((made.unwrap(), passes), (PieceBound { bound, holds, fills: vec![] }, 0));
        }
        assert!(resolved(&[1.0], Bound::Abs(-1.0), Fill::Auto).0.is_err());
    }
    #[test]
    fn a_bound_of_scaled_values_is_divided_by_the_factor() {
        let values: Vec<f32> = (0..1000u16).map(|i| f32::from(i) / 999.0).collect();
        let of = |bound, factor, offset| {
            let pass = |mut scan: Scan| -> Result<Scan, Error> {
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                scan.add(0, &bytes);
                Ok(scan)
            };
            PieceBound::resolve(ElementType::F32, 1000, bound, Scaling { factor, offset }, Fill::None, pass)
        };
        // Read values are from -300 to 100.
        let abs = of(Bound::Abs(1.0), -400.0, 100.0).unwrap();
        assert!(
            abs.holds == 1.0 && abs.bound.value() < 1.0 / 400.0 && abs.bound.value() > 0.999_999 / 400.0,
            "{abs:?}"
        );
        let rel = of(Bound::Rel(1e-3), -400.0, 100.0).unwrap();
        assert!((rel.holds - 0.4).abs() < 1e-6 && (rel.bound.value() - 1e-3).abs() < 1e-8, "{rel:?}");
        let each = of(Bound::PwRel(1e-3), 8.0, 0.0).unwrap();
        assert!(each.holds == 1e-3 && each.bound.value() < 1e-3 && each.bound.value() > 0.999e-3, "{each:?}");
        assert!(of(Bound::PwRel(1e-3), 8.0, 1.0).unwrap_err().to_string().contains("add_offset"));
        assert!(of(Bound::Abs(1e-14), 8.0, 100.0).unwrap_err().to_string().contains("larger"));
        assert!(of(Bound::Abs(1.0), 0.0, 0.0).is_err());
        assert_eq!(of(Bound::Lossless, 0.0, 1.0).unwrap().bound, Bound::Lossless);
    }
}
