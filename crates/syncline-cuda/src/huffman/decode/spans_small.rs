//! Decoding small batches from subsequences, in one launch: launcher of `kernels/huffman/decode/spans_small.cu`.

#![allow(unsafe_code)]

use cudarc::driver::DeviceRepr;
use syncline_core::huffman::lengths::MAX_LENGTH;
use syncline_core::huffman::{SUBSEQUENCE_BITS, Symbol};

use super::batch::{BatchView, Descriptor};
use super::listed::{List, MOST_BLOCKS, MOST_LISTED, TALLY_WORDS};
use super::spans::{BUFFER_STEP, LEAST_ROOM, MOST_ROOM, SPAN};
use super::{Decoding, LONG_ENTRIES, SEQUENCE, SHAPES, TABLE_BITS, constants};
use crate::device::{Device, Frame, Kernel, Source, Specialization, Successive, source};
use crate::error::{CudaError, Result};

const SOURCE: Source = source!("huffman/decode/spans_small.cu");

/// Threads in a block.
const THREADS: u32 = 1024;
const WARPS: u32 = THREADS / 32;
/// Rounds of synchronizing before a block composes functions instead, which takes as long as some twenty of them.
const ROUNDS: u32 = 16;
/// Bytes of a block's table.
const TABLE_BYTES: u32 = ((1 << TABLE_BITS) + LONG_ENTRIES) * 4;
/// Shared memory that a block has beside what is laid out here.
const OWN_SHARED_MEMORY: u32 = 12 << 10;
/// Spans of a block, at most: not many more than 10 MB of the papers' sets have. The kernel has room for 128.
const MOST_SPANS: u32 = 72;
/// Parts of subsequences of a block that has so few spans that it splits them, at most: a row for each warp, and a span
/// before them.
const SPLIT_PARTS: u32 = (WARPS + 4) * 32;
/// Bytes behind words that are looked at.
const SLACK_BYTES: u32 = 32;
/// Symbols of a small batch, at most, in bytes: larger ones keep the device busy with kernels one after another.
const MOST_BYTES: u64 = 16 << 20;

fn specialization(symbol_bytes: usize, group_log2: u32, gaps: bool) -> Specialization {
    let mut constants = constants(symbol_bytes, group_log2, false);
    constants.extend([("SEQUENCE", SEQUENCE.into()), ("THREADS", THREADS.into())]);
    constants.extend([("HAS_GAPS", gaps.into()), ("ROUNDS", ROUNDS.into())]);
    constants.extend([("LISTED", MOST_LISTED as u64), ("LISTED_BLOCKS", MOST_BLOCKS as u64)]);
    Specialization { source: SOURCE, constants }
}

/// What the compile check compiles.
pub(super) fn specializations() -> Vec<Specialization> {
    let of = |gaps| SHAPES.map(|(bytes, group_log2)| specialization(bytes, group_log2, gaps));
    [of(false), of(true)].concat()
}

/// How a small batch is laid out.
#[derive(Debug, Clone, Copy)]
struct Plan {
    spans: u32,
    parts: u32,
    room: u32,
    blocks: u32,
    shared_memory: u32,
}

/// The kernel, and what its blocks may have.
#[derive(Debug, Clone)]
pub(super) struct SpansSmall {
    kernel: Kernel,
    symbol_bytes: u32,
    group_log2: u32,
    multiprocessors: u32,
    shared_memory: u32,
}

impl SpansSmall {
    /// `gaps`: whether streams have the gap index.
    pub fn new<S: Symbol>(device: &Device, group_log2: u32, gaps: bool) -> Result<Self> {
        let shared_memory = device.info().shared_memory_per_block.saturating_sub(OWN_SHARED_MEMORY);
        let kernel = device.kernel(&specialization(S::BYTES, group_log2, gaps), "spans_small")?;
        kernel.allow_shared_memory(shared_memory)?;
        let multiprocessors = device.info().multiprocessors;
        Ok(Self { kernel, symbol_bytes: S::BYTES as u32, group_log2, multiprocessors, shared_memory })
    }

