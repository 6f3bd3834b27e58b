//! Streams that are written, parsed and decompressed on the CPU, as the reference for the device.

// Each test binary uses some of these items.
#![allow(dead_code)]

use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, Fill, Pipeline, Scan, resolve};
use syncline_core::container::{ChunkTable, HEADER_LEN, Header, table_and_trailer};
use syncline_core::geometry::{Geometry, Tile, TileSize, Window};
use syncline_core::huffman::IndexKind;
use syncline_core::mem::scatter::Scatter;
use syncline_core::pipeline::{CoderOptions, DecodeScratch, ElementSource, EncodeScratch, decode_chunk, encode_chunk};

/// An array in memory.
pub struct Whole<'a>(pub &'a [u8]);

impl ElementSource for Whole<'_> {
    fn window<'s>(
        &'s self,
        geometry: &Geometry,
        _: &[Tile],
        _: &'s mut Vec<u8>,
    ) -> syncline_core::error::Result<Window<'s>> {
        Ok(Window::raster(self.0, 0, geometry))
    }
}

/// How a stream is written, except for its bound.
#[derive(Debug, Clone, Copy)]
pub struct Making {
    pub fill: Fill,
    pub index: IndexKind,
    /// Tiles per chunk, in place of the number that the shape suggests.
    pub chunk_tiles: Option<u32>,
    pub tile_size: TileSize,
}

impl Default for Making {
    fn default() -> Self {
        Self { fill: Fill::Auto, index: IndexKind::Symbol, chunk_tiles: None, tile_size: TileSize::Small }
    }
}

/// Compresses an array with as many threads as the machine has.
pub fn compress(bytes: &[u8], element: ElementType, extents: &[u64], bound: Bound, making: &Making) -> Vec<u8> {
    compress_by(bytes, element, extents, bound, making, &CoderOptions::default())
}

/// Compresses an array with other parameters of the coder.
pub fn compress_by(
    bytes: &[u8],
    element: ElementType,
    extents: &[u64],
    bound: Bound,
    making: &Making,
    coder: &CoderOptions,
) -> Vec<u8> {
    let shape = Shape::new(extents).unwrap();
    let pass = |empty: Scan| {
        let part = bytes.len().div_ceil(64).next_multiple_of(4096).max(4096);
        let parts = parallel(bytes.len().div_ceil(part), |i| {
            let mut scan = empty.clone();
            let part_bytes = &bytes[i * part..bytes.len().min((i + 1) * part)];
            scan.add((i * part / element.size()) as u64, part_bytes);
            scan
        });
        parts.into_iter().fold(empty.clone(), Scan::merge)
    };
    let first = pass(Scan::new(element, shape.len(), bound, making.fill));
    let Ok(scan) = first.settle(|empty| Ok::<_, std::convert::Infallible>(pass(empty)));
    let resolved = resolve(&scan, !coder.interpolates).unwrap();
    let tile_size = if resolved.pipeline == Pipeline::Lossless { TileSize::Small } else { making.tile_size };
    let geometry = match making.chunk_tiles {
        Some(tiles) => Geometry::of_stream(shape, tile_size, tiles).unwrap(),
        None => Geometry::with_tiles(shape, tile_size),
    };
    let header = Header {
        element_type: element,
        shape,
        pipeline: resolved.pipeline,
        index: making.index,
        tile_size,
        bound,
        abs_bound: resolved.abs_bound,
        step: resolved.step,
        range: resolved.range,
        low: resolved.low,
        patterns: resolved.patterns.iter().map(|p| p.bits).collect(),
        chunk_tiles: geometry.tiles_per_chunk(),
    };
    let records = parallel(geometry.chunks() as usize, |chunk| {
        let mut record = Vec::new();
        let mut scratch = EncodeScratch::default();
        encode_chunk(&header, &geometry, chunk as u64, &Whole(bytes), coder, &mut scratch, &mut record).unwrap();
        record
    });
    of_records(&header, &records)
}

/// Returns the stream of these records.
pub fn of_records(header: &Header, records: &[Vec<u8>]) -> Vec<u8> {
    let lengths: Vec<u32> = records.iter().map(|record| record.len() as u32).collect();
    [&header.to_bytes()[..], &records.concat(), &table_and_trailer(header, &lengths)].concat()
}

/// Returns `work(0)` to `work(count - 1)` in order, computed by as many threads as the machine has.
pub fn parallel<R: Send>(count: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count.max(1));
    let one = || {
        let mut done = Vec::new();
        loop {
            let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if i >= count {
                return done;
            }
            done.push((i, work(i)));
        }
    };
    let mut all: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    all.sort_by_key(|(i, _)| *i);
    all.into_iter().map(|(_, result)| result).collect()
}

/// Returns the header and the tiling of a stream.
pub fn opened(stream: &[u8]) -> (Header, Geometry) {
    let header = Header::parse(stream).unwrap();
    let geometry = Geometry::of_stream(header.shape, header.tile_size, header.chunk_tiles).unwrap();
    (header, geometry)
}

fn record_places(stream: &[u8], header: &Header, geometry: &Geometry) -> ChunkTable {
    let read = |at: u64, len: usize| Ok(stream[at as usize..at as usize + len].to_vec());
    ChunkTable::read(stream.len() as u64, header, geometry.chunks(), read).unwrap()
}

/// Decompresses a stream on the CPU.
pub fn decompress(stream: &[u8]) -> Vec<u8> {
    try_decompress(stream).unwrap()
}

/// Returns the stream with another header, and the chunk table of that.
pub fn with_header(stream: &[u8], header: &Header) -> Vec<u8> {
    let (own, geometry) = opened(stream);
    let table = record_places(stream, &own, &geometry);
    let lengths: Vec<u32> = (0..table.chunks()).map(|chunk| table.record(chunk).1 as u32).collect();
    let end = HEADER_LEN + lengths.iter().map(|&length| length as usize).sum::<usize>();
    [&header.to_bytes()[..], &stream[HEADER_LEN..end], &table_and_trailer(header, &lengths)].concat()
}

/// Decompresses a stream with a valid header and chunk table on the CPU.
pub fn try_decompress(stream: &[u8]) -> syncline_core::error::Result<Vec<u8>> {
    let (header, geometry) = opened(stream);
    let table = record_places(stream, &header, &geometry);
    let mut bytes = vec![0; geometry.elements() as usize * header.element_type.size()];
    let mut scratch = DecodeScratch::default();
    for mut sink in Scatter::new(&mut bytes, &geometry, geometry.whole(), header.element_type.size()) {
        let chunk = sink.chunk();
        let (at, len) = table.record(chunk);
        let record = &stream[at as usize..at as usize + len];
        decode_chunk(&header, &geometry, chunk, record, &mut scratch, &mut sink)?;
    }
    Ok(bytes)
}

/// Returns whether the GPU can reconstruct a stream.
pub fn is_lossy(stream: &[u8]) -> bool {
    Header::parse(stream).unwrap().pipeline != Pipeline::Lossless && stream.len() > HEADER_LEN
}
