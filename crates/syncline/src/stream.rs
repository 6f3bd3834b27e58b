//! Streams that are read in place: opening, inspecting, decompressing all or a region.

use std::ops::Range;

use rayon::prelude::*;
use syncline_core::arch::scatter::{ChunkSink, Scatter};
use syncline_core::arch::zeroed;
pub use syncline_core::container::Header;
use syncline_core::container::{ChunkTable, HEADER_LEN};
use syncline_core::error::{Error, Result};
use syncline_core::geometry::{Geometry, Region};
use syncline_core::pipeline::{self, DecodeScratch, TileSink, decode_chunk, inspect_chunk};

use crate::array::Array;
use crate::io::{ReadAt, WriteAt};
use crate::options::{DecodeOptions, Meter};
use crate::pool::{Pool, Reused};
use crate::report::Report;
use crate::sink::FileSink;

/// A stream behind positional access: a file, or bytes in memory. Only what is needed is read.
pub struct StreamFile<S> {
    source: S,
    header: Header,
    geometry: Geometry,
    table: ChunkTable,
    stream_len: u64,
}

impl<S: ReadAt> StreamFile<S> {
    /// Reads and checks the header and the chunk table.
    ///
    /// # Errors
    /// Not a stream, a newer version, truncated or damaged, or a failing source.
    pub fn open(source: S) -> Result<Self> {
        let stream_len = source.size()?;
        let read = |offset: u64, length: usize| -> Result<Vec<u8>> {
            let mut bytes = vec![0; length];
            source.read_exact_at(&mut bytes, offset)?;
            Ok(bytes)
        };
        let header = Header::parse(&read(0, stream_len.min(HEADER_LEN as u64) as usize)?)?;
        let geometry = Geometry::with_chunk_tiles(header.shape, header.chunk_tiles)
            .map_err(|_| Error::corrupt("the header", "impossible number of tiles in a chunk"))?;
        let table = ChunkTable::read(stream_len, geometry.chunks(), read)?;
        // What the header promises must be earned: a coded chunk has a bit for each tile, a raw one all its bytes.
        for chunk in 0..table.chunks() {
            let tiles = geometry.chunk_range(chunk);
            if (table.record(chunk).1 as u64) < (tiles.end - tiles.start) / 8 {
                return Err(Error::corrupt(format!("chunk {chunk}"), "too short for its tiles"));
            }
        }
        Ok(Self { source, header, geometry, table, stream_len })
    }

    /// What the stream holds and how it was made.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Sizes and counts of the stream's parts; reads every chunk.
    ///
    /// # Errors
    /// A damaged chunk, or a failing source.
    pub fn inspect(&self) -> Result<Report> {
        let mut report = Report::new(&self.header, self.stream_len);
        let mut buffer = Vec::new();
        for chunk in 0..self.table.chunks() {
            report.add(&inspect_chunk(&self.header, &self.geometry, chunk, self.record(chunk, &mut buffer)?)?);
        }
        Ok(report)
    }

    /// The whole array.
    ///
    /// # Errors
    /// A damaged chunk, the memory limit, cancellation, or a failing source.
    pub fn decompress(&self, options: &DecodeOptions) -> Result<Array> {
        let mut bytes = self.allocate(self.geometry.elements(), options)?;
        self.fill(&mut bytes, self.geometry.whole(), options)?;
        Ok(Array::new(bytes, self.header.element_type, self.header.shape))
    }

    /// The whole array, into memory that the caller has: `out` takes the elements as little-endian bytes.
    ///
    /// # Errors
    /// As [`StreamFile::decompress`], or `out` has not the array's length.
    pub fn decompress_into(&self, out: &mut [u8], options: &DecodeOptions) -> Result<()> {
        let needed = self.geometry.elements() * self.header.element_type.size() as u64;
        if out.len() as u64 != needed {
            return Err(Error::invalid(format!("the array has {needed} bytes, the output {}", out.len())));
        }
        self.fill(out, self.geometry.whole(), options)
    }

