//! Decompresses lossless streams from device memory to device memory.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut};
use syncline_core::bound::Pipeline;
use syncline_core::container::RECORD_HEADER_LEN;

use super::read_numbers::{Destination, NumberDecoder, STATUS_RAW_BITS, STATUS_STREAMS};
use super::read_tokens::{STATUS_PLANES, TokenDecoder, Tokens};
use super::record_headers::{RecordHeaderParser, Records};
use super::structs::RecordHeader;
use super::tiles::Tiles;
use crate::container::hash::{self, ExcludedRange, Hasher};
use crate::container::parse::{PROBLEM_HASH, problem_text};
use crate::device::{Arena, Device, Pinned, SideStream, fetch};
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::ChunkBatch;
use crate::pipeline::StreamInfo;

/// Maximum bytes of elements in a batch.
const BATCH_BYTES: u64 = 256 << 20;

/// Decompresses one lossless stream.
///
/// The device first reads the headers of a batch's records and reports them to the host, which waits for them and then
/// queues all further work. The device detects damage in the rest of the records, which [`Self::check`] reports.
#[derive(Debug)]
pub struct LosslessDecompressor {
    info: StreamInfo,
    tiles: Tiles,
    heads: RecordHeaderParser,
    hasher: Hasher,
    tokens: TokenDecoder,
    numbers: NumberDecoder,
    arena: Arena,
    /// The headers of the last batch.
    on_host: Pinned<RecordHeader>,
    /// One status word per chunk of the array, and whether its checksum differs, at least.
    statuses: CudaSlice<u32>,
    hashes_differ: CudaSlice<u32>,
    /// Checksums are computed beside all other work. The stream is destroyed after its memory.
    side_arena: Arena,
    side: SideStream,
    chunks_in_batch: u64,
}

/// The part of the array to decompress, and its destination.
struct Part<'p> {
    input: &'p CudaView<'p, u8>,
    input_offset: u64,
    tiles: Range<u64>,
    first_element: u64,
}

/// Returns the number of chunks in a batch of about `batch_bytes` bytes of elements. Each chunk takes memory for
/// hashing according to the longest record, which in a damaged stream may be far longer than the chunk's elements. The
/// result therefore considers both.
fn chunks_in_batch(info: &StreamInfo, tiles: &Tiles, batch_bytes: u64) -> u64 {
    tiles.chunks_in(batch_bytes, info.longest_record() / 2)
}

fn check_kind(info: &StreamInfo) -> Result<()> {
    match info.header().pipeline {
        Pipeline::Lossless => info.check_index(),
        other => Err(CudaError::Unsupported(format!("{other} streams are not lossless"))),
    }
}

/// Returns memory for a word for each chunk of the array.
fn words_of_chunks(stream: &Arc<CudaStream>, info: &StreamInfo) -> Result<CudaSlice<u32>> {
    let chunks = info.geometry().chunks().max(1);
    stream.alloc_zeros(chunks as usize).allocating(chunks * size_of::<u32>() as u64)
}

/// The requested tiles of a batch, and the memory for the array's elements from number `first_element` on.
struct OutputTiles<'o> {
    tiles: &'o Tiles,
    batch: &'o ChunkBatch,
    wanted: &'o Range<u64>,
    first_element: u64,
    output_pointer: CUdeviceptr,
}

