//! Lays out the records of a batch: launcher of `kernels/container/layout.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use std::mem::{offset_of, size_of};
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut};

use super::progress::Progress;
use super::record::{Contents, TokenLists};
use super::record_inputs::RecordInputs;
use super::structs::{ChunkParts, DeviceStreams, LayoutOutput, LayoutSources, RecordPlan};
use crate::device::{Device, Frame, Grid, fetch};
use crate::device_kernels::{Out, declare_kernels, launch};
use crate::error::{CudaError, Result};
use crate::geometry::{ChunkBatch, DeviceGeometry};
use crate::huffman::encode::{Encoded, StreamPlan};
use crate::quantize::ChunkSummary;

declare_kernels! {
    /// The kernel of `kernels/container/layout.cu`.
    pub(super) struct LayoutKernels in "container/layout.cu", by (element_bytes: u32) {
        /// Threads of the one block that lays records out, one per chunk. Most batches have fewer chunks.
        const THREADS: u32 = 256;
        with PLAN_WORDS = size_of::<StreamPlan>() / size_of::<u32>();
        with PLAN_GROUPS = offset_of!(StreamPlan, groups) / size_of::<u32>();
        with PLAN_CODEBOOKS = offset_of!(StreamPlan, codebooks) / size_of::<u32>();
        with PLAN_BYTES = offset_of!(StreamPlan, stream_bytes) / size_of::<u32>();
        with PLAN_STATUS = offset_of!(StreamPlan, status) / size_of::<u32>();
        fn container_layout(
            geometry: DeviceGeometry, batch: ChunkBatch, sources: LayoutSources, output: LayoutOutput,
            parts: Out<ChunkParts>, plans: Out<RecordPlan>,
        );
    }
}

/// Maximum number of blocks that write a record. More blocks finish earlier while there are few records. Records
/// without lists take only the minimum: more blocks would compete with those that write codes.
const MAX_BLOCKS_PER_RECORD: u32 = 8;
const MIN_BLOCKS_PER_RECORD: u32 = 2;

/// The Huffman streams of a batch, laid out. Every chunk has a narrow stream; the others exist only for chunks that
/// need them.
pub struct Streams<'a> {
    /// Codes with the narrow radius, one stream per chunk, in order.
    pub narrow: &'a mut Encoded,
    /// Codes with the wide radius.
    pub wide: Option<&'a mut Encoded>,
    /// Bitmaps of masks.
    pub masks: Option<&'a mut Encoded>,
    /// Bitmaps of signs.
    pub signs: Option<&'a mut Encoded>,
    /// Number of streams of each other kind if a kernel has listed them, of which some may be empty; else 0.
    pub listed: u32,
    /// Counter of narrow streams that are laid out; 0 if they are not counted.
    pub done: CUdeviceptr,
    /// The list of narrow streams.
    pub spans: CUdeviceptr,
    /// Groups of a narrow stream that one block writes.
    pub groups_of_block: u32,
}

/// Records that are laid out but not yet written.
pub struct RecordLayout<'a> {
    pub(super) parts: CudaViewMut<'a, ChunkParts>,
    pub(super) plans: CudaViewMut<'a, RecordPlan>,
    pub(super) starts: CudaViewMut<'a, u64>,
    /// For each narrow stream, the number of blocks that have yet to write to its record, if they are counted.
    pub(super) unwritten: Option<CudaViewMut<'a, u32>>,
    pub(super) spans: CUdeviceptr,
    pub(super) first_chunk: u64,
    pub(super) chunks: u32,
    /// Blocks that write a record.
    pub(super) blocks: u32,
}

impl RecordLayout<'_> {
    /// Returns the address of the counts of blocks that have yet to write to each record, or 0 if they are not counted.
    pub(crate) fn unwritten(&mut self, stream: &Arc<CudaStream>) -> CUdeviceptr {
        self.unwritten.as_mut().map_or(0, |unwritten| unwritten.device_ptr_mut(stream).0)
    }

    /// Returns for each chunk with LZSS tokens the offset of its section of codes in the output. Waits for the stream.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub(crate) fn read_token_places(&self, stream: &Arc<CudaStream>) -> Result<Vec<Option<u64>>> {
        let plans = fetch(stream, &self.plans, "reading where records are")?;
        Ok(plans.iter().map(RecordPlan::token_place).collect())
    }
}

/// The data from which a batch of records is laid out.
pub(crate) struct LayoutInput<'l, 'v> {
    pub contents: &'l Contents<'v>,
    pub record_inputs: &'l RecordInputs<'v>,
    /// One summary per chunk.
    pub summaries: &'l CudaView<'v, ChunkSummary>,
    /// LZSS tokens of the codes, taken where they make a record shorter.
    pub tokens: Option<&'l TokenLists<'v>>,
    /// Whether any chunk has outliers or verbatim values.
    pub any_lists: bool,
    /// Number of the batch's first chunk in the stream's progress.
    pub first: u64,
    /// Size of the output in bytes.
    pub room: u64,
}

/// Lays out records.
#[derive(Debug)]
pub struct RecordLayouter {
    kernels: LayoutKernels,
    /// Blocks that write records which the device runs concurrently.
    blocks_at_a_time: u32,
}

