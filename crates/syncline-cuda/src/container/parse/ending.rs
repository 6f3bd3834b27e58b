//! How a batch ends: what is known of each chunk in one word, and scratch memory as the next batch needs it.

#![allow(unsafe_code)]

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr};

use super::ParsedRecords;
use crate::error::{CudaError, Result};

/// `Ending` of `container/parsed.cuh`: addresses of a batch's memory, for the kernel that ends it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Ending {
    result: CUdeviceptr,
    bitmap_status: CUdeviceptr,
    clear: CUdeviceptr,
    clear_bytes: u32,
    bitmaps: u32,
}

// SAFETY: plain numbers without padding, laid out as the kernels' struct.
unsafe impl DeviceRepr for Ending {}

impl Ending {
    /// The batch ends elsewhere.
    pub(crate) const ELSEWHERE: Self = Self { result: 0, bitmap_status: 0, clear: 0, clear_bytes: 0, bitmaps: 0 };
}

impl ParsedRecords<'_> {
    /// What ends the batch with a word of `result` for each chunk.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless there are as many words as chunks.
    pub(crate) fn ending(&self, stream: &CudaStream, result: &mut CudaViewMut<'_, u32>) -> Result<Ending> {
        let count = self.tiles.chunk_count;
        if result.len() != count as usize {
            return Err(CudaError::invalid("there is a word for each chunk"));
        }
        Ok(Ending {
            result: result.device_ptr_mut(stream).0,
            bitmap_status: self.bitmap_status.as_view().device_ptr(stream).0,
            clear: self.kept.0,
            clear_bytes: self.kept.1,
            bitmaps: self.bitmap_status.len() as u32 / count.max(1),
        })
    }
}
