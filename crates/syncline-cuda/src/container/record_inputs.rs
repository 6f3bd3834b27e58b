//! Memory for the values that quantizing computes for the records of a batch, in addition to tiles and codes.

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtrMut};

use crate::device::{Frame, Pinned};
use crate::error::{CudaError, DriverContext, Result};
use crate::huffman::encode::Batch;
use crate::quantize::{ChunkSummary, RecordInputsArgument, TileSums};

/// Memory for the values of each chunk that its record needs.
#[derive(Debug)]
pub struct RecordInputs<'a> {
    tiles: CudaViewMut<'a, TileSums>,
    /// Progress of hashing: one word per record.
    hash_progress: CudaViewMut<'a, u64>,
    /// The list of the streams of codes, and its length.
    spans: CUdeviceptr,
    streams: u32,
    element_bytes: u32,
    chunks: u32,
    /// Number of partial sums per chunk.
    sums_per_chunk: u32,
}

impl<'a> RecordInputs<'a> {
    /// Allocates memory for `chunks` chunks, whose codes are the first of `streams` streams.
    pub(super) fn new(
        frame: &mut Frame<'a>,
        chunks: u32,
        sums_per_chunk: u32,
        streams: &mut Batch,
        element_bytes: u32,
    ) -> Result<Self> {
        if streams.streams() < chunks {
            return Err(CudaError::invalid("every chunk needs a stream"));
        }
        let stream = frame.stream().clone();
        let count = streams.streams();
        Ok(Self {
            tiles: frame.slice((chunks * sums_per_chunk) as usize)?,
            hash_progress: frame.slice(chunks as usize)?,
            spans: streams.spans_mut().device_ptr_mut(&stream).0,
            streams: count,
            element_bytes,
            chunks,
            sums_per_chunk,
        })
    }

    /// Returns the kernel argument with the destinations in this memory, for a batch of at most [`Self::chunks`]
    /// chunks. The kernel also clears `control` and copies the summaries to `host`, if given.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if `host` is too small.
    pub(crate) fn argument(
        &mut self,
        stream: &Arc<CudaStream>,
        control: Option<(CUdeviceptr, u64)>,
        host: Option<&Pinned<ChunkSummary>>,
    ) -> Result<RecordInputsArgument> {
        if host.is_some_and(|host| host.len() < self.chunks as usize) {
            return Err(CudaError::invalid("the host needs room for the summary of every chunk"));
        }
        let (control, control_words) = control.unwrap_or_default();
        let host = host.map_or(0, Pinned::device_pointer);
        let (tiles, hash_progress) = (self.tiles.device_ptr_mut(stream).0, self.hash_progress.device_ptr_mut(stream).0);
        Ok(RecordInputsArgument {
            spans: self.spans,
            tile_sums: tiles,
            hash_progress,
            host,
            control,
            control_words,
            streams: self.streams,
            element_bytes: self.element_bytes,
        })
    }

    /// Returns the number of chunks that this memory is for.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Returns the partial sums over the tiles: [`Self::sums_per_chunk`] for each chunk.
    pub(super) fn tiles(&self) -> CudaView<'_, TileSums> {
        self.tiles.as_view()
    }

    /// Returns the number of partial sums per chunk.
    pub(super) fn sums_per_chunk(&self) -> u32 {
        self.sums_per_chunk
    }

    /// Uploads sums that were computed elsewhere, one per chunk.
    pub(super) fn upload(&mut self, stream: &Arc<CudaStream>, sums: &[TileSums]) -> Result<()> {
        if sums.len() != self.chunks as usize {
            return Err(CudaError::invalid("every chunk needs sums over its tiles"));
        }
        let mut all = vec![TileSums::default(); self.tiles.len()];
        for (parts, sums) in all.chunks_mut(self.sums_per_chunk as usize).zip(sums) {
            parts[0] = *sums;
        }
        stream.memcpy_htod(&all, &mut self.tiles).doing("uploading sums over tiles")?;
        stream.memset_zeros(&mut self.hash_progress).doing("clearing the progress of hashing")
    }

    pub(super) fn hash_progress_mut(&mut self) -> &mut CudaViewMut<'a, u64> {
        &mut self.hash_progress
    }
}
