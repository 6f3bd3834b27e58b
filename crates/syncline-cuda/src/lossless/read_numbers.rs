//! Decodes chunks of numbers: launches `kernels/lossless/numbers_parse.cu` and `numbers_restore.cu`.

#![allow(unsafe_code, reason = "launches kernels")]

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut};
use syncline_core::array::ElementType;
use syncline_core::huffman::IndexKind;

use super::planes::{GROUP, PlaneDecoder};
use super::record_headers::Records;
use super::structs::{NumberBins, NumberChunk, NumberStreams, NumberTile, RecordHeader};
use super::tiles::Tiles;
use crate::device::{Device, Frame, Grid, Pinned, Specialization, Transfer};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::Result;
use crate::geometry::{ChunkBatch, DeviceGeometry};
use crate::huffman::decode::StreamLocation;

declare_kernels! {
    /// The kernel of `kernels/lossless/numbers_parse.cu`.
    struct ParseKernels in "lossless/numbers_parse.cu", of (element: ElementType) {
        const THREADS: u32 = 512;
        with ELEMENT_BYTES = element.size() as u32;
        with FLOATS = element.is_float();
        with SCALES = element.is_computed();
        fn numbers_parse(
            geometry: DeviceGeometry, batch: ChunkBatch, input: In<u8>, places: In<u64>, index_kind: u32,
            headers: Out<RecordHeader>, chunks: Out<NumberChunk>, bins: Out<NumberBins>,
            number_tiles: Out<NumberTile>, bases: Out<u8> as "word_t *", ends: Out<u32>,
        );
    }
}

declare_kernels! {
    /// The kernel of `kernels/lossless/numbers_restore.cu`.
    struct RestoreKernels in "lossless/numbers_restore.cu", of (element: ElementType) {
        with THREADS = RESTORE_THREADS;
        with TILES = RESTORE_TILES;
        with ELEMENT_BYTES = element.size() as u32;
        with FLOATS = element.is_float();
        fn numbers_restore(
            geometry: DeviceGeometry, batch: ChunkBatch, first_tile: u32, end_tile: u32, input: In<u8>,
            chunks: In<NumberChunk>, bins: In<NumberBins>, tiles: In<NumberTile>, bases: In<u8> as "const word_t *",
            streams: In<NumberStreams>, bytes: In<u8>, words: In<u16>, statuses: Out<u32>,
            slab: Out<u8> as "word_t *", first_element: u64,
        );
    }
}

/// Threads of a block with one tile per warp at a time. Blocks are small, because a tile takes up to 10 KiB of shared
/// memory.
const RESTORE_THREADS: u32 = 128;
/// Tiles of a warp, one after another, because a block first copies the bins of its chunk.
const RESTORE_TILES: u32 = 2;
/// Bits of a chunk's status: a Huffman stream of its numbers is damaged, or its raw bits are.
pub(super) const STATUS_STREAMS: u32 = 8;
/// See [`STATUS_STREAMS`]; `WRONG_RAW_BITS` in `numbers_restore.cu`.
pub(super) const STATUS_RAW_BITS: u32 = 4;

/// Returns every specialization, for the check that all of them compile.
pub(super) fn specializations() -> Vec<Specialization> {
    use ElementType::{Bf16, F32, F64, I64, U8, U16, U32};
    let elements = [F32, F64, Bf16, U8, U16, U32, I64].into_iter();
    elements
        .flat_map(|element| [ParseKernels::specialization(element), RestoreKernels::specialization(element)])
        .collect()
}

/// What the records of chunks of numbers of a batch state.
pub(super) struct ParsedNumbers<'a> {
    chunks: CudaViewMut<'a, NumberChunk>,
    bins: CudaViewMut<'a, NumberBins>,
    tiles: CudaViewMut<'a, NumberTile>,
    /// The base of each tile, as bytes.
    bases: CudaViewMut<'a, u8>,
}

