//! What a bound would cost, from a sample of an array.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use syncline::estimate::Sample;
use syncline::{ArrayView, ElementType, Shape};

use crate::arguments::Choices;
use crate::buffers::Input;
use crate::progress;

/// Compresses a sample of at most `most` elements of an array, and returns what the whole array is expected to give.
#[pyfunction]
pub fn estimate<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    dtype: &str,
    shape: Vec<u64>,
    choices: &Bound<'py, PyDict>,
    most: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let (data, choices) = (Input::new(data)?, Choices::of(choices)?);
    let found = progress::run(py, data.bytes().len(), None, None, |_| {
        let array = ArrayView::from_bytes(data.bytes(), dtype.parse::<ElementType>()?, Shape::new(&shape)?)?;
        let options = choices.options()?;
        Sample::of_at_most(most, array.bytes(), 0, array.element_type(), array.shape(), &options)?.estimate(&options)
    })?;
    let fields = PyDict::new(py);
    fields.set_item("compressed_bytes", found.compressed_bytes)?;
    fields.set_item("ratio", found.ratio())?;
    fields.set_item("nbytes", found.uncompressed_bytes)?;
    fields.set_item("sampled_bytes", found.sampled_bytes)?;
    fields.set_item("psnr", found.psnr.filter(|decibels| decibels.is_finite()))?;
    fields.set_item("compress_seconds", found.compress_seconds)?;
    fields.set_item("decompress_seconds", found.decompress_seconds)?;
    Ok(fields)
}
