//! Scratch memory that the caller keeps from one call to the next, so that a warm pipeline allocates nothing.

#![allow(unsafe_code)]

use std::mem::size_of;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaViewMut, DevicePtrMut, DeviceRepr};

use crate::error::{CudaError, DriverContext, Result};

/// Every slice starts on a multiple of this: what the widest loads and the driver's own allocations have.
const ALIGNMENT: usize = 256;
/// An arena that runs out grows by at least this part of itself.
const GROWTH: usize = 32;
/// Counters that are made at least.
const LEAST_COUNTERS: usize = 1024;

/// Device memory for intermediate results, all used on one stream.
///
/// A [`Frame`] hands out slices one after another and gives them all back at once when it ends. Work is ordered on the
/// arena's stream, so the next frame may reuse the memory while the work of the last one is still queued. An arena that
/// runs out grows; at the next frame it is one piece again, large enough for what the last one took.
#[derive(Debug)]
pub struct Arena {
    stream: Arc<CudaStream>,
    /// The last one is the one being filled.
    #[expect(clippy::vec_box, reason = "views into a block refer to it, so it must not move when the list grows")]
    blocks: Vec<Box<CudaSlice<u8>>>,
    /// Words that are 0 whenever no kernel that was given them runs; never freed, as views refer to them.
    #[expect(clippy::vec_box, reason = "as above")]
    counters: Vec<Box<CudaSlice<u32>>>,
}

impl Drop for Arena {
    /// Memory can only be given back where the device's context is current, which a thread that has called nothing yet
    /// has not.
    fn drop(&mut self) {
        // There is nobody to report to.
        let _ = self.stream.context().bind_to_thread();
    }
}

impl Arena {
    /// An arena for work on `stream`, empty at first.
    pub fn new(stream: Arc<CudaStream>) -> Self {
        Self { stream, blocks: Vec::new(), counters: Vec::new() }
    }

    /// An arena that starts with this many bytes.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn with_capacity(stream: Arc<CudaStream>, bytes: usize) -> Result<Self> {
        let mut arena = Self::new(stream);
        arena.add_block(bytes)?;
        Ok(arena)
    }

    /// [`Self::with_capacity`] of memory that is 0 at first.
    ///
    /// # Errors
    /// As [`Self::with_capacity`].
    pub fn with_zeros(stream: Arc<CudaStream>, bytes: usize) -> Result<Self> {
        let mut arena = Self::with_capacity(stream, bytes)?;
        let Self { stream, blocks, .. } = &mut arena;
        for block in blocks {
            stream.memset_zeros(&mut **block).doing("clearing scratch memory")?;
        }
        Ok(arena)
    }

    /// The stream that the memory is used on.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Bytes of device memory held.
    pub fn capacity(&self) -> usize {
        self.blocks.iter().map(|block| block.len()).sum()
    }

    /// Makes the next frame start with at least so many bytes in one piece.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn reserve(&mut self, bytes: usize) -> Result<()> {
        if self.blocks.first().is_none_or(|block| block.len() < bytes) {
            // Given back first: both together may be more than there is.
            self.blocks.clear();
            self.add_block(bytes)?;
        }
        Ok(())
    }

    /// Gives the memory back to the device.
    pub fn clear(&mut self) {
        self.blocks.clear();
    }

    /// Starts handing out slices from the beginning; the slices of the frame before are gone, as the borrow checker
    /// sees to.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`] if the last frame made the arena grow and one block of that size is not to be had;
    /// [`CudaError::Driver`].
    pub fn frame(&mut self) -> Result<Frame<'_>> {
        if self.blocks.len() > 1 {
            let capacity = self.capacity();
            self.blocks.clear();
            self.add_block(capacity)?;
        }
        if self.blocks.is_empty() {
            self.add_block(0)?;
        }
        let mut frame = Frame { arena: self, rest: None };
        frame.enter_last_block();
        Ok(frame)
    }

    /// Bytes that a slice of `length` elements of `T` takes in a frame, rounding included: for sizing an arena
    /// beforehand.
    pub fn bytes_for<T>(length: usize) -> usize {
        length.saturating_mul(size_of::<T>()).div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT)
    }

    fn add_block(&mut self, bytes: usize) -> Result<()> {
        // SAFETY: bytes have no invalid patterns, and `Frame::slice` promises nothing about contents.
        let block = unsafe { self.stream.alloc::<u8>(bytes.max(ALIGNMENT)) };
        self.blocks.push(Box::new(block.allocating(bytes as u64)?));
        Ok(())
    }
}

/// The slices taken from an [`Arena`] for one piece of work.
#[derive(Debug)]
pub struct Frame<'a> {
    arena: &'a mut Arena,
    /// What is left of the last block.
    rest: Option<CudaViewMut<'a, u8>>,
}

