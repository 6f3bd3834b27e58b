//! Device memory: of the caller as slices, and of this library.

#![allow(unsafe_code, reason = "device memory and CUDA streams come from the caller as raw pointers")]

use std::collections::BTreeMap;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use syncline_core::error::{Error, Result};
use syncline_cuda::cudarc::driver::{CudaSlice, CudaStream, CudaViewMut, DevicePtr, DeviceRepr, sys};
use syncline_cuda::device::keep_freed_memory;
use syncline_cuda::error::DriverContext;
use syncline_cuda::{CudaError, Device, HEADERS};

use super::{DeviceBytes, RawStream};
use crate::gpu_backend::{device_count, failure};

/// The part of the device's memory that stays with the process when results and workspaces are freed.
const KEPT_MEMORY: u64 = 32;

/// Opens GPU number `ordinal` once in this process. It is never closed.
///
/// It has a context object of its own, in which slices do not record events: these would end a capture of the caller's
/// stream. The work of a call is ordered by its stream instead.
pub(super) fn open(ordinal: usize) -> Result<&'static Device> {
    static OPEN: Mutex<BTreeMap<usize, &'static Device>> = Mutex::new(BTreeMap::new());
    device_count()?;
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = open.get(&ordinal) {
        return Ok(device);
    }
    let device = Device::open(ordinal, &HEADERS).map_err(failure)?;
    // SAFETY: each slice in this context is used on one stream only. Codecs, decompressors and buffers keep to the
    // stream that their memory was allocated on, or wait for the other stream.
    unsafe { device.context().disable_event_tracking() };
    keep_freed_memory(device.context(), device.info().memory / KEPT_MEMORY).map_err(failure)?;
    let device: &Device = Box::leak(Box::new(device));
    open.insert(ordinal, device);
    Ok(device)
}

/// Orders all later work of a stream after the work that is queued on another stream of the same GPU.
///
/// # Safety
/// Both are null or live streams of the primary context of GPU number `ordinal`.
///
/// # Errors
/// [`Error::Gpu`] if there is no such GPU, or it fails.
pub unsafe fn order_streams(ordinal: usize, later: RawStream, earlier: RawStream) -> Result<()> {
    let device = open(ordinal)?;
    // SAFETY: that of this function.
    let (later, earlier) = unsafe { (borrow_stream(device, later), borrow_stream(device, earlier)) };
    later.map_err(error)?.join(&*earlier.map_err(error)?).doing("ordering two streams").map_err(error)
}

/// Returns the number of the GPU that has memory at an address, of which nothing else is known.
///
/// # Errors
/// [`Error::Gpu`] if there is no GPU; [`Error::InvalidArgument`] if the address is not one of its memory.
pub fn device_of(pointer: u64) -> Result<usize> {
    if device_count()? == 1 {
        return Ok(0);
    }
    let mut ordinal: i32 = -1;
    // SAFETY: the attribute is written as a C int, to a place that lives during the call; any address is allowed.
    let status = unsafe {
        let attribute = sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
        sys::cuPointerGetAttribute((&raw mut ordinal).cast(), attribute, pointer)
    };
    match usize::try_from(ordinal) {
        Ok(ordinal) if status == sys::CUresult::CUDA_SUCCESS => Ok(ordinal),
        _ => Err(Error::invalid("the array's address is not one of device memory")),
    }
}

/// Returns a stream of the caller, which is not destroyed with the result.
///
/// # Safety
/// `stream` is null or a live stream of the device's primary context, until the result and what holds it are dropped.
pub(super) unsafe fn borrow_stream(
    device: &Device,
    stream: RawStream,
) -> std::result::Result<Arc<CudaStream>, CudaError> {
    device.context().bind_to_thread().doing("using the device's context")?;
    // SAFETY: that of this function.
    Ok(unsafe { device.context().wrap_borrowed_stream(stream.cast()) })
}

/// Checks that a call may wait for the work on a stream of the caller.
///
/// # Errors
/// [`CudaError::Unsupported`] if the stream is being captured in a CUDA graph. The capture goes on.
pub(super) fn check_not_captured(stream: &CudaStream) -> std::result::Result<(), CudaError> {
    match stream.capture_status().doing("asking whether a stream is captured")? {
        sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE => Ok(()),
        _ => Err(CudaError::Unsupported(
            "a CUDA graph captures the stream, but this call reads results of the GPU before it goes on: call it \
             outside of the capture (only the work of a QueuedCompressor and of a Decompressor can be captured)"
                .into(),
        )),
    }
}

