//! Decoding without an index: launcher of `kernels/huffman_decode_self_sync.cu` and `huffman_decode_compose.cu`.

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr, PushKernelArg};
use syncline_core::huffman::lengths::MAX_LENGTH;
use syncline_core::huffman::{Decoder, SUBSEQUENCE_BITS, Symbol};

use super::gap::{Writer, Writing};
use super::spans::Entries;
use super::{BOOK_WORDS, Decoding, Preparation, SEQUENCE, SHAPES, Scratch, constants};
use crate::device::{Device, Frame, Kernel, Source, Specialization};
use crate::error::{CudaError, DriverContext, Result};

const SOURCE: Source =
    Source { name: "huffman_decode_self_sync.cu", text: include_str!("../../../kernels/huffman_decode_self_sync.cu") };

const COMPOSE: Source =
    Source { name: "huffman_decode_compose.cu", text: include_str!("../../../kernels/huffman_decode_compose.cu") };

/// Threads of a block that synchronises.
const THREADS: u32 = 512;
/// Subsequences that each of them has.
const SUBSEQUENCES: u32 = 4;
/// The other kernels' sequences that such a block works on at a time.
const JOINED: u32 = THREADS * SUBSEQUENCES / SEQUENCE;
/// Dynamic shared memory of such a block: a codebook's tables; the words of its sequence, three more, and a gap after every 32.
const SHARED_MEMORY: u32 = {
    let words = THREADS * SUBSEQUENCES * SUBSEQUENCE_BITS / 32 + 3;
    4 * (BOOK_WORDS as u32 + words + words / 32 + 1)
};

/// What decides speed only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SelfSyncTuning {
    /// Rounds in a sequence before its stream is decoded by composing functions.
    pub rounds: u32,
    /// Launches that synchronise sequences with those before them.
    pub joins: u32,
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
        Self { rounds: 8, joins: 1, writing: Writing::default() }
    }
}

fn specialization(symbol_bytes: usize, group_log2: u32, rounds: u32) -> Specialization {
    let mut constants = constants(symbol_bytes, group_log2, false);
    constants.extend([("SEQUENCE", (THREADS * SUBSEQUENCES).into()), ("THREADS", THREADS.into())]);
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
    let synchronise = SHAPES.map(|(bytes, group_log2)| specialization(bytes, group_log2, rounds));
    let compose = SHAPES.map(|(bytes, group_log2)| compose_specialization(bytes, group_log2));
    [synchronise, compose].concat()
}

/// Decodes streams with one codebook, whatever their index.
#[derive(Debug, Clone)]
pub struct SelfSync<S> {
    preparation: Preparation<S>,
    synchronise: Kernel,
    check: Kernel,
    compose: Kernel,
    walk: Kernel,
    writer: Writer,
    tuning: SelfSyncTuning,
    group_log2: u32,
    multiprocessors: u32,
}

/// `Results` of the kernel: entries, counts, entries of sequences, exits of the launch before and of this one.
#[derive(Clone, Copy)]
#[repr(C)]
struct Results([CUdeviceptr; 5]);

// SAFETY: five device addresses, as the kernel's struct has.
unsafe impl DeviceRepr for Results {}

/// What is found out about subsequences and sequences.
struct Found<'a> {
    subsequences: Entries<'a>,
    sequence_entries: CudaViewMut<'a, u8>,
    exits: [CudaViewMut<'a, u8>; 2],
    functions: CudaViewMut<'a, u8>,
    failed: CudaViewMut<'a, u32>,
}

