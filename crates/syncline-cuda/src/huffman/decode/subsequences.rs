//! Decoding from where subsequences start: launchers of `kernels/huffman/decode/subsequences.cu`.

#![allow(unsafe_code)]

use cudarc::driver::{CudaViewMut, DeviceRepr};
use syncline_core::huffman::{SUBSEQUENCE_BITS, Symbol};

use super::batch::BatchSizes;
use super::prepare::Scratch;
use super::{Decoding, FORMATS, LONG_ENTRIES, SEQUENCE, TABLE_BITS, constants};
use crate::device::{Arena, Device, Frame, Kernel, ProgrammaticDependentLaunch, Source, Specialization, source};
use crate::error::{CudaError, Result};

const SOURCE: Source = source!("huffman/decode/subsequences.cu");

/// Subsequences that a warp decodes at a time.
const WARP_SUBSEQUENCES: u32 = 32;
/// Shared memory that a block which writes declares: descriptions of the stream and its codebook.
const OWN_SHARED_MEMORY: u32 = 1 << 10;
/// Bytes of a codebook's table.
const TABLE_BYTES: u32 = ((1 << TABLE_BITS) + LONG_ENTRIES) * 4;
/// Symbols that a buffer is a multiple of.
const BUFFER_STEP: u32 = 64;
/// And has room for at least: a subsequence of them, however damaged.
const LEAST_ROOM: u32 = 192;
/// Most symbols of a span: no codeword is shorter than a bit.
const MOST_ROOM: u32 = WARP_SUBSEQUENCES * SUBSEQUENCE_BITS;
/// Threads of a block that counts.
const COUNT_THREADS: u32 = 512;
/// What a span takes beside its symbols, in symbols.
const WARP_SEQUENCE_COST: u32 = 4096;
/// The same in a batch that has fewer than so many symbols a span in the mean.
const DENSE_WARP_SEQUENCE_COST: u32 = 512;
const DENSE_WARP_SEQUENCE: u32 = 1024;

/// What an observer of a launch's steps is given: a step's name, when all of it is queued.
pub(crate) type Step<'s> = &'s mut dyn FnMut(&'static str) -> Result<()>;

/// What decides speed only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SubsequenceTuning {
    /// Threads in a block.
    pub threads: u32,
    /// Blocks that a multiprocessor should have room for: what registers allow.
    pub blocks: u32,
    /// Symbols of a span that a warp has room for at most; `None`: as many as fit. What does not fit goes in several
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
    Specialization { source: SOURCE, constants }
}

/// What the compile check compiles.
pub(super) fn specializations() -> Vec<Specialization> {
    FORMATS.map(|(bytes, log2)| specialization(bytes, log2, SubsequenceTuning::default())).to_vec()
}

/// Where the codewords of subsequences start, and how many there are.
pub(crate) struct EntryPoints<'a> {
    /// Bits from each subsequence's start to its first codeword.
    pub entries: CudaViewMut<'a, u8>,
    /// Codewords that start in each subsequence: at most its 128 bits.
    pub counts: CudaViewMut<'a, u8>,
}

impl<'a> EntryPoints<'a> {
    pub fn new(frame: &mut Frame<'a>, sizes: &BatchSizes) -> Result<Self> {
        let subsequences = sizes.subsequences as usize;
        Ok(Self { entries: frame.slice(subsequences)?, counts: frame.slice(subsequences)? })
    }
}

/// Bytes of scratch memory for entries, counts and sums of spans.
pub(super) fn workspace(sizes: &BatchSizes) -> usize {
    let subsequences = sizes.subsequences as usize;
    2 * Arena::bytes_for::<u8>(subsequences) + Arena::bytes_for::<u32>(subsequences / WARP_SUBSEQUENCES as usize)
}

/// Blocks of so many threads that run at a time. Asked once: the driver takes as long to answer as a small batch to
/// decode.
pub(crate) fn resident(kernel: &Kernel, threads: u32, shared_memory: u32, multiprocessors: u32) -> Result<u32> {
    Ok(kernel.blocks_per_multiprocessor(threads, shared_memory)?.max(1) * multiprocessors)
}

/// As many blocks as run at a time, or fewer if there are only a few sequences.
pub(crate) fn one_wave(resident: u32, sizes: &BatchSizes) -> u32 {
    resident.min((2 * sizes.sequences).max(sizes.bitmap_blocks).max(1))
}

/// The kernels.
#[derive(Debug, Clone)]
pub(crate) struct SubsequenceDecoder {
    count: Kernel,
    scan: Kernel,
    write: Kernel,
    /// Blocks that run at a time: those that count, and those that write.
    resident_count: u32,
    resident_write: u32,
    tuning: SubsequenceTuning,
    symbol_bytes: u32,
    /// Bytes that a block's table and buffers may have.
    shared_memory: u32,
}

