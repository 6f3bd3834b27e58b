//! The argument of the kernel that finishes a batch: combines statuses and clears memory for the next batch.

use cudarc::driver::{CudaStream, CudaViewMut, DevicePtr, DevicePtrMut};

use super::ParsedRecords;
use crate::container::structs::BatchFinish;
use crate::error::{CudaError, Result};

impl ParsedRecords<'_> {
    /// Returns the argument of the kernel that finishes the batch with one word of `result` for each chunk.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless `result` has as many words as the batch has chunks.
    pub(crate) fn batch_finish(&self, stream: &CudaStream, result: &mut CudaViewMut<'_, u32>) -> Result<BatchFinish> {
        let count = self.tiles.chunk_count;
        if result.len() != count as usize {
            return Err(CudaError::invalid("the result needs one word for each chunk"));
        }
        Ok(BatchFinish {
            result: result.device_ptr_mut(stream).0,
            bitmap_status: self.bitmap_status.as_view().device_ptr(stream).0,
            clear: self.reused.0,
            clear_bytes: self.reused.1,
            bitmaps: self.bitmap_status.len() as u32 / count.max(1),
        })
    }
}
