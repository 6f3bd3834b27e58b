//! Parses chunk records on the device for reconstruction: launcher of `kernels/container/parse.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

mod finish;
mod format;
mod hashing;
mod memory;
mod results;
mod status;

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr};
use syncline_core::huffman::MAX_CLASSES;

pub use format::Format;
pub(crate) use format::cleared_bytes;
use format::rank_stride;
pub use hashing::Hashing;
use memory::ParseMemory;
pub use results::{ParsedRecords, Tiles};
pub use status::chunk_status_text;
pub(crate) use status::{STATUS_HASH, STATUS_TOKEN_STREAM, STATUS_TOKENS};

use super::structs::{BatchFinish, DeviceHashing, DeviceRecords, DeviceResults, MAX_CHUNKS, ParsedChunk};
use crate::device::{Arena, Device, Frame, Grid};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry};
use crate::huffman::decode::SINGLE_LONG_ENTRIES;
use crate::huffman::decode::parse::parse_constants;

declare_kernels! {
    /// The kernels of `kernels/container/parse.cu`.
    pub(super) struct ParseKernels in "container/parse.cu", by (element_bytes: u32) {
        // The kernel takes the sizes of symbols and groups as arguments. These constants are those of codes.
        with CODES = parse_constants(2, 7, THREADS);
        with OWN_LONG = SINGLE_LONG_ENTRIES[0];
        with OWN_LONG_MANY = SINGLE_LONG_ENTRIES[1];
        with ROLES = ROLES;
        fn container_parse_locate(records: DeviceRecords, count: u32, starts: Out<u64>, lengths: Out<u32>);
        fn container_parse(
            records: DeviceRecords, geometry: DeviceGeometry, batch: ChunkBatch, results: DeviceResults,
            hashing: DeviceHashing,
        );
        fn container_parse_finish(finish: BatchFinish, count: u32, chunks: In<ParsedChunk>, code_status: In<u32>);
    }
}

/// Blocks that share the work of a chunk: four for codebooks, one each for tiles, bases and ranks, and two for each
/// list (`ROLE_MASKS` of the kernel).
const ROLES: u32 = 11;
/// Additional blocks for masks and signs if the stream can have any.
const BITMAP_ROLES: u32 = 2;
/// log2 of the bytes in a group of bitmaps.
pub(crate) const BITMAP_GROUP_LOG2: u32 = 6;
/// Maximum number of codebooks of a stream of codes.
const BOOKS: usize = MAX_CLASSES;
/// Threads of a block of `container_parse`. There are many blocks, which mostly wait for memory.
const THREADS: u32 = 256;
/// Threads of a block of `container_parse_locate`.
const LOCATE_THREADS: u32 = 128;
/// Threads of the one block of `container_parse_finish`: one per chunk.
const FINISH_THREADS: u32 = MAX_CHUNKS as u32;
/// Alignment of records in bytes.
const ALIGNMENT: u64 = 16;

/// The records of consecutive chunks, adjacent in a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Records<'r> {
    /// The buffer, which starts on a multiple of 16 bytes.
    pub input: &'r CudaView<'r, u8>,
    /// Offset of the first record in bytes, a multiple of 16.
    pub first: u64,
    /// Length of each record in bytes, a multiple of 16.
    pub lengths: &'r [u32],
}

/// Locations of records in device memory, for [`Hasher`](super::hash::Hasher).
#[derive(Debug)]
pub struct RecordLocations<'a> {
    /// Offset of each record in the input in bytes.
    pub starts: CudaView<'a, u64>,
    /// Length of each record in bytes; 0 if it does not lie within the input.
    pub lengths: CudaView<'a, u32>,
}

impl RecordLocations<'_> {
    /// Returns the bytes of arena memory that [`RecordParser::locate`] takes.
    pub fn workspace(count: usize) -> usize {
        Arena::bytes_for::<u64>(count) + Arena::bytes_for::<u32>(count)
    }
}

/// Parses records.
#[derive(Debug, Clone)]
pub struct RecordParser {
    kernels: ParseKernels,
}

impl RecordParser {
    /// Loads the kernels for elements of `element_bytes` bytes.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless `element_bytes` is 4 or 8; the errors of [`Device::kernel`].
    pub fn new(device: &Device, element_bytes: usize) -> Result<Self> {
        if !matches!(element_bytes, 4 | 8) {
            return Err(CudaError::invalid("quantized elements must have 4 or 8 bytes"));
        }
        ParseKernels::load(device, element_bytes as u32).map(|kernels| Self { kernels })
    }

    /// Writes the locations of the records to device memory, on the frame's stream.
    ///
    /// # Errors
    /// The errors of [`Self::parse`].
    pub fn locate<'a>(&self, frame: &mut Frame<'a>, records: Records<'_>) -> Result<RecordLocations<'a>> {
        let stream = frame.stream().clone();
        let (device_records, _) = device_records(&records, records.lengths.len(), &stream)?;
        let mut starts = frame.slice::<u64>(records.lengths.len())?;
        let mut lengths = frame.slice::<u32>(records.lengths.len())?;
        let count = records.lengths.len() as u32;
        let grid = Grid::new(count.div_ceil(LOCATE_THREADS), LOCATE_THREADS);
        // SAFETY: both slices have one entry per record.
        unsafe {
            launch!(self.kernels.container_parse_locate on &stream, grid; device_records, count, &mut starts,
                &mut lengths)
        }?;
        Ok(RecordLocations { starts: starts.into_view(), lengths: lengths.into_view() })
    }