impl OutputTiles<'_> {
    /// Returns the address for the bytes of a chunk's tokens in the output, if the chunk's elements are in order there
    /// and all of them are requested.
    fn place(&self, number: usize) -> Option<CUdeviceptr> {
        let tiles = self.batch.tiles_of(number as u32);
        let tiles = [tiles.start, tiles.end].map(|tile| self.batch.first_tile() + u64::from(tile));
        let whole = self.wanted.start <= tiles[0] && tiles[1] <= self.wanted.end;
        if self.tiles.geometry().axes() != 1 || !whole {
            return None;
        }
        let first = self.tiles.geometry().elements_before(tiles[0]) - self.first_element;
        Some(self.output_pointer + first * self.tiles.element_bytes()).filter(|address| address.is_multiple_of(16))
    }

    /// Returns the address of each chunk's elements in tile order, or 0 if they are not to be written, and the tokens
    /// to decode before. Tokens are decoded to the output if possible, else to slots. `places` are the offsets of the
    /// records in the input.
    fn plan_sources<'h>(
        &self,
        heads: &'h [RecordHeader],
        places: &[u64],
        [input, slots]: [CUdeviceptr; 2],
    ) -> (Vec<CUdeviceptr>, Vec<Tokens<'h>>) {
        let mut sources = vec![0; heads.len()];
        let mut tokens = Vec::new();
        for (number, head) in heads.iter().enumerate() {
            if head.is_of_numbers() {
                continue;
            }
            if head.is_raw() {
                sources[number] = input + places[number] + RECORD_HEADER_LEN as u64;
                continue;
            }
            let target = self.place(number).unwrap_or_else(|| {
                sources[number] = slots + number as u64 * self.tiles.slot_bytes();
                sources[number]
            });
            let bytes = self.tiles.elements_of(self.batch, number as u32) * self.tiles.element_bytes();
            tokens.push(Tokens { head, chunk: number as u32, record: places[number], target, bytes });
        }
        (sources, tokens)
    }
}

impl LosslessDecompressor {
    /// Creates a decompressor for the stream that `info` describes, working on `stream`.
    ///
    /// # Errors
    /// [`CudaError::Unsupported`] for streams that are not lossless or have no index; errors of [`Device::kernel`];
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn new(device: &Device, stream: Arc<CudaStream>, info: &StreamInfo) -> Result<Self> {
        check_kind(info)?;
        let side = SideStream::new(stream.context())?;
        Ok(Self {
            heads: RecordHeaderParser::new(device)?,
            hasher: Hasher::new(device)?,
            tokens: TokenDecoder::new(device)?,
            numbers: NumberDecoder::new(device, &stream, info.header().element_type)?,
            on_host: Pinned::new(&stream, 1)?,
            statuses: words_of_chunks(&stream, info)?,
            hashes_differ: words_of_chunks(&stream, info)?,
            side_arena: Arena::new(side.stream().clone()),
            side,
            arena: Arena::new(stream),
            chunks_in_batch: 1,
            tiles: Tiles::new(device, info.header().element_type, info.geometry())?,
            info: info.clone(),
        }
        .with_batch_bytes(BATCH_BYTES))
    }

    /// Returns a decompressor for another stream that takes over memory and kernels.
    ///
    /// # Errors
    /// The errors of [`Self::new`]. The memory is freed then.
    pub fn for_stream(self, device: &Device, info: &StreamInfo) -> Result<Self> {
        check_kind(info)?;
        let (stream, element) = (self.arena.stream().clone(), info.header().element_type);
        let numbers = match self.numbers.element() == element {
            true => self.numbers,
            false => NumberDecoder::new(device, &stream, element)?,
        };
        let has_room = info.geometry().chunks() as usize <= self.statuses.len();
        let (statuses, hashes_differ) = match has_room {
            true => (self.statuses, self.hashes_differ),
            false => (words_of_chunks(&stream, info)?, words_of_chunks(&stream, info)?),
        };
        let tiles = Tiles::new(device, element, info.geometry())?;
        Ok(Self { info: info.clone(), tiles, numbers, statuses, hashes_differ, ..self }.with_batch_bytes(BATCH_BYTES))
    }

    /// Sets the size of a batch to about `bytes` bytes of elements.
    #[must_use]
    pub fn with_batch_bytes(self, bytes: u64) -> Self {
        let chunks_in_batch = chunks_in_batch(&self.info, &self.tiles, bytes);
        Self { chunks_in_batch, ..self }
    }

