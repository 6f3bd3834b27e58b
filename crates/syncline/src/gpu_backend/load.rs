//! Bytes from a source to a device. Each of several threads reads a piece into page-locked memory of its own and queues
//! its copy, so that none waits for another: pieces that all threads filled together took half a millisecond each
//! whatever their size, most of it for threads to wake up.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use syncline_core::error::Result;
use syncline_cuda::cudarc::driver::{CudaStream, CudaViewMut};

use super::buffers::Ring;
use super::{Gpu, failure, joined};

/// Bytes that a thread reads at a time, at least, and a multiple of them.
const LEAST_BYTES: usize = 64 << 10;

/// Threads that read at most: with twice as many, on pieces of half the size, they waited for the driver and loaded no
/// faster.
const MOST_THREADS: usize = 8;

/// What copies to one stream's device go through.
pub(super) struct Loader<'g> {
    gpu: &'g Gpu,
    stream: Arc<CudaStream>,
    /// Bytes that all threads' buffers of a turn have together.
    bytes: usize,
    /// Bytes of one thread's buffer.
    piece: usize,
    /// A thread's buffers.
    rings: Vec<Ring<'g>>,
}

impl<'g> Loader<'g> {
    /// Buffers of `bytes` together for copies on `stream`, none of them there yet.
    pub(super) fn new(gpu: &'g Gpu, stream: &Arc<CudaStream>, bytes: usize) -> Self {
        Self { gpu, stream: stream.clone(), bytes, piece: 0, rings: Vec::new() }
    }

    /// Copies `bytes` bytes to the start of `to`, on up to `threads` threads: `read` gets the offset of each piece and
    /// fills it. The copies are queued on the stream.
    ///
    /// # Errors
    /// The first that `read` returns, or the driver's.
    pub(super) fn load(
        &mut self,
        threads: usize,
        bytes: usize,
        to: &mut CudaViewMut<'_, u8>,
        read: impl Fn(u64, &mut [u8]) -> Result<()> + Sync,
    ) -> Result<()> {
        let threads = threads.clamp(1, (self.bytes / LEAST_BYTES).clamp(1, MOST_THREADS));
        let piece = (self.bytes / threads / LEAST_BYTES * LEAST_BYTES).max(LEAST_BYTES);
        if piece != self.piece {
            self.rings.clear();
            self.piece = piece;
        }
        let pieces = bytes.div_ceil(piece);
        let threads = threads.min(pieces);
        while self.rings.len() < threads {
            self.rings.push(Ring::new(self.gpu, &self.stream, piece));
        }
        let (next, to) = (AtomicUsize::new(0), Mutex::new(to));
        let one = |ring: &mut Ring<'_>, at: usize| -> Result<()> {
            let count = piece.min(bytes - at);
            let buffer = ring.take_turn().map_err(failure)?;
            read(at as u64, &mut buffer.fill().map_err(failure)?[..count])?;
            let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
            buffer.send(count, &mut to.slice_mut(at..at + count)).map_err(failure)
        };
        let work = |ring: &mut Ring<'_>| -> Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= pieces {
                    return Ok(());
                }
                // After an error nobody begins another piece.
                one(ring, number * piece).inspect_err(|_| next.store(pieces, Ordering::Relaxed))?;
            }
        };
        match &mut self.rings[..threads] {
            [] => Ok(()),
            [ring] => work(ring),
            rings => std::thread::scope(|scope| {
                let threads: Vec<_> = rings.iter_mut().map(|ring| scope.spawn(|| work(ring))).collect();
                threads.into_iter().map(joined).collect::<Vec<_>>().into_iter().collect()
            }),
        }
    }
}
