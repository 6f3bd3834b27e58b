//! Sparse lists: values at strictly ascending positions in a chunk.

use std::ops::Range;

use crate::bits::fields::{Fields, align};
use crate::error::{Error, Result};
use crate::quantize::{Real, Stored};

/// Appends a sparse list: count, positions, align(8), values (`values` holds their bytes, `positions.len()` times the
/// same size). `out` must be aligned to 8. An empty list is an empty section.
pub fn write_sparse(out: &mut Vec<u8>, positions: &[u32], values: &[u8]) {
    if positions.is_empty() {
        return;
    }
    out.extend_from_slice(&(positions.len() as u32).to_le_bytes());
    out.extend(positions.iter().flat_map(|p| p.to_le_bytes()));
    align(out, 8);
    out.extend_from_slice(values);
}

/// A sparse list that was read and checked.
#[derive(Debug)]
pub struct SparseList<'a> {
    positions: Vec<u32>,
    values: &'a [u8],
    value_size: usize,
}

impl<'a> SparseList<'a> {
    /// Reads a section; `elements` is the number of elements of the chunk.
    ///
    /// # Errors
    /// Wrong length, or positions that do not ascend or lie outside the chunk.
    pub fn parse(section: &'a [u8], value_size: usize, elements: u64, place: &'a str) -> Result<Self> {
        if section.is_empty() {
            return Ok(Self { positions: Vec::new(), values: section, value_size });
        }
        let mut fields = Fields::new(section, place);
        let count = fields.u32()? as usize;
        let positions = fields.take(count.saturating_mul(4))?;
        fields.align(8)?;
        let values = fields.take(count.saturating_mul(value_size))?;
        let positions: Vec<u32> =
            positions.chunks_exact(4).map(|p| u32::from_le_bytes([p[0], p[1], p[2], p[3]])).collect();
        let ascending = positions.windows(2).all(|pair| pair[0] < pair[1]);
        let inside = positions.last().is_none_or(|&last| u64::from(last) < elements);
        if !ascending || !inside || !fields.rest().is_empty() {
            return Err(Error::corrupt(place, "a list of positions is not ascending, too long or outside the chunk"));
        }
        Ok(Self { positions, values, value_size })
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Numbers of the values at positions `start..end` of the chunk.
    #[inline]
    pub fn within(&self, start: u32, end: u32) -> Range<usize> {
        // Nearly all lists are empty or short, nearly all tiles have no value in them.
        match self.positions.last() {
            Some(&last) if last >= start => {
                let first = self.positions.partition_point(|&p| p < start);
                first..first + self.positions[first..].partition_point(|&p| p < end)
            }
            _ => 0..0,
        }
    }

    /// Replaces the elements that have a value here in a tile whose first element is element `position` of the chunk.
    pub fn restore<T: Real>(&self, x: &mut [T], position: u32, stored: &Stored<T>) {
        for number in self.within(position, position + x.len() as u32) {
            let (at, value) = self.value(number);
            let mut bits = [0; 8];
            bits[..value.len()].copy_from_slice(value);
            x[(at - position) as usize] = stored.value(u64::from_le_bytes(bits));
        }
    }

    /// Returns the position in the chunk and the bytes of value `number`.
    ///
    /// # Panics
    /// There is no such value.
    pub fn value(&self, number: usize) -> (u32, &'a [u8]) {
        let start = number * self.value_size;
        (self.positions[number], &self.values[start..start + self.value_size])
    }
}
