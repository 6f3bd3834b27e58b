//! Small results read from the device.

use std::sync::Arc;

use cudarc::driver::{CudaStream, DevicePtr, DeviceRepr};

use crate::error::{DriverContext, Result};

/// The elements of `from` once all that `stream` was given so far is done. It waits in any case: whether a copy to
/// memory that is not page-locked is done when the call returns is the driver's choice.
///
/// # Errors
/// [`CudaError::Driver`](crate::CudaError::Driver), which says that this was being done: `what`.
pub(crate) fn fetch<T: DeviceRepr>(stream: &Arc<CudaStream>, from: &impl DevicePtr<T>, what: &str) -> Result<Vec<T>> {
    let elements = stream.clone_dtoh(from).doing(what)?;
    stream.synchronize().doing(what)?;
    Ok(elements)
}
