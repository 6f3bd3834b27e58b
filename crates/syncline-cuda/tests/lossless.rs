//! Lossless streams of LZSS chunks, with and without Huffman coding, equal the CPU's: their bytes, arrays, parts of
//! arrays, and errors of damaged streams.

mod common;
#[path = "common/stream.rs"]
mod stream;

use std::sync::Arc;

use common::damage::{self, Tally};
use common::{Random, Share, pick, unless_tiny, unless_tiny_one};
use cudarc::driver::CudaStream;
use stream::{Whole, parallel, try_decompress};
use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::Resolved;
use syncline_core::container::{ChunkKind, HEADER_LEN, Header};
use syncline_core::geometry::Geometry;
use syncline_core::huffman::IndexKind;
use syncline_core::lzss::SymbolWidth;
use syncline_core::pipeline::{Coder, CoderOptions, EncodeScratch, encode_chunk};
use syncline_cuda::cudarc;
use syncline_cuda::device::Device;
use syncline_cuda::error::CudaError;
use syncline_cuda::geometry::Slab;
use syncline_cuda::lossless::{LosslessCompressor, LosslessDecompressor};
use syncline_cuda::pipeline::StreamInfo;

const POISON: u8 = 0x5c;
/// Batch sizes for all chunks together, and for one chunk each.
const BATCH_BYTES: [u64; 2] = [256 << 20, 1];

/// The content of an array.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Quantization codes around the middle, with runs of one value.
    Codes,
    /// Slowly increasing numbers.
    Ramps,
    /// Repeating rows, some of them changed.
    Rows,
    /// Incompressible values.
    Noise,
    /// A single value.
    Constant,
    /// Repeating rows of noise, noise, and slowly increasing numbers, 8,192 elements of each.
    Mixed,
}

fn array(kind: Kind, element: ElementType, count: u64, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let size = element.size();
    let mut values = (0..count).map(|i| match kind {
        Kind::Codes if i / 900 % 4 == 1 => 512,
        Kind::Codes => 512 + random.below(5) * random.below(3) - random.below(4),
        Kind::Ramps if element.is_float() => {
            let value = (i as f64 * 0.003).sin() * 100.0 + i as f64 * 1e-3;
            if size == 4 { u64::from((value as f32).to_bits()) } else { value.to_bits() }
        }
        Kind::Ramps => i / 3 + random.below(2),
        Kind::Rows => (i % 37) * 0x0101_0101_0003 + u64::from(random.below(50) == 0),
        Kind::Noise => random.next(),
        Kind::Constant => 0x3f80_0000,
        Kind::Mixed => match i / 8192 % 3 {
            0 => Random(i % 50).next(),
            1 => random.next(),
            _ => i / 100,
        },
    });
    let mut bytes = Vec::with_capacity(count as usize * size);
    for _ in 0..count {
        bytes.extend_from_slice(&values.next().unwrap_or(0).to_le_bytes()[..size]);
    }
    bytes
}

/// An array, and how it is compressed.
#[derive(Debug, Clone)]
struct Case {
    element: ElementType,
    extents: Vec<u64>,
    kind: Kind,
    options: CoderOptions,
    index: IndexKind,
    chunk_tiles: Option<u32>,
}

impl Case {
    fn new(element: ElementType, extents: &[u64], kind: Kind, pipeline: Coder) -> Self {
        let options = CoderOptions { coder: pipeline, ..CoderOptions::default() };
        Self { element, extents: extents.to_vec(), kind, options, index: IndexKind::Symbol, chunk_tiles: None }
    }

    fn header(&self) -> (Header, Geometry) {
        let shape = Shape::new(&self.extents).unwrap();
        let geometry = match self.chunk_tiles {
            Some(tiles) => Geometry::with_chunk_tiles(shape, tiles).unwrap(),
            None => Geometry::new(shape),
        };
        let header = Header::new(self.element, shape, self.index, &Resolved::lossless());
        (Header { chunk_tiles: geometry.tiles_per_chunk(), ..header }, geometry)
    }

    fn bytes(&self) -> Vec<u8> {
        array(self.kind, self.element, self.extents.iter().product(), 11)
    }

    /// Returns the CPU's records.
    fn records(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let (header, geometry) = self.header();
        parallel(geometry.chunks() as usize, |chunk| {
            let mut record = Vec::new();
            let mut scratch = EncodeScratch::default();
            let (source, chunk) = (Whole(bytes), chunk as u64);
            encode_chunk(&header, &geometry, chunk, &source, &self.options, &mut scratch, &mut record).unwrap();
            record
        })
    }

