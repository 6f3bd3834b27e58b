//! Events, which store the time or the position in a capture at which they were recorded.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::super::captures::{Capture, OperationSet};
use super::super::errors::{Code, Result};
use super::super::handles::{Handle, Handles};
use super::super::lock;

/// All events by their handles.
pub static EVENTS: Handles<Event> = Handles::new();

/// An event of the driver.
#[derive(Debug)]
pub struct Event {
    /// Ordinal of the event's device.
    pub ordinal: i32,
    timed: bool,
    recorded: Mutex<Recorded>,
}

/// When an event was last recorded.
#[derive(Debug, Clone)]
pub enum Recorded {
    /// The event has not been recorded.
    Never,
    /// Recorded on a stream at this time; all work before it was complete.
    At(Instant),
    /// Recorded in a capture, after the operations that precede the event.
    Captured(Arc<Capture>, OperationSet),
}

impl Event {
    /// Returns an event of a device; `timed` events store their time.
    pub fn new(ordinal: i32, timed: bool) -> Self {
        Self { ordinal, timed, recorded: Mutex::new(Recorded::Never) }
    }

    /// Records the event.
    pub fn record(&self, recorded: Recorded) {
        *lock(&self.recorded) = recorded;
    }

    /// Returns when the event was last recorded.
    pub fn recorded(&self) -> Recorded {
        lock(&self.recorded).clone()
    }

    /// Returns an error if the event was recorded in a capture, because the call that uses it is not allowed then.
    pub fn forbid_captured(&self) -> Result<()> {
        let Recorded::Captured(capture, _) = self.recorded() else { return Ok(()) };
        capture.invalidate();
        Err(Code::CapturedEvent)
    }

    /// Returns the time of the event, or an error if the event has none.
    pub fn time(&self) -> Result<Instant> {
        self.forbid_captured()?;
        match self.recorded() {
            Recorded::At(time) if self.timed => Ok(time),
            _ => Err(Code::InvalidHandle),
        }
    }
}

/// Returns the event of a handle.
pub fn event(handle: Handle) -> Result<Arc<Event>> {
    EVENTS.get(handle)
}
