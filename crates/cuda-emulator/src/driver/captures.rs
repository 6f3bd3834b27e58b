//! Captures of streams: what is queued while they last, and who has waited for whom.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use super::errors::{Code, Result};
use super::lock;
use super::operations::Operation;

/// Captures that have not ended.
static ONGOING: Mutex<Vec<Arc<Capture>>> = Mutex::new(Vec::new());

/// How much of each stream's work comes before some place in a capture: so many operations of the stream with that
/// number.
pub type Done = BTreeMap<usize, u64>;

/// Which calls that have nothing to do with the captured stream a capture forbids, since they might wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Every thread's.
    Global,
    /// Those of the thread that began it.
    ThreadLocal,
    /// None.
    Relaxed,
}

/// How a capture is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It goes on.
    Active,
    /// It goes on, but something has happened that may not, so that nothing will come of it.
    Invalid,
    /// It is over.
    Ended,
}

/// A capture, of the stream that it began on and of all that have joined.
#[derive(Debug)]
pub struct Capture {
    origin: usize,
    mode: Mode,
    thread: ThreadId,
    recording: Mutex<Recording>,
}

#[derive(Debug)]
struct Recording {
    status: Status,
    /// In the order in which they were queued, in which they can be done: each comes after what it waits for.
    operations: Vec<Operation>,
    /// For each stream what comes before whatever is queued on it next, its own operations among it.
    done: BTreeMap<usize, Done>,
}

impl Recording {
    fn of_active(&mut self) -> Result<&mut Self> {
        if self.status == Status::Active { Ok(self) } else { Err(Code::CaptureInvalidated) }
    }

    /// Operations that were queued on a stream itself.
    fn own(&self, stream: usize) -> u64 {
        self.done.get(&stream).and_then(|done| done.get(&stream)).copied().unwrap_or(0)
    }
}

impl Capture {
    /// Begins one on the stream with this number, by the calling thread.
    pub fn begin(origin: usize, mode: Mode) -> Arc<Self> {
        let recording = Recording { status: Status::Active, operations: Vec::new(), done: BTreeMap::new() };
        let capture = Self { origin, mode, thread: thread::current().id(), recording: Mutex::new(recording) };
        let capture = Arc::new(capture);
        lock(&ONGOING).push(capture.clone());
        capture
    }

    /// How it is doing.
    pub fn status(&self) -> Status {
        lock(&self.recording).status
    }

    /// Makes it come to nothing.
    pub fn invalidate(&self) {
        let mut recording = lock(&self.recording);
        if recording.status == Status::Active {
            recording.status = Status::Invalid;
        }
    }

    /// Records something that is queued on a stream.
    pub fn record(&self, stream: usize, operation: Operation) -> Result<()> {
        let mut recording = lock(&self.recording);
        let recording = recording.of_active()?;
        recording.operations.push(operation);
        *recording.done.entry(stream).or_default().entry(stream).or_default() += 1;
        Ok(())
    }

    /// What comes before whatever is queued on a stream next.
    pub fn done(&self, stream: usize) -> Result<Done> {
        let mut recording = lock(&self.recording);
        Ok(recording.of_active()?.done.entry(stream).or_default().clone())
    }

    /// Lets a stream wait for something.
    pub fn join(&self, stream: usize, awaited: &Done) -> Result<()> {
        let mut recording = lock(&self.recording);
        let done = recording.of_active()?.done.entry(stream).or_default();
        for (&other, &count) in awaited {
            let known = done.entry(other).or_default();
            *known = count.max(*known);
        }
        Ok(())
    }

