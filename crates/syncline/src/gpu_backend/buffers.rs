//! Page-locked memory of a device's copies. It is locked when first needed and stays locked for the next call, since
//! locking takes longer than copying through it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use syncline_cuda::cudarc::driver::CudaStream;
use syncline_cuda::device::Pinned;
use syncline_cuda::error::Result as CudaResult;

use super::{BUFFERS, Gpu};

/// Bytes that stay locked for each device, at most.
const KEPT_BYTES: usize = 256 << 20;

/// Buffers that nobody uses.
#[derive(Default)]
pub(super) struct Buffers(Mutex<Vec<Pinned<u8>>>);

impl Buffers {
    fn kept(&self) -> MutexGuard<'_, Vec<Pinned<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer of `bytes` for copies on `stream`.
    ///
    /// # Errors
    /// The driver's, if no more host memory can be locked.
    pub(super) fn take(&self, stream: &Arc<CudaStream>, bytes: usize) -> CudaResult<Pinned<u8>> {
        let mut kept = self.kept();
        let found = kept.iter().position(|buffer| buffer.len() == bytes).map(|at| kept.swap_remove(at));
        drop(kept);
        match found {
            Some(buffer) => buffer.on(stream),
            None => Pinned::bytes(stream, bytes),
        }
    }

    /// Keeps a buffer for whoever is next, if there is not enough already.
    pub(super) fn give_back(&self, buffer: Pinned<u8>) {
        let mut kept = self.kept();
        if kept.iter().map(Pinned::len).sum::<usize>() + buffer.len() <= KEPT_BYTES {
            kept.push(buffer);
        }
    }

    /// Unlocks what nobody uses.
    pub(super) fn clear(&self) {
        self.kept().clear();
    }
}

/// A lane's buffers in one direction, used in turn.
pub(super) struct Ring<'g> {
    gpu: &'g Gpu,
    stream: Arc<CudaStream>,
    bytes: usize,
    buffers: Vec<Pinned<u8>>,
    next: usize,
}

impl<'g> Ring<'g> {
    /// A ring of buffers of `bytes` for copies on `stream`, none of them there yet.
    pub(super) fn new(gpu: &'g Gpu, stream: &Arc<CudaStream>, bytes: usize) -> Self {
        Self { gpu, stream: stream.clone(), bytes, buffers: Vec::with_capacity(BUFFERS), next: 0 }
    }

    /// Bytes of a buffer.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of the turn to come.
    pub(super) fn turn(&self) -> usize {
        self.next
    }

    /// The buffer whose turn it is.
    ///
    /// # Errors
    /// As [`Buffers::take`].
    pub(super) fn take_turn(&mut self) -> CudaResult<&mut Pinned<u8>> {
        let at = self.next % BUFFERS;
        if at == self.buffers.len() {
            self.buffers.push(self.gpu.buffers.take(&self.stream, self.bytes)?);
        }
        self.next += 1;
        Ok(&mut self.buffers[at])
    }

    /// The buffer whose turn `turn` was, one of the last [`BUFFERS`].
    pub(super) fn taken(&self, turn: usize) -> &Pinned<u8> {
        &self.buffers[turn % BUFFERS]
    }
}

impl Drop for Ring<'_> {
    fn drop(&mut self) {
        self.buffers.drain(..).for_each(|buffer| self.gpu.buffers.give_back(buffer));
    }
}
