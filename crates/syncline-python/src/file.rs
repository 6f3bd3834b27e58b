//! Streams in files, of which only the needed parts are read.

use std::fs;
use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use syncline::StreamFile;

use crate::buffers::Output;
use crate::errors::exception;
use crate::{decompress_options, decompress_part, header_fields, progress};

/// A stream in a file.
#[pyclass(frozen, module = "syncline._core")]
pub struct File {
    stream: StreamFile<fs::File>,
    bytes: u64,
}

#[pymethods]
impl File {
    /// Opens a file and reads its header and chunk table.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| {
            let file = fs::File::open(path)?;
            let bytes = file.metadata()?.len();
            Ok(Self { stream: StreamFile::open(file)?, bytes })
        })
        .map_err(exception)
    }

    /// Returns the fields of the header.
    fn header<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        header_fields(py, self.stream.header(), self.bytes)
    }

    /// Decompresses a region, or the whole array, into a writable C-contiguous buffer.
    #[pyo3(signature = (out, region = None, *, threads = 0, device = "auto", memory_limit = None, progress = None))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of a Python method")]
    fn decompress_into(
        &self,
        py: Python<'_>,
        out: &Bound<'_, PyAny>,
        region: Option<Vec<(u64, u64)>>,
        threads: usize,
        device: &str,
        memory_limit: Option<u64>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let mut out = Output::new(out)?;
        let bytes = out.bytes_mut();
        progress::run(py, progress.as_ref(), |hook| {
            let options = decompress_options(threads, device, memory_limit)?.with_progress(hook.callback());
            decompress_part(&self.stream, bytes, region, &options)
        })
    }
}
