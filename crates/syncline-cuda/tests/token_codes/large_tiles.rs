//! Streams with large tiles, which only the CPU makes: whole, partial, and damaged ones.

use syncline_core::array::ElementType;
use syncline_core::bound::Bound;
use syncline_core::container::ChunkKind;
use syncline_core::geometry::TileSize;
use syncline_core::tokens::Mode;
use syncline_cuda::pipeline::{Decompressor, StreamInfo};

use super::common::damage::{self, Tally};
use super::common::{Random, Share, pick, unless_tiny};
use super::parts::comes_back;
use super::real::{Real, bytes_of, on_gpu};
use super::stream::{self, Making, compress_by, repair_checksum, try_decompress};
use super::{BALANCED, Data, Seen, device, every_predictor, is_coded, parts_of_shapes, records_of, with_records};

const SHAPES: [&[u64]; 8] =
    [&[50_000], &[33, 32, 17], &[230, 300], &[2, 3, 50, 60], &[1], &[], &[5, 1, 333], &[3, 2, 3]];
/// For racecheck and emulated devices: the same numbers of axes.
const TINY_SHAPES: [&[u64]; 8] =
    [&[4500], &[17, 18, 20], &[70, 66], &[2, 3, 17, 18], &[1], &[], &[5, 1, 70], &[3, 2, 3]];

fn making(chunk_tiles: Option<u32>) -> Making {
    Making { chunk_tiles, tile_size: TileSize::Large, ..Making::default() }
}

fn every_shape<T: Real>(mut share: Share) -> Option<Seen> {
    let (device, stream) = device()?;
    let mut seen = Seen::default();
    for extents in unless_tiny(SHAPES, TINY_SHAPES) {
        for data in Data::ALL {
            let bytes = bytes_of::<T>(&data.values(extents, 3));
            for (bound, chunk_tiles) in [
                (Bound::Abs(0.01), None),
                (Bound::PwRel(0.01), Some(5)),
                (Bound::Rel(1e-6), Some(2)),
                (Bound::Abs(0.002), Some(1)),
            ] {
                if !share.takes() {
                    continue;
                }
                let made = compress_by(&bytes, T::TYPE, extents, bound, &making(chunk_tiles), &BALANCED);
                if stream::is_lossy(&made) {
                    seen.add(&made);
                    comes_back::<T>(device, &stream, &made, &format!("{} {extents:?}, {data:?}, {bound:?}", T::TYPE));
                }
            }
        }
    }
    Some(seen)
}

#[test]
fn large_tiles_of_f32_come_back() {
    let Some(seen) = every_shape::<f32>(Share::one_in(3).if_tiny(5, 0)) else { return };
    assert!(seen.schemes.len() >= pick(3, 2) && seen.modes.len() >= pick(Mode::ALL.len(), 2), "{seen:?}");
}

#[test]
fn large_tiles_of_f64_come_back() {
    let Some(seen) = every_shape::<f64>(Share::one_in(3).if_tiny(5, 2)) else { return };
    assert!(seen.schemes.len() >= pick(3, 2) && seen.modes.len() >= pick(Mode::ALL.len(), 2), "{seen:?}");
}

#[test]
fn every_predictor_of_large_tiles() {
    let making = making(None);
    every_predictor::<f32>(&[&unless_tiny([60, 66, 94], [17, 18, 34])], Bound::Abs(0.01), &[0, 1, 2, 3], &making);
    every_predictor::<f64>(&[&unless_tiny([260, 340], [67, 70])], Bound::Abs(0.01), &[0, 1, 2, 3], &making);
    every_predictor::<f32>(&[&unless_tiny([100_100], [5300])], Bound::Abs(0.01), &[0, 1, 2, 3], &making);
    every_predictor::<f64>(&[&unless_tiny([60, 66, 94], [17, 18, 34])], Bound::PwRel(0.01), &[0], &making);
}

/// Chunks of values that are too large to be quantized are raw.
#[test]
fn raw_chunks_of_large_tiles_come_back() {
    let Some((device, stream)) = device() else { return };
    for extents in [&[97_u64, 16, 16][..], &[400, 60], &[45_000]] {
        let mut random = Random(3);
        let mut values = Data::Smooth.values(extents, 8);
        let len = values.len();
        values[len / 5 * 4..].iter_mut().for_each(|value| *value = (random.unit() - 0.5) * 1e30);
        let bytes = bytes_of::<f32>(&values);
        let made = compress_by(&bytes, ElementType::F32, extents, Bound::Abs(0.01), &making(Some(1)), &BALANCED);
        let mut seen = Seen::default();
        seen.add(&made);
        assert!(seen.kinds.len() == 2 && seen.kinds.contains(&(ChunkKind::Raw as u8)), "{seen:?}");
        comes_back::<f32>(device, &stream, &made, &format!("{extents:?}"));
    }
}

#[test]
fn parts_of_large_tiles_come_back() {
    let usual = [&[40_u64, 60, 50][..], &[130, 700], &[50_000]];
    parts_of_shapes(unless_tiny(usual, [&[17, 20, 12], &[66, 70], &[9000]]), &making(Some(2)));
}

/// Damage that no checksum detects, chunks of other kinds among it, which only small tiles have.
#[test]
fn damage_to_large_tiles_is_found_or_does_no_harm() {
    let Some((device, stream)) = device() else { return };
    let mut random = Random(78);
    let mut tally = Tally::default();
    let rounds = pick(200, unless_tiny(30, 10));
    for (data, bound) in [(Data::Wild, Bound::Abs(0.01)), (Data::Smooth, Bound::PwRel(0.05))] {
        let extents = [33, 20, 40];
        let bytes = bytes_of::<f32>(&data.values(&extents, 4));
        let good = compress_by(&bytes, ElementType::F32, &extents, bound, &making(Some(4)), &BALANCED);
        let expected = try_decompress(&good).unwrap();
        let records = records_of(&good);
        let coded: Vec<usize> = (0..records.len()).filter(|&chunk| is_coded(&records[chunk])).collect();
        for round in 0..rounds {
            let mut damaged = records.clone();
            let record = &mut damaged[coded[random.below(coded.len() as u64) as usize]];
            let end = record.len() as u64;
            match round % 4 {
                0 => damage::flip(record, &mut random, 80..end),
                1 => damage::flip(record, &mut random, 32..end.min(200)),
                2 => record[16] = [ChunkKind::Quantized, ChunkKind::LzssCodes, ChunkKind::Lzss][round / 4 % 3] as u8,
                _ => damage::cut(record, &mut random),
            }
            repair_checksum(record);
            let made = with_records(&good, &damaged);
            let info = StreamInfo::from_bytes(&made).unwrap();
            let mut decompressor = Decompressor::new(device, stream.clone(), &info).unwrap();
            let found = on_gpu::<f32>(&mut decompressor, &stream, &made);
            tally.add(try_decompress(&made), found, &expected, &format!("{data:?}, round {round}"));
        }
    }
    assert!(tally.found >= rounds && tally.harmless >= rounds / 12, "{tally:?}");
}
