//! Chunk records to what reconstruction wants, all on the device: launcher of `kernels/container/parse.cu`.

#![allow(unsafe_code)]

mod finish;
mod format;
mod hashing;
mod memory;
mod results;
mod status;

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr, DeviceRepr, PushKernelArg};
use syncline_core::huffman::MAX_CLASSES;

pub use format::Format;
pub(crate) use format::cleared_bytes;
use format::rank_stride;
pub use hashing::Hashing;
use memory::ParseMemory;
pub use results::{ParsedRecords, Tiles};
pub use status::chunk_status_text;
pub(crate) use status::{STATUS_HASH, STATUS_TOKENS};

use super::parsed::{MAX_CHUNKS, ParsedChunk};
use crate::device::{Arena, Device, Frame, Kernel, Source, Specialization, source};
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry};
use crate::huffman::decode::SINGLE_LONG_ENTRIES;
use crate::huffman::decode::parse::parse_constants;

const SOURCE: Source = source!("container/parse.cu");

/// Blocks that share a chunk's work: four for codebooks, then tiles, bases, ranks, and two for each list (`ROLE_MASKS`
/// of the kernel).
const ROLES: u32 = 11;
/// Two more for masks and signs, if there can be any.
const BITMAP_ROLES: u32 = 2;
/// log2 of the bytes in a group of bitmaps.
pub(crate) const BITMAP_GROUP_LOG2: u32 = 6;
/// Codebooks of a stream of codes at most.
const BOOKS: usize = MAX_CLASSES;
/// Threads of a block of `container_parse`: blocks are many, and mostly wait.
const THREADS: u32 = 256;
/// Threads of a block of `container_parse_locate`.
const PLACES_THREADS: u32 = 128;
/// Threads of `container_parse_finish`, which is a block: one for each chunk.
const FINISH_THREADS: u32 = MAX_CHUNKS as u32;
/// Records start on multiples of this.
const ALIGNMENT: u64 = 16;

fn specialization(element_bytes: usize) -> Specialization {
    // Widths of symbols and groups are arguments here; the constants are those of codes.
    let mut constants = parse_constants(2, 7, THREADS);
    let table_constants =
        [("OWN_LONG", SINGLE_LONG_ENTRIES[0].into()), ("OWN_LONG_MANY", SINGLE_LONG_ENTRIES[1].into())];
    constants.extend([("ELEMENT_BYTES", element_bytes as u64), ("ROLES", ROLES.into())]);
    constants.extend(table_constants);
    Specialization { source: SOURCE, constants }
}

/// What the compile check compiles.
pub(super) fn specializations() -> Vec<Specialization> {
    vec![specialization(4), specialization(8)]
}

/// The records of consecutive chunks, one after another in a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Records<'r> {
    /// The buffer; starts on a multiple of 16 bytes.
    pub input: &'r CudaView<'r, u8>,
    /// Where the first record starts in it, a multiple of 16.
    pub first: u64,
    /// Bytes of each record, multiples of 16.
    pub lengths: &'r [u32],
}

/// `Records` of the kernel.
#[derive(Clone, Copy)]
#[repr(C)]
struct DeviceRecords {
    input: CUdeviceptr,
    input_bytes: u64,
    first: u64,
    starts: [u32; MAX_CHUNKS + 1],
    unused: u32,
}

// SAFETY: plain numbers, laid out as the kernel's struct, which ends with as much padding as `unused` has.
unsafe impl DeviceRepr for DeviceRecords {}

/// Where records are, in device memory: for [`Hasher`](super::hash::Hasher).
#[derive(Debug)]
pub struct RecordLocations<'a> {
    /// Where each starts in the input.
    pub starts: CudaView<'a, u64>,
    /// Bytes of each, 0 of one that is not wholly there.
    pub lengths: CudaView<'a, u32>,
}

impl RecordLocations<'_> {
    /// Bytes of an arena that [`RecordParser::places`] takes.
    pub fn workspace(count: usize) -> usize {
        Arena::bytes_for::<u64>(count) + Arena::bytes_for::<u32>(count)
    }
}

/// Parses records.
#[derive(Debug, Clone)]
pub struct RecordParser {
    places: Kernel,
    parse: Kernel,
    finish: Kernel,
}

impl RecordParser {
    /// For chunks of elements of `element_bytes` bytes.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless these are 4 or 8; those of [`Device::kernel`].
    pub fn new(device: &Device, element_bytes: usize) -> Result<Self> {
        if !matches!(element_bytes, 4 | 8) {
            return Err(CudaError::invalid("quantized elements have 4 or 8 bytes"));
        }
        let specialization = specialization(element_bytes);
        Ok(Self {
            places: device.kernel(&specialization, "container_parse_locate")?,
            parse: device.kernel(&specialization, "container_parse")?,
            finish: device.kernel(&specialization, "container_parse_finish")?,
        })
    }

