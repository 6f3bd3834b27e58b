//! Arrays in the memory of NVIDIA GPUs.
//!
//! Host arrays need none of this: `compress` and the other functions of the crate use GPUs through
//! [`Backend`](crate::Backend). A [`Codec`] is for arrays that are on a GPU already, such as those of PyTorch, CuPy or
//! JAX. It takes raw device pointers and the caller's CUDA stream, and copies no elements to the host.
//!
//! Streams are the same bytes as those made on the CPU.

#![allow(unsafe_code, reason = "device memory and CUDA streams come from the caller as raw pointers")]

use std::ffi::c_void;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, Pipeline};
use syncline_core::container::{ALIGNMENT, Header};
use syncline_core::error::{Error, Result};
use syncline_cuda::cudarc::driver::{CudaSlice, CudaStream, DeviceRepr};
use syncline_cuda::device::DeviceInfo as Info;
use syncline_cuda::error::DriverContext;
use syncline_cuda::lossless::{LosslessCompressor, LosslessDecompressor};
use syncline_cuda::pipeline::{CompressOptions as DeviceOptions, Compressor, Decompressor, StreamInfo};
use syncline_cuda::{CudaError, Device};

use crate::gpu_backend::{failure, open};
use crate::options::CompressOptions;
use crate::report::Summary;
use crate::{Execution, compress};

/// A GPU and the software that drives it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Number of the device, from 0.
    pub ordinal: usize,
    /// Product name, such as "NVIDIA H200".
    pub name: String,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Device memory in bytes.
    pub memory: u64,
    /// Number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// Newest CUDA version that the driver supports, major and minor.
    pub driver: (u32, u32),
    /// Version of the run-time compiler NVRTC in use, major and minor.
    pub nvrtc: (u32, u32),
    /// Compute capability that kernels are compiled for; not above the device's.
    pub target: (u32, u32),
    /// Folder of compiled kernels, if they are cached.
    pub kernel_cache: Option<PathBuf>,
    /// The reason why compiled kernels cannot be stored in that folder, if they cannot.
    pub kernel_cache_error: Option<String>,
    description: String,
}

impl DeviceInfo {
    fn new(info: &Info) -> Self {
        let capability = |number: u32| (number / 10, number % 10);
        Self {
            ordinal: info.ordinal,
            name: info.name.clone(),
            compute_capability: capability(info.capability),
            memory: info.memory,
            multiprocessors: info.multiprocessors,
            driver: (info.driver.major, info.driver.minor),
            nvrtc: (info.compiler.major, info.compiler.minor),
            target: capability(info.architecture),
            kernel_cache: info.cache.clone(),
            kernel_cache_error: info.cache_error(),
            description: info.to_string(),
        }
    }
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description)
    }
}

/// Returns the number of GPUs that the driver reports; 0 if there is a driver but no GPU.
///
/// # Errors
/// [`Error::Gpu`] if there is no driver, or one that is too old.
pub fn device_count() -> Result<usize> {
    crate::gpu_backend::device_count()
}

/// Opens a GPU and describes it. It stays open for later calls.
///
/// # Errors
/// [`Error::Gpu`] if there is no such GPU, or it cannot be used.
pub fn device(ordinal: usize) -> Result<DeviceInfo> {
    Ok(DeviceInfo::new(open(ordinal)?.info()))
}

/// Memory of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceBytes {
    /// Device address (`CUdeviceptr`) of the first byte.
    pub pointer: u64,
    /// Number of bytes.
    pub len: usize,
}

/// A CUDA stream of the caller (`CUstream`, which is the same as `cudaStream_t`); null is the legacy default stream.
pub type RawStream = *mut c_void;

/// Compresses and decompresses arrays in the memory of one GPU.
///
/// It keeps its workspace in device memory from call to call; calls with arrays of the same size and type allocate
/// nothing. The work runs on a stream of its own, ordered after everything queued on the caller's stream. Each call
/// returns when its result is complete.
pub struct Codec {
    device: &'static Device,
    stream: Arc<CudaStream>,
    lossy: Option<Compressor<'static>>,
    lossless: Option<LosslessCompressor<'static>>,
}

