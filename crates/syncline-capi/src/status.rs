//! Error codes, their names, and the boundary that no panic crosses.

#![allow(unsafe_code, reason = "exported C functions")]

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use syncline::Error;

use crate::context::syncline_context;

/// What went wrong, as `syncline_error_code` returns it. A number keeps its meaning in all later versions.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "numbers that the library's error kinds are converted to, named for C programs")]
pub enum syncline_error {
    /// No error.
    SYNCLINE_OK = 0,
    /// An argument or option is invalid.
    SYNCLINE_ERROR_INVALID_ARGUMENT = 1,
    /// The data are not a Syncline stream.
    SYNCLINE_ERROR_NOT_SYNCLINE = 2,
    /// A newer version of Syncline wrote the stream.
    SYNCLINE_ERROR_UNSUPPORTED_VERSION = 3,
    /// The stream ends too early.
    SYNCLINE_ERROR_TRUNCATED = 4,
    /// The stream is damaged.
    SYNCLINE_ERROR_CORRUPT = 5,
    /// The work needs more memory than `memory_limit`.
    SYNCLINE_ERROR_MEMORY_LIMIT = 6,
    /// The GPU cannot be used, or its work failed.
    SYNCLINE_ERROR_GPU = 7,
    /// The progress callback cancelled the work.
    SYNCLINE_ERROR_CANCELLED = 8,
    /// Reading or writing failed.
    SYNCLINE_ERROR_IO = 9,
    /// The output buffer is too small for the stream.
    SYNCLINE_ERROR_OUTPUT_TOO_SMALL = 10,
    /// A defect of the library.
    SYNCLINE_ERROR_INTERNAL = 11,
}

/// Results above this value are errors: the negative of the error's number.
const LAST_SIZE: usize = usize::MAX - 64;

/// An error and its message.
pub struct Failure {
    code: u32,
    message: String,
}

impl Failure {
    /// Makes an error about an argument.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { code: syncline_error::SYNCLINE_ERROR_INVALID_ARGUMENT as u32, message: message.into() }
    }

    /// Makes an error about an output buffer of `available` bytes.
    pub fn too_small(needed: u64, available: usize) -> Self {
        let message = format!("the output needs {needed} bytes, but its buffer has {available}");
        Self { code: syncline_error::SYNCLINE_ERROR_OUTPUT_TOO_SMALL as u32, message }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { code: error.kind().code(), message: error.to_string() }
    }
}

/// Runs `work`, and returns its size or its error as a C function does. A panic becomes an internal error. The message
/// of an error goes to `context`.
///
/// # Safety
/// `context` is null or a live context that no other thread uses.
pub unsafe fn guard(context: *mut syncline_context, work: impl FnOnce() -> Result<usize, Failure>) -> usize {
    // A panic leaves behind at most a partly written output, whose contents are unspecified after an error.
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let message = "a defect of Syncline: please report it".to_owned();
        Err(Failure { code: syncline_error::SYNCLINE_ERROR_INTERNAL as u32, message })
    });
    match result {
        Ok(size) if size <= LAST_SIZE => size,
        Ok(_) => (syncline_error::SYNCLINE_ERROR_INVALID_ARGUMENT as usize).wrapping_neg(),
        Err(failure) => {
            // SAFETY: that of this function.
            if let Some(context) = unsafe { context.as_mut() } {
                context.set_message(failure.message);
            }
            (failure.code as usize).wrapping_neg()
        }
    }
}

/// Returns the number of the error in `result`; 0 if it is a size.
fn code(result: usize) -> u32 {
    if result > LAST_SIZE { result.wrapping_neg() as u32 } else { 0 }
}

/// Returns 1 if `result` is an error, and 0 if it is a size.
#[unsafe(no_mangle)]
pub extern "C" fn syncline_is_error(result: usize) -> c_int {
    c_int::from(result > LAST_SIZE)
}

/// Returns the number of the error in `result`, one of `enum syncline_error`; `SYNCLINE_OK` if it is a size.
#[unsafe(no_mangle)]
pub extern "C" fn syncline_error_code(result: usize) -> c_int {
    code(result) as c_int
}

/// Returns a short constant description of the error in `result`, such as "damaged stream". Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn syncline_error_name(result: usize) -> *const c_char {
    let name = match code(result) {
        0 => c"no error",
        1 => c"invalid argument",
        2 => c"not a Syncline stream",
        3 => c"unsupported format version",
        4 => c"truncated stream",
        5 => c"damaged stream",
        6 => c"memory limit exceeded",
        7 => c"GPU error",
        8 => c"cancelled",
        9 => c"input or output error",
        10 => c"output buffer too small",
        11 => c"internal error",
        _ => c"unknown error",
    };
    name.as_ptr()
}
