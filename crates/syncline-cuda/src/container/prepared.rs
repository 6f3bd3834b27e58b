//! What quantizing leaves of a batch for its records, besides what it finds of tiles and codes.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtrMut, DeviceRepr};

use crate::device::{Frame, Pinned};
use crate::error::{CudaError, DriverContext, Result};
use crate::huffman::encode::Batch;
use crate::quantize::ChunkSummary;

/// What some tiles of a chunk come to: `TileSums` in container/sums.cuh.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TileSums {
    /// Tiles that are not constant.
    pub live: u32,
    /// 1: some tile has a mask; 4: some tile has signs.
    pub flags: u32,
    /// Words of the packed bases.
    pub words_of_bases: u32,
    unused: u32,
}

impl TileSums {
    /// Of tiles of which so many are not constant, and which have masks, signs, and so many words of bases.
    pub fn new(live: u32, masks: bool, signs: bool, words_of_bases: u32) -> Self {
        Self { live, flags: u32::from(masks) | u32::from(signs) << 2, words_of_bases, unused: 0 }
    }
}

// SAFETY: plain numbers without padding, laid out as `TileSums` in container/sums.cuh.
unsafe impl DeviceRepr for TileSums {}

/// `ForRecords` in container/sums.cuh.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct ForRecords {
    pointers: [CUdeviceptr; 5],
    control_words: u64,
    streams: u32,
    element_bytes: u32,
}

// SAFETY: addresses and numbers without padding, laid out as `ForRecords` in container/sums.cuh.
unsafe impl DeviceRepr for ForRecords {}

/// Room for what records need of the chunks of a batch, in device memory.
#[derive(Debug)]
pub struct Prepared<'a> {
    tiles: CudaViewMut<'a, TileSums>,
    /// How far hashing is.
    hashed: CudaViewMut<'a, u64>,
    /// The list of the streams of codes, and how many it has.
    spans: CUdeviceptr,
    streams: u32,
    element_bytes: u32,
    chunks: u32,
    /// Parts that a chunk's tiles are summed up in.
    sums_of_chunk: u32,
}

impl<'a> Prepared<'a> {
    /// For `chunks` chunks, whose codes are the first streams of `streams`.
    pub(super) fn new(
        frame: &mut Frame<'a>,
        chunks: u32,
        sums_of_chunk: u32,
        streams: &mut Batch,
        element_bytes: u32,
    ) -> Result<Self> {
        if streams.streams() < chunks {
            return Err(CudaError::invalid("a stream for each chunk"));
        }
        let stream = frame.stream().clone();
        let count = streams.streams();
        Ok(Self {
            tiles: frame.slice((chunks * sums_of_chunk) as usize)?,
            hashed: frame.slice(chunks as usize)?,
            spans: streams.spans_mut().device_ptr_mut(&stream).0,
            streams: count,
            element_bytes,
            chunks,
            sums_of_chunk,
        })
    }

    /// Where quantizing leaves all of it for a batch of at most [`Self::chunks`] chunks. It clears `control`, and tells
    /// the host, if they are given.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the host has no room.
    pub(crate) fn wanted(
        &mut self,
        stream: &Arc<CudaStream>,
        control: Option<(CUdeviceptr, u64)>,
        host: Option<&Pinned<ChunkSummary>>,
    ) -> Result<ForRecords> {
        if host.is_some_and(|host| host.len() < self.chunks as usize) {
            return Err(CudaError::invalid("room for the summary of each chunk"));
        }
        let (control, control_words) = control.unwrap_or_default();
        let host = host.map_or(0, Pinned::device_pointer);
        let (tiles, hashed) = (self.tiles.device_ptr_mut(stream).0, self.hashed.device_ptr_mut(stream).0);
        Ok(ForRecords {
            pointers: [self.spans, tiles, hashed, host, control],
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
    pub(super) fn sums_of_chunk(&self) -> u32 {
        self.sums_of_chunk
    }

    /// Sums that were made elsewhere, one of each chunk.
    pub(super) fn upload(&mut self, stream: &Arc<CudaStream>, sums: &[TileSums]) -> Result<()> {
        if sums.len() != self.chunks as usize {
            return Err(CudaError::invalid("the sums of each chunk's tiles"));
        }
        let mut all = vec![TileSums::default(); self.tiles.len()];
        for (parts, sums) in all.chunks_mut(self.sums_of_chunk as usize).zip(sums) {
            parts[0] = *sums;
        }
        stream.memcpy_htod(&all, &mut self.tiles).doing("uploading what tiles come to")?;
        stream.memset_zeros(&mut self.hashed).doing("clearing how far hashing is")
    }

    pub(super) fn hashed_mut(&mut self) -> &mut CudaViewMut<'a, u64> {
        &mut self.hashed
    }
}
