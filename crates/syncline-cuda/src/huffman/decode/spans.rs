//! Decoding from where subsequences start: launchers of `kernels/huffman_decode_spans.cu`.

use cudarc::driver::{CudaViewMut, DeviceRepr, PushKernelArg};
use syncline_core::huffman::Symbol;

use super::batch::Totals;
use super::{Decoding, SEQUENCE, SHAPES, Scratch, constants};
use crate::device::{Device, Frame, Kernel, Source, Specialization};
use crate::error::{CudaError, DriverContext, Result};

const SOURCE: Source =
    Source { name: "huffman_decode_spans.cu", text: include_str!("../../../kernels/huffman_decode_spans.cu") };

/// Subsequences that a warp decodes at a time.
const SPAN: u32 = 32;
/// Shared memory that a block which writes has beside its warps' buffers: tables and a little.
const OWN_SHARED_MEMORY: u32 = 26 << 10;
/// Symbols that a buffer is a multiple of.
const BUFFER_STEP: u64 = 64;

/// What an observer of a launch's steps is given: a step's name, when all of it is queued.
pub(super) type Step<'s> = &'s mut dyn FnMut(&'static str) -> Result<()>;

/// What decides speed only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpansTuning {
    /// Threads in a block.
    pub threads: u32,
    /// Blocks that a multiprocessor should have room for: what registers allow.
    pub blocks: u32,
    /// Room for a span's symbols in percent of the batch's mean: what does not fit goes in several rounds.
    pub staged_percent: u32,
    /// Whether codewords are looked up in pairs; `None`: where two mostly fit.
    pub pairs: Option<bool>,
}

impl Default for SpansTuning {
    fn default() -> Self {
        Self { threads: 512, blocks: 2, staged_percent: 115, pairs: None }
    }
}

fn specialization(symbol_bytes: usize, group_log2: u32, pairs: bool, tuning: SpansTuning) -> Specialization {
    let mut constants = constants(symbol_bytes, group_log2, pairs);
    constants.extend([("SEQUENCE", SEQUENCE.into()), ("THREADS", tuning.threads.into())]);
    constants.push(("BLOCKS", tuning.blocks.into()));
    Specialization { source: SOURCE, constants }
}

/// What the compile check compiles.
pub(super) fn specializations() -> Vec<Specialization> {
    let of = |pairs| SHAPES.map(|(bytes, log2)| specialization(bytes, log2, pairs, SpansTuning::default()));
    [of(false), of(true)].concat()
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
    /// For long codewords, and for short.
    write: [Kernel; 2],
    tuning: SpansTuning,
    symbol_bytes: u64,
    /// Bytes that a block's buffers may have.
    buffer_bytes: u64,
    multiprocessors: u32,
}

impl Spans {
    pub fn new<S: Symbol>(device: &Device, group_log2: u32, tuning: SpansTuning) -> Result<Self> {
        if tuning.staged_percent == 0 || tuning.blocks == 0 {
            return Err(CudaError::invalid("a buffer has room for something, a multiprocessor for a block"));
        }
        if !(32..=1024).contains(&tuning.threads) || !tuning.threads.is_multiple_of(32) {
            return Err(CudaError::invalid("a block has whole warps, at most 32"));
        }
        let specialization = |pairs| specialization(S::BYTES, group_log2, pairs, tuning);
        let room = device.info().shared_memory_per_block.saturating_sub(OWN_SHARED_MEMORY);
        let write = |pairs| -> Result<Kernel> {
            let kernel = device.kernel(&specialization(pairs), "spans_write")?;
            kernel.allow_shared_memory(room)?;
            Ok(kernel)
        };
        Ok(Self {
            count: device.kernel(&specialization(false), "spans_count")?,
            scan: device.kernel(&specialization(false), "spans_scan")?,
            write: [write(false)?, write(true)?],
            tuning,
            symbol_bytes: S::BYTES as u64,
            buffer_bytes: room.into(),
            multiprocessors: device.info().multiprocessors,
        })
    }

    /// Symbols that a warp gathers at a time.
    fn room(&self, totals: &Totals) -> u32 {
        let mean = totals.live_symbols * u64::from(SPAN) / u64::from(totals.subsequences.max(1));
        let wanted = mean.saturating_mul(self.tuning.staged_percent.into()) / 100 + BUFFER_STEP;
        let warps = u64::from(self.tuning.threads / 32);
        let most = self.buffer_bytes / self.symbol_bytes / warps / BUFFER_STEP * BUFFER_STEP;
        wanted.next_multiple_of(BUFFER_STEP).min(most) as u32
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

        let room = self.room(&totals);
        let shared_memory = self.tuning.threads / 32 * room * self.symbol_bytes as u32;
        let kernel = &self.write[usize::from(self.tuning.pairs.unwrap_or(totals.pairs()))];
        let blocks = one_wave(kernel, self.tuning.threads, shared_memory, self.multiprocessors, &totals)?;
        let (tables, map, before) = (scratch.tables.as_view(), scratch.map.as_view(), before.as_view());
        let mut launch = stream.launch_builder(kernel.function());
        launch.arg(work.input).arg(&work.batch.descriptors).arg(&totals.streams);
        launch.arg(&work.batch.books).arg(&tables).arg(&work.batch.symbols).arg(&map);
        launch.arg(&entries).arg(&counts).arg(&before).arg(&work.batch.sums).arg(&room);
        launch.arg(&mut scratch.sums).arg(&mut *work.output);
        let grid = Kernel::grid(blocks, self.tuning.threads, shared_memory);
        // SAFETY: parameters (const u8 *, const Stream *, u32, const Book *, const u32 *, const u16 *, const u32 *, const u8 *, const u8 *, const u32 *,
        // const Totals *, u32, u32 *, u8 *). Words are read within what the descriptors say (`Decoding::check`), symbols written up to the live groups' number to groups within the
        // stream. Shared memory is a buffer of `room` symbols for each warp.
        unsafe { launch.launch(grid) }.doing("decoding")?;
        step("decoding and writing")
    }
}
