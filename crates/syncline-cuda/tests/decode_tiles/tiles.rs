//! Every predictor, scheme, and kind of codes, in tiles of every shape: streams whose records are changed so that they
//! are still valid.

use syncline_core::container::HEADER_LEN;
use syncline_cuda::container::parse::{RecordParser, Records};
use syncline_cuda::container::parsed::PROBLEM_WORDS;
use syncline_cuda::decode::{Decoding, TileDecoder};
use syncline_cuda::device::Arena;
use syncline_cuda::geometry::{ChunkBatch, DeviceGeometry};
use syncline_cuda::predict::InterpolationPlans;

use super::*;
use crate::common::damage::sections;
use crate::mutants::{TILES, repair_checksums};

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
    let mut different = 0;
    for (axes, extents) in (1u8..).zip(CLIPPED) {
        for whole in [false, true] {
            let extents = if whole { WHOLE[axes as usize - 1] } else { extents };
            let values = waves(extents, 0.003);
            let making = Making::default();
            let good = compress(&bytes_of::<f32>(&values), ElementType::F32, extents, Bound::Abs(1e-3), &making);
            let info = StreamInfo::from_bytes(&good).unwrap();
            let mut decompressor = settled(device, &stream, &info);
            let schemes = if axes == 1 { 1..5 } else { 1..9 };
            for (scheme, first) in schemes.flat_map(|scheme| [0, 3, 6].map(|first| (scheme, first))) {
                if !share.takes() {
                    continue;
                }
                let mut bytes = good.clone();
                for record in table_of(&good) {
                    let tiles = sections(&bytes[record.clone()])[TILES].clone();
                    let head = record.start + tiles.start + 4;
                    bytes[head..head + 4].copy_from_slice(&[scheme, first, first + 1, first + 2]);
                }
                repair_checksums(&mut bytes);
                let expected = try_decompress(&bytes).unwrap();
                different += usize::from(expected != try_decompress(&good).unwrap());
                let out = on_gpu(&mut decompressor, &stream, &bytes).unwrap();
                let wrong = out.iter().zip(&expected).position(|(a, b)| a != b);
                let what = format!("{extents:?} scheme {scheme} predictors from {first}");
                assert!(out == expected, "{what}: differs at element {:?}", wrong.map(|at| at / 4));
            }
        }
    }
    assert!(different > 0);
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
            comes_back(device, &stream, &made, &format!("{extents:?} {bound}"));
        }
    }
}

/// Returns how many tiles of a stream of one batch the kernels of ordinary tiles leave over.
fn left_over<T: Real>(device: &Device, stream: &Arc<CudaStream>, bytes: &[u8]) -> u32 {
    let (header, geometry) = opened(bytes);
    let info = StreamInfo::from_bytes(bytes).unwrap();
    let lengths: Vec<u32> = (0..geometry.chunks()).map(|chunk| info.record(chunk).1 as u32).collect();
    let batch = ChunkBatch::new(&geometry, 0..geometry.chunks()).unwrap();
    let input = stream.clone_htod(bytes).unwrap();
    let mut output = stream.alloc_zeros::<u8>(geometry.elements() as usize * size_of::<T>()).unwrap();
    let mut problems = stream.alloc_zeros::<u32>(lengths.len() * PROBLEM_WORDS).unwrap();
    let mut arena = Arena::new(stream.clone());
    let mut frame = arena.frame().unwrap();
    let records = Records { input: &input.as_view(), first: HEADER_LEN as u64, lengths: &lengths };
    let on_device = DeviceGeometry::new(&geometry);
    let parser = RecordParser::new(device, size_of::<T>()).unwrap();
    let problems = problems.as_view_mut();
    let mut parsed = parser.parse(&mut frame, records, &header, &on_device, &batch, problems, None).unwrap();
    let decoder = TileDecoder::new(device, stream, &header, &geometry).unwrap();
    let work = Decoding {
        input: &input.as_view(),
        batch: &batch,
        tiles: 0..geometry.tiles(),
        output: &mut output.as_view_mut(),
        first_element: 0,
    };
    let plans = InterpolationPlans::of_stream(stream, &header, &geometry).unwrap();
    decoder.decode(&mut frame, &mut parsed, &plans, work).unwrap();
    assert!(stream.clone_dtoh(&parsed.problems).unwrap().iter().all(|&bits| bits == 0));
    stream.clone_dtoh(&parsed.listed.slice(..1)).unwrap()[0]
}

/// Arrays of whole tiles along one, two, and three axes.
const WHOLE: [&[u64]; 3] = [&[16 * 1024], &[128, 192], &[16, 32, 48]];

/// The kernels of ordinary tiles decode all tiles that they are made for.
#[test]
fn ordinary_tiles_are_not_left_over() {
    let Some((device, stream)) = device() else { return };
    for extents in WHOLE {
        for (noise, bound) in [(0.0, 1e-3), (0.01, 1e-2), (0.5, 1e-4)] {
            let values = waves(extents, noise);
            let making = Making { chunk_tiles: Some(23), ..Making::default() };
            let made = |values: &[f64]| {
                compress(&bytes_of::<f32>(values), ElementType::F32, extents, Bound::Abs(bound), &making)
            };
            let what = format!("{extents:?} noise {noise}");
            assert_eq!(left_over::<f32>(device, &stream, &made(&values)), 0, "{what}");
            comes_back(device, &stream, &made(&values), &what);
            // A value that no code has makes one tile special.
            let mut special = values.clone();
            special[1000] = f64::INFINITY;
            assert_eq!(left_over::<f32>(device, &stream, &made(&special)), 1, "{what}");
        }
    }
}
