//! Decoding without an index: launcher of `kernels/huffman/decode/self_sync.cu` and `huffman/decode/compose.cu`.

#![allow(unsafe_code)]

use cudarc::driver::{CudaViewMut, DeviceRepr};
use syncline_core::huffman::lengths::MAX_LENGTH;
use syncline_core::huffman::{Decoder, Symbol};

use super::batch::Totals;
use super::gap::{Writer, Writing};
use super::spans::{Entries, Step, one_wave, resident};
use super::{COUNT_ENTRIES, Decoding, Preparation, SEQUENCE, SHAPES, Scratch, TABLE_BITS, constants};
use crate::device::{Arena, Device, Frame, Kernel, ProgrammaticDependentLaunch, Source, Specialization, source};
use crate::error::{CudaError, Result};

const SOURCE: Source = source!("huffman/decode/self_sync.cu");

const COMPOSE: Source = source!("huffman/decode/compose.cu");

/// Threads of a block that synchronizes.
const THREADS: u32 = 512;
/// Subsequences that a warp synchronizes: four a lane.
const STRETCH: u32 = 4 * 32;
/// Subsequences of a stretch that are decoded again to join it to the one before, at most. Where codes synchronize at
/// all, few take more than two.
const JOINED: u32 = 32;

/// Blocks that compose to a multiprocessor, and their shared memory for tables.
const COMPOSING_BLOCKS: u32 = 4;
const COUNT_TABLE_BYTES: u32 = 2 * COUNT_ENTRIES as u32;

/// What decides speed only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SelfSyncTuning {
    /// Rounds in a warp before its stream is decoded by composing functions.
    pub rounds: u32,
    /// How symbols are written.
    pub writing: Writing,
}

impl SelfSyncTuning {
    /// Symbols straight to memory, as in 2018.
    pub fn published() -> Self {
        Self { writing: Writing::Published, ..Self::default() }
    }
}

impl Default for SelfSyncTuning {
    fn default() -> Self {
        Self { rounds: 6, writing: Writing::default() }
    }
}

fn specialization(symbol_bytes: usize, group_log2: u32, rounds: u32) -> Specialization {
    let mut constants = constants(symbol_bytes, group_log2, false);
    constants.extend([("SEQUENCE", SEQUENCE.into()), ("THREADS", THREADS.into())]);
    constants.extend([("JOINED", JOINED.into()), ("ROUNDS", rounds.into())]);
    Specialization { source: SOURCE, constants }
}

fn compose_specialization(symbol_bytes: usize, group_log2: u32) -> Specialization {
    let mut constants = constants(symbol_bytes, group_log2, false);
    constants.extend([("SEQUENCE", SEQUENCE.into()), ("THREADS", SEQUENCE.into())]);
    Specialization { source: COMPOSE, constants }
}

/// What the compile check compiles.
pub(super) fn specializations() -> Vec<Specialization> {
    let rounds = SelfSyncTuning::default().rounds;
    let synchronize = SHAPES.map(|(bytes, group_log2)| specialization(bytes, group_log2, rounds));
    let compose = SHAPES.map(|(bytes, group_log2)| compose_specialization(bytes, group_log2));
    [synchronize, compose].concat()
}

/// Decodes streams with one codebook, whatever their index.
#[derive(Debug, Clone)]
pub struct SelfSync<S> {
    preparation: Preparation<S>,
    synchronize: Kernel,
    join: Kernel,
    compose: Kernel,
    walk: Kernel,
    writer: Writer,
    group_log2: u32,
    multiprocessors: u32,
    /// Blocks that synchronize at a time.
    resident: u32,
}

/// Bytes of scratch memory for what is found out about stretches, sequences and streams.
pub(super) fn workspace(totals: &Totals) -> usize {
    let sequences = totals.sequences as usize;
    Arena::bytes_for::<u8>(sequences)
        + Arena::bytes_for::<u8>(sequences * (SEQUENCE / STRETCH) as usize)
        + Arena::bytes_for::<u8>(sequences * MAX_LENGTH as usize)
        + Arena::bytes_for::<u32>(totals.streams as usize + 1) // flags
}

