//! Decoding from the entry points of subsequences: the last phases of the decoders of Weißenberger and Schmidt (ICPP
//! 2018, Algorithms 4 and 5) and Yamamoto et al. (ICPP 2020), improved. Launches `kernels/decode/subsequences.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaViewMut, DevicePtrMut, DeviceRepr};
use syncline_core::huffman::{SUBSEQUENCE_BITS, Symbol};

use crate::gap_array::GapArrays;
use syncline_cuda::device::{Device, Frame, Grid, Kernel, Specialization};
use syncline_cuda::device_kernels::{In, Out, declare_kernels, launch};
use syncline_cuda::error::{CudaError, Result};
use syncline_cuda::huffman::decode::batch::BatchSizes;
use syncline_cuda::huffman::decode::prepare::Scratch;
use syncline_cuda::huffman::decode::{
    BatchTotals, BatchView, CodebookDescriptor, Decoding, FORMATS, LONG_ENTRIES, SEQUENCE, StreamDescriptor,
    TABLE_BITS, constants,
};

declare_kernels! {
    /// The kernels of `kernels/decode/subsequences.cu`.
    struct SubsequenceKernels in "decode/subsequences.cu",
        of (symbol_bytes: usize, group_log2: u32, tuning: SubsequenceTuning)
    {
        /// Threads per counting block.
        const COUNT_THREADS: u32 = 512;
        /// Cost of a warp sequence besides its symbols, in symbols.
        const WARP_SEQUENCE_COST: u32 = 4096;
        /// Cost of a warp sequence in batches with fewer than `DENSE_WARP_SEQUENCE` symbols per warp sequence on
        /// average.
        const DENSE_WARP_SEQUENCE_COST: u32 = 512;
        const DENSE_WARP_SEQUENCE: u32 = 1024;
        with COMMON = constants(symbol_bytes, group_log2, false);
        with SEQUENCE = SEQUENCE;
        with THREADS = tuning.threads;
        with BLOCKS = tuning.blocks;
        fn subsequences_count(
            input: In<u8>, streams: In<StreamDescriptor>, stream_count: u32, codebooks: In<CodebookDescriptor>,
            count_tables: In<u16>, totals: In<BatchTotals>, gaps: In<u8>, entries: Out<u8>, counts: Out<u8>,
        );
        fn subsequences_scan(streams: In<StreamDescriptor>, counts: In<u8>, before: Out<u32>, status: Out<u32>);
        fn subsequences_write(
            input: In<u8>, streams: In<StreamDescriptor>, stream_count: u32, codebooks: In<CodebookDescriptor>,
            tables: In<u32>, symbols: In<u16>, map: In<u32>, entries: In<u8>, counts: In<u8>, before: In<u32>,
            totals: In<BatchTotals>, room: u32, sums: Out<u32>, status: Out<u32>, out: CUdeviceptr as "uint8_t *",
        );
    }
}

/// Subsequences of a warp sequence, which a warp decodes at a time.
const WARP_SUBSEQUENCES: u32 = 32;
/// Static shared memory of a writing block in bytes, an upper bound.
const STATIC_SHARED_MEMORY: u32 = 1 << 10;
/// Bytes of a codebook's table.
const TABLE_BYTES: u32 = ((1 << TABLE_BITS) + LONG_ENTRIES) * 4;
/// Buffers are multiples of this many symbols.
const BUFFER_STEP: u32 = 64;
/// Minimum size of a buffer in symbols: a subsequence, even if it is damaged.
const MIN_ROOM: u32 = 192;
/// Maximum number of symbols of a warp sequence, since each codeword has at least one bit.
const MAX_ROOM: u32 = WARP_SUBSEQUENCES * SUBSEQUENCE_BITS;

/// Launch parameters that affect speed only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SubsequenceTuning {
    /// Threads per block.
    pub threads: u32,
    /// Blocks per multiprocessor, which limits registers.
    pub blocks: u32,
    /// Maximum size of a warp's buffer in symbols; `None` uses all shared memory. Larger warp sequences take several
    /// rounds.
    pub room: Option<u32>,
}

