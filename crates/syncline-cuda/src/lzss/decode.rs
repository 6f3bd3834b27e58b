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
    /// The kernel of `kernels/lzss/decode.cu`, with a thread block for each data block.
    struct BlockKernels in "lzss/decode.cu", of (shape: &Shape) {
        with COMMON = constants(&shape.params, shape.threads);
        with MATCH_BYTES = shape.match_bytes;
        with BLOCKS = shape.blocks;
        fn lzss_decode(
            input: CUdeviceptr as "const uint8_t *", sections: In<DecodeSection>, section_count: u32,
            starts: In<u32> as "const Start *", out: CUdeviceptr as "uint8_t *", status: Out<u32>,
        );
    }
}

declare_kernels! {
    /// The kernels of `kernels/lzss/decode_warps.cu`, with a warp for each data block.
    struct WarpKernels in "lzss/decode_warps.cu", of (params: &Params) {
        with COMMON = constants(params, WARPS_THREADS);
        with BLOCKS = WARPS_BLOCKS;
        fn lzss_starts(
            input: CUdeviceptr as "const uint8_t *", sections: In<DecodeSection>, section_count: u32, all_blocks: u32,
            noted: CUdeviceptr as "const uint32_t *", starts: Out<u32> as "Start *", status: Out<u32>,
        );
        fn lzss_decode_warps(
            input: CUdeviceptr as "const uint8_t *", sections: In<DecodeSection>, section_count: u32, blocks: u32,
            starts: In<u32> as "const Start *", out: CUdeviceptr as "uint8_t *", status: Out<u32>,
        );
    }
}

/// 32-bit words of `Start` in lzss/decode.cuh.
const START_WORDS: usize = 5;
/// Bytes of `Match` in lzss/decode.cu: without and with a match's end and distance.
const MATCH_BYTES: [u32; 2] = [4, 8];
/// Unused symbols at the end of a row.
const ROW_PADDING: u32 = 8;
/// Maximum static shared memory of the kernel in bytes: bitmap, ranks, and sums of warps.
const DECLARED: u32 = 14 << 10;

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
pub struct DecodeSpan {
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
    least_min_match: u32,
    last_chunk: u32,
}

impl DecodeBatch {
    /// Uploads the list of chunks.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the list is empty, or a chunk is too large or misaligned;
    /// [`CudaError::Driver`].
    pub fn new(stream: &Arc<CudaStream>, width: SymbolWidth, level: u8, spans: &[DecodeSpan]) -> Result<Self> {
        Self::of_chunks(stream, width, level, spans, &[])
    }

    /// Uploads the list of chunks as [`Self::new`] does. `chunks` has the index of each chunk's status word.
    pub(crate) fn of_chunks(
        stream: &Arc<CudaStream>,
        width: SymbolWidth,
        level: u8,
        spans: &[DecodeSpan],
        numbers: &[u32],
    ) -> Result<Self> {
        let params = params(width, level)?;
        let mut counted = Counted::new(&params, spans.len())?;
        let (mut input_bytes, mut output_bytes) = (0, 0);
        let mut sections = Vec::with_capacity(spans.len());
        for (number, span) in spans.iter().enumerate() {
            check_chunk(span.bytes, span.min_match)?;
            let (first_block, own_blocks) = counted.add(span.bytes)?;
            let parts = [span.flags, span.lengths, span.distances, span.literals];
            let aligned = span.blocks.is_multiple_of(8)
                && parts.iter().all(|part| part.0.is_multiple_of(16))
                && span.output.is_multiple_of(16);
            let ends = parts.iter().map(|part| part.0.checked_add(part.1.into()));
            let end = ends
                .chain([span.blocks.checked_add(u64::from(own_blocks) * 8)])
                .try_fold(0, |most, end| Some(most.max(end?)));
            let (true, Some(end), Some(output_end)) = (aligned, end, span.output.checked_add(span.bytes)) else {
                return Err(CudaError::invalid("LZSS sections and outputs start on multiples of 16, blocks of 8"));
            };
            sections.push(DecodeSection {
                counts: span.blocks,
                flags: span.flags.0,
                lengths: span.lengths.0,
                distances: span.distances.0,
                literals: span.literals.0,
                out: span.output,
                bytes: span.bytes,
                flag_bytes: span.flags.1,
                length_bytes: span.lengths.1,
                distance_bytes: span.distances.1,
                literal_bytes: span.literals.1,
                first_block,
                min_match: span.min_match.into(),
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
            least_min_match: spans.iter().map(|span| span.min_match.into()).min().unwrap_or(1),
            last_chunk: numbers.iter().copied().max().unwrap_or(0),
        })
    }

    /// Returns the number of chunks in the batch.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }
}

/// Threads of a block of which each warp decodes a data block, and resident blocks per multiprocessor.
const WARPS_THREADS: u32 = 128;
const WARPS_BLOCKS: u64 = 10;

/// Returns the number of data blocks per multiprocessor from which on one warp per data block is faster than one thread
/// block (measured; long windows have larger data blocks).
fn many_blocks(params: &Params) -> u32 {
    match (params.width, params.level > 4) {
        (_, true) => 8,
        (SymbolWidth::One, false) => 9,
        (SymbolWidth::Two, false) => 14,
        (_, false) => 16,
    }
}

/// How a thread block decodes a data block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    params: Params,
    threads: u32,
    blocks: u32,
    match_bytes: u32,
}

