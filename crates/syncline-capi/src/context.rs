//! The object that keeps the message of the last error.

#![allow(unsafe_code, reason = "exported C functions")]

use std::ffi::{CString, c_char};

/// Keeps the message of the last error of the calls that it was passed to.
pub struct syncline_context {
    message: CString,
}

impl syncline_context {
    /// Replaces the message.
    pub fn set_message(&mut self, message: String) {
        self.message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    }
}

/// Creates a context. Free it with `syncline_free_context`.
#[unsafe(no_mangle)]
pub extern "C" fn syncline_create_context() -> *mut syncline_context {
    Box::into_raw(Box::new(syncline_context { message: CString::default() }))
}

/// Frees a context. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_free_context(context: *mut syncline_context) {
    if !context.is_null() {
        // SAFETY: the caller passes a context that `syncline_create_context` returned and that is not used afterwards.
        drop(unsafe { Box::from_raw(context) });
    }
}

/// Returns the message of the last error: what is wrong, where, and what to do. It is valid until the next call with
/// this context. Empty if there was no error. Never NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_error_message(context: *const syncline_context) -> *const c_char {
    // SAFETY: the caller passes NULL or a live context.
    unsafe { context.as_ref() }.map_or(c"".as_ptr(), |context| context.message.as_ptr())
}
