//! What a scan has found out about a whole array.

use super::Scan;
use super::convert::stored_bits;
use crate::array::ArrayView;
use crate::bound::{ArrayStats, Bound, Fill, Pattern};
use crate::error::Result;

impl ArrayStats {
    /// Examines all elements of an array in memory that is to be compressed with this bound.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::error::Error::InvalidArgument) if the bound is invalid.
    pub fn of(array: &ArrayView<'_>, bound: Bound, fill: Fill) -> Result<Self> {
        let element = array.element_type();
        bound.validate(element)?;
        let scan = Scan::of(element, array.bytes(), bound, fill);
        Ok(Self::from(&scan))
    }
}

impl From<&Scan> for ArrayStats {
    /// Returns the statistics of a scan whose fill value has been decided.
    fn from(scan: &Scan) -> Self {
        let is_float = scan.element.is_float();
        let stored = |bits: u64| stored_bits(scan.element, bits);
        let minus_zero = scan.element.bits_of_number(-0.0).unwrap_or(0);
        let minus = Pattern { bits: minus_zero, count: scan.stats.minus_zeros };
        let zero = Pattern { bits: 0, count: scan.stats.zeros };
        let fill = |i: usize| Some(Pattern { bits: stored(*scan.excluded.get(i)?), count: scan.stats.excluded[i] });
        let is_zero = |i: usize| fill(i).is_some_and(|fill| fill.bits == zero.bits || fill.bits == minus.bits);
        let is_second_zero = |i: usize| is_zero(i) && (0..i).any(is_zero);
        Self {
            element: scan.element,
            bound: scan.bound,
            range: scan.computed_range(),
            low: match scan.stats.range() {
                Some((low, _)) if scan.element.is_wide_integer() => stored(low as u64),
                _ => 0,
            },
            samples: Some(scan.samples_of_bound()),
            lattice: scan.lattice(),
            nan: scan.first_nan.map(|(_, bits)| Pattern { bits: stored(bits), count: scan.stats.nans }),
            // A given value is recorded even if no element holds it, so that no other value may become it. Of the two
            // zeros, one is enough.
            fills: std::array::from_fn(|i| fill(i).filter(|pattern| pattern.count > 0 || !is_second_zero(i))),
            minus_zero: Some(minus).filter(|pattern| pattern.count > scan.len / 4096 && is_float),
            zero: Some(zero).filter(|pattern| pattern.count > 0 && is_float),
        }
    }
}
