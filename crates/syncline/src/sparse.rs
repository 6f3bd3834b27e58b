//! Streams of which only some bytes are at hand.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use syncline_core::container::{HEADER_LEN, Header, TRAILER_LEN, outline_of_end, record_length, table_and_trailer};
use syncline_core::error::Result;

use crate::io::ReadAt;

/// Some of the bytes of a stream, for stores in which each read is a request.
///
/// A reader fetches some bytes of a stream's start. If it has several chunks, it fetches some of its end, too, and
/// [what is missing](Self::missing) of the chunk table. Then it fetches
/// [what a region needs](crate::StreamFile::missing_ranges), until nothing is missing.
///
/// ```
/// use syncline::{ArrayView, Bound, CompressOptions, DecompressOptions, Effort, SparseBytes, StreamFile, compress};
/// let field: Vec<f32> = (0..500_000).map(|i| (i as f32 * 0.37).sin()).collect();
/// let options = CompressOptions::new(Bound::Abs(1e-3)).with_effort(Effort::Fast);
/// let stored = compress(&ArrayView::new(&field, &[500_000])?, &options)?;
/// let mut fetched = 0;
/// let mut fetch = |range: std::ops::Range<u64>| {
///     fetched += range.end - range.start;
///     stored[range.start as usize..range.end as usize].to_vec()
/// };
///
/// let head = fetch(0..8192);
/// let bytes = match SparseBytes::from_head(head.clone())? {
///     Some(bytes) => bytes,
///     None => {
///         let end = stored.len() as u64;
///         let mut bytes = SparseBytes::from_ends(head, fetch(end - 64..end))?;
///         if let Some(range) = bytes.missing() {
///             bytes.insert(range.start, fetch(range));
///         }
///         bytes
///     }
/// };
/// let mut stream = StreamFile::open(bytes)?;
/// let region = [400_000..400_003];
/// loop {
///     let missing = stream.missing_ranges(&region)?;
///     if missing.is_empty() {
///         break;
///     }
///     for range in missing {
///         stream.source_mut().insert(range.start, fetch(range));
///     }
/// }
/// let part = stream.decompress_region(&region, &DecompressOptions::default())?;
/// assert!((part.to_vec::<f32>()?[2] - field[400_002]).abs() < 1e-3);
/// assert!(fetched < stored.len() as u64 / 10);
/// # Ok::<(), syncline::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SparseBytes {
    len: u64,
    header: Header,
    /// The chunk table and the trailer.
    outline: Range<u64>,
    /// Pieces by the offset of their first byte.
    pieces: BTreeMap<u64, Vec<u8>>,
}

impl SparseBytes {
    /// Length of the header in bytes.
    pub const HEAD_BYTES: usize = HEADER_LEN;

    /// Least number of bytes of a stream's end from which its length is known.
    pub const TAIL_BYTES: usize = TRAILER_LEN;

    /// Holds the first and the last bytes of a stream. The length of the stream follows from the latter, of which there
    /// must be at least [`TAIL_BYTES`](Self::TAIL_BYTES).
    ///
    /// # Errors
    /// Those of a header that cannot be read, and [`Error::Truncated`](crate::Error::Truncated) or
    /// [`Error::Corrupt`](crate::Error::Corrupt) if `tail` does not end with a trailer that fits the header.
    pub fn from_ends(head: Vec<u8>, tail: Vec<u8>) -> Result<Self> {
        let header = Header::parse(&head)?;
        let outline = outline_of_end(&header, &tail)?;
        let len = outline.end;
        let mut bytes = Self { len, header, outline, pieces: BTreeMap::from([(0, head)]) };
        match len.checked_sub(tail.len() as u64) {
            Some(at) => bytes.insert(at, tail),
            // Bytes follow the trailer's stream at its start: its own are the last ones.
            None => bytes.insert(0, tail[tail.len() - len as usize..].to_vec()),
        }
        Ok(bytes)
    }

    /// Holds the first bytes of a stream, at least as many as one with [`HEAD_BYTES`](Self::HEAD_BYTES) and the header
    /// of a record. If the stream has one chunk, its end follows from these; otherwise, returns `None`.
    ///
    /// # Errors
    /// Those of a header that cannot be read, and [`Error::Truncated`](crate::Error::Truncated) or
    /// [`Error::Corrupt`](crate::Error::Corrupt) if no record follows it.
    pub fn from_head(head: Vec<u8>) -> Result<Option<Self>> {
        let header = Header::parse(&head)?;
        if header.geometry()?.chunks() != 1 {
            return Ok(None);
        }
        let length = record_length(&head[HEADER_LEN..], 0)?;
        let end = table_and_trailer(&header, &[length]);
        let outline = HEADER_LEN as u64 + u64::from(length);
        let outline = outline..outline + end.len() as u64;
        let pieces = BTreeMap::from([(0, head), (outline.start, end)]);
        Ok(Some(Self { len: outline.end, header, outline, pieces }))
    }

    /// Returns the header of the stream.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Adds bytes that start at an offset of the stream.
    pub fn insert(&mut self, offset: u64, bytes: Vec<u8>) {
        // The longer piece stays, so that no byte becomes unavailable.
        let piece = self.pieces.entry(offset).or_default();
        if bytes.len() > piece.len() {
            *piece = bytes;
        }
    }

    /// Returns the range of bytes that opening the stream needs besides those at hand, if any.
    pub fn missing(&self) -> Option<Range<u64>> {
        let is_known = self.has(self.outline.start, self.outline.end - self.outline.start);
        (!is_known).then(|| self.outline.clone())
    }

    /// Returns whether `length` bytes from `offset` on are at hand.
    pub(crate) fn has(&self, offset: u64, length: u64) -> bool {
        self.at_hand(offset, length) == length
    }

    /// Calls `put` with parts of the `length` bytes from `offset` on, and where they start among these, up to the first
    /// byte that is not at hand. Returns how many bytes these were.
    fn copy(&self, offset: u64, length: u64, mut put: impl FnMut(usize, &[u8])) -> u64 {
        let end = offset.saturating_add(length);
        let mut at = offset;
        while at < end {
            // Of the pieces that start at or before a byte, a shorter one may follow a longer one.
            let rest = self.pieces.range(..=at).rev().find_map(|(&start, piece)| {
                piece.get(usize::try_from(at - start).ok()?..).filter(|rest| !rest.is_empty())
            });
            let Some(rest) = rest else { return at - offset };
            let part = &rest[..rest.len().min((end - at) as usize)];
            put((at - offset) as usize, part);
            at += part.len() as u64;
        }
        length
    }
}

impl ReadAt for SparseBytes {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn at_hand(&self, offset: u64, length: u64) -> u64 {
        self.copy(offset, length, |_, _| {})
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let length = buffer.len() as u64;
        let put = |at: usize, part: &[u8]| buffer[at..at + part.len()].copy_from_slice(part);
        if self.copy(offset, length, put) == length {
            return Ok(());
        }
        let end = offset.saturating_add(length);
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("bytes {offset}..{end} of the stream are missing")))
    }
}
