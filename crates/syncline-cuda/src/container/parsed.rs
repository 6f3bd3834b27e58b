//! The results of parsing in device memory, which decoding reads.

use cudarc::driver::{CudaStream, CudaViewMut, DevicePtrMut};
use syncline_core::bound::Pipeline;
use syncline_core::container::{ChunkKind, Header};
use syncline_core::strips::MAX_LENGTH;

use super::structs::{ParsedArgument, ParsedChunk, TilePlace};
use crate::device::{Arena, Frame};
use crate::error::Result;
use crate::geometry::{ChunkBatch, DeviceGeometry};
use crate::strips::structs::CODEBOOKS;

/// [`ParsedChunk::kind`] of a chunk stored verbatim.
pub const CHUNK_RAW: u32 = ChunkKind::Raw as u32;
/// [`ParsedChunk::kind`] of a chunk of codes.
pub const CHUNK_QUANTIZED: u32 = ChunkKind::Quantized as u32;

/// Words of problems of a chunk, as in `kernels/container/parsed.cuh`.
pub const PROBLEM_WORDS: usize = 12;

/// Entries of a decoding table.
const TABLE: usize = 1 << MAX_LENGTH;

/// The parsed records of a batch of chunks. Chunks and tiles are numbered from the batch's first.
#[derive(Debug)]
pub struct Parsed<'a> {
    /// One struct per chunk.
    pub chunks: CudaViewMut<'a, ParsedChunk>,
    /// [`PROBLEM_WORDS`] words per chunk.
    pub problems: CudaViewMut<'a, u32>,
    /// One struct per tile.
    pub places: CudaViewMut<'a, TilePlace>,
    /// The first bit of each strip, and the end of the last one, `starts_stride` entries per chunk.
    pub starts: CudaViewMut<'a, u32>,
    /// Decoding tables.
    pub tables: CudaViewMut<'a, u32>,
    /// How many tiles are left over by the kernels of ordinary tiles, and their numbers.
    pub listed: CudaViewMut<'a, u32>,
    /// Entries of `starts` per chunk.
    pub starts_stride: u32,
    batch: ChunkBatch,
    tiles: u32,
    patterns: u32,
    is_logarithm: bool,
}

impl<'a> Parsed<'a> {
    /// Allocates memory for the results of a batch of the stream with this header. `problems` has [`PROBLEM_WORDS`]
    /// words per chunk.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory).
    pub(crate) fn new(
        frame: &mut Frame<'a>,
        header: &Header,
        geometry: &DeviceGeometry,
        batch: &ChunkBatch,
        problems: CudaViewMut<'a, u32>,
    ) -> Result<Self> {
        let (chunks, stride) = (batch.chunks() as usize, starts_stride(geometry, batch));
        Ok(Self {
            chunks: frame.slice(chunks)?,
            problems,
            places: frame.slice(batch.tiles() as usize)?,
            starts: frame.slice(chunks * stride)?,
            tables: frame.slice(chunks * CODEBOOKS * TABLE)?,
            listed: frame.slice(batch.tiles() as usize + 1)?,
            starts_stride: stride as u32,
            batch: *batch,
            tiles: geometry.chunk_tiles(),
            patterns: header.patterns.len() as u32,
            is_logarithm: header.pipeline == Pipeline::LogQuantized,
        })
    }

    /// Returns the bytes of arena memory that the results of a batch take.
    pub fn workspace(geometry: &DeviceGeometry, batch: &ChunkBatch) -> usize {
        let chunks = batch.chunks() as usize;
        Arena::bytes_for::<ParsedChunk>(chunks)
            + Arena::bytes_for::<TilePlace>(batch.tiles() as usize)
            + Arena::bytes_for::<u32>(chunks * starts_stride(geometry, batch))
            + Arena::bytes_for::<u32>(chunks * CODEBOOKS * TABLE)
            + Arena::bytes_for::<u32>(batch.tiles() as usize + 1)
    }

    /// Returns the kernels' argument. It borrows nothing: `self` must be alive when the kernel runs.
    pub(crate) fn argument(&mut self, stream: &CudaStream) -> ParsedArgument {
        ParsedArgument {
            chunks: self.chunks.device_ptr_mut(stream).0,
            problems: self.problems.device_ptr_mut(stream).0,
            places: self.places.device_ptr_mut(stream).0,
            starts: self.starts.device_ptr_mut(stream).0,
            tables: self.tables.device_ptr_mut(stream).0,
            listed: self.listed.device_ptr_mut(stream).0,
            starts_stride: self.starts_stride,
            tiles: self.tiles,
            chunk_count: self.batch.chunks(),
            patterns: self.patterns,
            is_logarithm: self.is_logarithm.into(),
            unused: 0,
        }
    }
}

/// Returns the entries of [`Parsed::starts`] per chunk: one for each strip that its tiles can have, and one more.
fn starts_stride(geometry: &DeviceGeometry, batch: &ChunkBatch) -> usize {
    let tiles = u64::from(geometry.chunk_tiles()).min(batch.tiles().into()) as usize;
    (tiles * geometry.strip_capacity() as usize + 1).next_multiple_of(4)
}
