//! Contexts: each device has one, its primary one, which is there from the start and stays.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_int;

use super::captures;
use super::devices::{Device, device, devices};
use super::errors::{Code, Result, guard, put};
use super::handles::Handle;

thread_local! {
    /// The context that the thread made current, or 0.
    static CURRENT: Cell<Handle> = const { Cell::new(0) };
}

/// The device with this context.
pub fn of_context(context: Handle) -> Result<&'static Device> {
    devices()?.iter().find(|device| device.context == context).ok_or(Code::InvalidContext)
}

/// The device whose context is the thread's current one.
pub fn current() -> Result<&'static Device> {
    of_context(CURRENT.get())
}

/// A device's context. It is not counted how often it is retained: it stays when all have released it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut Handle, ordinal: c_int) -> i32 {
    // SAFETY: null or the caller's place for it.
    guard(|| unsafe { put(context, device(ordinal)?.context) })
}

/// The opposite of [`cuDevicePrimaryCtxRetain`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(ordinal: c_int) -> i32 {
    guard(|| device(ordinal).map(|_| ()))
}

/// There is no context but devices' own to destroy. `cudarc` looks this up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxDestroy_v2(context: Handle) -> i32 {
    guard(|| of_context(context).and(Err(Code::InvalidContext)))
}

/// The thread's current context, 0 if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(context: *mut Handle) -> i32 {
    // SAFETY: null or the caller's place for it.
    guard(|| devices().and_then(|_| unsafe { put(context, CURRENT.get()) }))
}

/// Makes a context, or none, the thread's current one.
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

/// The device of the thread's current context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetDevice(place: *mut c_int) -> i32 {
    // SAFETY: null or the caller's place for it.
    guard(|| unsafe { put(place, current()?.ordinal) })
}

/// Waits for the current device, which has nothing to do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSynchronize() -> i32 {
    guard(|| {
        let device = current()?;
        captures::forbid()?;
        device.stream.settle()
    })
}

/// Least and greatest priority of streams; the greatest is the lowest number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> i32 {
    guard(|| {
        current()?;
        // Each may be null: then it is not wanted.
        for (place, value) in [(least, LEAST_PRIORITY), (greatest, GREATEST_PRIORITY)] {
            if !place.is_null() {
                // SAFETY: the caller's place for it.
                unsafe { put(place, value) }?;
            }
        }
        Ok(())
    })
}

/// The number of the least priority.
pub const LEAST_PRIORITY: c_int = 0;

/// The number of the greatest priority.
pub const GREATEST_PRIORITY: c_int = -5;

/// Lets the current device reach another one's memory, which it does anyway.
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
        // SAFETY: a handle.
        assert_eq!(unsafe { cuCtxSetCurrent(context) }, 0);
        assert_eq!(current().unwrap().ordinal, 0);
        std::thread::spawn(|| assert_eq!(current().err(), Some(Code::InvalidContext))).join().unwrap();
        // SAFETY: handles, one of nothing.
        let codes = unsafe { [cuCtxSetCurrent(context + 1), cuCtxSetCurrent(0), cuCtxSynchronize()] };
        assert_eq!(codes, [201, 0, 201]);
    }
}
