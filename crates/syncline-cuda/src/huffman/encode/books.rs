//! Codebooks of a batch: counted and built on the device, or given.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaSlice, CudaStream, CudaView, DevicePtr, DevicePtrMut, DriverError, PushKernelArg};

use super::batch::Batch;
use super::encoder::check_input;
use super::format::{CLASSES, Format};
use crate::device::{Device, Frame, Kernel, ProgrammaticDependentLaunch, Source, Specialization, source};
use crate::error::{CudaError, DriverContext, Result};
use crate::huffman::codebook::{CodebookBuilder, DeviceCodebook};
use crate::huffman::codebook_small::{
    Purpose, SMALL_ALPHABET, SmallCodebooks, StreamPointers, TREES_WORDS, sample_constants,
};
use crate::huffman::histogram::Symbol;

const SOURCE: Source = source!("huffman/encode/books.cu");
const THREADS: u32 = 512;
/// Symbols of a stream that a block counts at the least.
const PART: u32 = 1 << 14;
/// Blocks that count on a multiprocessor at a time, where there is shared memory for so many.
const BLOCKS: u32 = 3;
/// Most streams whose parts the device deals out by the groups that they have: two a thread.
const MOST_STREAMS: u32 = 2 * THREADS;
/// Words behind a stream's counts.
const STATUS_WORDS: usize = 4;
/// Most copies of the counters in a block, and where it counts few parts: clearing and adding them up then takes longer
/// than counting.
const MOST_COPIES: u32 = 16;
const COPIES_FOR_FEW: u32 = 4;
/// So many parts to a block are few.
const FEW_PARTS: u64 = 4;

/// Copies of the counters that fit, two blocks to a multiprocessor; 0 if not even one does.
fn copies(format: &Format, shared_memory: u32, most: u32) -> u32 {
    let copies = (shared_memory - 2048) / 2 / counter_bytes(format);
    if copies == 0 { 0 } else { 1 << copies.min(most).ilog2() }
}

/// Classes that are counted apart.
fn classes(format: &Format) -> u32 {
    if format.classes { CLASSES } else { 1 }
}

fn counter_bytes(format: &Format) -> u32 {
    4 * format.alphabet * classes(format)
}

/// Whether a codebook is a block's from its counts to its bytes.
fn is_small(format: &Format) -> bool {
    format.alphabet <= SMALL_ALPHABET
}

fn specialization(format: &Format, copies: u32) -> Specialization {
    // The segment's size plays no part here.
    let mut constants = format.constants(4096);
    constants.extend([
        ("COPIES", copies.into()),
        ("THREADS", THREADS.into()),
        ("PART", PART.into()),
        ("BLOCKS", BLOCKS.into()),
        ("SMALL", is_small(format).into()),
    ]);
    constants.extend(sample_constants());
    Specialization { source: SOURCE, constants }
}

pub(super) fn specializations(format: &Format, shared_memory: u32) -> Vec<Specialization> {
    let mut all =
        [MOST_COPIES, COPIES_FOR_FEW].map(|most| specialization(format, copies(format, shared_memory, most))).to_vec();
    all.dedup();
    all
}

/// The kernel that counts, with so many copies of its counters.
#[derive(Debug)]
struct Counts {
    kernel: Kernel,
    shared_memory: u32,
    /// Blocks that the device runs at a time.
    blocks: u32,
}

impl Counts {
    fn new(device: &Device, format: &Format, copies: u32) -> Result<Self> {
        let kernel = device.kernel(&specialization(format, copies), "encode_counts")?;
        let shared_memory = counter_bytes(format) * copies;
        kernel.allow_shared_memory(shared_memory)?;
        let resident = kernel.blocks_per_multiprocessor(THREADS, shared_memory)?;
        Ok(Self { kernel, shared_memory, blocks: resident.max(1) * device.info().multiprocessors })
    }
}

/// The codebooks of a batch: one, or four and one for all classes, for each stream.
#[derive(Debug)]
pub struct Books {
    pub(super) codebooks: DeviceCodebook,
    /// Bytes and longest codeword of each.
    pub(super) summaries: CudaSlice<u32>,
    pub(super) bytes: CudaSlice<u8>,
    /// How many each stream uses.
    pub(super) used: CudaSlice<u32>,
    pub(super) streams: u32,
    pub(super) format: Format,
    /// Bit 0 for each stream with symbols outside of the alphabet.
    pub(super) status: CudaSlice<u32>,
    /// Where alphabets are small.
    counting: Option<Counting>,
}

/// What the kernels of small alphabets work with.
#[derive(Debug)]
struct Counting {
    /// Counts of each stream's classes, and a status; 0 between launches, since who reads them clears them.
    counts: CudaSlice<u32>,
    /// Whether a launch that was to clear them is missing.
    unread: bool,
    /// Bits of each codebook.
    bits: CudaSlice<u64>,
    /// Codebooks of each stream that are made, and behind them blocks of each codebook whose trees are: 0 between
    /// launches.
    done: CudaSlice<u32>,
    /// Trees of each codebook.
    trees: CudaSlice<u32>,
}

