//! What can still be read of a damaged stream.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;

use bytemuck::Pod;
use syncline_core::array::ElementType;
use syncline_core::container::{HEADER_LEN, Header, RECORD_HEADER_LEN, RECORD_MARKER, parse_record, read_outline};
use syncline_core::error::{Error, Result};
use syncline_core::geometry::Geometry;
use syncline_core::pipeline::{self, DecodeScratch, TileSink, decode_chunk, inspect_chunk};

use crate::description::Description;
use crate::io::{ReadAt, Turns, WriteAt};
use crate::options::{DecompressOptions, Meter};
use crate::pool::{Pool, Reused};
use crate::sink::FileSink;
use crate::stream::read_into;

/// Bytes in which records are looked for at a time.
const SEARCH_BYTES: usize = 1 << 20;
/// The largest number of wrong records that may claim one byte and are tested. A damaged record claims the bytes of the
/// next one if some of its own are missing, and few streams have a marker within a record.
const OVERLAP: usize = 8;
/// Chunks that are given to the threads at a time, so that a header that claims many takes no memory.
const ROUND: u64 = 1 << 12;

/// Consecutive chunks of a damaged stream whose elements are lost.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Loss {
    /// Numbers of the chunks, from 0.
    pub chunks: Range<u64>,
    /// Range of element numbers, in C order, that has all elements of the chunks. It may have elements of other chunks
    /// as well.
    pub elements: Range<u64>,
    /// What is wrong.
    pub reason: String,
}

/// A stream that may be damaged. Its header must be intact. Without an intact chunk table, the records of the chunks
/// are searched for in the whole stream.
///
/// ```
/// use syncline::{ArrayView, Bound, CompressOptions, DecompressOptions, Salvage, compress};
/// let field = vec![1.5f32; 3_000_000];
/// let mut stream = compress(&ArrayView::new(&field, &[3_000_000])?, &CompressOptions::new(Bound::Abs(0.1)))?;
/// stream.truncate(stream.len() - 1); // The chunk table is lost.
/// let salvage = Salvage::open(&stream)?;
/// assert!(salvage.outline_error().is_some());
/// assert_eq!(salvage.check(&DecompressOptions::default())?, []);
/// # Ok::<(), syncline::Error>(())
/// ```
pub struct Salvage<S> {
    source: S,
    header: Header,
    geometry: Geometry,
    /// Offset and length of the record of each chunk that was found.
    records: BTreeMap<u64, (u64, usize)>,
    outline_error: Option<Error>,
    stream_len: u64,
}

impl<S: ReadAt> Salvage<S> {
    /// Reads the header, and the chunk table or else all records.
    ///
    /// # Errors
    /// [`Error::NotSyncline`], [`Error::UnsupportedVersion`], [`Error::Truncated`], or [`Error::Corrupt`] if the header
    /// cannot be read; [`Error::Io`].
    pub fn open(source: S) -> Result<Self> {
        let stream_len = source.size()?;
        let read = |offset: u64, length: usize| {
            let mut bytes = Vec::new();
            read_into(&source, offset, length, &mut bytes).map(|()| bytes)
        };
        let (header, geometry, records, outline_error) = match read_outline(stream_len, read) {
            Ok((header, geometry, table)) => {
                let records = (0..table.chunks()).map(|chunk| (chunk, table.record(chunk))).collect();
                (header, geometry, records, None)
            }
            Err(error @ Error::Io(_)) => return Err(error),
            Err(error) => {
                let header = Header::parse(&read(0, stream_len.min(HEADER_LEN as u64) as usize)?)?;
                let geometry = header.geometry()?;
                let records = find_records(&source, stream_len, &header, &geometry)?;
                (header, geometry, records, Some(error))
            }
        };
        Ok(Self { source, header, geometry, records, outline_error, stream_len })
    }

    /// Returns the header: the contents of the stream and the options that it was made with.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the number of chunks of the array.
    pub fn chunks(&self) -> u64 {
        self.geometry.chunks()
    }

    /// Returns the error for which the chunk table could not be used, if there was one.
    pub fn outline_error(&self) -> Option<&Error> {
        self.outline_error.as_ref()
    }

    /// Decodes all chunks and returns those that are lost.
    ///
    /// # Errors
    /// [`Error::MemoryLimit`]; [`Error::Cancelled`]; [`Error::Io`].
    pub fn check(&self, options: &DecompressOptions) -> Result<Vec<Loss>> {
        let found: Vec<u64> = self.records.keys().copied().collect();
        let mut losses = self.decode(&Nowhere, 0, None, options, found)?;
        let mut next = 0;
        for chunk in self.records.keys().copied().chain([self.chunks()]) {
            if next < chunk {
                losses.push(self.missing(next..chunk));
            }
            next = chunk + 1;
        }
        losses.sort_by_key(|loss| loss.chunks.start);
        Ok(losses)
    }

