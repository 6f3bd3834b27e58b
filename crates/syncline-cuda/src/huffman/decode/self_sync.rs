//! Decoding without an index: launcher of `kernels/huffman_decode_self_sync.cu`.

use cudarc::driver::{CudaViewMut, DeviceRepr, PushKernelArg};
use syncline_core::huffman::lengths::MAX_LENGTH;
use syncline_core::huffman::{Decoder, Symbol};

use super::gap::{GapTuning, Known, Writing};
use super::{Decoding, Preparation, SEQUENCE, SHAPES, Scratch, constants};
use crate::device::{Device, Frame, Kernel, Source, Specialization};
use crate::error::{CudaError, DriverContext, Result};

const SOURCE: Source =
    Source { name: "huffman_decode_self_sync.cu", text: include_str!("../../../kernels/huffman_decode_self_sync.cu") };

/// What decides speed only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SelfSyncTuning {
    /// Rounds in a sequence before its stream is decoded by composing functions.
    pub rounds: u32,
    /// Launches that synchronise sequences with those before them.
    pub joins: u32,
    /// How symbols are written.
    pub writing: GapTuning,
}

impl SelfSyncTuning {
    /// Symbols straight to memory, as in 2018.
    pub fn published() -> Self {
        Self { writing: GapTuning { staged: false, ..GapTuning::default() }, ..Self::default() }
    }
}

impl Default for SelfSyncTuning {
    fn default() -> Self {
        Self { rounds: 8, joins: 1, writing: GapTuning::default() }
    }
}

fn specialization(symbol_bytes: usize, group_log2: u32, rounds: u32) -> Specialization {
    let mut constants = constants(symbol_bytes, group_log2, false);
    constants.extend([("SEQUENCE", SEQUENCE.into()), ("THREADS", SEQUENCE.into()), ("ROUNDS", rounds.into())]);
    Specialization { source: SOURCE, constants }
}

/// What the compile check compiles.
pub(super) fn specializations() -> Vec<Specialization> {
    let rounds = SelfSyncTuning::default().rounds;
    SHAPES.map(|(bytes, group_log2)| specialization(bytes, group_log2, rounds)).to_vec()
}

/// Decodes streams with one codebook, whatever their index.
#[derive(Debug, Clone)]
pub struct SelfSync<S> {
    preparation: Preparation<S>,
    synchronise: Kernel,
    check: Kernel,
    compose: Kernel,
    walk: Kernel,
    writing: Writing,
    tuning: SelfSyncTuning,
    group_log2: u32,
}

/// What is found out about subsequences and sequences.
struct Found<'a> {
    entries: CudaViewMut<'a, u8>,
    counts: CudaViewMut<'a, u16>,
    sequence_entries: CudaViewMut<'a, u8>,
    exits: [CudaViewMut<'a, u8>; 2],
    functions: CudaViewMut<'a, u8>,
    failed: CudaViewMut<'a, u32>,
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
        let specialization = specialization(S::BYTES, group_log2, tuning.rounds);
        let kernel = |name| device.kernel(&specialization, name);
        Ok(Self {
            preparation: Preparation::new(device, group_log2)?,
            synchronise: kernel("self_sync")?,
            check: kernel("self_sync_check")?,
            compose: kernel("self_sync_compose")?,
            walk: kernel("self_sync_walk")?,
            writing: Writing::new::<S>(device, group_log2, true, tuning.writing)?,
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
                entries: frame.slice(totals.subsequences as usize)?,
                counts: frame.slice(totals.subsequences as usize)?,
                sequence_entries: frame.slice(sequences)?,
                exits: [frame.slice(sequences)?, frame.slice(sequences)?],
                functions: frame.slice(sequences * MAX_LENGTH as usize)?,
                failed: frame.zeros(totals.streams as usize)?,
            };
            self.synchronise(frame, &work, &scratch, &mut found)?;
            self.compose(frame, &work, &scratch, &mut found)?;
            let (entries, counts) = (found.entries.as_view(), found.counts.as_view());
            let known = Known { entries: &entries, counts: &counts };
            self.writing.launch(frame, &mut work, &mut scratch, Some(known))?;
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
        for launch_number in 0..=self.tuning.joins {
            let first_launch = u32::from(launch_number == 0);
            let [before, after] = &mut found.exits;
            let mut launch = frame.stream().launch_builder(self.synchronise.function());
            launch.arg(work.input).arg(&work.batch.descriptors).arg(&totals.streams);
            launch.arg(&work.batch.books).arg(&tables).arg(&work.batch.symbols);
            launch.arg(&work.batch.sums).arg(&first_launch);
            launch.arg(&mut found.entries).arg(&mut found.counts).arg(&mut found.sequence_entries);
            launch.arg(before).arg(after).arg(&mut found.failed);
            // SAFETY: parameters (const u8 *, const Stream *, u32, const Book *, const u32 *, const u16 *, const Totals *, u32, u8 *, u16 *, u8 *, const u8 *, u8 *, u32 *): an entry
            // and a count for each subsequence, whole sequences; an entry and two exits for each sequence, a block each; a flag for each stream.
            unsafe { launch.launch(Kernel::grid(totals.sequences, SEQUENCE, 0)) }.doing("synchronising")?;
            found.exits.swap(0, 1);
        }
        let exits = found.exits[0].as_view();
        let sequence_entries = found.sequence_entries.as_view();
        let mut launch = frame.stream().launch_builder(self.check.function());
        launch.arg(&work.batch.descriptors).arg(&totals.streams).arg(&work.batch.sums);
        launch.arg(&sequence_entries).arg(&exits).arg(&mut found.failed);
        let blocks = totals.sequences.div_ceil(SEQUENCE);
        // SAFETY: parameters (const Stream *, u32, const Totals *, const u8 *, const u8 *, u32 *), one of each for each sequence, and a flag for each stream.
        unsafe { launch.launch(Kernel::grid(blocks, SEQUENCE, 0)) }.doing("checking synchronisation")?;
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
            launch.arg(&work.batch.books).arg(&tables).arg(&work.batch.symbols);
            launch.arg(&work.batch.sums).arg(&resolve);
            launch.arg(&failed).arg(&sequence_entries).arg(&mut found.functions);
            launch.arg(&mut found.entries).arg(&mut found.counts);
            // SAFETY: parameters (const u8 *, const Stream *, u32, const Book *, const u32 *, const u16 *, const Totals *, u32, const u32 *, const u8 *, u8 *, u8 *, u16 *), sized as
            // for the kernels before; a block for each sequence.
            unsafe { launch.launch(Kernel::grid(totals.sequences, SEQUENCE, 0)) }.doing("composing sequences")?;
        }
        Ok(())
    }
}
