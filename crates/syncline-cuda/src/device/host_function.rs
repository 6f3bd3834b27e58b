//! Functions of the host that the device calls in the order of a stream.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cudarc::driver::CudaStream;
use cudarc::driver::sys::{CUstreamCaptureStatus, cuLaunchHostFunc};

use crate::error::{DriverContext, Result};

/// The work of a [`HostFunction`].
type Work = Box<dyn Fn() + Send + Sync>;

/// A function of the host that a stream calls when all earlier work is done, also in each launch of a CUDA graph that
/// captured the stream. It must not call the driver.
pub(crate) struct HostFunction {
    stream: Arc<CudaStream>,
    work: Arc<Work>,
    /// Whether a graph may call it.
    captured: bool,
}

/// Calls the work at `data`.
///
/// # Safety
/// `data` points to a live [`Work`].
unsafe extern "C" fn call(data: *mut c_void) {
    // SAFETY: that of this function.
    let work = unsafe { &*data.cast::<Work>() };
    // A panic must not reach the driver. It has printed a message, and what the work should have written is missing.
    let _ = catch_unwind(AssertUnwindSafe(work));
}

impl HostFunction {
    /// Returns the function that does `work`, for calls on `stream`.
    pub fn new(stream: &Arc<CudaStream>, work: impl Fn() + Send + Sync + 'static) -> Self {
        Self { stream: stream.clone(), work: Arc::new(Box::new(work)), captured: false }
    }

    /// Queues a call.
    ///
    /// # Errors
    /// [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn queue(&mut self) -> Result<()> {
        let stream = &self.stream;
        stream.context().bind_to_thread().doing("making the device's context current")?;
        let status = stream.capture_status().doing("asking whether a stream is captured")?;
        if status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE && !self.captured {
            // Nobody tells when the last graph is gone, so that the work stays.
            std::mem::forget(self.work.clone());
            self.captured = true;
        }
        let data = Arc::as_ptr(&self.work).cast_mut().cast::<c_void>();
        // SAFETY: `call` gets a live `Work`: a captured one stays for ever, and `Drop` waits for any other call.
        unsafe { cuLaunchHostFunc(stream.cu_stream(), Some(call), data) }
            .result()
            .doing("queuing a function of the host")
    }
}

impl Drop for HostFunction {
    /// Waits for the calls that are queued.
    fn drop(&mut self) {
        // An error that an earlier call has left in the context would be returned instead of waiting, so that it is
        // called again in that case.
        let _ = self.stream.synchronize().or_else(|_| self.stream.synchronize());
    }
}

impl std::fmt::Debug for HostFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostFunction").field("captured", &self.captured).finish_non_exhaustive()
    }
}