/// What is found out about subsequences and sequences.
struct Found<'a> {
    subsequences: Entries<'a>,
    /// Where stretches end.
    exits: CudaViewMut<'a, u8>,
    /// Where sequences of streams that failed start.
    sequence_entries: CudaViewMut<'a, u8>,
    functions: CudaViewMut<'a, u8>,
}

impl<S: Symbol + DeviceRepr> SelfSync<S> {
    /// A decoder for streams with groups of `2^group_log2` symbols.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless `group_log2` is 6 or 7; errors of [`Device::kernel`].
    pub fn new(device: &Device, group_log2: u32) -> Result<Self> {
        Self::with_tuning(device, group_log2, SelfSyncTuning::default())
    }

    /// [`Self::new`] with other numbers, to measure what they are worth.
    ///
    /// # Errors
    /// As [`Self::new`]; also without a round.
    pub fn with_tuning(device: &Device, group_log2: u32, tuning: SelfSyncTuning) -> Result<Self> {
        if tuning.rounds == 0 {
            return Err(CudaError::invalid("synchronizing takes a round"));
        }
        let synchronizing = specialization(S::BYTES, group_log2, tuning.rounds);
        let composing = compose_specialization(S::BYTES, group_log2);
        let compose = device.kernel(&composing, "self_sync_compose")?;
        compose.allow_shared_memory(COUNT_TABLE_BYTES)?;
        let synchronize = device.kernel(&synchronizing, "self_sync")?;
        Ok(Self {
            preparation: Preparation::new(device, group_log2, TABLE_BITS)?,
            resident: resident(&synchronize, THREADS, 0, device.info().multiprocessors)?,
            synchronize,
            join: device.kernel(&synchronizing, "self_sync_join")?,
            compose,
            walk: device.kernel(&composing, "self_sync_walk")?,
            multiprocessors: device.info().multiprocessors,
            writer: Writer::new::<S>(device, group_log2, true, tuning.writing)?,
            group_log2,
        })
    }

    /// Decodes the batch on the frame's stream, without waiting for it.
    ///
    /// # Errors
    /// As [`Indexed::launch`](super::Indexed::launch).
    pub fn launch(&self, frame: &mut Frame<'_>, work: Decoding<'_, '_, S>) -> Result<()> {
        self.launch_observed(frame, work, &mut |_| Ok(()))
    }

