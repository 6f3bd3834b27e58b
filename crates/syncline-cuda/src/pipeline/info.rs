//! What has to be known on the host before a stream is decompressed: its header and where its records are.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView};
use syncline_core::container::{ChunkTable, Header, read_outline};
use syncline_core::error::Error;
use syncline_core::geometry::Geometry;

use crate::error::{DriverContext, Result};

/// The header and the chunk table of a stream, checked.
#[derive(Debug, Clone)]
pub struct StreamInfo {
    header: Header,
    geometry: Geometry,
    table: ChunkTable,
    stream_len: u64,
}

impl StreamInfo {
    /// Of a stream in host memory.
    ///
    /// # Errors
    /// [`CudaError::Core`](crate::CudaError::Core): not a stream, a newer version, truncated or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::read(bytes.len() as u64, |offset, length| {
            let start = offset as usize;
            Ok(bytes[start..start + length].to_vec())
        })
    }

    /// Of a stream in device memory: copies header and table, and waits for them on `stream`.
    ///
    /// # Errors
    /// As [`Self::from_bytes`]; [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn from_device(stream: &Arc<CudaStream>, bytes: &CudaView<'_, u8>) -> Result<Self> {
        let mut failed = None;
        let info = Self::read(bytes.len() as u64, |offset, length| {
            let part = bytes.slice(offset as usize..offset as usize + length);
            let copied = stream.clone_dtoh(&part).doing("reading a stream's header");
            copied.and_then(|copied| stream.synchronize().doing("reading a stream's header").map(|()| copied)).map_err(
                |error| {
                    let text = std::io::Error::other(error.to_string());
                    failed = Some(error);
                    Error::Io(text)
                },
            )
        });
        failed.map_or(info, Err)
    }

    /// Of a stream of `stream_len` bytes anywhere, by means of `read`, which returns `len` bytes from an offset and is only asked for bytes inside the stream.
    ///
    /// # Errors
    /// As [`Self::from_bytes`], or whatever `read` returns.
    pub fn read(
        stream_len: u64,
        read: impl FnMut(u64, usize) -> syncline_core::error::Result<Vec<u8>>,
    ) -> Result<Self> {
        let (header, geometry, table) = read_outline(stream_len, read)?;
        Ok(Self { header, geometry, table, stream_len })
    }

    /// What the stream holds and how it was made.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Its tiles and chunks.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Bytes of the stream.
    pub fn stream_len(&self) -> u64 {
        self.stream_len
    }

    /// Elements of the array.
    pub fn elements(&self) -> u64 {
        self.geometry.elements()
    }

    /// Bytes of the array.
    pub fn decompressed_len(&self) -> u64 {
        self.elements() * self.header.element_type.size() as u64
    }

    /// Offset in the stream and length in bytes of a chunk's record.
    ///
    /// # Panics
    /// There is no such chunk.
    pub fn record(&self, chunk: u64) -> (u64, usize) {
        self.table.record(chunk)
    }

    /// The chunks that tiles with these numbers are in.
    pub fn chunks_of(&self, tiles: Range<u64>) -> Range<u64> {
        let end = tiles.end.min(self.geometry.tiles());
        if tiles.start >= end {
            return 0..0;
        }
        let in_chunk = u64::from(self.geometry.tiles_per_chunk());
        tiles.start / in_chunk..end.div_ceil(in_chunk)
    }

    /// Bytes of the stream that the records of these chunks take: where the first starts, and the end of the last.
    pub fn bytes_of(&self, chunks: Range<u64>) -> Range<u64> {
        if chunks.is_empty() {
            return 0..0;
        }
        let (start, _) = self.record(chunks.start);
        let (last, length) = self.record(chunks.end - 1);
        start..last + length as u64
    }
}