impl Codec {
    /// Opens GPU number `ordinal`, in the primary context of the device.
    ///
    /// # Errors
    /// [`Error::Gpu`] if there is no such GPU, or it cannot be used.
    pub fn new(ordinal: usize) -> Result<Self> {
        let device = open(ordinal)?;
        let stream = device.context().new_stream().doing("creating a stream").map_err(error)?;
        Ok(Self { device, stream, lossy: None, lossless: None })
    }

    /// Describes the GPU.
    pub fn device(&self) -> DeviceInfo {
        DeviceInfo::new(self.device.info())
    }

    /// Compresses an array in C order to `output` and returns what was done; the stream is the first
    /// [`Summary::compressed_bytes`] bytes of `output`. An output of
    /// [`max_compressed_len`](crate::max_compressed_len) bytes is always large enough. Of the options, those about
    /// the processor, threads, memory and progress are not used.
    ///
    /// # Safety
    /// - `input` is memory of this codec's GPU that may be read, and `output` is memory of this GPU that may be
    ///   written, both for all their `len` bytes until the call returns. They do not overlap.
    /// - `stream` is null or a live stream of the device's primary context.
    /// - Nothing writes to `input`, and nothing reads or writes `output`, from the work that is queued on `stream` at
    ///   the time of the call until the call returns. Work queued on other streams is not waited for.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `input` does not have the length of the array or is not aligned to its elements,
    /// if `output` is too short or not aligned to 16 bytes, for a bound that the element type does not support, and for
    /// a coder that the GPU does not have (lossless streams need [`Coder::Lzss`](crate::Coder::Lzss) or
    /// [`Coder::LzssHuffman`](crate::Coder::LzssHuffman)). [`Error::Gpu`] if the bound resolves to lossless
    /// compression, or the GPU fails.
    pub unsafe fn compress(
        &mut self,
        input: DeviceBytes,
        element_type: ElementType,
        shape: Shape,
        options: &CompressOptions,
        output: DeviceBytes,
        stream: RawStream,
    ) -> Result<Summary> {
        check_len(input, shape.len().saturating_mul(element_type.size() as u64), "the input")?;
        check_alignment(input, element_type.size(), "the input")?;
        check_alignment(output, ALIGNMENT, "the output")?;
        options.bound().validate(element_type)?;
        options.coder_options().validate(options.bound())?;
        let lossless = options.bound() == Bound::Lossless;
        if lossless && !syncline_cuda::lossless::is_supported(options.coder()) {
            return Err(Error::invalid(format!(
                "coder {} is not available on the GPU for lossless streams: use lzss or lzss+huffman, or the CPU",
                options.coder()
            )));
        }
        // SAFETY: the caller promises that the stream is live and belongs to the device's primary context.
        unsafe { self.wait_for(stream) }?;
        // SAFETY: the caller promises that these are the bytes of live device memory; nobody else uses them meanwhile.
        let (input, mut output) = unsafe { (self.borrow::<u8>(input), self.borrow::<u8>(output)) };
        let result = if lossless {
            let compressor = match &mut self.lossless {
                Some(compressor) => compressor,
                none => none.insert(LosslessCompressor::new(self.device, &self.stream).map_err(error)?),
            };
            let coder = &options.coder_options();
            compressor.compress(&input.as_view(), element_type, shape, options.index(), coder, &mut output.view())
        } else {
            let compressor = match &mut self.lossy {
                Some(compressor) => compressor,
                none => none.insert(Compressor::new(self.device, &self.stream).map_err(error)?),
            };
            compressor.set_lossless(options.coder_options());
            let device_options =
                DeviceOptions { fill: options.fill(), index: options.index(), ..DeviceOptions::new(options.bound()) };
            compressor.compress(&input.as_view(), element_type, shape, &device_options, &mut output.view())
        };
        // The memory is the caller's again when the call returns, with an error, too.
        self.stream.synchronize().doing("waiting for the compression").map_err(error)?;
        let made = result.map_err(error)?;
        let gpu = self.device.info();
        let execution = Execution {
            gpus: vec![format!("cuda:{} ({})", gpu.ordinal, gpu.name)],
            reason: "the array is on this device".into(),
        };
        Ok(compress::summary(&made.header, options.bound(), &made.resolved, made.bytes, execution))
    }