    /// Parses the records of a batch on the frame's stream, without waiting for it. `classes` asks for the classes of
    /// groups, which decoders of whole streams need. `reused` is memory of `cleared_bytes` bytes that is 0 and that
    /// [`Self::finish`] clears again; without it, memory of the frame is cleared, which takes another call. `hashing`
    /// compares the records' hashes in the same kernel.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the number of records is not the number of the batch's chunks or exceeds
    /// [`MAX_CHUNKS`], or if records are misaligned; [`CudaError::OutOfMemory`]; [`CudaError::Driver`]. Damaged records
    /// are not an error here: see [`ParsedChunk::status`].
    #[expect(clippy::too_many_arguments, reason = "what is parsed, what it is, and where the results go")]
    pub fn parse<'a>(
        &self,
        frame: &mut Frame<'a>,
        records: Records<'_>,
        format: &Format,
        geometry: &DeviceGeometry,
        batch: &ChunkBatch,
        classes: bool,
        reused: Option<CudaViewMut<'a, u8>>,
        hashing: Option<Hashing<'_, '_>>,
    ) -> Result<ParsedRecords<'a>> {
        let stream = frame.stream().clone();
        let chunks = batch.chunks() as usize;
        let (device_records, record_bytes) = device_records(&records, chunks, &stream)?;
        let input_bytes = records.input.len() as u64;
        let bounds = [
            format.code_bounds(batch, record_bytes, input_bytes),
            format.bitmap_bounds(batch, record_bytes, input_bytes),
        ];
        let bitmap_count = bounds[1].streams as usize;
        let mut memory = ParseMemory::new(frame, format, geometry, batch, bitmap_count, classes, reused)?;
        let results = memory.argument(&stream, format);
        let hashing = hashing.map(|hashing| hashing.argument(frame, chunks)).transpose()?.unwrap_or_default();
        let roles = ROLES + if bitmap_count > 0 { BITMAP_ROLES } else { 0 } + hashing.parts;
        let grid = Grid::new(batch.chunks(), THREADS).rows(roles);
        // SAFETY: `ParseMemory::new` allocated the results for the batch's chunks and tiles from the frame, so that
        // they live as long as the returned value, and cleared those that `cleared_bytes` counts. Records are read only
        // within `input_bytes`. `Hashing::argument` allocated the sums of hashes and checked the sizes of progress and
        // results.
        unsafe {
            launch!(self.kernels.container_parse on &stream, grid; device_records, *geometry, *batch, results, hashing)
        }?;
        memory.into_parsed(frame, format, &bounds, classes)
    }

    /// Combines what parsing and the decoders found about each chunk into one word of `result` per chunk
    /// ([`chunk_status_text`]). For batches that [`Reconstructor`](crate::reconstruct::Reconstructor) does not finish.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless `result` has one word per chunk; [`CudaError::Driver`].
    pub fn finish(
        &self,
        stream: &Arc<CudaStream>,
        parsed: &mut ParsedRecords<'_>,
        result: &mut CudaViewMut<'_, u32>,
    ) -> Result<()> {
        let ending = parsed.batch_finish(stream, result)?;
        let chunks = parsed.tiles.chunks.as_view();
        let codes = parsed.code_status.as_view();
        let (grid, count) = (Grid::new(1, FINISH_THREADS), parsed.tiles.chunk_count);
        // SAFETY: there are a chunk, a status and a word of the result per chunk, and at most `FINISH_THREADS` chunks;
        // `bitmap_status` has `bitmaps` words per chunk. The memory to clear is a multiple of 4 bytes of `parsed`, or
        // none.
        unsafe { launch!(self.kernels.container_parse_finish on stream, grid; ending, count, &chunks, &codes) }
    }
}

/// Returns the kernel's argument for the records of a batch, and the bytes of all records.
fn device_records(records: &Records<'_>, chunks: usize, stream: &CudaStream) -> Result<(DeviceRecords, u64)> {
    if records.lengths.len() != chunks || chunks == 0 || chunks > MAX_CHUNKS {
        return Err(CudaError::invalid(format!("a batch needs one record per chunk, and at most {MAX_CHUNKS}")));
    }
    let input = records.input.device_ptr(stream).0;
    if !input.is_multiple_of(ALIGNMENT) || !records.first.is_multiple_of(ALIGNMENT) {
        return Err(CudaError::invalid("input and records must start on multiples of 16 bytes"));
    }
    let mut starts = [0; MAX_CHUNKS + 1];
    let mut units = 0_u64;
    for (start, &length) in starts[1..].iter_mut().zip(records.lengths) {
        if !u64::from(length).is_multiple_of(ALIGNMENT) {
            return Err(CudaError::invalid("record lengths must be multiples of 16 bytes"));
        }
        units += u64::from(length) / ALIGNMENT;
        *start = u32::try_from(units).map_err(|_| CudaError::invalid("the batch is too large: use smaller batches"))?;
    }
    let input_bytes = records.input.len() as u64;
    Ok((DeviceRecords { input, input_bytes, first: records.first, starts, unused: 0 }, units * ALIGNMENT))
}
