//! Makes records of the quantized chunks of a batch: lays out and writes the Huffman streams and the records, and
//! hashes the records.

mod queued;

pub(crate) use queued::QueuedParts;

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut};
use syncline_core::container::RECORD_HEADER_LEN;
use syncline_core::huffman::IndexKind;
use syncline_core::predict::codes::{RADIUS, WIDE_RADIUS};

use super::layout::{LayoutInput, RecordLayouter, Streams};
use super::progress::Progress;
use super::record::{Contents, TokenLists};
use super::record_inputs::RecordInputs;
use super::stream_coder::{StreamCoder, lay_out_optional};
use super::table::{StreamEnd, TableWriter};
use super::write::{ChecksumTarget, RecordWriter};
use crate::device::{Device, Frame};
use crate::error::Result;
use crate::geometry::ChunkBatch;
use crate::huffman::encode::{Format, LaidOutStreams, Overlap, StreamSpan};
use crate::quantize::{ChunkSummary, TileSums, blocks_per_chunk};

const NARROW_ALPHABET: u32 = 2 * RADIUS;
const WIDE_ALPHABET: u32 = 1 << 16;
/// log2 of the bytes in a group of bitmaps.
const BITMAP_GROUP_LOG2: u8 = 6;

/// The format of streams of bitmaps.
pub(super) const BITMAP_FORMAT: Format =
    Format { symbol_bytes: 1, group_log2: BITMAP_GROUP_LOG2, alphabet: 256, classes: false, index: IndexKind::Symbol };

/// The streams that only some chunks of a batch have, listed by the host from the summaries.
#[derive(Debug, Default)]
pub struct BatchPlan {
    /// Codes of chunks that take the wide radius.
    pub wide: Vec<StreamSpan>,
    /// Bitmaps of masks, for chunks that have any.
    pub masks: Vec<StreamSpan>,
    /// Bitmaps of signs, for chunks that have any.
    pub signs: Vec<StreamSpan>,
    /// Whether any chunk has outliers or verbatim values.
    pub lists: bool,
    /// The largest number of groups of codes in a chunk.
    pub most_groups: u32,
}

impl BatchPlan {
    /// Plans a batch from the summary of each of its chunks.
    pub fn new(batch: &ChunkBatch, summaries: &[ChunkSummary]) -> Self {
        let mut plan = Self::default();
        let (mut mask_bytes, mut sign_bytes) = (0, 0);
        for (chunk, summary) in (0..batch.chunks()).zip(summaries) {
            if summary.radius != RADIUS {
                plan.wide.push(StreamSpan {
                    first_group: batch.first_slot(chunk),
                    groups: summary.groups,
                    free_symbol: WIDE_RADIUS as u16,
                });
            }
            plan.most_groups = plan.most_groups.max(summary.groups);
            plan.lists |= summary.outliers > 0 || summary.verbatim > 0;
            add_bitmaps(&mut plan.masks, &mut mask_bytes, summary.mask_bytes);
            add_bitmaps(&mut plan.signs, &mut sign_bytes, summary.sign_bytes);
        }
        plan
    }
}

/// Adds a stream of `bytes` bytes of bitmaps after `before` bytes of other streams, unless it is empty.
fn add_bitmaps(streams: &mut Vec<StreamSpan>, before: &mut u64, bytes: u32) {
    if bytes > 0 {
        let first_group = *before >> BITMAP_GROUP_LOG2;
        streams.push(StreamSpan { first_group, groups: bytes >> BITMAP_GROUP_LOG2, free_symbol: 0 });
        *before += u64::from(bytes);
    }
}

/// The codes of a batch.
#[derive(Debug)]
pub struct Codes<'v, 'a> {
    /// Codes of each chunk from its first slot on. Encoding overwrites codes of the narrow radius with codewords, which
    /// remain there until the streams are written.
    pub codes: &'v mut CudaViewMut<'a, u16>,
    /// The class of each group, if the index is [`IndexKind::Symbol`].
    pub classes: Option<&'v CudaView<'v, u8>>,
}

