//! Decoding small batches with the symbol index, in one launch: launcher of `kernels/huffman/decode/small.cu`.

#![allow(unsafe_code)]

use cudarc::driver::DeviceRepr;
use syncline_core::huffman::Symbol;

use super::batch::{Descriptor, Totals};
use super::indexed::{LEAST_STAGED_WORDS, MOST_STAGED_WORDS, row_bytes, wanted_words};
use super::listed::{List, MOST_BLOCKS, MOST_LISTED, TALLY_WORDS};
use super::{Decoding, SHAPES, TABLE_BITS, constants};
use crate::device::{Device, Frame, Kernel, Source, Specialization, Successive, source};
use crate::error::Result;

const SOURCE: Source = source!("huffman/decode/small.cu");

/// Threads in a block: with 512, tables took so long that everything was 8 % slower.
const THREADS: u32 = 1024;
/// Entries for long codewords in a block's table.
const OWN_LONG: u32 = 4096;
/// Bytes of a block's table.
const TABLE_BYTES: u32 = ((1 << TABLE_BITS) + OWN_LONG) * 4;
/// Shared memory that a block has beside its table and what warps have.
const OWN_SHARED_MEMORY: u32 = 8 << 10;
/// Codes of so many eighths of a bit on average at most are decoded by runs of their commonest symbol: with more there
/// is hardly a run.
const RUNS_EIGHTHS: u64 = 11;
/// Room for a warp's input in percent of the batch's mean, at least.
const STAGED_PERCENT: u32 = 130;

fn specialization(symbol_bytes: usize, group_log2: u32, runs: bool) -> Specialization {
    let mut constants = constants(symbol_bytes, group_log2, false);
    let row_bytes = row_bytes(false, symbol_bytes, group_log2);
    let own = [("OWN_LONG", OWN_LONG), ("THREADS", THREADS), ("ROW", row_bytes)];
    constants.extend(own.map(|(name, value)| (name, u64::from(value))));
    constants.extend([("RUNS", runs.into()), ("LISTED", MOST_LISTED as u64), ("LISTED_BLOCKS", MOST_BLOCKS as u64)]);
    Specialization { source: SOURCE, constants }
}

/// What the compile check compiles.
pub(super) fn specializations() -> Vec<Specialization> {
    let of = |runs| SHAPES.map(|(bytes, group_log2)| specialization(bytes, group_log2, runs));
    [of(false), of(true)].concat()
}

/// How a small batch is laid out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    runs: bool,
    most_tasks: u32,
    staged_words: u32,
    blocks: u32,
    shared_memory: u32,
}

/// A kernel, and bytes of its warps' tiles.
#[derive(Debug, Clone)]
struct Variant {
    kernel: Kernel,
    tile_bytes: u32,
}

/// The kernels, by single symbols and by runs, and what their blocks may have.
#[derive(Debug, Clone)]
pub(super) struct Small {
    variants: [Variant; 2],
    multiprocessors: u32,
    shared_memory: u32,
}

impl Small {
    pub fn new<S: Symbol>(device: &Device, group_log2: u32) -> Result<Self> {
        let shared_memory = device.info().shared_memory_per_block.saturating_sub(OWN_SHARED_MEMORY);
        // By runs a row is a whole group, and 16 bytes more.
        let whole_row = ((S::BYTES as u32) << group_log2) + 16;
        let variant = |runs, row_bytes| -> Result<Variant> {
            let kernel = device.kernel(&specialization(S::BYTES, group_log2, runs), "decode_small")?;
            kernel.allow_shared_memory(shared_memory)?;
            Ok(Variant { kernel, tile_bytes: 32 * row_bytes })
        };
        let variants = [variant(false, row_bytes(false, S::BYTES, group_log2))?, variant(true, whole_row)?];
        Ok(Self { variants, multiprocessors: device.info().multiprocessors, shared_memory })
    }

    /// How to launch a batch; `None` if it is not small: more than a block a multiprocessor, a warp an index block,
    /// each block those of one stream.
    pub fn plan(&self, totals: &Totals) -> Option<Plan> {
        if totals.streams == 0 || totals.most_books > 1 {
            return None;
        }
        // Streams have a block each that is not full.
        let full = self.multiprocessors.checked_sub(totals.streams).filter(|&full| full > self.multiprocessors / 2)?;
        let most_tasks = totals.tasks.div_ceil(full).max(1);
        if most_tasks > THREADS / 32 {
            return None;
        }
        // Where there is little to decode there is all the more to fill.
        let blocks = (totals.tasks.div_ceil(most_tasks) + totals.streams).max(self.multiprocessors);
        if blocks as usize > MOST_BLOCKS {
            return None;
        }
        let room = self.shared_memory.checked_sub(TABLE_BYTES)? / most_tasks;
        let wanted = wanted_words(totals.bits / u64::from(totals.tasks.max(1)), STAGED_PERCENT).max(LEAST_STAGED_WORDS);
        let plan = |runs| {
            let tile_bytes = self.variants[usize::from(runs)].tile_bytes;
            let staged_words = (room.checked_sub(tile_bytes)? / 16 * 4).min(MOST_STAGED_WORDS);
            (staged_words >= wanted).then_some(Plan {
                runs,
                most_tasks,
                staged_words,
                blocks,
                shared_memory: TABLE_BYTES + most_tasks * (tile_bytes + staged_words * 4),
            })
        };
        let has_runs = totals.bits * 8 <= totals.live_symbols * RUNS_EIGHTHS;
        has_runs.then(|| plan(true)).flatten().or_else(|| plan(false))
    }

    /// Decodes the batch, whose plan it is.
    pub fn launch<S: Symbol + DeviceRepr>(
        &self,
        frame: &mut Frame<'_>,
        work: &mut Decoding<'_, '_, S>,
        plan: Plan,
    ) -> Result<()> {
        let streams = work.batch.totals.streams;
        // Batches parsed on the device are not listed.
        let list = List::new(work.batch.listed, plan.blocks, plan.most_tasks, Descriptor::tasks);
        let mut sums = frame.counters(TALLY_WORDS * streams as usize)?;
        let launch = Successive::new(&self.variants[usize::from(plan.runs)].kernel, frame.stream())
            .reads(work.input)
            .reads(&work.batch.descriptors);
        let launch = launch.value(streams).reads(&work.batch.books).reads(&work.batch.symbols);
        let launch = launch.reads(&work.batch.sums).value(plan.most_tasks).value(plan.staged_words);
        let launch = launch.value(u32::from(work.batch.keep_status)).writes(&mut sums);
        let launch = launch.writes(&mut *work.status).writes(&mut *work.output).value(list.unwrap_or_else(List::none));
        // SAFETY: parameters (const u8 *, const Stream *, u32, const Book *, const u16 *, const Totals *, u32, u32,
        // u32, Tally *, u32 *, u8 *, List). Descriptors were made from parsed streams whose bytes lie in the input and
        // whose symbols in the output (`Decoding::check`); positions that the device's bytes give are bounded by the
        // stream's bits, groups by its groups. Counters are a tally for each stream, and start where an allocation
        // does, on a multiple of 8. Shared memory is what the kernel lays out: a table, then a tile and `staged_words`
        // words for each of `most_tasks` warps, of which a block has no fewer. Blocks beyond the streams' have nothing
        // to decode.
        unsafe { launch.launch(Kernel::grid(plan.blocks, THREADS, plan.shared_memory)) }
    }
}
