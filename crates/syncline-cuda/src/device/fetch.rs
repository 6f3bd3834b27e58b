//! Copies small results from the device to the host.

use std::sync::Arc;

use cudarc::driver::{CudaStream, DevicePtr, DeviceRepr};

use crate::error::{DriverContext, Result};

/// Copies the elements of `from` to the host after all work queued on `stream`. Always waits for the stream, because
/// the driver may or may not complete a copy to pageable memory before the call returns.
///
/// # Errors
/// [`CudaError::Driver`](crate::CudaError::Driver), which names the operation `what`.
pub(crate) fn fetch<T: DeviceRepr>(stream: &Arc<CudaStream>, from: &impl DevicePtr<T>, what: &str) -> Result<Vec<T>> {
    let elements = stream.clone_dtoh(from).doing(what)?;
    stream.synchronize().doing(what)?;
    Ok(elements)
}
