//! Streams with token codebooks: what the device makes of arrays, and of whole, partial, and damaged streams, equals
//! the CPU's results.

#[path = "../common/mod.rs"]
mod common;
mod large_tiles;
#[path = "../common/parts.rs"]
mod parts;
#[path = "../common/real.rs"]
mod real;
#[path = "../common/stream.rs"]
mod stream;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::damage::{self, Tally};
use common::{Random, Share, pick, unless_tiny};
use cudarc::driver::CudaStream;
use parts::{check_parts, comes_back};
use real::{Real, bytes_of, on_gpu};
use stream::{Making, compress_by, opened, repair_checksum, try_decompress, with_header};
use syncline_core::array::ElementType;
use syncline_core::bound::{Bound, Fill};
use syncline_core::container::{ChunkKind, HEADER_LEN, Header, Sections, TileSection, parse_record, table_and_trailer};
use syncline_core::pipeline::{Coder, CoderOptions, Effort};
use syncline_core::predict::interpolate::INTERPOLATION;
use syncline_core::tokens::{self, Mode, TokenStream};
use syncline_cuda::cudarc;
use syncline_cuda::device::Device;
use syncline_cuda::error::CudaError;
use syncline_cuda::pipeline::{Decompressor, StreamInfo};
use syncline_cuda::reconstruct::Strategy;

const BALANCED: CoderOptions =
    CoderOptions { coder: Coder::Huffman, symbol: None, level: 3, effort: Effort::Balanced, rewritable: false };
/// Chunks of all kinds.
const BEST: CoderOptions = CoderOptions { coder: Coder::Auto, effort: Effort::Best, ..BALANCED };

/// What an array is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Data {
    /// Waves, which interpolation predicts well.
    Smooth,
    /// Waves along the last axes that differ from plane to plane.
    Planes,
    /// Zeros with a few jumps.
    Sparse,
    /// Noise of very different amplitudes.
    Rough,
    /// Few different values that are far apart.
    Levels,
    /// Rows that repeat, which LZSS tokens code well.
    Repeats,
    /// Everything, with fill values, NaN, infinities, and negative zeros.
    Wild,
}

impl Data {
    const ALL: [Self; 7] =
        [Self::Smooth, Self::Planes, Self::Sparse, Self::Rough, Self::Levels, Self::Repeats, Self::Wild];

    fn values(self, extents: &[u64], seed: u64) -> Vec<f64> {
        let mut random = Random(seed);
        let width = extents.last().copied().unwrap_or(1).max(1);
        let height = extents.iter().rev().nth(1).copied().unwrap_or(1).max(1);
        let mut value = |i: u64| {
            let (x, y, z) = (i % width, i / width % height, i / width / height);
            let wave = (x as f64 * 0.11).sin() * 3.0 + (y as f64 * 0.13).cos() * 2.0 + (z as f64 * 0.2).sin();
            let data = match self {
                Self::Wild => [Self::Smooth, Self::Sparse, Self::Wild, Self::Rough, Self::Wild][(i / 700 % 5) as usize],
                other => other,
            };
            match data {
                Self::Smooth => wave + random.unit() * 0.004,
                Self::Planes => {
                    wave + if extents.len() > 1 {
                        (z * 7 + y * u64::from(extents.len() == 2)) as f64 % 5.0
                    } else {
                        0.0
                    }
                }
                Self::Sparse if random.below(60) == 0 => random.unit() * 40.0,
                Self::Sparse => 0.0,
                Self::Rough => (random.unit() - 0.5) * 2f64.powi((i / 300 % 16) as i32),
                Self::Levels => (random.below(12) * 977 % 11) as f64 * 20.0,
                Self::Repeats if random.below(500) == 0 => f64::NAN,
                Self::Repeats => (x % 16 * 37 % 29) as f64 * 0.05,
                Self::Wild => match random.below(40) {
                    0 => f64::NAN,
                    1..=9 => -9999.0,
                    10 => [f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0][random.below(4) as usize],
                    11 => 1e30,
                    _ if (i / 100).is_multiple_of(3) => f64::NAN,
                    _ => wave,
                },
            }
        };
        (0..extents.iter().product()).map(&mut value).collect()
    }
}

