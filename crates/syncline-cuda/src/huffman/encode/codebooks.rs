//! Codebooks of the streams of a batch: symbol counts, codes, and serialized codebooks. Launcher of
//! `kernels/huffman/encode/codebooks.cu`.

#![allow(unsafe_code, reason = "kernel launches")]

use crate::device::Specialization;
use crate::huffman::encode::structs::StreamInput;
use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaSlice, CudaStream, CudaView, DevicePtr, DevicePtrMut, DriverError};

use super::batch::Batch;
use super::format::Format;
use crate::device::{Device, Frame, Grid};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, DriverContext, Result};
use crate::huffman::Symbol;
use crate::huffman::codebook::small_alphabet::{self, CANDIDATE_TREES_WORDS, SmallAlphabetBuilder};
use crate::huffman::codebook::structs::StreamCodes;
use crate::huffman::codebook::{CodebookBuilder, DeviceCodebooks};

declare_kernels! {
    /// The kernels of `kernels/huffman/encode/codebooks.cu`.
    struct CodebookKernels in "huffman/encode/codebooks.cu",
        of (format: &Format), by (copies: u32, small_alphabet: bool)
    {
        const THREADS: u32 = 512;
        /// Minimum number of symbols of a stream that a block counts.
        const PART_SYMBOLS: u32 = 1 << 14;
        /// Resident blocks per multiprocessor of the counting kernel if shared memory suffices.
        const RESIDENT_BLOCKS: u32 = 3;
        // These kernels do not depend on the length of a segment.
        with FORMAT = format.constants(4096);
        fn codebooks_count(
            symbols: CUdeviceptr as "const uint8_t *", inputs: In<StreamInput>, classes: Option<In<u8>>, streams: u32,
            parts_in_stream: u32, counts: CUdeviceptr as "Count *", status: CUdeviceptr as "uint32_t *",
        );
        fn codebooks_serialize(codewords: In<u32>, runs: Out<u32>, summaries: Out<u32>, bytes: Out<u8>);
        fn codebooks_choose(counts: In<u64>, codewords: In<u32>, summaries: In<u32>, codebooks: Out<u32>);
    }
}

/// Maximum number of streams whose parts the device distributes by the streams' actual lengths: two per thread.
const MAX_BALANCED_STREAMS: u32 = 2 * THREADS;
/// 32-bit words after a stream's counts.
const STATUS_WORDS: usize = 4;
/// Maximum number of copies of the counters in a block. The second constant applies if the block counts few parts:
/// clearing and summing more copies then takes longer than counting.
const MAX_COPIES: u32 = 16;
const MAX_COPIES_FOR_FEW_PARTS: u32 = 4;
/// Maximum number of parts per block that count as few.
const FEW_PARTS: u64 = 4;

/// Returns the number of copies of the counters that fit with two blocks per multiprocessor; 0 if not even one fits.
fn copies(format: &Format, shared_memory: u32, max_copies: u32) -> u32 {
    let copies = (shared_memory - 2048) / 2 / counter_bytes(format);
    if copies == 0 { 0 } else { 1 << copies.min(max_copies).ilog2() }
}

fn counter_bytes(format: &Format) -> u32 {
    4 * format.alphabet * format.class_count()
}

/// Returns whether a block builds a codebook on its own.
fn is_small_alphabet(format: &Format, shared_memory: u32) -> bool {
    small_alphabet::fits(format.alphabet, shared_memory)
}

/// Returns the specializations of a format for the compile check.
pub(super) fn specializations(format: &Format, shared_memory: u32) -> Vec<Specialization> {
    let of_copies = |max_copies| {
        let is_small = is_small_alphabet(format, shared_memory);
        CodebookKernels::specialization(format, copies(format, shared_memory, max_copies), is_small)
    };
    let mut all = [MAX_COPIES, MAX_COPIES_FOR_FEW_PARTS].map(of_copies).to_vec();
    all.dedup();
    all
}

/// The counting kernel with a given number of copies of its counters.
#[derive(Debug)]
struct CountKernel {
    kernels: CodebookKernels,
    shared_memory: u32,
    /// Blocks that are resident on the device.
    resident: u32,
}

impl CountKernel {
    fn new(device: &Device, format: &Format, copies: u32) -> Result<Self> {
        let is_small = is_small_alphabet(format, device.info().shared_memory_per_block);
        let kernels = CodebookKernels::load(device, format, copies, is_small)?;
        let kernel = &kernels.codebooks_count;
        let shared_memory = counter_bytes(format) * copies;
        kernel.allow_shared_memory(shared_memory)?;
        let resident = kernel.blocks_per_multiprocessor(THREADS, shared_memory)?;
        let resident = resident.max(1) * device.info().multiprocessors;
        Ok(Self { kernels, shared_memory, resident })
    }
}