impl Found<'_> {
    fn results(&mut self, stream: &Arc<CudaStream>) -> Results {
        // All of it is used on this one stream, whose order is all the order there need be.
        let [before, after] = &mut self.exits;
        Results([
            self.subsequences.entries.device_ptr_mut(stream).0,
            self.subsequences.counts.device_ptr_mut(stream).0,
            self.sequence_entries.device_ptr_mut(stream).0,
            before.device_ptr(stream).0,
            after.device_ptr_mut(stream).0,
        ])
    }
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
            return Err(CudaError::invalid("synchronising takes a round"));
        }
        let synchronising = specialization(S::BYTES, group_log2, tuning.rounds);
        let composing = compose_specialization(S::BYTES, group_log2);
        let synchronise = device.kernel(&synchronising, "self_sync")?;
        synchronise.allow_shared_memory(SHARED_MEMORY)?;
        Ok(Self {
            preparation: Preparation::new(device, group_log2)?,
            synchronise,
            check: device.kernel(&synchronising, "self_sync_check")?,
            compose: device.kernel(&composing, "self_sync_compose")?,
            walk: device.kernel(&composing, "self_sync_walk")?,
            multiprocessors: device.info().multiprocessors,
            writer: Writer::new::<S>(device, group_log2, true, tuning.writing)?,
            tuning,
            group_log2,
        })
    }

    /// Decodes the batch on the frame's stream, without waiting for it.
    ///
    /// # Errors
    /// As [`Indexed::launch`](super::Indexed::launch).
    pub fn launch(&self, frame: &mut Frame<'_>, mut work: Decoding<'_, '_, S>) -> Result<()> {
        work.check(frame, Decoder::SelfSync, self.group_log2)?;
        let mut scratch = self.preparation.before(frame, &mut work)?;
        let totals = work.batch.totals;
        if totals.sequences > 0 {
            let sequences = totals.sequences as usize;
            let mut found = Found {
                subsequences: Entries::new(frame, &totals)?,
                sequence_entries: frame.slice(sequences)?,
                exits: [frame.slice(sequences)?, frame.slice(sequences)?],
                functions: frame.slice(sequences * MAX_LENGTH as usize)?,
                failed: frame.zeros(totals.streams as usize)?,
            };
            self.synchronise(frame, &work, &scratch, &mut found)?;
            self.compose(frame, &work, &scratch, &mut found)?;
            let known = &found.subsequences;
            match &self.writer {
                Writer::Spans(spans) => spans.write(frame, &mut work, &mut scratch, known)?,
                Writer::Published(published) => published.launch(frame, &mut work, &mut scratch, Some(known))?,
            }
        }
        self.preparation.after(frame, &mut work, &scratch)
    }

    /// Phases 1 and 2, and the check that they came to an end.
    fn synchronise(
        &self,
        frame: &Frame<'_>,
        work: &Decoding<'_, '_, S>,
        scratch: &Scratch<'_>,
        found: &mut Found<'_>,
    ) -> Result<()> {
        let totals = work.batch.totals;
        let tables = scratch.tables.as_view();
        let resident = self.synchronise.blocks_per_multiprocessor(THREADS, SHARED_MEMORY)?.max(1);
        for launch_number in 0..=self.tuning.joins {
            let first_launch = u32::from(launch_number == 0);
            // The first launch keeps its tables; in the others nearly all blocks leave at once.
            let run = if launch_number == 0 { totals.sequences.div_ceil(resident * self.multiprocessors) } else { 1 };
            let run = run.next_multiple_of(JOINED);
            let results = found.results(frame.stream());
            let mut launch = frame.stream().launch_builder(self.synchronise.function());
            launch.arg(work.input).arg(&work.batch.descriptors).arg(&totals.streams);
            launch.arg(&work.batch.books).arg(&tables).arg(&work.batch.symbols);
            launch.arg(&totals.sequences).arg(&run).arg(&first_launch).arg(&results).arg(&mut found.failed);
            let grid = Kernel::grid(totals.sequences.div_ceil(run), THREADS, SHARED_MEMORY);
            // SAFETY: parameters (const u8 *, const Stream *, u32, const Book *, const u32 *, const u16 *, u32, u32, u32, Results, u32 *): an entry and a count for
            // each subsequence, whole sequences from a multiple of their size; an entry and two exits for each sequence; a flag for each stream.
            unsafe { launch.launch(grid) }.doing("synchronising")?;
            found.exits.swap(0, 1);
        }
        let exits = found.exits[0].as_view();
        let sequence_entries = found.sequence_entries.as_view();
        let mut launch = frame.stream().launch_builder(self.check.function());
        launch.arg(&work.batch.descriptors).arg(&totals.streams).arg(&totals.sequences);
        launch.arg(&sequence_entries).arg(&exits).arg(&mut found.failed);
        let blocks = totals.sequences.div_ceil(THREADS);
        // SAFETY: parameters (const Stream *, u32, u32, const u8 *, const u8 *, u32 *), one of each for each sequence, and a flag for each stream.
        unsafe { launch.launch(Kernel::grid(blocks, THREADS, 0)) }.doing("checking synchronisation")?;
        Ok(())
    }

    /// For streams that did not synchronise; the kernels leave at once where there is none.
    fn compose(
        &self,
        frame: &Frame<'_>,
        work: &Decoding<'_, '_, S>,
        scratch: &Scratch<'_>,
        found: &mut Found<'_>,
    ) -> Result<()> {
        let totals = work.batch.totals;
        let tables = scratch.tables.as_view();
        let failed = found.failed.as_view();
        for resolve in [0_u32, 1] {
            if resolve == 1 {
                let functions = found.functions.as_view();
                let mut launch = frame.stream().launch_builder(self.walk.function());
                launch.arg(&work.batch.descriptors).arg(&failed).arg(&functions).arg(&mut found.sequence_entries);
                // SAFETY: parameters (const Stream *, const u32 *, const u8 *, u8 *): a block and a flag for each stream, MAX_LENGTH bytes of function and
                // an entry for each sequence; functions hold values below MAX_LENGTH.
                unsafe { launch.launch(Kernel::grid(totals.streams, SEQUENCE, 0)) }.doing("walking along sequences")?;
            }
            let sequence_entries = found.sequence_entries.as_view();
            let mut launch = frame.stream().launch_builder(self.compose.function());
            launch.arg(work.input).arg(&work.batch.descriptors).arg(&totals.streams);
            launch.arg(&work.batch.books).arg(&tables).arg(&work.batch.symbols).arg(&resolve);
            launch.arg(&failed).arg(&sequence_entries).arg(&mut found.functions);
            launch.arg(&mut found.subsequences.entries).arg(&mut found.subsequences.counts);
            // SAFETY: parameters (const u8 *, const Stream *, u32, const Book *, const u32 *, const u16 *, u32, const u32 *, const u8 *, u8 *, u8 *, u8 *), sized as
            // for the kernels before; a block for each sequence.
            unsafe { launch.launch(Kernel::grid(totals.sequences, SEQUENCE, 0)) }.doing("composing sequences")?;
        }
        Ok(())
    }
}
