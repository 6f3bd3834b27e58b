//! Partial streams, for stores in which each read is a request.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use syncline::{Error, ReadAt, SparseBytes, StreamFile};

use crate::arguments::{MemoryLimit, Threads};
use crate::buffers::{Input, Output};
use crate::errors::exception;
use crate::{decompress_options, decompress_part, header_fields, ranges_of};

/// A stream whose bytes are added as they are needed: first its start, and its end if it has several chunks, then its
/// chunk table, then those of a region.
#[pyclass(frozen, module = "syncline._core")]
pub struct PartialStream(Mutex<State>);

enum State {
    /// The chunk table is not known yet. `None` only while it is being opened.
    Ends(Option<Box<SparseBytes>>),
    Open(Box<StreamFile<SparseBytes>>),
}

#[pymethods]
impl PartialStream {
    /// Number of bytes at the start of a stream that `head` must have.
    #[classattr]
    const HEAD_BYTES: usize = SparseBytes::HEAD_BYTES;

    /// Takes the first and the last bytes of a stream.
    #[new]
    fn new(head: &Bound<'_, PyAny>, tail: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (head, tail) = (Input::new(head)?, Input::new(tail)?);
        let bytes = SparseBytes::from_ends(head.bytes().to_vec(), tail.bytes().to_vec()).map_err(exception)?;
        Ok(Self(Mutex::new(State::Ends(Some(Box::new(bytes))))))
    }

    /// Takes the first bytes of a stream. Returns None if the last ones are needed, too.
    #[staticmethod]
    fn from_head(head: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let head = Input::new(head)?;
        let bytes = SparseBytes::from_head(head.bytes().to_vec()).map_err(exception)?;
        Ok(bytes.map(|bytes| Self(Mutex::new(State::Ends(Some(Box::new(bytes)))))))
    }

    /// Returns the range of bytes that must be added before regions can be read, or None.
    fn missing(&self) -> Option<(u64, u64)> {
        match &*self.state() {
            State::Ends(Some(bytes)) => bytes.missing().map(|range| (range.start, range.end)),
            _ => None,
        }
    }

    /// Adds bytes that start at an offset of the stream.
    fn add(&self, offset: u64, bytes: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = Input::new(bytes)?.bytes().to_vec();
        match &mut *self.state() {
            State::Ends(Some(pieces)) => pieces.insert(offset, bytes),
            State::Ends(None) => {}
            State::Open(stream) => stream.source_mut().insert(offset, bytes),
        }
        Ok(())
    }

    /// Returns the fields of the header.
    fn header<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match &*self.state() {
            State::Ends(None) => Err(exception(unusable())),
            State::Ends(Some(bytes)) => header_fields(py, bytes.header(), bytes.size()?),
            State::Open(stream) => header_fields(py, stream.header(), stream.source().size()?),
        }
    }

    /// Returns the ranges of bytes that must be added before a region can be read. When they are added, there may be
    /// others; none if it can be read.
    fn missing_ranges(&self, region: Vec<(u64, u64)>) -> PyResult<Vec<(u64, u64)>> {
        let mut state = self.state();
        let ranges = state.open().and_then(|stream| stream.missing_ranges(&ranges_of(region))).map_err(exception)?;
        Ok(ranges.into_iter().map(|range| (range.start, range.end)).collect())
    }

    /// Decompresses a region, whose bytes were added, into a writable C-contiguous buffer.
    #[pyo3(signature = (out, region, *, threads = Threads(1), device = "cpu"))]
    fn decompress_into(
        &self,
        py: Python<'_>,
        out: &Bound<'_, PyAny>,
        region: Vec<(u64, u64)>,
        threads: Threads,
        device: &str,
    ) -> PyResult<()> {
        let mut out = Output::new(out)?;
        let bytes = out.bytes_mut();
        py.detach(|| {
            let mut state = self.state();
            let options = decompress_options(threads, device, MemoryLimit(None))?;
            decompress_part(state.open()?, bytes, Some(region), &options)
        })
        .map_err(exception)
    }
}

impl PartialStream {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the stream, and opens it first with the bytes read so far if necessary.
    fn open(&mut self) -> syncline::Result<&mut StreamFile<SparseBytes>> {
        if let Self::Ends(bytes) = self {
            let bytes = bytes.take().ok_or_else(unusable)?;
            *self = Self::Open(Box::new(StreamFile::open(*bytes)?));
        }
        match self {
            Self::Open(stream) => Ok(stream),
            Self::Ends(_) => Err(unusable()),
        }
    }
}

/// Returns the error for a stream that could not be opened with the bytes that were added.
fn unusable() -> Error {
    Error::invalid("the stream could not be opened: create the object anew with all missing bytes")
}
