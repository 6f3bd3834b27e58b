//! Compression that CUDA graphs can capture.

#![allow(unsafe_code, reason = "arrays of other libraries are device memory at raw pointers")]

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use syncline::gpu::{DeviceBytes, QueuedCompressor};
use syncline::{ElementType, Shape};

use super::import::DeviceInput;
use super::options::CudaOptions;
use super::raw_stream;
use crate::errors::exception;

/// Compresses arrays of one type and shape again and again on a CUDA stream of the caller, without waiting.
#[pyclass(frozen, module = "syncline._core")]
pub struct CudaQueuedCompressor {
    inner: Mutex<QueuedCompressor>,
    array: (ElementType, Shape),
    ordinal: usize,
    stream: usize,
    /// Keeps the object that owns the CUDA stream, if it is known. `inner` waits for this stream and frees its memory
    /// on it, and is dropped before, as it is declared first.
    _stream_owner: Option<Py<PyAny>>,
}

#[pymethods]
impl CudaQueuedCompressor {
    /// Prepares the compression of arrays of the type and the shape of `model`, on its device, on a CUDA stream, which
    /// must live as long as this object. `owner` is an object that keeps it alive.
    #[new]
    #[pyo3(signature = (model, options, stream, owner = None))]
    fn new(
        py: Python<'_>,
        model: &Bound<'_, PyAny>,
        options: &Bound<'_, CudaOptions>,
        stream: usize,
        owner: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let input = DeviceInput::new(model, Some(stream))?;
        let (ordinal, element, shape) = (input.ordinal, input.element, input.shape);
        let options = &options.get().options;
        let make = || {
            // SAFETY: the caller keeps the stream.
            unsafe { QueuedCompressor::new(ordinal, element, shape, options, raw_stream(stream)) }
        };
        let inner = Mutex::new(py.detach(make).map_err(exception)?);
        Ok(Self { inner, array: (element, shape), ordinal, stream, _stream_owner: owner })
    }

    /// Returns the type and the shape of the arrays.
    fn array(&self) -> (String, Vec<u64>) {
        let (element, shape) = self.array;
        (element.to_string(), shape.extents().to_vec())
    }

    /// Queues the compression of `array` to the start of `out`, and of the size of the stream to `size`.
    #[pyo3(signature = (array, out, size = None))]
    fn compress(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
        size: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let input = DeviceInput::new(array, Some(self.stream))?;
        let output = DeviceInput::writable(out, Some(self.stream))?;
        let size = size.map(|size| DeviceInput::writable(size, Some(self.stream))).transpose()?;
        if [Some(&input), Some(&output), size.as_ref()].into_iter().flatten().any(|part| part.ordinal != self.ordinal) {
            return Err(PyValueError::new_err(format!("the arrays must be on cuda:{}", self.ordinal)));
        }
        if (input.element, input.shape) != self.array {
            let (element, shape) = self.array;
            let text = format!(
                "the array has shape {} and type {}, but this compressor was made for {shape} and {element}",
                input.shape, input.element
            );
            return Err(PyValueError::new_err(text));
        }
        if let Some(size) = &size
            && (!matches!(size.element, ElementType::I64 | ElementType::U64) || size.shape.len() != 1)
        {
            let text = format!("size needs one element of int64 or uint64, not {} of {}", size.shape, size.element);
            return Err(PyValueError::new_err(text));
        }
        let (from, to, word): (DeviceBytes, DeviceBytes, _) = (input.bytes, output.bytes, size.map(|size| size.bytes));
        // SAFETY: the caller keeps all arrays, and this object, until the work is done, as the documentation of the
        // class asks for.
        py.detach(|| unsafe { self.lock().compress(from, to, word) }).map_err(exception)
    }

    /// Waits for the stream, and returns the size in bytes of what the last compression wrote.
    fn check(&self, py: Python<'_>) -> PyResult<u64> {
        py.detach(|| self.lock().check()).map_err(exception)
    }
}

impl CudaQueuedCompressor {
    /// Takes turns. Called only while the thread is detached from the interpreter.
    fn lock(&self) -> MutexGuard<'_, QueuedCompressor> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
