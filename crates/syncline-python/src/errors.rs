//! Python exceptions for the library's errors.

use std::io;
use std::path::Path;

use pyo3::create_exception;
use pyo3::exceptions::{PyKeyboardInterrupt, PyMemoryError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use syncline::Error;

// The module is `syncline`, not `syncline._core`: that is where users and pickle look the classes up.
create_exception!(syncline, SynclineError, PyValueError, "A stream that Syncline cannot read.");
create_exception!(syncline, NotSynclineError, SynclineError, "The bytes are not a Syncline stream.");
create_exception!(syncline, UnsupportedVersionError, SynclineError, "A newer version of Syncline wrote the stream.");
create_exception!(syncline, TruncatedError, SynclineError, "The stream ends before its contents do.");
create_exception!(syncline, CorruptError, SynclineError, "The stream contradicts itself or one of its checksums.");
create_exception!(syncline, GpuError, PyRuntimeError, "The requested GPU cannot be used, or failed.");

/// Returns the exception for an error of the library.
pub fn exception(error: Error) -> PyErr {
    exception_in(error, None)
}

/// Returns the exception for a failure of the operating system, with its number and the name of the file: such as
/// `FileNotFoundError`. An exception that Python code raised inside of an operation is returned as it was.
pub fn os_error(error: io::Error, path: Option<&Path>) -> PyErr {
    if error.kind() == io::ErrorKind::OutOfMemory {
        return PyMemoryError::new_err("there is not enough memory: use fewer threads, or smaller arrays");
    }
    let Some(number) = error.raw_os_error() else { return error.into() };
    let text = error.to_string();
    let text = text.strip_suffix(&format!(" (os error {number})")).unwrap_or(&text).to_owned();
    match path {
        Some(path) => PyOSError::new_err((number, text, path.as_os_str().to_owned())),
        None => PyOSError::new_err((number, text)),
    }
}

/// Returns the exception for an error of the library in the work on a file.
pub fn exception_in(error: Error, path: Option<&Path>) -> PyErr {
    let text = error.to_string();
    match error {
        Error::NotSyncline { .. } => NotSynclineError::new_err(text),
        Error::UnsupportedVersion { .. } => UnsupportedVersionError::new_err(text),
        Error::Truncated { .. } => TruncatedError::new_err(text),
        Error::Corrupt { .. } => CorruptError::new_err(text),
        Error::MemoryLimit { .. } => PyMemoryError::new_err(text),
        Error::Gpu { .. } => GpuError::new_err(text),
        Error::Cancelled => PyKeyboardInterrupt::new_err(text),
        Error::Io(error) => os_error(error, path),
        Error::InvalidArgument { .. } => PyValueError::new_err(text),
        _ => PyOSError::new_err(text),
    }
}

/// Adds the exception classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("SynclineError", py.get_type::<SynclineError>())?;
    module.add("NotSynclineError", py.get_type::<NotSynclineError>())?;
    module.add("UnsupportedVersionError", py.get_type::<UnsupportedVersionError>())?;
    module.add("TruncatedError", py.get_type::<TruncatedError>())?;
    module.add("CorruptError", py.get_type::<CorruptError>())?;
    module.add("GpuError", py.get_type::<GpuError>())
}
