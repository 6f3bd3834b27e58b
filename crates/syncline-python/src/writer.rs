//! Streams that are written to a file as their elements come.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use syncline::{ElementType, Shape};

use crate::Choices;
use crate::buffers::Input;
use crate::errors::exception;

/// Compresses elements that are appended in C order.
#[pyclass(frozen, module = "syncline._core")]
pub struct Writer(Mutex<Option<syncline::Writer<BufWriter<File>>>>);

#[pymethods]
impl Writer {
    /// Creates the file and writes the header of an array of this type and shape. `range` has the smallest and the
    /// largest value of the whole array, which bounds relative to the range need.
    #[new]
    #[pyo3(signature = (path, dtype, shape, choices, range = None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        dtype: &str,
        shape: Vec<u64>,
        choices: Choices,
        range: Option<(f64, f64)>,
    ) -> PyResult<Self> {
        py.detach(|| {
            let (element, shape, options) = (dtype.parse::<ElementType>()?, Shape::new(&shape)?, choices.options()?);
            let sink = BufWriter::new(File::create(path)?);
            match range {
                Some((low, high)) => syncline::Writer::with_range(sink, element, shape, &options, low, high),
                None => syncline::Writer::new(sink, element, shape, &options),
            }
        })
        .map(|writer| Self(Mutex::new(Some(writer))))
        .map_err(exception)
    }

    /// Compresses the next elements, a C-contiguous little-endian buffer.
    fn append(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = Input::new(data)?;
        py.detach(|| match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(writer) => writer.push(data.bytes()).map_err(exception),
            None => Err(PyValueError::new_err("the writer is closed")),
        })
    }

    /// Writes the remaining data. All elements must have been appended.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| match self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(writer) => {
                let sink = writer.finish().map_err(exception)?;
                Ok(sink.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?)
            }
            None => Ok(()),
        })
    }

    /// Gives up: the file holds no stream.
    fn abandon(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
