//! Decoding small batches with the symbol index, in one launch: launcher of `kernels/huffman_decode_small.cu`.

use cudarc::driver::DeviceRepr;
use syncline_core::huffman::Symbol;

use super::batch::Totals;
use super::indexed::{LEAST_STAGED_WORDS, MOST_STAGED_WORDS, row_bytes, wanted_words};
use super::{Decoding, LONG_ENTRIES, SHAPES, TABLE_BITS, constants};
use crate::device::{Device, Frame, Kernel, Source, Specialization, Successive};
use crate::error::Result;

const SOURCE: Source =
    Source { name: "huffman_decode_small.cu", text: include_str!("../../../kernels/huffman_decode_small.cu") };

/// Threads in a block: with 512, tables took so long that everything was 8 % slower.
const THREADS: u32 = 1024;
/// Bytes of a block's table.
const TABLE_BYTES: u32 = ((1 << TABLE_BITS) + LONG_ENTRIES) * 4;
/// Shared memory that a block has beside its table and what warps have.
const OWN_SHARED_MEMORY: u32 = 8 << 10;
/// Room for a warp's input in percent of the batch's mean, at least.
const STAGED_PERCENT: u32 = 130;

fn specialization(symbol_bytes: usize, group_log2: u32) -> Specialization {
    let mut constants = constants(symbol_bytes, group_log2, false);
    let row_bytes = row_bytes(false, symbol_bytes, group_log2);
    let own = [("OWN_LONG", LONG_ENTRIES), ("THREADS", THREADS), ("ROW", row_bytes)];
    constants.extend(own.map(|(name, value)| (name, u64::from(value))));
    Specialization { source: SOURCE, constants }
}

/// What the compile check compiles.
pub(super) fn specializations() -> Vec<Specialization> {
    SHAPES.map(|(bytes, group_log2)| specialization(bytes, group_log2)).to_vec()
}

/// How a small batch is laid out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    most_tasks: u32,
    staged_words: u32,
    blocks: u32,
    shared_memory: u32,
}

/// The kernel, and what its blocks may have.
#[derive(Debug, Clone)]
pub(super) struct Small {
    kernel: Kernel,
    tile_bytes: u32,
    multiprocessors: u32,
    shared_memory: u32,
}

impl Small {
    pub fn new<S: Symbol>(device: &Device, group_log2: u32) -> Result<Self> {
        let shared_memory = device.info().shared_memory_per_block.saturating_sub(OWN_SHARED_MEMORY);
        let kernel = device.kernel(&specialization(S::BYTES, group_log2), "decode_small")?;
        kernel.allow_shared_memory(shared_memory)?;
        let tile_bytes = 32 * row_bytes(false, S::BYTES, group_log2);
        Ok(Self { kernel, tile_bytes, multiprocessors: device.info().multiprocessors, shared_memory })
    }

    /// How to launch a batch; `None` if it is not small: more than a block a multiprocessor, a warp an index block, each block those of one stream.
    pub fn plan(&self, totals: &Totals) -> Option<Plan> {
        if totals.streams == 0 || totals.most_books > 1 {
            return None;
        }
        // Streams have a block each that is not full.
        let full = self.multiprocessors.checked_sub(totals.streams).filter(|&full| full > self.multiprocessors / 2)?;
        let most_tasks = totals.tasks.div_ceil(full).max(1);
        let room = self.shared_memory.checked_sub(TABLE_BYTES)? / most_tasks;
        let staged_words = (room.checked_sub(self.tile_bytes)? / 16 * 4).min(MOST_STAGED_WORDS);
        let wanted = wanted_words(totals.bits / u64::from(totals.tasks.max(1)), STAGED_PERCENT);
        (most_tasks <= THREADS / 32 && staged_words >= wanted.max(LEAST_STAGED_WORDS)).then_some(Plan {
            most_tasks,
            staged_words,
            blocks: totals.tasks.div_ceil(most_tasks) + totals.streams,
            shared_memory: TABLE_BYTES + most_tasks * (self.tile_bytes + staged_words * 4),
        })
    }

    /// Decodes the batch, whose plan it is.
    pub fn launch<S: Symbol + DeviceRepr>(
        &self,
        frame: &mut Frame<'_>,
        work: &mut Decoding<'_, '_, S>,
        plan: Plan,
    ) -> Result<()> {
        let streams = work.batch.totals.streams;
        let mut sums = frame.counters(3 * streams as usize + 1)?;
        let launch = Successive::new(&self.kernel, frame.stream()).reads(work.input).reads(&work.batch.descriptors);
        let launch = launch.value(streams).reads(&work.batch.books).reads(&work.batch.symbols);
        let launch = launch.reads(&work.batch.sums).value(plan.most_tasks).value(plan.staged_words);
        let launch = launch.value(u32::from(work.batch.keep_status)).writes(&mut sums);
        let launch = launch.writes(&mut *work.status).writes(&mut *work.output);
        // SAFETY: parameters (const u8 *, const Stream *, u32, const Book *, const u16 *, const Totals *, u32, u32, u32, u32 *, u32 *, u8 *). Descriptors were made from parsed
        // streams whose bytes lie in the input and whose symbols in the output (`Decoding::check`); positions that the device's bytes give are bounded by the stream's bits, groups by
        // its groups. Counters are three for each stream and one more. Shared memory is what the kernel lays out: a table, then a tile and `staged_words` words for each
        // of `most_tasks` warps, of which a block has no fewer.
        unsafe { launch.launch(Kernel::grid(plan.blocks, THREADS, plan.shared_memory)) }
    }
}
