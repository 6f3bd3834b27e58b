//! Decoding with the symbol index. Launches `kernels/huffman/decode/indexed.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use crate::device::Specialization;
use crate::huffman::decode::structs::{BatchTotals, CodebookDescriptor, StreamDescriptor};
use cudarc::driver::sys::CUdeviceptr;
use std::cmp::Reverse;

use cudarc::driver::{DevicePtrMut, DeviceRepr};
use syncline_core::huffman::{IndexKind, MAX_CLASSES, Symbol};

use super::batch::BatchView;
use super::prepare::Preparation;
use super::{Decoding, FORMATS, LONG_ENTRIES, SEQUENCE, TABLE_BITS, constants_for};
use crate::device::{Device, Frame, Grid};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, DriverContext, Result};

declare_kernels! {
    /// The kernel of `kernels/huffman/decode/indexed.cu`.
    struct IndexedKernels in "huffman/decode/indexed.cu",
        of (symbol_bytes: usize, group_log2: u32, table_bits: u32, codebooks: u32, pairs: bool, row_bytes: u32)
    {
        with COMMON = constants_for(symbol_bytes, group_log2, table_bits, pairs);
        with CODEBOOKS = codebooks;
        with SHARED_LONG_ENTRIES = long_entries(codebooks);
        with TABLE_SKEW = TABLE_SKEW;
        with THREADS = MAX_THREADS;
        with ROW = row_bytes;
        with SEQUENCE = SEQUENCE;
        fn indexed_decode(
            input: In<u8>, streams: In<StreamDescriptor>, stream_count: u32, codebooks: In<CodebookDescriptor>,
            tables: In<u32>, symbols: In<u16>, classes: In<u8>, map: In<u32>, totals: In<BatchTotals>,
            max_index_blocks: u32, staged_words: u32, sums: Out<u32>, status: Out<u32>, out: CUdeviceptr as "uint8_t *",
        );
    }
}

/// Static shared memory of a block in bytes, an upper bound.
const STATIC_SHARED_MEMORY: u32 = 2048;
/// Maximum number of words that a warp stages: an index block of longest codewords, and the look-ahead.
const MAX_STAGED_WORDS: u32 = 2592;
/// Minimum number of words that a warp stages: a group of longest codewords, and the look-ahead.
const MIN_STAGED_WORDS: u32 = 96;
/// Registers and maximum number of threads per multiprocessor on all architectures since sm_70 (some have fewer
/// threads).
const REGISTERS: u32 = 65_536;
const THREADS_PER_MULTIPROCESSOR: u32 = 2048;
/// Shared memory in bytes that the driver reserves for each block.
const RESERVED_SHARED_MEMORY: u32 = 1024;
/// Maximum mean length of codewords, in bits, for lookups in pairs. With longer ones nearly always some lane of a warp
/// gets one symbol, and the others wait for it.
const PAIRED_BITS: f64 = 1.2;
/// log2 of the number of entries after which a table skips a word, so that entries of codewords with equal last bits
/// are in different banks (`huffman/decode/lookup.cuh`).
const TABLE_SKEW: u32 = 6;
/// Maximum number of threads per block.
const MAX_THREADS: u32 = 1024;
/// Minimum number of threads per block.
const MIN_THREADS: u32 = 128;

/// Launch parameters that affect speed only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IndexedTuning {
    /// Threads per block; `None` chooses the most warps per multiprocessor.
    pub threads: Option<u32>,
    /// Waves of blocks over the device.
    pub waves: u32,
    /// Minimum space for a warp's input in percent of the batch's mean, if it fits; memory that is left over is added.
    pub staged_percent: u32,
    /// Bytes of a group that are collected before they are written, 64 or 128; `None` chooses 128 for lookups in pairs
    /// and 64 otherwise. At high entropy the smaller tile leaves room for more warps (0.75 instead of 0.69 of the copy
    /// rate at 6.2 bits); at low entropy longer writes are faster.
    pub row_bytes: Option<u32>,
    /// Whether codewords are looked up in pairs; `None` decides by their mean length.
    pub pairs: Option<bool>,
}