    /// Decompresses the whole array and writes it to a sink from byte `offset` on. Every element of a chunk that is
    /// lost becomes `lost`, the bits of an element. Returns what is lost.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if no chunk is left; [`Error::MemoryLimit`]; [`Error::Cancelled`]; [`Error::Io`].
    pub fn decompress_to<W: WriteAt + ?Sized>(
        &self,
        sink: &W,
        offset: u64,
        lost: u64,
        options: &DecompressOptions,
    ) -> Result<Vec<Loss>> {
        if self.records.is_empty() && self.chunks() > 0 {
            return Err(Error::corrupt("its chunks", "none is left: copy or download the stream again"));
        }
        let mut losses: Vec<Loss> = Vec::new();
        for start in (0..self.chunks()).step_by(ROUND as usize) {
            let round = start..self.chunks().min(start + ROUND);
            for loss in self.decode(sink, offset, Some(lost), options, round)? {
                match losses.last_mut() {
                    Some(last) if last.chunks.end == loss.chunks.start && last.reason == loss.reason => {
                        last.chunks.end = loss.chunks.end;
                        last.elements =
                            last.elements.start.min(loss.elements.start)..last.elements.end.max(loss.elements.end);
                    }
                    _ => losses.push(loss),
                }
            }
        }
        Ok(losses)
    }

    /// Returns the sizes and counts of the parts of all chunks that are intact, and the chunks that are lost.
    ///
    /// # Errors
    /// As [`Salvage::check`].
    pub fn inspect(&self, options: &DecompressOptions) -> Result<(Description, Vec<Loss>)> {
        let losses = self.check(options)?;
        let mut description = Description::new(&self.header, self.stream_len);
        let mut buffer = Vec::new();
        for (&chunk, &(offset, length)) in &self.records {
            read_into(&self.source, offset, length, &mut buffer)?;
            if let Ok(counts) = inspect_chunk(&self.header, &self.geometry, chunk, &buffer) {
                description.totals.add(&counts);
            }
        }
        Ok((description, losses))
    }

    /// Decodes these chunks, and returns those that are lost, in order. They are written as `lost`, if there is one.
    fn decode<W: WriteAt + ?Sized>(
        &self,
        sink: &W,
        offset: u64,
        lost: Option<u64>,
        options: &DecompressOptions,
        chunks: impl IntoIterator<Item = u64>,
    ) -> Result<Vec<Loss>> {
        let pool = Pool::new(options.threads(), self.chunks())?;
        let element = self.header.element_type.size();
        let limited = match options.memory_limit() {
            Some(limit) => {
                let own = u64::from(self.geometry.tiles_per_chunk()) * self.geometry.unclipped_len() * element as u64;
                let each = own + pipeline::decode_memory(&self.header, &self.geometry);
                pool.limited(limit, each, "decompression", limit)?
            }
            None => None,
        };
        let turns = Turns::new(sink);
        let meter = Meter::new(&options.progress, self.geometry.elements());
        let reused = Reused::<(Vec<u8>, DecodeScratch, Vec<u8>)>::default();
        let decode = |chunk: u64| -> Result<Option<Loss>> {
            let loss = reused.with(|(record, scratch, bytes)| {
                let loss = match self.records.get(&chunk) {
                    None => self.missing(chunk..chunk + 1),
                    Some(&(at, length)) => {
                        read_into(&self.source, at, length, record)?;
                        let mut tiles = FileSink::new(&turns, offset, element, &self.geometry, chunk, bytes);
                        match decode_chunk(&self.header, &self.geometry, chunk, record, scratch, &mut tiles) {
                            Ok(()) => return Ok(None),
                            Err(error @ (Error::Corrupt { .. } | Error::Truncated { .. })) => {
                                self.loss(chunk..chunk + 1, error.to_string())
                            }
                            Err(error) => return Err(error),
                        }
                    }
                };
                if let Some(lost) = lost {
                    let mut tiles = FileSink::new(&turns, offset, element, &self.geometry, chunk, bytes);
                    self.put_lost(&mut tiles, lost)?;
                }
                Ok(Some(loss))
            })?;
            meter.advance(self.geometry.chunk_elements(chunk))?;
            Ok(loss)
        };
        let losses = limited.as_ref().unwrap_or(&pool).map(chunks, decode)?;
        Ok(losses.into_iter().flatten().collect())
    }

    fn put_lost(&self, tiles: &mut impl TileSink, lost: u64) -> Result<()> {
        fn all<T: Pod>(tiles: &mut impl TileSink, value: T) -> Result<()> {
            let mut values = Vec::new();
            while let Some((tile, _)) = tiles.peek() {
                values.resize(tile.len().max(values.len()), value);
                tiles.put(bytemuck::cast_slice(&values))?;
            }
            Ok(())
        }
        match self.header.element_type.size() {
            1 => all(tiles, lost as u8),
            2 => all(tiles, lost as u16),
            4 => all(tiles, lost as u32),
            _ => all(tiles, lost),
        }
    }

