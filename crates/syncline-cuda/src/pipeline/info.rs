//! A stream's header and chunk table, which the host needs before decompression.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView};
use syncline_core::bound::Pipeline;
use syncline_core::container::{ChunkTable, Header, read_outline};
use syncline_core::error::{Error, Location};
use syncline_core::geometry::Geometry;
use syncline_core::huffman::IndexKind;

use crate::device::fetch;
use crate::error::{CudaError, Result};

/// The validated header and chunk table of a stream.
#[derive(Debug, Clone)]
pub struct StreamInfo {
    header: Header,
    geometry: Geometry,
    table: ChunkTable,
    stream_len: u64,
}

impl StreamInfo {
    /// Reads the header and the chunk table of a stream in host memory.
    ///
    /// # Errors
    /// [`CudaError::Core`](crate::CudaError::Core) if the bytes are not a stream, or the stream has a newer version, is
    /// truncated or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Self::read(bytes.len() as u64, |offset, length| {
            let start = offset as usize;
            Ok(bytes[start..start + length].to_vec())
        })
    }

    /// Copies the header and the chunk table of a stream in device memory to the host. Waits for `stream`.
    ///
    /// # Errors
    /// The errors of [`Self::from_bytes`]; [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn from_device(stream: &Arc<CudaStream>, bytes: &CudaView<'_, u8>) -> Result<Self> {
        let mut failed = None;
        let info = Self::read(bytes.len() as u64, |offset, length| {
            let part = bytes.slice(offset as usize..offset as usize + length);
            fetch(stream, &part, "reading a stream's header").map_err(|error| {
                let text = std::io::Error::other(error.to_string());
                failed = Some(error);
                Error::Io(text)
            })
        });
        failed.map_or(info, Err)
    }

    /// Reads the header and the chunk table of a stream of `stream_len` bytes in any storage. `read` returns `len`
    /// bytes from an offset and is only called for bytes inside the stream.
    ///
    /// # Errors
    /// The errors of [`Self::from_bytes`] and of `read`.
    pub fn read(
        stream_len: u64,
        read: impl FnMut(u64, usize) -> syncline_core::error::Result<Vec<u8>>,
    ) -> Result<Self> {
        let (header, geometry, table) = read_outline(stream_len, read)?;
        Ok(Self { header, geometry, table, stream_len })
    }

    /// Returns the stream's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Checks that [`Decompressor`](crate::pipeline::Decompressor) supports the stream.
    ///
    /// # Errors
    /// [`CudaError::Unsupported`] for lossless streams, which
    /// [`LosslessDecompressor`](crate::lossless::LosslessDecompressor) decompresses.
    pub fn check_decompressible(&self) -> Result<()> {
        match self.header.pipeline {
            Pipeline::Lossless => {
                Err(CudaError::Unsupported("lossless streams have a decompressor of their own".into()))
            }
            Pipeline::Quantized | Pipeline::LogQuantized => Ok(()),
        }
    }

    /// Checks that a lossless stream has the index with which GPUs decode.
    ///
    /// # Errors
    /// [`CudaError::Unsupported`] for streams without an index.
    pub(crate) fn check_index(&self) -> Result<()> {
        match self.header.index {
            IndexKind::Symbol => Ok(()),
            _ => Err(CudaError::Unsupported(
                "streams without an index are not decompressed on the GPU: use the CPU".into(),
            )),
        }
    }

    /// Returns whether tiles are interpolated by the same plans as those of another stream.
    pub(crate) fn has_plans_of(&self, other: &Self) -> bool {
        let of_header = |header: &Header| (header.pipeline, header.element_type);
        self.geometry == other.geometry && of_header(&self.header) == of_header(&other.header)
    }

    /// Returns the tiles and chunks of the array.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the size of the stream in bytes.
    pub fn stream_len(&self) -> u64 {
        self.stream_len
    }

    /// Returns the number of elements of the array.
    pub fn elements(&self) -> u64 {
        self.geometry.elements()
    }

    /// Returns the size of the array in bytes.
    pub fn decompressed_len(&self) -> u64 {
        self.elements() * self.header.element_type.size() as u64
    }

    /// Returns the error for a damaged chunk, with the chunk's location in the stream.
    pub(crate) fn corrupt(&self, chunk: u64, what: &str) -> CudaError {
        let location = Location::of_chunk(chunk, self.record(chunk).0);
        Error::corrupt(format!("chunk {chunk}"), what).located(location).into()
    }

    /// Returns the offset in the stream and the length of a chunk's record, in bytes.
    ///
    /// # Panics
    /// Panics if there is no such chunk.
    pub fn record(&self, chunk: u64) -> (u64, usize) {
        self.table.record(chunk)
    }

    /// Returns the length of the longest record in bytes, or 0 if there is none.
    pub(crate) fn longest_record(&self) -> u64 {
        (0..self.geometry.chunks()).map(|chunk| self.record(chunk).1 as u64).max().unwrap_or(0)
    }

    /// Returns the chunks that contain the tiles with these numbers.
    pub fn chunks_of(&self, tiles: Range<u64>) -> Range<u64> {
        let end = tiles.end.min(self.geometry.tiles());
        if tiles.start >= end {
            return 0..0;
        }
        let in_chunk = u64::from(self.geometry.tiles_per_chunk());
        tiles.start / in_chunk..end.div_ceil(in_chunk)
    }

    /// Returns the byte range of the stream that contains the records of these chunks.
    pub fn bytes_of(&self, chunks: Range<u64>) -> Range<u64> {
        if chunks.is_empty() {
            return 0..0;
        }
        let (start, _) = self.record(chunks.start);
        let (last, length) = self.record(chunks.end - 1);
        start..last + length as u64
    }
}

#[cfg(test)]
mod tests {
    use syncline_core::array::{ElementType, Shape};
    use syncline_core::bound::{Bound, Resolved};
    use syncline_core::container::table_and_trailer;
    use syncline_core::huffman::IndexKind;

    use super::*;

    #[test]
    fn streams_that_only_the_cpu_decompresses_are_named() {
        let info = |element, pipeline| {
            let step = if pipeline == Pipeline::Lossless { 0.0 } else { 0.5 };
            // Integers of 64 bits have a range if they have a bound.
            let range = if pipeline == Pipeline::Lossless { None } else { Some((0.0, 1.0)) };
            let bound = Bound::Abs(1.0);
            let resolved = Resolved { bound, pipeline, abs_bound: 1.0, step, range, ..Resolved::lossless() };
            let header = Header::new(element, Shape::new(&[0]).unwrap(), IndexKind::Symbol, &resolved);
            StreamInfo::from_bytes(&[&header.to_bytes()[..], &table_and_trailer(&header, &[])].concat()).unwrap()
        };
        for pipeline in [Pipeline::Quantized, Pipeline::LogQuantized] {
            for element in
                ElementType::ALL.into_iter().filter(|element| pipeline == Pipeline::Quantized || element.is_float())
            {
                info(element, pipeline).check_decompressible().unwrap();
            }
        }
        for element in [ElementType::F32, ElementType::I16] {
            let error = info(element, Pipeline::Lossless).check_decompressible().unwrap_err();
            assert!(matches!(&error, CudaError::Unsupported(text) if text.contains("lossless")), "{error}");
        }
    }
}
