//! The chunk table and the trailer at the end of a stream.

use std::hash::Hasher;
use std::ops::Range;

use twox_hash::XxHash3_64;

use super::{ALIGNMENT, HEADER_LEN, Header, RECORD_HEADER_LEN};
use crate::bits::fields::{Fields, align};
use crate::error::{Error, Location, Result};
use crate::geometry::Geometry;

/// Length of the trailer in bytes.
pub const TRAILER_LEN: usize = 32;

const END_MAGIC: [u8; 8] = *b"SYNEND\r\n";
const PLACE: &str = "the chunk table";

/// Returns the hash of the table, the first 16 bytes of the trailer, and the hash of the header, which ties the header
/// to the records.
fn checksum(table: &[u8], trailer: &[u8], header_hash: u64) -> u64 {
    let mut hash = XxHash3_64::new();
    hash.write(table);
    hash.write(&trailer[..16]);
    hash.write(&header_hash.to_le_bytes());
    hash.finish()
}

/// Returns the chunk table and trailer for records of these lengths, which follow the header.
pub fn table_and_trailer(header: &Header, record_lengths: &[u32]) -> Vec<u8> {
    let table_at = HEADER_LEN as u64 + record_lengths.iter().map(|&l| u64::from(l)).sum::<u64>();
    let mut out: Vec<u8> = record_lengths.iter().flat_map(|l| l.to_le_bytes()).collect();
    let table_len = out.len();
    align(&mut out, ALIGNMENT);
    let trailer_at = out.len();
    out.extend_from_slice(&table_at.to_le_bytes());
    out.extend_from_slice(&(record_lengths.len() as u64).to_le_bytes());
    let sum = checksum(&out[..table_len], &out[trailer_at..], header.hash());
    out.extend_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(&END_MAGIC);
    out
}

/// Reads and checks the header, the geometry, and the chunk table of a stream of `stream_len` bytes. `read` returns
/// `len` bytes from an offset, and is only called for bytes inside the stream.
///
/// # Errors
/// [`Error::NotSyncline`], [`Error::UnsupportedVersion`], [`Error::Truncated`], or [`Error::Corrupt`]; errors of
/// `read`.
pub fn read_outline(
    stream_len: u64,
    mut read: impl FnMut(u64, usize) -> Result<Vec<u8>>,
) -> Result<(Header, Geometry, ChunkTable)> {
    let in_header = |error: Error| error.located(Location::at(0));
    let header = Header::parse(&read(0, stream_len.min(HEADER_LEN as u64) as usize)?).map_err(in_header)?;
    let geometry = header.geometry().map_err(in_header)?;
    let table = ChunkTable::read(stream_len, &header, geometry.chunks(), read)
        .map_err(|error| error.located(Location::at(stream_len.saturating_sub(TRAILER_LEN as u64))))?;
    // The stream must be long enough for the elements that its header claims: coded chunks have at least one bit per
    // tile, and raw chunks have all bytes.
    for chunk in 0..table.chunks() {
        let tiles = geometry.chunk_range(chunk);
        let (offset, length) = table.record(chunk);
        if (length as u64) < (tiles.end - tiles.start) / 8 {
            let error = Error::corrupt(format!("chunk {chunk}"), "too short for its tiles");
            return Err(error.located(Location::of_chunk(chunk, offset)));
        }
    }
    Ok((header, geometry, table))
}

/// Returns the range of bytes of a stream that holds the chunk table and the trailer, given the header and bytes of the
/// stream's end. The range ends with the stream.
///
/// # Errors
/// [`Error::Truncated`] or [`Error::Corrupt`] if `tail` does not end with a trailer that fits the header.
pub fn outline_of_end(header: &Header, tail: &[u8]) -> Result<Range<u64>> {
    let Some(at) = tail.len().checked_sub(TRAILER_LEN) else {
        return Err(Error::truncated(PLACE, TRAILER_LEN as u64, tail.len() as u64));
    };
    let (table_at, count, _) = parse_trailer(&tail[at..])?;
    let geometry = header.geometry()?;
    if count != geometry.chunks() {
        return Err(Error::corrupt(PLACE, format!("it has {count} chunks, the array {}", geometry.chunks())));
    }
    let trailer_at = count
        .checked_mul(4)
        .and_then(|len| table_at.checked_add(len))
        .and_then(|end| end.checked_next_multiple_of(ALIGNMENT as u64));
    let end = trailer_at.and_then(|at| at.checked_add(TRAILER_LEN as u64));
    let end = end.ok_or_else(|| Error::corrupt(PLACE, "the number of chunks is impossible"))?;
    Ok(table_at..end)
}

