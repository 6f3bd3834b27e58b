//! One chunk record: its header, checksum and payload.

use std::hash::Hasher;

use twox_hash::XxHash3_64;

use super::checksum::Checksum;
use super::{ALIGNMENT, pieces};
use crate::bits::fields::{Fields, align};
use crate::error::{Error, Result};
use crate::mem::uninit::{UninitBytes, Written};

/// Bytes of a record before its payload.
pub const RECORD_HEADER_LEN: usize = 32;

/// First bytes of a chunk record.
pub const RECORD_MARKER: [u8; 4] = *b"SYCK";
/// Offsets of the fields: the length follows the marker, and the kind follows the number of the chunk.
const LENGTH_AT: usize = 4;
const CHUNK_AT: usize = 8;
const KIND_AT: usize = 16;
/// The checksum is the last field of the record header and covers all other bytes of the record.
pub(super) const CHECKSUM_AT: usize = 24;

/// The coding of a chunk's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ChunkKind {
    /// The elements without compression, in tile order.
    Raw = 0,
    /// Numbers as bins and raw bits.
    Numbers = 1,
    /// Quantization codes of tiles.
    Quantized = 2,
    /// LZSS tokens of elements.
    Lzss = 3,
    /// Codes of blocks by contexts.
    Blocks = 4,
}

impl ChunkKind {
    fn from_code(code: u64) -> Option<Self> {
        [Self::Raw, Self::Numbers, Self::Quantized, Self::Lzss, Self::Blocks]
            .into_iter()
            .find(|&kind| kind as u64 == code)
    }
}

/// Returns the header of a record of `length` bytes (header and payload), with a checksum of 0.
pub fn record_header(kind: ChunkKind, chunk: u64, length: u32) -> [u8; RECORD_HEADER_LEN] {
    let mut header = [0; RECORD_HEADER_LEN];
    header[..LENGTH_AT].copy_from_slice(&RECORD_MARKER);
    header[LENGTH_AT..CHUNK_AT].copy_from_slice(&length.to_le_bytes());
    header[CHUNK_AT..KIND_AT].copy_from_slice(&chunk.to_le_bytes());
    header[KIND_AT] = kind as u8;
    header
}

/// Returns the kind of chunk in the header of a record, or `None` if the code is unknown. Checks nothing else.
pub fn record_kind(header: &[u8; RECORD_HEADER_LEN]) -> Option<ChunkKind> {
    let mut code = [0; CHECKSUM_AT - KIND_AT];
    code.copy_from_slice(&header[KIND_AT..CHECKSUM_AT]);
    ChunkKind::from_code(u64::from_le_bytes(code))
}

/// Returns the length in bytes that the header of the record of chunk number `chunk` states.
///
/// # Errors
/// `head` does not start with the header of that record.
pub fn record_length(head: &[u8], chunk: u64) -> Result<u32> {
    let place = format!("chunk {chunk}");
    let mut fields = Fields::new(head, &place);
    let (marker, length, number) = (fields.take(RECORD_MARKER.len())?, fields.u32()?, fields.u64()?);
    let is_possible = length as usize >= RECORD_HEADER_LEN && (length as usize).is_multiple_of(ALIGNMENT);
    if marker != RECORD_MARKER || number != chunk || !is_possible {
        return Err(Error::corrupt(place.as_str(), "its record does not start where it should"));
    }
    Ok(length)
}

/// A record under construction, at the end of a buffer.
#[derive(Debug)]
pub struct RecordBuilder {
    start: usize,
}

impl RecordBuilder {
    /// Starts a record at the end of `out`, whose length must be a multiple of [`ALIGNMENT`]; the payload is appended
    /// by the caller.
    pub fn begin(out: &mut Vec<u8>, kind: ChunkKind, chunk: u64) -> Self {
        let start = out.len();
        debug_assert_eq!(start % ALIGNMENT, 0);
        // The length comes in the end.
        out.extend_from_slice(&record_header(kind, chunk, 0));
        Self { start }
    }

    /// Returns the number of bytes that the record has so far.
    pub fn len(&self, out: &[u8]) -> usize {
        out.len() - self.start
    }

    /// Pads the record and fills in its length and checksum; those of its pieces, too, if it has codes that can
    /// be read in parts, and many.
    ///
    /// # Panics
    /// The record has 2^32 bytes or more, which no chunk comes near.
    pub fn finish(self, out: &mut Vec<u8>) {
        align(out, ALIGNMENT);
        let kind = ChunkKind::from_code(out[self.start + KIND_AT].into());
        let pieces = kind.and_then(|kind| pieces::reserve(kind, out, self.start));
        let record = &mut out[self.start..];
        let length = u32::try_from(record.len()).expect("a chunk holds at most 2^22 elements");
        record[LENGTH_AT..CHUNK_AT].copy_from_slice(&length.to_le_bytes());
        if let Some(pieces) = &pieces {
            pieces::write(record, pieces);
        }
        let mut hash = XxHash3_64::new();
        hash.write(&record[..CHECKSUM_AT]);
        hash.write(&record[RECORD_HEADER_LEN..]);
        record[CHECKSUM_AT..RECORD_HEADER_LEN].copy_from_slice(&hash.finish().to_le_bytes());
    }
}

