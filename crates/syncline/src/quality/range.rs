//! Value range of an array.

use std::sync::Arc;

use rayon::prelude::*;
use syncline_core::array::ElementType;
use syncline_core::error::{Error, Result};

use super::sample::{Sample, dispatch, samples};
use crate::pool::Pool;

/// Finds the smallest and largest value that is finite and not fill.
///
/// ```
/// use syncline::ElementType;
/// use syncline::quality::RangeScan;
/// let mut scan = RangeScan::new(ElementType::U8, &[255]);
/// scan.push(&[3, 255, 7])?;
/// scan.push(&[5])?;
/// assert_eq!(scan.range(), Some((3.0, 7.0)));
/// # Ok::<(), syncline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RangeScan {
    element_type: ElementType,
    fills: Vec<u64>,
    low: f64,
    high: f64,
    pool: Arc<Pool>,
}

impl RangeScan {
    /// Creates a scan without elements. `fills` are the bit patterns of fill values, zero-extended; they are left out.
    pub fn new(element_type: ElementType, fills: &[u64]) -> Self {
        let (low, high) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { element_type, fills: fills.to_vec(), low, high, pool: Arc::new(Pool::all()) }
    }

    /// Sets the number of threads; 0 means all.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the threads cannot be started.
    pub fn with_threads(self, threads: usize) -> Result<Self> {
        Ok(Self { pool: Arc::new(Pool::new(threads, u64::MAX)?), ..self })
    }

    /// Adds elements, as little-endian bytes.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an incomplete element at the end, or if a thread cannot be started.
    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let size = self.element_type.size();
        if !bytes.len().is_multiple_of(size) {
            return Err(Error::invalid(format!(
                "{} bytes are not a whole number of elements of {size} bytes",
                bytes.len()
            )));
        }
        let (low, high) = self.pool.install(|| Ok(dispatch!(self.element_type, T => scan::<T>(bytes, &self.fills))))?;
        self.low = self.low.min(low);
        self.high = self.high.max(high);
        Ok(())
    }

    /// Returns the smallest and largest value so far; `None` if there is none.
    pub fn range(&self) -> Option<(f64, f64)> {
        (self.low <= self.high).then_some((self.low, self.high))
    }
}

fn scan<T: Sample>(bytes: &[u8], fills: &[u64]) -> (f64, f64) {
    let none = (f64::INFINITY, f64::NEG_INFINITY);
    bytes
        .par_chunks(T::SIZE << 16)
        .map(|block| {
            samples::<T>(block)
                .filter(|sample| !sample.is_special(fills))
                .fold(none, |(low, high), sample| (low.min(sample.value()), high.max(sample.value())))
        })
        .reduce(|| none, |a, b| (a.0.min(b.0), a.1.max(b.1)))
}
