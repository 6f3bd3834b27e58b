//! Codebooks of a batch: counted and built on the device, or given.

use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, PushKernelArg};

use super::batch::Batch;
use super::encoder::check_input;
use super::format::{CLASSES, Format};
use crate::device::{Device, Frame, Kernel, Source, Specialization};
use crate::error::{CudaError, DriverContext, Result};
use crate::huffman::codebook::{CodebookBuilder, DeviceCodebook};
use crate::huffman::histogram::Symbol;

const SOURCE: Source =
    Source { name: "huffman_encode_books.cu", text: include_str!("../../../kernels/huffman_encode_books.cu") };
const THREADS: u32 = 512;
/// Symbols of a stream that a block counts at the least.
const PART: u32 = 1 << 14;
/// Most copies of the counters in a block.
const MOST_COPIES: u32 = 16;

/// Copies of the counters that fit, two blocks to a multiprocessor; 0 if not even one does.
fn copies(format: &Format, shared_memory: u32) -> u32 {
    let copies = (shared_memory - 2048) / 2 / counter_bytes(format);
    if copies == 0 { 0 } else { 1 << copies.min(MOST_COPIES).ilog2() }
}

fn counter_bytes(format: &Format) -> u32 {
    4 * format.alphabet * if format.classes { CLASSES } else { 1 }
}

pub(super) fn specialization(format: &Format, shared_memory: u32) -> Specialization {
    // The segment's size plays no part here.
    let mut constants = format.constants(4096);
    constants.extend([
        ("COPIES", copies(format, shared_memory).into()),
        ("THREADS", THREADS.into()),
        ("PART", PART.into()),
    ]);
    Specialization { source: SOURCE, constants }
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
}

impl Books {
    /// Room for the codebooks of `batch`.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`].
    pub fn new(stream: &Arc<CudaStream>, batch: &Batch) -> Result<Self> {
        let format = batch.format;
        let books = batch.streams * format.books();
        let bytes = books as usize * format.book_bytes() as usize;
        let codebooks = DeviceCodebook::with_books(stream, format.alphabet, books)?;
        let allocate = || {
            let summaries = stream.alloc_zeros(2 * books as usize)?;
            let used = stream.clone_htod(&vec![1_u32; batch.streams as usize])?;
            let status = stream.alloc_zeros(batch.streams as usize)?;
            Ok((summaries, stream.alloc_zeros(bytes)?, used, status))
        };
        let (summaries, bytes, used, status) =
            allocate().map_err(|_: cudarc::driver::DriverError| CudaError::OutOfMemory { bytes: bytes as u64 })?;
        Ok(Self { codebooks, summaries, bytes, used, streams: batch.streams, format, status })
    }

    /// Bytes of device memory that they take, but for some a stream.
    pub fn device_bytes(&self) -> u64 {
        let symbols = u64::from(self.codebooks.books()) * u64::from(self.format.alphabet);
        self.bytes.len() as u64 + symbols * (size_of::<u32>() + size_of::<u16>()) as u64
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
    counts: Kernel,
    counts_shared: u32,
    /// Blocks that the device runs at a time.
    counts_blocks: u32,
    builder: CodebookBuilder,
    books: Kernel,
    choose: Kernel,
    symbol: PhantomData<S>,
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
        let specialization = specialization(format, shared_memory);
        let counts = device.kernel(&specialization, "encode_counts")?;
        let counts_shared = counter_bytes(format) * copies(format, shared_memory);
        counts.allow_shared_memory(counts_shared)?;
        let resident = counts.blocks_per_multiprocessor(THREADS, counts_shared)?;
        Ok(Self {
            format: *format,
            counts,
            counts_shared,
            counts_blocks: resident.max(1) * device.info().multiprocessors,
            builder: CodebookBuilder::new(device, format.alphabet)?,
            books: device.kernel(&specialization, "encode_books")?,
            choose: device.kernel(&specialization, "encode_choose")?,
            symbol: PhantomData,
        })
    }

