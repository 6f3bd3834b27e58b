//! Every predictor, scheme, and kind of codes, in tiles of every shape: streams whose records are changed so that they
//! are still valid.

use super::*;
use crate::mutants::{Section, repair_checksums, sections};

/// Returns a field in which some chunks interpolate.
fn waves(extents: &[u64], noise: f64) -> Vec<f64> {
    let mut random = Random(17);
    let nx = extents.last().copied().unwrap_or(1).max(1);
    let count: u64 = extents.iter().product();
    let wave = |i: u64| ((i % nx) as f64 * 0.21).sin() + ((i / nx) as f64 * 0.17).cos();
    (0..count).map(|i| wave(i) + noise * (random.unit() - 0.5)).collect()
}

/// Extents of arrays with whole and clipped tiles along one, two, and three axes.
const CLIPPED: [&[u64]; 3] = [&[5000], &[70, 81], &[19, 12, 21]];

/// Any codes are those of any predictor, so that records with other predictors and schemes decode to other values.
#[test]
fn predictors_and_schemes_of_any_tile_give_the_cpus_values() {
    let Some((device, stream)) = device() else { return };
    let mut share = Share::one_in(3);
    for (axes, extents) in (1..).zip(CLIPPED) {
        for tile_size in [TileSize::Small, TileSize::Large] {
            let values = waves(extents, 0.003);
            let making = Making { tile_size, ..Making::default() };
            let good = compress(&bytes_of::<f32>(&values), ElementType::F32, extents, Bound::Abs(1e-3), &making);
            let info = StreamInfo::from_bytes(&good).unwrap();
            let mut decompressor = settled(device, &stream, &info);
            let mut different = 0;
            let schemes = if axes == 1 { 1..5 } else { 1..9 };
            for (scheme, first) in schemes.flat_map(|scheme| [0, 3, 6].map(|first| (scheme, first))) {
                if !share.takes() {
                    continue;
                }
                let mut bytes = good.clone();
                for record in table_of(&good) {
                    let tiles = sections(&bytes[record.clone()])[Section::Tiles as usize].clone();
                    let head = record.start + tiles.start + 4;
                    bytes[head..head + 4].copy_from_slice(&[scheme, first, first + 1, first + 2]);
                }
                repair_checksums(&mut bytes);
                let expected = try_decompress(&bytes).unwrap();
                different += usize::from(expected != try_decompress(&good).unwrap());
                let out = on_gpu::<f32>(&mut decompressor, &stream, &bytes).unwrap();
                let wrong = out.iter().zip(&expected).position(|(a, b)| a != b);
                let what = format!("{extents:?} {tile_size:?} scheme {scheme} predictors from {first}");
                assert!(out == expected, "{what}: differs at element {:?}", wrong.map(|at| at / 4));
            }
            assert!(different > 0, "{extents:?} {tile_size:?}");
        }
    }
}

fn table_of(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let table = table(bytes);
    (0..table.chunks()).map(|chunk| table.record(chunk)).map(|(at, length)| at as usize..at as usize + length).collect()
}

/// Tight bounds give codes beyond 16 bits, and strips without zeros.
#[test]
fn large_codes_and_dense_strips_come_back() {
    let Some((device, stream)) = device() else { return };
    for extents in CLIPPED {
        let mut random = Random(5);
        let values: Vec<f64> = waves(extents, 0.0)
            .into_iter()
            .map(|value| if random.below(40) == 0 { value * 1e5 } else { value + random.unit() })
            .collect();
        for bound in [1e-2, 1e-4] {
            let made =
                compress(&bytes_of::<f64>(&values), ElementType::F64, extents, Bound::Abs(bound), &Making::default());
            comes_back::<f64>(device, &stream, &made, &format!("{extents:?} {bound}"));
        }
    }
}
