//! Decodes the tokens in records to bytes.

use std::collections::{BTreeMap, HashMap};

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaView, CudaViewMut, DevicePtr};
use syncline_core::lzss::SymbolWidth;

use super::planes::{GROUP, PlaneDecoder};
use super::record_headers::FIRST_PLANES;
use super::records::{BLOCKS, PARAMETER_BYTES};
use super::structs::{HeaderPlane, RecordHeader};
use crate::device::{Arena, Device, Frame, PlaneJoin, SideStream, Transfer};
use crate::error::Result;
use crate::huffman::decode::StreamLocation;
use crate::lzss::{ChunkSections, DecodeBatch, Decoder};

/// Bits of a chunk's status: its Huffman streams are damaged, or its tokens are.
pub(crate) const STATUS_PLANES: u32 = 1;
pub(crate) const STATUS_TOKENS: u32 = 2;

/// The tokens of a chunk whose record header has been read.
pub(crate) struct Tokens<'h> {
    /// The validated header of the record.
    pub head: &'h RecordHeader,
    /// Index of the chunk's status word.
    pub chunk: u32,
    /// Offset of the record in the input in bytes.
    pub record: u64,
    /// Destination address, a multiple of 16, and number of the decoded bytes.
    pub target: CUdeviceptr,
    pub bytes: u64,
}

/// Decodes the tokens of many chunks at once.
#[derive(Debug)]
pub(crate) struct TokenDecoder {
    device: Device,
    transfer: Transfer,
    /// Created on first use, because their kernels take a while to compile.
    bytes: Option<PlaneDecoder<u8>>,
    words: Option<PlaneDecoder<u16>>,
    decoders: HashMap<(SymbolWidth, u8), Decoder>,
    side_arena: Arena,
    side: SideStream,
}

impl TokenDecoder {
    pub fn new(device: &Device) -> Result<Self> {
        let (transfer, side) = (Transfer::new(device)?, SideStream::new(device.context())?);
        Ok(Self {
            device: device.clone(),
            transfer,
            bytes: None,
            words: None,
            decoders: HashMap::new(),
            side_arena: Arena::new(side.stream().clone()),
            side,
        })
    }

    /// Queues the decoding of chunks' tokens to their destinations, which must have room. If the tokens of a chunk are
    /// damaged, [`STATUS_PLANES`] or [`STATUS_TOKENS`] is set in its word of `noted`.
    pub fn decode(
        &mut self,
        frame: &mut Frame<'_>,
        input: &CudaView<'_, u8>,
        chunks: &[Tokens<'_>],
        noted: &mut CudaViewMut<'_, u32>,
    ) -> Result<()> {
        let stream = frame.stream().clone();
        // Locates the sections of tokens, which are joined from planes if they are stored as planes.
        let (mut byte_streams, mut word_streams, mut joined) = (Streams::default(), Streams::default(), 0);
        let sections: Vec<[Section; 4]> = chunks
            .iter()
            .map(|tokens| {
                std::array::from_fn(|i| locate_section(tokens, i, (&mut byte_streams, &mut word_streams), &mut joined))
            })
            .collect();
        let mut decoded_bytes = frame.slice::<u8>(byte_streams.symbols as usize)?;
        let mut decoded_words = frame.slice::<u16>(word_streams.symbols as usize)?;
        let joined = frame.slice::<u8>(joined as usize)?;
        let mut byte_status = frame.slice::<u32>(byte_streams.places.len())?;
        let mut word_status = frame.slice::<u32>(word_streams.places.len())?;
        if self.words.is_none() && !word_streams.places.is_empty() {
            self.words = Some(PlaneDecoder::new(&self.device)?);
        }
        if self.bytes.is_none() && !byte_streams.places.is_empty() {
            self.bytes = Some(PlaneDecoder::new(&self.device)?);
        }
        let words = self.words.as_ref().filter(|_| !word_streams.places.is_empty());
        let bytes = self.bytes.as_ref().filter(|_| !byte_streams.places.is_empty());
        // Planes of 16-bit symbols are decoded concurrently with those of bytes, because small streams do not fill the
        // device.
        let mut made = Ok(());
        if let Some(decoder) = words {
            self.side.fork(&stream)?;
            made = self.side_arena.frame().and_then(|mut frame| {
                decoder.decode(&mut frame, input, &word_streams.places, &mut decoded_words, &mut word_status)
            });
        }
        if let Some(decoder) = bytes {
            let of_bytes = decoder.decode(frame, input, &byte_streams.places, &mut decoded_bytes, &mut byte_status);
            made = made.and(of_bytes);
        }
        if words.is_some() {
            self.side.join(&stream)?;
        }
        made?;
        // Chunks with damaged planes are excluded from decoding tokens, because their sections are incomplete.
        self.transfer.note(frame, &byte_status.as_view(), &byte_streams.chunks, STATUS_PLANES, noted)?;
        self.transfer.note(frame, &word_status.as_view(), &word_streams.chunks, STATUS_PLANES, noted)?;
        let pointers = Pointers {
            input: input.device_ptr(&stream).0,
            bytes: decoded_bytes.device_ptr(&stream).0,
            words: decoded_words.device_ptr(&stream).0,
            joined: joined.device_ptr(&stream).0,
        };
        let joins = chunks.iter().zip(&sections);
        let joins: Vec<PlaneJoin> = joins
            .flat_map(|(tokens, own)| own.iter().filter_map(|section| pointers.join(section, tokens.chunk)))
            .collect();
        self.transfer.join(frame, &joins, &noted.as_view())?;

        let mut by_kind: BTreeMap<(SymbolWidth, u8), (Vec<u32>, Vec<ChunkSections>)> = BTreeMap::new();
        for (tokens, own) in chunks.iter().zip(&sections) {
            let head = tokens.head;
            let Some(width) = SymbolWidth::from_bytes(head.width as usize) else { continue };
            let [flags, lengths, distances, literals] = [0, 1, 2, 3].map(|i| (pointers.section(&own[i]), own[i].bytes));
            let (of_chunks, of_kind) = by_kind.entry((width, head.level as u8)).or_default();
            of_chunks.push(tokens.chunk);
            of_kind.push(ChunkSections {
                blocks: pointers.input + tokens.record + u64::from(head.section_at[BLOCKS]) + PARAMETER_BYTES,
                flags,
                lengths,
                distances,
                literals,
                output: tokens.target,
                bytes: tokens.bytes,
                min_match: head.min_match as u8,
            });
        }
        for ((width, level), (of_chunks, of_kind)) in by_kind {
            let decoder = match self.decoders.entry((width, level)) {
                std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(Decoder::new(&self.device, width, level)?)
                }
            };
            let lzss_batch = DecodeBatch::of_chunks(&stream, width, level, &of_kind, &of_chunks)?;
            let mut status = frame.slice::<u32>(of_kind.len())?;
            decoder.launch_at_addresses(frame, &lzss_batch, &noted.as_view(), &mut status)?;
            self.transfer.note(frame, &status.as_view(), &of_chunks, STATUS_TOKENS, noted)?;
        }
        Ok(())
    }
}