    fn stream(&self, records: &[Vec<u8>]) -> Vec<u8> {
        stream::of_records(&self.header().0, records)
    }
}

fn device() -> Option<(&'static Device, Arc<CudaStream>)> {
    let device = common::device()?;
    Some((device, device.context().new_stream().unwrap()))
}

/// Checks that the GPU's records have the CPU's bytes, with several batch sizes.
fn same_bytes(device: &Device, stream: &Arc<CudaStream>, case: &Case) -> Vec<u8> {
    let bytes = case.bytes();
    let (header, geometry) = case.header();
    let expected = case.records(&bytes);
    let whole: Vec<u8> = expected.concat();
    let input = stream.clone_htod(&[bytes.clone(), vec![POISON; 16]].concat()).unwrap();
    let slab = Slab { bytes: input.slice(..bytes.len()), first_element: 0 };
    for &batch_bytes in unless_tiny_one(&BATCH_BYTES, geometry.chunks() as usize) {
        let mut output = stream.clone_htod(&vec![POISON; whole.len() + 64]).unwrap();
        let mut compressor = LosslessCompressor::new(device, stream).unwrap().with_batch_bytes(batch_bytes);
        let chunks = 0..geometry.chunks();
        let mut room = output.slice_mut(..whole.len());
        let records = compressor.compress_chunks(&header, &geometry, &case.options, chunks, &slab, &mut room).unwrap();
        let made = stream.clone_dtoh(&output).unwrap();
        let mut at = 0;
        for (chunk, (record, &length)) in expected.iter().zip(&records.lengths).enumerate() {
            let made = &made[at..at + length as usize];
            let wrong = made.iter().zip(record).position(|(a, b)| a != b);
            assert!(
                made == record,
                "{case:?}: chunk {chunk} has {} bytes, not {}, and differs at {wrong:?}",
                made.len(),
                record.len()
            );
            at += length as usize;
        }
        assert_eq!(at, whole.len(), "{case:?}");
        assert!(made[at..].iter().all(|&byte| byte == POISON), "{case:?}: written behind the records");
    }
    case.stream(&expected)
}

fn on_gpu(device: &Device, stream: &Arc<CudaStream>, bytes: &[u8], batch_bytes: u64) -> Result<Vec<u8>, CudaError> {
    let info = StreamInfo::from_bytes(bytes)?;
    let input = stream.clone_htod(bytes).unwrap();
    let length = info.decompressed_len() as usize;
    let mut output = stream.clone_htod(&vec![POISON; length + 64]).unwrap();
    let decompressor = LosslessDecompressor::new(device, stream.clone(), &info)?;
    let mut decompressor = decompressor.with_batch_bytes(batch_bytes);
    let done = decompressor.decompress(&input.as_view(), &mut output.slice_mut(..length));
    let done = done.and_then(|()| decompressor.check());
    let mut made = stream.clone_dtoh(&output).unwrap();
    assert!(made[length..].iter().all(|&byte| byte == POISON), "nothing is written behind the output");
    made.truncate(length);
    done.map(|()| made)
}

/// Checks that the stream is decompressed correctly, as a whole and in parts.
fn comes_back(device: &Device, stream: &Arc<CudaStream>, case: &Case, made: &[u8]) {
    let bytes = case.bytes();
    let info = StreamInfo::from_bytes(made).unwrap();
    let chunks = info.geometry().chunks() as usize;
    for &batch_bytes in unless_tiny_one(&BATCH_BYTES, chunks + 1) {
        let back = on_gpu(device, stream, made, batch_bytes).unwrap_or_else(|error| panic!("{case:?}: {error}"));
        let wrong = back.iter().zip(&bytes).position(|(a, b)| a != b);
        assert!(back == bytes, "{case:?}: differs at byte {wrong:?}");
    }
    let (geometry, size) = (info.geometry().clone(), case.element.size());
    let tiles = geometry.tiles();
    let mut decompressor = LosslessDecompressor::new(device, stream.clone(), &info).unwrap();
    for part in unless_tiny_one(&[0..tiles / 2, tiles / 3..tiles, tiles / 2..tiles / 2 + 1], tiles as usize) {
        if part.is_empty() || part.end > tiles {
            continue;
        }
        let range = info.bytes_of(info.chunks_of(part.clone()));
        let input = stream.clone_htod(&made[range.start as usize..range.end as usize]).unwrap();
        let mut output = stream.clone_htod(&vec![POISON; bytes.len() + 64]).unwrap();
        let room = &mut output.slice_mut(..bytes.len());
        decompressor.decompress_tiles(&input.as_view(), range.start, part.clone(), room, 0).unwrap();
        decompressor.check().unwrap();
        let back = stream.clone_dtoh(&output).unwrap();
        let mut expected = vec![POISON; bytes.len() + 64];
        for tile in geometry.range(part.clone()) {
            let [b, z, y, x] = tile.origin;
            let [nz, ny, nx] = tile.extent.map(|extent| extent as u64);
            for (dz, dy) in (0..nz).flat_map(|dz| (0..ny).map(move |dy| (dz, dy))) {
                let first = geometry.element([b, z + dz, y + dy, x]) as usize * size;
                let row = first..first + nx as usize * size;
                expected[row.clone()].copy_from_slice(&bytes[row]);
            }
        }
        assert!(back == expected, "{case:?}: tiles {part:?}");
    }
}