    /// [`Self::launch`] that calls `step` with the name of each step as soon as it is queued: a bench records events
    /// there.
    ///
    /// # Errors
    /// As [`Self::launch`], or what `step` returns.
    pub fn launch_observed(
        &self,
        frame: &mut Frame<'_>,
        mut work: Decoding<'_, '_, S>,
        step: &mut dyn FnMut(&'static str) -> Result<()>,
    ) -> Result<()> {
        work.check(frame, Decoder::SelfSync, self.group_log2)?;
        let totals = work.batch.totals;
        // Without codewords there is nothing to write.
        let finishes = self.writer.finishes() && totals.sequences > 0;
        // A flag for each stream, and one for all: whether it failed to synchronize.
        let flags = totals.streams as usize + 1;
        let mut scratch = self.preparation.before(frame, &mut work, true, !finishes, flags)?;
        step("tables")?;
        if totals.sequences > 0 {
            let sequences = totals.sequences as usize;
            let mut found = Found {
                subsequences: Entries::new(frame, &totals)?,
                sequence_entries: frame.slice(sequences)?,
                exits: frame.slice(sequences * (SEQUENCE / STRETCH) as usize)?,
                functions: frame.slice(sequences * MAX_LENGTH as usize)?,
            };
            self.synchronize(frame, &work, &mut scratch, &mut found, step)?;
            self.compose(frame, &work, &scratch, &mut found)?;
            step("composing")?;
            self.writer.write(frame, &mut work, &mut scratch, Some(&found.subsequences), step)?;
        }
        if !finishes {
            self.preparation.after(frame, &mut work, &scratch)?;
        }
        step("checksums")
    }

    /// Phases 1 and 2.
    fn synchronize(
        &self,
        frame: &Frame<'_>,
        work: &Decoding<'_, '_, S>,
        scratch: &mut Scratch<'_>,
        found: &mut Found<'_>,
        step: Step<'_>,
    ) -> Result<()> {
        let totals = work.batch.totals;
        let blocks = one_wave(self.resident, &totals);
        for (kernel, phase) in [(&self.synchronize, "in sequences"), (&self.join, "between sequences")] {
            let (tables, failed) = scratch.counts_and_cleared()?;
            let launch = ProgrammaticDependentLaunch::new(kernel, frame.stream())
                .reads(work.input)
                .reads(&work.batch.descriptors);
            let launch = launch.value(totals.streams).reads(&work.batch.books).reads(&tables).reads(&work.batch.sums);
            let launch = launch.writes(&mut found.subsequences.entries).writes(&mut found.subsequences.counts);
            let launch = launch.writes(&mut found.exits).writes(failed);
            // SAFETY: both have the parameters (const u8 *, const Stream *, u32, const Book *, const u16 *, const
            // Totals *, u8 *, u8 *, u8 *, u32 *): an entry and a count for each subsequence, whole sequences from a
            // multiple of their size; an exit for each stretch, of which joining has a thread each; a flag for each
            // stream and one more.
            unsafe { launch.launch(Kernel::grid(blocks, THREADS, 0)) }?;
            step(phase)?;
        }
        Ok(())
    }

    /// For streams that did not synchronize; the kernels leave at once where there is none.
    fn compose(
        &self,
        frame: &Frame<'_>,
        work: &Decoding<'_, '_, S>,
        scratch: &Scratch<'_>,
        found: &mut Found<'_>,
    ) -> Result<()> {
        let totals = work.batch.totals;
        let tables = scratch.counts()?;
        let failed = scratch.cleared.as_view();
        let blocks = (COMPOSING_BLOCKS * self.multiprocessors).min(totals.sequences);
        for resolve in [0_u32, 1] {
            if resolve == 1 {
                let launch = ProgrammaticDependentLaunch::new(&self.walk, frame.stream())
                    .reads(&work.batch.descriptors)
                    .reads(&failed);
                let launch = launch.reads(&found.functions).writes(&mut found.sequence_entries);
                // SAFETY: parameters (const Stream *, const u32 *, const u8 *, u8 *): a block and a flag for each
                // stream, MAX_LENGTH bytes of function and an entry for each sequence; functions hold values below
                // MAX_LENGTH.
                unsafe { launch.launch(Kernel::grid(totals.streams, SEQUENCE, 0)) }?;
            }
            let launch = ProgrammaticDependentLaunch::new(&self.compose, frame.stream()).reads(work.input);
            let launch = launch.reads(&work.batch.descriptors).value(totals.streams).reads(&work.batch.books);
            let launch = launch.reads(&tables).reads(&work.batch.sums).value(resolve).reads(&failed);
            let launch = launch.reads(&found.sequence_entries).writes(&mut found.functions);
            let launch = launch.writes(&mut found.subsequences.entries).writes(&mut found.subsequences.counts);
            // SAFETY: parameters (const u8 *, const Stream *, u32, const Book *, const u16 *, const Totals *, u32,
            // const u32 *, const u8 *, u8 *, u8 *, u8 *), sized as for the kernels before; shared memory for the
            // tables.
            unsafe { launch.launch(Kernel::grid(blocks, SEQUENCE, COUNT_TABLE_BYTES)) }?;
        }
        Ok(())
    }
}