impl Default for IndexedTuning {
    fn default() -> Self {
        Self { threads: None, waves: 1, staged_percent: 130, row_bytes: None, pairs: None }
    }
}

impl IndexedTuning {
    fn row_bytes(&self, pairs: bool) -> u32 {
        self.row_bytes.unwrap_or(if pairs { 128 } else { 64 })
    }
}

/// Returns the bytes of a row of the tile.
fn row_bytes(pairs: bool, symbol_bytes: usize, group_log2: u32) -> u32 {
    IndexedTuning::default().row_bytes(pairs).min((symbol_bytes as u32) << group_log2)
}

/// Returns the words that a warp should have space for: `percent` of those of a mean index block.
fn wanted_words(bits_per_index_block: u64, percent: u32) -> u32 {
    let wanted = bits_per_index_block.div_ceil(32) * u64::from(percent) / 100 + 8;
    wanted.clamp(MIN_STAGED_WORDS.into(), MAX_STAGED_WORDS.into()) as u32 / 4 * 4
}

/// Returns the entries for long codewords in each table.
fn long_entries(codebooks: u32) -> u32 {
    if codebooks == 1 { LONG_ENTRIES } else { LONG_ENTRIES / 2 }
}

/// Returns the words of a block's tables (`table_words` of `huffman/decode/lookup.cuh`).
fn table_words(codebooks: u32, table_bits: u32) -> u32 {
    let entries = (1 << table_bits) + long_entries(codebooks);
    codebooks * (entries + (entries >> TABLE_SKEW)).next_multiple_of(4)
}

/// Returns the bits of a table lookup: [`TABLE_BITS`], or fewer if the tables of four codebooks and the smallest block
/// do not fit into the shared memory.
pub(super) fn table_bits(shared_memory: u32) -> u32 {
    const MIN_TABLE_BITS: u32 = 10;
    let per_warp = 32 * IndexedTuning::default().row_bytes(true) + 4 * MIN_STAGED_WORDS;
    let others = STATIC_SHARED_MEMORY + MIN_THREADS / 32 * per_warp;
    let fits = |bits: &u32| 4 * table_words(MAX_CLASSES as u32, *bits) + others <= shared_memory;
    (MIN_TABLE_BITS..=TABLE_BITS).rev().find(fits).unwrap_or(MIN_TABLE_BITS)
}

/// Returns the specializations for the compile check.
pub(super) fn specializations(shared_memory: u32) -> Vec<Specialization> {
    let of = |codebooks, pairs| {
        FORMATS.map(|(bytes, group_log2)| {
            let row_bytes = row_bytes(pairs, bytes, group_log2);
            IndexedKernels::specialization(bytes, group_log2, table_bits(shared_memory), codebooks, pairs, row_bytes)
        })
    };
    let most = MAX_CLASSES as u32;
    [of(1, true), of(1, false), of(most, true), of(most, false)].concat()
}

/// A kernel with the resources that its blocks need.
#[derive(Debug, Clone)]
struct Variant {
    kernels: IndexedKernels,
    table_bytes: u32,
    row_bytes: u32,
    /// Threads per multiprocessor that registers allow.
    threads_by_registers: u32,
}

/// Layout of a launch.
#[derive(Debug, Clone, Copy)]
struct LaunchPlan {
    threads: u32,
    staged_words: u32,
    shared_memory: u32,
    resident: u32,
}

/// Decodes streams with the symbol index.
#[derive(Debug, Clone)]
pub struct Indexed<S> {
    preparation: Preparation<S>,
    /// Kernels, indexed by whether there are several codebooks, then by whether lookups are in pairs.
    variants: [[Variant; 2]; 2],
    tuning: IndexedTuning,
    group_log2: u32,
    multiprocessors: u32,
    shared_memory: u32,
}

impl<S: Symbol + DeviceRepr> Indexed<S> {
    /// Creates a decoder for streams with groups of `2^group_log2` symbols.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless `group_log2` is 6 or 7; errors of [`Device::kernel`].
    pub fn new(device: &Device, group_log2: u32) -> Result<Self> {
        Self::with_tuning(device, group_log2, IndexedTuning::default())
    }

