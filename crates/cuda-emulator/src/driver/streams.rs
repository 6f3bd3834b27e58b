//! Streams: with nothing to wait for, little more than what failed on them and what captures them.

#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use super::captures::{Capture, Status};
use super::contexts::{GREATEST_PRIORITY, LEAST_PRIORITY, current};
use super::errors::{Code, Result, guard, put};
use super::events::{Recorded, event};
use super::handles::{Handle, Handles, fresh};
use super::lock;
use super::operations::Operation;
use crate::machine::Shape;

static STREAMS: Handles<Stream> = Handles::new();

/// A stream.
#[derive(Debug)]
pub struct Stream {
    /// Tells it from others in a capture.
    id: usize,
    /// Number of its device.
    pub ordinal: c_int,
    /// What its device has.
    pub shape: Shape,
    priority: c_int,
    /// A kernel's failure that has not been reported by a call that waits.
    failure: Mutex<Option<Code>>,
    /// The capture that it last was part of.
    capture: Mutex<Option<Arc<Capture>>>,
}

impl Stream {
    /// A stream of a device.
    pub fn new(ordinal: c_int, shape: Shape, priority: c_int) -> Self {
        Self { id: fresh(), ordinal, shape, priority, failure: Mutex::default(), capture: Mutex::default() }
    }

    /// Tells it from others in a capture.
    pub fn id(&self) -> usize {
        self.id
    }

    /// The capture that it is part of.
    pub fn capture(&self) -> Option<Arc<Capture>> {
        let mut capture = lock(&self.capture);
        if capture.as_ref().is_some_and(|capture| capture.status() == Status::Ended) {
            *capture = None;
        }
        capture.clone()
    }

    /// Makes it part of a capture.
    pub fn set_capture(&self, capture: Arc<Capture>) {
        *lock(&self.capture) = Some(capture);
    }

    /// Does something now, or records it if the stream is captured.
    pub fn queue(&self, operation: Operation) -> Result<()> {
        operation.check()?;
        match self.capture() {
            Some(capture) => capture.record(self.id, operation),
            None => self.run(&operation),
        }
    }

    /// Does something now.
    pub fn run(&self, operation: &Operation) -> Result<()> {
        let result = operation.run(&self.shape);
        if result == Err(Code::LaunchFailed) {
            *lock(&self.failure) = Some(Code::LaunchFailed);
        }
        result
    }

    /// What a kernel's failure before has left to be reported, once: real kernels fail after the launch has returned,
    /// and callers have to look at what calls that wait return.
    pub fn settle(&self) -> Result<()> {
        lock(&self.failure).take().map_or(Ok(()), Err)
    }

    /// Finds fault with a call that waits for the stream while it is captured.
    fn forbid_waiting(&self) -> Result<()> {
        let Some(capture) = self.capture() else { return Ok(()) };
        capture.invalidate();
        Err(Code::CaptureUnsupported)
    }
}

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
                forked.join(stream.id, &done)?;
                stream.set_capture(forked);
                Ok(())
            }
            (Recorded::Captured(forked, done), Some(capture)) if Arc::ptr_eq(&forked, &capture) => {
                capture.join(stream.id, &done)
            }
            (Recorded::Captured(forked, _), Some(capture)) => {
                forked.invalidate();
                capture.invalidate();
                Err(Code::CaptureMerge)
            }
        }
    })
}
