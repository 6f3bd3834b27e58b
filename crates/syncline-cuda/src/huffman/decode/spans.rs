//! Decoding from where subsequences start: launchers of `kernels/huffman_decode_spans.cu`.

use cudarc::driver::{CudaViewMut, DeviceRepr, PushKernelArg};
use syncline_core::huffman::{SUBSEQUENCE_BITS, Symbol};

use super::batch::Totals;
use super::{Decoding, LONG_ENTRIES, SEQUENCE, SHAPES, Scratch, TABLE_BITS, constants};
use crate::device::{Arena, Device, Frame, Kernel, Source, Specialization};
use crate::error::{CudaError, DriverContext, Result};

const SOURCE: Source =
    Source { name: "huffman_decode_spans.cu", text: include_str!("../../../kernels/huffman_decode_spans.cu") };

/// Subsequences that a warp decodes at a time.
const SPAN: u32 = 32;
/// Shared memory that a block which writes declares: descriptions of the stream and its codebook.
const OWN_SHARED_MEMORY: u32 = 1 << 10;
/// Blocks that build a table for whole codewords.
const FULL_TABLE_BLOCKS: u32 = 8;
/// Symbols that a buffer is a multiple of.
const BUFFER_STEP: u32 = 64;
/// Most symbols of a span: no codeword is shorter than a bit.
const MOST_ROOM: u32 = SPAN * SUBSEQUENCE_BITS;
/// Longest codewords that a table for whole codewords takes, and what symbols are below.
pub(super) const FULL_BITS: u32 = 16;
pub(super) const FULL_SYMBOLS: u16 = 1 << 11;

/// What an observer of a launch's steps is given: a step's name, when all of it is queued.
pub(super) type Step<'s> = &'s mut dyn FnMut(&'static str) -> Result<()>;

/// What decides speed only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpansTuning {
    /// Threads in a block.
    pub threads: u32,
    /// Blocks that a multiprocessor should have room for: what registers allow.
    pub blocks: u32,
    /// Symbols of a span that a warp has room for at most; `None`: as many as fit. What does not fit goes in several rounds.
    pub room: Option<u32>,
    /// How codewords are looked up; `None`: as suits the batch.
    pub lookup: Option<Lookup>,
}

impl Default for SpansTuning {
    fn default() -> Self {
        Self { threads: 1024, blocks: 1, room: None, lookup: None }
    }
}

/// What a lookup gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lookup {
    /// A codeword of up to 12 bits.
    Single,
    /// Two, where they have up to 12 bits together: where they mostly do.
    Pairs,
    /// A codeword of up to 16 bits, for symbols below 2,048: a table of 128 KiB, where there is that much shared memory.
    Full,
}

impl Lookup {
    const ALL: [Self; 3] = [Self::Single, Self::Pairs, Self::Full];

    /// Bytes of a codebook's table.
    fn table_bytes(self) -> u32 {
        match self {
            Self::Single | Self::Pairs => ((1 << TABLE_BITS) + LONG_ENTRIES) * 4,
            Self::Full => 2 << FULL_BITS,
        }
    }

    /// The least that a warp's buffer needs beside the table.
    fn fits(self, shared_memory: u32, threads: u32) -> bool {
        let buffers = threads / 32 * BUFFER_STEP * 4;
        shared_memory >= OWN_SHARED_MEMORY + self.table_bytes() + buffers
    }
}

fn specialization(symbol_bytes: usize, group_log2: u32, lookup: Lookup, tuning: SpansTuning) -> Specialization {
    let mut constants = constants(symbol_bytes, group_log2, lookup == Lookup::Pairs);
    constants.extend([("SEQUENCE", SEQUENCE.into()), ("THREADS", tuning.threads.into())]);
    constants.extend([("BLOCKS", tuning.blocks.into()), ("FULL", (lookup == Lookup::Full).into())]);
    Specialization { source: SOURCE, constants }
}

/// What the compile check compiles, for a device with this much shared memory a block.
pub(super) fn specializations(shared_memory: u32) -> Vec<Specialization> {
    let tuning = SpansTuning::default();
    let lookups = Lookup::ALL.into_iter().filter(|lookup| lookup.fits(shared_memory, tuning.threads));
    lookups.flat_map(|lookup| SHAPES.map(|(bytes, log2)| specialization(bytes, log2, lookup, tuning))).collect()
}

/// Where the codewords of subsequences start, and how many there are.
pub(super) struct Entries<'a> {
    /// Bits from each subsequence's start to its first codeword.
    pub entries: CudaViewMut<'a, u8>,
    /// Codewords that start in each subsequence: at most its 128 bits.
    pub counts: CudaViewMut<'a, u8>,
}

impl<'a> Entries<'a> {
    pub fn new(frame: &mut Frame<'a>, totals: &Totals) -> Result<Self> {
        let subsequences = totals.subsequences as usize;
        Ok(Self { entries: frame.slice(subsequences)?, counts: frame.slice(subsequences)? })
    }
}