fn device() -> Option<(&'static Device, Arc<CudaStream>)> {
    let device = common::device()?;
    Some((device, device.context().new_stream().unwrap()))
}

fn record(bytes: &[u8], chunk: u64) -> &[u8] {
    let (at, length) = StreamInfo::from_bytes(bytes).unwrap().record(chunk);
    &bytes[at as usize..at as usize + length]
}

/// What chunks of streams have.
#[derive(Debug, Default)]
struct Seen {
    kinds: BTreeSet<u8>,
    schemes: BTreeSet<u32>,
    predictors: BTreeSet<u8>,
    modes: BTreeSet<u8>,
    codebooks: BTreeSet<usize>,
}

impl Seen {
    fn add(&mut self, bytes: &[u8]) {
        let (header, geometry) = opened(bytes);
        for chunk in 0..geometry.chunks() {
            let (kind, payload) = parse_record(record(bytes, chunk), chunk).unwrap();
            self.kinds.insert(kind as u8);
            if kind == ChunkKind::TokenCodes {
                let sections = Sections::parse(payload, "test").unwrap().0;
                let tiles = geometry.chunk(chunk).count();
                let section = TileSection::parse(sections[0], tiles, header.patterns.len(), "test").unwrap();
                self.schemes.extend(section.scheme);
                let live = || geometry.chunk(chunk).zip(&section.tiles).filter(|(_, meta)| !meta.constant);
                self.predictors.extend(live().map(|(_, meta)| meta.predictor));
                let groups = live().map(|(tile, _)| tile.len().div_ceil(tokens::group_len(header.tile_size))).sum();
                let stream = TokenStream::parse(sections[3], groups, "test").unwrap();
                self.modes.extend(stream.modes().map(|mode| mode as u8));
                self.codebooks.insert(stream.modes().count());
            }
        }
    }
}

const SHAPES: [&[u64]; 9] =
    [&[50_000], &[33, 32, 17], &[230, 300], &[2, 3, 50, 60], &[1], &[4097], &[], &[5, 1, 333], &[3, 2, 3]];
/// For racecheck and emulated devices: the same numbers of axes.
const TINY_SHAPES: [&[u64]; 9] =
    [&[3000], &[9, 17, 12], &[40, 70], &[2, 3, 9, 10], &[1], &[1025], &[], &[5, 1, 33], &[3, 2, 3]];

/// Tests every rank, bound, and kind of data.
fn every_shape<T: Real>(mut share: Share) -> Option<Seen> {
    let (device, stream) = device()?;
    let mut seen = Seen::default();
    for extents in unless_tiny(SHAPES, TINY_SHAPES) {
        for data in Data::ALL {
            let bytes = bytes_of::<T>(&data.values(extents, 3));
            for (bound, chunk_tiles, lossless) in [
                (Bound::Abs(0.01), None, BALANCED),
                (Bound::PwRel(0.01), Some(20), BALANCED),
                (Bound::Rel(1e-6), Some(7), BEST),
                (Bound::Abs(0.002), Some(3), BALANCED),
            ] {
                if !share.takes() {
                    continue;
                }
                let making = Making { fill: Fill::Auto, chunk_tiles, ..Making::default() };
                let made = compress_by(&bytes, T::TYPE, extents, bound, &making, &lossless);
                if stream::is_lossy(&made) {
                    seen.add(&made);
                    let what = format!("{} {extents:?}, {data:?}, {bound:?}, {lossless:?}, {chunk_tiles:?}", T::TYPE);
                    comes_back::<T>(device, &stream, &made, &what);
                    compress::makes_the_same(device, &stream, &bytes, &made, &lossless, &what);
                }
            }
        }
    }
    Some(seen)
}