impl Counting {
    fn new(stream: &Arc<CudaStream>, format: &Format, streams: u32) -> std::result::Result<Self, DriverError> {
        let of_stream = classes(format) as usize * format.alphabet as usize + STATUS_WORDS;
        Ok(Self {
            counts: stream.alloc_zeros(streams as usize * of_stream)?,
            unread: false,
            bits: stream.alloc_zeros((streams * format.books()) as usize)?,
            done: stream.alloc_zeros((streams + streams * format.books()) as usize)?,
            trees: stream.alloc_zeros((streams * format.books()) as usize * TREES_WORDS)?,
        })
    }
}

impl Books {
    /// Room for the codebooks of `batch`.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn new(stream: &Arc<CudaStream>, batch: &Batch) -> Result<Self> {
        let format = batch.format;
        let books = batch.streams * format.books();
        let bytes = books as usize * format.book_bytes() as usize;
        let codebooks = DeviceCodebook::with_books(stream, format.alphabet, books)?;
        let allocate = || {
            let summaries = stream.alloc_zeros(2 * books as usize)?;
            let used = stream.clone_htod(&vec![1_u32; batch.streams as usize])?;
            let status = stream.alloc_zeros(batch.streams as usize)?;
            let counting = is_small(&format).then(|| Counting::new(stream, &format, batch.streams)).transpose()?;
            Ok((summaries, stream.alloc_zeros(bytes)?, used, status, counting))
        };
        let (summaries, bytes, used, status, counting) = allocate().allocating(bytes as u64)?;
        Ok(Self { codebooks, summaries, bytes, used, streams: batch.streams, format, status, counting })
    }

    /// Bytes of device memory that they take, but for some a stream.
    pub fn device_bytes(&self) -> u64 {
        let symbols = u64::from(self.codebooks.books()) * u64::from(self.format.alphabet);
        let counts = self.counting.as_ref().map_or(0, |counting| counting.counts.len() * size_of::<u32>());
        (self.bytes.len() + counts) as u64 + symbols * (size_of::<u32>() + size_of::<u16>()) as u64
    }

    /// The codebooks, in the order of streams and classes.
    pub fn codebooks(&self) -> &DeviceCodebook {
        &self.codebooks
    }
}

/// Counts symbols and builds codebooks.
#[derive(Debug)]
pub struct BooksBuilder<S> {
    format: Format,
    /// For many parts to a block and for few.
    counts: [Counts; 2],
    way: Way,
    books: Kernel,
    symbol: PhantomData<S>,
}

#[derive(Debug)]
enum Way {
    Small(SmallCodebooks),
    Large { builder: CodebookBuilder, choose: Kernel },
}

impl<S: Symbol> BooksBuilder<S> {
    /// For batches of this format.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the format contradicts itself; errors of [`Device::kernel`].
    pub fn new(device: &Device, format: &Format) -> Result<Self> {
        format.check()?;
        if format.symbol_bytes != S::BYTES {
            return Err(CudaError::invalid(format!("the format has symbols of {} bytes", format.symbol_bytes)));
        }
        let shared_memory = device.info().shared_memory_per_block;
        let copies = [MOST_COPIES, COPIES_FOR_FEW].map(|most| copies(format, shared_memory, most));
        let specialization = specialization(format, copies[0]);
        let way = if is_small(format) {
            let purpose = Purpose::Streams { classes: classes(format) };
            Way::Small(SmallCodebooks::new(device, format.alphabet, purpose)?)
        } else {
            let choose = device.kernel(&specialization, "encode_choose")?;
            Way::Large { builder: CodebookBuilder::new(device, format.alphabet)?, choose }
        };
        Ok(Self {
            format: *format,
            counts: [Counts::new(device, format, copies[0])?, Counts::new(device, format, copies[1])?],
            way,
            books: device.kernel(&specialization, "encode_books")?,
            symbol: PhantomData,
        })
    }