impl RecordLayouter {
    /// Loads the kernel for records of elements of 4 or 8 bytes.
    ///
    /// # Errors
    /// The errors of [`Device::kernel`].
    pub fn new(device: &Device, element_bytes: u32) -> Result<Self> {
        let kernels = LayoutKernels::load(device, element_bytes)?;
        Ok(Self { kernels, blocks_at_a_time: device.info().multiprocessors * 2 })
    }

    /// Places the batch's records after earlier ones, and places their streams in them.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the input's sizes do not match; [`CudaError::OutOfMemory`];
    /// [`CudaError::Driver`].
    pub(crate) fn lay_out<'a>(
        &self,
        frame: &mut Frame<'a>,
        input: &LayoutInput<'_, '_>,
        streams: &mut Streams<'_>,
        progress: &mut Progress,
    ) -> Result<RecordLayout<'a>> {
        let LayoutInput { contents, record_inputs, summaries, tokens, any_lists, first, room } = *input;
        let stream = frame.stream().clone();
        let chunks = contents.batch.chunks();
        let tiles = contents.batch.tiles() as usize;
        let summarized = summaries.len() >= chunks as usize && record_inputs.chunks() >= chunks;
        if !summarized || contents.metas.len() < tiles || contents.bases.len() < tiles {
            return Err(CudaError::invalid("every chunk needs a summary, and every tile a meta and a base"));
        }
        if streams.narrow.plans().len() < chunks as usize || progress.chunks() < first + u64::from(chunks) {
            return Err(CudaError::invalid("the stream has too few streams or lengths for the chunks of this batch"));
        }
        if tokens.is_some_and(|tokens| tokens.parts.len() < chunks as usize) {
            return Err(CudaError::invalid("every chunk needs an entry in the lists of tokens"));
        }
        let mut parts = frame.slice::<ChunkParts>(chunks as usize)?;
        let mut plans = frame.slice::<RecordPlan>(chunks as usize)?;
        let mut starts = frame.slice::<u64>(chunks as usize)?;
        let most = if any_lists || tokens.is_some() { MAX_BLOCKS_PER_RECORD } else { MIN_BLOCKS_PER_RECORD };
        let blocks = most.min(self.blocks_at_a_time.div_ceil(chunks.max(1))).max(MIN_BLOCKS_PER_RECORD);
        let spans = streams.spans;
        if chunks == 0 {
            return Ok(RecordLayout {
                parts,
                plans,
                starts,
                unwritten: None,
                spans,
                first_chunk: first,
                chunks,
                blocks,
            });
        }
        let only_narrow =
            streams.wide.is_none() && streams.masks.is_none() && streams.signs.is_none() && tokens.is_none();
        let counted = streams.done != 0 && only_narrow;
        let mut unwritten = match counted {
            true => Some(frame.slice::<u32>(streams.narrow.plans().len())?),
            false => None,
        };
        let pointers = |encoded: Option<&mut Encoded>| match encoded {
            Some(encoded) => {
                let (plans, _) = encoded.plans().device_ptr(&stream);
                DeviceStreams { plans, places: encoded.offsets_mut().device_ptr_mut(&stream).0 }
            }
            None => DeviceStreams { plans: 0, places: 0 },
        };
        let sources = LayoutSources {
            summaries: summaries.device_ptr(&stream).0,
            tiles: record_inputs.tiles().device_ptr(&stream).0,
            narrow_streams: streams.narrow.plans().len() as u32,
            sums_of_chunk: record_inputs.sums_per_chunk(),
            narrow: pointers(Some(streams.narrow)),
            wide: pointers(streams.wide.as_deref_mut()),
            masks: pointers(streams.masks.as_deref_mut()),
            signs: pointers(streams.signs.as_deref_mut()),
            tokens: tokens.map_or(0, |tokens| tokens.parts.device_ptr(&stream).0),
            other_streams: streams.listed.into(),
        };
        let is_first = u64::from(!std::mem::replace(&mut progress.started, true));
        progress.batches += 1;
        let checksummed = progress.checksummed();
        let mut lengths = progress.lengths.slice_mut(first as usize..);
        let output = LayoutOutput {
            room,
            start: progress.start,
            state: progress.state.device_ptr_mut(&stream).0,
            starts: starts.device_ptr_mut(&stream).0,
            lengths: lengths.device_ptr_mut(&stream).0,
            is_first,
            number: progress.batches,
            streams_done: streams.done,
            unwritten: unwritten.as_mut().map_or(0, |unwritten| unwritten.device_ptr_mut(&stream).0),
            checksummed_records: checksummed,
            groups_of_block: streams.groups_of_block,
            blocks_of_record: blocks,
            only_narrow: only_narrow.into(),
        };
        let grid = Grid::new(1, THREADS).early(true);
        let Contents { geometry, batch, .. } = *contents;
        // SAFETY: the checks above prove that there are a summary, tile sums, parts, a length, a plan and a narrow
        // stream for each chunk of the batch. The other streams are those that `BatchPlan` listed from the same
        // summaries. Before it waits, the kernel reads only what quantizing left: `encode_layout` lets it start when
        // all earlier kernels have ended, and other kernels when they have ended themselves. It resets each counter
        // that it waits for to 0.
        unsafe {
            launch!(self.kernels.container_layout on &stream, grid; geometry, batch, sources, output, &mut parts,
                &mut plans)
        }?;
        streams.narrow.set_counters_cleared();
        Ok(RecordLayout { parts, plans, starts, unwritten, spans, first_chunk: first, chunks, blocks })
    }
}