impl SubsequenceDecoder {
    pub fn new<S: Symbol>(device: &Device, group_log2: u32, tuning: SubsequenceTuning) -> Result<Self> {
        if tuning.room.is_some_and(|room| room < LEAST_ROOM) || tuning.blocks == 0 {
            return Err(CudaError::invalid("a buffer has room for 192 symbols, a multiprocessor for a block"));
        }
        if !(32..=1024).contains(&tuning.threads) || !tuning.threads.is_multiple_of(32) {
            return Err(CudaError::invalid("a block has whole warps, at most 32"));
        }
        let shared_memory = device.info().shared_memory_per_block.saturating_sub(OWN_SHARED_MEMORY);
        let least = TABLE_BYTES + tuning.threads / 32 * LEAST_ROOM * S::BYTES as u32;
        if least > shared_memory / tuning.blocks {
            return Err(CudaError::invalid("blocks of so many threads do not fit the device's shared memory"));
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

    /// Symbols that a warp gathers at a time: as many as fit. Fields are uneven, and with room for little more than the
    /// mean, spans of many symbols took several rounds and half of the time on some of the papers' sets.
    fn room(&self) -> u32 {
        let buffers = (self.shared_memory / self.tuning.blocks).saturating_sub(TABLE_BYTES);
        let most = buffers / self.symbol_bytes / (self.tuning.threads / 32);
        let room = most.min(self.tuning.room.unwrap_or(MOST_ROOM)).min(MOST_ROOM);
        room.max(LEAST_ROOM) / BUFFER_STEP * BUFFER_STEP
    }

    /// Tables and buffers of a block that writes, in bytes.
    fn shared_memory_to_write(&self) -> u32 {
        TABLE_BYTES + self.tuning.threads / 32 * self.room() * self.symbol_bytes
    }

    /// EntryPoints and counts of streams with the gap index.
    pub fn count<S: Symbol + DeviceRepr>(
        &self,
        frame: &Frame<'_>,
        decoding: &Decoding<'_, '_, S>,
        scratch: &Scratch<'_>,
        entry_points: &mut EntryPoints<'_>,
    ) -> Result<()> {
        let sizes = decoding.batch.sizes;
        if sizes.sequences == 0 {
            return Ok(());
        }
        let tables = scratch.counts()?;
        let launch = ProgrammaticDependentLaunch::new(&self.count, frame.stream())
            .reads(decoding.input)
            .reads(&decoding.batch.descriptors);
        let launch =
            launch.value(sizes.streams).reads(&decoding.batch.codebooks).reads(&tables).reads(&decoding.batch.totals);
        let launch = launch.writes(&mut entry_points.entries).writes(&mut entry_points.counts);
        let grid = Kernel::grid(one_wave(self.resident_count, &sizes), COUNT_THREADS, 0);
        // SAFETY: parameters (const u8 *, const StreamDescriptor *, u32, const CodebookDescriptor *, const u16 *, const
        // BatchTotals *, u8 *, u8 *): words and gaps are read within what the descriptors say (`Decoding::check`); a
        // byte of each for each subsequence.
        unsafe { launch.launch(grid) }
    }

    /// Decodes what starts as `entry_points` says.
    pub fn write<S: Symbol + DeviceRepr>(
        &self,
        frame: &mut Frame<'_>,
        decoding: &mut Decoding<'_, '_, S>,
        scratch: &mut Scratch<'_>,
        entry_points: &EntryPoints<'_>,
        step: Step<'_>,
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
        // SAFETY: parameters (const StreamDescriptor *, const u8 *, u32 *, u32 *): a block and a word of status for
        // each stream, a count for each subsequence, a sum for each 32 of them, which whole sequences have.
        unsafe { launch.launch(Kernel::grid(sizes.streams, self.tuning.threads, 0)) }?;
        step("output index")?;

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
        // SAFETY: parameters (const u8 *, const StreamDescriptor *, u32, const CodebookDescriptor *, const u32 *, const
        // u16 *, const u32 *, const u8 *, const u8 *, const u32 *, const BatchTotals *, u32, u32 *, u32 *, u8 *). Words
        // are read within what the descriptors say (`Decoding::check`), symbols written up to the live groups' number,
        // and free groups, to groups within the stream. Shared memory is a table and a buffer of `room` symbols for
        // each warp.
        unsafe { launch.launch(grid) }?;
        step("decoding and writing")
    }
}