    /// How to launch a batch; `None` if it is not small: more than a block a multiprocessor, each with spans of one
    /// stream. Nor if it was parsed on the device: that is part of more, which may be captured in a graph, and counters
    /// cannot be made then.
    fn plan<S>(&self, batch: &BatchView<'_, S>) -> Option<Plan> {
        let totals = &batch.totals;
        let streams = totals.streams;
        let bytes = totals.live_symbols * u64::from(self.symbol_bytes);
        if streams == 0 || totals.most_books > 1 || bytes > MOST_BYTES {
            return None;
        }
        // Streams have a block each that is not full.
        let full = self.multiprocessors.checked_sub(streams).filter(|&full| full > self.multiprocessors / 2)?;
        let span_bits = SPAN * SUBSEQUENCE_BITS;
        let all = (totals.bits / u64::from(span_bits) + u64::from(streams))
            .min(u64::from(totals.sequences) * u64::from(SEQUENCE / SPAN));
        let spans = u32::try_from(all).ok()?.div_ceil(full).max(1);
        if spans > MOST_SPANS {
            return None;
        }
        let parts = ((spans + 1) * SPAN).max(SPLIT_PARTS);
        let words = (spans + 1) * span_bits / 8 + SLACK_BYTES;
        let places = (spans * (span_bits >> self.group_log2) + 4) * 4;
        let before_buffers = TABLE_BYTES + words + places + 2 * parts + 2 * (spans + 1) * SPAN;
        let buffers = self.shared_memory.checked_sub(before_buffers)?;
        let room = (buffers / self.symbol_bytes / WARPS).min(MOST_ROOM) / BUFFER_STEP * BUFFER_STEP;
        // Functions of subsequences and spans are in the place of buffers, and a table for counting.
        let functions = spans * ((SPAN + 1) * MAX_LENGTH + 1) + (4 << TABLE_BITS);
        let buffers = WARPS * room * self.symbol_bytes;
        let blocks = full + streams;
        (room >= LEAST_ROOM && functions <= buffers && List::fits(batch.listed, blocks)).then_some(Plan {
            spans,
            parts,
            room,
            blocks,
            shared_memory: before_buffers + buffers,
        })
    }

    /// Decodes the batch if it is small, and says whether it is.
    pub fn launch_if_small<S: Symbol + DeviceRepr>(
        &self,
        frame: &mut Frame<'_>,
        work: &mut Decoding<'_, '_, S>,
    ) -> Result<bool> {
        let Some(plan) = self.plan(work.batch) else { return Ok(false) };
        self.launch(frame, work, plan)?;
        Ok(true)
    }

    /// Decodes the batch, whose plan it is.
    fn launch<S: Symbol + DeviceRepr>(
        &self,
        frame: &mut Frame<'_>,
        work: &mut Decoding<'_, '_, S>,
        plan: Plan,
    ) -> Result<()> {
        let streams = work.batch.totals.streams;
        let spans_of = |descriptor: &Descriptor| descriptor.bits().div_ceil(SPAN * SUBSEQUENCE_BITS);
        let all: u32 = work.batch.listed.iter().map(spans_of).sum();
        let most = all.div_ceil(plan.blocks.saturating_sub(streams).max(1)).max(1);
        let list = List::new(work.batch.listed, plan.blocks, most, spans_of)
            .ok_or_else(|| CudaError::invalid("the plan is not the batch's"))?;
        let mut states = frame.counters(2 * plan.blocks as usize + TALLY_WORDS * streams as usize)?;
        let launch = Successive::new(&self.kernel, frame.stream()).together(true);
        let launch = launch.reads(work.input).reads(&work.batch.descriptors);
        let launch = launch.value(streams).reads(&work.batch.books).reads(&work.batch.symbols);
        let launch = launch.reads(&work.batch.sums).value(plan.spans).value(plan.parts).value(plan.room);
        let launch = launch.writes(&mut states);
        let launch = launch.writes(&mut *work.status).writes(&mut *work.output).value(list);
        // States are a 64-bit word for each block, then a tally for each stream; all are 0, and counters start where an
        // allocation does, on a multiple of 8. Shared memory is what the kernel lays out: a table; words, places, parts
        // and subsequences of `spans` spans and one more; a buffer of `room` symbols for each warp. There are no more
        // spans than rows (`MOST_SPANS`). The grid is more blocks than streams, and so many that none has more than
        // `spans` spans. A block waits only for others of the grid, which all run at the same time. SAFETY: parameters
        // (const u8 *, const Stream *, u32, const Book *, const u16 *, const Totals *, u32, u32, u32, u64 *, u32 *, u8
        // *, List). Descriptors were made from parsed streams whose bytes lie in the input and whose symbols in the
        // output (`Decoding::check`); symbols are written up to the live groups' number, to groups within the stream;
        // states and shared memory are as said above.
        unsafe { launch.launch(Kernel::grid(plan.blocks, THREADS, plan.shared_memory)) }
    }
}
