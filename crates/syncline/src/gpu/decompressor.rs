//! One stream decompressed again and again, without waiting for the device.

#![allow(unsafe_code, reason = "device memory and CUDA streams come from the caller as raw pointers")]

use std::fmt;
use std::sync::Arc;

use syncline_core::container::{ALIGNMENT, Header};
use syncline_core::error::Result;
use syncline_cuda::cudarc::driver::CudaStream;
use syncline_cuda::pipeline::{self, StreamInfo};

use super::memory::{borrow, borrow_stream, check_alignment, check_len, check_not_captured, error, open};
use super::{DeviceBytes, RawStream};

/// Decompresses one lossy stream in device memory, as often as needed, on the stream of the caller.
///
/// Everything is allocated when the decompressor is made. [`Decompressor::decompress`] only queues work, so that it can
/// be captured in a CUDA graph. [`Decompressor::check`] waits, and reports damage.
pub struct Decompressor {
    // Dropped first: it frees its memory on the stream.
    inner: pipeline::Decompressor,
    stream: Arc<CudaStream>,
    info: StreamInfo,
}

impl Decompressor {
    /// Prepares the decompression of the stream at `input` by GPU number `ordinal`. Waits for `stream`.
    ///
    /// # Safety
    /// - `input` is memory of this GPU that may be read for all its `len` bytes, and nothing writes to it until the
    ///   call returns.
    /// - `stream` is null or a live stream of the device's primary context, until the decompressor is dropped.
    ///
    /// # Errors
    /// The data are not a stream, or one of a newer version; or it is truncated or damaged.
    /// [`Error::Gpu`](crate::Error::Gpu) if the stream is lossless, for which [`Compressor`](super::Compressor) serves,
    /// or if the GPU fails, or a CUDA graph captures `stream`.
    pub unsafe fn new(ordinal: usize, input: DeviceBytes, stream: RawStream) -> Result<Self> {
        check_alignment(input, ALIGNMENT, "the input").map_err(error)?;
        let device = open(ordinal)?;
        // SAFETY: the caller promises that the stream lives as long as this object.
        let stream = unsafe { borrow_stream(device, stream) }.map_err(error)?;
        check_not_captured(&stream).map_err(error)?;
        // SAFETY: the caller promises that these are the bytes of live device memory; nobody writes to them meanwhile.
        let input = unsafe { borrow::<u8>(&stream, input, input.len) };
        let info = StreamInfo::from_device(&stream, &input.as_view()).map_err(error)?;
        let inner = pipeline::Decompressor::new(device, stream.clone(), &info).map_err(error)?;
        Ok(Self { inner, stream, info })
    }

    /// Returns the header of the stream, which has the element type and the shape of the array.
    pub fn header(&self) -> &Header {
        self.info.header()
    }

    /// Queues the decompression on the stream of the caller. `input` has the stream that the decompressor was made for,
    /// or one with the same header and the same lengths of chunks. Elements are written in C order.
    ///
    /// # Safety
    /// - `input` is memory of the GPU that may be read, and `output` is memory of the GPU that may be written, both for
    ///   all their `len` bytes until the work is done, in each launch of a graph that captured it. They do not overlap.
    /// - Nothing else writes to `input`, and nothing else uses `output`, while the work runs.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if a length does not match, `input` is not aligned to
    /// 16 bytes, or `output` is not aligned to its elements. [`Error::Gpu`](crate::Error::Gpu) if the GPU fails.
    pub unsafe fn decompress(&mut self, input: DeviceBytes, output: DeviceBytes) -> Result<()> {
        check_alignment(input, ALIGNMENT, "the input").map_err(error)?;
        check_len(output, self.info.decompressed_len(), "the output").map_err(error)?;
        check_alignment(output, self.info.header().element_type.size(), "the output").map_err(error)?;
        // SAFETY: the caller promises that these are the bytes of live device memory; nobody writes to them meanwhile.
        let input = unsafe { borrow::<u8>(&self.stream, input, input.len) };
        let input = input.as_view();
        // SAFETY: as above; the length was checked.
        let mut output = unsafe { borrow::<u8>(&self.stream, output, output.len) };
        self.inner.decompress(&input, &mut output.view()).map_err(error)
    }

    /// Waits for the stream, and reports damage that the last decompression found. The contents of its output are
    /// unspecified in that case.
    ///
    /// # Errors
    /// The stream is damaged; [`Error::Gpu`](crate::Error::Gpu) if the GPU fails, or a CUDA graph captures the stream.
    pub fn check(&self) -> Result<()> {
        check_not_captured(&self.stream).map_err(error)?;
        self.inner.check().map_err(error)
    }
}

impl fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressor").field("header", self.header()).finish_non_exhaustive()
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        // Memory is freed in the context that is current in this thread. An error would show in the next call.
        let _ = self.stream.context().bind_to_thread();
    }
}