impl Default for SubsequenceTuning {
    fn default() -> Self {
        Self { threads: 1024, blocks: 1, room: None }
    }
}

/// Returns the specializations for the compile check.
pub(crate) fn specializations() -> Vec<Specialization> {
    FORMATS.map(|(bytes, log2)| SubsequenceKernels::specialization(bytes, log2, SubsequenceTuning::default())).to_vec()
}

/// The entry points of subsequences, and the number of codewords that start in each.
pub(crate) struct EntryPoints<'a> {
    /// Bits from the start of each subsequence to its first codeword.
    pub entries: CudaViewMut<'a, u8>,
    /// Codewords that start in each subsequence, at most 128.
    pub counts: CudaViewMut<'a, u8>,
}

impl<'a> EntryPoints<'a> {
    pub fn new(frame: &mut Frame<'a>, sizes: &BatchSizes) -> Result<Self> {
        let subsequences = sizes.subsequences as usize;
        Ok(Self { entries: frame.slice(subsequences)?, counts: frame.slice(subsequences)? })
    }
}

/// Returns the number of blocks that the device runs at a time. Called once per decoder, because the driver takes as
/// long to answer as a small batch takes to decode.
pub(crate) fn resident(kernel: &Kernel, threads: u32, shared_memory: u32, multiprocessors: u32) -> Result<u32> {
    Ok(kernel.blocks_per_multiprocessor(threads, shared_memory)?.max(1) * multiprocessors)
}

/// Returns the number of blocks to launch: those that run at a time, or fewer for few sequences.
pub(crate) fn one_wave(resident: u32, sizes: &BatchSizes) -> u32 {
    resident.min((2 * sizes.sequences).max(sizes.bitmap_blocks).max(1))
}

/// The kernels.
#[derive(Debug, Clone)]
pub(crate) struct SubsequenceDecoder {
    kernels: SubsequenceKernels,
    /// Counting blocks, and writing blocks, that the device runs at a time.
    resident_count: u32,
    resident_write: u32,
    tuning: SubsequenceTuning,
    symbol_bytes: u32,
    /// Shared memory for a block's table and buffers, in bytes.
    shared_memory: u32,
}

impl SubsequenceDecoder {
    pub fn new<S: Symbol>(device: &Device, group_log2: u32, tuning: SubsequenceTuning) -> Result<Self> {
        if tuning.room.is_some_and(|room| room < MIN_ROOM) || tuning.blocks == 0 {
            return Err(CudaError::invalid(
                "buffers must have at least 192 symbols, and multiprocessors at least one block",
            ));
        }
        if !(32..=1024).contains(&tuning.threads) || !tuning.threads.is_multiple_of(32) {
            return Err(CudaError::invalid("a block must have 1 to 32 whole warps"));
        }
        let shared_memory = device.info().shared_memory_per_block.saturating_sub(STATIC_SHARED_MEMORY);
        let least = TABLE_BYTES + tuning.threads / 32 * MIN_ROOM * S::BYTES as u32;
        if least > shared_memory / tuning.blocks {
            return Err(CudaError::invalid("blocks of this size exceed the device's shared memory"));
        }
        let kernels = SubsequenceKernels::load(device, S::BYTES, group_log2, tuning)?;
        kernels.subsequences_write.allow_shared_memory(shared_memory)?;
        let multiprocessors = device.info().multiprocessors;
        let mut decoder = Self {
            resident_count: resident(&kernels.subsequences_count, COUNT_THREADS, 0, multiprocessors)?,
            kernels,
            resident_write: 0,
            tuning,
            symbol_bytes: S::BYTES as u32,
            shared_memory,
        };
        let shared_memory = decoder.shared_memory_to_write();
        let write = &decoder.kernels.subsequences_write;
        decoder.resident_write = resident(write, tuning.threads, shared_memory, multiprocessors)?;
        Ok(decoder)
    }