    /// Returns the description of the stream that the decompressor was created for.
    pub fn info(&self) -> &StreamInfo {
        &self.info
    }

    /// Returns the bytes of device memory that are held between calls.
    pub fn workspace_bytes(&self) -> usize {
        let of_chunks = self.statuses.len() + self.hashes_differ.len();
        self.arena.capacity() + self.side_arena.capacity() + of_chunks * size_of::<u32>()
    }

    /// Decompresses the whole array. `input` is the stream, and `output` receives the array's elements as little-endian
    /// bytes.
    ///
    /// # Errors
    /// [`CudaError::Core`] for a damaged record; [`CudaError::InvalidArgument`] if the input or the output has another
    /// length or does not start on a multiple of 16 bytes; [`CudaError::OutOfMemory`]; [`CudaError::Driver`]. The
    /// device detects damage inside tokens, symbols, and raw bits, which [`Self::check`] reports.
    pub fn decompress(&mut self, input: &CudaView<'_, u8>, output: &mut CudaViewMut<'_, u8>) -> Result<()> {
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
        self.run(&Part { input: &input.slice(..), input_offset: 0, tiles, first_element: 0 }, output)
    }

    /// Decompresses the tiles with these numbers. `input` contains the stream from byte `input_offset` on (a multiple
    /// of 16), at least the records of the tiles' chunks ([`StreamInfo::bytes_of`]). `output` contains the array's
    /// elements from number `first_element` on in raster order, at least those of the tiles. Elements of other tiles
    /// remain unchanged.
    ///
    /// # Errors
    /// The errors of [`Self::decompress`].
    pub fn decompress_tiles(
        &mut self,
        input: &CudaView<'_, u8>,
        input_offset: u64,
        tiles: Range<u64>,
        output: &mut CudaViewMut<'_, u8>,
        first_element: u64,
    ) -> Result<()> {
        let tiles = tiles.start..tiles.end.min(self.info.geometry().tiles());
        self.run(&Part { input: &input.slice(..), input_offset, tiles, first_element }, output)
    }

    /// Waits for the queued work and returns the error of the first damaged chunk of the last call. All other chunks
    /// have been decompressed correctly.
    ///
    /// # Errors
    /// [`CudaError::Core`] for the first damaged chunk; [`CudaError::Driver`].
    pub fn check(&self) -> Result<()> {
        match self.first_damage()? {
            Some((chunk, text)) => Err(self.info.corrupt(chunk, text)),
            None => Ok(()),
        }
    }

    /// Waits for the queued work. Returns the first chunk in which the device found damage, apart from headers.
    fn first_damage(&self) -> Result<Option<(u64, &'static str)>> {
        let stream = self.arena.stream();
        let statuses = fetch(stream, &self.statuses, "reading statuses")?;
        let differ = fetch(stream, &self.hashes_differ, "reading statuses")?;
        let text = |(&status, &differs): (&u32, &u32)| match status {
            _ if differs != 0 => problem_text(PROBLEM_HASH),
            0 => None,
            s if s & STATUS_PLANES != 0 => Some("a Huffman stream of its tokens is damaged"),
            s if s & STATUS_STREAMS != 0 => Some("a Huffman stream of its numbers is damaged"),
            s if s & STATUS_RAW_BITS != 0 => Some("its raw bits do not fit its codes"),
            _ => Some("its LZSS tokens do not fit its elements"),
        };
        let mut chunks = statuses.iter().zip(&differ).zip(0..);
        Ok(chunks.find_map(|(status, chunk)| Some((chunk, text(status)?))))
    }