    /// The elements of a region: one range for each axis, slowest first. Only the chunks that it meets are read, and with the symbol
    /// index only its tiles are decoded.
    ///
    /// # Errors
    /// The region leaves the array, or as [`StreamFile::decompress`].
    pub fn decompress_region(&self, ranges: &[Range<u64>], options: &DecodeOptions) -> Result<Array> {
        let region = self.geometry.region(ranges)?;
        let extents: Vec<u64> = ranges.iter().map(|r| r.end - r.start).collect();
        let shape = syncline_core::array::Shape::new(&extents)?;
        let mut bytes = self.allocate(shape.len(), options)?;
        self.fill(&mut bytes, region, options)?;
        Ok(Array::new(bytes, self.header.element_type, shape))
    }

    /// The whole array, written to a sink from byte `offset` on, a row of tiles at a time: memory stays bounded whatever the array's size.
    ///
    /// # Errors
    /// As [`StreamFile::decompress`], or a failing sink.
    pub fn decompress_to<W: WriteAt + ?Sized>(&self, sink: &W, offset: u64, options: &DecodeOptions) -> Result<()> {
        let pool = self.pool(0, options)?;
        let meter = Meter::new(&options.progress, self.geometry.elements());
        let buffers = Reused::default();
        let element = self.header.element_type.size();
        let decode = |chunk: usize| {
            let mut tiles = FileSink::new(sink, offset, element, &self.geometry, chunk as u64);
            self.decode(chunk as u64, options, &buffers, &mut tiles)?;
            tiles.finish()?;
            meter.advance(self.geometry.chunk_elements(chunk as u64))
        };
        pool.install(|| (0..self.table.chunks() as usize).into_par_iter().with_max_len(1).try_for_each(decode))
    }

    /// Bytes for so many elements, if the limit allows them.
    fn allocate(&self, elements: u64, options: &DecodeOptions) -> Result<Vec<u8>> {
        let needed = elements * self.header.element_type.size() as u64;
        let limit = options.memory_limit.unwrap_or(u64::MAX);
        let error = || Error::MemoryLimit { what: "the decompressed array".into(), needed, limit };
        if needed > limit {
            return Err(error());
        }
        let length = usize::try_from(needed).map_err(|_| error())?;
        zeroed(length).ok_or_else(error)
    }

    /// As many threads as asked for and as the memory limit has room for, beside an output of `output` bytes.
    fn pool(&self, output: u64, options: &DecodeOptions) -> Result<Pool> {
        let pool = Pool::new(options.threads)?;
        let Some(limit) = options.memory_limit else { return Ok(pool) };
        let each = pipeline::decode_memory(&self.header, &self.geometry);
        pool.limited(limit.saturating_sub(output), each, "decompression", limit)
    }

    fn fill(&self, out: &mut [u8], region: Region, options: &DecodeOptions) -> Result<()> {
        let pool = self.pool(out.len() as u64, options)?;
        let sinks: Vec<_> = Scatter::new(out, &self.geometry, region, self.header.element_type.size()).collect();
        let total = sinks.iter().map(|tiles| self.geometry.chunk_elements(tiles.chunk())).sum();
        let meter = Meter::new(&options.progress, total);
        let buffers = Reused::default();
        let decode = |mut tiles: ChunkSink| {
            let chunk = tiles.chunk();
            self.decode(chunk, options, &buffers, &mut tiles)?;
            meter.advance(self.geometry.chunk_elements(chunk))
        };
        pool.install(|| sinks.into_par_iter().with_max_len(1).try_for_each(decode))
    }

    /// Decodes the tiles of a chunk that the sink wants.
    fn decode<K: TileSink>(
        &self,
        chunk: u64,
        options: &DecodeOptions,
        buffers: &Reused<Buffers>,
        tiles: &mut K,
    ) -> Result<()> {
        buffers.with(|Buffers { record, scratch }| {
            let record = self.record(chunk, record)?;
            decode_chunk(&self.header, &self.geometry, chunk, record, options.decoder, scratch, tiles)
        })
    }

    /// The record of a chunk, read into `buffer` unless it is in memory.
    fn record<'s>(&'s self, chunk: u64, buffer: &'s mut Vec<u8>) -> Result<&'s [u8]> {
        let (offset, length) = self.table.record(chunk);
        if let Some(stream) = self.source.in_memory() {
            // The table was checked against the length of the stream.
            return Ok(&stream[offset as usize..offset as usize + length]);
        }
        buffer.resize(length, 0);
        self.source.read_exact_at(buffer, offset)?;
        Ok(buffer)
    }
}

/// What is kept from chunk to chunk.
#[derive(Default)]
struct Buffers {
    record: Vec<u8>,
    scratch: DecodeScratch,
}
