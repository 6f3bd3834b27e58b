//! Memory that is written whole before anybody reads it, and the proof that it was.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Memory to be written, by code of this folder alone: nobody else can put anything there that is not initialized, or
/// say that it was written.
#[derive(Debug)]
pub struct Place<'m> {
    bytes: &'m mut [MaybeUninit<u8>],
}

impl<'m> Place<'m> {
    /// # Safety
    /// If `bytes` are those of a `&mut [u8]`, nothing is written that is not initialized.
    pub(super) unsafe fn new(bytes: &'m mut [MaybeUninit<u8>]) -> Self {
        Self { bytes }
    }

    /// Bytes that may be written.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Where it is; only an address.
    pub fn address(&self) -> *const u8 {
        self.bytes.as_ptr().cast()
    }

    /// The bytes. What is written there is to be initialized.
    #[inline(always)]
    pub(super) fn bytes(&mut self) -> &mut [MaybeUninit<u8>] {
        self.bytes
    }

    /// The proof for the first `len` bytes.
    ///
    /// # Safety
    /// They have been written.
    #[inline(always)]
    pub(super) unsafe fn written(self, len: usize) -> Written<'m> {
        debug_assert!(len <= self.len());
        Written { start: self.address(), len, place: PhantomData }
    }
}

impl<'m> From<&'m mut [u8]> for Place<'m> {
    fn from(bytes: &'m mut [u8]) -> Self {
        let (start, len) = (bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: the same memory, borrowed as long, as bytes of the same size. It stays initialized: code of this
        // folder alone writes to a `Place`, and only what is initialized.
        unsafe { Self::new(std::slice::from_raw_parts_mut(start, len)) }
    }
}

/// The first bytes of a [`Place`], which have been written.
#[derive(Debug)]
pub struct Written<'m> {
    start: *const u8,
    len: usize,
    place: PhantomData<&'m mut [u8]>,
}

impl Written<'_> {
    /// Whether these are `len` bytes from `start` on.
    pub(super) fn is(&self, start: *const u8, len: usize) -> bool {
        self.start == start && self.len == len
    }
}
