//! Launches the LZSS encoder.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr};
use syncline_core::lzss::{Params, SymbolWidth};

use super::sections::{Batch, Encoded, Form};
use super::structs::{EncodeSection, PlaneStarts, SectionPlan, WORD_PLANES};
use super::{constants, match_constants, params};
use crate::container::hash::{ExcludedRange, Hasher, Pieces};
use crate::device::{Device, Frame, Grid, Source, Specialization, source};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, Result};

declare_kernels! {
    /// The kernel of `kernels/lzss/encode.cu`.
    struct TokenKernels in "lzss/encode.cu", of (shape: &Shape) {
        with COMMON = constants(&shape.params, shape.threads);
        with MATCHES = match_constants(&shape.params);
        with IN_SHARED = shape.in_shared;
        with WORK_BYTES_IN_RUST = shape.work_bytes();
        with SLOT_BYTES_IN_RUST = shape.slot_bytes();
        with HASH_BITS = shape.hash_bits;
        with LINK_WARPS = shape.link_warps;
        with BLOCKS = shape.blocks;
        fn lzss_tokens(
            input: CUdeviceptr as "const uint8_t *", sections: In<EncodeSection>, section_count: u32, blocks: u32,
            slots: Out<u8>, counts: Out<u64> as "Counts *", scratch: Out<u8>,
        );
    }
}

declare_kernels! {
    /// The kernels of `kernels/lzss/sections.cu`.
    struct SectionKernels in "lzss/sections.cu", of (shape: &Shape) {
        with COMMON = constants(&shape.params, SECTION_THREADS);
        with LEVEL = shape.params.level;
        with SLOT_BYTES_IN_RUST = shape.slot_bytes();
        fn lzss_layout(
            sections: In<EncodeSection>, section_count: u32, all_blocks: u32, prefix: u32,
            counts: In<u64> as "const Counts *", starts: Out<u32> as "Start *", plans: Out<SectionPlan>,
        );
        fn lzss_places(section_count: u32, room: u64, plans: Out<SectionPlan>, places: Out<u64>, lengths: Out<u32>);
        fn lzss_write(
            sections: In<EncodeSection>, section_count: u32, counts: In<u64> as "const Counts *",
            starts: In<u32> as "const Start *", plans: In<SectionPlan>, places: In<u64>, prefix: u32, slots: In<u8>,
            out: Out<u8>,
        );
        fn lzss_planes(
            sections: In<EncodeSection>, section_count: u32, counts: In<u64> as "const Counts *",
            starts: In<u32> as "const Start *", plans: In<SectionPlan>, planes: In<PlaneStarts>, slots: In<u8>,
            bytes: Out<u8>, words: Out<u16>, greatest: Out<u32>,
        );
        fn lzss_edges(
            sections: In<EncodeSection>, section_count: u32, plans: In<SectionPlan>, places: In<u64>, prefix: u32,
            out: Out<u8>,
        );
    }
}

/// Threads of a block of the kernels that lay out and move tokens.
const SECTION_THREADS: u32 = 256;
/// Bytes after a data block that may be read (`PADDING` of lzss/encode.cuh).
const PADDING: u32 = 32;
/// Bytes of the information on 32 positions (`INFO_BYTES` of lzss/encode.cuh).
const CHUNK_INFO: u32 = 17;
/// log2 of the entries in the hash table of a warp that links the positions of a whole data block.
const LONG_HASH_BITS: u32 = 12;
/// 32-bit words of `Start` in lzss/sections.cu.
const START_WORDS: usize = 3;

/// A kernel that finds tokens. It takes the parameters of `lzss_tokens` in `lzss/encode.cu` and is compiled with the
/// same constants, so that another kernel with the same rule for the best match can replace that one.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenSearch {
    pub source: Source,
    pub kernel: &'static str,
}

impl TokenSearch {
    /// Follows links between positions that start with equal symbols; tokens are selected in parallel.
    const LINKED: Self = Self { source: source!("lzss/encode.cu"), kernel: "lzss_tokens" };

    /// Returns the specialization for one width and level, for the check that all of them compile.
    pub fn specialization(&self, params: &Params, shared_memory: u32) -> Specialization {
        self.specialization_of(&Shape::new(params, shared_memory))
    }

