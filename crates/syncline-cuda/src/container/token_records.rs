//! Makes records of the chunks of a batch with token codebooks. The host lays them out, because it makes their
//! codebooks and so waits for the device anyway.

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaViewMut, DevicePtr, DevicePtrMut};
use syncline_core::container::{ALIGNMENT, ChunkKind, RECORD_HEADER_LEN, SECTIONS};

use super::assemble::{BITMAP_FORMAT, BatchPlan, Bitmaps};
use super::hash::{ExcludedRange, Pieces};
use super::layout::RecordLayout;
use super::record::Contents;
use super::stream_coder::{StreamCoder, lay_out_optional};
use super::structs::{ChunkParts, RecordPlan};
use super::write::RecordWriter;
use crate::device::{Copies, Device, Frame, Transfer};
use crate::error::{CudaError, DriverContext, Result};
use crate::huffman::encode::{LaidOutStreams, NO_OFFSET, StreamPlan};
use crate::quantize::{ChunkSummary, TileSums};
use crate::token_codes::{LaidOutTokens, StreamLayout, TokenCodeEncoder};

/// Flag of the section of tiles: there is an interpolation scheme.
const FLAG_SCHEME: u32 = 8;
/// Blocks that write a record without lists, and with lists.
const BLOCKS_PER_RECORD: [u32; 2] = [2, 8];
/// Numbers of the sections.
const TILES: usize = 0;
const BASES: usize = 1;
const MASKS: usize = 2;
const CODES: usize = 3;
const VERBATIM: usize = 5;
const SIGNS: usize = 6;

/// The contents of a batch's records.
pub(crate) struct TokenRecordInput<'i, 'v> {
    pub contents: &'i Contents<'v>,
    /// One per chunk; those of chunks that are raw in any case count nothing.
    pub summaries: &'i [ChunkSummary],
    /// Whether a chunk is raw in any case.
    pub is_raw: &'i [bool],
    /// Sums over the tiles of each chunk.
    pub sums: &'i [TileSums],
    /// The interpolation scheme of each chunk.
    pub schemes: &'i [u32],
    pub bitmaps: &'i Bitmaps<'v>,
    pub tokens: &'i LaidOutTokens<'v>,
}

/// Makes records of chunks with token codebooks.
#[derive(Debug)]
pub(crate) struct TokenAssembler {
    device: Device,
    writer: RecordWriter,
    transfer: Transfer,
    /// Created on first use, because their kernels take long to compile.
    masks: Option<StreamCoder<u8>>,
    signs: Option<StreamCoder<u8>>,
}

/// The bitmaps of a batch, laid out: the plan of each stream.
struct LaidOutBitmaps<'a> {
    layout: Option<LaidOutStreams<'a>>,
    plans: Vec<StreamPlan>,
}

/// The records of a batch, laid out by the host.
struct HostLayout {
    plans: Vec<RecordPlan>,
    parts: Vec<ChunkParts>,
    end: u64,
}

impl RecordPlan {
    /// Returns the offset of a section in the output.
    fn section(&self, number: usize) -> u64 {
        let lengths = self.lengths[..number].iter().map(|&bytes| u64::from(bytes));
        let head = (RECORD_HEADER_LEN + SECTIONS * size_of::<u32>()) as u64;
        self.place
            + std::iter::once(head).chain(lengths).map(|bytes| bytes.next_multiple_of(ALIGNMENT as u64)).sum::<u64>()
    }

    fn has_tokens(&self) -> bool {
        self.kind == ChunkKind::TokenCodes as u32
    }
}

/// Returns the bytes of the sections of tiles and of bases.
fn tile_bytes(tiles: u32, sums: &TileSums, flags: u32) -> [u32; 2] {
    let words = |bits: u32| bits.div_ceil(32);
    let [masks, signs] = [(1, 4), (4, 2)].map(|(flag, bits)| if flags & flag != 0 { words(bits * tiles) } else { 0 });
    let section = 16 + 4 * (words(tiles) + words(4 * sums.live) + masks + signs);
    [section, tiles.div_ceil(32).next_multiple_of(4) + 4 * sums.words_of_bases]
}

