//! Decoding with the gap index: launcher of `kernels/huffman_decode_gap.cu`.

use cudarc::driver::{CudaView, DeviceRepr, PushKernelArg};
use syncline_core::huffman::{Decoder, Symbol};

use super::batch::Totals;
use super::{Decoding, Preparation, SEQUENCE, SHAPES, Scratch, constants};
use crate::device::{Device, Frame, Kernel, Source, Specialization};
use crate::error::{CudaError, DriverContext, Result};

const SOURCE: Source =
    Source { name: "huffman_decode_gap.cu", text: include_str!("../../../kernels/huffman_decode_gap.cu") };

/// Most bytes of a block's buffer: three blocks to a multiprocessor of an H200, for which two rounds are a good price (5 % faster at 2 bits).
const MOST_BUFFER_BYTES: u64 = 38 << 10;
/// Shared memory that a block has beside its buffer: tables, a sequence's words, a little.
const OWN_SHARED_MEMORY: u32 = 39 << 10;
/// Symbols that a buffer is a multiple of.
const BUFFER_STEP: u64 = 64;

/// What decides speed only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GapTuning {
    /// Whether symbols go through shared memory (2022), or straight to memory (2020).
    pub staged: bool,
    /// Room for a block's symbols in percent of the batch's mean: what does not fit goes in several rounds.
    pub staged_percent: u32,
    /// Threads in a block, a power of two from 32 to 512: each has its share of a sequence's 512 subsequences.
    pub threads: u32,
    /// Whether codewords are looked up in pairs; `None`: where two mostly fit.
    pub pairs: Option<bool>,
}

impl Default for GapTuning {
    fn default() -> Self {
        Self { staged: true, staged_percent: 105, threads: SEQUENCE, pairs: None }
    }
}

fn specialization(
    symbol_bytes: usize,
    group_log2: u32,
    entries: bool,
    pairs: bool,
    tuning: GapTuning,
) -> Specialization {
    let mut constants = constants(symbol_bytes, group_log2, pairs);
    constants.extend([("SEQUENCE", SEQUENCE.into()), ("THREADS", tuning.threads.into())]);
    constants.extend([("ENTRIES", entries.into()), ("STAGED", tuning.staged.into())]);
    Specialization { source: SOURCE, constants }
}

/// What the compile check compiles.
pub(super) fn specializations() -> Vec<Specialization> {
    let of = |entries, staged, pairs| {
        let tuning = GapTuning { staged, ..GapTuning::default() };
        SHAPES.map(|(bytes, group_log2)| specialization(bytes, group_log2, entries, pairs, tuning))
    };
    let staged = [of(false, true, false), of(false, true, true), of(true, true, false), of(true, true, true)];
    // Straight to memory goes one symbol at a time: there are no pairs.
    let direct = [of(false, false, false), of(true, false, false)];
    [staged.concat(), direct.concat()].concat()
}

/// Starts and counts of subsequences that are known already.
pub(super) struct Known<'a, 'v> {
    /// Bits from each subsequence's start to its first codeword.
    pub entries: &'a CudaView<'v, u8>,
    /// Codewords that start in each subsequence.
    pub counts: &'a CudaView<'v, u16>,
}

/// The kernel that writes symbols given where subsequences start.
#[derive(Debug, Clone)]
pub(super) struct Writing {
    /// For long codewords, and for short.
    kernels: [Kernel; 2],
    tuning: GapTuning,
    symbol_bytes: u64,
    /// Most bytes of a block's buffer on this device.
    buffer_bytes: u64,
    multiprocessors: u32,
}

impl Writing {
    pub fn new<S: Symbol>(device: &Device, group_log2: u32, known: bool, tuning: GapTuning) -> Result<Self> {
        if tuning.staged_percent == 0 {
            return Err(CudaError::invalid("a buffer has room for something"));
        }
        if !(32..=SEQUENCE).contains(&tuning.threads) || !tuning.threads.is_power_of_two() {
            return Err(CudaError::invalid("a block has a power of two from 32 to 512 threads"));
        }
        let kernel = |pairs| -> Result<Kernel> {
            let specialization = specialization(S::BYTES, group_log2, known, pairs && tuning.staged, tuning);
            let kernel = device.kernel(&specialization, "decode_gap")?;
            let own_memory = OWN_SHARED_MEMORY.min(device.info().shared_memory_per_block);
            let room = device.info().shared_memory_per_block - own_memory;
            kernel.allow_shared_memory(room.min(MOST_BUFFER_BYTES as u32))?;
            Ok(kernel)
        };
        let kernels = [kernel(false)?, kernel(true)?];
        let buffer_bytes = u64::from(device.info().shared_memory_per_block.saturating_sub(OWN_SHARED_MEMORY));
        let multiprocessors = device.info().multiprocessors;
        let buffer_bytes = buffer_bytes.min(MOST_BUFFER_BYTES);
        Ok(Self { kernels, tuning, symbol_bytes: S::BYTES as u64, buffer_bytes, multiprocessors })
    }