    /// Counts the live groups' symbols of every stream and builds its codebooks, all on the frame's stream. `classes`
    /// has one for each group of the input if the format has classes.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if lengths or formats do not fit together; [`CudaError::OutOfMemory`];
    /// [`CudaError::Driver`].
    pub fn launch(
        &self,
        frame: &mut Frame<'_>,
        input: &CudaView<'_, S>,
        classes: Option<&CudaView<'_, u8>>,
        batch: &Batch,
        books: &mut Books,
    ) -> Result<()> {
        let stream = frame.stream().clone();
        check_input(&self.format, &stream, input, classes, batch, books)?;
        match (&self.way, &mut books.counting) {
            (Way::Small(small), Some(Counting { counts, unread, bits, done, trees })) => {
                if std::mem::replace(unread, true) {
                    stream.memset_zeros(counts).doing("clearing the counts")?;
                    stream.memset_zeros(done).doing("clearing the numbers of codebooks")?;
                }
                let counts = counts.device_ptr_mut(&stream).0;
                self.launch_counts(&stream, input, classes, batch, counts, books.status.device_ptr_mut(&stream).0)?;
                let done = done.device_ptr_mut(&stream).0;
                let arrived = done + u64::from(batch.streams) * size_of::<u32>() as u64;
                let streams = StreamPointers([
                    books.summaries.device_ptr_mut(&stream).0,
                    books.bytes.device_ptr_mut(&stream).0,
                    books.used.device_ptr_mut(&stream).0,
                    books.status.device_ptr_mut(&stream).0,
                    bits.device_ptr_mut(&stream).0,
                    done,
                    trees.device_ptr_mut(&stream).0,
                    arrived,
                    batch.spans.device_ptr(&stream).0,
                ]);
                // SAFETY: `Books::new` and `Counting::new` have made each array for these streams and codebooks. A
                // stream has at most 2^23 symbols; its counts were 0.
                unsafe { small.launch(&stream, counts, &mut books.codebooks, streams) }?;
                *unread = false;
                Ok(())
            }
            (Way::Large { builder, choose }, _) => {
                let count = batch.streams as usize * (self.format.books() * self.format.alphabet) as usize;
                let mut counts = frame.zeros::<u64>(count)?;
                stream.memset_zeros(&mut books.status).doing("clearing the status")?;
                let (pointer, status) = (counts.device_ptr_mut(&stream).0, books.status.device_ptr_mut(&stream).0);
                self.launch_counts(&stream, input, classes, batch, pointer, status)?;
                builder.launch(frame, &counts.as_view(), &mut books.codebooks)?;
                self.write_bytes(frame, books)?;
                self.launch_choose(&stream, choose, &counts.as_view(), books)
            }
            (Way::Small(_), None) => Err(CudaError::invalid("the codebooks were made for another format")),
        }
    }

    /// Counts at `counts`, which are 0: as many of each stream as the kernel that reads them wants.
    fn launch_counts(
        &self,
        stream: &Arc<CudaStream>,
        input: &CudaView<'_, S>,
        classes: Option<&CudaView<'_, u8>>,
        batch: &Batch,
        counts: CUdeviceptr,
        status: CUdeviceptr,
    ) -> Result<()> {
        let parts = (batch.most_groups * self.format.group()).div_ceil(PART).max(1);
        let [many, few] = &self.counts;
        let all = u64::from(batch.streams) * u64::from(parts);
        let counter = if all <= FEW_PARTS * u64::from(few.blocks) { few } else { many };
        let blocks = all.min(counter.blocks.into()) as u32;
        let launch = ProgrammaticDependentLaunch::new(&counter.kernel, stream).reads(input).reads(&batch.spans);
        let launch = match classes {
            Some(classes) => launch.reads(classes),
            None => launch.value(0_u64),
        };
        let dealt_out = batch.uneven && (2..=MOST_STREAMS).contains(&batch.streams);
        let launch = launch.value(batch.streams).value(if dealt_out { 0 } else { parts }).value(counts).value(status);
        let grid = Kernel::grid(blocks, THREADS, counter.shared_memory);
        // SAFETY: the kernel's parameters are (const u8 *, const Span *, const u8 *, u32, u32, Count *, u32 *). Spans
        // lie within the input and classes, as checked; each stream's counts have BOOKS * ALPHABET entries, or CLASSES
        // * ALPHABET and a status, and every symbol is taken modulo ALPHABET. It waits before it reads.
        unsafe { launch.launch(grid) }
    }

    fn launch_choose(
        &self,
        stream: &Arc<CudaStream>,
        choose: &Kernel,
        counts: &CudaView<'_, u64>,
        books: &mut Books,
    ) -> Result<()> {
        if !self.format.classes {
            return Ok(());
        }
        let mut launch = stream.launch_builder(choose.function());
        let codewords = books.codebooks.codewords();
        launch.arg(counts).arg(&codewords).arg(&books.summaries).arg(&mut books.used);
        // SAFETY: the kernel's parameters are (const u64 *, const u32 *, const u32 *, u32 *); a block reads its
        // stream's BOOKS * ALPHABET counts and codewords and BOOKS summaries, and writes one number.
        unsafe { launch.launch(Kernel::grid(books.streams, THREADS, 0)) }.doing("choosing codebooks").map(drop)
    }

    fn write_bytes(&self, frame: &mut Frame<'_>, books: &mut Books) -> Result<()> {
        let stream = frame.stream().clone();
        let count = books.codebooks.books();
        let mut runs = frame.slice::<u32>(count as usize * self.format.alphabet as usize)?;
        let codewords = books.codebooks.codewords();
        let mut launch = stream.launch_builder(self.books.function());
        launch.arg(&codewords).arg(&mut runs).arg(&mut books.summaries).arg(&mut books.bytes);
        // SAFETY: the kernel's parameters are (const u32 *, u32 *, u32 *, u8 *); a block reads ALPHABET codewords and
        // writes up to as many runs, two numbers and up to ALPHABET + 4 bytes, at its number times that.
        unsafe { launch.launch(Kernel::grid(count, THREADS, 0)) }.doing("writing codebooks")?;
        Ok(())
    }
}
