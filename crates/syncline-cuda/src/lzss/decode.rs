//! Launches the LZSS decoder.

#![allow(unsafe_code)]

use crate::device::Specialization;
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr};
use syncline_core::lzss::{Params, SymbolWidth};

use super::structs::DecodeSection;
use super::{Counted, check_chunk, constants, params};
use crate::device::{Device, Frame, Grid};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, DriverContext, Result};

declare_kernels! {
    /// The kernels of `kernels/lzss/decode.cu`, with a warp for each data block.
    struct Kernels in "lzss/decode.cu", of (params: &Params) {
        with COMMON = constants(params, THREADS);
        with BLOCKS = BLOCKS;
        fn lzss_starts(
            input: CUdeviceptr as "const uint8_t *", sections: In<DecodeSection>, section_count: u32, all_blocks: u32,
            noted: CUdeviceptr as "const uint32_t *", starts: Out<u32> as "Start *", status: Out<u32>,
        );
        fn lzss_decode(
            input: CUdeviceptr as "const uint8_t *", sections: In<DecodeSection>, section_count: u32, blocks: u32,
            starts: In<u32> as "const Start *", out: CUdeviceptr as "uint8_t *", status: Out<u32>,
        );
    }
}

/// 32-bit words of `Start` in lzss/decode.cuh.
const START_WORDS: usize = 5;

/// Describes the error of a status word; `None` if it is 0 and the chunk's bytes are correct.
pub fn status_text(status: u32) -> Option<&'static str> {
    match status {
        0 => None,
        s if s & 1 != 0 => Some("the LZSS token counts do not fit the sections"),
        s if s & 2 != 0 => Some("the LZSS flags and token counts disagree"),
        _ => Some("an LZSS match reaches out of its block, or the tokens end elsewhere than it"),
    }
}

/// The locations of a chunk's sections in the input and of its bytes in the output. Offsets are in bytes and multiples
/// of 16, except `blocks`, a multiple of 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkSections {
    /// Offset of the numbers of tokens and matches of each block: section 2 after its 8 bytes of parameters.
    pub blocks: u64,
    /// Offset and bytes of section 3, the flags.
    pub flags: (u64, u32),
    /// Offset and bytes of section 4.
    pub lengths: (u64, u32),
    /// Offset and bytes of section 5.
    pub distances: (u64, u32),
    /// Offset and bytes of section 6.
    pub literals: (u64, u32),
    /// Offset of the chunk's bytes in the output.
    pub output: u64,
    /// Number of the chunk's bytes, at most 2^25.
    pub bytes: u64,
    /// Minimum number of symbols in a match, 1 to 16.
    pub min_match: u8,
}

/// Chunks that one launch decodes, all of one symbol width and level.
#[derive(Debug)]
pub struct DecodeBatch {
    sections: CudaSlice<DecodeSection>,
    params: Params,
    chunks: u32,
    blocks: u32,
    input_bytes: u64,
    output_bytes: u64,
    last_chunk: u32,
}

impl DecodeBatch {
    /// Uploads the list of chunks.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the list is empty, or a chunk is too large or misaligned;
    /// [`CudaError::Driver`].
    pub fn new(stream: &Arc<CudaStream>, width: SymbolWidth, level: u8, chunks: &[ChunkSections]) -> Result<Self> {
        Self::of_chunks(stream, width, level, chunks, &[])
    }

    /// Uploads the list of chunks as [`Self::new`] does. `numbers` has the index of each chunk's status word.
    pub(crate) fn of_chunks(
        stream: &Arc<CudaStream>,
        width: SymbolWidth,
        level: u8,
        chunks: &[ChunkSections],
        numbers: &[u32],
    ) -> Result<Self> {
        let params = params(width, level)?;
        let mut counted = Counted::new(&params, chunks.len())?;
        let (mut input_bytes, mut output_bytes) = (0, 0);
        let mut sections = Vec::with_capacity(chunks.len());
        for (number, chunk) in chunks.iter().enumerate() {
            check_chunk(chunk.bytes, chunk.min_match)?;
            let (first_block, own_blocks) = counted.add(chunk.bytes)?;
            let parts = [chunk.flags, chunk.lengths, chunk.distances, chunk.literals];
            let aligned = chunk.blocks.is_multiple_of(8)
                && parts.iter().all(|part| part.0.is_multiple_of(16))
                && chunk.output.is_multiple_of(16);
            let ends = parts.iter().map(|part| part.0.checked_add(part.1.into()));
            let end = ends
                .chain([chunk.blocks.checked_add(u64::from(own_blocks) * 8)])
                .try_fold(0, |most, end| Some(most.max(end?)));
            let (true, Some(end), Some(output_end)) = (aligned, end, chunk.output.checked_add(chunk.bytes)) else {
                return Err(CudaError::invalid("LZSS sections and outputs start on multiples of 16, blocks of 8"));
            };
            sections.push(DecodeSection {
                counts: chunk.blocks,
                flags: chunk.flags.0,
                lengths: chunk.lengths.0,
                distances: chunk.distances.0,
                literals: chunk.literals.0,
                out: chunk.output,
                bytes: chunk.bytes,
                flag_bytes: chunk.flags.1,
                length_bytes: chunk.lengths.1,
                distance_bytes: chunk.distances.1,
                literal_bytes: chunk.literals.1,
                first_block,
                min_match: chunk.min_match.into(),
                chunk: numbers.get(number).copied().unwrap_or(0),
                unused: 0,
            });
            input_bytes = end.max(input_bytes);
            output_bytes = output_end.max(output_bytes);
        }
        Ok(Self {
            sections: stream.clone_htod(&sections).doing("uploading the list of chunks")?,
            params,
            chunks: counted.chunks,
            blocks: counted.blocks,
            input_bytes,
            output_bytes,
            last_chunk: numbers.iter().copied().max().unwrap_or(0),
        })
    }

