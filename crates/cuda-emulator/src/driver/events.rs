//! Functions of the driver API that create, destroy and record events.

#![allow(unsafe_code)]

use std::time::Instant;

use super::contexts::current;
use super::errors::{Code, guard, put};
use super::handles::Handle;
use super::objects::{EVENTS, Event, Recorded, event};
use super::streams::stream;

/// The flag of events without timing.
const DISABLE_TIMING: u32 = 2;

/// All defined flags: blocking synchronization, no timing, interprocess.
const ALL_FLAGS: u32 = 7;

/// Creates an event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(place: *mut Handle, flags: u32) -> i32 {
    guard(|| {
        let device = current()?;
        if place.is_null() || flags > ALL_FLAGS {
            return Err(Code::InvalidValue);
        }
        let timed = flags & DISABLE_TIMING == 0;
        let event = Event::new(device.ordinal, timed);
        // SAFETY: `place` was checked, and the caller passes a valid place.
        unsafe { put(place, EVENTS.insert(event)) }
    })
}

/// Destroys an event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventDestroy_v2(handle: Handle) -> i32 {
    guard(|| EVENTS.remove(handle).map(|_| ()))
}

/// Records an event on a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventRecord(handle: Handle, recording: Handle) -> i32 {
    guard(|| {
        let (event, stream) = (event(handle)?, stream(recording)?);
        if event.ordinal != stream.ordinal {
            return Err(Code::InvalidHandle);
        }
        event.record(match stream.capture() {
            Some(capture) => {
                let done = capture.predecessors(stream.id())?;
                Recorded::Captured(capture, done)
            }
            None => Recorded::At(Instant::now()),
        });
        Ok(())
    })
}

/// Queries whether an event is complete; it always is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventQuery(handle: Handle) -> i32 {
    guard(|| event(handle)?.forbid_captured())
}

/// Waits for an event, which is always complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventSynchronize(handle: Handle) -> i32 {
    guard(|| event(handle)?.forbid_captured())
}

/// Writes the milliseconds between two events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) -> i32 {
    guard(|| {
        let (start, end) = (event(start)?.time()?, event(end)?.time()?);
        let forwards = end.saturating_duration_since(start).as_secs_f64();
        let backwards = start.saturating_duration_since(end).as_secs_f64();
        // SAFETY: the caller passes null or a valid place.
        unsafe { put(milliseconds, ((forwards - backwards) * 1e3) as f32) }
    })
}
