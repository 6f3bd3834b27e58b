//! Arrays of one type and shape compressed again and again, without waiting for the device.

#![allow(unsafe_code, reason = "device memory and CUDA streams come from the caller as raw pointers")]

use std::fmt;
use std::sync::Arc;

use syncline_core::array::{ElementType, Shape};
use syncline_core::container::ALIGNMENT;
use syncline_core::error::Result;
use syncline_cuda::CudaError;
use syncline_cuda::cudarc::driver::CudaStream;
use syncline_cuda::pipeline::{self, Sizing};

use super::compressor::device_options;
use super::memory::{borrow, borrow_stream, check_alignment, check_len, check_not_captured, error, open};
use super::{DeviceBytes, RawStream};
use crate::options::CompressOptions;

/// Compresses arrays of one type and shape in device memory, as often as needed, on the stream of the caller.
///
/// Everything is allocated when the compressor is made, for the worst case: a little more than the size of an array, or
/// of 1 GiB of a larger one. [`QueuedCompressor::compress`] only queues work, so that it can be captured in a CUDA
/// graph: beside its kernels the GPU calls a function of the host, which resolves the bound for each array.
/// [`QueuedCompressor::check`] waits, and returns the size of the stream or why there is none.
///
/// The streams are the same bytes as those of other functions.
pub struct QueuedCompressor {
    // Dropped first: it waits for the stream, and frees its memory on it.
    inner: pipeline::Compressor<'static>,
    stream: Arc<CudaStream>,
    element_type: ElementType,
    shape: Shape,
}

impl QueuedCompressor {
    /// Prepares the compression of arrays of this type and shape by GPU number `ordinal`. Waits for `stream`.
    ///
    /// Of the options, those about the processor, threads, memory and progress are not used. Fill values must be given,
    /// or [`Fill::None`](crate::Fill::None), because finding them takes several passes.
    ///
    /// # Safety
    /// `stream` is null or a live stream of the device's primary context, until the compressor is dropped.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a bound that the element type does not support.
    /// [`Error::Gpu`](crate::Error::Gpu) for what takes the host's decisions: a PSNR, and fill values that are to be
    /// detected; for lossless streams; if the GPU fails or has too little memory, or if a CUDA graph captures `stream`.
    pub unsafe fn new(
        ordinal: usize,
        element_type: ElementType,
        shape: Shape,
        options: &CompressOptions,
        stream: RawStream,
    ) -> Result<Self> {
        options.validate(element_type).map_err(|wrong| error(wrong.into()))?;
        let device = open(ordinal)?;
        // SAFETY: the caller promises that the stream lives as long as this object.
        let stream = unsafe { borrow_stream(device, stream) }.map_err(error)?;
        check_not_captured(&stream).map_err(error)?;
        let options = &device_options(options);
        let inner =
            pipeline::Compressor::new(device, &stream, Sizing::WorstCase { element_type, shape: &shape, options });
        Ok(Self { inner: inner.map_err(error)?, stream, element_type, shape })
    }

    /// Returns the element type and the shape of the arrays.
    pub fn array(&self) -> (ElementType, Shape) {
        (self.element_type, self.shape)
    }

    /// Queues the compression of the array at `input`, in C order, on the stream of the caller. The stream is written
    /// to the start of `output`, for which [`compress_bound`](crate::compress_bound) bytes are always enough.
    /// The unsigned 64-bit word at `size`, if given, receives its size in bytes; 0 if there is none, for which
    /// [`QueuedCompressor::check`] has the reason.
    ///
    /// # Safety
    /// - `input` is memory of the GPU that may be read, and `output` and `size` are memory of the GPU that may be
    ///   written, for all their `len` bytes until the work is done, in each launch of a graph that captured it. They do
    ///   not overlap.
    /// - Nothing else writes to `input`, and nothing else uses `output` and `size`, while the work runs.
    /// - The compressor lives as long; its work, and launches of graphs that captured it, run one after another.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if a length does not match, `input` is not aligned to
    /// its elements, `output` to 16 bytes, or `size` to 8. [`Error::Gpu`](crate::Error::Gpu) if the GPU fails.
    pub unsafe fn compress(
        &mut self,
        input: DeviceBytes,
        output: DeviceBytes,
        size: Option<DeviceBytes>,
    ) -> Result<()> {
        check_len(input, self.shape.len() * self.element_type.size() as u64, "the input").map_err(error)?;
        check_alignment(input, self.element_type.size(), "the input").map_err(error)?;
        check_alignment(output, ALIGNMENT, "the output").map_err(error)?;
        if let Some(size) = size {
            if size.len != size_of::<u64>() {
                let text = format!("the size needs memory of 8 bytes, not of {}", size.len);
                return Err(error(CudaError::invalid(text)));
            }
            check_alignment(size, size_of::<u64>(), "the size").map_err(error)?;
        }
        // SAFETY: the caller promises that these are the bytes of live device memory; nobody else uses them meanwhile.
        let (input, mut output) =
            unsafe { (borrow::<u8>(&self.stream, input, input.len), borrow::<u8>(&self.stream, output, output.len)) };
        // SAFETY: as above; any bits are a u64, and the alignment was checked.
        let mut size = size.map(|size| unsafe { borrow::<u64>(&self.stream, size, 1) });
        let mut word = size.as_mut().map(|size| size.view());
        self.inner.queue(&input.as_view(), &mut output.view(), word.as_mut()).map_err(error)
    }

    /// Waits for the stream, and returns the size in bytes of the stream that the last compression wrote.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the output was too short, or nothing was
    /// compressed. [`Error::Gpu`](crate::Error::Gpu) if the bound resolves to lossless compression, if the GPU fails,
    /// or if a CUDA graph captures the stream.
    pub fn check(&self) -> Result<u64> {
        check_not_captured(&self.stream).map_err(error)?;
        self.inner.check().map_err(error)
    }
}

impl fmt::Debug for QueuedCompressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { element_type, shape, .. } = self;
        f.debug_struct("QueuedCompressor")
            .field("element_type", element_type)
            .field("shape", shape)
            .finish_non_exhaustive()
    }
}

impl Drop for QueuedCompressor {
    fn drop(&mut self) {
        // Memory is freed in the context that is current in this thread. An error would show in the next call.
        let _ = self.stream.context().bind_to_thread();
    }
}
