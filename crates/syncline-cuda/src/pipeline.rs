//! Compression of whole arrays in device memory, and decompression of whole streams.

mod batches;
mod compress;
mod decompress;
mod info;

pub use compress::{ChunkRecords, CompressOptions, Compressed, Compressor, Sizing};
pub use decompress::Decompressor;
pub use info::StreamInfo;

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtrMut};
use syncline_core::array::{ElementType, Shape};
use syncline_core::container::ALIGNMENT;
pub use syncline_core::pipeline::compress_bound;

use crate::error::{CudaError, Result};

/// Checks that `input` has exactly the bytes of an array of this type and shape.
pub(crate) fn check_array(input: &CudaView<'_, u8>, element_type: ElementType, shape: Shape) -> Result<()> {
    let bytes = shape.len().saturating_mul(element_type.size() as u64);
    if input.len() as u64 != bytes {
        let problem = format!("{shape} of {element_type} has {bytes} bytes, not {}", input.len());
        return Err(CudaError::invalid(problem));
    }
    Ok(())
}

/// Checks that `output` is aligned as records require.
pub(crate) fn check_output(stream: &Arc<CudaStream>, output: &mut CudaViewMut<'_, u8>) -> Result<()> {
    match output.device_ptr_mut(stream).0.is_multiple_of(ALIGNMENT as u64) {
        true => Ok(()),
        false => Err(CudaError::invalid("the output must start on a multiple of 16 bytes")),
    }
}
