//! Host memory that copies to and from the device do not have to go through a buffer of the driver's for.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::sys::{CUdeviceptr, CUevent_flags};
use cudarc::driver::{
    CudaEvent, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, PinnedHostSlice, ValidAsZeroBits, result,
};

use crate::error::{CudaError, DriverContext, Result};

/// A page-locked buffer for small results and lists, copied on one stream.
///
/// Its event is one that the host waits for without going to sleep: what is copied decides what is launched next.
#[derive(Debug)]
pub struct Pinned<T> {
    memory: PinnedHostSlice<T>,
    pointer: CUdeviceptr,
    copied: CudaEvent,
    stream: Arc<CudaStream>,
}

impl<T: DeviceRepr + ValidAsZeroBits + Copy + Default> Pinned<T> {
    /// A buffer of `length` elements, for copies on `stream`.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn new(stream: &Arc<CudaStream>, length: usize) -> Result<Self> {
        let context = stream.context();
        // SAFETY: filled at once, below.
        let mut memory =
            unsafe { context.alloc_pinned_with_flags::<T>(length.max(1), 0) }.doing("locking host memory")?;
        memory.as_mut_slice().doing("locking host memory")?.fill(T::default());
        Self::around(stream, memory)
    }

    fn around(stream: &Arc<CudaStream>, mut memory: PinnedHostSlice<T>) -> Result<Self> {
        let pointer = memory.as_mut_ptr().doing("locking host memory")? as CUdeviceptr;
        let copied = stream.record_event(Some(CUevent_flags::CU_EVENT_DISABLE_TIMING)).doing("making an event")?;
        Ok(Self { memory, pointer, copied, stream: stream.clone() })
    }

    /// The buffer, for copies on `stream`, once the last copy is done.
    ///
    /// # Errors
    /// [`CudaError::Driver`]; [`CudaError::InvalidArgument`] if the stream is another context's.
    pub fn on(mut self, stream: &Arc<CudaStream>) -> Result<Self> {
        if stream.context() != self.stream.context() {
            return Err(CudaError::invalid("a buffer of another device"));
        }
        self.copied.synchronize().doing("waiting for the device")?;
        self.stream = stream.clone();
        Ok(self)
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Queues a copy from the device to the first elements.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if they do not fit; [`CudaError::Driver`].
    pub fn read(&mut self, from: &impl DevicePtr<T>) -> Result<()> {
        let count = self.fits(from.len())?;
        let memory = self.memory.as_mut_slice().doing("reading from the device")?;
        let (pointer, _order) = from.device_ptr(&self.stream);
        // SAFETY: `count` elements at `pointer`, all there is of `from`; nobody looks at the memory before `wait` has
        // seen the event behind the copy.
        unsafe { result::memcpy_dtoh_async(&mut memory[..count], pointer, self.stream.cu_stream()) }
            .and_then(|()| self.copied.record(&self.stream))
            .doing("reading from the device")
    }

    /// Queues a copy of `values` to the start of `to`.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn write(&mut self, values: &[T], to: &mut impl DevicePtrMut<T>) -> Result<()> {
        let count = self.fits(values.len())?;
        if to.len() < count {
            return Err(CudaError::invalid("there is no room for a list on the device"));
        }
        self.fill()?[..count].copy_from_slice(values);
        self.send(count, to)
    }

    /// Waits for the last copy; the elements, to be filled and sent.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn fill(&mut self) -> Result<&mut [T]> {
        // What the last copy reads must not change under it.
        self.copied.synchronize().doing("waiting for the device")?;
        self.memory.as_mut_slice().doing("waiting for the device")
    }

    /// Queues a copy of the first `count` elements to the start of `to`.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn send(&mut self, count: usize, to: &mut impl DevicePtrMut<T>) -> Result<()> {
        if to.len() < self.fits(count)? {
            return Err(CudaError::invalid("there is no room for a copy on the device"));
        }
        let memory = self.memory.as_slice().doing("writing to the device")?;
        let (pointer, _order) = to.device_ptr_mut(&self.stream);
        // SAFETY: `count` elements, which `to` has room for; the memory is not touched before the event behind the
        // copy.
        unsafe { result::memcpy_htod_async(pointer, &memory[..count], self.stream.cu_stream()) }
            .and_then(|()| self.copied.record(&self.stream))
            .doing("writing to the device")
    }

    /// The memory as kernels see it, to write small results to: the host's addresses are the device's, too.
    pub(crate) fn device_pointer(&self) -> CUdeviceptr {
        self.pointer
    }

    /// Says that a kernel queued just before writes to the memory.
    pub(crate) fn written(&mut self) -> Result<()> {
        self.copied.record(&self.stream).doing("recording an event")
    }

    /// Waits for the last copy or kernel; the elements.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn wait(&self) -> Result<&[T]> {
        self.copied.synchronize().and_then(|()| self.memory.as_slice()).doing("waiting for the device")
    }

    /// Waits until the kernel that [`Self::written`] spoke of has set the word of 64 bits at byte `offset` of the first
    /// element to `value`, its last write to the memory, or is done; the elements. Sooner than [`Self::wait`] by what
    /// it takes to end a kernel and to tell the host.
    ///
    /// # Errors
    /// [`CudaError::Driver`]; [`CudaError::InvalidArgument`] if there is no such word.
    pub(crate) fn wait_for(&self, offset: usize, value: u64) -> Result<&[T]> {
        /// Looks at the word between questions to the driver.
        const LOOKS: usize = 4096;
        let start = self.memory.as_ptr().doing("waiting for the device")?.cast::<u8>();
        if !offset.is_multiple_of(size_of::<u64>())
            || offset + size_of::<u64>() > size_of::<T>()
            || !start.cast::<u64>().is_aligned()
        {
            return Err(CudaError::invalid("no word to wait for"));
        }
        // SAFETY: an aligned word within the first element, of which there is at least one; only the device writes to
        // it meanwhile.
        let word = unsafe { AtomicU64::from_ptr(start.add(offset).cast::<u64>().cast_mut()) };
        while (0..LOOKS).all(|_| word.load(Ordering::Acquire) != value) {
            if self.copied.try_is_complete().doing("waiting for the device")? {
                break;
            }
        }
        self.memory.as_slice().doing("waiting for the device")
    }

    fn fits(&self, count: usize) -> Result<usize> {
        (count <= self.len()).then_some(count).ok_or_else(|| CudaError::invalid("a copy longer than its buffer"))
    }
}

impl Pinned<u8> {
    /// A buffer of `length` bytes that hold anything, for copies on `stream`. A large one is sooner there than by
    /// [`Self::new`].
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn bytes(stream: &Arc<CudaStream>, length: usize) -> Result<Self> {
        // SAFETY: pages of the operating system's, mapped and locked by the driver, hold some number or other in each
        // byte.
        let memory = unsafe { stream.context().alloc_pinned_with_flags::<u8>(length.max(1), 0) };
        Self::around(stream, memory.doing("locking host memory")?)
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        // The memory must outlive the copies. What an earlier call has left in the context, as an error that nobody was
        // told, comes first, instead of waiting: so once more. Other errors show in the next call of the driver.
        let _ = self.copied.synchronize().or_else(|_| self.copied.synchronize());
    }
}
