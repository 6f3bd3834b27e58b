//! Functions of the driver API for contexts. Each device has only its primary context, which always exists.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_int;

use super::captures;
use super::devices::{Device, device, devices};
use super::errors::{Code, Result, guard, put};
use super::handles::Handle;

thread_local! {
    /// The current context of the thread, or 0.
    static CURRENT: Cell<Handle> = const { Cell::new(0) };
}

/// Returns the device with this context.
pub fn of_context(context: Handle) -> Result<&'static Device> {
    devices()?.iter().find(|device| device.context == context).ok_or(Code::InvalidContext)
}

/// Returns the device of the thread's current context.
pub fn current() -> Result<&'static Device> {
    of_context(CURRENT.get())
}

/// Writes a device's context. References are not counted, because the context exists until the end of the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, ordinal: c_int) -> i32 {
    // SAFETY: the caller passes null or a valid place.
    guard(|| unsafe { put(context, device(ordinal)?.context) })
}

/// Releases a device's context, which has no effect.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(ordinal: c_int) -> i32 {
    guard(|| device(ordinal).map(|_| ()))
}

/// Returns an error, because only primary contexts exist. `cudarc` requires the function to exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxDestroy_v2(context: Handle) -> i32 {
    guard(|| of_context(context).and(Err(Code::InvalidContext)))
}

/// Writes the thread's current context, or 0 if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(context: *mut Handle) -> i32 {
    // SAFETY: the caller passes null or a valid place.
    guard(|| devices().and_then(|_| unsafe { put(context, CURRENT.get()) }))
}

/// Sets the thread's current context, or clears it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetCurrent(context: Handle) -> i32 {
    guard(|| {
        if context != 0 {
            of_context(context)?;
        }
        CURRENT.set(context);
        Ok(())
    })
}

/// Writes the device of the thread's current context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetDevice(place: *mut c_int) -> i32 {
    // SAFETY: the caller passes null or a valid place.
    guard(|| unsafe { put(place, current()?.ordinal) })
}

/// Waits for the current device, whose work is always complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSynchronize() -> i32 {
    guard(|| {
        let device = current()?;
        captures::forbid()?;
        device.stream.take_failure()
    })
}

/// Writes the lowest and the highest priority of streams; the highest is the lowest number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> i32 {
    guard(|| {
        current()?;
        // Outputs that are null are not requested.
        for (place, value) in [(least, LEAST_PRIORITY), (greatest, GREATEST_PRIORITY)] {
            if !place.is_null() {
                // SAFETY: `place` is not null, and the caller then passes a valid place.
                unsafe { put(place, value) }?;
            }
        }
        Ok(())
    })
}

/// Number of the lowest stream priority.
pub const LEAST_PRIORITY: c_int = 0;

/// Number of the highest stream priority.
pub const GREATEST_PRIORITY: c_int = -5;

/// Enables access of the current device to another one's memory, which is always possible.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxEnablePeerAccess(peer: Handle, flags: u32) -> i32 {
    guard(|| {
        let (device, peer) = (current()?, of_context(peer)?);
        if flags == 0 && device.ordinal != peer.ordinal { Ok(()) } else { Err(Code::InvalidValue) }
    })
}

#[cfg(test)]
mod tests {
    use super::super::devices::initialize;
    use super::*;

    #[test]
    fn current_contexts_are_the_threads_own() {
        let context = initialize().unwrap()[0].context;
        // SAFETY: the function takes a handle by value.
        assert_eq!(unsafe { cuCtxSetCurrent(context) }, 0);
        assert_eq!(current().unwrap().ordinal, 0);
        std::thread::spawn(|| assert_eq!(current().err(), Some(Code::InvalidContext))).join().unwrap();
        // SAFETY: the functions take handles by value; invalid ones are rejected.
        let codes = unsafe { [cuCtxSetCurrent(context + 1), cuCtxSetCurrent(0), cuCtxSynchronize()] };
        assert_eq!(codes, [201, 0, 201]);
    }
}
