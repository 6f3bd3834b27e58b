//! Lossless streams of LZSS chunks back to arrays, from device memory to device memory.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut};
use syncline_core::bound::Pipeline;
use syncline_core::container::RECORD_HEADER_LEN;
use syncline_core::error::Error;
use syncline_core::lzss::SymbolWidth;

use super::heads::{FIRST_PLANES, Head, HeadParser, HeadPlane, Records};
use super::pieces::{Join, Pieces};
use super::planes::{GROUP, PlaneDecoder};
use super::records::{BLOCKS, PARAMETER_BYTES};
use super::tiles::{ChunkSource, Tiles};
use crate::container::assemble::Observer;
use crate::container::hash::{self, Gap, Hasher};
use crate::device::{Arena, Device};
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::ChunkBatch;
use crate::huffman::decode::StreamPlace;
use crate::lzss::{DecodeBatch, DecodeSpan, Decoder};
use crate::pipeline::StreamInfo;

/// Bytes of elements of a batch.
const BATCH_BYTES: u64 = 256 << 20;
/// Bits of a chunk's status: its Huffman streams, or its tokens, are not right.
const STATUS_PLANES: u32 = 1;
const STATUS_TOKENS: u32 = 2;

/// Decompresses one lossless stream whose chunks are raw or of LZSS tokens.
///
/// The device reads the records of a batch first and tells the host what they have, which is waited for; then all is queued. Damage beyond that is found by the device, and [`Self::check`] asks for it.
#[derive(Debug)]
pub struct LosslessDecompressor<'d> {
    device: &'d Device,
    info: StreamInfo,
    tiles: Tiles,
    heads: HeadParser,
    hasher: Hasher,
    pieces: Pieces,
    /// Made when first needed: kernels for them take a while to compile.
    bytes: Option<PlaneDecoder<u8>>,
    words: Option<PlaneDecoder<u16>>,
    decoders: HashMap<(SymbolWidth, u8), Decoder>,
    arena: Arena,
    /// A word for each chunk of the array.
    statuses: CudaSlice<u32>,
    chunks_in_batch: u64,
}

/// What is decompressed, and where it goes.
struct Part<'p> {
    input: &'p CudaView<'p, u8>,
    input_offset: u64,
    tiles: Range<u64>,
    first_element: u64,
}

/// Huffman streams of planes with symbols of one width.
#[derive(Default)]
struct Streams {
    places: Vec<StreamPlace>,
    /// The chunk of each.
    chunks: Vec<u32>,
    /// Symbols of all, with what fills their groups.
    symbols: u64,
}

impl Streams {
    /// Adds a stream of `count` symbols; where they start among all.
    fn add(&mut self, chunk: u32, record: u64, plane: &HeadPlane, count: u32) -> u64 {
        let (out, groups) = (self.symbols, u64::from(count).div_ceil(GROUP));
        self.symbols += groups * GROUP;
        let offset = record + u64::from(plane.at);
        // A plane has at most 2^25 symbols.
        self.places.push(StreamPlace { offset, out, classes: 0, length: plane.bytes, groups: groups as u32 });
        self.chunks.push(chunk);
        out
    }
}

/// Where a plane's symbols are.
#[derive(Clone, Copy)]
enum Symbols {
    /// At this offset in the input.
    Raw(u64),
    /// From this symbol on among those decoded.
    Decoded(u64),
}

/// A section of tokens, put together from its planes.
struct Section {
    planes: Vec<Symbols>,
    count: u32,
    symbol_bytes: u32,
    /// Its bytes.
    bytes: u32,
    /// Where it starts among the sections that are joined, if it has several planes.
    joined_at: u64,
}

impl<'d> LosslessDecompressor<'d> {
    /// For the stream that `info` describes, working on `stream`.
    ///
    /// # Errors
    /// [`CudaError::Unsupported`] for streams that are not lossless. Errors of [`Device::kernel`], [`CudaError::OutOfMemory`].
    pub fn new(device: &'d Device, stream: Arc<CudaStream>, info: &StreamInfo) -> Result<Self> {
        let header = info.header();
        if header.pipeline != Pipeline::Lossless {
            return Err(CudaError::Unsupported(format!("{} streams are not lossless", header.pipeline)));
        }
        let chunks = info.geometry().chunks() as usize;
        let statuses = stream.alloc_zeros::<u32>(chunks.max(1));
        let tiles = Tiles::new(device, header.element_type, info.geometry())?;
        Ok(Self {
            device,
            heads: HeadParser::new(device, tiles.element_bytes())?,
            hasher: Hasher::new(device)?,
            pieces: Pieces::new(device)?,
            bytes: None,
            words: None,
            decoders: HashMap::new(),
            arena: Arena::new(stream),
            statuses: statuses.map_err(|_| CudaError::OutOfMemory { bytes: chunks as u64 * 4 })?,
            chunks_in_batch: (BATCH_BYTES / tiles.slot_bytes().max(1)).clamp(1, 1 << 16),
            tiles,
            info: info.clone(),
        })
    }

