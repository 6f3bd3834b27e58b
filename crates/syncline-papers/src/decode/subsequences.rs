//! Decoding from the entry points of subsequences. Launches `kernels/decode/subsequences.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use cudarc::driver::{CudaViewMut, DeviceRepr};
use syncline_core::huffman::{SUBSEQUENCE_BITS, Symbol};

use crate::gap_array::GapArrays;
use syncline_cuda::device::{Device, Frame, Kernel, ProgrammaticDependentLaunch, Source, Specialization, source};
use syncline_cuda::error::{CudaError, Result};
use syncline_cuda::huffman::decode::batch::BatchSizes;
use syncline_cuda::huffman::decode::prepare::Scratch;
use syncline_cuda::huffman::decode::{Decoding, FORMATS, LONG_ENTRIES, SEQUENCE, TABLE_BITS, constants};

const SOURCE: Source = source!("decode/subsequences.cu");

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
/// Threads per counting block.
const COUNT_THREADS: u32 = 512;
/// Cost of a warp sequence besides its symbols, in symbols.
const WARP_SEQUENCE_COST: u32 = 4096;
/// Cost of a warp sequence in batches with fewer than `DENSE_WARP_SEQUENCE` symbols per warp sequence on average.
const DENSE_WARP_SEQUENCE_COST: u32 = 512;
const DENSE_WARP_SEQUENCE: u32 = 1024;

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

fn specialization(symbol_bytes: usize, group_log2: u32, tuning: SubsequenceTuning) -> Specialization {
    let mut constants = constants(symbol_bytes, group_log2, false);
    constants.extend([("SEQUENCE", SEQUENCE.into()), ("THREADS", tuning.threads.into())]);
    constants.extend([("BLOCKS", tuning.blocks.into())]);
    constants.extend([("COUNT_THREADS", COUNT_THREADS.into()), ("WARP_SEQUENCE_COST", WARP_SEQUENCE_COST.into())]);
    constants.extend([
        ("DENSE_WARP_SEQUENCE_COST", DENSE_WARP_SEQUENCE_COST.into()),
        ("DENSE_WARP_SEQUENCE", DENSE_WARP_SEQUENCE.into()),
    ]);
    Specialization { assertions: String::new(), source: SOURCE, constants }
}

/// Returns the specializations for the compile check.
pub(crate) fn specializations() -> Vec<Specialization> {
    FORMATS.map(|(bytes, log2)| specialization(bytes, log2, SubsequenceTuning::default())).to_vec()
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
    count: Kernel,
    scan: Kernel,
    write: Kernel,
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
        let kernel = |name| device.kernel(&specialization(S::BYTES, group_log2, tuning), name);
        let write = kernel("subsequences_write")?;
        write.allow_shared_memory(shared_memory)?;
        let multiprocessors = device.info().multiprocessors;
        let count = kernel("subsequences_count")?;
        let mut decoder = Self {
            resident_count: resident(&count, COUNT_THREADS, 0, multiprocessors)?,
            count,
            scan: kernel("subsequences_scan")?,
            write,
            resident_write: 0,
            tuning,
            symbol_bytes: S::BYTES as u32,
            shared_memory,
        };
        let shared_memory = decoder.shared_memory_to_write();
        decoder.resident_write = resident(&decoder.write, tuning.threads, shared_memory, multiprocessors)?;
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
        let launch = ProgrammaticDependentLaunch::new(&self.count, frame.stream())
            .reads(decoding.input)
            .reads(&decoding.batch.descriptors);
        let launch =
            launch.value(sizes.streams).reads(&decoding.batch.codebooks).reads(&tables).reads(&decoding.batch.totals);
        let launch = launch.reads(&gaps).writes(&mut entry_points.entries).writes(&mut entry_points.counts);
        let grid = Kernel::grid(one_wave(self.resident_count, &sizes), COUNT_THREADS, 0);
        // SAFETY: the kernel's parameters are (const u8 *, const StreamDescriptor *, u32, const CodebookDescriptor *,
        // const u16 *, const BatchTotals *, const u8 *, u8 *, u8 *). The kernel reads words within the bounds of the
        // descriptors, which `Decoding::check` compared with the buffers. There are a gap, an entry and a count for
        // each subsequence.
        unsafe { launch.launch(grid) }
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
        let launch =
            ProgrammaticDependentLaunch::new(&self.scan, &stream).reads(&decoding.batch.descriptors).reads(&counts);
        let launch = launch.writes(&mut before).writes(&mut *decoding.status);
        // SAFETY: the kernel's parameters are (const StreamDescriptor *, const u8 *, u32 *, u32 *). There are a block
        // and a status word for each stream, a count for each subsequence, and a sum for each 32 of them, into which
        // whole sequences divide.
        unsafe { launch.launch(Kernel::grid(sizes.streams, self.tuning.threads, 0)) }?;

        let room = self.room();
        let launch = ProgrammaticDependentLaunch::new(&self.write, &stream)
            .reads(decoding.input)
            .reads(&decoding.batch.descriptors);
        let launch = launch.value(sizes.streams).reads(&decoding.batch.codebooks).reads(&scratch.tables);
        let launch = launch.reads(&decoding.batch.symbols).reads(&scratch.map).reads(&entries).reads(&counts);
        let launch = launch.reads(&before).reads(&decoding.batch.totals).value(room).writes(&mut scratch.sums);
        let launch = launch.writes(&mut *decoding.status).writes(&mut *decoding.output);
        let blocks = one_wave(self.resident_write, &sizes);
        let grid = Kernel::grid(blocks, self.tuning.threads, self.shared_memory_to_write());
        // SAFETY: the kernel's parameters are (const u8 *, const StreamDescriptor *, u32, const CodebookDescriptor *,
        // const u32 *, const u16 *, const u32 *, const u8 *, const u8 *, const u32 *, const BatchTotals *, u32, u32 *,
        // u32 *, u8 *). The kernel reads words within the bounds of the descriptors, which `Decoding::check` compared
        // with the buffers, and writes symbols only up to the number of live groups, to groups of the stream. The
        // shared memory holds a table, and a buffer of `room` symbols for each warp.
        unsafe { launch.launch(grid) }
    }
}
