//! Output memory that need not be initialized, and the proof that it was written.

#![allow(unsafe_code, reason = "memory that is not initialized")]

use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Output memory that may be uninitialized. Safe code can only write initialized bytes to it.
#[derive(Debug)]
pub struct UninitBytes<'m> {
    bytes: &'m mut [MaybeUninit<u8>],
}

impl<'m> UninitBytes<'m> {
    /// Wraps memory, which may be uninitialized.
    ///
    /// # Safety
    /// If `bytes` is memory of a `&mut [u8]`, it must stay initialized. Every method keeps it so.
    pub(super) unsafe fn new(bytes: &'m mut [MaybeUninit<u8>]) -> Self {
        Self { bytes }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the address of the first byte.
    pub fn address(&self) -> *const u8 {
        self.bytes.as_ptr().cast()
    }

    /// Returns the bytes.
    ///
    /// # Safety
    /// The caller must write only initialized bytes.
    #[inline(always)]
    pub(crate) unsafe fn as_mut_slice(&mut self) -> &mut [MaybeUninit<u8>] {
        self.bytes
    }

    /// Returns the proof that the first `len` bytes were written.
    ///
    /// # Safety
    /// They must have been written.
    #[inline(always)]
    pub(crate) unsafe fn assume_written(self, len: usize) -> Written<'m> {
        debug_assert!(len <= self.len());
        Written { start: self.address(), len, memory: PhantomData }
    }

    /// Copies `bytes` to the first bytes, and calls `observe` with each piece of `piece` bytes before it is copied.
    ///
    /// # Panics
    /// There are fewer bytes than in `bytes`.
    pub(crate) fn copy_in_pieces(self, bytes: &[u8], piece: usize, mut observe: impl FnMut(&[u8])) -> Written<'m> {
        let to = &mut self.bytes[..bytes.len()];
        for (from, to) in bytes.chunks(piece).zip(to.chunks_mut(piece)) {
            observe(from);
            to.write_copy_of_slice(from);
        }
        // SAFETY: the loop has written as many bytes, because both slices have the same length and pieces.
        unsafe { self.assume_written(bytes.len()) }
    }
}

impl<'m> From<&'m mut [u8]> for UninitBytes<'m> {
    fn from(bytes: &'m mut [u8]) -> Self {
        let (start, len) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: this is the same memory, borrowed for as long, with the same layout. It stays initialized, because
        // `as_mut_slice` requires that only initialized bytes are written.
        unsafe { Self::new(std::slice::from_raw_parts_mut(start, len)) }
    }
}

/// Proves that the first bytes of an [`UninitBytes`] were written.
#[derive(Debug)]
pub struct Written<'m> {
    start: *const u8,
    len: usize,
    memory: PhantomData<&'m mut [u8]>,
}

impl Written<'_> {
    /// Returns whether these are the `len` bytes from `start` on.
    pub(crate) fn covers(&self, start: *const u8, len: usize) -> bool {
        self.start == start && self.len == len
    }
}
