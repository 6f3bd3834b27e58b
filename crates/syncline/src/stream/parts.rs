//! Reading parts of records, for regions that are much smaller than a chunk.

use std::ops::Range;

use syncline_core::error::Result;
use syncline_core::geometry::Tile;
use syncline_core::pipeline::{Destination, NeededTiles, PartialRecord};

use super::{Buffers, StreamFile};
use crate::io::ReadAt;
use crate::pool::Reused;
use crate::sparse::SparseBytes;

impl<S: ReadAt> StreamFile<S> {
    /// Returns the needed tiles of a chunk, if parts of its record are read, and not all of it.
    pub(super) fn parts<'a>(
        &'a self,
        chunk: u64,
        needs: &'a (dyn Fn(&Tile) -> bool + Sync),
    ) -> Option<NeededTiles<'a>> {
        let parts = NeededTiles { header: &self.header, geometry: &self.geometry, chunk, needs };
        let is_in_memory = self.source.in_memory().is_some();
        (!is_in_memory && parts.are_few(self.table.record(chunk).1)).then_some(parts)
    }

    /// Decodes the needed tiles of a chunk, and reads only what they need.
    pub(super) fn decode_parts(
        &self,
        parts: &NeededTiles<'_>,
        buffers: &Reused<Buffers>,
        tiles: Destination<'_, '_>,
    ) -> Result<()> {
        let (offset, length) = self.table.record(parts.chunk);
        let mut record = PartialRecord::new(length);
        let located = |error| self.in_chunk(parts.chunk, error);
        loop {
            let missing = record.missing(parts).map_err(located)?;
            if missing.is_empty() {
                break;
            }
            for range in missing {
                // More is asked for than is needed, where it is not known yet how much that is.
                let from = offset + range.start as u64;
                let count = self.source.at_hand(from, range.len() as u64).max(1) as usize;
                self.source.read_exact_at(record.add(range.start..range.start + count), from)?;
            }
        }
        buffers.with(|Buffers { scratch, .. }| record.decode(parts, scratch, tiles).map_err(located))
    }
}

impl StreamFile<SparseBytes> {
    /// Returns the ranges of bytes to [insert](SparseBytes::insert) before a region can be decompressed, in ascending
    /// order; none if it can be.
    ///
    /// When these are inserted, there may be others: what comes before the codewords of a chunk says where those of the
    /// region are. A chunk is read in parts if no more than half of its tiles are needed.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the region is outside of the array;
    /// [`Error::Corrupt`](crate::Error::Corrupt) if what was inserted is damaged.
    pub fn missing_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Range<u64>>> {
        let region = self.geometry.region(ranges)?;
        let mut missing: Vec<Range<u64>> = Vec::new();
        for chunk in self.geometry.chunks_in(&region) {
            let (offset, length) = self.table.record(chunk);
            let of_chunk = match self.parts(chunk, &|tile| region.meets(tile)) {
                Some(parts) => self.missing_parts(&parts)?,
                None => std::iter::once(0..length).filter(|_| !self.source.has(offset, length as u64)).collect(),
            };
            for range in of_chunk {
                let range = offset + range.start as u64..offset + range.end as u64;
                match missing.last_mut() {
                    Some(last) if last.end == range.start => last.end = range.end,
                    _ => missing.push(range),
                }
            }
        }
        Ok(missing)
    }

    /// Returns the missing bytes of a record of which parts are read.
    fn missing_parts(&self, parts: &NeededTiles<'_>) -> Result<Vec<Range<usize>>> {
        let (offset, length) = self.table.record(parts.chunk);
        let mut record = PartialRecord::new(length);
        let front = self.source.at_hand(offset, length as u64) as usize;
        if front > 0 {
            self.source.read_exact_at(record.add(0..front), offset)?;
        }
        loop {
            let missing = record.missing(parts).map_err(|error| self.in_chunk(parts.chunk, error))?;
            let has = |range: &Range<usize>| self.source.has(offset + range.start as u64, range.len() as u64);
            let (present, missing): (Vec<_>, Vec<_>) = missing.into_iter().partition(has);
            if !missing.is_empty() || present.is_empty() {
                return Ok(missing);
            }
            for range in present {
                self.source.read_exact_at(record.add(range.clone()), offset + range.start as u64)?;
            }
        }
    }
}
