//! Events: the time at which they were recorded, or the place in a capture.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::super::captures::{Capture, Done};
use super::super::errors::{Code, Result};
use super::super::handles::{Handle, Handles};
use super::super::lock;

/// Events by their handles.
pub static EVENTS: Handles<Event> = Handles::new();

/// An event.
#[derive(Debug)]
pub struct Event {
    /// Number of its device.
    pub ordinal: i32,
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
    /// An event of a device, and whether it tells the time.
    pub fn new(ordinal: i32, timed: bool) -> Self {
        Self { ordinal, timed, recorded: Mutex::new(Recorded::Never) }
    }

    /// Records it.
    pub fn record(&self, recorded: Recorded) {
        *lock(&self.recorded) = recorded;
    }

    /// Where it was recorded last.
    pub fn recorded(&self) -> Recorded {
        lock(&self.recorded).clone()
    }

    /// Finds fault with a question about an event that is part of a graph.
    pub fn forbid_captured(&self) -> Result<()> {
        let Recorded::Captured(capture, _) = self.recorded() else { return Ok(()) };
        capture.invalidate();
        Err(Code::CapturedEvent)
    }

    /// When it was recorded, for events that tell.
    pub fn time(&self) -> Result<Instant> {
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
