//! Whole arrays to streams.

#![allow(unsafe_code, reason = "device memory and CUDA streams come from the caller as raw pointers")]

mod decompress;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::Bound;
use syncline_core::container::{ALIGNMENT, Header};
use syncline_core::error::Result;
use syncline_core::huffman::IndexKind;
use syncline_core::pipeline::compress_bound;
use syncline_cuda::cudarc::driver::{CudaEvent, CudaStream};
use syncline_cuda::error::DriverContext;
use syncline_cuda::lossless::LosslessCompressor;
use syncline_cuda::pipeline::{
    CompressOptions as DeviceOptions, Compressed, Compressor as LossyCompressor, Sizing, StreamInfo,
};
use syncline_cuda::{CudaError, Device};

use super::memory::{DeviceBuffer, borrow, borrow_stream, check_alignment, check_len, check_not_captured, error, open};
use super::{DeviceBytes, DeviceInfo, RawStream};
use crate::description::Summary;
use crate::gpu_backend::{BATCH_BYTES, Former};
use crate::options::CompressOptions;
use crate::{Execution, job};

/// Bytes of output that are allocated for small arrays.
pub(super) const SMALLEST_OUTPUT: u64 = 64 << 10;

/// Compresses and decompresses arrays in the memory of one GPU.
///
/// It keeps its workspace in device memory from call to call; calls with arrays of the same size and type allocate
/// nothing. The work runs on a stream of its own, ordered after everything queued on the caller's stream. Each call
/// returns when its result is complete, and is an error while a CUDA graph captures the caller's stream.
pub struct Compressor {
    device: &'static Device,
    stream: Arc<CudaStream>,
    /// Marks the work that the caller's stream has at the time of a call. Locked from a record to its wait.
    queued: Mutex<CudaEvent>,
    lossy: Option<LossyCompressor<'static>>,
    lossless: Option<LosslessCompressor<'static>>,
    pub(super) former: Former,
    /// Output of a compression whose size is not known before.
    scratch: Option<DeviceBuffer>,
    /// Bytes of elements of a region's layers that are decoded at a time.
    pub(super) region_batch: u64,
}

/// The header and the chunk table of a stream, which [`Compressor::outline`] has read.
#[derive(Clone, Debug)]
pub struct Outline(StreamInfo);

impl Outline {
    /// Returns the header of the stream.
    pub fn header(&self) -> &Header {
        self.0.header()
    }
}

impl Compressor {
    /// Opens GPU number `ordinal`, in the primary context of the device.
    ///
    /// # Errors
    /// [`Error::Gpu`](crate::Error::Gpu) if there is no such GPU, or it cannot be used.
    pub fn new(ordinal: usize) -> Result<Self> {
        let device = open(ordinal)?;
        let stream = device.context().new_stream().doing("creating a stream").map_err(error)?;
        let queued = Mutex::new(device.context().new_event(None).doing("creating an event").map_err(error)?);
        Ok(Self {
            device,
            stream,
            queued,
            lossy: None,
            lossless: None,
            former: Former::default(),
            scratch: None,
            region_batch: BATCH_BYTES,
        })
    }

    /// Frees the device memory that the compressor keeps, except for a small part that does not depend on the arrays.
    /// The next call allocates again what it needs.
    pub fn free_workspace(&mut self) {
        self.scratch = None;
        self.lossless = None;
        if let Some(compressor) = &mut self.lossy {
            compressor.free_workspace();
        }
        self.former.free_workspace();
    }

    /// Describes the GPU.
    pub fn device(&self) -> DeviceInfo {
        DeviceInfo::new(self.device.info())
    }

    /// Compresses an array in C order to `output` and returns what was done; the stream is the first
    /// [`Summary::compressed_bytes`] bytes of `output`. An output of
    /// [`compress_bound`](crate::compress_bound) bytes is always large enough. Of the options, those about
    /// the processor, threads, memory and progress are not used.
    ///
    /// # Safety
    /// - `input` is memory of this compressor's GPU that may be read, and `output` is memory of this GPU that may be
    ///   written, both for all their `len` bytes until the call returns. They do not overlap.
    /// - `stream` is null or a live stream of the device's primary context.
    /// - Nothing writes to `input`, and nothing reads or writes `output`, from the work that is queued on `stream` at
    ///   the time of the call until the call returns. Work queued on other streams is not waited for.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if `input` does not have the length of the array or is
    /// not aligned to its elements, if `output` is too short or not aligned to 16 bytes, and for a bound that the
    /// element type does not support. [`Error::Gpu`](crate::Error::Gpu) for lossless streams without an index, if an
    /// error bound resolves to lossless compression, as it does for empty arrays, or if the GPU fails.
    pub unsafe fn compress(
        &mut self,
        input: DeviceBytes,
        element_type: ElementType,
        shape: Shape,
        options: &CompressOptions,
        output: DeviceBytes,
        stream: RawStream,
    ) -> Result<Summary> {
        // SAFETY: that of this function.
        let made = unsafe { self.try_compress(input, element_type, shape, options, output, stream) };
        Ok(self.summary(&made.map_err(error)?, options))
    }

