//! The search for the bound with which a stream has a given length.

use serde_json::{Value, json};
use syncline::estimate::{Found, find_bound};
use syncline::{CompressOptions, Error};

use crate::format::{counted, percent};
use crate::input::ArrayInput;
use crate::message::{Failure, Outcome};

/// Returns the smallest bound relative to the value range with which the stream has at most `target` bytes.
pub fn find(array: &ArrayInput, target: u64, options: &CompressOptions) -> Outcome<Found> {
    let found = find_bound(&array.input, array.offset, array.element_type, array.shape, options, target);
    found.map_err(|error| match error {
        // A size that the data do not allow is no problem of the command line alone.
        Error::InvalidArgument(text) if text.contains("cannot be reached") => {
            Failure::data(format!("{}: {text}", array.input))
        }
        other => Failure::of(&array.input, other),
    })
}

/// What was asked for, and what was found.
pub struct Reached {
    /// The most bytes that the stream may have.
    pub target: u64,
    /// The bound.
    pub found: Found,
}

impl Reached {
    /// Returns the result as a line of text.
    pub fn line(&self) -> String {
        let Found { bound, compressed_bytes, checks, .. } = self.found;
        format!(
            "  reached {} of at most {} ({}) with --rel {:?}; the array was compressed {} to find it",
            counted(compressed_bytes, "byte"),
            counted(self.target, "byte"),
            percent(compressed_bytes, self.target),
            bound.value(),
            counted(checks, "time")
        )
    }

    /// Returns the result as JSON.
    pub fn json(&self) -> Value {
        json!({ "target": {
            "bytes": self.target,
            "reached_bytes": self.found.compressed_bytes,
            "rel": self.found.bound.value(),
            "compressions": self.found.checks,
        } })
    }
}
