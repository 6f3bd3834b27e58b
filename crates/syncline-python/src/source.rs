//! Where a stream is read from: a file, memory, or a file object of Python.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use syncline::ReadAt;

use crate::buffers::Input;
use crate::errors::os_error;

/// A source of a stream.
pub enum Source {
    File(fs::File, PathBuf),
    Memory(Input),
    Object(Object),
}

/// A file object of Python: anything that seeks and reads bytes.
pub struct Object {
    object: Py<PyAny>,
    bytes: u64,
    /// Held from a seek to its read. It is taken without the interpreter, which a thread that waits must not hold.
    turn: Mutex<()>,
}

impl Source {
    /// Opens a file.
    ///
    /// # Errors
    /// `OSError` with the number and the name.
    pub fn of_path(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        match py.detach(|| fs::File::open(&path)) {
            Ok(file) => Ok(Self::File(file, path)),
            Err(error) => Err(os_error(error, Some(&path))),
        }
    }

    /// Takes the bytes of an object with a buffer.
    ///
    /// # Errors
    /// Those of [`Input::new`].
    pub fn of_buffer(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Input::new(object).map(Self::Memory)
    }

    /// Takes a file object, and finds its length.
    ///
    /// # Errors
    /// What its methods raise.
    pub fn of_object(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if object.call_method0("seekable").is_ok_and(|seekable| seekable.is_truthy().is_ok_and(|seekable| !seekable)) {
            return Err(PyValueError::new_err("the file object cannot seek: pass its bytes to syncline.decompress"));
        }
        let bytes = object.call_method1("seek", (0, 2))?.extract()?;
        Ok(Self::Object(Object { object: object.clone().unbind(), bytes, turn: Mutex::new(()) }))
    }

    /// Returns the path of a file.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(_, path) => Some(path),
            _ => None,
        }
    }
}

impl ReadAt for Source {
    fn size(&self) -> io::Result<u64> {
        match self {
            Self::File(file, _) => file.size(),
            Self::Memory(input) => input.size(),
            Self::Object(object) => Ok(object.bytes),
        }
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Self::File(file, _) => file.read_exact_at(buffer, offset),
            Self::Memory(input) => input.read_exact_at(buffer, offset),
            Self::Object(object) => object.read_exact_at(buffer, offset),
        }
    }

    fn in_memory(&self) -> Option<&[u8]> {
        match self {
            Self::Memory(input) => input.in_memory(),
            _ => None,
        }
    }
}

impl Object {
    /// Fills `buffer`. Must not be called while the interpreter is held.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // An exception of the object is kept in the error, and raised at the end.
        Ok(Python::attach(|py| self.read_attached(py, buffer, offset))?)
    }

    fn read_attached(&self, py: Python<'_>, buffer: &mut [u8], offset: u64) -> PyResult<()> {
        let object = self.object.bind(py);
        object.call_method1("seek", (offset,))?;
        let mut rest = buffer;
        while !rest.is_empty() {
            let part = object.call_method1("read", (rest.len(),))?;
            let part = part.cast::<PyBytes>().map_err(|_| {
                PyTypeError::new_err("the file object does not read bytes: open the file in binary mode (\"rb\")")
            })?;
            let part = part.as_bytes();
            if part.is_empty() || part.len() > rest.len() {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            let (done, left) = rest.split_at_mut(part.len());
            done.copy_from_slice(part);
            rest = left;
        }
        Ok(())
    }
}