    /// Compresses as [`Compressor::compress`] does, into memory that the compressor allocates. Allocates at first a
    /// quarter of the array's size, and more only if the stream is longer; a compressor remembers how much it took.
    ///
    /// # Safety
    /// As for the input of [`Compressor::compress`].
    ///
    /// # Errors
    /// As [`Compressor::compress`].
    pub unsafe fn compress_to_buffer(
        &mut self,
        input: DeviceBytes,
        element_type: ElementType,
        shape: Shape,
        options: &CompressOptions,
        stream: RawStream,
    ) -> Result<(DeviceBuffer, Summary)> {
        // Before anything is allocated: freeing it would end a capture.
        // SAFETY: the caller promises that the stream is live and belongs to the device's primary context.
        drop(unsafe { self.caller(stream) }.map_err(error)?);
        let most = compress_bound(element_type, shape);
        let mut needed = (input.len as u64 / 4 + SMALLEST_OUTPUT).min(most);
        let (made, mut scratch) = loop {
            let scratch = self.take_scratch(needed)?;
            // SAFETY: that of this function; the scratch memory is used by nobody else.
            let made = unsafe { self.try_compress(input, element_type, shape, options, scratch.bytes(), stream) };
            match made {
                Ok(made) => break (made, scratch),
                // What a short output needs may be known for the first chunks only.
                Err(CudaError::NoRoom { needed: of_stream, available }) if available < most => {
                    needed = of_stream.max(2 * available).min(most);
                }
                Err(other) => return Err(error(other)),
            }
        };
        let mut result = DeviceBuffer::new(&self.stream, made.bytes as usize)?;
        let mut copy = || {
            let from = scratch.slice_mut().slice(..made.bytes as usize);
            self.stream.memcpy_dtod(&from, &mut result.slice_mut().slice_mut(..made.bytes as usize))?;
            self.stream.synchronize()
        };
        copy().doing("copying a stream").map_err(error)?;
        self.scratch = Some(scratch);
        Ok((result, self.summary(&made, options)))
    }

    /// Returns memory of the compressor of at least `bytes` bytes.
    fn take_scratch(&mut self, bytes: u64) -> Result<DeviceBuffer> {
        match self.scratch.take() {
            Some(scratch) if scratch.bytes().len as u64 >= bytes => Ok(scratch),
            smaller => {
                drop(smaller);
                DeviceBuffer::new(&self.stream, bytes as usize)
            }
        }
    }

    /// Copies bytes from host memory to new device memory.
    ///
    /// # Errors
    /// [`Error::Gpu`](crate::Error::Gpu) if the GPU fails or has too little memory.
    pub fn upload(&self, bytes: &[u8]) -> Result<DeviceBuffer> {
        let mut buffer = self.allocate(bytes.len())?;
        let mut copy = || {
            self.stream.memcpy_htod(bytes, &mut buffer.slice_mut().slice_mut(..bytes.len()))?;
            self.stream.synchronize()
        };
        copy().doing("copying to device memory").map_err(error)?;
        Ok(buffer)
    }

    /// Returns a copy in host memory of device memory of the caller.
    ///
    /// # Safety
    /// As for the input of [`Compressor::decompress`].
    ///
    /// # Errors
    /// [`Error::Gpu`](crate::Error::Gpu) if the GPU fails.
    pub unsafe fn copy_to_host(&self, input: DeviceBytes, stream: RawStream) -> Result<Vec<u8>> {
        // SAFETY: the caller promises that the stream is live and belongs to the device's primary context.
        unsafe { self.wait_for(stream) }.map_err(error)?;
        if input.len == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: the caller promises that these are the bytes of live device memory; nobody writes to them meanwhile.
        let input = unsafe { borrow::<u8>(&self.stream, input, input.len) };
        let copy = || {
            let copy = self.stream.clone_dtoh(&input.as_view())?;
            self.stream.synchronize()?;
            Ok(copy)
        };
        copy().doing("copying device memory to the host").map_err(error)
    }

    /// Copies bytes from host memory to device memory of the caller, which has the same length.
    ///
    /// # Safety
    /// As for the output of [`Compressor::decompress`].
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the lengths differ.
    /// [`Error::Gpu`](crate::Error::Gpu) if the GPU fails.
    pub unsafe fn copy_from_host(&self, bytes: &[u8], output: DeviceBytes, stream: RawStream) -> Result<()> {
        check_len(output, bytes.len() as u64, "the output").map_err(error)?;
        // SAFETY: the caller promises that the stream is live and belongs to the device's primary context.
        unsafe { self.wait_for(stream) }.map_err(error)?;
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller promises that these are the bytes of live device memory that nobody else uses meanwhile.
        let mut output = unsafe { borrow::<u8>(&self.stream, output, output.len) };
        let mut copy = || {
            self.stream.memcpy_htod(bytes, &mut output.view())?;
            self.stream.synchronize()
        };
        copy().doing("copying to device memory").map_err(error)
    }