    /// Reads the header of a stream in device memory, which has the element type and the shape of its array.
    ///
    /// # Safety
    /// As for the input of [`Codec::decompress`].
    ///
    /// # Errors
    /// The data are not a stream, or one of a newer version; or it is truncated or damaged. [`Error::Gpu`] if the GPU
    /// fails.
    pub unsafe fn header(&mut self, input: DeviceBytes, stream: RawStream) -> Result<Header> {
        // SAFETY: the caller promises that the stream is live and belongs to the device's primary context.
        unsafe { self.wait_for(stream) }?;
        // SAFETY: the caller promises that these are the bytes of live device memory; nobody writes to them meanwhile.
        let input = unsafe { self.borrow::<u8>(input) };
        let info = StreamInfo::from_device(&self.stream, &input.as_view()).map_err(error)?;
        Ok(info.header().clone())
    }

    /// Decompresses a stream to `output`, which has exactly the length of the array; elements are written in C order.
    /// The checksums of all chunks are verified.
    ///
    /// # Safety
    /// - `input` is memory of this codec's GPU that may be read, and `output` is memory of this GPU that may be
    ///   written, both for all their `len` bytes until the call returns. They do not overlap.
    /// - `stream` is null or a live stream of the device's primary context.
    /// - Nothing writes to `input`, and nothing reads or writes `output`, from the work that is queued on `stream` at
    ///   the time of the call until the call returns. Work queued on other streams is not waited for.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if a length does not match, `input` is not aligned to 16 bytes, or `output` is not
    /// aligned to its elements. The stream is truncated or damaged. [`Error::Gpu`] if the stream has chunks that only
    /// the CPU decompresses, or the GPU fails. The contents of `output` are unspecified after an error.
    pub unsafe fn decompress(&mut self, input: DeviceBytes, output: DeviceBytes, stream: RawStream) -> Result<()> {
        check_alignment(input, ALIGNMENT, "the input")?;
        // SAFETY: the caller promises that the stream is live and belongs to the device's primary context.
        unsafe { self.wait_for(stream) }?;
        // SAFETY: the caller promises that these are the bytes of live device memory; nobody writes to them meanwhile.
        let input = unsafe { self.borrow::<u8>(input) };
        let info = StreamInfo::from_device(&self.stream, &input.as_view()).map_err(error)?;
        let (header, elements) = (info.header(), info.elements() as usize);
        check_len(output, info.decompressed_len(), "the output")?;
        check_alignment(output, header.element_type.size(), "the output")?;
        let result = match (header.pipeline, header.element_type) {
            (Pipeline::Lossless, _) => {
                // SAFETY: as for the input; the caller promises that nobody else reads or writes the output.
                let mut output = unsafe { self.borrow::<u8>(output) };
                LosslessDecompressor::new(self.device, self.stream.clone(), &info).and_then(|mut decompressor| {
                    decompressor.decompress(&input.as_view(), &mut output.view())?;
                    decompressor.check()
                })
            }
            (_, ElementType::F32) => {
                // SAFETY: as above; the length and the alignment were checked, and any bits are an f32.
                let mut output = unsafe { self.borrow_elements::<f32>(output, elements) };
                Decompressor::new(self.device, self.stream.clone(), &info).and_then(|mut decompressor| {
                    decompressor.decompress(&input.as_view(), &mut output.view())?;
                    decompressor.check()
                })
            }
            _ => {
                // SAFETY: as above; lossy streams have elements of f32 or f64, which `Header::parse` checked.
                let mut output = unsafe { self.borrow_elements::<f64>(output, elements) };
                Decompressor::new(self.device, self.stream.clone(), &info).and_then(|mut decompressor| {
                    decompressor.decompress(&input.as_view(), &mut output.view())?;
                    decompressor.check()
                })
            }
        };
        // The memory is the caller's again when the call returns, with an error, too.
        self.stream.synchronize().doing("waiting for the decompression").map_err(error)?;
        result.map_err(error)
    }

