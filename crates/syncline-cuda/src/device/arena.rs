//! Scratch memory that is kept between calls, so that repeated calls allocate nothing.

#![allow(unsafe_code)]

use std::mem::size_of;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaViewMut, DevicePtrMut, DeviceRepr};

use crate::error::{CudaError, DriverContext, Result};

/// Alignment of every slice in bytes: sufficient for the widest loads, and guaranteed by the driver's allocations.
const ALIGNMENT: usize = 256;
/// An arena that is exhausted grows by at least 1 / `GROWTH` of its capacity.
const GROWTH: usize = 32;
/// Minimum number of counters that are allocated at once.
const LEAST_COUNTERS: usize = 1024;

/// Device memory for intermediate results, all used on one stream.
///
/// A [`Frame`] hands out consecutive slices and releases all of them when it ends. The next frame may reuse the memory
/// while the previous frame's work is still queued, because all work runs in order on the arena's stream. An exhausted
/// arena grows by a block; the next frame replaces the blocks by a single one that is large enough for the previous
/// frame.
#[derive(Debug)]
pub struct Arena {
    stream: Arc<CudaStream>,
    /// Blocks of memory; slices are cut from the last one.
    #[expect(clippy::vec_box, reason = "views into a block refer to it, so it must not move when the list grows")]
    blocks: Vec<Box<CudaSlice<u8>>>,
    /// Words that are 0 except while a kernel that uses them runs. Never freed before the arena, because views refer to
    /// them.
    #[expect(clippy::vec_box, reason = "as above")]
    counters: Vec<Box<CudaSlice<u32>>>,
}

impl Drop for Arena {
    /// Makes the device's context current, which freeing memory requires: the dropping thread may not have used the
    /// device before.
    fn drop(&mut self) {
        // Drop cannot report an error.
        let _ = self.stream.context().bind_to_thread();
    }
}

impl Arena {
    /// Returns an empty arena for work on `stream`.
    pub fn new(stream: Arc<CudaStream>) -> Self {
        Self { stream, blocks: Vec::new(), counters: Vec::new() }
    }

    /// Returns an arena with `bytes` bytes of memory.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn with_capacity(stream: Arc<CudaStream>, bytes: usize) -> Result<Self> {
        let mut arena = Self::new(stream);
        arena.add_block(bytes)?;
        Ok(arena)
    }

    /// Returns an arena with `bytes` bytes of memory, initialized to 0.
    ///
    /// # Errors
    /// The errors of [`Self::with_capacity`].
    pub fn with_zeros(stream: Arc<CudaStream>, bytes: usize) -> Result<Self> {
        let mut arena = Self::with_capacity(stream, bytes)?;
        let Self { stream, blocks, .. } = &mut arena;
        for block in blocks {
            stream.memset_zeros(&mut **block).doing("clearing scratch memory")?;
        }
        Ok(arena)
    }

    /// Returns the stream that the memory is used on.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Returns the bytes of device memory that the arena holds.
    pub fn capacity(&self) -> usize {
        self.blocks.iter().map(|block| block.len()).sum()
    }

    /// Ensures that the next frame starts with at least `bytes` bytes in one block.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn reserve(&mut self, bytes: usize) -> Result<()> {
        if self.blocks.first().is_none_or(|block| block.len() < bytes) {
            // The old blocks are freed first, because the device may not have room for both.
            self.blocks.clear();
            self.add_block(bytes)?;
        }
        Ok(())
    }

    /// Frees the arena's device memory.
    pub fn clear(&mut self) {
        self.blocks.clear();
    }

    /// Starts a frame, whose slices are cut from the start of the memory. The mutable borrow guarantees that no slice
    /// of the previous frame is left.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`] if the previous frame made the arena grow and a single block of that size cannot be
    /// allocated; [`CudaError::Driver`].
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

    /// Returns the bytes that a slice of `length` elements of `T` takes in a frame, including padding, to compute the
    /// capacity of an arena.
    pub fn bytes_for<T>(length: usize) -> usize {
        length.saturating_mul(size_of::<T>()).div_ceil(ALIGNMENT).saturating_mul(ALIGNMENT)
    }

    fn add_block(&mut self, bytes: usize) -> Result<()> {
        // SAFETY: every bit pattern of `u8` is valid, and `Frame::slice` leaves contents unspecified.
        let block = unsafe { self.stream.alloc::<u8>(bytes.max(ALIGNMENT)) };
        self.blocks.push(Box::new(block.allocating(bytes as u64)?));
        Ok(())
    }
}

/// The slices that one operation takes from an [`Arena`].
#[derive(Debug)]
pub struct Frame<'a> {
    arena: &'a mut Arena,
    /// Unused rest of the last block.
    rest: Option<CudaViewMut<'a, u8>>,
}