/// Checks the record of chunk number `chunk`, which is all of `record`, and returns its kind and payload (padding
/// included).
///
/// # Errors
/// Truncated, damaged, or another chunk's record.
pub fn parse_record(record: &[u8], chunk: u64) -> Result<(ChunkKind, &[u8])> {
    let mut parsed = parse_unchecked(record, chunk)?;
    parsed.checksum.verify()?;
    parsed.kind.map(|kind| (kind, &record[RECORD_HEADER_LEN..]))
}

/// A record whose checksum has not been verified. It must be verified before the other fields are used, including the
/// errors that they cause.
#[derive(Debug)]
pub struct Unchecked<'a> {
    /// The kind, or why there is none.
    pub kind: Result<ChunkKind>,
    /// The payload, padding included.
    pub payload: &'a [u8],
    /// The checksum.
    pub checksum: RecordChecksum<'a>,
}

/// The checksum of a record while it is read.
#[derive(Debug)]
pub struct RecordChecksum<'a> {
    /// The hash of the header without the checksum, and of the payload so far.
    hash: Checksum,
    payload: &'a [u8],
    /// Bytes of the payload that are hashed.
    done: usize,
    stored: u64,
    chunk: u64,
}

impl RecordChecksum<'_> {
    /// Takes the payload up to byte `to`, so that what reads it next finds it in the caches.
    pub fn advance(&mut self, to: usize) {
        let to = to.clamp(self.done, self.payload.len());
        self.hash.write(&self.payload[self.done..to]);
        self.done = to;
    }

    /// Takes the next `count` bytes of the payload and writes them to the first of `place`.
    ///
    /// # Panics
    /// The payload or `place` has fewer.
    pub fn copy_next<'m>(&mut self, count: usize, place: UninitBytes<'m>) -> Written<'m> {
        let bytes = &self.payload[self.done..][..count];
        self.done += count;
        self.hash.copy(bytes, place)
    }

    /// Returns the address of the next byte of the payload to hash.
    pub fn next(&self) -> *const u8 {
        self.payload[self.done..].as_ptr()
    }

    /// Takes as much of the payload as `done` is of `all`.
    pub fn keep_up(&mut self, done: usize, all: usize) {
        // Both are below 2^32, as is a record.
        let to = (self.payload.len() as u64 * done.min(all) as u64 / all.max(1) as u64) as usize;
        self.advance(to);
    }

    /// Takes the rest.
    ///
    /// # Errors
    /// The record is damaged.
    pub fn verify(&mut self) -> Result<()> {
        self.advance(self.payload.len());
        if self.hash.finish() == self.stored {
            return Ok(());
        }
        Err(Error::corrupt(
            format!("chunk {}", self.chunk),
            "its checksum does not match; other chunks may still be readable",
        ))
    }
}

/// Parses a record like [`parse_record`], but does not verify its checksum.
///
/// # Errors
/// Truncated, or no record.
pub fn parse_unchecked(record: &[u8], chunk: u64) -> Result<Unchecked<'_>> {
    let place = format!("chunk {chunk}");
    let corrupt = |what: &str| Error::corrupt(place.as_str(), what);
    let mut fields = Fields::new(record, &place);
    let marker = fields.take(RECORD_MARKER.len())?;
    let length = fields.u32()?;
    let number = fields.u64()?;
    let kind = fields.u64()?;
    let stored = fields.u64()?;
    if marker != RECORD_MARKER || length as usize != record.len() {
        return Err(corrupt("there is no chunk record at the position in the chunk table"));
    }
    let kind = match ChunkKind::from_code(kind) {
        _ if number != chunk => Err(corrupt(&format!("it is the record of chunk {number}"))),
        Some(kind) => Ok(kind),
        None => Err(corrupt("unknown kind of chunk")),
    };
    let payload = &record[RECORD_HEADER_LEN..];
    let mut hash = Checksum::new(CHECKSUM_AT + payload.len());
    hash.write(&record[..CHECKSUM_AT]);
    let checksum = RecordChecksum { hash, payload, done: 0, stored, chunk };
    Ok(Unchecked { kind, payload, checksum })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_tells_what_it_was_made_of() {
        use ChunkKind::{Blocks, Lzss, Numbers, Quantized, Raw};
        for (code, kind) in [Raw, Numbers, Quantized, Lzss, Blocks].into_iter().enumerate() {
            let mut record = Vec::new();
            let builder = RecordBuilder::begin(&mut record, kind, 7 << 40);
            record.extend_from_slice(&[1; 20]);
            builder.finish(&mut record);
            assert_eq!(record[..CHECKSUM_AT], record_header(kind, 7 << 40, 64)[..CHECKSUM_AT]);
            assert_eq!(parse_record(&record, 7 << 40).unwrap().0, kind);

            let mut header = record_header(kind, 3, 48);
            assert_eq!((record_kind(&header), usize::from(header[KIND_AT])), (Some(kind), code));
            header[KIND_AT + 1] = 1;
            assert_eq!(record_kind(&header), None);
        }
        assert_eq!(ChunkKind::from_code(5), None);
    }
}
