//! Events: the time at which they were recorded, or the place in a capture.

#![allow(unsafe_code)]

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::captures::{Capture, Done};
use super::contexts::current;
use super::errors::{Code, Result, guard, put};
use super::handles::{Handle, Handles};
use super::lock;
use super::streams::stream;

static EVENTS: Handles<Event> = Handles::new();

/// The flag of events that need not tell the time.
const DISABLE_TIMING: u32 = 2;

/// Flags that there are: waiting without spinning, no timing, shared with other processes.
const ALL_FLAGS: u32 = 7;

/// An event.
#[derive(Debug)]
pub struct Event {
    ordinal: i32,
    timed: bool,
    recorded: Mutex<Recorded>,
}

/// Where an event was recorded last.
#[derive(Debug, Clone)]
pub enum Recorded {
    /// Nowhere so far.
    Never,
    /// On a stream, at that time, when all before it was done.
    At(Instant),
    /// In a capture, behind what was done until then.
    Captured(Arc<Capture>, Done),
}

impl Event {
    /// Where it was recorded last.
    pub fn recorded(&self) -> Recorded {
        lock(&self.recorded).clone()
    }

    /// Finds fault with a question about an event that is part of a graph.
    fn forbid_captured(&self) -> Result<()> {
        let Recorded::Captured(capture, _) = self.recorded() else { return Ok(()) };
        capture.invalidate();
        Err(Code::CapturedEvent)
    }

    /// When it was recorded, for events that tell.
    fn time(&self) -> Result<Instant> {
        self.forbid_captured()?;
        match self.recorded() {
            Recorded::At(time) if self.timed => Ok(time),
            _ => Err(Code::InvalidHandle),
        }
    }
}

/// The event that a handle stands for.
pub fn event(handle: Handle) -> Result<Arc<Event>> {
    EVENTS.get(handle)
}

/// Makes an event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(place: *mut Handle, flags: u32) -> i32 {
    guard(|| {
        let device = current()?;
        if place.is_null() || flags > ALL_FLAGS {
            return Err(Code::InvalidValue);
        }
        let timed = flags & DISABLE_TIMING == 0;
        let event = Event { ordinal: device.ordinal, timed, recorded: Mutex::new(Recorded::Never) };
        // SAFETY: the caller's place for it.
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
        *lock(&event.recorded) = match stream.capture() {
            Some(capture) => {
                let done = capture.done(stream.id())?;
                Recorded::Captured(capture, done)
            }
            None => Recorded::At(Instant::now()),
        };
        Ok(())
    })
}

/// Whether an event is over: it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventQuery(handle: Handle) -> i32 {
    guard(|| event(handle)?.forbid_captured())
}

/// Waits for an event, which is over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventSynchronize(handle: Handle) -> i32 {
    guard(|| event(handle)?.forbid_captured())
}

/// Milliseconds between two events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) -> i32 {
    guard(|| {
        let (start, end) = (event(start)?.time()?, event(end)?.time()?);
        let forwards = end.saturating_duration_since(start).as_secs_f64();
        let backwards = start.saturating_duration_since(end).as_secs_f64();
        // SAFETY: null or the caller's place for it.
        unsafe { put(milliseconds, ((forwards - backwards) * 1e3) as f32) }
    })
}
