//! What quantizing leaves of a batch for its records, besides what it finds of tiles and codes.

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtrMut};

use crate::device::{Frame, Pinned};
use crate::error::{CudaError, DriverContext, Result};
use crate::huffman::encode::Batch;
use crate::quantize::{ChunkSummary, RecordInputsArgument, TileSums};

/// Room for what records need of the chunks of a batch, in device memory.
#[derive(Debug)]
pub struct RecordInputs<'a> {
    tiles: CudaViewMut<'a, TileSums>,
    /// How far hashing is.
    hash_progress: CudaViewMut<'a, u64>,
    /// The list of the streams of codes, and how many it has.
    spans: CUdeviceptr,
    streams: u32,
    element_bytes: u32,
    chunks: u32,
    /// Parts that a chunk's tiles are summed up in.
    sums_per_chunk: u32,
}

impl<'a> RecordInputs<'a> {
    /// For `chunks` chunks, whose codes are the first streams of `streams`.
    pub(super) fn new(
        frame: &mut Frame<'a>,
        chunks: u32,
        sums_per_chunk: u32,
        streams: &mut Batch,
        element_bytes: u32,
    ) -> Result<Self> {
        if streams.streams() < chunks {
            return Err(CudaError::invalid("a stream for each chunk"));
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

    /// Where quantizing leaves all of it for a batch of at most [`Self::chunks`] chunks. It clears `control`, and tells
    /// the host, if they are given.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the host has no room.
    pub(crate) fn argument(
        &mut self,
        stream: &Arc<CudaStream>,
        control: Option<(CUdeviceptr, u64)>,
        host: Option<&Pinned<ChunkSummary>>,
    ) -> Result<RecordInputsArgument> {
        if host.is_some_and(|host| host.len() < self.chunks as usize) {
            return Err(CudaError::invalid("room for the summary of each chunk"));
        }
        let (control, control_words) = control.unwrap_or_default();
        let host = host.map_or(0, Pinned::device_pointer);
        let (tiles, hash_progress) = (self.tiles.device_ptr_mut(stream).0, self.hash_progress.device_ptr_mut(stream).0);
        Ok(RecordInputsArgument {
            pointers: [self.spans, tiles, hash_progress, host, control],
            control_words,
            streams: self.streams,
            element_bytes: self.element_bytes,
        })
    }

    /// Chunks that there is room for.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Sums of the tiles, so many of each chunk.
    pub(super) fn tiles(&self) -> CudaView<'_, TileSums> {
        self.tiles.as_view()
    }

    /// Parts that a chunk's tiles are summed up in.
    pub(super) fn sums_per_chunk(&self) -> u32 {
        self.sums_per_chunk
    }

    /// Sums that were made elsewhere, one of each chunk.
    pub(super) fn upload(&mut self, stream: &Arc<CudaStream>, sums: &[TileSums]) -> Result<()> {
        if sums.len() != self.chunks as usize {
            return Err(CudaError::invalid("the sums of each chunk's tiles"));
        }
        let mut all = vec![TileSums::default(); self.tiles.len()];
        for (parts, sums) in all.chunks_mut(self.sums_per_chunk as usize).zip(sums) {
            parts[0] = *sums;
        }
        stream.memcpy_htod(&all, &mut self.tiles).doing("uploading what tiles come to")?;
        stream.memset_zeros(&mut self.hash_progress).doing("clearing how far hashing is")
    }

    pub(super) fn hash_progress_mut(&mut self) -> &mut CudaViewMut<'a, u64> {
        &mut self.hash_progress
    }
}
