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

impl PieceBound {
    /// Resolves a bound that may refer to the range of the whole array. `pass` adds all elements of the array to a
    /// scan; it is called once or twice if the range is needed, and else not. Types without bounds are lossless.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the bound is not valid for the type; those of `pass`.
    pub fn resolve<E: From<Error>>(
        element: ElementType,
        len: u64,
        bound: Bound,
        fill: Fill,
        mut pass: impl FnMut(Scan) -> Result<Scan, E>,
    ) -> Result<Self, E> {
        let fills = fill.values().to_vec();
        if !element.is_lossy_capable() || bound == Bound::Lossless {
            return Ok(Self { bound: Bound::Lossless, holds: 0.0, fills });
        }
        bound.validate(element)?;
        if !matches!(bound, Bound::Rel(_) | Bound::Psnr(_)) {
            return Ok(Self { bound, holds: bound.value(), fills });
        }
        let scan = pass(Scan::new(element, len, bound, fill))?.settle(&mut pass)?;
        let fills = match fill {
            Fill::Auto => scan.excluded().iter().map(|&bits| element.number_of_bits(bits)).collect(),
            _ => fills,
        };
        let fills = fills.into_iter().filter(|value| !value.is_nan()).collect();
        let resolved = resolve(&scan, false)?;
        let holds = match bound {
            // The resolved bound is a first attempt, which assumes that errors are spread evenly. A bound of the root
            // mean square that the PSNR allows reaches it in any case.
            Bound::Psnr(_) => resolved.abs_bound / 3f64.sqrt(),
            _ => resolved.abs_bound,
        };
        Ok(match resolved.pipeline {
            Pipeline::Lossless => Self { bound: Bound::Lossless, holds: 0.0, fills },
            _ => Self { bound: Bound::Abs(holds), holds, fills },
        })
    }
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
        (PieceBound::resolve(ElementType::F32, values.len() as u64, bound, fill, pass), passes)
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
        let no_pass = |_| Err(Error::invalid("the range is not needed"));
        let made = PieceBound::resolve(ElementType::F16, 2, Bound::Rel(0.1), Fill::None, no_pass);
        assert_eq!(made.unwrap().bound, Bound::Lossless);
        assert!(resolved(&[1.0], Bound::Abs(-1.0), Fill::Auto).0.is_err());
    }
}
