//! Decompression of a stream that arrives in order, such as from a pipe.

use std::fmt;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use syncline_core::container::{HEADER_LEN, Header, RECORD_HEADER_LEN, RECORD_MARKER, table_and_trailer};
use syncline_core::error::{Error, Location, Result};
use syncline_core::geometry::Geometry;
use syncline_core::pipeline::{self, DecodeScratch, decode_chunk};

use crate::io::{Turns, WriteAt};
use crate::options::{DecompressOptions, Meter};
use crate::pool::{Pool, Reused};
use crate::ring::Ring;
use crate::sink::FileSink;

/// Length of the bytes that tell a stream from other data.
const MAGIC_LEN: usize = 8;

/// Reads a stream from start to end, without positional access, and writes the elements in C order as soon as they are
/// complete. It holds one layer of tiles (8 planes of a 3-D array, 32 rows of a 2-D one) and a chunk for each thread.
/// It decodes on the CPU.
///
/// ```
/// use syncline::{ArrayView, Bound, CompressOptions, DecompressOptions, SequentialReader, compress};
/// let field = [1.5f32; 3000];
/// let stream = compress(&ArrayView::new(&field, &[30, 100])?, &CompressOptions::new(Bound::Abs(0.1)))?;
/// // Anything that implements `Read` will do, such as stdin.
/// let reader = SequentialReader::new(stream.as_slice(), DecompressOptions::default())?;
/// assert_eq!(reader.header().shape.extents(), [30, 100]);
/// let mut bytes = Vec::new();
/// reader.copy_to(&mut bytes)?;
/// assert_eq!(bytes.len(), 12_000);
/// # Ok::<(), syncline::Error>(())
/// ```
pub struct SequentialReader<R> {
    source: R,
    header: Header,
    geometry: Geometry,
    options: DecompressOptions,
}

impl<R: Read> SequentialReader<R> {
    /// Reads the header. Data that are no stream are refused after their first eight bytes.
    ///
    /// # Errors
    /// [`Error::NotSyncline`], [`Error::UnsupportedVersion`], [`Error::Truncated`], [`Error::Corrupt`], or
    /// [`Error::Io`].
    pub fn new(mut source: R, options: DecompressOptions) -> Result<Self> {
        let in_header = |error: Error| error.located(Location::at(0));
        let mut bytes = Vec::new();
        source.by_ref().take(MAGIC_LEN as u64).read_to_end(&mut bytes)?;
        if let Err(error @ Error::NotSyncline(_)) = Header::parse(&bytes) {
            return Err(error);
        }
        source.by_ref().take((HEADER_LEN - bytes.len()) as u64).read_to_end(&mut bytes)?;
        let header = Header::parse(&bytes).map_err(in_header)?;
        let geometry = header.geometry().map_err(in_header)?;
        Ok(Self { source, header, geometry, options })
    }

    /// Returns the header: the contents of the stream and the options that it was made with.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Decompresses the whole array to `sink`, as little-endian bytes in C order. Returns the length of the stream.
    ///
    /// The end of the stream is checked last, when the elements have been written already.
    ///
    /// # Errors
    /// [`Error::Truncated`] or [`Error::Corrupt`] for a damaged stream, or if bytes follow it; [`Error::MemoryLimit`];
    /// [`Error::Cancelled`]; [`Error::Io`].
    pub fn copy_to<W: Write>(mut self, sink: W) -> Result<u64> {
        self.copy_through(&mut Ring::default(), sink)
    }

    /// Decompresses the whole array to `sink`. `window` holds the part that is being decoded.
    fn copy_through<W: Write>(&mut self, window: &mut Ring, mut sink: W) -> Result<u64> {
        let chunks = self.geometry.chunks();
        let element = self.header.element_type.size();
        let pool = Pool::new(self.options.threads(), chunks)?;
        let mut limited = None;
        let mut lengths = Vec::new();
        let mut position = HEADER_LEN as u64;
        let reused = Reused::<(DecodeScratch, Vec<u8>)>::default();
        let options = self.options.clone();
        let meter = Meter::new(&options.progress, self.geometry.elements());
        let mut next = 0;
        while next < chunks {
            let threads = limited.as_ref().unwrap_or(&pool).threads() as u64;
            let mut round = next..chunks.min(next + threads);
            let end = self.end_of(&round) * element as u64;
            self.make_room(window, end)?;
            if let Some(fewer) = self.fitting(limited.as_ref().unwrap_or(&pool), window.capacity())? {
                round.end = round.end.min(next + fewer.threads() as u64);
                limited = Some(fewer);
            }
            let mut records = Vec::new();
            for chunk in round.clone() {
                let record = self.record(chunk, position)?;
                position += record.len() as u64;
                lengths.push(record.len() as u32);
                records.push((chunk, record));
            }
            let (header, geometry) = (&self.header, &self.geometry);
            let shared = Shared(Mutex::new(&mut *window));
            let turns = Turns::new(&shared);
            let decode = |(chunk, record): (u64, Vec<u8>)| {
                reused.with(|(scratch, bytes)| {
                    let mut tiles = FileSink::new(&turns, 0, element, geometry, chunk, bytes);
                    decode_chunk(header, geometry, chunk, &record, scratch, &mut tiles)
                })?;
                meter.advance(geometry.chunk_elements(chunk))
            };
            limited.as_ref().unwrap_or(&pool).map(records, decode)?;
            next = round.end;
            // Later chunks have no elements before the start of the next one.
            let complete = match next < chunks {
                true => self.geometry.element_range(next).start,
                false => self.geometry.elements(),
            };
            let complete = complete * element as u64;
            let (older, newer) = window.parts(window.position()..complete);
            sink.write_all(older)?;
            sink.write_all(newer)?;
            window.forget_to(complete);
        }
        self.check_end(&lengths)?;
        sink.flush()?;
        Ok(position + table_and_trailer(&self.header, &lengths).len() as u64)
    }

