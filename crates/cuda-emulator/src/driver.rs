//! The functions of `libcuda.so`, the CUDA driver API.
//!
//! Every operation runs to completion on the calling thread when it is queued, so that waiting calls return at once.
//! The emulator detects the same errors as a real driver: invalid handles and handles of another device, ranges of
//! memory that are not allocated, launches that exceed the device's limits, and calls that are not allowed during a
//! capture.
//!
//! All exported functions are unsafe for the same reasons, which are therefore not repeated: pointers must be null or
//! valid as the driver's documentation requires, and memory that is copied must not be used by other threads. Handles
//! are numbers that are looked up in tables, so an invalid handle only causes an error.

#![allow(unsafe_code)]
#![expect(clippy::missing_safety_doc, reason = "it is the same for all functions, as said above")]

mod captures;
mod contexts;
mod counts;
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
mod pools;
mod streams;

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::memory::Memory;
use errors::{Code, guard, put};

/// Memory of all devices. Device addresses are addresses of the host.
static MEMORY: Memory = Memory::new();

/// The CUDA version that the driver reports: the newest one, so that every available NVRTC may be used.
const VERSION: c_int = 13000;

/// Locks a mutex. A poisoned mutex is used as well, because no critical section leaves its data inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Initializes the driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuInit(flags: u32) -> i32 {
    guard(|| {
        if flags != 0 {
            return Err(Code::InvalidValue);
        }
        devices::initialize().map(|_| ())
    })
}

/// Writes the driver's version, as `1000 * major + 10 * minor`. Does not require [`cuInit`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> i32 {
    // SAFETY: the caller passes null or a valid place.
    guard(|| unsafe { put(version, VERSION) })
}