fn check(case: &Case) {
    let Some((device, stream)) = device() else { return };
    let made = same_bytes(device, &stream, case);
    comes_back(device, &stream, case, &made);
}

const BOTH: [Coder; 2] = [Coder::Lzss, Coder::LzssHuffman];

/// Small arrays of every kind, for the sanitizers.
#[test]
fn small_of_every_path_alone() {
    small_of_every_path(Coder::Lzss, 0);
}

#[test]
fn small_of_every_path_before_huffman() {
    small_of_every_path(Coder::LzssHuffman, 1);
}

/// In tiny runs, every second array.
fn small_of_every_path(pipeline: Coder, first: usize) {
    let mut share = Share::all().if_tiny(2, first);
    for (element, kind, extents) in [
        (ElementType::U16, Kind::Codes, &[9_000][..]),
        (ElementType::F32, Kind::Ramps, &[9, 20, 11]),
        (ElementType::I64, Kind::Rows, &[40, 33]),
        (ElementType::U8, Kind::Ramps, &[5_000]),
    ] {
        if share.takes() {
            let chunk_tiles = Some(unless_tiny(4, 7));
            check(&Case { chunk_tiles, ..Case::new(element, extents, kind, pipeline) });
        }
    }
}

#[test]
fn codes_of_every_shape() {
    let mut share = Share::one_in(5).if_tiny(17, 8);
    for pipeline in BOTH {
        for extents in [
            pick(&[300_000][..], &[30_000]),
            &[1],
            &[5],
            &[1025],
            &[70, 333],
            &[32, 64],
            &[20, 30, 70],
            &[2, 3, 33, 50],
            &[8, 8, 8],
            &[],
            &[0],
            &[3, 1, 2, 2],
        ] {
            for chunk_tiles in [None, Some(17)] {
                let case = Case::new(ElementType::U16, extents, Kind::Codes, pipeline);
                if share.takes() {
                    check(&Case { chunk_tiles, ..case });
                }
            }
        }
    }
}

fn elements(types: &[ElementType]) {
    // In tiny runs, each of four types with one coder or both.
    let mut share = Share::one_in(7).if_tiny(15, 1);
    let small = [&[8000][..], unless_tiny(&[35, 100], &[20, 60]), &[10, 17, 20]];
    for pipeline in BOTH {
        for &element in types {
            for kind in [Kind::Ramps, Kind::Rows] {
                for extents in pick([&[40_000][..], &[70, 333], &[20, 30, 70]], small) {
                    let case = Case::new(element, extents, kind, pipeline);
                    if share.takes() {
                        check(&Case { chunk_tiles: Some(pick(20, unless_tiny(5, 9))), ..case });
                    }
                }
            }
        }
    }
}

#[test]
fn every_type_of_floats() {
    elements(&ElementType::ALL[..4]);
}

#[test]
fn every_type_of_unsigned_integers() {
    elements(&ElementType::ALL[4..8]);
}

#[test]
fn every_type_of_signed_integers() {
    elements(&ElementType::ALL[8..]);
}

#[test]
fn noise_and_constants() {
    let mut share = Share::one_in(5);
    for pipeline in BOTH {
        for element in [ElementType::U8, ElementType::I16, ElementType::F32, ElementType::U64] {
            for kind in [Kind::Noise, Kind::Constant] {
                for extents in pick([&[50_003][..], &[50, 61, 17]], [&[5003], &[10, 21, 17]]) {
                    let case = Case::new(element, extents, kind, pipeline);
                    if share.takes() {
                        check(&Case { chunk_tiles: Some(pick(30, 5)), ..case });
                    }
                }
            }
        }
    }
}

