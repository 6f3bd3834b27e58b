//! Device memory that a decompressor keeps from call to call.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DeviceRepr, ValidAsZeroBits};

use crate::container::parsed::PROBLEM_WORDS;
use crate::device::{Arena, SideStream};
use crate::error::{DriverContext, Result};

/// Scratch memory on the device, for one stream or, one after the other, for several.
#[derive(Debug)]
pub(super) struct Scratch {
    pub arena: Arena,
    /// Workspace used on `side`. Declared before `side`, so that it is freed first.
    pub side_arena: Arena,
    /// A second stream for the hashes of long records: each is a long sequential computation that occupies a small part
    /// of the device.
    pub side: SideStream,
    /// At least [`PROBLEM_WORDS`] words per chunk of the array, and one flag per chunk whether its hash differs.
    pub problems: CudaSlice<u32>,
    pub hashes_differ: CudaSlice<u32>,
    /// Memory that hashing needs to be 0, and clears again unless the batch fails.
    pub hash_progress: CudaSlice<u64>,
    pub progress_is_clear: bool,
}

/// What a stream needs of [`Scratch`] beside the arenas.
pub(super) struct Sizes {
    /// Chunks of the array.
    pub chunks: usize,
    /// Chunks of the largest batch.
    pub in_batch: usize,
}

impl Scratch {
    /// Allocates memory of these sizes on a stream. The arenas are empty.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory); [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn new(stream: &Arc<CudaStream>, sizes: &Sizes) -> Result<Self> {
        let side = SideStream::new(stream.context())?;
        Ok(Self {
            arena: Arena::new(stream.clone()),
            side_arena: Arena::new(side.stream().clone()),
            side,
            problems: zeros(stream, sizes.chunks * PROBLEM_WORDS)?,
            hashes_differ: zeros(stream, sizes.chunks)?,
            hash_progress: zeros(stream, sizes.in_batch)?,
            progress_is_clear: true,
        })
    }

    /// Replaces memory that is smaller than these sizes.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn grow(&mut self, sizes: &Sizes) -> Result<()> {
        let stream = self.arena.stream().clone();
        extend(&stream, &mut self.problems, sizes.chunks * PROBLEM_WORDS)?;
        extend(&stream, &mut self.hashes_differ, sizes.chunks)?;
        extend(&stream, &mut self.hash_progress, sizes.in_batch)
    }

    /// Ensures that the arenas have at least these numbers of bytes.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn reserve(&mut self, main: usize, beside: usize) -> Result<()> {
        self.arena.reserve(main)?;
        if self.side_arena.capacity() < beside {
            // The memory is freed on the second stream, after its readers on the first one.
            self.side.fork(self.arena.stream())?;
            self.side_arena.clear();
            // Initialized to 0, because compute-sanitizer's initcheck does not see the kernels' first writes to this
            // memory.
            self.side_arena = Arena::with_zeros(self.side.stream().clone(), beside)?;
        }
        Ok(())
    }

    /// Forgets the problems of all chunks.
    ///
    /// # Errors
    /// [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn clear_problems(&mut self) -> Result<()> {
        let stream = self.arena.stream().clone();
        stream.memset_zeros(&mut self.problems).doing("clearing problems")?;
        stream.memset_zeros(&mut self.hashes_differ).doing("clearing problems")
    }

    /// Returns the bytes of device memory.
    pub fn bytes(&self) -> usize {
        self.arena.capacity()
            + self.side_arena.capacity()
            + self.problems.num_bytes()
            + self.hashes_differ.num_bytes()
            + self.hash_progress.num_bytes()
    }
}

impl Drop for Scratch {
    /// Frees the second stream's memory on that stream, after all readers on the caller's stream have finished.
    fn drop(&mut self) {
        if self.side.fork(self.arena.stream()).is_err() {
            // Drop cannot report an error; waiting longer than necessary is harmless.
            let _ = self.arena.stream().synchronize();
        }
    }
}

/// Allocates elements that are 0, at least one: devices without memory pools cannot allocate 0 bytes.
fn zeros<T: DeviceRepr + ValidAsZeroBits>(stream: &Arc<CudaStream>, length: usize) -> Result<CudaSlice<T>> {
    let length = length.max(1);
    stream.alloc_zeros(length).allocating((length * size_of::<T>()) as u64)
}

/// Replaces a slice by one of zeros if it has fewer than `length` elements.
fn extend<T: DeviceRepr + ValidAsZeroBits>(
    stream: &Arc<CudaStream>,
    slice: &mut CudaSlice<T>,
    length: usize,
) -> Result<()> {
    if slice.len() < length {
        *slice = zeros(stream, length)?;
    }
    Ok(())
}