    /// Works in batches of about so many bytes of elements.
    #[must_use]
    pub fn with_batch_bytes(self, bytes: u64) -> Self {
        let chunks_in_batch = (bytes / self.tiles.slot_bytes().max(1)).clamp(1, 1 << 16);
        Self { chunks_in_batch, ..self }
    }

    /// What it was made for.
    pub fn info(&self) -> &StreamInfo {
        &self.info
    }

    /// Bytes of device memory held between calls.
    pub fn workspace_bytes(&self) -> usize {
        self.arena.capacity() + self.statuses.len() * size_of::<u32>()
    }

    /// Decompresses the whole array. `input` is the stream, `output` takes the array's elements as little-endian bytes.
    ///
    /// # Errors
    /// [`CudaError::Core`] for a damaged record, [`CudaError::Unsupported`] for chunks of planes; [`CudaError::InvalidArgument`] if the input or the output has another length or is
    /// misaligned (to 16 bytes); [`CudaError::OutOfMemory`]; [`CudaError::Driver`]. Damage inside of tokens is found by the device: [`Self::check`] asks for it.
    pub fn decompress(&mut self, input: &CudaView<'_, u8>, output: &mut CudaViewMut<'_, u8>) -> Result<()> {
        self.decompress_observed(input, output, &mut |_| Ok(()))
    }

    /// [`Self::decompress`] that calls `observer` with a name after some launches together: a bench records events there.
    ///
    /// # Errors
    /// As [`Self::decompress`], or what `observer` returns.
    pub fn decompress_observed(
        &mut self,
        input: &CudaView<'_, u8>,
        output: &mut CudaViewMut<'_, u8>,
        observer: &mut Observer<'_>,
    ) -> Result<()> {
        if input.len() as u64 != self.info.stream_len() || output.len() as u64 != self.info.decompressed_len() {
            return Err(CudaError::invalid(format!(
                "the stream has {} bytes and its array {}, the input {} and the output {}",
                self.info.stream_len(),
                self.info.decompressed_len(),
                input.len(),
                output.len()
            )));
        }
        let tiles = 0..self.info.geometry().tiles();
        self.run(&Part { input: &input.slice(..), input_offset: 0, tiles, first_element: 0 }, output, observer)
    }

    /// Decompresses the tiles with these numbers. `input` holds the stream from byte `input_offset` on (a multiple of 16), at least the records of their chunks
    /// ([`StreamInfo::bytes_of`]); `output` the array's elements from number `first_element` on, in raster order, at least those of the tiles, and elements of other tiles are left
    /// as they are.
    ///
    /// # Errors
    /// As [`Self::decompress`].
    pub fn decompress_tiles(
        &mut self,
        input: &CudaView<'_, u8>,
        input_offset: u64,
        tiles: Range<u64>,
        output: &mut CudaViewMut<'_, u8>,
        first_element: u64,
    ) -> Result<()> {
        let tiles = tiles.start..tiles.end.min(self.info.geometry().tiles());
        self.run(&Part { input: &input.slice(..), input_offset, tiles, first_element }, output, &mut |_| Ok(()))
    }

    /// Waits for what is queued and says what is wrong with the chunks of the last call. The others have been decompressed rightly.
    ///
    /// # Errors
    /// [`CudaError::Core`] for the first damaged chunk; [`CudaError::Driver`].
    pub fn check(&self) -> Result<()> {
        let stream = self.arena.stream();
        let statuses = stream.clone_dtoh(&self.statuses).doing("reading statuses")?;
        stream.synchronize().doing("waiting for decompression")?;
        let text = |status: u32| match status {
            0 => None,
            s if s & STATUS_PLANES != 0 => Some("a Huffman stream of its tokens is damaged"),
            _ => Some("its LZSS tokens do not fit its elements"),
        };
        match statuses.iter().enumerate().find_map(|(chunk, &status)| Some((chunk, text(status)?))) {
            Some((chunk, text)) => Err(Error::corrupt(format!("chunk {chunk}"), text).into()),
            None => Ok(()),
        }
    }

