//! Arrays in the memory of an NVIDIA GPU.

#![allow(clippy::too_many_arguments, reason = "C functions have no other way to name their arguments")]
#![allow(unsafe_code, reason = "exported C functions and device memory of the caller")]

use std::ffi::{c_int, c_void};

use syncline::gpu::{Compressor, DeviceBytes};

use crate::codec::{element, shape_of};
use crate::context::syncline_context;
use crate::options::{compress_options, syncline_compress_options};
use crate::status::{Failure, guard};

/// Compresses and decompresses arrays in the memory of one GPU. It keeps its workspace in device memory from call to
/// call. Use it in one thread at a time.
pub struct syncline_cuda_compressor {
    inner: Compressor,
}

/// Opens GPU number `device` in its primary context. Returns NULL after an error, whose message is in `context`. Free
/// the compressor with `syncline_cuda_free_compressor`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_cuda_create_compressor(
    context: *mut syncline_context,
    device: c_int,
) -> *mut syncline_cuda_compressor {
    let mut made = std::ptr::null_mut();
    let work = || {
        let ordinal = usize::try_from(device).map_err(|_| Failure::invalid(format!("device is {device}")))?;
        made = Box::into_raw(Box::new(syncline_cuda_compressor { inner: Compressor::new(ordinal)? }));
        Ok(0)
    };
    // SAFETY: the caller passes NULL or a context that no other thread uses.
    unsafe { guard(context, work) };
    made
}

/// Frees a compressor after its work is done. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_cuda_free_compressor(compressor: *mut syncline_cuda_compressor) {
    let work = || {
        if !compressor.is_null() {
            // SAFETY: the caller passes a compressor of `syncline_cuda_create_compressor` that is not used afterwards.
            drop(unsafe { Box::from_raw(compressor) });
        }
        Ok(0)
    };
    // SAFETY: no context.
    unsafe { guard(std::ptr::null_mut(), work) };
}

/// Compresses an array in device memory to `output`, device memory of `capacity` bytes that is aligned to 16 bytes.
/// `stream` is a CUstream or cudaStream_t; NULL is the legacy default stream. The work is ordered after everything
/// queued on `stream`, and the call returns when the result is complete. Returns the size of the stream or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_cuda_compress(
    context: *mut syncline_context,
    compressor: *mut syncline_cuda_compressor,
    output: *mut c_void,
    capacity: usize,
    data: *const c_void,
    data_size: usize,
    element_type: u32,
    shape: *const u64,
    rank: usize,
    options: *const syncline_compress_options,
    stream: *mut c_void,
) -> usize {
    let work = || {
        // SAFETY: the caller passes NULL or a compressor, `rank` extents, and NULL or options.
        let (compressor, shape, options) = unsafe {
            (compressor.as_mut().ok_or_else(no_compressor)?, shape_of(shape, rank)?, compress_options(options)?)
        };
        let input = DeviceBytes { pointer: data as u64, len: data_size };
        let output = DeviceBytes { pointer: output as u64, len: capacity };
        // SAFETY: the caller passes device memory of these sizes and a live stream, as the header asks for.
        let summary =
            unsafe { compressor.inner.compress(input, element(element_type)?, shape, &options, output, stream) }?;
        Ok(summary.compressed_bytes as usize)
    };
    // SAFETY: the caller passes NULL or a context that no other thread uses.
    unsafe { guard(context, work) }
}

/// Decompresses a stream in device memory, aligned to 16 bytes, to `output`, device memory of exactly the size of the
/// array. The work is ordered after everything queued on `cuda_stream`, and the call returns when the result is
/// complete. Returns `output_size` or an error. After an error, the contents of `output` are unspecified.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syncline_cuda_decompress(
    context: *mut syncline_context,
    compressor: *mut syncline_cuda_compressor,
    output: *mut c_void,
    output_size: usize,
    stream: *const c_void,
    stream_size: usize,
    cuda_stream: *mut c_void,
) -> usize {
    let work = || {
        // SAFETY: the caller passes NULL or a compressor.
        let compressor = unsafe { compressor.as_mut() }.ok_or_else(no_compressor)?;
        let input = DeviceBytes { pointer: stream as u64, len: stream_size };
        let output = DeviceBytes { pointer: output as u64, len: output_size };
        // SAFETY: the caller passes device memory of these sizes and a live stream, as the header asks for.
        unsafe { compressor.inner.decompress(input, output, cuda_stream) }?;
        Ok(output_size)
    };
    // SAFETY: the caller passes NULL or a context that no other thread uses.
    unsafe { guard(context, work) }
}

/// Returns the error of calls without a compressor.
fn no_compressor() -> Failure {
    Failure::invalid("compressor is NULL")
}
