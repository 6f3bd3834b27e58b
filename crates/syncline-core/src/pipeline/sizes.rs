//! Bytes of streams, and of the memory that work on a chunk takes.

use crate::array::{ElementType, Shape};
use crate::bound::Pipeline;
use crate::container::{ALIGNMENT, HEADER_LEN, Header, RECORD_HEADER_LEN, TRAILER_LEN};
use crate::geometry::{Geometry, TileSize};

/// Returns the largest length of a stream with `bytes` bytes of elements in `chunks` chunks: each chunk is raw, and has
/// a record header, padding, and an entry in the table.
pub fn max_stream_len(bytes: u64, chunks: u64) -> u64 {
    let each = (RECORD_HEADER_LEN + ALIGNMENT + 4) as u64;
    bytes.saturating_add(chunks.saturating_mul(each)).saturating_add((HEADER_LEN + TRAILER_LEN + ALIGNMENT) as u64)
}

/// Returns the largest length in bytes of a stream of an array of this type and shape. Raw chunks keep it within 1 % +
/// 1 KiB of the array's length.
pub fn compress_bound(element_type: ElementType, shape: Shape) -> u64 {
    let bytes = shape.len().saturating_mul(element_type.size() as u64);
    let chunks = TileSize::ALL.map(|size| Geometry::with_tiles(shape, size).chunks());
    max_stream_len(bytes, chunks.into_iter().max().unwrap_or(0))
}

/// Returns the bytes of memory that a thread needs to decode a chunk, without the output: the longest record, the
/// codes, and side lists.
pub fn decode_memory(header: &Header, geometry: &Geometry) -> u64 {
    let elements = geometry.elements().min(u64::from(geometry.tiles_per_chunk()) * geometry.unclipped_len());
    // LZSS chunks need decoded elements and literals, lengths, and distances. Other chunks need less.
    elements * (4 * header.element_type.size() as u64 + 4) + (1 << 20)
}

/// Returns the bytes of memory that a thread needs to encode a chunk, without the source.
pub fn encode_memory(header: &Header, geometry: &Geometry) -> u64 {
    let elements = geometry.elements().min(u64::from(geometry.tiles_per_chunk()) * geometry.unclipped_len());
    let beside = match header.pipeline {
        Pipeline::Lossless => 8,
        _ => 4,
    };
    elements * (6 * header.element_type.size() as u64 + beside) + (1 << 20)
}