fn widths_and_levels(pipeline: Coder, mut share: Share) {
    for (symbol, level) in [
        (SymbolWidth::One, 3),
        (SymbolWidth::Two, 4),
        (SymbolWidth::Two, 6),
        (SymbolWidth::Four, 1),
        (SymbolWidth::Eight, 3),
        (SymbolWidth::Four, 6),
    ] {
        for (kind, element) in [(Kind::Rows, ElementType::U16), (Kind::Ramps, ElementType::I32)] {
            let mut case = Case::new(element, &[pick(100_001, 9001)], kind, pipeline);
            case.options = CoderOptions { symbol: Some(symbol), level, ..case.options };
            if share.takes() {
                check(&Case { chunk_tiles: Some(pick(60, 6)), ..case });
            }
        }
    }
}

#[test]
fn widths_and_levels_alone() {
    widths_and_levels(Coder::Lzss, Share::one_in(3).if_tiny(5, 1));
}

#[test]
fn widths_and_levels_before_huffman() {
    // Other cases than those of the first coder.
    let mut share = Share::one_in(3).if_tiny(5, 3);
    share.takes();
    widths_and_levels(Coder::LzssHuffman, share);
}

#[test]
fn arrays_of_several_chunks_come_back() {
    let kinds = [(ElementType::U16, Kind::Codes), (ElementType::F64, Kind::Ramps)];
    for &(element, kind) in unless_tiny_one(&kinds, 0) {
        let extents = pick([60, 50, 40], unless_tiny([17, 20, 18], [9, 16, 18]));
        let case = Case::new(element, &extents, kind, Coder::LzssHuffman);
        check(&Case { chunk_tiles: Some(pick(70, unless_tiny(14, 8))), ..case });
    }
}

#[test]
fn streams_without_an_index_are_refused() {
    let Some(device) = common::device() else { return };
    let case = Case { index: IndexKind::None, ..Case::new(ElementType::U16, &[900], Kind::Codes, Coder::LzssHuffman) };
    let stream = case.stream(&case.records(&case.bytes()));
    let info = StreamInfo::from_bytes(&stream).unwrap();
    let made = LosslessDecompressor::new(device, device.context().default_stream(), &info);
    assert!(matches!(made, Err(CudaError::Unsupported(_))));
}

#[test]
fn large_chunks() {
    for (element, kind) in [(ElementType::U16, Kind::Codes), (ElementType::F32, Kind::Ramps)] {
        check(&Case::new(element, &[pick(3 << 20, 3 << 16)], kind, Coder::LzssHuffman));
    }
}

/// Checks the whole stream, and the compressor's report.
#[test]
fn whole_streams() {
    let Some((device, stream)) = device() else { return };
    for pipeline in BOTH {
        for extents in pick([&[200, 300][..], &[0], &[700_000]], [&[40, 60], &[0], &[50_000]]) {
            let case = Case::new(ElementType::U16, extents, Kind::Codes, pipeline);
            let bytes = case.bytes();
            let expected = case.stream(&case.records(&bytes));
            let input = stream.clone_htod(&bytes).unwrap();
            let shape = Shape::new(extents).unwrap();
            let room = syncline_cuda::pipeline::compress_bound(case.element, shape);
            let mut output = stream.alloc_zeros::<u8>(room as usize).unwrap();
            let mut compressor = LosslessCompressor::new(device, &stream).unwrap();
            let mut compress = |length: usize, output: &mut cudarc::driver::CudaSlice<u8>| {
                let mut output = output.slice_mut(..length);
                compressor.compress(&input.slice(..bytes.len()), case.element, shape, &case.options, &mut output)
            };
            let made = compress(room as usize, &mut output).unwrap();
            assert_eq!(made.bytes as usize, expected.len());
            assert!(stream.clone_dtoh(&output).unwrap()[..expected.len()] == expected, "{case:?}");
            assert!(compress(expected.len(), &mut output).is_ok());
            for short in [expected.len() - 1, expected.len() / 2, 100] {
                assert!(matches!(compress(short, &mut output), Err(CudaError::NoRoom { .. })), "{short}");
            }
        }
    }
    let case = Case::new(ElementType::U16, &[100], Kind::Codes, Coder::Lzss);
    let (header, geometry) = case.header();
    let input = stream.clone_htod(&case.bytes()).unwrap();
    let slab = Slab { bytes: input.as_view(), first_element: 0 };
    let mut output = stream.alloc_zeros::<u8>(4096).unwrap();
    let mut compressor = LosslessCompressor::new(device, &stream).unwrap();
    let mut compress = |options: &CoderOptions, slab: &Slab<'_>| {
        compressor.compress_chunks(&header, &geometry, options, 0..1, slab, &mut output.as_view_mut())
    };
    for coder in Coder::ALL {
        let options = CoderOptions { coder, ..case.options };
        assert!(compress(&CoderOptions { level: 10, ..options }, &slab).is_err());
        assert!(compress(&options, &Slab { bytes: input.slice(..100), first_element: 0 }).is_err());
        assert!(compress(&options, &slab).is_ok());
    }
}

