//! Parses chunk records on the device for decoding: launcher of `kernels/container/parse.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

mod hashing;
mod status;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr};
use syncline_core::container::Header;

pub use hashing::Hashing;
pub(crate) use status::PROBLEM_HASH;
pub use status::problem_text;

use super::parsed::{PROBLEM_WORDS, Parsed};
use super::structs::{DeviceHashing, DeviceRecords, MAX_CHUNKS, ParsedArgument};
use crate::device::{Arena, Device, Frame, Grid};
use crate::device_kernels::{Out, declare_kernels, launch};
use crate::error::{CudaError, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry};
use crate::huffman::decode::parse::parse_constants;

declare_kernels! {
    /// The kernels of `kernels/container/parse.cu`.
    pub(super) struct ParseKernels in "container/parse.cu", by (element_bytes: u32) {
        // Those of the runs of code lengths, which have the form of Huffman streams.
        with CODES = parse_constants(2, 7, THREADS);
        with ROLES = ROLES;
        fn container_parse_locate(records: DeviceRecords, count: u32, starts: Out<u64>, lengths: Out<u32>);
        fn container_parse(
            records: DeviceRecords, geometry: DeviceGeometry, batch: ChunkBatch, parsed: ParsedArgument,
            hashing: DeviceHashing,
        );
    }
}

/// Blocks that share the work of a chunk: one each for its record, tiles, bases, and index, two for verbatim values,
/// and one for each codebook (`ROLE_CODEBOOKS` of the kernel).
const ROLES: u32 = 11;
/// Threads of a block of `container_parse`. There are many blocks, which mostly wait for memory.
const THREADS: u32 = 256;
/// Threads of a block of `container_parse_locate`.
const LOCATE_THREADS: u32 = 128;
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
    /// [`CudaError::InvalidArgument`] unless `element_bytes` is 1, 2, 4, or 8; the errors of [`Device::kernel`].
    pub fn new(device: &Device, element_bytes: usize) -> Result<Self> {
        if !matches!(element_bytes, 1 | 2 | 4 | 8) {
            return Err(CudaError::invalid("quantized elements must have 1, 2, 4, or 8 bytes"));
        }
        ParseKernels::load(device, element_bytes as u32).map(|kernels| Self { kernels })
    }

    /// Writes the locations of the records to device memory, on the frame's stream.
    ///
    /// # Errors
    /// The errors of [`Self::parse`].
    pub fn locate<'a>(&self, frame: &mut Frame<'a>, records: Records<'_>) -> Result<RecordLocations<'a>> {
        let stream = frame.stream().clone();
        let device_records = device_records(&records, records.lengths.len(), &stream)?;
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

    /// Parses the records of a batch of the stream with this header on the frame's stream, without waiting for it.
    /// `problems` has [`PROBLEM_WORDS`] words for each chunk, all of which are written. `hashing` compares the records'
    /// hashes in the same kernel.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the number of records is not the number of the batch's chunks or exceeds
    /// [`MAX_CHUNKS`], or if records are misaligned; [`CudaError::OutOfMemory`]; [`CudaError::Driver`]. Damaged records
    /// are not an error here: see [`problem_text`].
    #[expect(clippy::too_many_arguments, reason = "what is parsed, what it is, and where the results go")]
    pub fn parse<'a>(
        &self,
        frame: &mut Frame<'a>,
        records: Records<'_>,
        header: &Header,
        geometry: &DeviceGeometry,
        batch: &ChunkBatch,
        problems: CudaViewMut<'a, u32>,
        hashing: Option<Hashing<'_, '_>>,
    ) -> Result<Parsed<'a>> {
        let stream = frame.stream().clone();
        let chunks = batch.chunks() as usize;
        let device_records = device_records(&records, chunks, &stream)?;
        if problems.len() != chunks * PROBLEM_WORDS {
            return Err(CudaError::invalid("every chunk needs words for its problems"));
        }
        let mut parsed = Parsed::new(frame, header, geometry, batch, problems)?;
        let argument = parsed.argument(&stream);
        let hashing = hashing.map(|hashing| hashing.argument(frame, chunks)).transpose()?.unwrap_or_default();
        let grid = Grid::new(batch.chunks(), THREADS).rows(ROLES + hashing.parts);
        // SAFETY: `Parsed::new` allocated the results for the batch's chunks and tiles from the frame, so that they
        // live as long as the returned value. Records are read only within the input. `Hashing::argument` allocated the
        // sums of hashes and checked the sizes of progress and results.
        unsafe {
            launch!(self.kernels.container_parse on &stream, grid; device_records, *geometry, *batch, argument, hashing)
        }?;
        Ok(parsed)
    }
}

/// Returns the kernel's argument for the records of a batch.
pub(crate) fn device_records(records: &Records<'_>, chunks: usize, stream: &CudaStream) -> Result<DeviceRecords> {
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
    Ok(DeviceRecords { input, input_bytes, first: records.first, starts, unused: 0 })
}