    /// Orders the codec's stream after all work that is queued on the caller's.
    ///
    /// # Safety
    /// `stream` is null or a live stream of the device's primary context.
    unsafe fn wait_for(&self, stream: RawStream) -> Result<()> {
        self.device.context().bind_to_thread().doing("using the device's context").map_err(error)?;
        // SAFETY: the stream is live, as this function's caller promises, and is borrowed for this function only.
        let caller = unsafe { self.device.context().wrap_borrowed_stream(stream.cast()) };
        self.stream.join(&caller).doing("waiting for the caller's stream").map_err(error)
    }

    /// The caller's memory, not freed when the result is dropped.
    ///
    /// # Safety
    /// It is live device memory until the result is dropped, and used by nobody else in ways that conflict.
    unsafe fn borrow<T: DeviceRepr>(&self, bytes: DeviceBytes) -> Borrowed<T> {
        // SAFETY: that of this function.
        unsafe { self.borrow_elements(bytes, bytes.len / size_of::<T>()) }
    }

    /// The same as `elements` elements.
    ///
    /// # Safety
    /// As [`Self::borrow`]; there are so many elements, aligned for their type.
    unsafe fn borrow_elements<T: DeviceRepr>(&self, bytes: DeviceBytes, elements: usize) -> Borrowed<T> {
        // SAFETY: that of this function.
        Borrowed(ManuallyDrop::new(unsafe { self.stream.upgrade_device_ptr(bytes.pointer, elements) }))
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec").field("device", self.device).finish_non_exhaustive()
    }
}

impl Drop for Codec {
    fn drop(&mut self) {
        // The workspace must outlive the work that uses it. An error would show in the next call of the driver.
        let _ = self.stream.synchronize();
    }
}

/// Memory of the caller's as a slice that does not free it.
struct Borrowed<T>(ManuallyDrop<CudaSlice<T>>);

impl<T> Borrowed<T> {
    fn view(&mut self) -> syncline_cuda::cudarc::driver::CudaViewMut<'_, T> {
        self.0.as_view_mut()
    }
}

impl<T> Deref for Borrowed<T> {
    type Target = CudaSlice<T>;

    fn deref(&self) -> &CudaSlice<T> {
        &self.0
    }
}

impl<T> Drop for Borrowed<T> {
    fn drop(&mut self) {
        // SAFETY: the slice is taken once, here.
        unsafe { ManuallyDrop::take(&mut self.0) }.leak();
    }
}

/// The library's error for the device layer's.
fn error(error: CudaError) -> Error {
    match error {
        CudaError::InvalidArgument(_) | CudaError::NoRoom { .. } => Error::invalid(error.to_string()),
        other => failure(other),
    }
}

fn check_len(memory: DeviceBytes, needed: u64, what: &str) -> Result<()> {
    match memory.len as u64 == needed {
        true => Ok(()),
        false => Err(Error::invalid(format!("{what} has {} bytes, the array {needed}", memory.len))),
    }
}

fn check_alignment(memory: DeviceBytes, alignment: usize, what: &str) -> Result<()> {
    match memory.pointer.is_multiple_of(alignment as u64) {
        true => Ok(()),
        false => Err(Error::invalid(format!("{what} in device memory must start on a multiple of {alignment} bytes"))),
    }
}