/// Huffman streams of planes with symbols of one size.
#[derive(Default)]
struct Streams {
    places: Vec<StreamLocation>,
    /// Index of each stream's chunk.
    chunks: Vec<u32>,
    /// Number of symbols of all streams, padded to whole groups.
    symbols: u64,
}

impl Streams {
    /// Adds a stream of `count` symbols. Returns the index of its first symbol in the output.
    fn add(&mut self, chunk: u32, record: u64, plane: &HeaderPlane, count: u32) -> u64 {
        let (out, groups) = (self.symbols, u64::from(count).div_ceil(GROUP));
        self.symbols += groups * GROUP;
        let offset = record + u64::from(plane.at);
        // A plane has at most 2^25 symbols.
        self.places.push(StreamLocation { offset, out, classes: 0, length: plane.bytes, groups: groups as u32 });
        self.chunks.push(chunk);
        out
    }
}

/// Location of a plane's symbols.
#[derive(Clone, Copy)]
enum Symbols {
    /// Stored at this offset in the input.
    Raw(u64),
    /// Decoded, from this symbol of the output on.
    Decoded(u64),
}

/// A section of tokens, joined from its planes.
struct Section {
    planes: Vec<Symbols>,
    count: u32,
    symbol_bytes: u32,
    /// Size of the section in bytes.
    bytes: u32,
    /// Offset among the joined sections in bytes, if the section has several planes.
    joined_at: u64,
}

/// Locates section `i` of a chunk's tokens and adds its Huffman streams to `streams` (of bytes, of 16-bit symbols).
fn locate_section(tokens: &Tokens<'_>, i: usize, streams: (&mut Streams, &mut Streams), joined: &mut u64) -> Section {
    let Tokens { head, chunk, record, .. } = *tokens;
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

/// Addresses of the memory that sections are in.
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

    fn join(&self, section: &Section, chunk: u32) -> Option<PlaneJoin> {
        let stride = section.planes.len();
        (stride > 1).then(|| PlaneJoin {
            to: self.joined + section.joined_at,
            from: std::array::from_fn(|plane| if plane < stride { self.plane(section, plane) } else { 0 }),
            count: section.count,
            stride: stride as u32,
            symbol_bytes: section.symbol_bytes,
            chunk,
        })
    }

    fn section(&self, section: &Section) -> CUdeviceptr {
        if section.planes.len() > 1 { self.joined + section.joined_at } else { self.plane(section, 0) }
    }
}