    fn missing(&self, chunks: Range<u64>) -> Loss {
        self.loss(chunks, "the record is missing".into())
    }

    fn loss(&self, chunks: Range<u64>, reason: String) -> Loss {
        let (first, last) = (self.geometry.element_range(chunks.start), self.geometry.element_range(chunks.end - 1));
        Loss { chunks, elements: first.start.min(last.start)..first.end.max(last.end), reason }
    }
}

impl<S> fmt::Debug for Salvage<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Salvage")
            .field("header", &self.header)
            .field("records", &self.records.len())
            .field("outline_error", &self.outline_error)
            .finish_non_exhaustive()
    }
}

impl Loss {
    /// Returns bits that mark lost elements: those of NaN, or of 0 for integers.
    pub fn default_bits(element_type: ElementType) -> u64 {
        match element_type {
            ElementType::F16 => 0x7E00,
            ElementType::Bf16 => 0x7FC0,
            ElementType::F32 => u64::from(f32::NAN.to_bits()),
            ElementType::F64 => f64::NAN.to_bits(),
            _ => 0,
        }
    }
}

/// Searches a stream for records whose checksum is right. Of several with one number, the first counts.
///
/// The time grows with the length of the stream only: bytes that look like the start of a record are not tested where
/// [`OVERLAP`] others that were none claim the same bytes.
fn find_records<S: ReadAt>(
    source: &S,
    stream_len: u64,
    header: &Header,
    geometry: &Geometry,
) -> Result<BTreeMap<u64, (u64, usize)>> {
    let raw = u64::from(geometry.tiles_per_chunk()) * geometry.unclipped_len() * header.element_type.size() as u64;
    // No encoder writes records that are much longer than their elements.
    let limits = Limits { stream_len, record: 2 * raw + (1 << 20), chunks: geometry.chunks() };
    let mut records = BTreeMap::new();
    let mut markers = Markers { source, stream_len, block: Vec::new(), first: 0 };
    let mut record = Vec::new();
    let mut wrong_ends: Vec<u64> = Vec::new();
    let mut at = HEADER_LEN as u64;
    while let Some(found) = markers.next(at)? {
        at = found + 1;
        wrong_ends.retain(|&end| end > found);
        if wrong_ends.len() == OVERLAP {
            continue;
        }
        let Some((chunk, length)) = claim_at(source, found, &limits)? else { continue };
        let end = found + length as u64;
        read_into(source, found, length, &mut record)?;
        if parse_record(&record, chunk).is_ok() {
            records.entry(chunk).or_insert((found, length));
            at = end;
        } else {
            wrong_ends.push(end);
        }
    }
    Ok(records)
}

/// The markers of records in a stream.
struct Markers<'a, S> {
    source: &'a S,
    stream_len: u64,
    /// Bytes of the stream, and the position of the first.
    block: Vec<u8>,
    first: u64,
}

impl<S: ReadAt> Markers<'_, S> {
    /// Returns the position of the first marker from a position on that a whole record header can follow.
    fn next(&mut self, mut at: u64) -> Result<Option<u64>> {
        while at + RECORD_HEADER_LEN as u64 <= self.stream_len {
            let end = self.first + self.block.len() as u64;
            if at < self.first || at + RECORD_MARKER.len() as u64 > end {
                let length = (self.stream_len - at).min(SEARCH_BYTES as u64) as usize;
                read_into(self.source, at, length, &mut self.block)?;
                self.first = at;
            }
            let rest = &self.block[(at - self.first) as usize..];
            match rest.windows(RECORD_MARKER.len()).position(|bytes| bytes == RECORD_MARKER) {
                Some(found) => {
                    at += found as u64;
                    return Ok((at + RECORD_HEADER_LEN as u64 <= self.stream_len).then_some(at));
                }
                // A marker may lie across the end of the block.
                None => at += (rest.len() - (RECORD_MARKER.len() - 1)) as u64,
            }
        }
        Ok(None)
    }
}

/// What a record can be at most.
struct Limits {
    stream_len: u64,
    /// Bytes of a record.
    record: u64,
    chunks: u64,
}

/// Returns the number and the length that the bytes at a position state, if a record can have them.
fn claim_at<S: ReadAt>(source: &S, at: u64, limits: &Limits) -> Result<Option<(u64, usize)>> {
    let mut start = [0; 16];
    source.read_exact_at(&mut start, at)?;
    let [_, _, _, _, a, b, c, d, number @ ..] = start;
    let (length, chunk) = (u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(number));
    let most = (limits.stream_len - at).min(limits.record);
    let is_possible = length as usize >= RECORD_HEADER_LEN && u64::from(length) <= most && chunk < limits.chunks;
    Ok(is_possible.then_some((chunk, length as usize)))
}

/// A sink for elements that are only decoded.
struct Nowhere;

impl WriteAt for Nowhere {
    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Ok(())
    }
}