#[test]
fn streams_of_f32_come_back() {
    // Not a multiple of the lengths of loops.
    let Some(seen) = every_shape::<f32>(Share::one_in(5).if_tiny(7, 0)) else { return };
    assert!(seen.kinds.contains(&(ChunkKind::TokenCodes as u8)), "{seen:?}");
    assert!(seen.schemes.len() >= pick(3, 2) && seen.modes.len() >= pick(Mode::ALL.len(), 2), "{seen:?}");
    assert!(seen.predictors.len() >= pick(8, 4) && seen.codebooks.len() == 2, "{seen:?}");
}

#[test]
fn streams_of_f64_come_back() {
    let Some(seen) = every_shape::<f64>(Share::one_in(5).if_tiny(7, 3)) else { return };
    assert!(seen.kinds.contains(&(ChunkKind::TokenCodes as u8)), "{seen:?}");
    assert!(seen.schemes.len() >= pick(3, 2) && seen.modes.len() >= pick(Mode::ALL.len(), 2), "{seen:?}");
    assert!(seen.predictors.len() >= pick(8, 4) && seen.codebooks.len() == 2, "{seen:?}");
}

/// Returns a stream of other records after the header of this stream.
fn with_records(good: &[u8], records: &[Vec<u8>]) -> Vec<u8> {
    let lengths: Vec<u32> = records.iter().map(|record| record.len() as u32).collect();
    [&good[..HEADER_LEN], &records.concat(), &table_and_trailer(&Header::parse(good).unwrap(), &lengths)].concat()
}

fn records_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (_, geometry) = opened(bytes);
    (0..geometry.chunks()).map(|chunk| record(bytes, chunk).to_vec()).collect()
}

fn is_coded(record: &[u8]) -> bool {
    record[16] == ChunkKind::TokenCodes as u8
}

/// Gives the tiles of each chunk with token codebooks random predictors, and the chunk this scheme. Codes of any tile
/// can be read with each.
fn with_predictors(bytes: &[u8], scheme: u32, random: &mut Random) -> Vec<u8> {
    let (header, geometry) = opened(bytes);
    let mut records = records_of(bytes);
    for (chunk, record) in records.iter_mut().enumerate().filter(|(_, record)| is_coded(record)) {
        let tiles = geometry.chunk(chunk as u64).count();
        // Sections start after the record's header and their table.
        let at = 80;
        let length = u32::from_le_bytes(record[32..36].try_into().unwrap()) as usize;
        let section = &record[at..at + length];
        let mut section = TileSection::parse(section, tiles, header.patterns.len(), "test").unwrap();
        section.scheme = Some(scheme);
        for meta in section.tiles.iter_mut().filter(|meta| !meta.constant) {
            let predictors = if scheme == 0 { 9 } else { 14 };
            meta.predictor = (random.below(predictors) as u8).min(INTERPOLATION);
        }
        let mut changed = Vec::new();
        section.write(&mut changed);
        record[at..at + length].copy_from_slice(&changed);
        repair_checksum(record);
    }
    with_records(bytes, &records)
}

fn every_predictor<T: Real>(shapes: &[&[u64]], bound: Bound, schemes: &[u32], making: &Making) {
    let Some((device, stream)) = device() else { return };
    let mut random = Random(5);
    for extents in shapes {
        let bytes = bytes_of::<T>(&Data::Smooth.values(extents, 9));
        let made = compress_by(&bytes, T::TYPE, extents, bound, making, &BALANCED);
        for &scheme in schemes {
            let changed = with_predictors(&made, scheme, &mut random);
            let what = format!("{} {extents:?}, {bound:?}, scheme {scheme}", T::TYPE);
            comes_back::<T>(device, &stream, &changed, &what);
        }
    }
}