    /// Writes where the records are to device memory, on the frame's stream.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn places<'a>(&self, frame: &mut Frame<'a>, records: Records<'_>) -> Result<RecordLocations<'a>> {
        let stream = frame.stream().clone();
        let (device_records, _) = device_records(&records, records.lengths.len(), &stream)?;
        let mut starts = frame.slice::<u64>(records.lengths.len())?;
        let mut lengths = frame.slice::<u32>(records.lengths.len())?;
        let count = records.lengths.len() as u32;
        let mut launch = stream.launch_builder(self.places.function());
        launch.arg(&device_records).arg(&count).arg(&mut starts).arg(&mut lengths);
        let grid = Kernel::grid(count.div_ceil(PLACES_THREADS), PLACES_THREADS, 0);
        // SAFETY: parameters (Records, u32, u64 *, u32 *): a start and a length for each record.
        unsafe { launch.launch(grid) }.doing("placing records")?;
        Ok(RecordLocations { starts: starts.into_view(), lengths: lengths.into_view() })
    }

    /// Parses the records of a batch on the frame's stream, without waiting for it; `classes`: classes of groups are
    /// wanted, for decoders of whole streams. `reused`: memory of `cleared_bytes` that is 0 and that [`Self::finish`]
    /// clears again; without it some of the frame's is cleared, which takes a call more. `hashing`: records' hashes are
    /// compared on the way.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] for records that are not as many as the batch's chunks, or misaligned, or more
    /// than [`MAX_CHUNKS`]; [`CudaError::OutOfMemory`]; [`CudaError::Driver`]. Damaged records are no error here: see
    /// [`ParsedChunk::status`].
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
        let results = memory.on_device(&stream, format);
        let hashing = hashing.map(|hashing| hashing.on_device(frame, chunks)).transpose()?.unwrap_or_default();
        let mut launch = stream.launch_builder(self.parse.function());
        launch.arg(&device_records).arg(geometry).arg(batch).arg(&results).arg(&hashing);
        let mut grid = Kernel::grid(batch.chunks(), THREADS, 0);
        grid.grid_dim.1 = ROLES + if bitmap_count > 0 { BITMAP_ROLES } else { 0 } + hashing.parts;
        // SAFETY: parameters (Records, Geometry, ChunkBatch, Results, Hashing) by value, laid out alike. The results
        // have as many entries as the kernel's comments say for the batch's chunks and tiles: slices of the frame that
        // live as long as what is returned, those that `cleared_bytes` counts cleared. Records are read within
        // `input_bytes`. `Hashing::on_device` vouches for what hashes need.
        unsafe { launch.launch(grid) }.doing("parsing records")?;
        memory.into_parsed(frame, format, &bounds, classes)
    }

    /// Brings together what is known of each chunk into one word ([`chunk_status_text`]), a word of `result` each: what
    /// parsing found and what the decoders found. For batches that [`Reconstructor`](crate::reconstruct::Reconstructor)
    /// does not end.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if `result` has not as many words as the batch has chunks; [`CudaError::Driver`].
    pub fn finish(
        &self,
        stream: &Arc<CudaStream>,
        parsed: &mut ParsedRecords<'_>,
        result: &mut CudaViewMut<'_, u32>,
    ) -> Result<()> {
        let ending = parsed.batch_finish(stream, result)?;
        let chunks = parsed.tiles.chunks.as_view();
        let codes = parsed.code_status.as_view();
        let mut launch = stream.launch_builder(self.finish.function());
        launch.arg(&ending).arg(&parsed.tiles.chunk_count).arg(&chunks).arg(&codes);
        // SAFETY: parameters (BatchFinish, u32, const ParsedChunk *, const u32 *): a chunk, a status and a word of the
        // result for each chunk, of which a batch has no more than there are threads, and `bitmaps` words of bitmaps.
        // What is cleared is memory of `parsed`, of a multiple of 4 bytes, or none.
        unsafe { launch.launch(Kernel::grid(1, FINISH_THREADS, 0)) }.doing("bringing statuses together").map(drop)
    }
}

/// Where the records of a batch start, for the kernel, and the bytes of all.
fn device_records(records: &Records<'_>, chunks: usize, stream: &CudaStream) -> Result<(DeviceRecords, u64)> {
    if records.lengths.len() != chunks || chunks == 0 || chunks > MAX_CHUNKS {
        return Err(CudaError::invalid(format!("a batch has a record for each chunk, and at most {MAX_CHUNKS}")));
    }
    let input = records.input.device_ptr(stream).0;
    if !input.is_multiple_of(ALIGNMENT) || !records.first.is_multiple_of(ALIGNMENT) {
        return Err(CudaError::invalid("input and records start on multiples of 16 bytes"));
    }
    let mut starts = [0; MAX_CHUNKS + 1];
    let mut units = 0_u64;
    for (start, &length) in starts[1..].iter_mut().zip(records.lengths) {
        if !u64::from(length).is_multiple_of(ALIGNMENT) {
            return Err(CudaError::invalid("records have multiples of 16 bytes"));
        }
        units += u64::from(length) / ALIGNMENT;
        *start = u32::try_from(units).map_err(|_| CudaError::invalid("the batch is too large: make several"))?;
    }
    let input_bytes = records.input.len() as u64;
    Ok((DeviceRecords { input, input_bytes, first: records.first, starts, unused: 0 }, units * ALIGNMENT))
}