/// The codebooks of a batch: for each stream one, or one for each class and one for all classes together.
#[derive(Debug)]
pub struct BatchCodebooks {
    pub(super) codebooks: DeviceCodebooks,
    /// Bytes and longest codeword of each codebook.
    pub(super) summaries: CudaSlice<u32>,
    /// Serialized codebooks.
    pub(super) bytes: CudaSlice<u8>,
    /// Number of codebooks that each stream uses.
    pub(super) used: CudaSlice<u32>,
    pub(super) streams: u32,
    pub(super) format: Format,
    /// Bit 0 for each stream with symbols outside of the alphabet.
    pub(super) status: CudaSlice<u32>,
    /// Buffers of the kernels for small alphabets.
    small_alphabet: Option<SmallAlphabetBuffers>,
}

impl BatchCodebooks {
    /// Returns the codewords of all codebooks.
    #[doc(hidden)]
    pub fn codewords(&self) -> CudaView<'_, u32> {
        self.codebooks.codewords()
    }
}

/// Buffers of the kernels for small alphabets.
#[derive(Debug)]
struct SmallAlphabetBuffers {
    /// Counts of each stream's classes, and a status. The kernel that reads them clears them, so they are 0 between
    /// launches.
    counts: CudaSlice<u32>,
    /// Whether the launch that clears the counts has failed.
    needs_clearing: bool,
    /// Bits of all codewords of each codebook.
    codebook_bits: CudaSlice<u64>,
    /// Finished codebooks of each stream, followed by the finished blocks of each codebook; 0 between launches.
    finished: CudaSlice<u32>,
    /// Candidate trees of each codebook.
    trees: CudaSlice<u32>,
}

impl SmallAlphabetBuffers {
    fn new(stream: &Arc<CudaStream>, format: &Format, streams: u32) -> std::result::Result<Self, DriverError> {
        let counts_of_stream = (format.class_count() * format.alphabet) as usize + STATUS_WORDS;
        let codebooks = (streams * format.codebooks()) as usize;
        Ok(Self {
            counts: stream.alloc_zeros(streams as usize * counts_of_stream)?,
            needs_clearing: false,
            codebook_bits: stream.alloc_zeros(codebooks)?,
            finished: stream.alloc_zeros(streams as usize + codebooks)?,
            trees: stream.alloc_zeros(codebooks * CANDIDATE_TREES_WORDS)?,
        })
    }
}

impl BatchCodebooks {
    /// Allocates the codebooks of `batch`.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn new(stream: &Arc<CudaStream>, batch: &Batch) -> Result<Self> {
        let format = batch.format;
        let count = batch.streams * format.codebooks();
        let bytes = count as usize * format.max_codebook_bytes() as usize;
        let codebooks = DeviceCodebooks::new(stream, format.alphabet, count)?;
        let buffers = || SmallAlphabetBuffers::new(stream, &format, batch.streams);
        let allocate = || {
            let summaries = stream.alloc_zeros(2 * count as usize)?;
            let used = stream.clone_htod(&vec![1_u32; batch.streams as usize])?;
            let status = stream.alloc_zeros(batch.streams as usize)?;
            let may_be_small = format.alphabet <= small_alphabet::MAX_SYMBOLS;
            let small_alphabet = may_be_small.then(buffers).transpose()?;
            Ok((summaries, stream.alloc_zeros(bytes)?, used, status, small_alphabet))
        };
        let (summaries, bytes, used, status, small_alphabet) = allocate().allocating(bytes as u64)?;
        Ok(Self { codebooks, summaries, bytes, used, streams: batch.streams, format, status, small_alphabet })
    }

    /// Returns the device memory of the codebooks in bytes, without the few words of each stream.
    pub fn device_bytes(&self) -> u64 {
        let symbols = u64::from(self.codebooks.count()) * u64::from(self.format.alphabet);
        let counts = self.small_alphabet.as_ref().map_or(0, |buffers| buffers.counts.len() * size_of::<u32>());
        (self.bytes.len() + counts) as u64 + symbols * (size_of::<u32>() + size_of::<u16>()) as u64
    }

    /// Returns the codebooks in the order of streams, then classes.
    pub fn codebooks(&self) -> &DeviceCodebooks {
        &self.codebooks
    }
}

