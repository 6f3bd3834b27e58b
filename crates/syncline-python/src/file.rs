//! Streams of which only the needed parts are read.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use syncline::{ReadAt, StreamFile};

use crate::arguments::{MemoryLimit, Threads};
use crate::buffers::Output;
use crate::errors::exception_in;
use crate::source::Source;
use crate::{decompress_options, decompress_part, header_fields, progress};

/// A stream in a file, in memory, or in a file object.
#[pyclass(frozen, module = "syncline._core")]
pub struct File {
    /// `None` when it is closed. Calls that are under way keep the stream.
    stream: Mutex<Option<Arc<StreamFile<Source>>>>,
}

#[pymethods]
impl File {
    /// Opens a file and reads its header and chunk table.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Self::of(py, Source::of_path(py, path)?)
    }

    /// Opens a stream in memory.
    #[staticmethod]
    fn of_buffer(py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of(py, Source::of_buffer(data)?)
    }

    /// Opens a stream in a file object, which stays the caller's to close.
    #[staticmethod]
    fn of_object(py: Python<'_>, object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::of(py, Source::of_object(object)?)
    }

    /// Returns the fields of the header.
    fn header<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stream = self.stream()?;
        header_fields(py, stream.header(), stream.source().size()?)
    }

    /// Decompresses a region, or the whole array, into a writable C-contiguous buffer.
    #[pyo3(signature = (
        out, region = None, *, threads = Threads(0), device = "auto", memory_limit = MemoryLimit(None), progress = None
    ))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of a Python method")]
    fn decompress_into(
        &self,
        py: Python<'_>,
        out: &Bound<'_, PyAny>,
        region: Option<Vec<(u64, u64)>>,
        threads: Threads,
        device: &str,
        memory_limit: MemoryLimit,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let stream = self.stream()?;
        let mut out = Output::new(out)?;
        let bytes = out.bytes_mut();
        let path = stream.source().path();
        progress::run(py, bytes.len(), progress.as_ref(), path, |hook| {
            let options = decompress_options(threads, device, memory_limit)?.with_progress(hook.callback());
            decompress_part(&stream, bytes, region, &options)
        })
    }

    /// Closes the file. Later calls are errors.
    fn close(&self, py: Python<'_>) {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(stream));
    }

    /// Whether the file is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl File {
    fn of(py: Python<'_>, source: Source) -> PyResult<Self> {
        let path = source.path().map(Path::to_owned);
        match py.detach(|| StreamFile::open(source)) {
            Ok(stream) => Ok(Self { stream: Mutex::new(Some(Arc::new(stream))) }),
            Err(error) => Err(exception_in(error, path.as_deref())),
        }
    }

    fn stream(&self) -> PyResult<Arc<StreamFile<Source>>> {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner).clone();
        stream.ok_or_else(|| PyValueError::new_err("the stream is closed: open it again"))
    }
}