/// Bitmaps of masks and signs, at the offsets that [`BatchPlan`] gives.
#[derive(Debug, Default)]
pub struct Bitmaps<'a> {
    /// Bitmaps of masks.
    pub masks: Option<CudaView<'a, u8>>,
    /// Bitmaps of signs.
    pub signs: Option<CudaView<'a, u8>>,
}

/// Codes of a batch as LZSS tokens.
pub struct TokenCodes<'t> {
    /// The lists of records with tokens.
    pub lists: &'t TokenLists<'t>,
    /// Writes the tokens of those chunks that have an offset in the output.
    pub write: &'t mut TokenWriter<'t>,
}

/// A callback that receives, for each chunk with LZSS tokens, the offset of its section of codes in the output.
pub type TokenWriter<'t> = dyn FnMut(&[Option<u64>], &mut CudaViewMut<'_, u8>) -> Result<()> + 't;

/// The contents of a batch's records, except for its codes.
pub struct BatchInput<'b, 'v> {
    /// The streams that only some chunks have.
    pub plan: &'b BatchPlan,
    /// One summary per chunk.
    pub summaries: &'b CudaView<'v, ChunkSummary>,
    /// Bitmaps of masks and signs.
    pub bitmaps: &'b Bitmaps<'v>,
    /// Everything that is not a Huffman stream.
    pub contents: &'b Contents<'v>,
    /// LZSS tokens of the codes, taken where they make a record shorter.
    pub tokens: Option<TokenCodes<'b>>,
}

/// Destination of a batch's records.
pub struct RecordOutput<'o, 'v> {
    /// Progress of writing the stream.
    pub progress: &'o mut Progress,
    /// Number of the batch's first chunk in `progress`.
    pub first: u64,
    /// The whole stream.
    pub output: &'o mut CudaViewMut<'v, u8>,
}

/// The streams of a batch that only some chunks have, laid out.
#[derive(Default)]
struct OtherStreams<'a> {
    wide: Option<LaidOutStreams<'a>>,
    masks: Option<LaidOutStreams<'a>>,
    signs: Option<LaidOutStreams<'a>>,
    /// Number of streams of each kind if a kernel has listed them; else 0.
    listed: u32,
}

/// Makes records from quantized chunks.
#[derive(Debug)]
pub struct Assembler<'d> {
    device: &'d Device,
    format: Format,
    narrow: StreamCoder<u16>,
    /// The following are created on first use, because their kernels take long to compile.
    wide: Option<StreamCoder<u16>>,
    masks: Option<StreamCoder<u8>>,
    signs: Option<StreamCoder<u8>>,
    layouter: RecordLayouter,
    writer: RecordWriter,
    table: TableWriter,
    /// Number of partial [`TileSums`] that quantizing leaves for each chunk.
    sums_per_chunk: u32,
}

/// A batch whose narrow codes are laid out but not yet written.
pub struct StartedBatch<'a> {
    record_inputs: RecordInputs<'a>,
    narrow: Option<LaidOutStreams<'a>>,
}

impl<'d> Assembler<'d> {
    /// Returns an assembler for streams with this index and groups of `1 << group_log2` codes, of elements of 4 or 8
    /// bytes.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`](crate::CudaError::InvalidArgument) for other elements or groups; errors of
    /// [`Device::kernel`].
    pub fn new(device: &'d Device, index: IndexKind, group_log2: u8, element_bytes: u32) -> Result<Self> {
        let classes = index == IndexKind::Symbol;
        let format = Format { symbol_bytes: 2, group_log2, alphabet: NARROW_ALPHABET, classes, index };
        Ok(Self {
            device,
            format,
            narrow: StreamCoder::new(device, format)?,
            wide: None,
            masks: None,
            signs: None,
            layouter: RecordLayouter::new(device, element_bytes)?,
            writer: RecordWriter::new(device, element_bytes, group_log2)?,
            table: TableWriter::new(device)?,
            sums_per_chunk: blocks_per_chunk(device),
        })
    }

    /// Returns whether this assembler is for streams with this index, group size and element size.
    pub fn is_for(&self, index: IndexKind, group_log2: u8, element_bytes: u32) -> bool {
        (self.format.index, self.format.group_log2, self.writer.element_bytes()) == (index, group_log2, element_bytes)
    }