/// Counts the symbols of a batch and builds its codebooks.
#[derive(Debug)]
pub struct BatchCodebooksBuilder<S> {
    format: Format,
    /// Counting kernels for many parts per block, and for few.
    counts: [CountKernel; 2],
    strategy: Strategy,
    symbol: PhantomData<S>,
}

#[derive(Debug)]
enum Strategy {
    /// A single kernel from counts to serialized codebooks.
    Small(SmallAlphabetBuilder),
    /// A separate kernel for each step.
    Large(Box<CodebookBuilder>),
}

impl<S: Symbol> BatchCodebooksBuilder<S> {
    /// Compiles the kernels for batches of this format.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the format is inconsistent; errors of [`Device::kernel`].
    pub fn new(device: &Device, format: &Format) -> Result<Self> {
        format.check_symbol::<S>()?;
        let shared_memory = device.info().shared_memory_per_block;
        let copies = [MAX_COPIES, MAX_COPIES_FOR_FEW_PARTS].map(|most| copies(format, shared_memory, most));
        let strategy = if is_small_alphabet(format, shared_memory) {
            Strategy::Small(SmallAlphabetBuilder::new(device, format.alphabet, format.class_count())?)
        } else {
            Strategy::Large(Box::new(CodebookBuilder::new(device, format.alphabet)?))
        };
        Ok(Self {
            format: *format,
            counts: [CountKernel::new(device, format, copies[0])?, CountKernel::new(device, format, copies[1])?],
            strategy,
            symbol: PhantomData,
        })
    }

    /// Counts the symbols of the coded groups of every stream and builds its codebooks, all on the frame's stream.
    /// `classes` has one byte for each group of the input if the format has classes.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if lengths or formats do not match; [`CudaError::OutOfMemory`];
    /// [`CudaError::Driver`].
    pub fn launch(
        &self,
        frame: &mut Frame<'_>,
        input: &CudaView<'_, S>,
        classes: Option<&CudaView<'_, u8>>,
        batch: &Batch,
        codebooks: &mut BatchCodebooks,
    ) -> Result<()> {
        let stream = frame.stream().clone();
        check_input(&self.format, &stream, input, classes, batch, codebooks)?;
        match (&self.strategy, &mut codebooks.small_alphabet) {
            (Strategy::Small(builder), Some(buffers)) => {
                let SmallAlphabetBuffers { counts, needs_clearing, codebook_bits, finished, trees } = buffers;
                if std::mem::replace(needs_clearing, true) {
                    stream.memset_zeros(counts).doing("clearing the counts")?;
                    stream.memset_zeros(finished).doing("clearing the counters of finished codebooks")?;
                }
                let counts = counts.device_ptr_mut(&stream).0;
                let status = codebooks.status.device_ptr_mut(&stream).0;
                self.launch_counts(&stream, input, classes, batch, counts, status)?;
                let finished = finished.device_ptr_mut(&stream).0;
                let stream_codes = StreamCodes {
                    summaries: codebooks.summaries.device_ptr_mut(&stream).0,
                    bytes: codebooks.bytes.device_ptr_mut(&stream).0,
                    codebooks_used: codebooks.used.device_ptr_mut(&stream).0,
                    status,
                    codebook_bits: codebook_bits.device_ptr_mut(&stream).0,
                    finished,
                    trees: trees.device_ptr_mut(&stream).0,
                    arrived: finished + u64::from(batch.streams) * size_of::<u32>() as u64,
                };
                // SAFETY: `BatchCodebooks::new` and `SmallAlphabetBuffers::new` have allocated each array for these
                // streams and codebooks. A stream has at most 2^23 symbols, and its counts were 0.
                unsafe { builder.launch(&stream, counts, &mut codebooks.codebooks, stream_codes) }?;
                *needs_clearing = false;
                Ok(())
            }
            (Strategy::Large(builder), _) => {
                let count = batch.streams as usize * (self.format.codebooks() * self.format.alphabet) as usize;
                let mut counts = frame.zeros::<u64>(count)?;
                stream.memset_zeros(&mut codebooks.status).doing("clearing the status")?;
                let address = counts.device_ptr_mut(&stream).0;
                let status = codebooks.status.device_ptr_mut(&stream).0;
                self.launch_counts(&stream, input, classes, batch, address, status)?;
                builder.launch(frame, &counts.as_view(), &mut codebooks.codebooks)?;
                self.launch_serialize(frame, codebooks)?;
                self.launch_choose(&stream, &counts.as_view(), codebooks)
            }
            (Strategy::Small(_), None) => {
                Err(CudaError::invalid("the codebooks were allocated for a batch of another format"))
            }
        }
    }