// Each test has its own number of axes, so that they run side by side.

#[test]
fn every_predictor_of_cubes() {
    let making = Making::default();
    every_predictor::<f32>(
        &[&unless_tiny([30, 33, 47], [17, 10, 13]), &[2, 3, 5]],
        Bound::Abs(0.01),
        &[0, 1, 2, 3],
        &making,
    );
    every_predictor::<f64>(&[&unless_tiny([30, 33, 47], [9, 9, 20])], Bound::PwRel(0.01), &[0], &making);
}

#[test]
fn every_predictor_of_planes() {
    let making = Making::default();
    every_predictor::<f64>(&[&unless_tiny([130, 170], [37, 70]), &[2, 40]], Bound::Abs(0.01), &[0, 1, 2, 3], &making);
    every_predictor::<f32>(&[&unless_tiny([130, 170], [37, 70])], Bound::PwRel(0.01), &[0], &making);
}

#[test]
fn every_predictor_of_lines() {
    let making = Making::default();
    every_predictor::<f32>(&[&unless_tiny([30_100], [3300]), &[3]], Bound::Abs(0.01), &[0, 1, 2, 3], &making);
    every_predictor::<f64>(&[&unless_tiny([30_100], [3300])], Bound::PwRel(0.01), &[0], &making);
}

/// Chunks of all kinds that streams with token codebooks can have, side by side.
#[test]
fn chunks_of_every_kind_come_back() {
    let Some((device, stream)) = device() else { return };
    for (extents, bound) in [
        (&unless_tiny([40_u64, 60, 50], [20, 25, 50])[..], Bound::Abs(0.01)),
        (&unless_tiny([230, 300], [130, 200]), Bound::PwRel(0.01)),
        (&[50_000], Bound::Abs(0.01)),
    ] {
        let bytes = bytes_of::<f32>(&Data::Repeats.values(extents, 6));
        let making = Making { chunk_tiles: Some(9), ..Making::default() };
        let fast = CoderOptions { effort: Effort::Fast, ..BALANCED };
        let made = [BALANCED, fast, CoderOptions { coder: Coder::LzssHuffman, ..fast }]
            .map(|options| compress_by(&bytes, ElementType::F32, extents, bound, &making, &options));
        let of_kinds = made.each_ref().map(|made| records_of(made));
        let records: Vec<Vec<u8>> = (0..of_kinds[0].len()).map(|chunk| of_kinds[chunk % 3][chunk].clone()).collect();
        let (header, _) = opened(&made[0]);
        let header = Header { lzss_codes: true, token_codes: true, ..header };
        let mixed = with_records(&header.to_bytes(), &records);
        let mut seen = Seen::default();
        seen.add(&mixed);
        for kind in [ChunkKind::Quantized, ChunkKind::LzssCodes, ChunkKind::TokenCodes] {
            assert!(seen.kinds.contains(&(kind as u8)), "{extents:?}: {seen:?}");
        }
        comes_back::<f32>(device, &stream, &mixed, &format!("{extents:?}, {bound:?}"));
    }
}

/// Tiles of a range are decompressed from the records that contain them.
fn parts_of_shapes(shapes: [&[u64]; 3], making: &Making) {
    let Some((device, stream)) = device() else { return };
    let mut random = Random(21);
    for extents in shapes {
        let bytes = bytes_of::<f32>(&Data::Wild.values(extents, 8));
        let made = compress_by(&bytes, ElementType::F32, extents, Bound::Abs(0.01), making, &BALANCED);
        check_parts(device, &stream, &made, &mut random);
    }
}

#[test]
fn parts_come_back() {
    let making = Making { chunk_tiles: Some(unless_tiny(10, 3)), ..Making::default() };
    let usual = [&[40_u64, 60, 50][..], &[130, 700], &[50_000]];
    parts_of_shapes(unless_tiny(usual, [&[17, 20, 12], &[66, 70], &[5000]]), &making);
}

