//! A second stream beside the caller's.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::result::stream::{StreamKind, create_with_priority, destroy, get_priority_range};
use cudarc::driver::sys::CUstream;
use cudarc::driver::{CudaContext, CudaEvent, CudaStream};

use crate::error::{DriverContext, Result};

/// A stream for work that is independent of other work on the caller's stream.
///
/// The stream is created and destroyed here, not by `cudarc`'s context, which would enable its tracking of slices
/// across streams. [`Self::fork`] and [`Self::join`] establish all ordering between the two streams.
#[derive(Debug)]
pub struct SideStream {
    fork: CudaEvent,
    join: CudaEvent,
    stream: Arc<CudaStream>,
    #[expect(dead_code, reason = "destroys the stream when all else is gone")]
    owned: OwnedStream,
}

/// A stream of the driver, destroyed on drop.
#[derive(Debug)]
struct OwnedStream {
    context: Arc<CudaContext>,
    stream: CUstream,
}

// SAFETY: a stream's handle may be used and destroyed from any thread.
unsafe impl Send for OwnedStream {}
// SAFETY: a shared reference gives no access to the stream.
unsafe impl Sync for OwnedStream {}

impl Drop for OwnedStream {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: `SideStream::new` made the stream, and it is no longer used: the field that wraps it is declared
            // before this one and is dropped first. The driver completes queued work before it frees the stream. Drop
            // cannot report an error.
            let _ = unsafe { destroy(self.stream) };
        }
    }
}

impl SideStream {
    /// Creates a stream in this context.
    ///
    /// # Errors
    /// [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn new(context: &Arc<CudaContext>) -> Result<Self> {
        context.bind_to_thread().doing("making the device's context current")?;
        let stream = get_priority_range()
            .and_then(|(least, _)| create_with_priority(StreamKind::NonBlocking, least))
            .doing("making a stream")?;
        let owned = OwnedStream { context: context.clone(), stream };
        // SAFETY: the stream was created in this context above. `owned` outlives the wrapper, because it is dropped
        // after all fields that hold the wrapper.
        let stream = unsafe { context.wrap_borrowed_stream(stream) };
        let event = || context.new_event(None).doing("making an event");
        Ok(Self { fork: event()?, join: event()?, stream, owned })
    }

    /// Returns the second stream.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Records the work queued on `main` so far, for [`Self::follow`].
    ///
    /// # Errors
    /// [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn mark(&self, main: &CudaStream) -> Result<()> {
        self.fork.record(main).doing("forking")
    }

    /// Makes work that is queued on this stream from now on wait for the work recorded by the last [`Self::mark`].
    ///
    /// # Errors
    /// [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn follow(&self) -> Result<()> {
        self.stream.wait(&self.fork).doing("forking")
    }

    /// Makes work that is queued on this stream from now on wait for the work queued on `main` so far.
    ///
    /// # Errors
    /// [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn fork(&self, main: &CudaStream) -> Result<()> {
        self.mark(main)?;
        self.follow()
    }

    /// Makes work that is queued on `main` from now on wait for the work queued on this stream so far.
    ///
    /// # Errors
    /// [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn join(&self, main: &CudaStream) -> Result<()> {
        self.join.record(&self.stream).and_then(|()| main.wait(&self.join)).doing("joining")
    }
}