    /// Adds the counts of the batch's symbols to the zeros at `counts`, in the layout of the kernel that reads them.
    fn launch_counts(
        &self,
        stream: &Arc<CudaStream>,
        input: &CudaView<'_, S>,
        classes: Option<&CudaView<'_, u8>>,
        batch: &Batch,
        counts: CUdeviceptr,
        status: CUdeviceptr,
    ) -> Result<()> {
        let parts = (batch.most_groups * self.format.group()).div_ceil(PART_SYMBOLS).max(1);
        let [many, few] = &self.counts;
        let all_parts = u64::from(batch.streams) * u64::from(parts);
        let counter = if all_parts <= FEW_PARTS * u64::from(few.resident) { few } else { many };
        let blocks = all_parts.min(counter.resident.into()) as u32;
        let is_balanced = batch.uneven && (2..=MAX_BALANCED_STREAMS).contains(&batch.streams);
        let parts_in_stream = if is_balanced { 0 } else { parts };
        let grid = Grid::new(blocks, THREADS).shared_memory(counter.shared_memory).early(true);
        let (symbols, _reads) = input.device_ptr(stream);
        let classes = classes.map(|classes| -> &dyn DevicePtr<u8> { classes });
        // SAFETY: `check_input` has checked that the streams lie within the input and the classes. Each stream's counts
        // have CODEBOOKS * ALPHABET entries, or for small alphabets CLASSES * ALPHABET and a status; the kernel reduces
        // every symbol modulo ALPHABET. It waits for the previous kernel before it reads.
        unsafe {
            launch!(counter.kernels.codebooks_count on stream, grid; symbols, &batch.inputs, classes, batch.streams,
                parts_in_stream, counts, status)
        }
    }

    /// Chooses between one codebook and several for each stream.
    fn launch_choose(
        &self,
        stream: &Arc<CudaStream>,
        counts: &CudaView<'_, u64>,
        codebooks: &mut BatchCodebooks,
    ) -> Result<()> {
        if !self.format.classes {
            return Ok(());
        }
        let codewords = codebooks.codebooks.codewords();
        let kernels = &self.counts[0].kernels;
        // SAFETY: a block reads its stream's CODEBOOKS * ALPHABET counts and codewords and CODEBOOKS summaries, and
        // writes one word.
        unsafe {
            launch!(kernels.codebooks_choose on &stream, Grid::new(codebooks.streams, THREADS); counts,
                &codewords, &codebooks.summaries, &mut codebooks.used)
        }
    }

    fn launch_serialize(&self, frame: &mut Frame<'_>, codebooks: &mut BatchCodebooks) -> Result<()> {
        let stream = frame.stream().clone();
        let count = codebooks.codebooks.count();
        let mut runs = frame.slice::<u32>(count as usize * self.format.alphabet as usize)?;
        let codewords = codebooks.codebooks.codewords();
        let kernels = &self.counts[0].kernels;
        // SAFETY: block i reads the i-th ALPHABET codewords and writes the i-th ALPHABET runs, two words, and ALPHABET
        // + 4 bytes.
        unsafe {
            launch!(kernels.codebooks_serialize on &stream, Grid::new(count, THREADS); &codewords,
                &mut runs, &mut codebooks.summaries, &mut codebooks.bytes)
        }?;
        Ok(())
    }
}

/// Checks the lengths that the kernels that read the input rely on.
pub(super) fn check_input<S: Symbol>(
    format: &Format,
    stream: &Arc<CudaStream>,
    symbols: &CudaView<'_, S>,
    classes: Option<&CudaView<'_, u8>>,
    batch: &Batch,
    codebooks: &BatchCodebooks,
) -> Result<()> {
    let groups = batch.input_groups;
    let problems = [
        (
            batch.format != *format || codebooks.format != *format,
            "the batch and the codebooks must have the encoder's format",
        ),
        (codebooks.streams != batch.streams, "the codebooks were allocated for another batch"),
        ((symbols.len() as u64) < groups << format.group_log2, "the streams exceed the input"),
        (!symbols.device_ptr(stream).0.is_multiple_of(16), "the address of the input must be a multiple of 16"),
        (classes.is_some() != format.classes, "classes must be given if and only if the format has them"),
        (
            classes.is_some_and(|classes| (classes.len() as u64) < groups),
            "there must be a class for each group of the input",
        ),
    ];
    match problems.iter().find(|problem| problem.0) {
        Some(&(_, problem)) => Err(CudaError::invalid(problem)),
        None => Ok(()),
    }
}