/// Numbers, tokens, and raw chunks in one array: each chunk has the coding that is the shortest for it.
#[test]
fn the_shortest_coding_of_each_chunk_is_taken() {
    let Some((device, stream)) = device() else { return };
    let mut kinds = std::collections::BTreeSet::new();
    for (element, level) in unless_tiny(
        &[(ElementType::U8, 3), (ElementType::I32, 5), (ElementType::I32, 9), (ElementType::F64, 6)][..],
        &[(ElementType::U8, 3), (ElementType::I32, 5)],
    ) {
        let mut case = Case::new(*element, &[24 << 10], Kind::Mixed, Coder::Auto);
        case.options.level = *level;
        case.chunk_tiles = Some(8);
        let made = same_bytes(device, &stream, &case);
        comes_back(device, &stream, &case, &made);
        kinds.extend(case.records(&case.bytes()).iter().map(|record| record[16]));
    }
    let all = [ChunkKind::Raw, ChunkKind::Numbers, ChunkKind::Lzss].map(|kind| kind as u8);
    assert!(kinds.into_iter().eq(all), "every coding is taken");
}

/// Damage that no checksum detects: flipped bits in every part, wrong lengths and counts, truncated records.
#[test]
fn damage_is_found_where_the_cpu_finds_it() {
    let Some((device, stream)) = device() else { return };
    let mut tally = Tally::default();
    let mutants = damage::mutants(pick(400, unless_tiny(60, 12)));
    for (pipeline, element, kind) in [
        (Coder::Lzss, ElementType::U16, Kind::Codes),
        (Coder::LzssHuffman, ElementType::U16, Kind::Codes),
        (Coder::LzssHuffman, ElementType::F32, Kind::Ramps),
        (Coder::LzssHuffman, ElementType::I64, Kind::Rows),
        (Coder::Lzss, ElementType::I32, Kind::Ramps),
    ] {
        let case = Case {
            chunk_tiles: Some(pick(40, 14)),
            ..Case::new(element, &pick([30, 28, 26], [17, 15, 18]), kind, pipeline)
        };
        let records = case.records(&case.bytes());
        assert!(records.iter().any(|record| record[16] == ChunkKind::Lzss as u8), "{case:?}");
        let mut random = Random(77);
        for mutant in 0..mutants {
            let mut damaged = records.clone();
            let own = random.below(damaged.len() as u64) as usize;
            damage::damage_record(&mut damaged[own], &mut random);
            let made = case.stream(&damaged);
            let found = on_gpu(device, &stream, &made, 1 << 28);
            tally.add(try_decompress(&made), found, &format!("{case:?}, mutant {mutant}"));
        }
    }
    assert!(tally.refused > mutants && tally.read > mutants / 16, "{tally:?}");
}

#[test]
fn damaged_indexes_are_found_where_the_cpu_finds_them() {
    let Some((device, stream)) = device() else { return };
    let mut tally = Tally::default();
    // Planes of zeros have no coded groups.
    let case = Case::new(ElementType::I64, &[17, 15, 18], Kind::Rows, Coder::LzssHuffman);
    let records = case.records(&case.bytes());
    for mutant in damage::index_mutants(&records[0]).into_iter().step_by(unless_tiny(1, 3)) {
        let made = case.stream(&[&[mutant], &records[1..]].concat());
        tally.add(try_decompress(&made), on_gpu(device, &stream, &made, 1 << 28), &format!("{case:?}"));
    }
    assert!(tally.refused >= 8 && tally.read == 0, "{tally:?}");
}

/// The header, the chunk table, and inputs that are not streams are checked first.
#[test]
fn cut_off_streams_are_refused() {
    let Some((device, stream)) = device() else { return };
    let case = Case::new(ElementType::U16, &[50_000], Kind::Codes, Coder::LzssHuffman);
    let made = case.stream(&case.records(&case.bytes()));
    for length in [0, 1, HEADER_LEN, HEADER_LEN + 40, made.len() / 2, made.len() - 1] {
        assert!(on_gpu(device, &stream, &made[..length], 1 << 28).is_err(), "{length}");
    }
}
