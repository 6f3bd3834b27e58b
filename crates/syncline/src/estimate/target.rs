//! The search for the bound with which a stream has a given length.

use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::Bound;
use syncline_core::error::{Error, Result};

use super::{Sample, beside_sample};
use crate::compress::compress_from;
use crate::io::ReadAt;
use crate::options::{CompressOptions, Progress};

/// The finest bound that is tried, relative to the value range.
pub const FINEST: f64 = 1e-12;
/// The coarsest bound that is tried, relative to the value range.
pub const COARSEST: f64 = 0.5;
/// A stream that has at least this part of the requested length is long enough.
const CLOSE: f64 = 0.98;
/// The search in the sample ends when the bound is known to this factor.
const PRECISION: f64 = 1.002;
/// How often the whole array is compressed to correct what the sample says.
const CHECKS: u32 = 6;

/// A bound that was searched for.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Found {
    /// The bound, relative to the value range.
    pub bound: Bound,
    /// The length of the array's stream with this bound.
    pub compressed_bytes: u64,
    /// How often the whole array was compressed in the search.
    pub checks: u32,
}

/// Searches for the smallest bound relative to the value range with which the stream has at most `target` bytes, and
/// at least 98 % of that if the array allows it. The bound of the options is not used.
///
/// The bound is bisected in a sample. Then the whole array is compressed, and the goal in the sample is corrected by
/// what that shows, up to six times.
///
/// # Errors
/// [`Error::InvalidArgument`] if even the bound [`COARSEST`] makes a longer stream; otherwise as [`compress_from`].
pub fn find_bound<S: ReadAt + ?Sized>(
    source: &S,
    offset: u64,
    element_type: ElementType,
    shape: Shape,
    options: &CompressOptions,
    target: u64,
) -> Result<Found> {
    let mut options = options.clone().with_bound(Bound::Rel(COARSEST));
    options.progress = Progress::default();
    options.bound().validate(element_type)?;
    let sample = Sample::of(source, offset, element_type, shape, &options)?;
    let whole = |share: f64| {
        let mut options = options.clone().with_bound(Bound::Rel(share));
        if let Some(limit) = options.memory_limit() {
            options = options.with_memory_limit(beside_sample(limit));
        }
        compress_from(source, offset, element_type, shape, &options, std::io::sink())
            .map(|summary| summary.compressed_bytes)
    };
    let mut search = Search { best: None, too_long: FINEST, checks: 0 };
    let mut goal = target;
    while search.checks < CHECKS && !search.is_close(target) {
        let (lower, upper) = (search.too_long, search.best.map_or(COARSEST, |(share, _)| share));
        if upper / lower <= PRECISION {
            break;
        }
        let (share, expected) = bisect(&sample, &options, goal, lower, upper)?;
        let length = whole(share)?;
        search.note(share, length, target);
        if share >= COARSEST && length > target {
            return Err(size_out_of_reach(target, length));
        }
        // A little less than the correction says, so that the next one fits.
        let correction = expected as f64 / length.max(1) as f64;
        goal = (target as f64 * correction * 0.997) as u64;
    }
    let (share, compressed_bytes) = match search.best {
        Some(best) => best,
        None => (COARSEST, whole(COARSEST)?),
    };
    if compressed_bytes > target {
        return Err(size_out_of_reach(target, compressed_bytes));
    }
    Ok(Found { bound: Bound::Rel(share), compressed_bytes, checks: search.checks })
}

/// What compressing the whole array has shown.
struct Search {
    /// The finest bound so far whose stream is short enough, and its length.
    best: Option<(f64, u64)>,
    /// The coarsest bound whose stream is too long.
    too_long: f64,
    checks: u32,
}

impl Search {
    fn note(&mut self, share: f64, length: u64, target: u64) {
        self.checks += 1;
        if length > target {
            self.too_long = self.too_long.max(share);
        } else if self.best.is_none_or(|(best, _)| share < best) {
            self.best = Some((share, length));
        }
    }

    fn is_close(&self, target: u64) -> bool {
        self.best.is_some_and(|(share, length)| length as f64 >= CLOSE * target as f64 || share <= FINEST)
    }
}

/// Returns the smallest bound between two with which the sample promises a stream of at most `goal` bytes, and what it
/// promises; the coarser one if none does.
fn bisect(sample: &Sample, options: &CompressOptions, goal: u64, lower: f64, upper: f64) -> Result<(f64, u64)> {
    let length = |share: f64| sample.stream_bytes(&options.clone().with_bound(Bound::Rel(share)));
    // The stream is too long at the finer end.
    let (mut fine, mut coarse) = (lower, upper);
    let mut found = None;
    while coarse / fine > PRECISION {
        let middle = (fine * coarse).sqrt();
        let expected = length(middle)?;
        if expected > goal {
            fine = middle;
        } else {
            (coarse, found) = (middle, Some(expected));
            if expected as f64 >= 0.995 * goal as f64 {
                break;
            }
        }
    }
    Ok((
        coarse,
        match found {
            Some(expected) => expected,
            None => length(coarse)?,
        },
    ))
}

fn size_out_of_reach(target: u64, least: u64) -> Error {
    Error::invalid(format!(
        "a stream of {target} bytes cannot be reached: with the coarsest bound, {COARSEST} of the value range, it has \
         {least} bytes: allow more bytes, or leave out elements"
    ))
}