/// Returns the offset of the chunk table, the number of chunks and the checksum that a trailer states.
fn parse_trailer(trailer: &[u8]) -> Result<(u64, u64, u64)> {
    let mut fields = Fields::new(trailer, PLACE);
    let stated = (fields.u64()?, fields.u64()?, fields.u64()?);
    if fields.rest() != END_MAGIC {
        let reason = "the stream does not end with a trailer: it was cut off, or bytes were appended";
        return Err(Error::corrupt(PLACE, reason));
    }
    Ok(stated)
}

/// The positions of the chunk records.
#[derive(Clone, Debug)]
pub struct ChunkTable {
    /// Offset of each record from the start of the stream, and of the table after the last record.
    offsets: Vec<u64>,
}

impl ChunkTable {
    /// Reads the table of a stream of `stream_len` bytes with this header and `chunks` chunks. `read` returns `len`
    /// bytes from an offset, and is only called for bytes inside the stream.
    ///
    /// # Errors
    /// [`Error::Truncated`] or [`Error::Corrupt`]; errors of `read`.
    pub fn read(
        stream_len: u64,
        header: &Header,
        chunks: u64,
        mut read: impl FnMut(u64, usize) -> Result<Vec<u8>>,
    ) -> Result<Self> {
        let smallest = (HEADER_LEN + TRAILER_LEN) as u64;
        if stream_len < smallest {
            return Err(Error::truncated(PLACE, smallest, stream_len));
        }
        let trailer_at = stream_len - TRAILER_LEN as u64;
        let trailer = read(trailer_at, TRAILER_LEN)?;
        let (table_at, count, stored) = parse_trailer(&trailer)?;
        let table_len = count.saturating_mul(4);
        let expected_at =
            table_at.checked_add(table_len).and_then(|end| end.checked_next_multiple_of(ALIGNMENT as u64));
        if expected_at != Some(trailer_at) || count != chunks {
            return Err(Error::corrupt(
                PLACE,
                format!("it does not match the length of the stream or its {chunks} chunks"),
            ));
        }
        // Its length was just checked against the length of the stream.
        let padded = read(table_at, (trailer_at - table_at) as usize)?;
        let (table, padding) = padded.split_at(table_len as usize);
        if checksum(table, &trailer, header.hash()) != stored || padding.iter().any(|&b| b != 0) {
            return Err(Error::corrupt(PLACE, "its checksum does not match, or the header is that of another stream"));
        }
        let mut offset = HEADER_LEN as u64;
        let mut offsets = vec![offset];
        for length in table.chunks_exact(4) {
            let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]);
            if (length as usize) < RECORD_HEADER_LEN || !(length as usize).is_multiple_of(ALIGNMENT) {
                return Err(Error::corrupt(PLACE, "the length of a record is impossible"));
            }
            offset += u64::from(length);
            offsets.push(offset);
        }
        if offset != table_at {
            return Err(Error::corrupt(PLACE, "the records do not fill the stream"));
        }
        Ok(Self { offsets })
    }

    /// Returns the number of chunks.
    pub fn chunks(&self) -> u64 {
        self.offsets.len() as u64 - 1
    }

    /// Returns the offset and the length in bytes of the record of a chunk below [`ChunkTable::chunks`].
    pub fn record(&self, chunk: u64) -> (u64, usize) {
        let start = self.offsets[chunk as usize];
        (start, (self.offsets[chunk as usize + 1] - start) as usize)
    }
}