/// Tiles of a batch that are decoded, and where their elements go.
pub(super) struct Destination<'o, 'm> {
    pub tiles: &'o Tiles,
    pub batch: &'o ChunkBatch,
    /// The tiles, numbered from the first of the batch.
    pub range: Range<u32>,
    /// The array's elements from number `first_element` on, which contain the tiles.
    pub output: &'o mut CudaViewMut<'m, u8>,
    pub first_element: u64,
}

/// Decodes chunks of numbers.
#[derive(Debug)]
pub(super) struct NumberDecoder {
    device: Device,
    element: ElementType,
    transfer: Transfer,
    parse: ParseKernels,
    /// What the records of the last batch state.
    on_host: Pinned<NumberChunk>,
    /// Created on first use, because their kernels take a while to compile.
    restore: Option<RestoreKernels>,
    bytes: Option<PlaneDecoder<u8>>,
    words: Option<PlaneDecoder<u16>>,
}

/// Huffman streams of symbols of one size, and the number of symbols before the next one.
#[derive(Default)]
struct Streams {
    places: Vec<StreamLocation>,
    chunks: Vec<u32>,
    symbols: u64,
}

impl Streams {
    /// Adds the stream in a section, if there is one. Returns the number of its first symbol.
    fn add(&mut self, chunk: u32, record: u64, head: &RecordHeader, section: usize, groups: u32) -> u64 {
        let out = self.symbols;
        if groups > 0 {
            let (offset, length) = (record + u64::from(head.section_at[section]), head.section_bytes[section]);
            self.places.push(StreamLocation { offset, out, classes: 0, length, groups });
            self.chunks.push(chunk);
            self.symbols += u64::from(groups) * GROUP;
        }
        out
    }
}