    /// Creates a decoder with other launch parameters, for benchmarks and tests.
    ///
    /// # Errors
    /// The errors of [`Self::new`]; [`CudaError::InvalidArgument`] also for parameters that no device supports.
    pub fn with_tuning(device: &Device, group_log2: u32, tuning: IndexedTuning) -> Result<Self> {
        let threads = tuning.threads.unwrap_or(MAX_THREADS);
        if !(32..=MAX_THREADS).contains(&threads) || !threads.is_multiple_of(32) || tuning.waves == 0 {
            return Err(CudaError::invalid(
                "a block must have 32 to 1024 threads in whole warps, and there must be at least one wave",
            ));
        }
        if !matches!(group_log2, 6 | 7) {
            return Err(CudaError::invalid("groups must have 64 or 128 symbols"));
        }
        if !matches!(tuning.row_bytes, None | Some(64 | 128)) {
            return Err(CudaError::invalid("rows must have 64 or 128 bytes"));
        }
        let shared_memory = device.info().shared_memory_per_block;
        let table_bits = table_bits(shared_memory);
        let variant = |codebooks, pairs| -> Result<Variant> {
            let row_bytes = tuning.row_bytes(pairs).min((S::BYTES as u32) << group_log2);
            let kernels = IndexedKernels::load(device, S::BYTES, group_log2, table_bits, codebooks, pairs, row_bytes)?;
            let kernel = &kernels.indexed_decode;
            kernel.allow_shared_memory(shared_memory - STATIC_SHARED_MEMORY)?;
            let registers = kernel.function().num_regs().doing("asking for a kernel's registers")?.unsigned_abs();
            Ok(Variant {
                table_bytes: 4 * table_words(codebooks, table_bits),
                row_bytes,
                threads_by_registers: REGISTERS / registers.next_multiple_of(8).max(8),
                kernels,
            })
        };
        let most = MAX_CLASSES as u32;
        Ok(Self {
            preparation: Preparation::new(device, group_log2, table_bits)?,
            variants: [[variant(1, false)?, variant(1, true)?], [variant(most, false)?, variant(most, true)?]],
            tuning,
            group_log2,
            multiprocessors: device.info().multiprocessors,
            shared_memory,
        })
    }

    /// Computes the layout of a launch. Querying the driver instead would take longer than decoding a small batch.
    fn plan(&self, variant: &Variant, bits_per_index_block: u64, index_blocks: u32, streams: u32) -> LaunchPlan {
        let tables = variant.table_bytes;
        let wanted = wanted_words(bits_per_index_block, self.tuning.staged_percent);
        // If a batch does not fill a multiprocessor with warps, each warp gets more memory.
        let warps_with_work = self.index_blocks_per_multiprocessor(index_blocks, streams);
        let plan = |threads: u32| {
            let warps = threads / 32;
            let fixed = tables + warps * 32 * variant.row_bytes;
            let room = (self.shared_memory - STATIC_SHARED_MEMORY).saturating_sub(fixed) / (4 * warps);
            let staged_words = room.min(wanted) / 4 * 4;
            let shared_memory = fixed + warps * staged_words * 4;
            let by_memory = (self.shared_memory + RESERVED_SHARED_MEMORY) / (shared_memory + STATIC_SHARED_MEMORY);
            let by_threads = variant.threads_by_registers.min(THREADS_PER_MULTIPROCESSOR) / threads;
            let resident = by_memory.min(by_threads).min(warps_with_work.div_ceil(warps));
            LaunchPlan { threads, staged_words, shared_memory, resident }
        };
        if let Some(threads) = self.tuning.threads {
            return plan(threads);
        }
        // Larger blocks share a table among more warps, but must not leave less space for words.
        let plans = (MIN_THREADS..=MAX_THREADS).step_by(64).map(plan);
        let best = plans.max_by_key(|plan| {
            let all = plan.resident * plan.threads;
            (plan.staged_words, all.min(warps_with_work.saturating_mul(32)), Reverse(all), plan.threads)
        });
        let best = best.unwrap_or_else(|| plan(MAX_THREADS));
        // Distributes the remaining memory: in uneven fields, index blocks that do not fit take several rounds.
        let warps = best.threads / 32;
        let of_block = ((self.shared_memory + RESERVED_SHARED_MEMORY) / best.resident.max(1)).min(self.shared_memory);
        let room = of_block.saturating_sub(STATIC_SHARED_MEMORY + tables) / warps;
        let staged_words = (room.saturating_sub(32 * variant.row_bytes) / 16 * 4).min(MAX_STAGED_WORDS);
        let staged_words = staged_words.max(best.staged_words);
        let shared_memory = tables + warps * (32 * variant.row_bytes + staged_words * 4);
        LaunchPlan { staged_words, shared_memory, ..best }
    }