    fn specialization_of(&self, shape: &Shape) -> Specialization {
        TokenKernels::specialization(shape).with_kernel(self.source, Self::LINKED.kernel, self.kernel)
    }
}

/// Constants that affect speed but not the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    params: Params,
    threads: u32,
    /// Target number of resident thread blocks per multiprocessor.
    blocks: u32,
    in_shared: bool,
    link_warps: u32,
    hash_bits: u32,
}

impl Shape {
    fn new(params: &Params, shared_memory: u32) -> Self {
        let is_long = params.level > 4;
        let (threads, blocks) = match (params.width, is_long) {
            (_, true) => (512, 2),
            (SymbolWidth::One, _) => (512, 3),
            _ => (256, 5),
        };
        let warps = threads / 32;
        let mut shape = Self { params: *params, threads, blocks, in_shared: true, link_warps: warps, hash_bits: 0 };
        // Four entries for each position of the window, so that few positions with other symbols share an entry.
        let wanted = params.window().ilog2() + if params.window().is_power_of_two() { 2 } else { 3 };
        let room = (shape.symbols() * shape.token_bytes() / warps / 2).ilog2();
        shape.hash_bits = wanted.min(room).min(LONG_HASH_BITS);
        // If the window is as long as a data block, a single warp links the positions: with several, each would first
        // have to repeat most of that work.
        if is_long {
            shape.link_warps = 1;
        }
        // The static shared memory contains the sums of warps.
        shape.in_shared = !is_long && shape.work_bytes() + 1024 <= shared_memory;
        shape
    }

    fn symbols(&self) -> u32 {
        self.params.block_symbols() as u32
    }

    fn token_bytes(&self) -> u32 {
        2 * self.params.distance_bytes() as u32
    }

    /// Returns the bytes of a thread block's working memory: `WORK_BYTES` of lzss/encode.cuh.
    fn work_bytes(&self) -> u32 {
        let symbols = self.symbols();
        let link_bytes = if self.params.window() > 255 { 2 } else { 1 };
        let search = self.params.block_bytes() as u32 + PADDING + symbols * link_bytes;
        let selection = symbols * 2 + symbols / 32 * CHUNK_INFO + 15;
        search.max(selection).next_multiple_of(16) + symbols * self.token_bytes()
    }

    /// Returns the dynamic shared memory of a block in bytes.
    fn shared_memory(&self) -> u32 {
        if self.in_shared { self.work_bytes() } else { (self.link_warps * 2) << self.hash_bits }
    }

    /// Returns the bytes of a data block's slot: `SLOT_BYTES` of lzss/slots.cuh.
    fn slot_bytes(&self) -> u32 {
        self.symbols() / 8 + self.params.block_bytes() as u32 + 64
    }
}

pub(super) fn specializations(params: &Params, shared_memory: u32) -> Vec<Specialization> {
    let shape = Shape::new(params, shared_memory);
    vec![TokenKernels::specialization(&shape), SectionKernels::specialization(&shape)]
}

/// Finds the tokens of chunks' bytes.
#[derive(Debug, Clone)]
pub struct Encoder {
    shape: Shape,
    tokens: TokenKernels,
    sections: SectionKernels,
    hasher: Hasher,
    /// Number of thread blocks that are resident on the device.
    resident: u32,
}

impl Encoder {
    /// Creates an encoder for symbols of `width` at a level from 1 to 9.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if there is no such level; errors of [`Device::kernel`].
    pub fn new(device: &Device, width: SymbolWidth, level: u8) -> Result<Self> {
        Self::with_search(device, width, level, TokenSearch::LINKED)
    }

    /// Creates an encoder as [`Self::new`] does, with another kernel that finds the tokens.
    #[doc(hidden)]
    pub fn with_search(device: &Device, width: SymbolWidth, level: u8, search: TokenSearch) -> Result<Self> {
        let shape = Shape::new(&params(width, level)?, device.info().shared_memory_per_block);
        let tokens = device.kernel(&search.specialization_of(&shape), search.kernel)?;
        tokens.allow_shared_memory(shape.shared_memory())?;
        let resident = tokens.blocks_per_multiprocessor(shape.threads, shape.shared_memory())?.max(1);
        Ok(Self {
            shape,
            tokens: TokenKernels { lzss_tokens: tokens },
            sections: SectionKernels::load(device, &shape)?,
            hasher: Hasher::new(device)?,
            resident: resident * device.info().multiprocessors,
        })
    }