    /// Returns the bytes of device memory held between batches.
    pub fn device_bytes(&self) -> u64 {
        let coders = [Some(&self.narrow), self.wide.as_ref()].into_iter().flatten().map(StreamCoder::device_bytes);
        let bitmaps = [&self.masks, &self.signs].into_iter().flatten().map(StreamCoder::device_bytes);
        coders.chain(bitmaps).sum()
    }

    /// Allocates memory for the values that quantizing computes for the records of a batch. `streams` is the number of
    /// chunks of the largest batch, so that one allocation serves all batches.
    ///
    /// # Errors
    /// Any [`CudaError`](crate::CudaError) of allocations and launches.
    pub fn allocate_inputs<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        batch: &ChunkBatch,
        streams: u32,
    ) -> Result<RecordInputs<'a>> {
        let stream = frame.stream().clone();
        let groups = batch.first_slot(batch.chunks());
        let streams = streams.max(batch.chunks()).max(1);
        let buffers = self.narrow.allocate_for_listing(&stream, streams, batch.slots(), groups)?;
        let element_bytes = self.writer.element_bytes();
        RecordInputs::new(frame, batch.chunks(), self.sums_per_chunk, &mut buffers.batch, element_bytes)
    }

    /// Uploads the values that quantizing on the device would leave, for chunks that were quantized elsewhere: their
    /// summaries, with those of raw chunks cleared, the sums over their tiles, and for each chunk its smallest code
    /// other than 0 and its largest code.
    ///
    /// # Errors
    /// Any [`CudaError`](crate::CudaError) of allocations and launches.
    pub fn upload(
        &mut self,
        stream: &Arc<CudaStream>,
        record_inputs: &mut RecordInputs<'_>,
        batch: &ChunkBatch,
        summaries: &[ChunkSummary],
        sums: &[TileSums],
        extremes: &[[u16; 2]],
    ) -> Result<()> {
        let span = |(chunk, summary): (u32, &ChunkSummary)| StreamSpan {
            first_group: batch.first_slot(chunk),
            groups: if summary.radius == RADIUS { summary.groups } else { 0 },
            free_symbol: RADIUS as u16,
        };
        let spans: Vec<_> = (0..).zip(summaries).map(span).collect();
        self.narrow.list(stream, &spans, extremes)?;
        record_inputs.upload(stream, sums)
    }

    /// Builds the codebooks of all chunks that do not take the wide radius, and lays out their codes. This does not
    /// depend on the host, so that it runs while the host waits for the summaries.
    ///
    /// # Errors
    /// Any [`CudaError`](crate::CudaError) of allocations and launches.
    pub fn start<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        record_inputs: RecordInputs<'a>,
        codes: Codes<'_, '_>,
    ) -> Result<StartedBatch<'a>> {
        let Codes { codes, classes } = codes;
        Ok(StartedBatch { record_inputs, narrow: self.narrow.lay_out_in_place(frame, codes, classes)? })
    }

    /// Returns the bytes of the Huffman stream of each chunk's narrow codes, for a batch that was started. Waits for
    /// the stream.
    pub(crate) fn code_lengths(&mut self, stream: &Arc<CudaStream>) -> Result<Vec<u32>> {
        let Some(narrow) = self.narrow.encoded() else { return Ok(Vec::new()) };
        Ok(narrow.read_plans(stream)?.iter().map(|plan| plan.stream_bytes).collect())
    }

    /// Writes the records of a batch that was started with `codes`. The memory of the codes is reused as scratch memory
    /// for hashing.
    ///
    /// # Errors
    /// Any [`CudaError`](crate::CudaError) of allocations and launches.
    pub fn finish<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        started: StartedBatch<'a>,
        input: BatchInput<'_, '_>,
        codes: &mut CudaViewMut<'_, u16>,
        to: RecordOutput<'_, '_>,
    ) -> Result<()> {
        let BatchInput { plan, bitmaps, .. } = &input;
        let (device, wide_format) = (self.device, self.wide_format());
        let wide_codes = Some(codes.as_view());
        let (masks, signs) = (bitmaps.masks.as_ref(), bitmaps.signs.as_ref());
        let wide = lay_out_optional(device, &mut self.wide, wide_format, frame, wide_codes.as_ref(), &plan.wide)?;
        let masks = lay_out_optional(device, &mut self.masks, BITMAP_FORMAT, frame, masks, &plan.masks)?;
        let signs = lay_out_optional(device, &mut self.signs, BITMAP_FORMAT, frame, signs, &plan.signs)?;
        self.write(frame, started, OtherStreams { wide, masks, signs, listed: 0 }, input, codes, to)
    }

    fn wide_format(&self) -> Format {
        Format { alphabet: WIDE_ALPHABET, classes: false, ..self.format }
    }

    /// Lays out and writes the records of a batch whose streams are laid out.
    fn write<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        started: StartedBatch<'a>,
        others: OtherStreams<'a>,
        input: BatchInput<'_, '_>,
        codes: &mut CudaViewMut<'_, u16>,
        to: RecordOutput<'_, '_>,
    ) -> Result<()> {
        let BatchInput { plan, summaries, contents, tokens, .. } = input;
        let RecordOutput { progress, first, output } = to;
        let OtherStreams { wide, masks, signs, listed } = others;
        let stream = frame.stream().clone();
        let StartedBatch { mut record_inputs, narrow } = started;
        let Some(encoded) = self.narrow.encoded() else { return Ok(()) };
        let mut streams = Streams {
            narrow: encoded,
            listed,
            done: narrow.as_ref().map_or(0, LaidOutStreams::streams_done),
            spans: narrow.as_ref().map_or(0, LaidOutStreams::spans),
            groups_of_block: narrow.as_ref().map_or(1, LaidOutStreams::groups_of_block),
            wide: self.wide.as_mut().and_then(StreamCoder::encoded),
            masks: self.masks.as_mut().and_then(StreamCoder::encoded),
            signs: self.signs.as_mut().and_then(StreamCoder::encoded),
        };
        let (lists, write_tokens) = tokens.map_or((None, None), |tokens| (Some(tokens.lists), Some(tokens.write)));
        let layout_input = LayoutInput {
            contents,
            record_inputs: &record_inputs,
            summaries,
            tokens: lists,
            any_lists: plan.lists,
            first,
            room: output.len() as u64,
        };
        let mut layout = self.layouter.lay_out(frame, &layout_input, &mut streams, progress)?;
        let token_places = write_tokens.is_some().then(|| layout.read_token_places(&stream)).transpose()?;
        // Codes and the rest of the records are written concurrently. The rest starts first: it has few blocks, which
        // take many steps.
        let laid_out = progress.laid_out();
        self.writer.write(&stream, contents, &mut layout, lists, laid_out, output)?;
        let unwritten = layout.unwritten(&stream);
        let overlap = Overlap { laid_out, unwritten, most_groups: plan.most_groups };
        self.narrow.write(&stream, narrow, output, overlap)?;
        let overlap = Overlap { laid_out, unwritten: 0, most_groups: u32::MAX };
        for (coder, layout) in [(&mut self.masks, masks), (&mut self.signs, signs)] {
            if let Some(coder) = coder {
                coder.write(&stream, layout, output, overlap)?;
            }
        }
        if let Some(coder) = &mut self.wide {
            coder.write(&stream, wide, output, overlap)?;
        }
        if let (Some(write), Some(places)) = (write_tokens, &token_places) {
            write(places, output)?;
        }
        let chunk_bytes = contents.max_chunk_elements() * u64::from(self.writer.element_bytes());
        let longest = (RECORD_HEADER_LEN as u64 + chunk_bytes).next_multiple_of(16) as u32;
        let target = ChecksumTarget { layout: &mut layout, progress, output, longest };
        self.writer.checksum(frame, target, record_inputs.hash_progress_mut(), codes)
    }

    /// Writes the header in front of the records, and the chunk table and the trailer after them, while the records of
    /// the last batch on `stream` are still being hashed.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`](crate::CudaError::InvalidArgument) if the stream has another number of chunks;
    /// [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn finish_stream(
        &self,
        stream: &Arc<CudaStream>,
        progress: &mut Progress,
        end: StreamEnd<'_>,
        chunks: u64,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        self.table.finish(stream, progress, end, chunks, output)
    }
}
