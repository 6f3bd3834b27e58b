//! Estimates of ratio, error, and speed from a sample of an array, and the search for the bound of a given size.
//!
//! The sample consists of whole tiles from all parts of the array, chosen by a fixed rule, so that an estimate is the
//! same each time; only speeds differ. Arrays of at most 4 Mi elements are their own sample.
//!
//! ```
//! use syncline::estimate::Sample;
//! use syncline::{ArrayView, Bound, CompressOptions, compress};
//! let field: Vec<f32> = (0..500 * 400).map(|i| (i as f32 * 0.01).sin()).collect();
//! let view = ArrayView::new(&field, &[500, 400])?;
//! let options = CompressOptions::new(Bound::Rel(1e-3));
//! let sample = Sample::of(view.bytes(), 0, view.element_type(), view.shape(), &options)?;
//! let estimate = sample.estimate(&options)?;
//! assert_eq!(estimate.compressed_bytes, compress(&view, &options)?.len() as u64);
//! # Ok::<(), syncline::Error>(())
//! ```

pub(crate) mod sample;
mod target;

use std::time::{Duration, Instant};

use syncline_core::array::ElementType;
use syncline_core::bound::{Bound, Fill, Scan};
use syncline_core::container::HEADER_LEN;
use syncline_core::error::Result;
use syncline_core::geometry::Geometry;
use syncline_core::pipeline::Effort;

pub use target::{COARSEST, FINEST, Found, find_bound};

use crate::array::Array;
use crate::compress::compress;
use crate::decompress;
use crate::devices::Backend;
use crate::io::ReadAt;
use crate::options::{CompressOptions, DecompressOptions};
use crate::pool::Pool;
use crate::quality::{Comparison, Criteria, Tolerance};
use crate::range::scan_all;
use crate::source::ArraySource;
use crate::{ArrayView, Shape};

/// The most elements of a sample, unless the caller states another number.
const SAMPLE_ELEMENTS: u64 = 1 << 22;
/// A measurement is repeated until it has taken this long in total, at most [`MOST_RUNS`] times.
const ENOUGH_TIME: Duration = Duration::from_millis(60);
const MOST_RUNS: u32 = 5;

/// Tiles from all parts of an array, and what is known of the whole array.
#[derive(Debug)]
pub struct Sample {
    array: Array,
    /// Elements of the whole array.
    elements: u64,
    range: Option<(f64, f64)>,
    fill: Fill,
    fill_bits: Vec<u64>,
}

/// What a compression is expected to give.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Estimate {
    /// Requested bound.
    pub bound: Bound,
    /// The bound in the unit of the values, or relative to each value for [`Bound::PwRel`]; 0 if lossless.
    pub abs_bound: f64,
    /// Effort.
    pub effort: Effort,
    /// Length of the whole array in bytes.
    pub uncompressed_bytes: u64,
    /// Expected length of the stream in bytes.
    pub compressed_bytes: u64,
    /// Bytes of the sample; all bytes of the array if it is small.
    pub sampled_bytes: u64,
    /// Peak signal-to-noise ratio of the sample in dB, with the range of the whole array as the peak.
    pub psnr: Option<f64>,
    /// Seconds in which the sample was compressed.
    pub compress_seconds: f64,
    /// Seconds in which it was decompressed.
    pub decompress_seconds: f64,
}

impl Estimate {
    /// Returns the uncompressed bytes divided by the expected compressed bytes.
    pub fn ratio(&self) -> f64 {
        self.uncompressed_bytes as f64 / self.compressed_bytes.max(1) as f64
    }

    /// Returns the bytes of the array that are compressed in a second.
    pub fn compress_speed(&self) -> f64 {
        self.sampled_bytes as f64 / self.compress_seconds.max(1e-9)
    }

    /// Returns the bytes of the array that are decompressed in a second.
    pub fn decompress_speed(&self) -> f64 {
        self.sampled_bytes as f64 / self.decompress_seconds.max(1e-9)
    }
}

impl Sample {
    /// Takes the sample of an array that starts at byte `offset` of a source. All elements are
    /// scanned for the value range and the fill values, which the fill option states.
    ///
    /// # Errors
    /// Those of [`compress_from`](crate::compress_from).
    pub fn of<S: ReadAt + ?Sized>(
        source: &S,
        offset: u64,
        element_type: ElementType,
        shape: Shape,
        options: &CompressOptions,
    ) -> Result<Self> {
        Self::of_at_most(SAMPLE_ELEMENTS, source, offset, element_type, shape, options)
    }

    /// Takes the sample as [`Sample::of`] does, but of at most `most` elements, or of one tile if that has more.
    ///
    /// # Errors
    /// Those of [`compress_from`](crate::compress_from).
    pub fn of_at_most<S: ReadAt + ?Sized>(
        most: u64,
        source: &S,
        offset: u64,
        element_type: ElementType,
        shape: Shape,
        options: &CompressOptions,
    ) -> Result<Self> {
        let pool = Pool::new(options.threads(), u64::MAX)?;
        let elements = ArraySource::new(source, offset, element_type);
        let most = match options.memory_limit() {
            // Beside the sample there are its stream and its reconstruction.
            Some(limit) => (limit / 8 / element_type.size() as u64).min(most),
            None => most,
        };
        let geometry = Geometry::with_tiles(shape, options.tile_size());
        let array = sample::take(&elements, element_type, &geometry, most)?;
        let mut sample =
            Self { array, elements: shape.len(), range: None, fill: options.fill(), fill_bits: Vec::new() };
        let empty = Scan::new(element_type, shape.len(), Bound::Rel(1.0), options.fill());
        let scan = scan_all(&elements, shape.len(), empty, &pool)?;
        sample.know(&scan)?;
        Ok(sample)
    }

