//! One dataset of a copy: its chunks are compressed on several threads and written as they are.

#![allow(unsafe_code, reason = "functions of a library that is found at run time")]

use std::ffi::{CStr, c_int};
use std::ops::Range;

use rayon::prelude::*;
use syncline::{Bound, CompressOptions, Fill};
use syncline_core::bound::{PieceBound, Scaling, Scan};

use crate::contents::Attributes;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::filter::encode;
use crate::functions::filter_values;
use crate::object::{DEFAULT, Handle};
use crate::options::Options;
use crate::parameters::{ID, ONCE, Parameters, VERSION, advanced_number, effort_word, fill_words};

/// Elements of a chunk where the file has chunks that are too small, or none: as in streams.
const CHUNK: u64 = 1 << 20;
/// Elements below which chunks are too small.
const SMALLEST_CHUNK: u64 = 1 << 15;
/// Bytes of chunks in memory where no limit is given.
const MEMORY: u64 = 1 << 28;
/// Bytes that are scanned at a time for the range.
const PIECE: u64 = 16 << 20;

/// `H5D_ALLOC_TIME_INCR`: chunks get their place when they are written.
const WHEN_WRITTEN: c_int = 3;
/// `H5Z_FILTER_ALL`.
const ALL_FILTERS: c_int = 0;
/// `H5Z_FLAG_OPTIONAL`: chunks that do not become smaller are stored as they are.
const OPTIONAL: u32 = 1;
/// The bit of the first filter in the mask of those that a chunk is stored without.
const WITHOUT_FILTER: u32 = 1;

/// How a dataset is compressed.
pub struct Choice {
    /// The bound. One relative to the range refers to all values of the dataset.
    pub bound: Bound,
    /// How readers turn stored values into those that the bound refers to.
    pub scaling: Scaling,
    /// Returns attributes of the copy for the bound that holds. They replace those of the dataset.
    pub describe: Box<dyn Fn(f64) -> Attributes>,
}

/// A dataset to compress.
pub struct Recompress<'a, 'l> {
    pub choice: &'a Choice,
    pub options: &'a Options,
    pub source: &'a Dataset<'l>,
    pub path: &'a str,
    /// Properties of the link to the copy.
    pub links: i64,
    /// Properties with which the original was created, which are changed.
    pub creation: Handle<'l>,
}

impl Recompress<'_, '_> {
    /// Writes the compressed dataset. Returns the bytes that it takes, and the bound that holds.
    pub fn run(self, to: i64, path: &CStr, show: &mut dyn FnMut(u64, u64)) -> Result<(u64, f64)> {
        let library = self.source.handle.library;
        let f = &library.f;
        let PieceBound { bound, holds, fills } = self.resolved()?;
        let chunk = self.chunk()?;
        let words = self.words(bound, &fills);
        let what = format!("{}: the compressed dataset cannot be created", self.path);
        // SAFETY: open identifiers, as many extents and numbers as the counts say, and a name that ends with a zero
        // byte; the results are closed by their owners only.
        let (copy, parameters) = unsafe {
            let creation = self.creation.id;
            let rank = chunk.len() as c_int;
            let is_set = (f.remove_filter)(creation, ALL_FILTERS) >= 0
                && (f.set_chunk)(creation, rank, chunk.as_ptr()) >= 0
                && (f.set_allocation_time)(creation, WHEN_WRITTEN) >= 0
                && (f.set_filter)(creation, ID, OPTIONAL, words.len(), words.as_ptr()) >= 0;
            if !is_set {
                return Err(library.failed(what));
            }
            let (kind, space) = (self.source.stored.id, self.source.space.id);
            let id = (f.dataset_create)(to, path.as_ptr(), kind, space, self.links, creation, DEFAULT);
            let copy = Handle::new(library, id, f.object_close, what)?;
            // The filter has completed them.
            let created = library.own_properties((f.dataset_creation)(copy.id))?;
            let Some((_, values)) = filter_values(f.filter_by_id, created.id, ID) else {
                return Err(library.failed("the parameters of the filter cannot be read"));
            };
            (copy, Parameters::complete(&values)?)
        };
        let options = parameters.compress_options(Some(self.source.element_type()))?;
        self.write(&copy, &chunk, &parameters, &options, show)?;
        // SAFETY: an open identifier.
        Ok((unsafe { (f.dataset_stored)(copy.id) }, holds))
    }

