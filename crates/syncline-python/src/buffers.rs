//! Memory of Python objects that support the buffer protocol.

#![allow(unsafe_code, reason = "the buffer protocol hands out raw pointers")]

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The bytes of a C-contiguous object, which stay valid while the interpreter is detached.
///
/// Python code on other threads can write to the memory at the same time. The library reads each byte of its input
/// through checks that do not assume that two reads agree, so such a race can spoil the result but not memory safety.
pub struct Input(PyUntypedBuffer);

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
        Ok(Self(buffer))
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        match self.0.len_bytes() {
            0 => &[],
            // SAFETY: the exporter keeps `len_bytes` contiguous bytes at `buf_ptr` until `self.0` is released.
            length => unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), length) },
        }
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
        if input.0.readonly() {
            return Err(PyValueError::new_err("the output is read-only"));
        }
        Ok(Self(input))
    }

    /// Returns the bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self.0.0.len_bytes() {
            0 => &mut [],
            // SAFETY: as in `Input::bytes`; the exporter said that the memory is writable, and `&mut self` keeps this
            // the only slice that Rust has of it.
            length => unsafe { std::slice::from_raw_parts_mut(self.0.0.buf_ptr().cast(), length) },
        }
    }
}
