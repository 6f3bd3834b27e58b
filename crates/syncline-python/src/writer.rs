//! Streams that are written to a file, at once or as their elements come.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use syncline::{AtomicFile, ElementType, Error, Result, Shape};

use crate::arguments::Choices;
use crate::buffers::Input;
use crate::errors::exception_in;

/// Writes a stream to a file, which appears when it is complete.
#[pyfunction]
pub fn save(py: Python<'_>, path: PathBuf, stream: &Bound<'_, PyAny>) -> PyResult<()> {
    let stream = Input::new(stream)?;
    let write = || -> Result<()> {
        let mut file = AtomicFile::create(&path, true, None)?;
        file.write_all(stream.bytes())?;
        Ok(file.commit()?)
    };
    py.detach(write).map_err(|error| exception_in(error, Some(&path)))
}

/// Compresses elements that are appended in C order.
#[pyclass(frozen, module = "syncline._core")]
pub struct Writer {
    path: PathBuf,
    /// `None` after the end.
    writer: Mutex<Option<syncline::Writer<BufWriter<AtomicFile>>>>,
}

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
        choices: &Bound<'_, PyDict>,
        range: Option<(f64, f64)>,
    ) -> PyResult<Self> {
        let choices = Choices::of(choices)?;
        let make = || {
            let (element, shape, options) = (dtype.parse::<ElementType>()?, Shape::new(&shape)?, choices.options()?);
            let sink = BufWriter::new(AtomicFile::create(&path, true, None)?);
            match range {
                Some((low, high)) => syncline::Writer::with_range(sink, element, shape, &options, low, high),
                None => syncline::Writer::new(sink, element, shape, &options),
            }
        };
        match py.detach(make) {
            Ok(writer) => Ok(Self { path, writer: Mutex::new(Some(writer)) }),
            Err(error) => Err(exception_in(error, Some(&path))),
        }
    }

    /// Compresses the next elements, a C-contiguous little-endian buffer.
    fn append(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = Input::new(data)?;
        py.detach(|| match &mut *self.writer.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(writer) => writer.push(data.bytes()).map_err(|error| self.exception(error)),
            None => Err(PyValueError::new_err("the writer is closed")),
        })
    }

    /// Writes the remaining data, and gives the file its name. All elements must have been appended.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
            writer.map_or(Ok(()), complete).map_err(|error| self.exception(error))
        })
    }

    /// Gives up: no file appears.
    fn abandon(&self, py: Python<'_>) {
        py.detach(|| drop(self.writer.lock().unwrap_or_else(PoisonError::into_inner).take()));
    }
}

impl Writer {
    fn exception(&self, error: Error) -> PyErr {
        exception_in(error, Some(&self.path))
    }
}

fn complete(writer: syncline::Writer<BufWriter<AtomicFile>>) -> Result<()> {
    let sink = writer.finish()?;
    Ok(sink.into_inner().map_err(std::io::IntoInnerError::into_error)?.commit()?)
}
