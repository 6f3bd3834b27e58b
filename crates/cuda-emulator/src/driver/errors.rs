//! Result codes of the driver's functions.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The result of a part of a driver function.
pub type Result<T> = std::result::Result<T, Code>;

macro_rules! codes {
    ($($variant:ident = $number:literal, $name:literal, $text:literal;)*) => {
        /// Error codes of the driver's functions.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(i32)]
        pub enum Code {
            $(#[doc = concat!("Number ", $number, ".")] $variant = $number,)*
        }

        /// Error codes with the driver's names and descriptions of them.
        const KNOWN: &[(i32, &CStr, &CStr)] =
            &[(0, c"CUDA_SUCCESS", c"no error"), $(($number, $name, $text),)*];
    };
}

codes! {
    InvalidValue = 1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument";
    OutOfMemory = 2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory";
    NotInitialized = 3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error";
    NoDevice = 100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected";
    InvalidDevice = 101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal";
    InvalidImage = 200, c"CUDA_ERROR_INVALID_IMAGE", c"device kernel image is invalid";
    InvalidContext = 201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context";
    InvalidPtx = 218, c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed";
    InvalidHandle = 400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle";
    IllegalState = 401, c"CUDA_ERROR_ILLEGAL_STATE", c"the operation cannot be performed in the present state";
    NotFound = 500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found";
    OutOfResources = 701, c"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", c"too many resources requested for launch";
    LaunchFailed = 719, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure";
    CooperativeTooLarge = 720, c"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", c"too many blocks in cooperative launch";
    NotSupported = 801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported";
    CaptureUnsupported = 900, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        c"operation not permitted when stream is capturing";
    CaptureInvalidated = 901, c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        c"operation failed due to a previous error during capture";
    CaptureMerge = 902, c"CUDA_ERROR_STREAM_CAPTURE_MERGE",
        c"operation would result in a merge of separate capture sequences";
    CaptureUnmatched = 903, c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
        c"capture was not ended in the same stream as it began";
    CaptureUnjoined = 904, c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", c"capturing stream has unjoined work";
    CaptureIsolation = 905, c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
        c"dependency created on uncaptured work in another stream";
    CaptureImplicit = 906, c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
        c"operation would make the legacy stream depend on a capturing blocking stream";
    CapturedEvent = 907, c"CUDA_ERROR_CAPTURED_EVENT",
        c"operation not permitted on an event last recorded in a capturing stream";
    CaptureWrongThread = 908, c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
        c"attempt to terminate a thread-local capture sequence from another thread";
    InvalidClusterSize = 912, c"CUDA_ERROR_INVALID_CLUSTER_SIZE", c"invalid cluster size";
    Unknown = 999, c"CUDA_ERROR_UNKNOWN", c"unknown error";
}

/// Runs the body of a driver function and returns its result code. A panic becomes an error code.
pub fn guard(work: impl FnOnce() -> Result<()>) -> i32 {
    // A panic is a defect of the emulator and has printed a message. No data is left inconsistent.
    let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Code::Unknown));
    result.map_or_else(|code| code as i32, |()| 0)
}

/// Writes an output of a driver function to the caller's memory.
///
/// # Safety
/// `place` is null, which yields an error, or valid for writes.
pub unsafe fn put<T>(place: *mut T, value: T) -> Result<()> {
    if place.is_null() {
        return Err(Code::InvalidValue);
    }
    // SAFETY: `place` is not null, and the caller guarantees that it is then valid for writes.
    unsafe { place.write(value) };
    Ok(())
}

fn known(code: i32) -> Result<&'static (i32, &'static CStr, &'static CStr)> {
    KNOWN.iter().find(|entry| entry.0 == code).ok_or(Code::InvalidValue)
}

/// Writes the name of an error code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(code: i32, name: *mut *const c_char) -> i32 {
    // SAFETY: the caller passes null or a valid place; names are static.
    guard(|| unsafe { put(name, known(code)?.1.as_ptr()) })
}

/// Writes the description of an error code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(code: i32, text: *mut *const c_char) -> i32 {
    // SAFETY: the caller passes null or a valid place; descriptions are static.
    guard(|| unsafe { put(text, known(code)?.2.as_ptr()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names() {
        let mut name = std::ptr::null();
        // SAFETY: `name` is a valid place for a pointer.
        assert_eq!(unsafe { cuGetErrorName(Code::LaunchFailed as i32, &mut name) }, 0);
        // SAFETY: the call above set `name` to a C string.
        assert_eq!(unsafe { CStr::from_ptr(name) }, c"CUDA_ERROR_LAUNCH_FAILED");
        // SAFETY: valid places for pointers, and null, which the functions reject.
        unsafe {
            assert_eq!(cuGetErrorString(12345, &mut name), 1);
            assert_eq!(cuGetErrorString(0, std::ptr::null_mut()), 1);
        }
    }

    #[test]
    fn panic_does_not_cross_the_c_boundary() {
        assert_eq!(guard(|| panic!("a test's")), 999);
        assert_eq!(guard(|| Err(Code::NotFound)), 500);
        assert_eq!(guard(|| Ok(())), 0);
    }
}