impl HostLayout {
    /// Lays out records from byte `at` of the output on.
    fn new(input: &TokenRecordInput<'_, '_>, element_bytes: u32, bitmaps: [&[StreamPlan]; 2], at: u64) -> Self {
        let TokenRecordInput { contents, summaries, is_raw, sums, schemes, tokens, .. } = input;
        let (batch, geometry) = (&contents.batch, &contents.geometry);
        let mut bitmaps = bitmaps.map(|plans| plans.iter());
        let mut layout = Self { plans: Vec::new(), parts: Vec::new(), end: at };
        let mut first_verbatim = 0;
        for (chunk, summary) in (0..batch.chunks()).zip(*summaries) {
            let number = chunk as usize;
            let tiles = batch.tiles_of(chunk);
            let before = |tile: u32| geometry.elements_before(batch.first_tile() + u64::from(tile));
            let elements = (before(tiles.end) - before(tiles.start)) as u32;
            let mut next = |which: usize, bytes: u32| match bytes {
                0 => 0,
                _ => bitmaps[which].next().map_or(0, |plan| plan.stream_bytes),
            };
            let verbatim = summary.verbatim;
            let mut lengths = [0; SECTIONS];
            let flags = sums[number].flags | FLAG_SCHEME;
            [lengths[TILES], lengths[BASES]] = tile_bytes(tiles.len() as u32, &sums[number], flags);
            lengths[MASKS] = next(0, summary.mask_bytes);
            lengths[CODES] = tokens.streams[number].bytes as u32;
            lengths[VERBATIM] =
                if verbatim == 0 { 0 } else { (4 + 4 * verbatim).next_multiple_of(8) + element_bytes * verbatim };
            lengths[SIGNS] = next(1, summary.sign_bytes);
            let mut plan = RecordPlan {
                place: layout.end,
                bytes: 0,
                kind: ChunkKind::TokenCodes as u32,
                flags,
                live: sums[number].live,
                lengths,
                status: 0,
                scheme: schemes[number],
            };
            let bytes = plan.section(SECTIONS) - plan.place;
            let raw = (RECORD_HEADER_LEN as u64 + u64::from(elements) * u64::from(element_bytes))
                .next_multiple_of(ALIGNMENT as u64);
            plan.bytes = bytes.min(raw) as u32;
            if is_raw[number] || bytes >= raw {
                (plan.kind, plan.bytes) = (ChunkKind::Raw as u32, raw as u32);
            }
            layout.end += u64::from(plan.bytes);
            layout.plans.push(plan);
            layout.parts.push(ChunkParts { first_verbatim, verbatim, ..ChunkParts::default() });
            first_verbatim += u64::from(verbatim);
        }
        layout
    }

    /// Returns where the bitmaps of the chunks that have any go.
    fn bitmap_places(&self, bytes: impl Iterator<Item = u32>, section: usize) -> Vec<u64> {
        let place = |plan: &RecordPlan| if plan.has_tokens() { plan.section(section) } else { NO_OFFSET };
        self.plans.iter().zip(bytes).filter(|&(_, bytes)| bytes > 0).map(|(plan, _)| place(plan)).collect()
    }
}

