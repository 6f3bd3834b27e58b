//! Streams of which only some bytes are at hand.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use syncline_core::container::{HEADER_LEN, Header, TRAILER_LEN, outline_of_end};
use syncline_core::error::Result;

use crate::io::ReadAt;

/// Some of the bytes of a stream, for stores in which each read is a request.
///
/// A reader fetches the first [`HEAD_BYTES`](Self::HEAD_BYTES) bytes of a stream and some bytes of its end, then
/// [what is missing](Self::missing) of the chunk table, and then the
/// [bytes of a region](crate::StreamFile::byte_ranges).
///
/// ```
/// use syncline::{ArrayView, CompressOptions, DecompressOptions, SparseBytes, StreamFile, compress};
/// let numbers: Vec<u32> = (0..100_000).collect();
/// let stored = compress(&ArrayView::new(&numbers, &[100_000])?, &CompressOptions::default())?;
///
/// let (head, tail) = (&stored[..SparseBytes::HEAD_BYTES], &stored[stored.len() - 64..]);
/// let mut bytes = SparseBytes::from_ends(head.to_vec(), tail.to_vec())?;
/// if let Some(range) = bytes.missing() {
///     bytes.insert(range.start, stored[range.start as usize..range.end as usize].to_vec());
/// }
/// let mut stream = StreamFile::open(bytes)?;
/// let region = 70_000..70_003;
/// for range in stream.byte_ranges(&[region.clone()])? {
///     stream.source_mut().insert(range.start, stored[range.start as usize..range.end as usize].to_vec());
/// }
/// let part = stream.decompress_region(&[region], &DecompressOptions::default())?;
/// assert_eq!(part.to_vec::<u32>()?, [70_000, 70_001, 70_002]);
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
        let known = self.piece(self.outline.start, self.outline.end - self.outline.start);
        known.is_none().then(|| self.outline.clone())
    }

    /// Returns `length` bytes from `offset` on if one piece has all of them.
    fn piece(&self, offset: u64, length: u64) -> Option<&[u8]> {
        // Of the pieces that start at or before the offset, a shorter one may follow a longer one.
        self.pieces.range(..=offset).rev().find_map(|(&start, piece)| {
            let from = usize::try_from(offset - start).ok()?;
            piece.get(from..from.checked_add(usize::try_from(length).ok()?)?)
        })
    }
}

impl ReadAt for SparseBytes {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let piece = self.piece(offset, buffer.len() as u64).ok_or_else(|| {
            let end = offset.saturating_add(buffer.len() as u64);
            io::Error::new(io::ErrorKind::UnexpectedEof, format!("bytes {offset}..{end} of the stream are missing"))
        })?;
        buffer.copy_from_slice(piece);
        Ok(())
    }
}
