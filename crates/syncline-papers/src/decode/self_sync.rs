//! Decoding without an index, by self-synchronization, improved: Weißenberger, Schmidt, "Massively Parallel Huffman
//! Decoding on GPUs", ICPP 2018 (Section 4, Algorithms 2 to 5), with the early exit of Rivera et al., "Optimizing
//! Huffman Decoding for Error-Bounded Lossy Compression on GPUs", IPDPS 2022 (Section IV; Table V).
//!
//! Each lane synchronizes four subsequences; the rounds are bounded, and streams that do not synchronize are decoded by
//! composing functions. Launches `kernels/decode/self_sync.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use cudarc::driver::DeviceRepr;
use syncline_core::huffman::Symbol;

use super::compose::{ComposeScratch, Composer};
use super::subsequences::{EntryPoints, SubsequenceDecoder, SubsequenceTuning, one_wave, resident};
use syncline_cuda::device::{Device, Frame, Grid, Specialization};
use syncline_cuda::device_kernels::{In, Out, declare_kernels, launch};
use syncline_cuda::error::{CudaError, Result};
use syncline_cuda::huffman::decode::batch::BatchSizes;
use syncline_cuda::huffman::decode::prepare::{Preparation, Scratch};
use syncline_cuda::huffman::decode::{
    BatchTotals, BatchView, CodebookDescriptor, Decoding, FORMATS, SEQUENCE, StreamDescriptor, TABLE_BITS, constants,
};

declare_kernels! {
    /// The kernels of `kernels/decode/self_sync.cu`.
    struct SelfSyncKernels in "decode/self_sync.cu", of (symbol_bytes: usize, group_log2: u32), by (rounds: u32) {
        /// Threads per block.
        const THREADS: u32 = 512;
        /// Maximum number of subsequences of a segment that are decoded again to join it to the previous segment. In
        /// streams that synchronize at all, few segments need more than two.
        const MAX_JOINED: u32 = 32;
        with COMMON = constants(symbol_bytes, group_log2, false);
        with SEQUENCE = SEQUENCE;
        fn self_sync_segments(
            input: In<u8>, streams: In<StreamDescriptor>, stream_count: u32, codebooks: In<CodebookDescriptor>,
            count_tables: In<u16>, totals: In<BatchTotals>, entries: Out<u8>, counts: Out<u8>, exits: Out<u8>,
            failed: Out<u32>,
        );
        fn self_sync_join(
            input: In<u8>, streams: In<StreamDescriptor>, stream_count: u32, codebooks: In<CodebookDescriptor>,
            count_tables: In<u16>, totals: In<BatchTotals>, entries: Out<u8>, counts: Out<u8>, exits: In<u8>,
            failed: Out<u32>,
        );
    }
}

/// Subsequences that a warp synchronizes: four per lane.
const SEGMENT: u32 = 4 * 32;
/// Rounds of synchronization per warp before a stream's entry points are found by composing functions.
pub(crate) const ROUNDS: u32 = 6;

/// Launch parameters that affect speed only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SelfSyncTuning {
    /// Rounds of synchronization per warp before a stream's entry points are found by composing functions.
    pub rounds: u32,
    /// Parameters of decoding and writing.
    pub writing: SubsequenceTuning,
}

impl Default for SelfSyncTuning {
    fn default() -> Self {
        Self { rounds: ROUNDS, writing: SubsequenceTuning::default() }
    }
}

/// Returns the specializations for the compile check.
pub(crate) fn specializations() -> Vec<Specialization> {
    FORMATS.map(|(bytes, group_log2)| SelfSyncKernels::specialization(bytes, group_log2, ROUNDS)).to_vec()
}

/// Finds the entry points of subsequences: phases 1 and 2 of the 2018 paper, and composition where they fail.
#[derive(Debug, Clone)]
pub(crate) struct Synchronizer {
    kernels: SelfSyncKernels,
    composer: Composer,
    /// Blocks of the synchronizing kernels that the device runs at a time.
    resident: u32,
}

impl Synchronizer {
    pub fn new<S: Symbol>(device: &Device, group_log2: u32, rounds: u32) -> Result<Self> {
        if rounds == 0 {
            return Err(CudaError::invalid("self-synchronization needs at least one round"));
        }
        let kernels = SelfSyncKernels::load(device, S::BYTES, group_log2, rounds)?;
        Ok(Self {
            resident: resident(&kernels.self_sync_segments, THREADS, 0, device.info().multiprocessors)?,
            kernels,
            composer: Composer::new::<S>(device, group_log2)?,
        })
    }