    /// Encodes every chunk of `batch` from `input`, all on the frame's stream. Sections that do not fit are reported in
    /// the chunk's [`SectionPlan`](super::SectionPlan).
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if lengths, alignment or parameters do not match;
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn launch(
        &self,
        frame: &mut Frame<'_>,
        input: &CudaView<'_, u8>,
        batch: &Batch,
        encoded: &mut Encoded,
    ) -> Result<()> {
        let stream = frame.stream().clone();
        let (chunks, prefix) = (batch.chunks, batch.form.prefix());
        let mut found = self.find(frame, input, batch, &mut encoded.plans.as_view_mut())?;

        let room = encoded.bytes.len() as u64;
        // SAFETY: there are a plan and a length for each chunk, and one more place than chunks.
        unsafe {
            launch!(self.sections.lzss_places on &stream, Grid::new(1, SECTION_THREADS); chunks, room,
                &mut encoded.plans, &mut encoded.places, &mut encoded.lengths)
        }?;

        let (plans, places) = (encoded.plans.as_view(), encoded.places.as_view());
        self.write_sections(&stream, batch, &mut found, &plans, &places, &mut encoded.bytes.as_view_mut())?;

        let grid = Grid::new(chunks.div_ceil(SECTION_THREADS / 32), SECTION_THREADS);
        // SAFETY: the same arrays as above.
        unsafe {
            launch!(self.sections.lzss_edges on &stream, grid; &batch.sections, chunks, &encoded.plans, &encoded.places,
                prefix, &mut encoded.bytes)
        }?;

        if batch.form == Form::Records {
            let (starts, lengths) = (encoded.places.slice(..chunks as usize), encoded.lengths.as_view());
            let pieces =
                Pieces { starts: &starts, lengths: &lengths, longest: batch.longest, excluded: ExcludedRange::RECORD };
            self.hasher.checksum(frame, &mut encoded.bytes.as_view_mut(), &pieces)?;
        }
        Ok(())
    }

