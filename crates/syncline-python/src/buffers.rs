//! Memory of Python objects that support the buffer protocol.

#![allow(unsafe_code, reason = "the buffer protocol hands out raw pointers")]

use std::io;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use syncline::ReadAt;

/// The bytes of a C-contiguous object, which stay valid while the interpreter is detached.
///
/// Unless the object is `bytes`, Python code on other threads can write to the memory at the same time. As a source of
/// a stream it is then not decoded in place: each record is copied before its checksum is compared, so that a change is
/// an error of the checksum.
pub struct Input {
    buffer: PyUntypedBuffer,
    /// Whether nothing changes the bytes.
    is_constant: bool,
}

impl Input {
    /// Requests the buffer of an object.
    ///
    /// # Errors
    /// `ValueError` if it is not C-contiguous, `BufferError` or `TypeError` if the object has no buffer.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(PyValueError::new_err("the buffer is not C-contiguous: pass numpy.ascontiguousarray(...)"));
        }
        Ok(Self { buffer, is_constant: object.is_instance_of::<PyBytes>() })
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        match self.buffer.len_bytes() {
            0 => &[],
            // SAFETY: the exporter keeps `len_bytes` contiguous bytes at `buf_ptr` until the buffer is released.
            length => unsafe { std::slice::from_raw_parts(self.buffer.buf_ptr().cast(), length) },
        }
    }
}

impl ReadAt for Input {
    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.bytes().read_exact_at(buffer, offset)
    }

    fn in_memory(&self) -> Option<&[u8]> {
        self.is_constant.then(|| self.bytes())
    }
}

/// The bytes of a writable, C-contiguous object.
pub struct Output(Input);

impl Output {
    /// Requests the writable buffer of an object.
    ///
    /// # Errors
    /// `ValueError` if it is read-only, and those of [`Input::new`].
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let input = Input::new(object)?;
        if input.buffer.readonly() {
            return Err(PyValueError::new_err("the output is read-only"));
        }
        Ok(Self(input))
    }

    /// Returns the bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self.0.buffer.len_bytes() {
            0 => &mut [],
            // SAFETY: as in `Input::bytes`; the exporter said that the memory is writable, and `&mut self` keeps this
            // the only slice that Rust has of it.
            length => unsafe { std::slice::from_raw_parts_mut(self.0.buffer.buf_ptr().cast(), length) },
        }
    }
}