    fn run(&mut self, part: &Part<'_>, output: &mut CudaViewMut<'_, u8>, observer: &mut Observer<'_>) -> Result<()> {
        let stream = self.arena.stream().clone();
        stream.memset_zeros(&mut self.statuses).doing("clearing statuses")?;
        let misaligned = [part.input.device_ptr(&stream).0, output.device_ptr_mut(&stream).0, part.input_offset];
        if misaligned.iter().any(|address| !address.is_multiple_of(16)) {
            return Err(CudaError::invalid("input and output start on multiples of 16 bytes"));
        }
        let chunks = self.info.chunks_of(part.tiles.clone());
        for first in (chunks.start..chunks.end).step_by(self.chunks_in_batch as usize) {
            let end = chunks.end.min(first + self.chunks_in_batch);
            self.batch(part, first..end, output, observer)?;
        }
        Ok(())
    }

    fn batch(
        &mut self,
        part: &Part<'_>,
        chunks: Range<u64>,
        output: &mut CudaViewMut<'_, u8>,
        observer: &mut Observer<'_>,
    ) -> Result<()> {
        let batch = ChunkBatch::new(self.info.geometry(), 7, chunks.clone())?;
        let size = self.tiles.element_bytes();
        let tiles_in_batch = batch.first_tile()..batch.first_tile() + u64::from(batch.tiles());
        let wanted = part.tiles.start.max(tiles_in_batch.start)..part.tiles.end.min(tiles_in_batch.end);
        let spans = [wanted.start, wanted.end - 1].map(|tile| self.info.geometry().range(tile..tile + 1).next());
        let [Some(_), Some(_)] = spans else { return Err(CudaError::invalid("there are no such tiles")) };
        self.check_output(&wanted, part.first_element, output.len() as u64 / size)?;

        let bytes = self.info.bytes_of(chunks.clone());
        let fits = bytes.start >= part.input_offset && bytes.end - part.input_offset <= part.input.len() as u64;
        if !fits {
            return Err(CudaError::invalid("the input does not hold the records that are wanted"));
        }
        let places: Vec<u64> = chunks.clone().map(|chunk| self.info.record(chunk).0 - part.input_offset).collect();
        // The table has 32 bits for each.
        let lengths: Vec<u32> = chunks.clone().map(|chunk| self.info.record(chunk).1 as u32).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let stream = self.arena.stream().clone();
        let device_places = stream.clone_htod(&places).doing("listing records")?;
        let device_lengths = stream.clone_htod(&lengths).doing("listing records")?;
        let (place_view, length_view) = (device_places.as_view(), device_lengths.as_view());
        let mut frame = self.arena.frame()?;
        let mut hashes = frame.slice::<u64>(lengths.len())?;
        let pieces = hash::Pieces { starts: &place_view, lengths: &length_view, longest, gap: Gap::RECORD };
        self.hasher.hash(&mut frame, part.input, &pieces, &mut hashes)?;
        observer("hash")?;
        let hash_view = hashes.as_view();
        let records = Records { input: part.input, places: &place_view, lengths: &length_view, hashes: &hash_view };
        let parsed = self.heads.launch(&mut frame, &self.tiles, &batch, &records, self.info.header().index)?;
        observer("parse")?;
        let heads = stream.clone_dtoh(&parsed.heads).doing("reading what records have")?;
        stream.synchronize().doing("reading what records have")?;
        for (chunk, head) in chunks.clone().zip(&heads) {
            if head.is_of_planes() {
                return Err(CudaError::Unsupported("chunks of planes are decompressed on the CPU".into()));
            }
            if let Some(problem) = head.problem() {
                return Err(Error::corrupt(format!("chunk {chunk}"), problem).into());
            }
        }

        // Sections of tokens, from planes where they are in planes.
        let (mut byte_streams, mut word_streams, mut joined) = (Streams::default(), Streams::default(), 0);
        let mut sections: Vec<Option<[Section; 4]>> = Vec::new();
        for (number, head) in heads.iter().enumerate() {
            let of_planes = |number: usize| -> [Section; 4] {
                std::array::from_fn(|i| {
                    let streams = (&mut byte_streams, &mut word_streams);
                    section_of(number as u32, head, i, places[number], streams, &mut joined)
                })
            };
            sections.push((!head.is_raw()).then_some(number).map(of_planes));
        }
        let mut decoded_bytes = frame.slice::<u8>(byte_streams.symbols as usize)?;
        let mut decoded_words = frame.slice::<u16>(word_streams.symbols as usize)?;
        let joined = frame.slice::<u8>(joined as usize)?;
        let mut byte_status = frame.slice::<u32>(byte_streams.places.len())?;
        let mut word_status = frame.slice::<u32>(word_streams.places.len())?;
        let index = self.info.header().index;
        if !byte_streams.places.is_empty() {
            let decoder = match &mut self.bytes {
                Some(decoder) => decoder,
                none => none.insert(PlaneDecoder::new(self.device, index)?),
            };
            decoder.decode(&mut frame, part.input, &byte_streams.places, &mut decoded_bytes, &mut byte_status)?;
        }
        if !word_streams.places.is_empty() {
            let decoder = match &mut self.words {
                Some(decoder) => decoder,
                none => none.insert(PlaneDecoder::new(self.device, index)?),
            };
            decoder.decode(&mut frame, part.input, &word_streams.places, &mut decoded_words, &mut word_status)?;
        }
        observer("huffman")?;
        let input = part.input.device_ptr(&stream).0;
        let pointers = Pointers {
            input,
            bytes: decoded_bytes.device_ptr(&stream).0,
            words: decoded_words.device_ptr(&stream).0,
            joined: joined.device_ptr(&stream).0,
        };
        let all = sections.iter().flatten().flatten();
        let joins: Vec<Join> = all.filter_map(|section| pointers.join(section)).collect();
        self.pieces.join(&stream, &joins)?;
        observer("join")?;

        // Tokens to elements or residuals: where they belong, if they are in order there, else to slots.
        let slot_bytes = self.tiles.slot_bytes();
        let (output_pointer, _) = output.device_ptr_mut(&stream);
        let own_tiles = |number: usize| {
            let tiles = batch.tiles_of(number as u32);
            batch.first_tile() + u64::from(tiles.start)..batch.first_tile() + u64::from(tiles.end)
        };
        let in_place = |number: usize, head: &Head| -> Option<CUdeviceptr> {
            let tiles = own_tiles(number);
            let whole = wanted.start <= tiles.start && tiles.end <= wanted.end;
            if self.tiles.geometry().axes() != 1 || head.is_of_residuals() || !whole {
                return None;
            }
            let first = self.tiles.geometry().elements_before(tiles.start) - part.first_element;
            Some(output_pointer + first * size).filter(|address| address.is_multiple_of(16))
        };
        let needs_slots = heads.iter().enumerate().any(|(i, head)| !head.is_raw() && in_place(i, head).is_none());
        let slots = frame.slice::<u8>(if needs_slots { heads.len() * slot_bytes as usize } else { 0 })?;
        let slot_pointer = slots.device_ptr(&stream).0;
        let mut sources = vec![ChunkSource::NOWHERE; heads.len()];
        let mut by_kind: BTreeMap<(SymbolWidth, u8), (Vec<u32>, Vec<DecodeSpan>)> = BTreeMap::new();
        for (number, (head, own)) in heads.iter().zip(&sections).enumerate() {
            let Some(own) = own else {
                sources[number] = ChunkSource::elements(input + places[number] + RECORD_HEADER_LEN as u64);
                continue;
            };
            let target = in_place(number, head).unwrap_or_else(|| {
                let slot = slot_pointer + number as u64 * slot_bytes;
                sources[number] = match head.is_of_residuals() {
                    true => ChunkSource::residuals(slot),
                    false => ChunkSource::elements(slot),
                };
                slot
            });
            let Some(width) = SymbolWidth::from_bytes(head.width as usize) else { continue };
            let [flags, lengths, distances, literals] = [0, 1, 2, 3].map(|i| (pointers.section(&own[i]), own[i].bytes));
            let (of_chunks, spans) = by_kind.entry((width, head.level as u8)).or_default();
            of_chunks.push(number as u32);
            spans.push(DecodeSpan {
                blocks: input + places[number] + u64::from(head.section_at[BLOCKS]) + PARAMETER_BYTES,
                flags,
                lengths,
                distances,
                literals,
                output: target,
                bytes: u64::from(head.elements) * size,
                min_match: head.min_match as u8,
            });
        }
        let mut noted = self.statuses.slice_mut(chunks.start as usize..chunks.end as usize);
        for ((width, level), (of_chunks, spans)) in by_kind {
            let decoder = match self.decoders.entry((width, level)) {
                std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(Decoder::new(self.device, width, level)?)
                }
            };
            let lzss_batch = DecodeBatch::new(&stream, width, level, &spans)?;
            let mut status = frame.slice::<u32>(spans.len())?;
            decoder.launch_at_addresses(&mut frame, &lzss_batch, &mut status)?;
            self.pieces.note(&stream, &status.as_view(), &of_chunks, STATUS_TOKENS, &mut noted)?;
        }
        observer("lzss")?;
        self.pieces.note(&stream, &byte_status.as_view(), &byte_streams.chunks, STATUS_PLANES, &mut noted)?;
        self.pieces.note(&stream, &word_status.as_view(), &word_streams.chunks, STATUS_PLANES, &mut noted)?;