    /// Returns the number of cleared words that [`Self::find_entry_points`] needs in `scratch.cleared`: a failure flag
    /// for each stream and one for all.
    pub fn flags(sizes: &BatchSizes) -> usize {
        sizes.streams as usize + 1
    }

    /// Finds the entry points of all subsequences.
    pub fn find_entry_points<'a, S: Symbol + DeviceRepr>(
        &self,
        frame: &mut Frame<'a>,
        decoding: &Decoding<'_, '_, S>,
        scratch: &mut Scratch<'_>,
    ) -> Result<EntryPoints<'a>> {
        let sizes = decoding.batch.sizes;
        let mut entry_points = EntryPoints::new(frame, &sizes)?;
        let mut compose = ComposeScratch::new(frame, &sizes)?;
        // End of each segment, in bits after its last subsequence.
        let mut exits = frame.slice::<u8>((sizes.sequences * (SEQUENCE / SEGMENT)) as usize)?;
        let blocks = one_wave(self.resident, &sizes);
        let (tables, failed) = scratch.counts_and_cleared()?;
        let BatchView { descriptors, codebooks, totals, .. } = decoding.batch;
        let EntryPoints { entries, counts } = &mut entry_points;
        let (stream, grid) = (frame.stream().clone(), Grid::new(blocks, THREADS).early(true));
        // SAFETY: there are an entry and a count for each subsequence, and each stream starts with a whole sequence.
        // There is an exit for each segment, each joined by one thread, and a flag for each stream and one more.
        unsafe {
            launch!(self.kernels.self_sync_segments on &stream, grid; decoding.input, descriptors, sizes.streams,
                codebooks, &tables, totals, entries, counts, &mut exits, failed)
        }?;
        // SAFETY: as above.
        unsafe {
            launch!(self.kernels.self_sync_join on &stream, grid; decoding.input, descriptors, sizes.streams, codebooks,
                &tables, totals, entries, counts, &exits, failed)
        }?;
        self.composer.find_entry_points(frame, decoding, scratch, &mut compose, &mut entry_points)?;
        Ok(entry_points)
    }
}

/// Decodes streams with one codebook, whatever their index.
#[derive(Debug, Clone)]
pub struct SelfSync<S> {
    preparation: Preparation<S>,
    synchronizer: Synchronizer,
    decoder: SubsequenceDecoder,
    group_log2: u32,
}

impl<S: Symbol + DeviceRepr> SelfSync<S> {
    /// Creates a decoder for streams with groups of `2^group_log2` symbols.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless `group_log2` is 6 or 7; errors of [`Device::kernel`].
    pub fn new(device: &Device, group_log2: u32) -> Result<Self> {
        Self::with_tuning(device, group_log2, SelfSyncTuning::default())
    }

    /// Creates a decoder with other launch parameters, for benchmarks and tests.
    ///
    /// # Errors
    /// The errors of [`Self::new`]; [`CudaError::InvalidArgument`] also for 0 rounds or parameters that no device
    /// supports.
    pub fn with_tuning(device: &Device, group_log2: u32, tuning: SelfSyncTuning) -> Result<Self> {
        Ok(Self {
            preparation: Preparation::new(device, group_log2, TABLE_BITS)?,
            synchronizer: Synchronizer::new::<S>(device, group_log2, tuning.rounds)?,
            decoder: SubsequenceDecoder::new::<S>(device, group_log2, tuning.writing)?,
            group_log2,
        })
    }

    /// Decodes the batch on the frame's stream, without waiting for it.
    ///
    /// # Errors
    /// The errors of [`Indexed::launch`](syncline_cuda::huffman::decode::Indexed::launch).
    pub fn launch(&self, frame: &mut Frame<'_>, mut decoding: Decoding<'_, '_, S>) -> Result<()> {
        decoding.check(frame, decoding.batch.sizes.max_codebooks <= 1, self.group_log2)?;
        let sizes = decoding.batch.sizes;
        let has_codewords = sizes.sequences > 0;
        let flags = Synchronizer::flags(&sizes);
        let mut scratch = self.preparation.before(frame, &mut decoding, true, !has_codewords, flags)?;
        if has_codewords {
            let entry_points = self.synchronizer.find_entry_points(frame, &decoding, &mut scratch)?;
            self.decoder.write(frame, &mut decoding, &mut scratch, &entry_points)?;
        } else {
            self.preparation.after(frame, &mut decoding, &scratch)?;
        }
        Ok(())
    }
}