impl NumberDecoder {
    pub fn new(device: &Device, stream: &Arc<CudaStream>, element: ElementType) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            element,
            transfer: Transfer::new(device)?,
            parse: ParseKernels::load(device, element)?,
            on_host: Pinned::new(stream, 1)?,
            restore: None,
            bytes: None,
            words: None,
        })
    }

    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Queues the kernel that reads the records of a batch that are of numbers, and a copy of what they state to the
    /// host. Replaces their statuses in `heads`.
    pub fn parse<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        tiles: &Tiles,
        batch: &ChunkBatch,
        (records, index): (&Records<'_>, IndexKind),
        heads: &mut CudaViewMut<'_, RecordHeader>,
    ) -> Result<ParsedNumbers<'a>> {
        let stream = frame.stream().clone();
        let (chunk_count, tile_count) = (batch.chunks() as usize, batch.tiles() as usize);
        let mut numbers = ParsedNumbers {
            chunks: frame.zeros(chunk_count)?,
            bins: frame.slice(chunk_count)?,
            tiles: frame.slice(tile_count)?,
            bases: frame.slice(tile_count * self.element.size())?,
        };
        let mut ends = frame.slice::<u32>(tile_count)?;
        // SAFETY: the headers are those of the records, whose sections lie within them. There are a description and
        // bins for each chunk, and an entry of each array for each tile.
        unsafe {
            launch!(self.parse.numbers_parse on &stream, Grid::new(batch.chunks(), THREADS); *tiles.geometry(), *batch,
                records.input, records.places, index as u32, &mut *heads, &mut numbers.chunks, &mut numbers.bins,
                &mut numbers.tiles, &mut numbers.bases, &mut ends)
        }?;
        self.on_host.reserve(chunk_count)?;
        self.on_host.read(&numbers.chunks)?;
        Ok(numbers)
    }

    /// Queues the decoding of the tiles that are in chunks of numbers, of which there are some. `places` are the
    /// offsets of the records in the input. Sets bits of the statuses of damaged chunks.
    pub fn decode(
        &mut self,
        frame: &mut Frame<'_>,
        (input, places): (&CudaView<'_, u8>, &[u64]),
        (heads, numbers): (&[RecordHeader], &ParsedNumbers<'_>),
        noted: &mut CudaViewMut<'_, u32>,
        destination: Destination<'_, '_>,
    ) -> Result<()> {
        let stream = frame.stream().clone();
        let (mut of_bytes, mut of_words) = (Streams::default(), Streams::default());
        let mut located = vec![NumberStreams::default(); heads.len()];
        let each = heads.iter().zip(self.on_host.wait()?).zip(places).zip(&mut located).enumerate();
        for (number, (((head, chunk), &record), to)) in each.filter(|(_, (((head, _), _), _))| head.is_of_numbers()) {
            let number = number as u32;
            let symbols = if chunk.symbol_bytes == 2 { &mut of_words } else { &mut of_bytes };
            let [of_symbols, of_masks, of_rests] = chunk.groups;
            let symbols = symbols.add(number, record, head, SYMBOLS, of_symbols);
            let masks = of_bytes.add(number, record, head, MASKS, of_masks);
            let rests = of_words.add(number, record, head, RESTS, of_rests);
            *to = NumberStreams { symbols, masks, rests, is_wanted: 1 };
        }
        let mut bytes = frame.slice::<u8>(of_bytes.symbols as usize)?;
        let mut words = frame.slice::<u16>(of_words.symbols as usize)?;
        if self.bytes.is_none() && !of_bytes.places.is_empty() {
            self.bytes = Some(PlaneDecoder::new(&self.device)?);
        }
        if self.words.is_none() && !of_words.places.is_empty() {
            self.words = Some(PlaneDecoder::new(&self.device)?);
        }
        if let Some(decoder) = self.bytes.as_ref().filter(|_| !of_bytes.places.is_empty()) {
            let mut status = frame.slice::<u32>(of_bytes.places.len())?;
            decoder.decode(frame, input, &of_bytes.places, &mut bytes, &mut status)?;
            self.transfer.note(frame, &status.as_view(), &of_bytes.chunks, STATUS_STREAMS, noted)?;
        }
        if let Some(decoder) = self.words.as_ref().filter(|_| !of_words.places.is_empty()) {
            let mut status = frame.slice::<u32>(of_words.places.len())?;
            decoder.decode(frame, input, &of_words.places, &mut words, &mut status)?;
            self.transfer.note(frame, &status.as_view(), &of_words.chunks, STATUS_STREAMS, noted)?;
        }
        let located = frame.upload(&located)?;
        self.restore(&stream, input, numbers, (&located.as_view(), &bytes, &words), noted, destination)
    }

    /// Makes elements from what was read and from Huffman streams: where these are, and their symbols of each size.
    fn restore(
        &mut self,
        stream: &Arc<CudaStream>,
        input: &CudaView<'_, u8>,
        numbers: &ParsedNumbers<'_>,
        (located, bytes, words): (&CudaView<'_, NumberStreams>, &CudaViewMut<'_, u8>, &CudaViewMut<'_, u16>),
        noted: &mut CudaViewMut<'_, u32>,
        destination: Destination<'_, '_>,
    ) -> Result<()> {
        let Destination { tiles, batch, range, output, first_element } = destination;
        if range.is_empty() {
            return Ok(());
        }
        let kernels = match &mut self.restore {
            Some(kernels) => kernels,
            none => none.insert(RestoreKernels::load(&self.device, self.element)?),
        };
        let chunk_tiles = tiles.geometry().chunk_tiles();
        let chunks = (range.end - 1) / chunk_tiles + 1 - range.start / chunk_tiles;
        let blocks = chunk_tiles.min(batch.tiles()).div_ceil(RESTORE_TILES * RESTORE_THREADS / 32);
        let grid = Grid::new(chunks * blocks, RESTORE_THREADS);
        // SAFETY: parsing has checked what the descriptions of chunks and tiles say against the records, and the
        // decoded streams have all symbols that these count; those of damaged streams are not read. The output contains
        // the tiles.
        unsafe {
            launch!(kernels.numbers_restore on stream, grid; *tiles.geometry(), *batch, range.start, range.end, input,
                &numbers.chunks, &numbers.bins, &numbers.tiles, &numbers.bases, located, bytes, words, noted, output,
                first_element)
        }
    }
}

/// Sections of a chunk of numbers with Huffman streams.
const SYMBOLS: usize = 3;
const MASKS: usize = 7;
const RESTS: usize = 8;