    /// Returns the bound and the fill values for each chunk; without any, they are detected.
    fn resolved(&self) -> Result<PieceBound> {
        let fills = match &self.options.fill {
            Some(fills) => fills.clone(),
            None => self.source.fills()?,
        };
        let fill = if fills.is_empty() && self.options.fill.is_none() { Fill::Auto } else { Fill::of(&fills)? };
        let count = self.source.extents().iter().product();
        let Choice { bound, scaling, .. } = *self.choice;
        PieceBound::resolve(self.source.element_type(), count, bound, scaling, fill, |scan| self.pass(scan))
    }

    /// Adds all elements to a scan.
    fn pass(&self, mut scan: Scan) -> Result<Scan> {
        let (mut done, mut buffer) = (0, Vec::new());
        let size = self.source.element_type().size();
        for region in pieces(self.source.extents(), PIECE / size as u64) {
            let count: u64 = region.iter().map(|range| range.end - range.start).product();
            buffer.resize(count as usize * size, 0);
            self.source.read(&region, &mut buffer)?;
            scan.add(done, &buffer);
            done += count;
        }
        Ok(scan)
    }

    /// Returns the extents of chunks: those of the file, unless they are small. The others are made by halving the
    /// longest extent.
    fn chunk(&self) -> Result<Vec<u64>> {
        let extents = self.source.extents();
        if let Some(chunk) = self.source.chunk()?
            && chunk.iter().product::<u64>() >= SMALLEST_CHUNK.min(extents.iter().product())
            && chunk.iter().product::<u64>() <= 16 * CHUNK
        {
            return Ok(chunk);
        }
        let mut chunk = extents.to_vec();
        while chunk.iter().product::<u64>() > CHUNK {
            // The slowest of several, so that rows stay long.
            let Some(longest) = chunk.iter_mut().rev().max_by_key(|extent| **extent) else { break };
            *longest = longest.div_ceil(2).next_multiple_of(if *longest > 64 { 32 } else { 1 });
        }
        Ok(chunk)
    }

    /// Returns the parameters of the filter that its users give.
    fn words(&self, bound: Bound, fills: &[f64]) -> Vec<u32> {
        let bits = bound.value().to_bits();
        let (first, others) = match (fills, &self.options.fill) {
            ([], None) => ([0; 3], Vec::new()),
            _ => fill_words(fills),
        };
        let once = if self.options.rewritable { 0 } else { ONCE };
        let choices = [effort_word(self.options.effort) + once, advanced_number(self.options.advanced)];
        let start = [VERSION, u32::from(bound.code()), bits as u32, (bits >> 32) as u32];
        [&start[..], &first, &choices, &others].concat()
    }