    /// Symbols that a block gathers at a time.
    fn room(&self, totals: &Totals) -> u32 {
        if !self.tuning.staged {
            return 0;
        }
        let mean = totals.live_symbols / u64::from(totals.sequences.max(1));
        let wanted = mean.saturating_mul(self.tuning.staged_percent.into()) / 100;
        wanted
            .next_multiple_of(BUFFER_STEP)
            .clamp(BUFFER_STEP, self.buffer_bytes / self.symbol_bytes / BUFFER_STEP * BUFFER_STEP) as u32
    }

    /// Decodes all sequences; `known` as the kernel was made for.
    pub fn launch<S: Symbol + DeviceRepr>(
        &self,
        frame: &mut Frame<'_>,
        work: &mut Decoding<'_, '_, S>,
        scratch: &mut Scratch<'_>,
        known: Option<Known<'_, '_>>,
    ) -> Result<()> {
        let totals = work.batch.totals;
        if totals.sequences == 0 {
            return Ok(());
        }
        let room = self.room(&totals);
        let shared_memory = room * self.symbol_bytes as u32;
        let kernel = &self.kernels[usize::from(self.tuning.pairs.unwrap_or(totals.pairs()))];
        let resident = kernel.blocks_per_multiprocessor(self.tuning.threads, shared_memory)?.max(1);
        let blocks = (resident * self.multiprocessors).min(totals.sequences);
        let mut ticket = frame.zeros::<u32>(1)?;
        let mut states = frame.zeros::<u64>(totals.sequences as usize)?;
        let (tables, map) = (scratch.tables.as_view(), scratch.map.as_view());
        let stream = frame.stream().clone();
        let mut launch = stream.launch_builder(kernel.function());
        launch.arg(work.input).arg(&work.batch.descriptors).arg(&totals.streams);
        launch.arg(&work.batch.books).arg(&tables).arg(&work.batch.symbols).arg(&map);
        match &known {
            Some(known) => launch.arg(known.entries).arg(known.counts),
            None => launch.arg(&0_u64).arg(&0_u64),
        };
        launch.arg(&work.batch.sums).arg(&room).arg(&mut ticket).arg(&mut states);
        launch.arg(&mut scratch.sums).arg(&mut *work.status).arg(&mut *work.output);
        // SAFETY: parameters (const u8 *, const Stream *, u32, const Book *, const u32 *, const u16 *, const u32 *, const u8 *, const u16 *, const Totals *, u32, u32 *, u64 *,
        // u32 *, u32 *, u8 *). Words and gaps are read within what the descriptors say (`Decoding::check`), symbols written up to the live groups' number
        // to groups within the stream. `known` is null only for the kernel that does not use it. A block looks back only at blocks that took their
        // sequences before it, and so run.
        unsafe { launch.launch(Kernel::grid(blocks, self.tuning.threads, shared_memory)) }.doing("decoding")?;
        Ok(())
    }
}

/// Decodes streams with the gap index.
#[derive(Debug, Clone)]
pub struct Gap<S> {
    preparation: Preparation<S>,
    writing: Writing,
    group_log2: u32,
}

impl<S: Symbol + DeviceRepr> Gap<S> {
    /// A decoder for streams with groups of `2^group_log2` symbols.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless `group_log2` is 6 or 7; errors of [`Device::kernel`].
    pub fn new(device: &Device, group_log2: u32) -> Result<Self> {
        Self::with_tuning(device, group_log2, GapTuning::default())
    }

    /// [`Self::new`] with other numbers, to measure what they are worth.
    ///
    /// # Errors
    /// As [`Self::new`]; also for no room at all.
    pub fn with_tuning(device: &Device, group_log2: u32, tuning: GapTuning) -> Result<Self> {
        let preparation = Preparation::new(device, group_log2)?;
        Ok(Self { preparation, writing: Writing::new::<S>(device, group_log2, false, tuning)?, group_log2 })
    }

    /// Decodes the batch on the frame's stream, without waiting for it.
    ///
    /// # Errors
    /// As [`Indexed::launch`](super::Indexed::launch).
    pub fn launch(&self, frame: &mut Frame<'_>, mut work: Decoding<'_, '_, S>) -> Result<()> {
        work.check(frame, Decoder::Gap, self.group_log2)?;
        let mut scratch = self.preparation.before(frame, &mut work)?;
        self.writing.launch(frame, &mut work, &mut scratch, None)?;
        self.preparation.after(frame, &mut work, &scratch)
    }
}
