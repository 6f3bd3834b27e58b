//! Decompression that CUDA graphs can capture.

#![allow(unsafe_code, reason = "arrays of other libraries are device memory at raw pointers")]

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use syncline::gpu::{Decompressor, DeviceBytes};

use super::import::{DeviceInput, Owner};
use super::raw_stream;
use crate::errors::exception;
use crate::header_fields;

/// Decompresses one stream again and again on a CUDA stream of the caller, without waiting.
#[pyclass(frozen, module = "syncline._core")]
pub struct CudaDecompressor {
    inner: Mutex<Decompressor>,
    data: DeviceBytes,
    ordinal: usize,
    stream: usize,
    /// Keeps the compressed bytes.
    _owner: Owner,
    /// Keeps the object that owns the CUDA stream, if it is known. `inner` frees its memory on this stream, and is
    /// dropped before, as it is declared first.
    _stream_owner: Option<Py<PyAny>>,
}

#[pymethods]
impl CudaDecompressor {
    /// Prepares the decompression of a stream on the device on a CUDA stream, which must live as long as this object.
    /// `owner` is an object that keeps it alive.
    #[new]
    #[pyo3(signature = (data, stream, owner = None))]
    fn new(py: Python<'_>, data: &Bound<'_, PyAny>, stream: usize, owner: Option<Py<PyAny>>) -> PyResult<Self> {
        let input = DeviceInput::new(data, Some(stream))?;
        let (bytes, ordinal) = (input.bytes, input.ordinal);
        // SAFETY: `input` keeps the compressed bytes, also in this object; the caller keeps the stream.
        let inner = py.detach(|| unsafe { Decompressor::new(ordinal, bytes, raw_stream(stream)) });
        let inner = Mutex::new(inner.map_err(exception)?);
        Ok(Self { inner, data: bytes, ordinal, stream, _owner: input.into_owner(), _stream_owner: owner })
    }

    /// Returns the fields of the header.
    fn header<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let header = py.detach(|| self.lock().header().clone());
        header_fields(py, &header, self.data.len as u64)
    }

    /// Queues the decompression of `data`, by default the stream that the object was made for, to `out`.
    #[pyo3(signature = (out, data = None))]
    fn decompress(&self, py: Python<'_>, out: &Bound<'_, PyAny>, data: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let output = DeviceInput::writable(out, Some(self.stream))?;
        let input = data.map(|data| DeviceInput::new(data, Some(self.stream))).transpose()?;
        if output.ordinal != self.ordinal || input.as_ref().is_some_and(|input| input.ordinal != self.ordinal) {
            return Err(PyValueError::new_err(format!("the arrays must be on cuda:{}", self.ordinal)));
        }
        let (element, shape) = py.detach(|| {
            let inner = self.lock();
            (inner.header().element_type, inner.header().shape)
        });
        output.check_type(element, shape)?;
        let (from, to) = (input.as_ref().map_or(self.data, |input| input.bytes), output.bytes);
        // SAFETY: the caller keeps both arrays until the work is done, as the documentation of the class asks for; the
        // default input is kept by this object.
        py.detach(|| unsafe { self.lock().decompress(from, to) }).map_err(exception)
    }

    /// Waits for the stream, and raises an exception for damage that the last decompression found.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.lock().check()).map_err(exception)
    }
}

impl CudaDecompressor {
    /// Takes turns. Called only while the thread is detached from the interpreter.
    fn lock(&self) -> MutexGuard<'_, Decompressor> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