    /// Returns the number of chunks in the batch.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }
}

/// Threads of a block of which each warp decodes a data block, and resident blocks per multiprocessor.
const THREADS: u32 = 128;
const BLOCKS: u64 = 10;

pub(super) fn specialization(params: &Params) -> Specialization {
    Kernels::specialization(params)
}

/// Decodes tokens to bytes.
#[derive(Debug, Clone)]
pub struct Decoder {
    params: Params,
    kernels: Kernels,
}

impl Decoder {
    /// Creates a decoder for symbols of `width` at a level from 1 to 9.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if there is no such level; errors of [`Device::kernel`].
    pub fn new(device: &Device, width: SymbolWidth, level: u8) -> Result<Self> {
        let params = params(width, level)?;
        Ok(Self { params, kernels: Kernels::load(device, &params)? })
    }

    /// Decodes every chunk of `batch` from `input` to `output`, all on the frame's stream. `status` receives a word for
    /// each chunk: 0, or an error ([`status_text`]), in which case the chunk's output is unspecified.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if lengths, alignment or parameters do not match;
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn launch(
        &self,
        frame: &mut Frame<'_>,
        input: &CudaView<'_, u8>,
        batch: &DecodeBatch,
        output: &mut CudaViewMut<'_, u8>,
        status: &mut CudaViewMut<'_, u32>,
    ) -> Result<()> {
        let stream = frame.stream().clone();
        let pointers = [input.device_ptr(&stream).0, output.as_view().device_ptr(&stream).0];
        let misaligned = pointers.iter().any(|pointer| pointer % 16 != 0);
        let problems = [
            (batch.params != self.params, "the batch has another width or level than the decoder"),
            ((input.len() as u64) < batch.input_bytes, "the sections go past the end of the input"),
            ((output.len() as u64) < batch.output_bytes, "the chunks go past the end of the output"),
            (misaligned, "input and output start on multiples of 16 bytes"),
            (status.len() != batch.chunks as usize, "there is one word of status for each chunk"),
        ];
        if let Some(&(_, problem)) = problems.iter().find(|problem| problem.0) {
            return Err(CudaError::invalid(problem));
        }
        self.decode(frame, pointers, batch, None, status)
    }

    /// Decodes chunks whose sections have device addresses in place of offsets. The caller guarantees that the sections
    /// have the given lengths and that there is room for the output. Chunks whose word of `noted` is not 0 are skipped,
    /// with a status that is not 0.
    pub(crate) fn launch_at_addresses(
        &self,
        frame: &mut Frame<'_>,
        batch: &DecodeBatch,
        noted: &CudaView<'_, u32>,
        status: &mut CudaViewMut<'_, u32>,
    ) -> Result<()> {
        let is_noted = (batch.last_chunk as usize) < noted.len();
        if batch.params != self.params || status.len() != batch.chunks as usize || !is_noted {
            return Err(CudaError::invalid("the batch has another width, level or number of chunks"));
        }
        self.decode(frame, [0, 0], batch, Some(noted), status)
    }

    /// Decodes chunks. `pointers` are the addresses of input and output that the offsets refer to.
    fn decode(
        &self,
        frame: &mut Frame<'_>,
        [input, output]: [CUdeviceptr; 2],
        batch: &DecodeBatch,
        noted: Option<&CudaView<'_, u32>>,
        status: &mut CudaViewMut<'_, u32>,
    ) -> Result<()> {
        let stream = frame.stream().clone();
        let (chunks, blocks) = (batch.chunks, batch.blocks);
        let noted: CUdeviceptr = noted.map_or(0, |noted| noted.device_ptr(&stream).0);
        let mut starts = frame.slice::<u32>(blocks as usize * START_WORDS)?;
        // SAFETY: the indices of status words are below the length of `noted`, if that is given. The counts of all
        // blocks lie in the input, as checked above; there is a start for each block, and a status for each chunk.
        unsafe {
            launch!(self.kernels.lzss_starts on &stream, Grid::new(chunks, THREADS); input, &batch.sections, chunks,
                blocks, noted, &mut starts, &mut *status)
        }?;
        if blocks == 0 {
            return Ok(());
        }

        let (sections, starts) = (&batch.sections, &starts);
        let grid = Grid::new(blocks.div_ceil(THREADS / 32), THREADS);
        // SAFETY: the first kernel has compared the counts with the lengths of the sections, which lie in the input,
        // and the blocks of chunks with an error are skipped. Outputs lie in the output buffer.
        unsafe {
            launch!(self.kernels.lzss_decode on &stream, grid; input, sections, chunks, blocks, starts, output, status)
        }
    }
}
