//! Metrics of the difference between an array and its reconstruction.
//!
//! Arrays are compared block by block in the order of their elements, so that files larger than memory can be compared:
//! [`RangeScan`] finds the value range of the original, [`Comparison`] takes both arrays in pieces, and
//! [`Comparison::finish`] returns the [`Quality`]. For arrays in memory, [`compare`] does all of this.
//!
//! NaN, infinities, and fill values of the original must be restored bit for bit. They are counted, and are excluded
//! from all other metrics. With `x` the original, `x'` the reconstruction, and sums over the `n` other elements:
//!
//! | metric | definition |
//! |---|---|
//! | range | largest minus smallest `x` |
//! | RMSE | `sqrt(sum (x - x')^2 / n)` |
//! | NRMSE | RMSE / range |
//! | PSNR | `20 log10(range / RMSE)` in dB, infinite if all errors are 0 |
//! | correlation | Pearson's: `cov(x, x') / sqrt(var x * var x')` |
//! | SSIM | mean structural similarity, see below |
//!
//! SSIM is that of Wang et al. (2004) over the 2-D slices of the two fastest axes whose extent is not 1. It uses
//! uniform 7x7 windows at every position inside a slice, the sample covariance, `K1 = 0.01`, `K2 = 0.03`, and the range
//! as the dynamic range. Windows with an excluded element are left out.

mod pointwise;
mod range;
mod sample;
mod ssim;
#[cfg(test)]
mod tests;

use syncline_core::array::{ArrayView, ElementType, Shape};
use syncline_core::error::{Error, Result};

pub use pointwise::Peak;
pub use range::RangeScan;

use pointwise::Pointwise;
use ssim::Ssim;

use crate::pool::Pool;

/// The error that each element may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Any error: errors are only measured.
    Any,
    /// No error: every element must be equal bit for bit.
    Exact,
    /// At most this absolute error.
    Absolute(f64),
    /// At most this fraction of each element's magnitude.
    PointwiseRelative(f64),
}

/// The arrays to compare, and the error that is allowed.
#[derive(Clone, Debug)]
pub struct Criteria {
    /// Element type of both arrays.
    pub element_type: ElementType,
    /// Shape of both arrays.
    pub shape: Shape,
    /// Bit patterns of fill values, zero-extended.
    pub fills: Vec<u64>,
    /// Smallest and largest value of the original that is finite and not fill (see [`RangeScan`]); `None` if there is
    /// none.
    pub range: Option<(f64, f64)>,
    /// The error that each element may have.
    pub tolerance: Tolerance,
}

/// Result of a comparison. Ratios whose divisor is 0 are `None`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Quality {
    /// Elements in the array.
    pub elements: u64,
    /// Elements in the error metrics: those that are finite in both arrays and not fill.
    pub compared: u64,
    /// Elements of the original that are NaN, infinite or fill.
    pub special: u64,
    /// Elements that had to be restored bit for bit and were not: special ones, negative zeros that lost their sign,
    /// and finite ones that became NaN or infinite.
    pub mismatches: u64,
    /// Elements with any different bit.
    pub differing: u64,
    /// Compared elements whose error exceeds the tolerance.
    pub violations: u64,
    /// Smallest and largest value of the original.
    pub range: Option<(f64, f64)>,
    /// Largest absolute error, and its element.
    pub max_absolute: Option<Peak>,
    /// Largest error relative to the value, and its element; of the values that are not 0.
    pub max_relative: Option<Peak>,
    /// Root of the mean squared error.
    pub rmse: Option<f64>,
    /// RMSE divided by the range.
    pub nrmse: Option<f64>,
    /// Peak signal-to-noise ratio in dB; infinite if there is no error.
    pub psnr: Option<f64>,
    /// Mean structural similarity; `None` for arrays with fewer than two axes of at least 7 elements, or without a
    /// range.
    pub ssim: Option<f64>,
    /// Pearson correlation; `None` if either array is constant.
    pub correlation: Option<f64>,
    /// The error that each element may have.
    pub tolerance: Tolerance,
}

impl Quality {
    /// Returns whether every element is within the tolerance and every special one is restored bit for bit.
    pub fn holds(&self) -> bool {
        match self.tolerance {
            Tolerance::Any => true,
            Tolerance::Exact => self.differing == 0,
            Tolerance::Absolute(_) | Tolerance::PointwiseRelative(_) => self.violations == 0 && self.mismatches == 0,
        }
    }

    /// Returns the largest error divided by the tolerance: 1 is just allowed. `None` without a tolerance above 0 or
    /// without elements.
    pub fn bound_ratio(&self) -> Option<f64> {
        let (peak, bound) = match self.tolerance {
            Tolerance::Any | Tolerance::Exact => return None,
            Tolerance::Absolute(bound) => (self.max_absolute, bound),
            Tolerance::PointwiseRelative(bound) => (self.max_relative, bound),
        };
        (bound > 0.0).then_some(peak?.value / bound)
    }
}

