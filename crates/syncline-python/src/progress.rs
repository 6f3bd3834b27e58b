//! Work beside the interpreter: progress callbacks, exceptions, and interrupts.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
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

/// Runs `work` on another thread, detached from the interpreter. The calling thread meanwhile reports progress and
/// notices signals, as only it can (Python runs signal handlers on the main thread alone).
///
/// # Errors
/// The exception of a signal handler or of `progress`, which cancels the work, or the one for the work's error.
pub fn run<T: Send>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&Hook) -> Result<T> + Send,
) -> PyResult<T> {
    let hook = Hook::default();
    let mut raised = None;
    let result = py.detach(|| {
        let (finished, wait) = sync_channel(1);
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                // Dropped when the work ends, also by a panic, which ends the wait.
                let _finished = finished;
                work(&hook)
            });
            while raised.is_none() && wait.recv_timeout(INTERVAL) == Err::<(), _>(RecvTimeoutError::Timeout) {
                if let Err(error) = Python::attach(|py| hook.report(py, progress)) {
                    hook.0.cancelled.store(true, Ordering::Relaxed);
                    raised = Some(error);
                }
            }
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    });
    match (result, raised) {
        (Ok(value), None) => hook.report(py, progress).map(|()| value),
        (Err(Error::Cancelled) | Ok(_), Some(raised)) => Err(raised),
        (Err(error), _) => Err(crate::errors::exception(error)),
    }
}
