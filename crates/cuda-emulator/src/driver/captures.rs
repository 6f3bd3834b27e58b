//! Captures of streams: the recorded operations, and the dependencies between the captured streams.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use super::errors::{Code, Result};
use super::lock;
use super::operations::Operation;

/// Captures that have not ended.
static ONGOING: Mutex<Vec<Arc<Capture>>> = Mutex::new(Vec::new());

/// A set of operations of a capture: for each stream, by its number, how many of its first operations belong to the
/// set.
pub type OperationSet = BTreeMap<usize, u64>;

/// Which unrelated calls a capture forbids because they might wait for a captured stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Calls of all threads.
    Global,
    /// Calls of the thread that began the capture.
    ThreadLocal,
    /// No calls.
    Relaxed,
}

/// Status of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The capture is in progress.
    Active,
    /// The capture is in progress, but a forbidden call has made it invalid, so that it yields no graph.
    Invalid,
    /// The capture has ended.
    Ended,
}

/// A capture of the stream that it began on and of all streams that have joined.
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
    /// The operations in the order in which they were queued, in which each follows those that it depends on.
    operations: Vec<Operation>,
    /// For each stream, the operations that precede the next one queued on it, including the stream's own.
    predecessors: BTreeMap<usize, OperationSet>,
}

impl Recording {
    fn of_active(&mut self) -> Result<&mut Self> {
        if self.status == Status::Active { Ok(self) } else { Err(Code::CaptureInvalidated) }
    }

    /// Returns the number of operations that were queued on a stream.
    fn own(&self, stream: usize) -> u64 {
        self.predecessors.get(&stream).and_then(|done| done.get(&stream)).copied().unwrap_or(0)
    }
}

impl Capture {
    /// Begins a capture on the stream with number `origin`, by the calling thread.
    pub fn begin(origin: usize, mode: Mode) -> Arc<Self> {
        let recording = Recording { status: Status::Active, operations: Vec::new(), predecessors: BTreeMap::new() };
        let capture = Self { origin, mode, thread: thread::current().id(), recording: Mutex::new(recording) };
        let capture = Arc::new(capture);
        lock(&ONGOING).push(capture.clone());
        capture
    }

    /// Returns the status of the capture.
    pub fn status(&self) -> Status {
        lock(&self.recording).status
    }

    /// Makes the capture invalid.
    pub fn invalidate(&self) {
        let mut recording = lock(&self.recording);
        if recording.status == Status::Active {
            recording.status = Status::Invalid;
        }
    }

    /// Records an operation of a stream.
    pub fn record(&self, stream: usize, operation: Operation) -> Result<()> {
        let mut recording = lock(&self.recording);
        let recording = recording.of_active()?;
        recording.operations.push(operation);
        *recording.predecessors.entry(stream).or_default().entry(stream).or_default() += 1;
        Ok(())
    }

    /// Returns the operations that precede the next one queued on a stream.
    pub fn predecessors(&self, stream: usize) -> Result<OperationSet> {
        let mut recording = lock(&self.recording);
        Ok(recording.of_active()?.predecessors.entry(stream).or_default().clone())
    }

    /// Makes the next operation of a stream depend on the operations in `awaited`.
    pub fn join(&self, stream: usize, awaited: &OperationSet) -> Result<()> {
        let mut recording = lock(&self.recording);
        let done = recording.of_active()?.predecessors.entry(stream).or_default();
        for (&other, &count) in awaited {
            let known = done.entry(other).or_default();
            *known = count.max(*known);
        }
        Ok(())
    }

    /// Ends the capture on `stream`, the number of the stream that it began on, and returns the recorded operations.
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
        let awaited = recording.predecessors.get(&self.origin).cloned().unwrap_or_default();
        let joined = |&stream: &usize| awaited.get(&stream).copied().unwrap_or(0) == recording.own(stream);
        if !recording.predecessors.keys().all(joined) {
            return Err(Code::CaptureUnjoined);
        }
        Ok(std::mem::take(&mut recording.operations))
    }

    /// Returns whether the capture forbids calls of the calling thread that might wait for a captured stream.
    fn forbids(&self) -> bool {
        match self.mode {
            Mode::Global => true,
            Mode::ThreadLocal => self.thread == thread::current().id(),
            Mode::Relaxed => false,
        }
    }
}

/// Returns an error if a capture forbids the current call, and makes that capture invalid.
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
        let fork = capture.predecessors(1).unwrap();
        capture.join(2, &fork).unwrap();
        capture.record(2, NOTHING).unwrap();
        let early = capture.predecessors(2).unwrap();
        capture.record(2, NOTHING).unwrap();
        capture.join(1, &early).unwrap();
        assert_eq!(capture.end(1).err(), Some(Code::CaptureUnjoined), "only half of it is");
        assert_eq!(capture.status(), Status::Ended);

        let capture = Capture::begin(1, Mode::ThreadLocal);
        capture.join(2, &capture.predecessors(1).unwrap()).unwrap();
        capture.record(2, NOTHING).unwrap();
        // Stream 2 is joined indirectly, through stream 3.
        capture.join(3, &capture.predecessors(2).unwrap()).unwrap();
        capture.record(3, NOTHING).unwrap();
        capture.join(1, &capture.predecessors(3).unwrap()).unwrap();
        // A stream without operations need not be joined to the first.
        capture.join(4, &capture.predecessors(1).unwrap()).unwrap();
        assert_eq!(capture.end(1).unwrap().len(), 2);
        assert_eq!(capture.record(1, NOTHING), Err(Code::CaptureInvalidated));
    }

    #[test]
    fn forbidden_call_invalidates_the_capture() {
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