/// A comparison in progress. Its memory is a few MiB plus seven rows, whatever the size of the arrays.
#[derive(Debug)]
pub struct Comparison {
    criteria: Criteria,
    pushed: u64,
    pointwise: Pointwise,
    ssim: Option<Ssim>,
    pool: Pool,
}

impl Comparison {
    /// Elements that are compared as one piece of work.
    const BLOCK: usize = 1 << 20;

    /// Creates a comparison without elements.
    pub fn new(criteria: Criteria) -> Self {
        let ssim = Ssim::new(criteria.shape, criteria.range);
        Self { criteria, pushed: 0, pointwise: Pointwise::default(), ssim, pool: Pool::all() }
    }

    /// Sets the number of threads; 0 means all. The result is the same.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the threads cannot be started.
    pub fn with_threads(self, threads: usize) -> Result<Self> {
        Ok(Self { pool: Pool::new(threads, u64::MAX)?, ..self })
    }

    /// Adds the next elements of both arrays, as little-endian bytes.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for pieces of different lengths, an incomplete element, more elements than the shape
    /// has, or if a thread cannot be started.
    pub fn push(&mut self, original: &[u8], reconstructed: &[u8]) -> Result<()> {
        let size = self.criteria.element_type.size();
        if original.len() != reconstructed.len() || !original.len().is_multiple_of(size) {
            return Err(Error::invalid(format!(
                "the compared pieces have {} and {} bytes, but must have equal lengths in whole \
                 elements of {size} bytes",
                original.len(),
                reconstructed.len()
            )));
        }
        let elements = (original.len() / size) as u64;
        if elements > self.criteria.shape.len() - self.pushed {
            return Err(Error::invalid(format!(
                "there are more elements to compare than shape {} has",
                self.criteria.shape
            )));
        }
        let Self { criteria, pushed, pointwise, ssim, pool } = self;
        let blocks = original.chunks(Self::BLOCK * size).zip(reconstructed.chunks(Self::BLOCK * size));
        pool.install(|| {
            for (original, reconstructed) in blocks {
                sample::dispatch!(criteria.element_type, T => {
                    pointwise.push::<T>(original, reconstructed, *pushed, criteria);
                    if let Some(ssim) = ssim {
                        ssim.push::<T>(original, reconstructed, &criteria.fills);
                    }
                });
                *pushed += (original.len() / size) as u64;
            }
            Ok(())
        })
    }

    /// Returns the result.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if fewer elements were pushed than the shape has.
    pub fn finish(self) -> Result<Quality> {
        if self.pushed != self.criteria.shape.len() {
            return Err(Error::invalid(format!(
                "{} elements were compared, but shape {} has {}",
                self.pushed,
                self.criteria.shape,
                self.criteria.shape.len()
            )));
        }
        let ssim = self.ssim.and_then(|ssim| ssim.mean());
        Ok(self.pointwise.quality(self.criteria, ssim))
    }
}

/// Compares two arrays in memory. `fills` are the bit patterns of fill values, zero-extended.
///
/// # Errors
/// [`Error::InvalidArgument`] if the arrays differ in type or shape.
///
/// ```
/// use syncline::quality::{Tolerance, compare};
/// use syncline::ArrayView;
/// let original = [1.0f32, 2.0, 3.0, f32::NAN];
/// let reconstructed = [1.0f32, 2.25, 3.0, f32::NAN];
/// let view = |elements| ArrayView::new(elements, &[4]);
/// let quality = compare(&view(&original)?, &view(&reconstructed)?, &[], Tolerance::Absolute(0.5))?;
/// assert!(quality.holds());
/// assert_eq!(quality.max_absolute.unwrap().value, 0.25);
/// assert_eq!(quality.bound_ratio(), Some(0.5));
/// # Ok::<(), syncline::Error>(())
/// ```
pub fn compare(
    original: &ArrayView,
    reconstructed: &ArrayView,
    fills: &[u64],
    tolerance: Tolerance,
) -> Result<Quality> {
    let (element_type, shape) = (original.element_type(), original.shape());
    if (element_type, shape) != (reconstructed.element_type(), reconstructed.shape()) {
        return Err(Error::invalid(format!(
            "cannot compare {element_type} {shape} with {} {}",
            reconstructed.element_type(),
            reconstructed.shape()
        )));
    }
    let mut scan = RangeScan::new(element_type, fills);
    scan.push(original.bytes())?;
    let mut comparison =
        Comparison::new(Criteria { element_type, shape, fills: fills.to_vec(), range: scan.range(), tolerance });
    comparison.push(original.bytes(), reconstructed.bytes())?;
    comparison.finish()
}