    /// Counts the live groups' symbols of every stream and builds its codebooks, all on the frame's stream. `classes` has one for each
    /// group of the input if the format has classes.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if lengths or formats do not fit together; [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
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
        let count = batch.streams as usize * (self.format.books() * self.format.alphabet) as usize;
        let mut counts = frame.zeros::<u64>(count)?;
        stream.memset_zeros(&mut books.status).doing("clearing the status")?;
        let parts = (batch.most_groups * self.format.group()).div_ceil(PART).max(1);
        let blocks = (u64::from(batch.streams) * u64::from(parts)).min(self.counts_blocks.into()) as u32;
        let mut launch = stream.launch_builder(self.counts.function());
        let no_classes = 0_u64;
        launch.arg(input).arg(&batch.spans);
        match classes {
            Some(classes) => launch.arg(classes),
            None => launch.arg(&no_classes),
        };
        launch.arg(&batch.streams).arg(&parts).arg(&mut counts).arg(&mut books.status);
        let grid = Kernel::grid(blocks, THREADS, self.counts_shared);
        // SAFETY: the kernel's parameters are (const u8 *, const Span *, const u8 *, u32, u32, u64 *, u32 *). Spans lie within the input and classes, as checked;
        // each stream's counts have BOOKS * ALPHABET entries and every symbol is taken modulo ALPHABET.
        unsafe { launch.launch(grid) }.doing("counting symbols")?;
        self.builder.launch(frame, &counts.as_view(), &mut books.codebooks)?;
        self.finish(frame, &counts.as_view(), books)
    }

    /// Uses codewords that the caller has: `codewords` as [`DeviceCodebook::codewords`] has them, for each stream and class (and all classes together).
    /// With classes, each stream uses as many codebooks as `used` says, 1 or 4.
    ///
    /// # Errors
    /// As [`Self::launch`].
    pub fn given(
        &self,
        frame: &mut Frame<'_>,
        codewords: &CudaView<'_, u32>,
        used: &CudaView<'_, u32>,
        books: &mut Books,
    ) -> Result<()> {
        let stream = frame.stream().clone();
        if books.format != self.format
            || codewords.len() != books.codebooks.codewords().len()
            || used.len() != books.used.len()
        {
            return Err(CudaError::invalid("there must be as many codewords as the books have room for"));
        }
        stream.memcpy_dtod(codewords, &mut books.codebooks.codewords_mut()).doing("copying codewords")?;
        stream.memcpy_dtod(used, &mut books.used).doing("copying numbers of codebooks")?;
        stream.memset_zeros(&mut books.status).doing("clearing the status")?;
        self.write_bytes(frame, books)
    }

    fn finish(&self, frame: &mut Frame<'_>, counts: &CudaView<'_, u64>, books: &mut Books) -> Result<()> {
        self.write_bytes(frame, books)?;
        if !self.format.classes {
            return Ok(());
        }
        let stream = frame.stream().clone();
        let mut launch = stream.launch_builder(self.choose.function());
        let codewords = books.codebooks.codewords();
        launch.arg(counts).arg(&codewords).arg(&books.summaries).arg(&mut books.used);
        // SAFETY: the kernel's parameters are (const u64 *, const u32 *, const u32 *, u32 *); a block reads its stream's BOOKS * ALPHABET counts and
        // codewords and BOOKS summaries, and writes one number.
        unsafe { launch.launch(Kernel::grid(books.streams, THREADS, 0)) }.doing("choosing codebooks")?;
        Ok(())
    }

    fn write_bytes(&self, frame: &mut Frame<'_>, books: &mut Books) -> Result<()> {
        let stream = frame.stream().clone();
        let count = books.codebooks.books();
        let mut runs = frame.slice::<u32>(count as usize * self.format.alphabet as usize)?;
        let codewords = books.codebooks.codewords();
        let mut launch = stream.launch_builder(self.books.function());
        launch.arg(&codewords).arg(&mut runs).arg(&mut books.summaries).arg(&mut books.bytes);
        // SAFETY: the kernel's parameters are (const u32 *, u32 *, u32 *, u8 *); a block reads ALPHABET codewords and writes up to as many runs, two
        // numbers and up to ALPHABET + 4 bytes, at its number times that.
        unsafe { launch.launch(Kernel::grid(count, THREADS, 0)) }.doing("writing codebooks")?;
        Ok(())
    }
}
