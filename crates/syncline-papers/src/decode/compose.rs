//! Entry points of streams that do not self-synchronize, by composing functions. Launches
//! `kernels/decode/compose.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use cudarc::driver::{CudaViewMut, DeviceRepr};
use syncline_core::huffman::Symbol;
use syncline_core::huffman::lengths::MAX_LENGTH;

use super::subsequences::EntryPoints;
use syncline_cuda::device::{Device, Frame, Kernel, ProgrammaticDependentLaunch, Source, Specialization, source};
use syncline_cuda::error::Result;
use syncline_cuda::huffman::decode::batch::BatchSizes;
use syncline_cuda::huffman::decode::prepare::Scratch;
use syncline_cuda::huffman::decode::{COUNT_ENTRIES, Decoding, FORMATS, SEQUENCE, constants};

const SOURCE: Source = source!("decode/compose.cu");

/// Blocks per multiprocessor.
const BLOCKS: u32 = 4;
/// Bytes of shared memory for the counting tables.
const TABLE_BYTES: u32 = 2 * COUNT_ENTRIES as u32;

fn specialization(symbol_bytes: usize, group_log2: u32) -> Specialization {
    let mut constants = constants(symbol_bytes, group_log2, false);
    constants.extend([("SEQUENCE", SEQUENCE.into()), ("THREADS", SEQUENCE.into())]);
    Specialization { assertions: String::new(), source: SOURCE, constants }
}

/// Returns the specializations for the compile check.
pub(crate) fn specializations() -> Vec<Specialization> {
    FORMATS.map(|(bytes, group_log2)| specialization(bytes, group_log2)).to_vec()
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
    functions: Kernel,
    walk: Kernel,
    multiprocessors: u32,
}

impl Composer {
    pub fn new<S: Symbol>(device: &Device, group_log2: u32) -> Result<Self> {
        let specialization = specialization(S::BYTES, group_log2);
        let functions = device.kernel(&specialization, "compose_functions")?;
        functions.allow_shared_memory(TABLE_BYTES)?;
        let walk = device.kernel(&specialization, "compose_walk")?;
        Ok(Self { functions, walk, multiprocessors: device.info().multiprocessors })
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
        for resolve in [0_u32, 1] {
            if resolve == 1 {
                let launch =
                    ProgrammaticDependentLaunch::new(&self.walk, frame.stream()).reads(&decoding.batch.descriptors);
                let launch = launch.reads(&failed).reads(&compose.functions).writes(&mut compose.sequence_entries);
                // SAFETY: the kernel's parameters are (const StreamDescriptor *, const u32 *, const u8 *, u8 *). There
                // are a block and a flag for each stream, and MAX_LENGTH bytes of function and an entry for each
                // sequence. Functions hold values below MAX_LENGTH.
                unsafe { launch.launch(Kernel::grid(sizes.streams, SEQUENCE, 0)) }?;
            }
            let launch = ProgrammaticDependentLaunch::new(&self.functions, frame.stream()).reads(decoding.input);
            let launch =
                launch.reads(&decoding.batch.descriptors).value(sizes.streams).reads(&decoding.batch.codebooks);
            let launch = launch.reads(&tables).reads(&decoding.batch.totals).value(resolve).reads(&failed);
            let launch = launch.reads(&compose.sequence_entries).writes(&mut compose.functions);
            let launch = launch.writes(&mut entry_points.entries).writes(&mut entry_points.counts);
            // SAFETY: the kernel's parameters are (const u8 *, const StreamDescriptor *, u32, const CodebookDescriptor
            // *, const u16 *, const BatchTotals *, u32, const u32 *, const u8 *, u8 *, u8 *, u8 *), with arrays as
            // above, and an entry and a count for each subsequence. The shared memory holds the tables.
            unsafe { launch.launch(Kernel::grid(blocks, SEQUENCE, TABLE_BYTES)) }?;
        }
        Ok(())
    }
}