    /// Returns the number of the element after all those of these chunks.
    fn end_of(&self, chunks: &Range<u64>) -> u64 {
        chunks.clone().map(|chunk| self.geometry.element_range(chunk).end).max().unwrap_or(0)
    }

    /// Makes room for the bytes of the array up to `end`.
    fn make_room(&self, window: &mut Ring, end: u64) -> Result<()> {
        let limit = self.options.memory_limit().unwrap_or(u64::MAX);
        if window.extend_to(end, limit) {
            return Ok(());
        }
        let needed = end.saturating_sub(window.position());
        Err(Error::MemoryLimit { what: "holding a layer of tiles".into(), needed, limit })
    }

    /// Returns a pool with as many threads as fit beside the window; `None` if all of this pool do.
    fn fitting(&self, pool: &Pool, window: u64) -> Result<Option<Pool>> {
        let Some(limit) = self.options.memory_limit() else { return Ok(None) };
        let element = self.header.element_type.size() as u64;
        let chunk = u64::from(self.geometry.tiles_per_chunk()) * self.geometry.unclipped_len();
        // The record, and the boxes of tiles on their way to the window.
        let own = 2 * chunk.min(self.geometry.elements()) * element;
        let each = own + pipeline::decode_memory(&self.header, &self.geometry);
        pool.limited(limit.saturating_sub(window), each, "decompression", limit)
    }

    /// Reads the record of a chunk, which starts at a position of the stream.
    fn record(&mut self, chunk: u64, position: u64) -> Result<Vec<u8>> {
        let located = |error: Error| error.located(Location::of_chunk(chunk, position));
        let place = format!("chunk {chunk}");
        let mut record = Vec::new();
        self.source.by_ref().take(RECORD_HEADER_LEN as u64).read_to_end(&mut record)?;
        let [a, b, c, d, e, f, g, h, ..] = record[..] else {
            return Err(located(Error::truncated(place, RECORD_HEADER_LEN as u64, record.len() as u64)));
        };
        if [a, b, c, d] != RECORD_MARKER {
            return Err(located(Error::corrupt(place, "there is no chunk record where one must follow")));
        }
        // The vector grows with the bytes that arrive, whatever length is claimed.
        let length = u64::from(u32::from_le_bytes([e, f, g, h]));
        let rest = length.saturating_sub(record.len() as u64);
        self.source.by_ref().take(rest).read_to_end(&mut record)?;
        if (record.len() as u64) < length {
            return Err(located(Error::truncated(place, length, record.len() as u64)));
        }
        Ok(record)
    }

    /// Checks the chunk table and the trailer, which follow from the records.
    fn check_end(&mut self, lengths: &[u32]) -> Result<()> {
        let expected = table_and_trailer(&self.header, lengths);
        let mut end = Vec::new();
        self.source.by_ref().take(expected.len() as u64 + 1).read_to_end(&mut end)?;
        let place = "the chunk table";
        if end == expected {
            return Ok(());
        }
        Err(match end.len() {
            length if length < expected.len() => Error::truncated(place, expected.len() as u64, length as u64),
            length if length > expected.len() && end.starts_with(&expected) => {
                Error::corrupt(place, "bytes follow the end of the stream")
            }
            _ => Error::corrupt(place, "it does not match the records"),
        })
    }
}

impl<R> fmt::Debug for SequentialReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SequentialReader")
            .field("header", &self.header)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// The part of the array that is being decoded, while several threads write to it.
struct Shared<'a>(Mutex<&'a mut Ring>);

impl WriteAt for Shared<'_> {
    fn write_all_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(buffer, offset);
        Ok(())
    }
}

#[cfg(test)]
impl<R: Read> SequentialReader<R> {
    /// Decompresses to memory, and returns how many bytes were moved within it.
    pub(crate) fn copy_counted(mut self, out: &mut Vec<u8>) -> usize {
        let mut window = Ring::default();
        self.copy_through(&mut window, out).unwrap();
        window.moved
    }
}
