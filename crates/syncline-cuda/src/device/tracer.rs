//! Reports of launches, for benches and tests.

use std::fmt;
use std::sync::Arc;

use cudarc::driver::CudaStream;

use crate::error::Result;

/// Receives each launch of the kernels of a device ([`Device::with_tracer`](super::Device::with_tracer)).
pub trait Tracer: fmt::Debug + Send + Sync {
    /// Called before `kernel` is queued on `stream`.
    ///
    /// # Errors
    /// Those of the tracer. The kernel is not launched then.
    fn before(&self, kernel: &'static str, stream: &Arc<CudaStream>) -> Result<()>;

    /// Called after `kernel` was queued on `stream`.
    ///
    /// # Errors
    /// Those of the tracer.
    fn after(&self, kernel: &'static str, stream: &Arc<CudaStream>) -> Result<()>;
}