impl TokenAssembler {
    /// Loads the kernels for elements of 4 or 8 bytes.
    pub fn new(device: &Device, element_bytes: u32) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            // The writer needs the size of groups for streams that it does not write here.
            writer: RecordWriter::new(device, element_bytes, 7)?,
            transfer: Transfer::new(device)?,
            masks: None,
            signs: None,
        })
    }

    /// Returns the bytes of an element.
    pub fn element_bytes(&self) -> u32 {
        self.writer.element_bytes()
    }

    /// Writes the records of a batch from byte `at` of the output on, and returns their lengths.
    ///
    /// # Errors
    /// [`CudaError::NoRoom`]; any other [`CudaError`] of allocations and launches.
    pub fn write(
        &mut self,
        frame: &mut Frame<'_>,
        input: &TokenRecordInput<'_, '_>,
        encoder: &TokenCodeEncoder,
        at: u64,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<Vec<u32>> {
        let stream = frame.stream().clone();
        let plan = BatchPlan::new(&input.contents.batch, input.summaries);
        let device = &self.device;
        let mut lay_out = |coder: &mut Option<StreamCoder<u8>>, bitmaps, spans| {
            let layout = lay_out_optional(device, coder, BITMAP_FORMAT, frame, bitmaps, spans)?;
            let encoded = coder.as_mut().and_then(StreamCoder::encoded).filter(|_| layout.is_some());
            let plans = encoded.map(|encoded| encoded.read_plans(&stream)).transpose()?.unwrap_or_default();
            Ok::<_, CudaError>(LaidOutBitmaps { layout, plans })
        };
        let masks = lay_out(&mut self.masks, input.bitmaps.masks.as_ref(), &plan.masks)?;
        let signs = lay_out(&mut self.signs, input.bitmaps.signs.as_ref(), &plan.signs)?;
        let layout = HostLayout::new(input, self.element_bytes(), [&masks.plans, &signs.plans], at);
        let available = output.len() as u64;
        if layout.end > available {
            return Err(CudaError::NoRoom { needed: layout.end, available });
        }
        stream.memset_zeros(&mut output.slice_mut(at as usize..layout.end as usize)).doing("clearing the output")?;
        self.write_parts(frame, input, &layout, plan.lists, output)?;
        let copied = copies(frame, input.tokens, &layout, output)?;
        self.transfer.copy(&stream, &copied.0)?;
        let mask_places = layout.bitmap_places(input.summaries.iter().map(|summary| summary.mask_bytes), MASKS);
        let sign_places = layout.bitmap_places(input.summaries.iter().map(|summary| summary.sign_bytes), SIGNS);
        for (coder, bitmaps, places) in [(&mut self.masks, masks, mask_places), (&mut self.signs, signs, sign_places)] {
            if let Some(coder) = coder {
                coder.write_at(&stream, bitmaps.layout, places, output)?;
            }
        }
        let word_places: Vec<Option<u64>> = layout
            .plans
            .iter()
            .zip(&input.tokens.streams)
            .map(|(plan, own)| plan.has_tokens().then(|| plan.section(CODES) + own.words_at))
            .collect();
        encoder.write(frame, input.tokens, &word_places, output)?;
        let lengths: Vec<u32> = layout.plans.iter().map(|plan| plan.bytes).collect();
        let starts: Vec<u64> = layout.plans.iter().map(|plan| plan.place).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let (device_starts, device_lengths) = (frame.upload(&starts)?, frame.upload(&lengths)?);
        let (starts, device_lengths) = (device_starts.as_view(), device_lengths.as_view());
        let pieces = Pieces { starts: &starts, lengths: &device_lengths, longest, excluded: ExcludedRange::RECORD };
        self.writer.checksum_records(frame, output, &pieces)?;
        Ok(lengths)
    }

    /// Writes everything of the records but bitmaps, token streams, and hashes.
    fn write_parts(
        &self,
        frame: &mut Frame<'_>,
        input: &TokenRecordInput<'_, '_>,
        layout: &HostLayout,
        any_lists: bool,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        let stream = frame.stream().clone();
        let mut layout = RecordLayout {
            parts: frame.upload(&layout.parts)?,
            plans: frame.upload(&layout.plans)?,
            starts: frame.slice(0)?,
            unwritten: None,
            spans: 0,
            first_chunk: 0,
            chunks: input.contents.batch.chunks(),
            blocks: BLOCKS_PER_RECORD[usize::from(any_lists)],
        };
        // The plans are complete: the kernel need not wait for its signal.
        let signal = frame.upload(&[0_u64])?.device_ptr(&stream).0;
        self.writer.write_records(&stream, input.contents, &mut layout, (None, true), (signal, 0), output)
    }
}

/// Lists the copies of the parts of token streams to their places. Also returns the memory that is copied from, which
/// the frame holds.
fn copies<'a>(
    frame: &mut Frame<'a>,
    tokens: &LaidOutTokens<'_>,
    layout: &HostLayout,
    output: &mut CudaViewMut<'_, u8>,
) -> Result<(Copies, CudaViewMut<'a, u8>)> {
    let stream: Arc<CudaStream> = frame.stream().clone();
    let mut heads = Vec::new();
    let chunks = || layout.plans.iter().zip(&tokens.streams).filter(|(plan, _)| plan.has_tokens());
    let starts: Vec<usize> = chunks()
        .map(|(_, own): (_, &StreamLayout)| {
            heads.resize(heads.len().next_multiple_of(ALIGNMENT), 0);
            heads.extend_from_slice(&own.head);
            heads.len() - own.head.len()
        })
        .collect();
    let heads = frame.upload(&heads)?;
    let (from, to) = (heads.device_ptr(&stream).0, output.device_ptr_mut(&stream).0);
    let mut copies = Copies::default();
    for ((plan, own), start) in chunks().zip(starts) {
        let place = to + plan.section(CODES);
        copies.add(from + start as u64, place, own.head.len() as u64);
        own.parts.iter().for_each(|part| copies.add(part.from, place + part.at, part.bytes));
    }
    Ok((copies, heads))
}