impl<'a> Frame<'a> {
    /// Returns a slice of `length` elements with unspecified contents.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`] if the arena has to grow and cannot; [`CudaError::Driver`].
    pub fn slice<T: DeviceRepr>(&mut self, length: usize) -> Result<CudaViewMut<'a, T>> {
        let bytes = Arena::bytes_for::<T>(length);
        if self.rest.as_ref().is_none_or(|rest| rest.len() < bytes) {
            // Allocates somewhat more than requested, so that many small slices share a block. The excess is small,
            // because callers that know their total size reserve it.
            self.arena.add_block(bytes.max(self.arena.capacity() / GROWTH))?;
            self.enter_last_block();
        }
        take_front(&mut self.rest, length)
    }

    /// Returns a frame for part of the work. When it ends, its memory is available to this frame again.
    pub fn nested(&mut self) -> Frame<'_> {
        Frame { arena: self.arena, rest: self.rest.as_mut().map(|rest| rest.slice_mut(..)) }
    }

    fn enter_last_block(&mut self) {
        self.rest = self.arena.blocks.last_mut().map(|block| {
            // SAFETY: only the lifetime changes. This frame borrows the arena mutably for 'a. It never frees or moves a
            // block (blocks are boxed), and enters each block once, so that views of a block are never created twice.
            unsafe { std::mem::transmute::<CudaViewMut<'_, u8>, CudaViewMut<'a, u8>>(block.as_view_mut()) }
        });
    }

    /// Returns a slice of `length` elements whose bytes are set to 0 on the arena's stream.
    ///
    /// # Errors
    /// The errors of [`Self::slice`].
    pub fn zeros<T: DeviceRepr>(&mut self, length: usize) -> Result<CudaViewMut<'a, T>> {
        let mut view = self.slice::<T>(length)?;
        if length > 0 {
            let stream = self.arena.stream.clone();
            stream.context().bind_to_thread().doing("making the device's context current")?;
            let (pointer, _order) = view.device_ptr_mut(&stream);
            // SAFETY: the view has `length * size_of::<T>()` bytes, and `self` borrows it exclusively.
            unsafe { cudarc::driver::result::memset_d8_async(pointer, 0, length * size_of::<T>(), stream.cu_stream()) }
                .doing("clearing scratch memory")?;
        }
        Ok(view)
    }

    /// Returns `length` words that are 0, for a kernel that sets them to 0 again before it ends, which saves a launch
    /// that clears them. Every call returns the same words.
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
        // SAFETY: only the lifetime changes. This frame borrows the arena mutably for 'a, and counters are boxed and
        // live as long as the arena. Views of one frame may overlap on the device only: kernels on the arena's stream
        // use the words one after another, and the host never accesses them.
        Ok(unsafe { std::mem::transmute::<CudaViewMut<'_, u32>, CudaViewMut<'a, u32>>(view.slice_mut(..)) })
    }

    /// Returns a copy of `values` in device memory, queued on the arena's stream. This avoids the driver calls that
    /// allocate a buffer, which dominate the time of small batches.
    ///
    /// # Errors
    /// The errors of [`Self::slice`].
    pub fn upload<T: DeviceRepr>(&mut self, values: &[T]) -> Result<CudaViewMut<'a, T>> {
        let mut view = self.slice::<T>(values.len())?;
        if !values.is_empty() {
            self.arena.stream.memcpy_htod(values, &mut view).doing("uploading a list")?;
        }
        Ok(view)
    }

    /// Returns memory for several slices that are cleared together. `bytes` is the sum of [`Arena::bytes_for`] over the
    /// slices.
    ///
    /// # Errors
    /// The errors of [`Self::zeros`].
    pub fn cleared(&mut self, bytes: usize) -> Result<Cleared<'a>> {
        Ok(Cleared { rest: Some(self.zeros::<u8>(bytes)?) })
    }

    /// Returns the stream that the memory is used on.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.arena.stream
    }
}

/// Cleared memory of a [`Frame`], which is cut into slices.
#[derive(Debug)]
pub struct Cleared<'a> {
    rest: Option<CudaViewMut<'a, u8>>,
}

impl<'a> Cleared<'a> {
    /// Returns the next `length` elements; all their bytes are 0.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`] if less is left, because the caller's sum was too small.
    pub fn take<T: DeviceRepr>(&mut self, length: usize) -> Result<CudaViewMut<'a, T>> {
        take_front(&mut self.rest, length)
    }
}

/// Cuts `length` elements off the front of `rest`, which starts on a multiple of the alignment before and after.
fn take_front<'a, T: DeviceRepr>(rest: &mut Option<CudaViewMut<'a, u8>>, length: usize) -> Result<CudaViewMut<'a, T>> {
    let bytes = Arena::bytes_for::<T>(length);
    let too_large = || CudaError::OutOfMemory { bytes: bytes as u64 };
    let mut whole = rest.take().ok_or_else(too_large)?;
    let (mut head, tail) = whole.try_split_at_mut(bytes).ok_or_else(too_large)?;
    // SAFETY: the elements are device types, and the host reads their contents only after they have been written. The
    // head holds `length` elements. It is aligned, because `rest` starts on a multiple of the alignment.
    let slice = unsafe { head.transmute_mut::<T>(length) }.ok_or_else(too_large)?;
    // SAFETY: only lifetimes change, back to 'a, the lifetime of `whole`. The two parts are disjoint, and `whole` is
    // not used any more.
    unsafe {
        *rest = Some(std::mem::transmute::<CudaViewMut<'_, u8>, CudaViewMut<'a, u8>>(tail));
        Ok(std::mem::transmute::<CudaViewMut<'_, T>, CudaViewMut<'a, T>>(slice))
    }
}
