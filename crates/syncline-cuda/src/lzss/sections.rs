//! The chunks of a batch, and the sections that they are encoded to.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use syncline_core::container::{ALIGNMENT, RECORD_HEADER_LEN, SECTIONS};
use syncline_core::lzss::{Params, SymbolWidth};

use super::structs::{EncodeSection, SectionPlan};
use super::{Counted, check_chunk, params};
use crate::device::fetch;
use crate::error::{CudaError, DriverContext, Result};

/// The bytes of one chunk of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkRange {
    /// Offset in the input in bytes, a multiple of 16.
    pub offset: u64,
    /// Number of bytes, at most 2^25.
    pub bytes: u64,
    /// Minimum number of symbols in a match; [`Params::new`] gives the smallest allowed value. [`NO_MATCHES`] is
    /// allowed if planes are written and no section stores this value.
    pub min_match: u8,
    /// Number of the chunk in the array, for its record.
    pub chunk: u64,
}

/// Value of [`ChunkRange::min_match`] with which all symbols are literals.
pub const NO_MATCHES: u8 = 0;
/// A match length that exceeds the number of symbols of any data block.
const ENDLESS: u32 = 1 << 17;

/// The form in which chunks are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Sections 2 to 6.
    Sections,
    /// Whole records of elements: header with hash, table, sections, of which 0 and 1 are empty.
    Records,
}

impl Form {
    /// Returns the bytes before section 2.
    pub(super) fn prefix(self) -> u32 {
        let record = RECORD_HEADER_LEN + SECTIONS * size_of::<u32>();
        if self == Self::Records { record.next_multiple_of(ALIGNMENT) as u32 } else { 0 }
    }
}

/// Chunks that one call encodes.
#[derive(Debug)]
pub struct Batch {
    pub(super) sections: CudaSlice<EncodeSection>,
    pub(super) params: Params,
    pub(super) chunks: u32,
    pub(super) blocks: u32,
    /// The first data block of each chunk, and its number of data blocks.
    own_blocks: Vec<(u32, u32)>,
    pub(super) form: Form,
    /// Maximum bytes of a chunk's sections or record.
    pub(super) longest: u32,
    /// Minimum bytes of the input.
    pub(super) input_bytes: u64,
    max_bytes: u64,
}

/// Bytes before the data blocks in section 2.
const PARAMETER_BYTES: u64 = 8;

impl Batch {
    /// Uploads the list of chunks, for symbols of one width and one level.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the list is empty, if a chunk is too large or misaligned, or if its minimum
    /// match would take more bytes than its symbols; [`CudaError::Driver`].
    pub fn new(
        stream: &Arc<CudaStream>,
        width: SymbolWidth,
        level: u8,
        form: Form,
        ranges: &[ChunkRange],
    ) -> Result<Self> {
        let params = params(width, level)?;
        let mut counted = Counted::new(&params, ranges.len())?;
        let (mut input_bytes, mut max_bytes, mut longest) = (0, 0, 0);
        let mut sections = Vec::with_capacity(ranges.len());
        let mut own_blocks = Vec::with_capacity(ranges.len());
        for range in ranges {
            let has_matches = range.min_match != NO_MATCHES;
            check_chunk(range.bytes, if has_matches { range.min_match } else { params.min_match })?;
            let end = range.offset.checked_add(range.bytes).filter(|_| range.offset.is_multiple_of(16));
            let end = end.ok_or_else(|| CudaError::invalid("a chunk's bytes start on a multiple of 16"))?;
            if has_matches && range.min_match < params.min_match {
                return Err(CudaError::invalid(format!(
                    "a match of {} symbols would take more bytes than they do: {} at least",
                    range.min_match, params.min_match
                )));
            }
            let (first_block, in_chunk) = counted.add(range.bytes)?;
            own_blocks.push((first_block, in_chunk));
            sections.push(EncodeSection {
                offset: range.offset,
                bytes: range.bytes,
                chunk: range.chunk,
                first_block,
                min_match: if has_matches { range.min_match.into() } else { ENDLESS },
            });
            input_bytes = end.max(input_bytes);
            let most = u64::from(form.prefix()) + max_section_bytes(&params, range.bytes);
            (max_bytes, longest) = (max_bytes + most, most.max(longest));
        }
        Ok(Self {
            sections: stream.clone_htod(&sections).doing("uploading the list of chunks")?,
            params,
            chunks: counted.chunks,
            blocks: counted.blocks,
            own_blocks,
            form,
            // Does not overflow, because a chunk has at most 2^25 bytes.
            longest: longest as u32,
            input_bytes,
            max_bytes,
        })
    }

