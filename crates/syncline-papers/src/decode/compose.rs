//! Entry points of streams that do not self-synchronize, by composing functions (the worst case of phase 2 in
//! Weißenberger, Schmidt, ICPP 2018, Section 4): each sequence is decoded from every possible entry point, which gives
//! a function from entry point to exit, and one walk applies the functions in order. Launches
//! `kernels/decode/compose.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use cudarc::driver::{CudaViewMut, DeviceRepr};
use syncline_core::huffman::Symbol;
use syncline_core::huffman::lengths::MAX_LENGTH;

use super::subsequences::EntryPoints;
use syncline_cuda::device::{Device, Frame, Grid, Specialization};
use syncline_cuda::device_kernels::{In, Out, declare_kernels, launch};
use syncline_cuda::error::Result;
use syncline_cuda::huffman::decode::batch::BatchSizes;
use syncline_cuda::huffman::decode::prepare::Scratch;
use syncline_cuda::huffman::decode::{
    BatchTotals, COUNT_ENTRIES, CodebookDescriptor, Decoding, FORMATS, SEQUENCE, StreamDescriptor, constants,
};

declare_kernels! {
    /// The kernels of `kernels/decode/compose.cu`.
    struct ComposeKernels in "decode/compose.cu", of (symbol_bytes: usize, group_log2: u32) {
        with COMMON = constants(symbol_bytes, group_log2, false);
        with SEQUENCE = SEQUENCE;
        with THREADS = SEQUENCE;
        fn compose_functions(
            input: In<u8>, streams: In<StreamDescriptor>, stream_count: u32, codebooks: In<CodebookDescriptor>,
            count_tables: In<u16>, totals: In<BatchTotals>, resolve: bool, failed: In<u32>, sequence_entries: In<u8>,
            functions: Out<u8>, entries: Out<u8>, counts: Out<u8>,
        );
        fn compose_walk(streams: In<StreamDescriptor>, failed: In<u32>, functions: In<u8>, sequence_entries: Out<u8>);
    }
}

/// Blocks per multiprocessor.
const BLOCKS: u32 = 4;
/// Bytes of shared memory for the counting tables.
const TABLE_BYTES: u32 = 2 * COUNT_ENTRIES as u32;

/// Returns the specializations for the compile check.
pub(crate) fn specializations() -> Vec<Specialization> {
    FORMATS.map(|(bytes, group_log2)| ComposeKernels::specialization(bytes, group_log2)).to_vec()
}

/// Scratch memory of one launch.
pub(super) struct ComposeScratch<'a> {
    /// The entry point of each sequence of streams that failed to synchronize, in bits.
    sequence_entries: CudaViewMut<'a, u8>,
    /// For each sequence, the exit for each possible entry point, in bits.
    functions: CudaViewMut<'a, u8>,
}

impl<'a> ComposeScratch<'a> {
    pub fn new(frame: &mut Frame<'a>, sizes: &BatchSizes) -> Result<Self> {
        let sequences = sizes.sequences as usize;
        Ok(Self { sequence_entries: frame.slice(sequences)?, functions: frame.slice(sequences * MAX_LENGTH as usize)? })
    }
}

/// The kernels.
#[derive(Debug, Clone)]
pub(super) struct Composer {
    kernels: ComposeKernels,
    multiprocessors: u32,
}

impl Composer {
    pub fn new<S: Symbol>(device: &Device, group_log2: u32) -> Result<Self> {
        let kernels = ComposeKernels::load(device, S::BYTES, group_log2)?;
        kernels.compose_functions.allow_shared_memory(TABLE_BYTES)?;
        Ok(Self { kernels, multiprocessors: device.info().multiprocessors })
    }

    /// Finds the entry points of streams whose flag in `scratch.cleared` is set. The kernels return at once if no flag
    /// is set.
    pub fn find_entry_points<S: Symbol + DeviceRepr>(
        &self,
        frame: &Frame<'_>,
        decoding: &Decoding<'_, '_, S>,
        scratch: &Scratch<'_>,
        compose: &mut ComposeScratch<'_>,
        entry_points: &mut EntryPoints<'_>,
    ) -> Result<()> {
        let sizes = decoding.batch.sizes;
        let tables = scratch.counts()?;
        let failed = scratch.cleared.as_view();
        let blocks = (BLOCKS * self.multiprocessors).min(sizes.sequences);
        for resolve in [false, true] {
            if resolve {
                let grid = Grid::new(sizes.streams, SEQUENCE).early(true);
                // SAFETY: there are a block and a flag for each stream, and MAX_LENGTH bytes of function and an entry
                // for each sequence. Functions hold values below MAX_LENGTH.
                unsafe {
                    launch!(self.kernels.compose_walk on frame.stream(), grid; &decoding.batch.descriptors, &failed,
                        &compose.functions, &mut compose.sequence_entries)
                }?;
            }
            let grid = Grid::new(blocks, SEQUENCE).shared_memory(TABLE_BYTES).early(true);
            // SAFETY: arrays as above, and an entry and a count for each subsequence. The shared memory holds the
            // tables.
            unsafe {
                launch!(self.kernels.compose_functions on frame.stream(), grid; decoding.input,
                    &decoding.batch.descriptors, sizes.streams, &decoding.batch.codebooks, &tables,
                    &decoding.batch.totals, resolve, &failed, &compose.sequence_entries, &mut compose.functions,
                    &mut entry_points.entries, &mut entry_points.counts)
            }?;
        }
        Ok(())
    }
}