        if sources.iter().any(ChunkSource::is_somewhere) {
            let sources = stream.clone_htod(&sources).doing("listing chunks")?;
            let first = batch.first_tile();
            let tiles = (wanted.start - first) as u32..(wanted.end - first) as u32;
            let (metas, bases, starts) = (parsed.metas.as_view(), parsed.bases.as_view(), parsed.starts.as_view());
            let sources = sources.as_view();
            self.tiles.scatter(
                &stream,
                &batch,
                tiles,
                &sources,
                &metas,
                &bases,
                &starts,
                output,
                part.first_element,
            )?;
        }
        observer("tiles")
    }

    /// Checks that the output has the elements of these tiles.
    fn check_output(&self, tiles: &Range<u64>, first_element: u64, elements: u64) -> Result<()> {
        let geometry = self.info.geometry();
        let [sb, sz, sy] = geometry.strides();
        let number = |tile: u64, last: bool| {
            let tile = geometry.range(tile..tile + 1).next()?;
            let at = |axis: usize| tile.origin[axis + 1] + if last { tile.extent[axis] as u64 - 1 } else { 0 };
            Some(tile.origin[0] * sb + at(0) * sz + at(1) * sy + at(2))
        };
        // Of the last tile the last element is behind all others: see `geometry::element_span`.
        match (number(tiles.start, false), number(tiles.end - 1, true)) {
            (Some(first), Some(last)) if first >= first_element && last - first_element < elements => Ok(()),
            _ => Err(CudaError::invalid("the output does not hold the elements of the tiles that are wanted")),
        }
    }
}