    /// Ends it on the stream with this number: what was recorded.
    pub fn end(&self, stream: usize) -> Result<Vec<Operation>> {
        if stream != self.origin {
            self.invalidate();
            return Err(Code::CaptureUnmatched);
        }
        if self.mode != Mode::Relaxed && self.thread != thread::current().id() {
            return Err(Code::CaptureWrongThread);
        }
        lock(&ONGOING).retain(|capture| !std::ptr::eq(&**capture, self));
        let mut recording = lock(&self.recording);
        let status = std::mem::replace(&mut recording.status, Status::Ended);
        if status != Status::Active {
            return Err(Code::CaptureInvalidated);
        }
        let awaited = recording.done.get(&self.origin).cloned().unwrap_or_default();
        let joined = |&stream: &usize| awaited.get(&stream).copied().unwrap_or(0) == recording.own(stream);
        if !recording.done.keys().all(joined) {
            return Err(Code::CaptureUnjoined);
        }
        Ok(std::mem::take(&mut recording.operations))
    }

    /// Whether it forbids the calling thread to wait for whatever it likes.
    fn forbids(&self) -> bool {
        match self.mode {
            Mode::Global => true,
            Mode::ThreadLocal => self.thread == thread::current().id(),
            Mode::Relaxed => false,
        }
    }
}

/// Finds fault with a call that might wait for a captured stream.
pub fn forbid() -> Result<()> {
    let ongoing = lock(&ONGOING).clone();
    let mut result = Ok(());
    for capture in ongoing.iter().filter(|capture| capture.forbids()) {
        capture.invalidate();
        result = Err(Code::CaptureUnsupported);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::super::operations::{Set, Value};
    use super::*;

    const NOTHING: Operation = Operation::Set(Set { to: 0, value: Value::Byte(0), count: 0 });

    #[test]
    fn forked_streams_have_to_be_joined() {
        let capture = Capture::begin(1, Mode::ThreadLocal);
        capture.record(1, NOTHING).unwrap();
        let fork = capture.done(1).unwrap();
        capture.join(2, &fork).unwrap();
        capture.record(2, NOTHING).unwrap();
        let early = capture.done(2).unwrap();
        capture.record(2, NOTHING).unwrap();
        capture.join(1, &early).unwrap();
        assert_eq!(capture.end(1).err(), Some(Code::CaptureUnjoined), "only half of it is");
        assert_eq!(capture.status(), Status::Ended);

        let capture = Capture::begin(1, Mode::ThreadLocal);
        capture.join(2, &capture.done(1).unwrap()).unwrap();
        capture.record(2, NOTHING).unwrap();
        // By way of a third one.
        capture.join(3, &capture.done(2).unwrap()).unwrap();
        capture.record(3, NOTHING).unwrap();
        capture.join(1, &capture.done(3).unwrap()).unwrap();
        // A stream that has done nothing need not be.
        capture.join(4, &capture.done(1).unwrap()).unwrap();
        assert_eq!(capture.end(1).unwrap().len(), 2);
        assert_eq!(capture.record(1, NOTHING), Err(Code::CaptureInvalidated));
    }

    #[test]
    fn what_may_not_be_comes_to_nothing() {
        let capture = Capture::begin(1, Mode::ThreadLocal);
        assert_eq!(thread::scope(|scope| scope.spawn(forbid).join()).unwrap(), Ok(()), "another thread's calls");
        let ended = thread::scope(|scope| scope.spawn(|| capture.end(1).err()).join());
        assert_eq!(ended.unwrap(), Some(Code::CaptureWrongThread));
        assert_eq!(capture.status(), Status::Active);
        assert_eq!(forbid(), Err(Code::CaptureUnsupported));
        assert_eq!(capture.record(1, NOTHING), Err(Code::CaptureInvalidated));
        assert_eq!(capture.end(1).err(), Some(Code::CaptureInvalidated));
        assert_eq!(forbid(), Ok(()), "it is over");

        let capture = Capture::begin(1, Mode::Relaxed);
        assert_eq!(forbid(), Ok(()));
        assert_eq!(capture.end(2).err(), Some(Code::CaptureUnmatched));
        assert_eq!(capture.end(1).err(), Some(Code::CaptureInvalidated));
    }
}