impl Shape {
    /// Chooses the shape for a device with `shared_memory` bytes of shared memory per block, and matches no shorter
    /// than those that save bytes. Returns `None` if there is too little shared memory.
    fn new(params: &Params, shared_memory: u32) -> Option<Self> {
        let (threads, blocks) = match (params.width, params.level > 4) {
            (SymbolWidth::One, true) => (1024, 1),
            (_, true) => (512, 2),
            (SymbolWidth::One, false) => (512, 3),
            (_, false) => (256, 5),
        };
        let [short, whole] = MATCH_BYTES;
        // Matches of narrow symbols are long, so the same number of resident blocks has room for full entries of
        // matches.
        let is_narrow = params.width == SymbolWidth::One && params.level <= 4;
        let kinds = if is_narrow { &[whole, short][..] } else { &[short] };
        let shapes = kinds.iter().map(|&match_bytes| Self { params: *params, threads, blocks, match_bytes });
        shapes.into_iter().find(|shape| shape.work_bytes() + DECLARED <= shared_memory)
    }

    /// Returns the bytes of symbols, followed by sources or matches. Rows are a little longer than their symbols (`ROW`
    /// of lzss/decode.cu).
    fn work_bytes(&self) -> u32 {
        let symbols = self.params.block_symbols() as u32;
        let places = symbols + ROW_PADDING * 8;
        let sources = (places * 2).max(symbols / u32::from(self.params.min_match) * self.match_bytes);
        places * self.params.width.bytes() as u32 + sources.next_multiple_of(16)
    }
}

pub(super) fn specializations(params: &Params, shared_memory: u32) -> Vec<Specialization> {
    let few = Shape::new(params, shared_memory).map(|shape| BlockKernels::specialization(&shape));
    few.into_iter().chain([WarpKernels::specialization(params)]).collect()
}

/// Decodes tokens to bytes.
#[derive(Debug, Clone)]
pub struct Decoder {
    params: Params,
    /// The kernel with one thread block per data block, if there is enough shared memory.
    few: Option<(Shape, BlockKernels)>,
    /// The kernels with one warp per data block.
    many: WarpKernels,
    /// Number of data blocks from which on `many` is used.
    from: u32,
}

impl Decoder {
    /// Creates a decoder for symbols of `width` at a level from 1 to 9.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if there is no such level; errors of [`Device::kernel`].
    pub fn new(device: &Device, width: SymbolWidth, level: u8) -> Result<Self> {
        let params = params(width, level)?;
        let info = device.info();
        let few = |shape: Shape| -> Result<(Shape, BlockKernels)> {
            let kernels = BlockKernels::load(device, &shape)?;
            kernels.lzss_decode.allow_shared_memory(shape.work_bytes())?;
            Ok((shape, kernels))
        };
        Ok(Self {
            params,
            few: Shape::new(&params, info.shared_memory_per_block).map(few).transpose()?,
            many: WarpKernels::load(device, &params)?,
            from: many_blocks(&params) * info.multiprocessors,
        })
    }

    /// Sets the number of data blocks from which on each is decoded by one warp; below it, each is decoded by one
    /// thread block. The decoded bytes are the same.
    #[doc(hidden)]
    #[must_use]
    pub fn with_warps_from(self, blocks: u32) -> Self {
        Self { from: blocks, ..self }
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

    /// Decodes chunks whose spans have device addresses in place of offsets. The caller guarantees that the sections
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
            launch!(self.many.lzss_starts on &stream, Grid::new(chunks, WARPS_THREADS); input, &batch.sections, chunks,
                blocks, noted, &mut starts, &mut *status)
        }?;
        if blocks == 0 {
            return Ok(());
        }

        // A thread block has room for the matches of chunks whose minimum match saves bytes; other chunks are allowed.
        let is_usual = batch.least_min_match >= self.params.min_match.into();
        let few = self.few.as_ref().filter(|_| is_usual && blocks < self.from);
        let (sections, starts) = (&batch.sections, &starts);
        if let Some((shape, kernels)) = few {
            let grid = Grid::new(blocks, shape.threads).shared_memory(shape.work_bytes());
            // SAFETY: the first kernel has compared the counts with the lengths of the sections, which lie in the
            // input, and the blocks of chunks with an error are skipped. Outputs lie in the output buffer. A thread
            // block has room for the maximum number of matches.
            return unsafe {
                launch!(kernels.lzss_decode on &stream, grid; input, sections, chunks, starts, output, status)
            };
        }
        let grid = Grid::new(blocks.div_ceil(WARPS_THREADS / 32), WARPS_THREADS);
        // SAFETY: as above.
        unsafe {
            launch!(self.many.lzss_decode_warps on &stream, grid; input, sections, chunks, blocks, starts, output,
                status)
        }
    }
}
