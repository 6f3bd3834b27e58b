//! Recomputes the checksums of a damaged stream, so that the damage reaches the decoders after them.

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// Bytes of the stream's header; the last 16 hold the checksum of those before.
const HEADER: usize = 144;
/// Bytes of a chunk record's header; the last 8 are the checksum of all others.
const RECORD_HEADER: usize = 32;
/// Bytes of the trailer: offset of the chunk table, number of chunks, checksum, magic.
const TRAILER: usize = 32;

/// Recomputes the checksums of the header, of the chunk table, and of the records that the table leads to, where the
/// damaged stream still has these. The layout is in `docs/FORMAT.md`.
pub fn repair_checksums(stream: &mut [u8]) {
    if stream.len() < HEADER + TRAILER {
        return;
    }
    let header = xxh3_64(&stream[..HEADER - 16]);
    put(stream, HEADER - 16, header);
    let trailer = stream.len() - TRAILER;
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| stream[at + i]));
    let (table, chunks) = (number(trailer) as usize, number(trailer + 8) as usize);
    let Some(lengths) = table.checked_add(chunks.saturating_mul(4)).and_then(|end| stream.get(table..end)) else {
        return;
    };
    let mut hash = Xxh3Default::new();
    hash.update(lengths);
    hash.update(&stream[trailer..trailer + 16]);
    // Ties the records to the header.
    hash.update(&header.to_le_bytes());
    let lengths: Vec<_> =
        lengths.chunks_exact(4).map(|l| u32::from_le_bytes([l[0], l[1], l[2], l[3]]) as usize).collect();
    put(stream, trailer + 16, hash.digest());
    let mut start = HEADER;
    for length in lengths {
        let Some(record) = start.checked_add(length).and_then(|end| stream.get_mut(start..end)) else { return };
        if length < RECORD_HEADER {
            return;
        }
        let mut hash = Xxh3Default::new();
        hash.update(&record[..RECORD_HEADER - 8]);
        hash.update(&record[RECORD_HEADER..]);
        put(record, RECORD_HEADER - 8, hash.digest());
        start += length;
    }
}

/// Writes a checksum at an offset in bytes.
fn put(bytes: &mut [u8], at: usize, checksum: u64) {
    bytes[at..at + 8].copy_from_slice(&checksum.to_le_bytes());
}
