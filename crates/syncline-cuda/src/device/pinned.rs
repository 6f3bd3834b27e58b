//! Page-locked host memory, which the device copies to and from without a staging buffer of the driver.

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
/// The host busy-waits for the buffer's event, because the copied values determine the next launch.
#[derive(Debug)]
pub struct Pinned<T> {
    memory: PinnedHostSlice<T>,
    pointer: CUdeviceptr,
    copied: CudaEvent,
    stream: Arc<CudaStream>,
}

impl<T: DeviceRepr + ValidAsZeroBits + Copy + Default> Pinned<T> {
    /// Returns a buffer of `length` elements for copies on `stream`.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn new(stream: &Arc<CudaStream>, length: usize) -> Result<Self> {
        let context = stream.context();
        // SAFETY: all elements are written below, before anything reads them.
        let mut memory =
            unsafe { context.alloc_pinned_with_flags::<T>(length.max(1), 0) }.doing("locking host memory")?;
        memory.as_mut_slice().doing("locking host memory")?.fill(T::default());
        Self::with_memory(stream, memory)
    }

    /// Wraps page-locked memory: finds its device address and creates the event that marks the end of a copy.
    fn with_memory(stream: &Arc<CudaStream>, mut memory: PinnedHostSlice<T>) -> Result<Self> {
        let pointer = memory.as_mut_ptr().doing("locking host memory")? as CUdeviceptr;
        let copied = stream.record_event(Some(CUevent_flags::CU_EVENT_DISABLE_TIMING)).doing("making an event")?;
        Ok(Self { memory, pointer, copied, stream: stream.clone() })
    }

    /// Makes room for `length` elements at least. The elements are lost if there was less.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn reserve(&mut self, length: usize) -> Result<()> {
        if self.len() < length {
            *self = Self::new(&self.stream, length.next_power_of_two())?;
        }
        Ok(())
    }

    /// Waits for the last copy and returns the buffer for copies on `stream`.
    ///
    /// # Errors
    /// [`CudaError::Driver`]; [`CudaError::InvalidArgument`] if the stream belongs to another context.
    pub fn on(mut self, stream: &Arc<CudaStream>) -> Result<Self> {
        if stream.context() != self.stream.context() {
            return Err(CudaError::invalid("a buffer of another device"));
        }
        self.copied.synchronize().doing("waiting for the device")?;
        self.stream = stream.clone();
        Ok(self)
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Returns whether the buffer has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Queues a copy from the device to the first elements of the buffer.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if they do not fit; [`CudaError::Driver`].
    pub fn read(&mut self, from: &impl DevicePtr<T>) -> Result<()> {
        let count = self.fits(from.len())?;
        let memory = self.memory.as_mut_slice().doing("reading from the device")?;
        let (pointer, _order) = from.device_ptr(&self.stream);
        // SAFETY: `from` has `count` elements at `pointer`. The host does not access the memory until `wait` has
        // synchronized with the event recorded after the copy.
        unsafe { result::memcpy_dtoh_async(&mut memory[..count], pointer, self.stream.cu_stream()) }
            .and_then(|()| self.copied.record(&self.stream))
            .doing("reading from the device")
    }

    /// Queues a copy of `values` to the start of `to`.
    ///
    /// # Errors
    /// The errors of [`Self::read`].
    pub fn write(&mut self, values: &[T], to: &mut impl DevicePtrMut<T>) -> Result<()> {
        let count = self.fits(values.len())?;
        if to.len() < count {
            return Err(CudaError::invalid("there is no room for a list on the device"));
        }
        self.fill()?[..count].copy_from_slice(values);
        self.send(count, to)
    }

    /// Waits for the last copy and returns the elements, to be filled for [`Self::send`].
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn fill(&mut self) -> Result<&mut [T]> {
        // A copy that is still queued must not read changed elements.
        self.copied.synchronize().doing("waiting for the device")?;
        self.memory.as_mut_slice().doing("waiting for the device")
    }

    /// Queues a copy of the first `count` elements to the start of `to`.
    ///
    /// # Errors
    /// The errors of [`Self::read`].
    pub fn send(&mut self, count: usize, to: &mut impl DevicePtrMut<T>) -> Result<()> {
        if to.len() < self.fits(count)? {
            return Err(CudaError::invalid("there is no room for a copy on the device"));
        }
        let memory = self.memory.as_slice().doing("writing to the device")?;
        let (pointer, _order) = to.device_ptr_mut(&self.stream);
        // SAFETY: `to` has room for `count` elements. The host does not access the memory until it has synchronized
        // with the event recorded after the copy.
        unsafe { result::memcpy_htod_async(pointer, &memory[..count], self.stream.cu_stream()) }
            .and_then(|()| self.copied.record(&self.stream))
            .doing("writing to the device")
    }

    /// Returns the buffer's address on the device, for kernels that write small results. It equals the host address.
    pub(crate) fn device_pointer(&self) -> CUdeviceptr {
        self.pointer
    }

    /// Records that the kernel queued last writes to the buffer.
    pub(crate) fn written(&self) -> Result<()> {
        self.copied.record(&self.stream).doing("recording an event")
    }

    /// Waits for the last copy or kernel and returns the elements.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn wait(&self) -> Result<&[T]> {
        self.copied.synchronize().and_then(|()| self.memory.as_slice()).doing("waiting for the device")
    }

    /// Waits until the 64-bit word at byte `offset` of the first element is `value`, or the kernel announced with
    /// [`Self::written`] is complete, and returns the elements. The kernel must write this word last. This is faster
    /// than [`Self::wait`], which also waits for the kernel's end and its notification.
    ///
    /// # Errors
    /// [`CudaError::Driver`]; [`CudaError::InvalidArgument`] if there is no such word.
    pub(crate) fn wait_for(&self, offset: usize, value: u64) -> Result<&[T]> {
        /// Number of reads of the word between two queries of the event.
        const LOOKS: usize = 4096;
        let start = self.memory.as_ptr().doing("waiting for the device")?.cast::<u8>();
        if !offset.is_multiple_of(size_of::<u64>())
            || offset + size_of::<u64>() > size_of::<T>()
            || !start.cast::<u64>().is_aligned()
        {
            return Err(CudaError::invalid("no word to wait for"));
        }
        // SAFETY: the word is aligned and lies within the first element, which exists. Only the device writes to it
        // meanwhile.
        let word = unsafe { AtomicU64::from_ptr(start.add(offset).cast::<u64>().cast_mut()) };
        while (0..LOOKS).all(|_| word.load(Ordering::Acquire) != value) {
            if self.copied.try_is_complete().doing("waiting for the device")? {
                break;
            }
        }
        self.memory.as_slice().doing("waiting for the device")
    }

    /// Queues a copy of the elements to the start of `to`, which nothing waits for: functions of the host and kernels
    /// order its uses.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if they do not fit; [`CudaError::Driver`].
    ///
    /// # Safety
    /// The buffer lives until the stream has reached the copy, in each launch of a graph that captured it.
    pub(crate) unsafe fn queue_copy(&self, stream: &Arc<CudaStream>, to: &mut impl DevicePtrMut<T>) -> Result<()> {
        if to.len() < self.len() {
            return Err(CudaError::invalid("there is no room for a copy on the device"));
        }
        // SAFETY: the memory has as many elements, and lives as long as `self`. Only the driver reads the slice, when
        // the stream reaches the copy.
        let memory = unsafe { std::slice::from_raw_parts(self.pointer as *const T, self.len()) };
        let (pointer, _order) = to.device_ptr_mut(stream);
        // SAFETY: `to` has room for the elements, and the caller keeps the buffer.
        unsafe { result::memcpy_htod_async(pointer, memory, stream.cu_stream()) }.doing("writing to the device")
    }

    /// Returns an element, without waiting for the device.
    ///
    /// # Safety
    /// Nothing writes to the element meanwhile: the caller runs in a function of the host behind the kernel that wrote
    /// it, or has waited for the stream.
    ///
    /// # Panics
    /// There is no such element.
    pub(crate) unsafe fn peek(&self, index: usize) -> T {
        assert!(index < self.len());
        // SAFETY: the element exists, and the caller guarantees that nothing writes to it. The device's address is also
        // the host's.
        unsafe { (self.pointer as *const T).add(index).read_volatile() }
    }

    /// Writes an element, without waiting for the device.
    ///
    /// # Safety
    /// Nothing else uses the element meanwhile: the caller runs in a function of the host ahead of the copy that reads
    /// it.
    ///
    /// # Panics
    /// There is no such element.
    pub(crate) unsafe fn poke(&self, index: usize, value: T) {
        assert!(index < self.len());
        // SAFETY: the element exists, and the caller guarantees that nothing else uses it.
        unsafe { (self.pointer as *mut T).add(index).write_volatile(value) }
    }

    fn fits(&self, count: usize) -> Result<usize> {
        (count <= self.len()).then_some(count).ok_or_else(|| CudaError::invalid("a copy longer than its buffer"))
    }
}

impl Pinned<u8> {
    /// Returns a buffer of `length` bytes with unspecified contents, for copies on `stream`. For large buffers this is
    /// faster than [`Self::new`], which initializes them.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn bytes(stream: &Arc<CudaStream>, length: usize) -> Result<Self> {
        // SAFETY: the driver maps and locks pages that the operating system has initialized, and every byte value is a
        // valid `u8`.
        let memory = unsafe { stream.context().alloc_pinned_with_flags::<u8>(length.max(1), 0) };
        Self::with_memory(stream, memory.doing("locking host memory")?)
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        // The memory must outlive the copies. `synchronize` may return an error that an earlier call has left in the
        // context instead of waiting, so it is called again in that case. The next driver call reports other errors.
        let _ = self.copied.synchronize().or_else(|_| self.copied.synchronize());
    }
}
