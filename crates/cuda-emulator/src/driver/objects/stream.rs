//! Streams, which store the failure of a kernel and the capture that they are part of, because all work completes at
//! once.

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use super::super::captures::{Capture, Status};
use super::super::errors::{Code, Result};
use super::super::handles::fresh;
use super::super::lock;
use super::super::operations::Operation;
use crate::machine::Shape;

/// A stream of the driver.
#[derive(Debug)]
pub struct Stream {
    /// Identifies the stream in captures.
    id: usize,
    /// Ordinal of the stream's device.
    pub ordinal: c_int,
    /// Properties of the device.
    pub shape: Shape,
    /// Priority of the stream; lower numbers are higher priorities.
    pub priority: c_int,
    /// Error of a kernel that no waiting call has reported yet.
    failure: Mutex<Option<Code>>,
    /// The last capture that the stream was part of.
    capture: Mutex<Option<Arc<Capture>>>,
}

impl Stream {
    /// Creates a stream of a device.
    pub fn new(ordinal: c_int, shape: Shape, priority: c_int) -> Self {
        Self { id: fresh(), ordinal, shape, priority, failure: Mutex::default(), capture: Mutex::default() }
    }

    /// Returns the number that identifies the stream in captures.
    pub fn id(&self) -> usize {
        self.id
    }

    /// Returns the capture that the stream is part of, if that has not ended.
    pub fn capture(&self) -> Option<Arc<Capture>> {
        let mut capture = lock(&self.capture);
        if capture.as_ref().is_some_and(|capture| capture.status() == Status::Ended) {
            *capture = None;
        }
        capture.clone()
    }

    /// Makes the stream part of a capture.
    pub fn set_capture(&self, capture: Arc<Capture>) {
        *lock(&self.capture) = Some(capture);
    }

    /// Runs an operation, or records it if the stream is captured.
    pub fn queue(&self, operation: Operation) -> Result<()> {
        operation.check()?;
        match self.capture() {
            Some(capture) => capture.record(self.id, operation),
            None => self.run(&operation),
        }
    }

    /// Runs an operation. The error of a kernel is stored until a waiting call.
    pub fn run(&self, operation: &Operation) -> Result<()> {
        let result = operation.run(&self.shape);
        if result == Err(Code::LaunchFailed) {
            *lock(&self.failure) = Some(Code::LaunchFailed);
        }
        result
    }

    /// Returns the stored error of a kernel and clears it. Errors of real kernels also occur after the launch has
    /// returned, so that callers have to check the results of waiting calls.
    pub fn take_failure(&self) -> Result<()> {
        lock(&self.failure).take().map_or(Ok(()), Err)
    }

    /// Returns an error if the stream is captured, because calls that wait for it are not allowed then.
    pub fn forbid_waiting(&self) -> Result<()> {
        let Some(capture) = self.capture() else { return Ok(()) };
        capture.invalidate();
        Err(Code::CaptureUnsupported)
    }
}
