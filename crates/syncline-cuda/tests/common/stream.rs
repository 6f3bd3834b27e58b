//! Streams that are written, parsed and decompressed on the CPU, as the reference for the device.

// Each test binary uses some of these items.
#![allow(dead_code)]

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, Fill, Pipeline, Scan, resolve};
use syncline_core::container::{
    ChunkKind, ChunkTable, HEADER_LEN, Header, Sections, SparseList, TileSection, parse_record, read_bases,
    table_and_trailer,
};
use syncline_core::geometry::{Geometry, Tile, TileSize, Window};
use syncline_core::huffman::{Decoder, EncodeOptions, IndexKind, Stream, encode};
use syncline_core::mem::scatter::Scatter;
use syncline_core::pipeline::{CoderOptions, DecodeScratch, ElementSource, EncodeScratch, decode_chunk, encode_chunk};
use syncline_core::quantize::mask::{MaskKind, TileMask};
use syncline_cuda::container::ParsedChunk;
use syncline_cuda::container::parsed::{CHUNK_QUANTIZED, CHUNK_RAW, Parsed};
use syncline_cuda::cudarc;
use syncline_cuda::geometry::ChunkBatch;
use syncline_cuda::huffman::decode::{Batch, BatchStream};
use xxhash_rust::xxh3::Xxh3Default;

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
    pub group_log2: u8,
    /// Tiles per chunk, in place of the number that the shape suggests.
    pub chunk_tiles: Option<u32>,
    pub tile_size: TileSize,
}

impl Default for Making {
    fn default() -> Self {
        Self {
            fill: Fill::Auto,
            index: IndexKind::Symbol,
            group_log2: 7,
            chunk_tiles: None,
            tile_size: TileSize::Small,
        }
    }
}

/// Compresses an array with as many threads as the machine has.
pub fn compress(bytes: &[u8], element: ElementType, extents: &[u64], bound: Bound, making: &Making) -> Vec<u8> {
    compress_by(bytes, element, extents, bound, making, &CoderOptions::default())
}

/// Compresses an array, with codes as LZSS tokens or with token codebooks if `lossless` requests them.
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
    let resolved = resolve(&scan, coder.rewritable).unwrap();
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
        group_log2: making.group_log2,
        lzss_codes: coder.coder.lzss_codes() && resolved.pipeline != Pipeline::Lossless,
        token_codes: coder.token_codes(bound) && resolved.pipeline != Pipeline::Lossless,
        tile_size,
        bound,
        abs_bound: resolved.abs_bound,
        step: resolved.step,
        range: resolved.range,
        patterns: resolved.patterns.iter().map(|p| p.bits).collect(),
        chunk_tiles: geometry.tiles_per_chunk(),
    };
    let records = parallel(geometry.chunks() as usize, |chunk| {
        let mut record = Vec::new();
        let mut scratch = EncodeScratch::default();
        encode_chunk(&header, &geometry, chunk as u64, &Whole(bytes), coder, &mut scratch, &mut record).unwrap();
        record
    });
    let lengths: Vec<u32> = records.iter().map(|r| r.len() as u32).collect();
    [vec![header.to_bytes().to_vec()], records, vec![table_and_trailer(&header, &lengths)]].concat().concat()
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