/// Returns small streams of many kinds.
fn small_streams() -> Vec<Vec<u8>> {
    let extents: [u64; 3] = unless_tiny([17, 20, 40], [9, 12, 17]);
    let of = |data: Data, bound| {
        let bytes = bytes_of::<f32>(&data.values(&extents, 4));
        let making = Making { chunk_tiles: Some(unless_tiny(11, 6)), ..Making::default() };
        let made = compress_by(&bytes, ElementType::F32, &extents, bound, &making, &BALANCED);
        assert!(records_of(&made).iter().any(|record| is_coded(record)));
        made
    };
    vec![
        of(Data::Wild, Bound::Abs(0.01)),
        of(Data::Smooth, Bound::PwRel(0.05)),
        of(Data::Levels, Bound::Abs(0.01)),
        of(Data::Sparse, Bound::Abs(0.01)),
    ]
}

/// Damage that no checksum detects: flipped bits in every part, wrong lengths and counts, truncated records.
#[test]
fn damage_is_found_or_does_no_harm() {
    let Some((device, stream)) = device() else { return };
    let mut random = Random(77);
    let mut tally = Tally::default();
    let rounds = pick(300, unless_tiny(40, 12));
    for (number, good) in small_streams().into_iter().enumerate() {
        let expected = try_decompress(&good).unwrap();
        let records = records_of(&good);
        let coded: Vec<usize> = (0..records.len()).filter(|&chunk| is_coded(&records[chunk])).collect();
        for round in 0..rounds {
            let mut damaged = records.clone();
            let own = coded[random.below(coded.len() as u64) as usize];
            let record = &mut damaged[own];
            let lengths: Vec<u32> =
                record[32..72].chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
            let codes = lengths[..3].iter().fold(80, |at, &bytes| at + u64::from(bytes.next_multiple_of(16)));
            let end = codes + u64::from(lengths[3]);
            match round % 6 {
                0 => damage::flip(record, &mut random, 0..end),
                1 => damage::flip(record, &mut random, codes..end.min(codes + 90)),
                2 => damage::lie(record, &mut random, codes, (end - codes).min(120) / 4),
                3 => damage::flip(record, &mut random, 32..(80 + u64::from(lengths[0]))),
                4 => damage::flip(record, &mut random, codes..end),
                _ => damage::cut(record, &mut random),
            }
            if round % 8 != 0 {
                repair_checksum(record);
            }
            let made = with_records(&good, &damaged);
            let info = StreamInfo::from_bytes(&made).unwrap();
            let mut decompressor = Decompressor::new(device, stream.clone(), &info).unwrap();
            tally.add(
                try_decompress(&made),
                on_gpu::<f32>(&mut decompressor, &stream, &made),
                &expected,
                &format!("stream {number}, round {round}"),
            );
        }
    }
    assert!(tally.found >= rounds && tally.harmless >= rounds / 12, "{tally:?}");
}

/// Chunks with token codebooks are rejected if the header does not announce them, and strategies that decode Huffman
/// streams themselves if it does.
#[test]
fn token_codes_that_nobody_announced_are_refused() {
    let Some((device, stream)) = device() else { return };
    let good = small_streams().remove(0);
    let (header, _) = opened(&good);
    let announced = StreamInfo::from_bytes(&good).unwrap();
    assert!(Decompressor::with_way(device, stream.clone(), &announced, Strategy::Fused).is_err());
    let bytes = with_header(&good, &Header { token_codes: false, ..header });
    let info = StreamInfo::from_bytes(&bytes).unwrap();
    let mut decompressor = Decompressor::new(device, stream.clone(), &info).unwrap();
    assert!(try_decompress(&bytes).is_err());
    assert!(matches!(on_gpu::<f32>(&mut decompressor, &stream, &bytes), Err(CudaError::Core(_))));
}