    fn run(&mut self, part: &Part<'_>, output: &mut CudaViewMut<'_, u8>) -> Result<()> {
        let stream = self.arena.stream().clone();
        stream.memset_zeros(&mut self.statuses).doing("clearing statuses")?;
        stream.memset_zeros(&mut self.hashes_differ).doing("clearing statuses")?;
        let misaligned = [part.input.device_ptr(&stream).0, output.device_ptr_mut(&stream).0, part.input_offset];
        if misaligned.iter().any(|address| !address.is_multiple_of(16)) {
            return Err(CudaError::invalid("input and output start on multiples of 16 bytes"));
        }
        let chunks = self.info.chunks_of(part.tiles.clone());
        for first in (chunks.start..chunks.end).step_by(self.chunks_in_batch as usize) {
            let end = chunks.end.min(first + self.chunks_in_batch);
            self.batch(part, first..end, output)?;
        }
        Ok(())
    }

    fn batch(&mut self, part: &Part<'_>, chunks: Range<u64>, output: &mut CudaViewMut<'_, u8>) -> Result<()> {
        let bytes = self.info.bytes_of(chunks.clone());
        let fits = bytes.start >= part.input_offset && bytes.end - part.input_offset <= part.input.len() as u64;
        if !fits {
            return Err(CudaError::invalid("the input does not contain the requested records"));
        }
        let places: Vec<u64> = chunks.clone().map(|chunk| self.info.record(chunk).0 - part.input_offset).collect();
        // The chunk table stores lengths in 32 bits.
        let lengths: Vec<u32> = chunks.clone().map(|chunk| self.info.record(chunk).1 as u32).collect();
        let stream = self.arena.stream().clone();
        self.side.fork(&stream)?;
        let hashed = self.verify(part, chunks.clone(), (&places, &lengths));
        let decoded = hashed.and_then(|()| self.decode(part, chunks, (&places, &lengths), output));
        // This also happens after an error, because the caller may free the input when this function returns.
        self.side.join(&stream)?;
        // Kernels read the input and write elements by address. Dropping these guards records events, so that other
        // streams wait before they reuse the memory.
        drop((part.input.device_ptr(&stream), output.device_ptr_mut(&stream)));
        let Some((chunk, problem, is_missing)) = decoded? else { return Ok(()) };
        // Whether a checksum matches comes before all but whether there is a record.
        Err(match self.first_damage()? {
            Some((other, text)) if other < chunk || (other == chunk && !is_missing) => self.info.corrupt(other, text),
            _ => self.info.corrupt(chunk, problem),
        })
    }

    /// Queues the comparison of the checksums of records, on the second stream.
    fn verify(&mut self, part: &Part<'_>, chunks: Range<u64>, (places, lengths): (&[u64], &[u32])) -> Result<()> {
        let mut frame = self.side_arena.frame()?;
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let (starts, lengths) = (frame.upload(places)?, frame.upload(lengths)?);
        let (starts, lengths) = (starts.as_view(), lengths.as_view());
        let pieces = hash::Pieces { starts: &starts, lengths: &lengths, longest, excluded: ExcludedRange::RECORD };
        let mut progress = frame.zeros::<u64>(places.len())?;
        let mut differ = self.hashes_differ.slice_mut(chunks.start as usize..chunks.end as usize);
        self.hasher.verify(&mut frame, part.input, &pieces, &mut progress, &mut differ)
    }