/// Bytes of scratch memory for entries, counts, sums of spans, and tables for whole codewords where they are used.
pub(super) fn workspace(totals: &Totals) -> usize {
    let subsequences = totals.subsequences as usize;
    let full = if totals.full_books == totals.books { totals.books as usize } else { 0 };
    2 * Arena::bytes_for::<u8>(subsequences)
        + Arena::bytes_for::<u32>(subsequences / SPAN as usize)
        + Arena::bytes_for::<u8>(full * Lookup::Full.table_bytes() as usize)
}

/// Blocks of so many threads that run at a time, or fewer if there are fewer sequences.
pub(super) fn one_wave(
    kernel: &Kernel,
    threads: u32,
    shared_memory: u32,
    multiprocessors: u32,
    totals: &Totals,
) -> Result<u32> {
    let resident = kernel.blocks_per_multiprocessor(threads, shared_memory)?.max(1);
    Ok((resident * multiprocessors).min(totals.sequences))
}

/// The kernels.
#[derive(Debug, Clone)]
pub(super) struct Spans {
    count: Kernel,
    scan: Kernel,
    full_tables: Kernel,
    /// In the order of [`Lookup::ALL`]; those that the device has the memory for.
    write: [Option<Kernel>; 3],
    tuning: SpansTuning,
    symbol_bytes: u32,
    /// Bytes that a block's table and buffers may have.
    shared_memory: u32,
    multiprocessors: u32,
}

impl Spans {
    pub fn new<S: Symbol>(device: &Device, group_log2: u32, tuning: SpansTuning) -> Result<Self> {
        if tuning.room.is_some_and(|room| room < BUFFER_STEP) || tuning.blocks == 0 {
            return Err(CudaError::invalid("a buffer has room for 64 symbols, a multiprocessor for a block"));
        }
        if !(32..=1024).contains(&tuning.threads) || !tuning.threads.is_multiple_of(32) {
            return Err(CudaError::invalid("a block has whole warps, at most 32"));
        }
        let shared_memory = device.info().shared_memory_per_block.saturating_sub(OWN_SHARED_MEMORY);
        let kernel = |lookup, name| device.kernel(&specialization(S::BYTES, group_log2, lookup, tuning), name);
        let write = |lookup: Lookup| -> Result<Option<Kernel>> {
            let wanted = tuning.lookup.is_none_or(|only| only == lookup);
            if !wanted || !lookup.fits(device.info().shared_memory_per_block, tuning.threads) {
                return Ok(None);
            }
            let kernel = kernel(lookup, "spans_write")?;
            kernel.allow_shared_memory(shared_memory)?;
            Ok(Some(kernel))
        };
        let [single, pairs, full] = Lookup::ALL;
        Ok(Self {
            count: kernel(single, "spans_count")?,
            scan: kernel(single, "spans_scan")?,
            full_tables: kernel(single, "spans_tables")?,
            write: [write(single)?, write(pairs)?, write(full)?],
            tuning,
            symbol_bytes: S::BYTES as u32,
            shared_memory,
            multiprocessors: device.info().multiprocessors,
        })
    }

    /// How to look up a batch's codewords, and the kernel that does.
    fn lookup(&self, totals: &Totals) -> Result<(Lookup, &Kernel)> {
        let fits = |lookup: &Lookup| match lookup {
            Lookup::Single => true,
            Lookup::Pairs => self.tuning.lookup.is_some() || totals.pairs(),
            Lookup::Full => totals.full_books == totals.books,
        };
        let mut possible = [Lookup::Pairs, Lookup::Full, Lookup::Single].into_iter().filter(fits);
        let found = possible.find_map(|lookup| Some((lookup, self.write[lookup as usize].as_ref()?)));
        found.ok_or_else(|| CudaError::invalid("the lookup asked for does not do for these codebooks, or this device"))
    }

    /// Symbols that a warp gathers at a time: as many as fit. Fields are uneven, and with room for little more than the mean, spans of many symbols took several rounds and
    /// half of the time on some of the papers' sets.
    fn room(&self, lookup: Lookup) -> u32 {
        let buffers = (self.shared_memory / self.tuning.blocks).saturating_sub(lookup.table_bytes());
        let most = buffers / self.symbol_bytes / (self.tuning.threads / 32);
        let room = most.min(self.tuning.room.unwrap_or(MOST_ROOM)).min(MOST_ROOM);
        room.max(BUFFER_STEP) / BUFFER_STEP * BUFFER_STEP
    }