    /// Compresses and writes all chunks.
    fn write(
        &self,
        copy: &Handle<'_>,
        chunk: &[u64],
        parameters: &Parameters,
        options: &CompressOptions,
        show: &mut dyn FnMut(u64, u64),
    ) -> Result {
        let library = self.source.handle.library;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.options.threads).build();
        let pool = pool.map_err(|error| Error::Failed(format!("threads cannot be started: {error}")))?;
        let bytes = chunk.iter().product::<u64>() * self.source.element_type().size() as u64;
        // A chunk, its stream, and what compression needs.
        let most = self.options.memory_limit.unwrap_or(MEMORY) / (4 * bytes).max(1);
        let at_a_time = most.clamp(1, 2 * pool.current_num_threads() as u64) as usize;
        let empty = self.empty_chunk(bytes as usize)?;
        let counts: Vec<u64> = self.source.extents().iter().zip(chunk).map(|(extent, c)| extent.div_ceil(*c)).collect();
        let total: u64 = counts.iter().product();
        let mut buffers = vec![empty.clone(); at_a_time.min(total as usize)];
        let mut done = 0;
        while done < total {
            let places: Vec<Vec<u64>> = (done..total).take(buffers.len()).map(|i| place(i, &counts, chunk)).collect();
            for (start, buffer) in places.iter().zip(&mut buffers) {
                let region: Vec<Range<u64>> = start
                    .iter()
                    .zip(chunk)
                    .zip(self.source.extents())
                    .map(|((&start, &length), &extent)| start..(start + length).min(extent))
                    .collect();
                buffer.copy_from_slice(&empty);
                self.source.read_chunk(&region, chunk, buffer)?;
            }
            let streams: std::result::Result<Vec<Vec<u8>>, syncline::Error> = pool.install(|| {
                buffers[..places.len()].par_iter().map(|buffer| encode(parameters, options, buffer)).collect()
            });
            for ((start, buffer), stream) in places.iter().zip(&buffers).zip(&streams?) {
                let (mask, stored) = if stream.len() < buffer.len() { (0, stream) } else { (WITHOUT_FILTER, buffer) };
                // SAFETY: open identifiers, as many positions as there are axes, and as many bytes as the length says.
                let status = unsafe {
                    let data = stored.as_ptr().cast();
                    (library.f.dataset_write_chunk)(copy.id, DEFAULT, mask, start.as_ptr(), stored.len(), data)
                };
                library.check(status, format_args!("{}: cannot be written", self.path))?;
            }
            done += places.len() as u64;
            show(done, total);
        }
        Ok(())
    }

    /// Returns a chunk of fill values, which chunks contain outside of the dataset.
    fn empty_chunk(&self, bytes: usize) -> Result<Vec<u8>> {
        let library = self.source.handle.library;
        let size = self.source.element_type().size();
        let mut element = [0u8; 8];
        // SAFETY: open identifiers, and room for an element of at most 8 bytes. Without a fill value, it stays 0.
        unsafe { (library.f.fill_value)(self.creation.id, self.source.stored.id, element.as_mut_ptr().cast()) };
        Ok(element[..size].repeat(bytes / size))
    }
}

/// Returns the first element of a chunk, by its number in C order.
fn place(mut number: u64, counts: &[u64], chunk: &[u64]) -> Vec<u64> {
    let mut place = vec![0; counts.len()];
    for axis in (0..counts.len()).rev() {
        place[axis] = number % counts[axis] * chunk[axis];
        number /= counts[axis];
    }
    place
}

/// Returns regions of at most `most` elements, which follow each other in C order and cover an array.
pub fn pieces(extents: &[u64], most: u64) -> Vec<Vec<Range<u64>>> {
    if extents.contains(&0) {
        return Vec::new();
    }
    // Axes from `axis` on fit as a whole; of the one before, some elements do.
    let mut axis = extents.len();
    let mut whole = 1;
    while axis > 0 && whole * extents[axis - 1] <= most {
        axis -= 1;
        whole *= extents[axis];
    }
    let Some(split) = axis.checked_sub(1) else { return vec![extents.iter().map(|&extent| 0..extent).collect()] };
    let step = (most / whole).max(1);
    let mut pieces = Vec::new();
    let outer: u64 = extents[..split].iter().product();
    for number in 0..outer {
        let first = place(number, &extents[..split], &vec![1; split]);
        for start in (0..extents[split]).step_by(step as usize) {
            let mut piece: Vec<Range<u64>> = first.iter().map(|&at| at..at + 1).collect();
            piece.push(start..(start + step).min(extents[split]));
            piece.extend(extents[axis..].iter().map(|&extent| 0..extent));
            pieces.push(piece);
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_an_array_in_order() {
        for (extents, most, count) in
            [(&[4u64, 5, 6][..], 1000, 1), (&[4, 5, 6], 60, 2), (&[4, 5, 6], 12, 12), (&[4, 5, 6], 1, 120), (&[], 9, 1)]
        {
            let pieces = pieces(extents, most);
            assert_eq!(pieces.len(), count, "{extents:?} {most}");
            let mut next = 0;
            for piece in &pieces {
                let first = piece.iter().zip(extents).fold(0, |at, (range, extent)| at * extent + range.start);
                assert_eq!(first, next);
                next += piece.iter().map(|range| range.end - range.start).product::<u64>();
            }
            assert_eq!(next, extents.iter().product::<u64>());
        }
        assert!(pieces(&[3, 0], 10).is_empty());
    }
}