    /// Takes over what was found in the whole array.
    fn know(&mut self, scan: &Scan) -> Result<()> {
        self.range = scan.range();
        self.fill_bits = scan.fill_bits();
        let value = |&bits: &u64| self.array.element_type().number_of_bits(bits);
        if self.fill == Fill::Auto {
            self.fill = Fill::of(&self.fill_bits.iter().map(value).collect::<Vec<f64>>())?;
        }
        Ok(())
    }

    /// Returns the elements of the sample. Their tiles are tiles of the array.
    pub fn array(&self) -> ArrayView<'_> {
        self.array.view()
    }

    /// Returns whether the sample is the whole array.
    pub fn is_whole(&self) -> bool {
        self.array.shape().len() == self.elements
    }

    /// Returns the smallest and largest finite value of the whole array that is not fill.
    pub fn range(&self) -> Option<(f64, f64)> {
        self.range
    }

    /// Estimates a compression on the CPU with these options.
    ///
    /// # Errors
    /// Returns the errors of [`compress`] and [`decompress`].
    pub fn estimate(&self, options: &CompressOptions) -> Result<Estimate> {
        let inner = self.options(options);
        let (stream, compress_seconds) = timed(|| compress(&self.array.view(), &inner))?;
        let decoding = DecompressOptions::default().with_backend(Backend::Cpu).with_threads(options.threads());
        let (back, decompress_seconds) = timed(|| decompress(&stream, &decoding))?;
        let size = self.array.element_type().size() as u64;
        Ok(Estimate {
            bound: options.bound(),
            abs_bound: inner.bound().value(),
            effort: options.effort(),
            uncompressed_bytes: self.elements * size,
            compressed_bytes: self.scaled(stream.len() as u64),
            sampled_bytes: self.array.bytes().len() as u64,
            psnr: self.psnr(&back, options.threads())?,
            compress_seconds,
            decompress_seconds,
        })
    }

    /// Returns the expected length of a stream with these options.
    fn stream_bytes(&self, options: &CompressOptions) -> Result<u64> {
        Ok(self.scaled(compress(&self.array.view(), &self.options(options))?.len() as u64))
    }

    /// Returns the options for the sample, whose bound is what that of the whole array comes to.
    fn options(&self, options: &CompressOptions) -> CompressOptions {
        let inner = sample::options_for(options, self.absolute(options.bound()), self.fill);
        match options.memory_limit() {
            Some(limit) => inner.with_memory_limit(beside_sample(limit)),
            None => inner,
        }
    }

    /// Returns a bound that means for the sample what `bound` means for the whole array.
    fn absolute(&self, bound: Bound) -> Bound {
        let extent = self.range.map_or(0.0, |(low, high)| high - low);
        let error = match bound {
            Bound::Rel(share) => share * extent,
            Bound::Psnr(decibels) => extent * 3f64.sqrt() * 10f64.powf(-decibels / 20.0),
            other => return other,
        };
        if self.is_whole() {
            bound
        } else if error > 0.0 && error.is_finite() {
            Bound::Abs(error)
        } else {
            Bound::Lossless
        }
    }

    /// Returns the length of the array's stream if that of the sample has this length.
    fn scaled(&self, length: u64) -> u64 {
        if self.is_whole() {
            return length;
        }
        let header = HEADER_LEN as u64;
        let share = self.elements as f64 / self.array.shape().len().max(1) as f64;
        header + ((length - header) as f64 * share) as u64
    }

    fn psnr(&self, back: &Array, threads: usize) -> Result<Option<f64>> {
        let criteria = Criteria {
            element_type: self.array.element_type(),
            // As one row, because the structural similarity is not needed.
            shape: Shape::new(&[self.array.shape().len()])?,
            fills: self.fill_bits.clone(),
            range: self.range,
            tolerance: Tolerance::Any,
        };
        let mut comparison = Comparison::new(criteria).with_threads(threads)?;
        comparison.push(self.array.bytes(), back.bytes())?;
        Ok(comparison.finish()?.psnr)
    }
}

/// Returns the part of a memory limit that is left beside a sample and its stream.
fn beside_sample(limit: u64) -> u64 {
    limit - limit / 4
}

/// Runs a piece of work a few times, and returns the result with the shortest time in seconds.
fn timed<T>(mut work: impl FnMut() -> Result<T>) -> Result<(T, f64)> {
    let begin = Instant::now();
    let mut best = f64::INFINITY;
    let mut runs = 0;
    loop {
        let start = Instant::now();
        let result = work()?;
        best = best.min(start.elapsed().as_secs_f64());
        runs += 1;
        if runs >= MOST_RUNS || begin.elapsed() >= ENOUGH_TIME {
            return Ok((result, best));
        }
    }
}