    /// Entries and counts of streams with the gap index.
    pub fn count<S: Symbol + DeviceRepr>(
        &self,
        frame: &Frame<'_>,
        work: &Decoding<'_, '_, S>,
        scratch: &Scratch<'_>,
        found: &mut Entries<'_>,
    ) -> Result<()> {
        let totals = work.batch.totals;
        if totals.sequences == 0 {
            return Ok(());
        }
        let tables = scratch.tables.as_view();
        let mut launch = frame.stream().launch_builder(self.count.function());
        launch.arg(work.input).arg(&work.batch.descriptors).arg(&totals.streams);
        launch.arg(&work.batch.books).arg(&tables).arg(&work.batch.sums);
        launch.arg(&mut found.entries).arg(&mut found.counts);
        let blocks = one_wave(&self.count, self.tuning.threads, 0, self.multiprocessors, &totals)?;
        let grid = Kernel::grid(blocks, self.tuning.threads, 0);
        // SAFETY: parameters (const u8 *, const Stream *, u32, const Book *, const u32 *, const Totals *, u8 *, u8 *): words and gaps are read within what the
        // descriptors say (`Decoding::check`); a byte of each for each subsequence.
        unsafe { launch.launch(grid) }.doing("counting codewords")?;
        Ok(())
    }

    /// Decodes what starts as `found` says.
    pub fn write<S: Symbol + DeviceRepr>(
        &self,
        frame: &mut Frame<'_>,
        work: &mut Decoding<'_, '_, S>,
        scratch: &mut Scratch<'_>,
        found: &Entries<'_>,
        step: Step<'_>,
    ) -> Result<()> {
        let totals = work.batch.totals;
        if totals.streams == 0 {
            return Ok(());
        }
        let mut before = frame.slice::<u32>((totals.subsequences / SPAN) as usize)?;
        let (entries, counts) = (found.entries.as_view(), found.counts.as_view());
        let stream = frame.stream().clone();
        let mut launch = stream.launch_builder(self.scan.function());
        launch.arg(&work.batch.descriptors).arg(&counts).arg(&mut before).arg(&mut *work.status);
        // SAFETY: parameters (const Stream *, const u8 *, u32 *, u32 *): a block and a word of status for each stream, a count for each subsequence, a sum for each
        // 32 of them, which whole sequences have.
        unsafe { launch.launch(Kernel::grid(totals.streams, self.tuning.threads, 0)) }.doing("adding up counts")?;
        step("output index")?;
        if totals.sequences == 0 {
            return Ok(());
        }

        let (lookup, kernel) = self.lookup(&totals)?;
        let tables = match lookup {
            Lookup::Full => Some(self.full_tables(frame, work, scratch)?),
            Lookup::Single | Lookup::Pairs => None,
        };
        let tables = tables.as_ref().unwrap_or(&scratch.tables).as_view();
        let room = self.room(lookup);
        let shared_memory = lookup.table_bytes() + self.tuning.threads / 32 * room * self.symbol_bytes;
        let blocks = one_wave(kernel, self.tuning.threads, shared_memory, self.multiprocessors, &totals)?;
        let (map, before) = (scratch.map.as_view(), before.as_view());
        let mut launch = stream.launch_builder(kernel.function());
        launch.arg(work.input).arg(&work.batch.descriptors).arg(&totals.streams);
        launch.arg(&work.batch.books).arg(&tables).arg(&work.batch.symbols).arg(&map);
        launch.arg(&entries).arg(&counts).arg(&before).arg(&work.batch.sums).arg(&room);
        launch.arg(&mut scratch.sums).arg(&mut *work.output);
        let grid = Kernel::grid(blocks, self.tuning.threads, shared_memory);
        // SAFETY: parameters (const u8 *, const Stream *, u32, const Book *, const u32 *, const u16 *, const u32 *, const u8 *, const u8 *, const u32 *,
        // const Totals *, u32, u32 *, u8 *). Words are read within what the descriptors say (`Decoding::check`), symbols written up to the live groups' number to groups within the
        // stream. Shared memory is a table and a buffer of `room` symbols for each warp.
        unsafe { launch.launch(grid) }.doing("decoding")?;
        step("decoding and writing")
    }

    /// Tables for whole codewords.
    fn full_tables<'a, S: Symbol + DeviceRepr>(
        &self,
        frame: &mut Frame<'a>,
        work: &Decoding<'_, '_, S>,
        scratch: &Scratch<'_>,
    ) -> Result<CudaViewMut<'a, u32>> {
        let books = work.batch.totals.books;
        let mut full = frame.slice::<u32>(books as usize * (Lookup::Full.table_bytes() / 4) as usize)?;
        let tables = scratch.tables.as_view();
        let mut launch = frame.stream().launch_builder(self.full_tables.function());
        launch.arg(&work.batch.books).arg(&work.batch.symbols).arg(&tables).arg(&mut full);
        let mut grid = Kernel::grid(books, self.tuning.threads, 0);
        grid.grid_dim.1 = FULL_TABLE_BLOCKS;
        // SAFETY: parameters (const Book *, const u16 *, const u32 *, u16 *): blocks for each of the batch's books, which have tables, and 2^16 entries each.
        unsafe { launch.launch(grid) }.doing("building tables")?;
        Ok(full)
    }
}
