//! Bounds of pieces that are compressed apart.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use syncline::{ElementType, Error};
use syncline_core::bound::{PieceBound, Scaling, Scan};

use crate::arguments::Choices;
use crate::buffers::Input;
use crate::errors::exception;

/// Returns the mode and the value of the bound for a piece, and its fill values. A bound relative to the range refers
/// to the elements in `data`, a little-endian buffer.
#[pyfunction]
pub fn resolve_piece(
    data: &Bound<'_, PyAny>,
    dtype: &str,
    choices: &Bound<'_, PyDict>,
) -> PyResult<(&'static str, f64, Vec<f64>)> {
    let (data, choices) = (Input::new(data)?, Choices::of(choices)?);
    let resolve = || {
        let (element, options): (ElementType, _) = (dtype.parse()?, choices.options()?);
        let count = (data.bytes().len() / element.size()) as u64;
        PieceBound::resolve(element, count, options.bound(), Scaling::default(), options.fill(), |mut scan: Scan| {
            scan.add(0, data.bytes());
            Ok::<_, Error>(scan)
        })
    };
    let resolved = resolve().map_err(exception)?;
    Ok((resolved.bound.name(), resolved.bound.value(), resolved.fills))
}