    /// Returns the number of chunks in the batch.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Returns the number of a chunk's first data block among those of the batch, and its number of data blocks.
    pub(crate) fn blocks_of(&self, chunk: usize) -> (u32, u32) {
        self.own_blocks[chunk]
    }

    /// Returns the maximum bytes of all sections or records together.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }
}

/// Returns the bytes of sections 2 to 6, each rounded up to a multiple of 16, for `bytes` bytes without matches.
/// Matches only reduce this.
fn max_section_bytes(params: &Params, bytes: u64) -> u64 {
    let symbols = bytes.div_ceil(params.width.bytes() as u64);
    let blocks = bytes.div_ceil(params.block_bytes() as u64);
    let flags = (symbols.div_ceil(64) + blocks) * 8;
    PARAMETER_BYTES + blocks * 8 + flags + symbols * params.width.bytes() as u64 + 5 * 16
}

/// The sections or records of a batch in device memory.
#[derive(Debug)]
pub struct Encoded {
    pub(super) bytes: CudaSlice<u8>,
    pub(super) places: CudaSlice<u64>,
    pub(super) lengths: CudaSlice<u32>,
    pub(super) plans: CudaSlice<SectionPlan>,
}

impl Encoded {
    /// Allocates room for the sections of `batch`, `bytes` bytes in all. [`Batch::max_bytes`] is enough for any input.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn new(stream: &Arc<CudaStream>, batch: &Batch, bytes: u64) -> Result<Self> {
        let allocate = || {
            Ok(Self {
                bytes: stream.alloc_zeros(usize::try_from(bytes).unwrap_or(usize::MAX).max(16))?,
                places: stream.alloc_zeros(batch.chunks as usize + 1)?,
                lengths: stream.alloc_zeros(batch.chunks as usize)?,
                plans: stream.alloc_zeros(batch.chunks as usize)?,
            })
        };
        allocate().allocating(bytes)
    }

    /// Returns the sections or records of all chunks, one after another. Each section starts on a multiple of 16, with
    /// zeros before it.
    pub fn bytes(&self) -> &CudaSlice<u8> {
        &self.bytes
    }

    /// Returns the sections or records for writing, so that tests can fill them before a launch.
    pub fn bytes_mut(&mut self) -> &mut CudaSlice<u8> {
        &mut self.bytes
    }

    /// Returns the offset of each chunk's sections or record in bytes, and the end of the last.
    pub fn places(&self) -> &CudaSlice<u64> {
        &self.places
    }

    /// Returns the bytes of each chunk's sections or record.
    pub fn lengths(&self) -> &CudaSlice<u32> {
        &self.lengths
    }

    /// Returns the plan of each chunk, in device memory.
    pub fn plans(&self) -> &CudaSlice<SectionPlan> {
        &self.plans
    }

    /// Copies the plans to the host. Waits for the stream.
    ///
    /// # Errors
    /// [`CudaError::Driver`]; [`CudaError::InvalidArgument`] if the sections of a chunk did not fit.
    pub fn read_plans(&self, stream: &Arc<CudaStream>) -> Result<Vec<SectionPlan>> {
        let plans = fetch(stream, &self.plans, "reading the plans")?;
        match plans.iter().position(|plan| plan.status != 0) {
            None => Ok(plans),
            Some(bad) => {
                Err(CudaError::invalid(format!("the sections of chunk {bad} do not fit into the bytes given")))
            }
        }
    }
}
