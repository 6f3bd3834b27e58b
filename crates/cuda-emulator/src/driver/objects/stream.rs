//! Streams: with nothing to wait for, little more than what failed on them and what captures them.

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use super::super::captures::{Capture, Status};
use super::super::errors::{Code, Result};
use super::super::handles::fresh;
use super::super::lock;
use super::super::operations::Operation;
use crate::machine::Shape;

/// A stream.
#[derive(Debug)]
pub struct Stream {
    /// Tells it from others in a capture.
    id: usize,
    /// Number of its device.
    pub ordinal: c_int,
    /// What its device has.
    pub shape: Shape,
    /// Its priority, the lowest number first.
    pub priority: c_int,
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
    pub fn forbid_waiting(&self) -> Result<()> {
        let Some(capture) = self.capture() else { return Ok(()) };
        capture.invalidate();
        Err(Code::CaptureUnsupported)
    }
}