/// Checks that calls may wait for the work on a stream of the caller. Whoever makes a [`Compressor`](super::Compressor)
/// for a single call asks before, because what the compressor allocates would end a capture.
///
/// # Errors
/// [`Error::Gpu`](crate::Error::Gpu) if a CUDA graph captures the stream, or the GPU fails.
///
/// # Safety
/// `stream` is null or a live stream of the primary context of GPU number `ordinal`.
pub unsafe fn ensure_not_captured(ordinal: usize, stream: RawStream) -> Result<()> {
    // SAFETY: that of this function.
    let stream = unsafe { borrow_stream(open(ordinal)?, stream) }.map_err(error)?;
    check_not_captured(&stream).map_err(error)
}

/// Returns memory of the caller as a slice of `elements` elements.
///
/// # Safety
/// Until the result is dropped, this is live device memory for as many elements, aligned for their type, any bits are
/// an element, and nobody else uses it in ways that conflict.
pub(super) unsafe fn borrow<T: DeviceRepr>(
    stream: &Arc<CudaStream>,
    bytes: DeviceBytes,
    elements: usize,
) -> Borrowed<T> {
    // SAFETY: that of this function.
    Borrowed(ManuallyDrop::new(unsafe { stream.upgrade_device_ptr(bytes.pointer, elements) }))
}

/// Memory of a GPU that this library allocated. It is freed when it is dropped, after all work of the device, as
/// `cudaFree` does: other libraries may have queued work with the memory on any stream.
pub struct DeviceBuffer {
    memory: CudaSlice<u8>,
    len: usize,
}

impl DeviceBuffer {
    /// Allocates memory on a stream of this library.
    pub(super) fn new(stream: &Arc<CudaStream>, len: usize) -> Result<Self> {
        // At least one byte, since devices without memory pools do not allocate less.
        // SAFETY: bytes may have any value, and kernels write them before anything reads them.
        let memory = unsafe { stream.alloc::<u8>(len.max(1)) }.allocating(len as u64).map_err(error)?;
        Ok(Self { memory, len })
    }

    /// Returns the memory as a slice.
    pub(super) fn slice_mut(&mut self) -> &mut CudaSlice<u8> {
        &mut self.memory
    }

    /// Returns where the memory is. The contents are complete, for work on any stream.
    pub fn bytes(&self) -> DeviceBytes {
        let (pointer, _) = DevicePtr::device_ptr(&self.memory, self.memory.stream());
        DeviceBytes { pointer, len: self.len }
    }

    /// Returns a copy in host memory, made after the work that is queued on the device at the time of the call.
    ///
    /// # Errors
    /// [`Error::Gpu`] if the GPU fails.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let stream = self.memory.stream();
        let copy = || {
            stream.context().bind_to_thread()?;
            stream.context().synchronize()?;
            let copy = stream.clone_dtoh(&self.memory.slice(..self.len))?;
            stream.synchronize()?;
            Ok(copy)
        };
        copy().doing("copying device memory to the host").map_err(error)
    }
}

impl fmt::Debug for DeviceBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceBuffer").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // An error would show in the next call of the driver.
        let context = self.memory.stream().context();
        let _ = context.bind_to_thread().and_then(|()| context.synchronize());
    }
}

/// Memory of the caller as a slice that does not free it.
pub(super) struct Borrowed<T>(ManuallyDrop<CudaSlice<T>>);

impl<T> Borrowed<T> {
    pub(super) fn view(&mut self) -> CudaViewMut<'_, T> {
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

/// Returns the library's error for one of the device layer.
pub(super) fn error(error: CudaError) -> Error {
    match error {
        CudaError::InvalidArgument(_) | CudaError::NoRoom { .. } => Error::invalid(error.to_string()),
        CudaError::Lossless(reason) => Error::gpu(format!(
            "{reason}, so that the stream would be lossless: relax the bound, ask for a lossless stream, or use the CPU"
        )),
        other => failure(other),
    }
}

/// Checks that memory has exactly `needed` bytes.
pub(super) fn check_len(memory: DeviceBytes, needed: u64, what: &str) -> std::result::Result<(), CudaError> {
    match memory.len as u64 == needed {
        true => Ok(()),
        false => Err(CudaError::invalid(format!("{what} has {} bytes, but the array has {needed} bytes", memory.len))),
    }
}

/// Checks that memory starts on a multiple of `alignment` bytes.
pub(super) fn check_alignment(memory: DeviceBytes, alignment: usize, what: &str) -> std::result::Result<(), CudaError> {
    match memory.pointer.is_multiple_of(alignment as u64) {
        true => Ok(()),
        false => {
            Err(CudaError::invalid(format!("{what} in device memory must start on a multiple of {alignment} bytes")))
        }
    }
}