impl<'a> Frame<'a> {
    /// A slice of `length` elements with unspecified contents.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`] if the arena has to grow and cannot; [`CudaError::Driver`].
    pub fn slice<T: DeviceRepr>(&mut self, length: usize) -> Result<CudaViewMut<'a, T>> {
        let bytes = Arena::bytes_for::<T>(length);
        if self.rest.as_ref().is_none_or(|rest| rest.len() < bytes) {
            // Somewhat more than asked for, so that many small slices do not make as many blocks; not much, since
            // whoever knows reserves what it needs.
            self.arena.add_block(bytes.max(self.arena.capacity() / GROWTH))?;
            self.enter_last_block();
        }
        take_front(&mut self.rest, length)
    }

    /// A frame for some of the work: what it hands out is handed out again afterwards.
    pub fn nested(&mut self) -> Frame<'_> {
        Frame { arena: self.arena, rest: self.rest.as_mut().map(|rest| rest.slice_mut(..)) }
    }

    fn enter_last_block(&mut self) {
        self.rest = self.arena.blocks.last_mut().map(|block| {
            // SAFETY: only the lifetime changes. For 'a the arena is mutably borrowed by this frame, which never frees,
            // moves (they are boxed) or touches a block once it has been entered; each is entered once.
            unsafe { std::mem::transmute::<CudaViewMut<'_, u8>, CudaViewMut<'a, u8>>(block.as_view_mut()) }
        });
    }

    /// A slice of `length` elements with every byte 0, cleared on the arena's stream.
    ///
    /// # Errors
    /// As [`Self::slice`].
    pub fn zeros<T: DeviceRepr>(&mut self, length: usize) -> Result<CudaViewMut<'a, T>> {
        let mut view = self.slice::<T>(length)?;
        if length > 0 {
            let stream = self.arena.stream.clone();
            stream.context().bind_to_thread().doing("making the device's context current")?;
            let (pointer, _order) = view.device_ptr_mut(&stream);
            // SAFETY: the view is `length * size_of::<T>()` bytes, exclusively ours.
            unsafe { cudarc::driver::result::memset_d8_async(pointer, 0, length * size_of::<T>(), stream.cu_stream()) }
                .doing("clearing scratch memory")?;
        }
        Ok(view)
    }

    /// So many words that are 0, for a kernel that leaves them 0: no launch is needed to clear them. Whoever asks next
    /// gets the same ones.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn counters(&mut self, length: usize) -> Result<CudaViewMut<'a, u32>> {
        let counters = &mut self.arena.counters;
        let place = match counters.iter().position(|words| words.len() >= length) {
            Some(place) => place,
            None => {
                let words = self.arena.stream.alloc_zeros::<u32>(length.max(LEAST_COUNTERS));
                counters.push(Box::new(words.allocating(4 * length as u64)?));
                counters.len() - 1
            }
        };
        let mut view = counters[place].slice_mut(..length);
        // SAFETY: only the lifetime changes. For 'a the arena is mutably borrowed by this frame; counters are boxed and
        // live as long as the arena. Views of one frame may be of the same words: kernels on the arena's stream use
        // them one after another.
        Ok(unsafe { std::mem::transmute::<CudaViewMut<'_, u32>, CudaViewMut<'a, u32>>(view.slice_mut(..)) })
    }

    /// A copy of `values`, queued on the arena's stream: without the calls that a buffer of its own takes, which are
    /// what small batches wait for.
    ///
    /// # Errors
    /// As [`Self::slice`].
    pub fn upload<T: DeviceRepr>(&mut self, values: &[T]) -> Result<CudaViewMut<'a, T>> {
        let mut view = self.slice::<T>(values.len())?;
        if !values.is_empty() {
            self.arena.stream.memcpy_htod(values, &mut view).doing("uploading a list")?;
        }
        Ok(view)
    }

    /// Room for several slices that are cleared together: of [`Arena::bytes_for`] each, `bytes` in all.
    ///
    /// # Errors
    /// As [`Self::zeros`].
    pub fn cleared(&mut self, bytes: usize) -> Result<Cleared<'a>> {
        Ok(Cleared { rest: Some(self.zeros::<u8>(bytes)?) })
    }

    /// The stream that the memory is used on.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.arena.stream
    }
}

/// Cleared memory of a [`Frame`], to be cut into slices.
#[derive(Debug)]
pub struct Cleared<'a> {
    rest: Option<CudaViewMut<'a, u8>>,
}

impl<'a> Cleared<'a> {
    /// Other memory that is 0; it starts where the driver's allocations do.
    pub(crate) fn of(memory: CudaViewMut<'a, u8>) -> Self {
        Self { rest: Some(memory) }
    }

    /// The next `length` elements, every byte 0.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`] if there is not as much left: the sum was wrong.
    pub fn take<T: DeviceRepr>(&mut self, length: usize) -> Result<CudaViewMut<'a, T>> {
        take_front(&mut self.rest, length)
    }
}

/// Cuts `length` elements off the front of `rest`, which starts on a multiple of the alignment, and then does so again.
fn take_front<'a, T: DeviceRepr>(rest: &mut Option<CudaViewMut<'a, u8>>, length: usize) -> Result<CudaViewMut<'a, T>> {
    let bytes = Arena::bytes_for::<T>(length);
    let too_large = || CudaError::OutOfMemory { bytes: bytes as u64 };
    let mut whole = rest.take().ok_or_else(too_large)?;
    let (mut head, tail) = whole.try_split_at_mut(bytes).ok_or_else(too_large)?;
    // SAFETY: device types have no invalid bit patterns that the host would see (contents are unspecified until
    // written); the head holds `length` elements and starts aligned, like every block and every multiple of the
    // alignment in it.
    let slice = unsafe { head.transmute_mut::<T>(length) }.ok_or_else(too_large)?;
    // SAFETY: only lifetimes change, back to 'a, which `whole` had. The two are disjoint, and `whole` is gone.
    unsafe {
        *rest = Some(std::mem::transmute::<CudaViewMut<'_, u8>, CudaViewMut<'a, u8>>(tail));
        Ok(std::mem::transmute::<CudaViewMut<'_, T>, CudaViewMut<'a, T>>(slice))
    }
}