    /// Allocates `len` bytes of device memory, whose contents are unspecified.
    ///
    /// # Errors
    /// [`Error::Gpu`](crate::Error::Gpu) if the GPU fails or has too little memory.
    pub fn allocate(&self, len: usize) -> Result<DeviceBuffer> {
        self.device.context().bind_to_thread().doing("using the device's context").map_err(error)?;
        let buffer = DeviceBuffer::new(&self.stream, len)?;
        self.stream.synchronize().doing("allocating device memory").map_err(error)?;
        Ok(buffer)
    }

    /// Compresses an array to `output`.
    ///
    /// # Safety
    /// That of [`Compressor::compress`].
    unsafe fn try_compress(
        &mut self,
        input: DeviceBytes,
        element_type: ElementType,
        shape: Shape,
        options: &CompressOptions,
        output: DeviceBytes,
        stream: RawStream,
    ) -> std::result::Result<Compressed, CudaError> {
        check_len(input, shape.len().saturating_mul(element_type.size() as u64), "the input")?;
        check_alignment(input, element_type.size(), "the input")?;
        check_alignment(output, ALIGNMENT, "the output")?;
        options.validate(element_type)?;
        let lossless = options.bound() == Bound::Lossless;
        if lossless && options.advanced().index != IndexKind::Symbol {
            let text = "GPUs write lossless streams with the symbol index only: use the CPU for those without an index";
            return Err(CudaError::Unsupported(text.into()));
        }
        // SAFETY: the caller promises that the stream is live and belongs to the device's primary context.
        unsafe { self.wait_for(stream) }?;
        // SAFETY: the caller promises that these are the bytes of live device memory; nobody else uses them meanwhile.
        let (input, mut output) =
            unsafe { (borrow::<u8>(&self.stream, input, input.len), borrow::<u8>(&self.stream, output, output.len)) };
        let result = if lossless {
            let compressor = match &mut self.lossless {
                Some(compressor) => compressor,
                none => none.insert(LosslessCompressor::new(self.device, &self.stream)?),
            };
            let coder = &options.coder_options();
            compressor.compress(&input.as_view(), element_type, shape, coder, &mut output.view())
        } else {
            let compressor = match &mut self.lossy {
                Some(compressor) => compressor,
                none => none.insert(LossyCompressor::new(self.device, &self.stream, Sizing::Measured)?),
            };
            compressor.compress(&input.as_view(), element_type, shape, &device_options(options), &mut output.view())
        };
        self.settle(result)
    }

    /// Returns what a compression did.
    fn summary(&self, made: &Compressed, options: &CompressOptions) -> Summary {
        let gpu = self.device.info();
        let execution = Execution {
            gpus: vec![format!("cuda:{} ({})", gpu.ordinal, gpu.name)],
            reason: "the array is on this device".into(),
        };
        job::summary(&made.header, options.bound(), &made.resolved, made.bytes, execution)
    }

    /// Waits for the work of a call that failed, so that the memory is the caller's again when the call returns. The
    /// work of one that did not fail is complete, except that kernels may yet have to end.
    fn settle<T>(&self, result: std::result::Result<T, CudaError>) -> std::result::Result<T, CudaError> {
        if result.is_err() {
            self.stream.synchronize().doing("waiting for the device")?;
        }
        result
    }

    /// Orders the compressor's stream after all work that is queued on the caller's.
    ///
    /// # Safety
    /// `stream` is null or a live stream of the device's primary context.
    unsafe fn wait_for(&self, stream: RawStream) -> std::result::Result<(), CudaError> {
        // SAFETY: the stream is live, as this function's caller promises, and is borrowed for this function only.
        let caller = unsafe { self.caller(stream) }?;
        let queued = self.queued.lock().unwrap_or_else(PoisonError::into_inner);
        queued.record(&caller).and_then(|()| self.stream.wait(&queued)).doing("waiting for the caller's stream")
    }

    /// Returns the caller's stream. It is an error if a graph captures it, as the compressor's stream would become part
    /// of the capture.
    ///
    /// # Safety
    /// `stream` is null or a live stream of the device's primary context, until the result is dropped.
    unsafe fn caller(&self, stream: RawStream) -> std::result::Result<Arc<CudaStream>, CudaError> {
        // SAFETY: that of this function.
        let caller = unsafe { borrow_stream(self.device, stream) }?;
        check_not_captured(&caller)?;
        Ok(caller)
    }
}

/// Returns the options of the stages on the device.
pub(super) fn device_options(options: &CompressOptions) -> DeviceOptions {
    DeviceOptions {
        fill: options.fill(),
        rewritable: options.rewritable(),
        interpolates: options.interpolates(),
        tile_size: options.tile_size(),
        ..DeviceOptions::new(options.bound())
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").field("device", self.device).finish_non_exhaustive()
    }
}

impl Drop for Compressor {
    fn drop(&mut self) {
        // The workspace must outlive the work that uses it. An error would show in the next call of the driver.
        let _ = self.stream.synchronize();
    }
}
