//! Memory that the driver keeps after it was freed.

use std::ffi::c_void;

use cudarc::driver::sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
use cudarc::driver::{CudaContext, result};

use crate::error::{DriverContext, Result};

/// Lets the device's default memory pool keep up to `bytes` bytes of freed memory for later allocations; it keeps more
/// if it already does. Without this, freed memory returns to the system whenever the host waits for the device, and
/// each allocation maps memory again, which takes longer than the kernels that use it. Returns how many bytes the pool
/// keeps, or 0 for a device without memory pools.
///
/// # Errors
/// [`CudaError::Driver`](crate::CudaError::Driver).
pub fn keep_freed_memory(context: &CudaContext, bytes: u64) -> Result<u64> {
    if !context.has_async_alloc() {
        return Ok(0);
    }
    let attribute = CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    let mut kept = 0u64;
    let mut raise = || {
        // SAFETY: the device is that of a live context.
        let pool = unsafe { result::device::get_default_mem_pool(context.cu_device()) }?;
        // SAFETY: the default pool always exists, and the attribute's type is a 64-bit unsigned integer.
        unsafe { result::mem_pool::get_attribute(pool, attribute, (&raw mut kept).cast::<c_void>()) }?;
        if kept < bytes {
            kept = bytes;
            // SAFETY: as above.
            unsafe { result::mem_pool::set_attribute(pool, attribute, (&raw mut kept).cast::<c_void>()) }?;
        }
        Ok(kept)
    };
    raise().doing("configuring the device's memory pool")
}
