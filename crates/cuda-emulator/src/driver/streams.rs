//! Functions of the driver API that create, destroy and wait for streams.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::Arc;

use super::captures::Status;
use super::contexts::{GREATEST_PRIORITY, LEAST_PRIORITY, current};
use super::errors::{Code, Result, guard, put};
use super::handles::{Handle, Handles};
use super::objects::{Recorded, Stream, event};

static STREAMS: Handles<Stream> = Handles::new();

/// Whether a handle stands for a context's own stream, by any of the names that it has; a thread's is the same one.
pub fn is_default(handle: Handle) -> bool {
    handle <= 2
}

/// The stream that a handle stands for.
pub fn stream(handle: Handle) -> Result<Arc<Stream>> {
    if is_default(handle) { current().map(|device| device.stream.clone()) } else { STREAMS.get(handle) }
}

fn create(place: *mut Handle, flags: u32, priority: c_int) -> Result<()> {
    let device = current()?;
    if place.is_null() || flags > 1 {
        return Err(Code::InvalidValue);
    }
    let priority = priority.clamp(GREATEST_PRIORITY, LEAST_PRIORITY);
    // SAFETY: the caller's place for it.
    unsafe { put(place, STREAMS.insert(Stream::new(device.ordinal, device.shape, priority))) }
}

/// Makes a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(place: *mut Handle, flags: u32) -> i32 {
    guard(|| create(place, flags, LEAST_PRIORITY))
}

/// Makes a stream with a priority.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreateWithPriority(place: *mut Handle, flags: u32, priority: c_int) -> i32 {
    guard(|| create(place, flags, priority))
}

/// Destroys a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamDestroy_v2(handle: Handle) -> i32 {
    guard(|| {
        // A capture cannot go on without one of its streams.
        if let Some(capture) = STREAMS.remove(handle)?.capture() {
            capture.invalidate();
        }
        Ok(())
    })
}

/// Waits for a stream, which has nothing to do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamSynchronize(handle: Handle) -> i32 {
    guard(|| {
        let stream = stream(handle)?;
        stream.forbid_waiting().and_then(|()| stream.settle())
    })
}

/// Whether a stream has done all: it has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamQuery(handle: Handle) -> i32 {
    // SAFETY: the caller's handle.
    unsafe { cuStreamSynchronize(handle) }
}

/// A stream's priority.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetPriority(handle: Handle, priority: *mut c_int) -> i32 {
    // SAFETY: null or the caller's place for it.
    guard(|| unsafe { put(priority, stream(handle)?.priority) })
}

/// Lets a stream wait for an event, which is long over; or makes it part of the capture in which the event was
/// recorded.
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