/// Writes the correct hash into a record again.
pub fn repair_checksum(record: &mut [u8]) {
    let mut hash = Xxh3Default::new();
    hash.update(&record[..24]);
    hash.update(&record[32..]);
    record[24..32].copy_from_slice(&hash.digest().to_le_bytes());
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

/// The input of reconstruction, computed on the host: see `kernels/container/parsed.cuh`.
#[derive(Debug, Default)]
pub struct HostParsed {
    pub chunks: Vec<ParsedChunk>,
    pub metas: Vec<u16>,
    pub bases: Vec<i32>,
    pub first_groups: Vec<u32>,
    pub order: Vec<u16>,
    pub outlier_starts: Vec<u32>,
    pub verbatim_starts: Vec<u32>,
    pub mask_starts: Vec<u32>,
    pub sign_starts: Vec<u32>,
    pub masks: Vec<u8>,
    pub signs: Vec<u8>,
    pub ranks: Vec<u32>,
    pub codes: Vec<u16>,
    pub bitmap_stride: u64,
    pub rank_stride: u32,
    pub tiles: u32,
    pub slots: u32,
    /// The stream, followed by an empty Huffman stream, which raw chunks get.
    pub input: Vec<u8>,
    /// Offset of the codes of each chunk in the input.
    streams: Vec<usize>,
}

impl HostParsed {
    /// Parses chunks `chunks` of a stream, and decodes their codes if requested.
    pub fn new(stream: &[u8], chunks: Range<u64>, with_codes: bool) -> Self {
        let (header, geometry) = opened(stream);
        let places = record_places(stream, &header, &geometry);
        let batch = ChunkBatch::new(&geometry, header.group_log2, chunks.clone()).unwrap();
        let mut input = stream.to_vec();
        input.resize(input.len().next_multiple_of(16), 0);
        let empty_at = input.len();
        let options = EncodeOptions { group_log2: header.group_log2, index: header.index, zero_bit_symbol: Some(512) };
        encode::<u16>(&[], &[], &options, &mut Default::default(), &mut input);
        let mut parsed = Self {
            input,
            tiles: geometry.tiles_per_chunk(),
            slots: batch.slots(),
            bitmap_stride: u64::from(geometry.tiles_per_chunk()) * 128,
            rank_stride: batch.slots().div_ceil(32),
            ..Self::default()
        };
        for chunk in chunks {
            let (at, len) = places.record(chunk);
            let record = &stream[at as usize..at as usize + len];
            parsed.add(&header, &geometry, chunk, stream, record, empty_at, with_codes);
        }
        parsed
    }

    #[expect(clippy::too_many_arguments, reason = "all of a chunk's surroundings, once")]
    fn add(
        &mut self,
        header: &Header,
        geometry: &Geometry,
        number: u64,
        stream: &[u8],
        record: &[u8],
        empty_at: usize,
        with_codes: bool,
    ) {
        let offset = |part: &[u8]| (part.as_ptr() as usize - stream.as_ptr() as usize) as u64;
        let (kind, payload) = parse_record(record, number).unwrap();
        let tiles: Vec<Tile> = geometry.chunk(number).collect();
        let end = self.chunks.len() + 1;
        let mut chunk = ParsedChunk { raw: offset(payload), kind: CHUNK_RAW, ..ParsedChunk::default() };
        if kind == ChunkKind::Quantized {
            chunk.kind = CHUNK_QUANTIZED;
            let place = "test";
            let sections = Sections::parse(payload, place).unwrap().0;
            let section = TileSection::parse(sections[0], tiles.len(), header.patterns.len(), place).unwrap();
            chunk.radius = section.radius;
            let metas = &section.tiles;
            self.bases.extend(read_bases::<u32>(sections[1], tiles.len(), place).unwrap().iter().map(|&b| b as i32));
            self.metas.extend(metas.iter().map(|m| {
                u16::from(m.constant)
                    | u16::from(m.predictor) << 1
                    | u16::from(m.class) << 3
                    | (m.mask as u16) << 5
                    | u16::from(m.pattern) << 7
                    | (m.sign as u16) << 9
            }));
            chunk.live_tiles = metas.iter().filter(|m| !m.constant).count() as u32;
            for constant in [false, true] {
                let of_kind = metas.iter().enumerate().filter(|(_, m)| m.constant == constant);
                self.order.extend(of_kind.map(|(tile, _)| tile as u16));
            }
            let mut groups = 0;
            let mut classes = Vec::new();
            for (tile, meta) in tiles.iter().zip(metas) {
                self.first_groups.push(groups);
                if !meta.constant {
                    let own = tile.groups(1 << header.group_log2);
                    groups += own as u32;
                    classes.extend(std::iter::repeat_n(meta.class, own));
                }
            }
            let elements = geometry.chunk_elements(number);
            let list = |part: &[u8], size: usize, starts: &mut Vec<u32>| {
                let list = SparseList::parse(part, size, elements, place).unwrap();
                let mut position = 0;
                for tile in &tiles {
                    starts.push(list.within(0, position).len() as u32);
                    position += tile.len() as u32;
                }
                starts.push(list.len() as u32);
                let positions = if part.is_empty() { 0 } else { offset(part) + 4 };
                let values = offset(part) + (4 + 4 * list.len() as u64).next_multiple_of(8);
                (positions, values, list.len() as u32)
            };
            (chunk.outlier_positions, chunk.outlier_values, chunk.outliers) =
                list(sections[4], 4, &mut self.outlier_starts);
            (chunk.verbatim_positions, chunk.verbatim_values, chunk.verbatim) =
                list(sections[5], header.element_type.size(), &mut self.verbatim_starts);
            let bitmaps = |part: &[u8], kinds: Vec<MaskKind>, starts: &mut Vec<u32>, bytes: &mut Vec<u8>| {
                let first = bytes.len();
                let mut length = 0;
                for (tile, kind) in tiles.iter().zip(kinds) {
                    starts.push(length);
                    length += if kind == MaskKind::Bitmap { TileMask::stored_bytes(tile.len()) as u32 } else { 0 };
                }
                if length > 0 {
                    bytes.resize(first + length as usize, 0);
                    let stream = Stream::<u8>::parse(part, place).unwrap();
                    stream.decoder(Decoder::Chunked, &[]).unwrap().decode(&mut bytes[first..], 1).unwrap();
                }
            };
            bitmaps(sections[2], metas.iter().map(|m| m.mask).collect(), &mut self.mask_starts, &mut self.masks);
            bitmaps(sections[6], metas.iter().map(|m| m.sign).collect(), &mut self.sign_starts, &mut self.signs);
            let codes = Stream::<u16>::parse(sections[3], place).unwrap();
            (chunk.groups, chunk.live) = (codes.groups() as u32, codes.live_groups() as u32);
            chunk.wide = u32::from(chunk.radius != 512);
            let mut rank = 0;
            for group in 0..codes.groups() {
                if group % 32 == 0 {
                    self.ranks.push(rank);
                }
                rank += u32::from(!codes.is_zero_bit(group));
            }
            if with_codes {
                let first = self.codes.len();
                self.codes.resize(first + codes.symbols(), 0);
                let decoder = codes.decoder(Decoder::Auto, &classes).unwrap();
                decoder.decode(&mut self.codes[first..], 1).unwrap();
            }
            self.streams.push(offset(sections[3]) as usize);
        } else {
            self.streams.push(empty_at);
        }
        self.chunks.push(chunk);
        // Entries that are not used.
        let whole = end * self.tiles as usize;
        let starts = end * (self.tiles as usize + 1);
        self.metas.resize(whole, 0xffff);
        self.bases.resize(whole, -1);
        self.first_groups.resize(whole, u32::MAX);
        self.order.resize(whole, u16::MAX);
        self.mask_starts.resize(whole, u32::MAX);
        self.sign_starts.resize(whole, u32::MAX);
        self.outlier_starts.resize(starts, u32::MAX);
        self.verbatim_starts.resize(starts, u32::MAX);
        self.masks.resize(end * self.bitmap_stride as usize, 0xa5);
        self.signs.resize(end * self.bitmap_stride as usize, 0xa5);
        self.ranks.resize(end * self.rank_stride as usize, u32::MAX);
        if with_codes {
            self.codes.resize((end * self.slots as usize) << header.group_log2, 0xa5a5);
        }
    }

    /// Copies everything to the device.
    pub fn upload(&self, stream: &Arc<CudaStream>) -> DeviceParsed {
        fn up<T: cudarc::driver::DeviceRepr + Clone + Default>(stream: &Arc<CudaStream>, values: &[T]) -> CudaSlice<T> {
            let one: &[T] = &[T::default()];
            stream.clone_htod(if values.is_empty() { one } else { values }).unwrap()
        }
        let parsed: Vec<_> =
            self.streams.iter().map(|&at| Stream::<u16>::parse(&self.input[at..], "test").unwrap()).collect();
        let places: Vec<_> = parsed
            .iter()
            .zip(&self.streams)
            .enumerate()
            .map(|(i, (codes, &at))| BatchStream {
                stream: codes,
                input_offset: at as u64,
                output_offset: i as u64 * u64::from(self.slots) * codes.group_len() as u64,
                classes_offset: 0,
            })
            .collect();
        DeviceParsed {
            input: up(stream, &self.input),
            batch: Batch::new(stream, &places).unwrap(),
            chunks: up(stream, &self.chunks),
            metas: up(stream, &self.metas),
            bases: up(stream, &self.bases),
            first_groups: up(stream, &self.first_groups),
            order: up(stream, &self.order),
            outlier_starts: up(stream, &self.outlier_starts),
            verbatim_starts: up(stream, &self.verbatim_starts),
            mask_starts: up(stream, &self.mask_starts),
            sign_starts: up(stream, &self.sign_starts),
            masks: up(stream, &self.masks),
            signs: up(stream, &self.signs),
            ranks: up(stream, &self.ranks),
            codes: up(stream, &self.codes),
            bitmap_stride: self.bitmap_stride,
            rank_stride: self.rank_stride,
            tiles: self.tiles,
            chunk_count: self.chunks.len() as u32,
            slots: self.slots,
        }
    }
}

/// The data of [`HostParsed`] in device memory.
pub struct DeviceParsed {
    pub input: CudaSlice<u8>,
    pub batch: Batch<u16>,
    pub codes: CudaSlice<u16>,
    chunks: CudaSlice<ParsedChunk>,
    metas: CudaSlice<u16>,
    bases: CudaSlice<i32>,
    first_groups: CudaSlice<u32>,
    order: CudaSlice<u16>,
    outlier_starts: CudaSlice<u32>,
    verbatim_starts: CudaSlice<u32>,
    mask_starts: CudaSlice<u32>,
    sign_starts: CudaSlice<u32>,
    masks: CudaSlice<u8>,
    signs: CudaSlice<u8>,
    ranks: CudaSlice<u32>,
    bitmap_stride: u64,
    rank_stride: u32,
    tiles: u32,
    pub chunk_count: u32,
    slots: u32,
}

impl DeviceParsed {
    pub fn view(&self) -> Parsed<'_> {
        Parsed {
            chunks: self.chunks.as_view(),
            metas: self.metas.as_view(),
            bases: self.bases.as_view(),
            first_groups: self.first_groups.as_view(),
            order: self.order.as_view(),
            outlier_starts: self.outlier_starts.as_view(),
            verbatim_starts: self.verbatim_starts.as_view(),
            mask_starts: Some(self.mask_starts.as_view()),
            sign_starts: Some(self.sign_starts.as_view()),
            masks: Some(self.masks.as_view()),
            signs: Some(self.signs.as_view()),
            ranks: self.ranks.as_view(),
            bitmap_stride: self.bitmap_stride,
            rank_stride: self.rank_stride,
            tiles: self.tiles,
            chunk_count: self.chunk_count,
            slots: self.slots,
        }
    }
}

/// Returns whether the GPU can reconstruct a stream.
pub fn is_lossy(stream: &[u8]) -> bool {
    Header::parse(stream).unwrap().pipeline != Pipeline::Lossless && stream.len() > HEADER_LEN
}