    /// Returns the size of a warp's buffer in symbols: as large as fits. With buffers just above the mean, dense warp
    /// sequences took several rounds and half of the time on some of the papers' data sets.
    fn room(&self) -> u32 {
        let buffers = (self.shared_memory / self.tuning.blocks).saturating_sub(TABLE_BYTES);
        let most = buffers / self.symbol_bytes / (self.tuning.threads / 32);
        let room = most.min(self.tuning.room.unwrap_or(MAX_ROOM)).min(MAX_ROOM);
        room.max(MIN_ROOM) / BUFFER_STEP * BUFFER_STEP
    }

    /// Returns the bytes of the tables and buffers of a writing block.
    fn shared_memory_to_write(&self) -> u32 {
        TABLE_BYTES + self.tuning.threads / 32 * self.room() * self.symbol_bytes
    }

    /// Finds the counts of streams with gap arrays, whose gaps are the entry points.
    pub fn count<S: Symbol + DeviceRepr>(
        &self,
        frame: &Frame<'_>,
        decoding: &Decoding<'_, '_, S>,
        scratch: &Scratch<'_>,
        gaps: &GapArrays,
        entry_points: &mut EntryPoints<'_>,
    ) -> Result<()> {
        let sizes = decoding.batch.sizes;
        let gaps = gaps.of_batch(&sizes)?;
        if sizes.sequences == 0 {
            return Ok(());
        }
        let tables = scratch.counts()?;
        let grid = Grid::new(one_wave(self.resident_count, &sizes), COUNT_THREADS).early(true);
        // SAFETY: the kernel reads words within the bounds of the descriptors, which `Decoding::check` compared with
        // the buffers. There are a gap, an entry and a count for each subsequence.
        unsafe {
            launch!(self.kernels.subsequences_count on frame.stream(), grid; decoding.input,
                &decoding.batch.descriptors, sizes.streams, &decoding.batch.codebooks, &tables, &decoding.batch.totals,
                &gaps, &mut entry_points.entries, &mut entry_points.counts)
        }
    }

    /// Decodes and writes from the given entry points.
    pub fn write<S: Symbol + DeviceRepr>(
        &self,
        frame: &mut Frame<'_>,
        decoding: &mut Decoding<'_, '_, S>,
        scratch: &mut Scratch<'_>,
        entry_points: &EntryPoints<'_>,
    ) -> Result<()> {
        let sizes = decoding.batch.sizes;
        if sizes.streams == 0 {
            return Ok(());
        }
        let mut before = frame.slice::<u32>((sizes.subsequences / WARP_SUBSEQUENCES) as usize)?;
        let (entries, counts) = (entry_points.entries.as_view(), entry_points.counts.as_view());
        let stream = frame.stream().clone();
        let grid = Grid::new(sizes.streams, self.tuning.threads).early(true);
        // SAFETY: there are a block and a status word for each stream, a count for each subsequence, and a sum for each
        // 32 of them, into which whole sequences divide.
        unsafe {
            launch!(self.kernels.subsequences_scan on &stream, grid; &decoding.batch.descriptors, &counts, &mut before,
                decoding.status)
        }?;

        let room = self.room();
        let blocks = one_wave(self.resident_write, &sizes);
        let grid = Grid::new(blocks, self.tuning.threads).shared_memory(self.shared_memory_to_write()).early(true);
        let BatchView { descriptors, codebooks, symbols, totals, .. } = decoding.batch;
        let (output, _writes) = decoding.output.device_ptr_mut(&stream);
        let Scratch { tables, map, sums, .. } = scratch;
        // SAFETY: the kernel reads words within the bounds of the descriptors, which `Decoding::check` compared with
        // the buffers, and writes symbols only up to the number of coded groups, to groups of the stream. The shared
        // memory holds a table, and a buffer of `room` symbols for each warp.
        unsafe {
            launch!(self.kernels.subsequences_write on &stream, grid; decoding.input, descriptors, sizes.streams,
                codebooks, tables, symbols, map, &entries, &counts, &before, totals, room, sums, decoding.status,
                output)
        }
    }
}