    /// Decodes the tiles of a batch that are wanted, whatever the checksums of their records are. Returns the first
    /// chunk whose header has a problem, the problem, and whether it is that there is no record.
    fn decode(
        &mut self,
        part: &Part<'_>,
        chunks: Range<u64>,
        (places, lengths): (&[u64], &[u32]),
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<Option<(u64, &'static str, bool)>> {
        let batch = ChunkBatch::new(self.info.geometry(), chunks.clone())?;
        let size = self.tiles.element_bytes();
        let tiles_in_batch = batch.first_tile()..batch.first_tile() + u64::from(batch.tiles());
        let wanted = part.tiles.start.max(tiles_in_batch.start)..part.tiles.end.min(tiles_in_batch.end);
        let ends = [wanted.start, wanted.end - 1].map(|tile| self.info.geometry().range(tile..tile + 1).next());
        let [Some(_), Some(_)] = ends else { return Err(CudaError::invalid("there are no such tiles")) };
        self.check_output(&wanted, part.first_element, output.len() as u64 / size)?;

        let stream = self.arena.stream().clone();
        let mut frame = self.arena.frame()?;
        let (device_places, device_lengths) = (frame.upload(places)?, frame.upload(lengths)?);
        let (place_view, length_view) = (device_places.as_view(), device_lengths.as_view());
        let records = Records { input: part.input, places: &place_view, lengths: &length_view };
        let index = self.info.header().index;
        let mut parsed = self.heads.launch(&mut frame, &self.tiles, &batch, &records, index)?;
        let numbers = self.numbers.parse(&mut frame, &self.tiles, &batch, (&records, index), &mut parsed)?;
        self.on_host.reserve(places.len())?;
        self.on_host.read(&parsed)?;
        let heads = &self.on_host.wait()?[..places.len()];
        let problems = heads.iter().zip(chunks.clone());
        let mut problems = problems.filter_map(|(head, chunk)| Some((chunk, head.problem()?, head.is_missing())));
        if let Some(first) = problems.next() {
            return Ok(Some(first));
        }

        let output_pointer = output.device_ptr_mut(&stream).0;
        let first_element = part.first_element;
        let array = OutputTiles { tiles: &self.tiles, batch: &batch, wanted: &wanted, first_element, output_pointer };
        let has_tokens = |head: &RecordHeader| !head.is_raw() && !head.is_of_numbers();
        let needs_slots = heads.iter().enumerate().any(|(i, head)| has_tokens(head) && array.place(i).is_none());
        let slot_bytes = if needs_slots { heads.len() * self.tiles.slot_bytes() as usize } else { 0 };
        let slots = frame.slice::<u8>(slot_bytes)?;
        let pointers = [part.input.device_ptr(&stream).0, slots.device_ptr(&stream).0];
        let (sources, tokens) = array.plan_sources(heads, places, pointers);
        let mut noted = self.statuses.slice_mut(chunks.start as usize..chunks.end as usize);
        self.tokens.decode(&mut frame, part.input, &tokens, &mut noted)?;
        let first = batch.first_tile();
        let tiles = (wanted.start - first) as u32..(wanted.end - first) as u32;
        if heads.iter().any(RecordHeader::is_of_numbers) {
            let (range, output) = (tiles.clone(), &mut *output);
            let destination = Destination { tiles: &self.tiles, batch: &batch, range, output, first_element };
            self.numbers.decode(&mut frame, (part.input, places), (heads, &numbers), &mut noted, destination)?;
        }

        if sources.iter().any(|&source| source != 0) {
            let sources = frame.upload(&sources)?;
            let decoded = (&sources.as_view(), &noted.as_view());
            self.tiles.scatter(&stream, &batch, tiles, decoded, (output, first_element))?;
        }
        Ok(None)
    }

    /// Checks that the output contains the elements of these tiles.
    fn check_output(&self, tiles: &Range<u64>, first_element: u64, elements: u64) -> Result<()> {
        let geometry = self.info.geometry();
        let [sb, sz, sy] = geometry.strides();
        let number = |tile: u64, last: bool| {
            let tile = geometry.range(tile..tile + 1).next()?;
            let at = |axis: usize| tile.origin[axis + 1] + if last { tile.extent[axis] as u64 - 1 } else { 0 };
            Some(tile.origin[0] * sb + at(0) * sz + at(1) * sy + at(2))
        };
        // The last element of the last tile is after the elements of all other tiles: see `geometry::element_range`.
        match (number(tiles.start, false), number(tiles.end - 1, true)) {
            (Some(first), Some(last)) if first >= first_element && last - first_element < elements => Ok(()),
            _ => Err(CudaError::invalid("the output does not have room for the elements of the requested tiles")),
        }
    }
}
