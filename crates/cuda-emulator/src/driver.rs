//! The functions of `libcuda.so`, the CUDA driver API.
//!
//! Everything runs at once, on the calling thread, when it is queued: there is nothing to wait for. What is kept is
//! what a real driver finds fault with: handles of nothing or of another device, ranges that were not allocated,
//! launches that the device has no room for, calls that a capture does not allow.
//!
//! All exported functions are unsafe in the same way, and say no more about it: pointers are null or point to what the
//! driver's documentation says, and memory that is copied is not in use by others. Handles are numbers looked up in
//! tables, so a wrong one is an error and no more.

#![allow(unsafe_code)]
#![expect(clippy::missing_safety_doc, reason = "it is the same for all functions, as said above")]

mod captures;
mod contexts;
mod devices;
mod errors;
mod events;
mod graphs;
mod handles;
mod launches;
mod memory;
mod modules;
mod objects;
mod operations;
mod streams;

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::memory::Memory;
use errors::{Code, guard, put};

/// Memory of all devices; addresses are the host's.
static MEMORY: Memory = Memory::new();

/// Newest CUDA that this passes for, so that every NVRTC of today may be used.
const VERSION: c_int = 13000;

/// What is locked, also after a panic: nothing here is left half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuInit(flags: u32) -> i32 {
    guard(|| {
        if flags != 0 {
            return Err(Code::InvalidValue);
        }
        devices::initialize().map(|_| ())
    })
}

/// The driver's version, as `1000 * major + 10 * minor`; needs no [`cuInit`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> i32 {
    // SAFETY: null or the caller's place for it.
    guard(|| unsafe { put(version, VERSION) })
}
