//! A stream beside the caller's.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::result::stream::{StreamKind, create_with_priority, destroy, get_priority_range};
use cudarc::driver::sys::CUstream;
use cudarc::driver::{CudaContext, CudaEvent, CudaStream};

use crate::error::{DriverContext, Result};

/// A stream for work that needs not wait for other work of the caller's stream, nor that for it.
///
/// Made and destroyed here, not by the context, so that this does not switch on the context's tracking of slices across
/// streams: [`Self::fork`] and [`Self::join`] are all the order that there is to keep.
#[derive(Debug)]
pub struct SideStream {
    fork: CudaEvent,
    join: CudaEvent,
    stream: Arc<CudaStream>,
    #[expect(dead_code, reason = "destroys the stream when all else is gone")]
    owned: OwnedStream,
}

/// A driver's stream, destroyed in the end.
#[derive(Debug)]
struct OwnedStream {
    context: Arc<CudaContext>,
    stream: CUstream,
}

// SAFETY: a stream's handle may be used and destroyed from any thread.
unsafe impl Send for OwnedStream {}
// SAFETY: nothing is done through a shared reference.
unsafe impl Sync for OwnedStream {}

impl Drop for OwnedStream {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: made by us and used by nobody any more: what wraps it is a field before this one, and dropped.
            // Work that is still queued is finished first. There is nobody to report to.
            let _ = unsafe { destroy(self.stream) };
        }
    }
}

impl SideStream {
    /// A stream of this context.
    ///
    /// # Errors
    /// [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn new(context: &Arc<CudaContext>) -> Result<Self> {
        context.bind_to_thread().doing("making the device's context current")?;
        let stream = get_priority_range()
            .and_then(|(least, _)| create_with_priority(StreamKind::NonBlocking, least))
            .doing("making a stream")?;
        let owned = OwnedStream { context: context.clone(), stream };
        // SAFETY: made in this context just now; `owned` outlives the wrapper, being dropped after everything that
        // holds it.
        let stream = unsafe { context.wrap_borrowed_stream(stream) };
        let event = || context.new_event(None).doing("making an event");
        Ok(Self { fork: event()?, join: event()?, stream, owned })
    }

    /// The stream.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Notes what `main` has been given so far: what [`Self::follow`] is to come after.
    ///
    /// # Errors
    /// [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn mark(&self, main: &CudaStream) -> Result<()> {
        self.fork.record(main).doing("forking")
    }

    /// Work queued here from now on comes after the last [`Self::mark`].
    ///
    /// # Errors
    /// [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn follow(&self) -> Result<()> {
        self.stream.wait(&self.fork).doing("forking")
    }

    /// Work queued here from now on comes after what `main` has been given so far.
    ///
    /// # Errors
    /// [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn fork(&self, main: &CudaStream) -> Result<()> {
        self.mark(main)?;
        self.follow()
    }

    /// Work queued on `main` from now on comes after what was queued here so far.
    ///
    /// # Errors
    /// [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn join(&self, main: &CudaStream) -> Result<()> {
        self.join.record(&self.stream).and_then(|()| main.wait(&self.join)).doing("joining")
    }
}