    /// Finds the tokens, the first part of [`Self::launch`], and writes the layout of each chunk's sections to `plans`.
    fn find<'a>(
        &self,
        frame: &mut Frame<'a>,
        input: &CudaView<'_, u8>,
        batch: &Batch,
        plans: &mut CudaViewMut<'_, SectionPlan>,
    ) -> Result<Found<'a>> {
        if (input.len() as u64) < batch.input_bytes {
            return Err(CudaError::invalid("the chunks go past the end of the input"));
        }
        let pointer = input.device_ptr(frame.stream()).0;
        self.find_at(frame, pointer, batch, plans)
    }

    /// Finds tokens as [`Self::find`] does. Offsets count from an address; the caller guarantees that the bytes exist.
    pub(crate) fn find_at<'a>(
        &self,
        frame: &mut Frame<'a>,
        input: CUdeviceptr,
        batch: &Batch,
        plans: &mut CudaViewMut<'_, SectionPlan>,
    ) -> Result<Found<'a>> {
        let stream = frame.stream().clone();
        let problems = [
            (batch.params != self.shape.params, "the batch has another width or level than the encoder"),
            (!input.is_multiple_of(16), "the input must start on a multiple of 16 bytes"),
            (plans.len() != batch.chunks as usize, "the result was made for another batch"),
        ];
        if let Some(&(_, problem)) = problems.iter().find(|problem| problem.0) {
            return Err(CudaError::invalid(problem));
        }
        let (chunks, blocks, prefix) = (batch.chunks, batch.blocks, batch.form.prefix());
        let mut slots = frame.slice::<u8>(blocks as usize * self.shape.slot_bytes() as usize)?;
        let mut counts = frame.slice::<u64>(blocks as usize)?;
        let mut starts = frame.slice::<u32>(blocks as usize * START_WORDS)?;
        if blocks > 0 {
            let thread_blocks = if self.shape.in_shared { blocks } else { blocks.min(self.resident) };
            let scratch =
                if self.shape.in_shared { 0 } else { thread_blocks as usize * self.shape.work_bytes() as usize };
            let mut scratch = frame.slice::<u8>(scratch)?;
            let grid = Grid::new(thread_blocks, self.shape.threads).shared_memory(self.shape.shared_memory());
            // SAFETY: the parameters of both kernels are (const u8 *, const EncodeSection *, u32, u32, u8 *, Counts *,
            // u8 *). Sections lie in the input, as checked above. Each data block has a slot of the size that the
            // source asserts, and two words of counts. Each thread block has its working memory, in shared memory or in
            // the scratch memory.
            unsafe {
                launch!(self.tokens.lzss_tokens on &stream, grid; input, &batch.sections, chunks, blocks, &mut slots,
                    &mut counts, &mut scratch)
            }?;
        }

        // SAFETY: there are counts and a start for each data block, and a plan for each chunk, as checked above.
        unsafe {
            launch!(self.sections.lzss_layout on &stream, Grid::new(chunks, SECTION_THREADS); &batch.sections, chunks,
                blocks, prefix, &counts, &mut starts, &mut *plans)
        }?;
        Ok(Found { slots, counts, starts })
    }

    /// Moves tokens to section 2 (after its parameters) to section 6 of each chunk that has a place. Section 2 starts
    /// there, after the prefix of the form.
    pub(crate) fn write_sections(
        &self,
        stream: &Arc<CudaStream>,
        batch: &Batch,
        found: &mut Found<'_>,
        plans: &CudaView<'_, SectionPlan>,
        places: &CudaView<'_, u64>,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        if batch.blocks == 0 {
            return Ok(());
        }
        let prefix = batch.form.prefix();
        // SAFETY: chunks whose sections do not fit the output have a status or no place, and are skipped. The parts of
        // the data blocks are adjacent within their sections.
        unsafe {
            launch!(self.sections.lzss_write on &stream, Grid::new(batch.blocks, SECTION_THREADS); &batch.sections,
                batch.chunks, &found.counts, &found.starts, plans, places, prefix, &found.slots, output)
        }
    }

    /// Moves tokens to the planes of their chunks, which start at `starts`, each padded with zeros to a whole group.
    pub(crate) fn write_planes(
        &self,
        stream: &Arc<CudaStream>,
        batch: &Batch,
        found: &mut Found<'_>,
        plans: &CudaView<'_, SectionPlan>,
        starts: &CudaView<'_, PlaneStarts>,
        Planes { bytes, words, mut greatest }: Planes<'_, '_>,
    ) -> Result<()> {
        if batch.blocks == 0 {
            return Ok(());
        }
        if starts.len() != batch.chunks as usize || greatest.len() != batch.chunks as usize * WORD_PLANES {
            return Err(CudaError::invalid("planes were laid out for another batch"));
        }
        // SAFETY: the caller has laid out the planes one after another according to the plans.
        unsafe {
            launch!(self.sections.lzss_planes on &stream, Grid::new(batch.blocks, SECTION_THREADS); &batch.sections,
                batch.chunks, &found.counts, &found.starts, plans, starts, &found.slots, bytes, words, &mut greatest)
        }
    }
}

/// Memory for planes.
pub(crate) struct Planes<'p, 'v> {
    /// The symbols of planes of bytes.
    pub bytes: &'p mut CudaViewMut<'v, u8>,
    /// Those of planes of 16-bit symbols.
    pub words: &'p mut CudaViewMut<'v, u16>,
    /// [`WORD_PLANES`] words for each chunk, which must be 0 and receive the largest symbols of its planes of 16-bit
    /// symbols.
    pub greatest: CudaViewMut<'p, u32>,
}

/// The tokens of a batch, those of each data block in its own slot, and their positions among the tokens of their
/// chunk.
pub(crate) struct Found<'a> {
    slots: CudaViewMut<'a, u8>,
    /// Counts of each data block: tokens in the lower half, matches in the upper half.
    pub(crate) counts: CudaViewMut<'a, u64>,
    starts: CudaViewMut<'a, u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_fit() {
        for shared_memory in [64 << 10, 99 << 10, 163 << 10, 227 << 10] {
            for (width, level) in
                SymbolWidth::ALL.into_iter().flat_map(|width| (1..=9).map(move |level| (width, level)))
            {
                let shape = Shape::new(&Params::new(width, level), shared_memory);
                assert!(shape.shared_memory() <= shared_memory, "{shape:?}");
                assert!(shape.hash_bits >= 6, "{shape:?}");
            }
        }
        assert!(Shape::new(&Params::new(SymbolWidth::One, 4), 227 << 10).in_shared);
    }
}
