//! Work beside the interpreter: progress callbacks, exceptions, and interrupts.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use syncline::{Error, Result};

/// Time between two looks at the interpreter.
const INTERVAL: Duration = Duration::from_millis(100);

/// State that a worker and the calling thread share: the worker's progress, and requests to stop.
#[derive(Default)]
struct State {
    done: AtomicU64,
    total: AtomicU64,
    cancelled: AtomicBool,
}

/// The progress callback that a piece of work gets.
#[derive(Clone, Default)]
pub struct Hook(Arc<State>);

impl Hook {
    /// Returns the library's callback, which records progress and stops the work after a cancellation.
    pub fn callback(&self) -> impl Fn(u64, u64) -> ControlFlow<()> + Send + Sync + 'static {
        let state = self.0.clone();
        move |done, total| {
            state.total.store(total, Ordering::Relaxed);
            state.done.fetch_max(done, Ordering::Relaxed);
            if state.cancelled.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }

    /// Calls `progress(done, total)` with numbers of elements, and runs pending signal handlers such as that of Ctrl-C.
    fn report(&self, py: Python<'_>, progress: Option<&Py<PyAny>>) -> PyResult<()> {
        py.check_signals()?;
        let (done, total) = (self.0.done.load(Ordering::Relaxed), self.0.total.load(Ordering::Relaxed));
        match progress {
            Some(progress) if total > 0 => progress.call1(py, (done, total)).map(drop),
            _ => Ok(()),
        }
    }
}

/// Arrays of at most so many bytes are worked on by the calling thread: starting another one would take longer than
/// small arrays do, and even with the slowest options these take less than a moment.
const SMALL_BYTES: usize = 1 << 20;

/// Runs `work` on an array of `bytes` bytes, detached from the interpreter, and on another thread unless the array is
/// small. The calling thread meanwhile reports progress and notices signals, as only it can (Python runs signal
/// handlers on the main thread alone). If no thread can be started, the calling thread does the work.
///
/// # Errors
/// The exception of a signal handler or of `progress`, which cancels the work, or the one for the work's error, with
/// the file at `path` if it reads one.
pub fn run<T: Send>(
    py: Python<'_>,
    bytes: usize,
    progress: Option<&Py<PyAny>>,
    path: Option<&Path>,
    work: impl FnOnce(&Hook) -> Result<T> + Send,
) -> PyResult<T> {
    let hook = Hook::default();
    let (result, raised) = match bytes <= SMALL_BYTES {
        true => (py.detach(|| work(&hook)), None),
        false => py.detach(|| run_beside(progress, &hook, work)),
    };
    match (result, raised) {
        (Ok(value), None) => hook.report(py, progress).map(|()| value),
        (Err(Error::Cancelled) | Ok(_), Some(raised)) => Err(raised),
        (Err(error), _) => Err(crate::errors::exception_in(error, path)),
    }
}

/// Runs `work` on another thread if there is one. Returns its result, and the exception that cancelled it.
fn run_beside<T: Send>(
    progress: Option<&Py<PyAny>>,
    hook: &Hook,
    work: impl FnOnce(&Hook) -> Result<T> + Send,
) -> (Result<T>, Option<PyErr>) {
    if !syncline::has_room_for_thread() {
        return (work(hook), None);
    }
    let (finished, wait) = sync_channel(1);
    // Taken by the thread that does it.
    let work = Mutex::new(Some(work));
    let take = || work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let mut raised = None;
    let result = std::thread::scope(|scope| {
        let worker = std::thread::Builder::new().spawn_scoped(scope, || {
            // Dropped when the work ends, also by a panic, which ends the wait.
            let _finished = finished;
            take().map(|work| work(hook))
        });
        let Ok(worker) = worker else { return take().map(|work| work(hook)) };
        while raised.is_none() && wait.recv_timeout(INTERVAL) == Err::<(), _>(RecvTimeoutError::Timeout) {
            if let Err(error) = Python::attach(|py| hook.report(py, progress)) {
                hook.0.cancelled.store(true, Ordering::Relaxed);
                raised = Some(error);
            }
        }
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    (result.unwrap_or(Err(Error::Cancelled)), raised)
}
