//! The search for the bound with which a stream has a given length.

use std::io;

use syncline::{Bound, CompressOptions, compress_from};

use crate::args::COARSEST;
use crate::format::{bytes, number};
use crate::input::ArrayInput;
use crate::message::{Failure, Outcome};

/// The finest bound that is tried.
const FINEST: f64 = 1e-12;
/// A stream that is at least this part of the target is long enough.
const CLOSE: f64 = 0.98;
/// The search ends when the bound is known to this factor.
const PRECISION: f64 = 1.002;

/// Returns the smallest bound relative to the value range with which the stream has at most `target` bytes.
pub fn bound(array: &ArrayInput, target: u64, options: &CompressOptions) -> Outcome<Bound> {
    let length = |part: f64| {
        let options = options.clone().with_bound(Bound::Rel(part));
        compress_from(&array.input, array.offset, array.element_type, array.shape, &options, io::sink())
            .map(|summary| summary.compressed_bytes)
            .map_err(|error| Failure::of(&array.input, error))
    };
    let least = length(COARSEST)?;
    if least > target {
        return Err(Failure::data(format!(
            "{}: a stream of {} cannot be reached: with the coarsest bound, --rel {}, it has {}",
            array.input,
            bytes(target),
            number(COARSEST),
            bytes(least)
        )));
    }
    // The stream is too long at the finer end, and short enough at the coarser one.
    let (mut fine, mut coarse) = (FINEST, COARSEST);
    while coarse / fine > PRECISION {
        let middle = (fine * coarse).sqrt();
        let found = length(middle)?;
        if found > target {
            fine = middle;
        } else {
            coarse = middle;
            if found as f64 >= CLOSE * target as f64 {
                break;
            }
        }
    }
    Ok(Bound::Rel(coarse))
}