/// Section `i` of a chunk's tokens; its Huffman streams are added to `streams` (of bytes, of words).
fn section_of(
    chunk: u32,
    head: &Head,
    i: usize,
    record: u64,
    streams: (&mut Streams, &mut Streams),
    joined: &mut u64,
) -> Section {
    let literals = head.tokens - head.matches;
    let distance_bytes = if head.level <= 4 { 1 } else { 2 };
    let (values, value_bytes) =
        [(head.flag_words * 8, 1), (head.matches, 1), (head.matches, distance_bytes), (literals, head.width)][i];
    let bytes = values * value_bytes;
    if head.literal_bytes == 0 {
        let raw = Symbols::Raw(record + u64::from(head.section_at[BLOCKS + 1 + i]));
        return Section { planes: vec![raw], count: bytes, symbol_bytes: 1, bytes, joined_at: 0 };
    }
    let symbol_bytes = if i == 3 { head.literal_bytes } else { 1 };
    let stride = (value_bytes / symbol_bytes) as usize;
    let streams = if symbol_bytes == 1 { streams.0 } else { streams.1 };
    let planes = head.planes[FIRST_PLANES[i]..][..stride].iter().map(|plane| match plane.coded {
        0 => Symbols::Raw(record + u64::from(plane.at)),
        _ => Symbols::Decoded(streams.add(chunk, record, plane, values)),
    });
    let planes = planes.collect();
    let joined_at = *joined;
    if stride > 1 {
        *joined += u64::from(bytes).next_multiple_of(16);
    }
    Section { planes, count: values, symbol_bytes, bytes, joined_at }
}

/// Where the parts of sections are.
struct Pointers {
    input: CUdeviceptr,
    bytes: CUdeviceptr,
    words: CUdeviceptr,
    joined: CUdeviceptr,
}

impl Pointers {
    fn plane(&self, section: &Section, plane: usize) -> CUdeviceptr {
        match (section.planes[plane], section.symbol_bytes) {
            (Symbols::Raw(at), _) => self.input + at,
            (Symbols::Decoded(at), 1) => self.bytes + at,
            (Symbols::Decoded(at), _) => self.words + 2 * at,
        }
    }

    fn join(&self, section: &Section) -> Option<Join> {
        let stride = section.planes.len();
        (stride > 1).then(|| Join {
            to: self.joined + section.joined_at,
            from: std::array::from_fn(|plane| if plane < stride { self.plane(section, plane) } else { 0 }),
            count: section.count,
            stride: stride as u32,
            symbol_bytes: section.symbol_bytes,
            unused: 0,
        })
    }

    fn section(&self, section: &Section) -> CUdeviceptr {
        if section.planes.len() > 1 { self.joined + section.joined_at } else { self.plane(section, 0) }
    }
}
