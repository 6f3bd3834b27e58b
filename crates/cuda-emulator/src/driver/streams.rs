//! Functions of the driver API that create, destroy and wait for streams.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use super::captures::Status;
use super::contexts::{GREATEST_PRIORITY, LEAST_PRIORITY, current};
use super::errors::{Code, Result, guard, put};
use super::handles::{Handle, Handles};
use super::objects::{Recorded, Stream, event};
use super::operations::{Call, Operation};

static STREAMS: Handles<Stream> = Handles::new();

/// Returns whether a handle is one of the names of the default stream. Per-thread default streams are the same stream.
pub fn is_default(handle: Handle) -> bool {
    handle <= 2
}

/// Returns the stream of a handle.
pub fn stream(handle: Handle) -> Result<Arc<Stream>> {
    if is_default(handle) { current().map(|device| device.stream.clone()) } else { STREAMS.get(handle) }
}

fn create(place: *mut Handle, flags: u32, priority: c_int) -> Result<()> {
    let device = current()?;
    if place.is_null() || flags > 1 {
        return Err(Code::InvalidValue);
    }
    let priority = priority.clamp(GREATEST_PRIORITY, LEAST_PRIORITY);
    // SAFETY: `place` was checked, and the caller passes a valid place.
    unsafe { put(place, STREAMS.insert(Stream::new(device.ordinal, device.shape, priority))) }
}

/// Creates a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(place: *mut Handle, flags: u32) -> i32 {
    guard(|| create(place, flags, LEAST_PRIORITY))
}

/// Creates a stream with a priority.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreateWithPriority(place: *mut Handle, flags: u32, priority: c_int) -> i32 {
    guard(|| create(place, flags, priority))
}

/// Destroys a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamDestroy_v2(handle: Handle) -> i32 {
    guard(|| {
        // A capture becomes invalid if one of its streams is destroyed.
        if let Some(capture) = STREAMS.remove(handle)?.capture() {
            capture.invalidate();
        }
        Ok(())
    })
}

/// Calls a function of the host when all earlier work of a stream is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchHostFunc(
    handle: Handle,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) -> i32 {
    guard(|| {
        let function = function.ok_or(Code::InvalidValue)?;
        stream(handle)?.queue(Operation::Call(Call { function, data: data as u64 }))
    })
}

/// Waits for a stream, whose work is always complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamSynchronize(handle: Handle) -> i32 {
    guard(|| {
        let stream = stream(handle)?;
        stream.forbid_waiting().and_then(|()| stream.take_failure())
    })
}

/// Queries whether all work of a stream is complete; it always is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamQuery(handle: Handle) -> i32 {
    // SAFETY: the function takes the handle by value.
    unsafe { cuStreamSynchronize(handle) }
}

/// Writes a stream's priority.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetPriority(handle: Handle, priority: *mut c_int) -> i32 {
    // SAFETY: the caller passes null or a valid place.
    guard(|| unsafe { put(priority, stream(handle)?.priority) })
}

/// Makes a stream wait for an event, which is complete unless it was recorded in a capture. In that case the stream
/// joins the capture.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamWaitEvent(handle: Handle, awaited: Handle, flags: u32) -> i32 {
    guard(|| {
        if flags > 1 {
            return Err(Code::InvalidValue);
        }
        let (stream, event) = (stream(handle)?, event(awaited)?);
        match (event.recorded(), stream.capture()) {
            (Recorded::Never, _) | (Recorded::At(_), None) => Ok(()),
            (Recorded::At(_), Some(capture)) => {
                capture.invalidate();
                Err(Code::CaptureIsolation)
            }
            (Recorded::Captured(forked, _), _) if forked.status() == Status::Ended => Err(Code::CapturedEvent),
            (Recorded::Captured(forked, _), None) if is_default(handle) => {
                forked.invalidate();
                Err(Code::CaptureImplicit)
            }
            (Recorded::Captured(forked, done), None) => {
                forked.join(stream.id(), &done)?;
                stream.set_capture(forked);
                Ok(())
            }
            (Recorded::Captured(forked, done), Some(capture)) if Arc::ptr_eq(&forked, &capture) => {
                capture.join(stream.id(), &done)
            }
            (Recorded::Captured(forked, _), Some(capture)) => {
                forked.invalidate();
                capture.invalidate();
                Err(Code::CaptureMerge)
            }
        }
    })
}
