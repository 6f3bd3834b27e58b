//! Arrays of larger files as temporary `.npy` files.

use std::fs::File;
use std::io::{self, Write};

use syncline::{ElementType, Shape};

use crate::message::{Failure, Outcome};
use crate::npy;

/// Returns a temporary `.npy` file for an array of this type and shape, with its header. The caller appends the
/// elements. `shown` names the array in messages.
pub(super) fn create(element_type: ElementType, shape: Shape, shown: &str) -> Outcome<File> {
    let header = npy::write_header(element_type, shape).ok_or_else(|| {
        Failure::data(format!("{shown}: has bfloat16 elements, which cannot be read from here: store it as float32"))
    })?;
    let mut file = tempfile::tempfile().map_err(|error| unwritten(&error))?;
    file.write_all(&header).map_err(|error| unwritten(&error))?;
    Ok(file)
}

/// Returns the failure of writing to a temporary file.
pub(super) fn unwritten(error: &io::Error) -> Failure {
    Failure::io("a temporary file", error)
}