    /// Returns the index blocks per multiprocessor if each block has index blocks of one stream only, so that one block
    /// per stream is not full.
    fn index_blocks_per_multiprocessor(&self, index_blocks: u32, streams: u32) -> u32 {
        let full = self.multiprocessors.saturating_sub(streams).max(self.multiprocessors / 2).max(1);
        index_blocks.div_ceil(full)
    }

    /// Decodes the batch on the frame's stream, without waiting for it.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if a buffer is too short or misaligned or a stream has another index;
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`]. Damaged streams are not an error, see [`Decoding::status`].
    pub fn launch(&self, frame: &mut Frame<'_>, mut decoding: Decoding<'_, '_, S>) -> Result<()> {
        let has_index = decoding.batch.sizes.index == Some(IndexKind::Symbol);
        decoding.check(frame, has_index, self.group_log2)?;
        let sizes = decoding.batch.sizes;
        let mut scratch = self.preparation.before(frame, &mut decoding, false, true, 0)?;
        if sizes.index_blocks > 0 {
            let short = sizes.bits as f64 <= PAIRED_BITS * sizes.coded_symbols as f64;
            let pairs = self.tuning.pairs.unwrap_or(short && sizes.pairs());
            let variant = &self.variants[usize::from(sizes.max_codebooks > 1)][usize::from(pairs)];
            let LaunchPlan { threads, staged_words, shared_memory, resident } =
                self.plan(variant, sizes.bits / u64::from(sizes.index_blocks), sizes.index_blocks, sizes.streams);
            if staged_words < MIN_STAGED_WORDS {
                return Err(CudaError::invalid("blocks of this size exceed the device's shared memory"));
            }
            let blocks = resident.max(1) * self.multiprocessors * self.tuning.waves;
            // If all of them are resident at once, each block gets a few index blocks of one stream; the last block of
            // a stream may have fewer.
            let max_index_blocks =
                self.index_blocks_per_multiprocessor(sizes.index_blocks, sizes.streams).min(threads / 32);
            let of_one_stream = sizes.index_blocks.div_ceil(max_index_blocks) + sizes.streams;
            let (blocks, max_index_blocks) = if of_one_stream <= blocks {
                (of_one_stream, max_index_blocks)
            } else {
                (blocks.min(sizes.index_blocks), 0)
            };
            let stream = frame.stream();
            let BatchView { descriptors, codebooks, symbols, totals, .. } = decoding.batch;
            let (output, _writes) = decoding.output.device_ptr_mut(stream);
            let grid = Grid::new(blocks, threads).shared_memory(shared_memory).early(true);
            // SAFETY: descriptors come from parsed streams, and `Decoding::check` has ensured that their bytes lie in
            // the input, their symbols in the output, and their classes in the array. Positions that the device reads
            // from the stream are bounded by the stream's bits, and groups by its groups. The shared memory holds the
            // tables of BOOKS codebooks, and a tile and `staged_words` words for each warp.
            return unsafe {
                launch!(variant.kernels.indexed_decode on stream, grid; decoding.input, descriptors, sizes.streams,
                    codebooks, &scratch.tables, symbols, decoding.classes, &scratch.map, totals, max_index_blocks,
                    staged_words, &mut scratch.sums, decoding.status, output)
            };
        }
        self.preparation.after(frame, &mut decoding, &scratch)
    }
}
