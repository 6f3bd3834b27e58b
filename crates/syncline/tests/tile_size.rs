//! Streams of tiles and of blocks: bounds, regions, equal bytes from all APIs.

mod common;

use std::io::Read;

use common::{Real, Rng, check_bound, smooth};
use proptest::prelude::*;
use syncline::{
    ArrayStats, ArrayView, Backend, Bound, CompressOptions, CudaDevices, DecompressOptions, Effort, Fill, Pipeline,
    Reader, Salvage, SequentialReader, TileSize, Writer, compress, decompress, decompress_region, inspect,
};

/// The efforts that stand for tiles and for blocks.
const EFFORTS: [Effort; 2] = [Effort::Fast, Effort::Balanced];

fn options(effort: Effort, bound: Bound) -> CompressOptions {
    CompressOptions::new(bound).with_effort(effort).with_threads(1).with_backend(Backend::Cpu)
}

fn tile_size(effort: Effort) -> TileSize {
    if effort == Effort::Fast { TileSize::Small } else { TileSize::Block }
}

/// Returns a smooth field with fill values, and values that no step serves.
fn field(extents: &[u64], seed: u64) -> Vec<f64> {
    let mut rng = Rng(seed);
    let value = |value: f64| match rng.next() % 3000 {
        0 => f64::NAN,
        1 => f64::NEG_INFINITY,
        2 => 1e30,
        3 => -0.0,
        4..400 => -9999.0,
        _ => value * 3.0,
    };
    smooth(extents, seed).into_iter().map(value).collect()
}

fn as_type<T: Real>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&value| T::from_f64(value)).collect()
}

#[test]
fn every_type_shape_and_bound_holds() {
    const EXTENTS: [&[u64]; 9] =
        [&[], &[0], &[1], &[9000], &[130, 70], &[64, 64], &[33, 20, 37], &[3, 9, 17, 12], &[2, 3, 4, 5, 6, 9]];
    let mut interpolated = 0;
    for extents in EXTENTS {
        for bound in [Bound::Abs(2.0), Bound::Abs(1e-2), Bound::Rel(1e-6), Bound::Psnr(80.0), Bound::PwRel(1e-2)] {
            for (effort, fill) in [
                (Effort::Fast, Fill::Value(-9999.0)),
                (Effort::Fast, Fill::None),
                (Effort::Balanced, Fill::Value(-9999.0)),
                (Effort::Balanced, Fill::None),
            ] {
                let options = options(effort, bound).with_fill(fill);
                let values = field(extents, 3);
                for stream in [
                    check_bound(&as_type::<f32>(&values), extents, &options).0,
                    check_bound(&as_type::<f64>(&values), extents, &options).0,
                ] {
                    let report = inspect(&stream).unwrap();
                    let expected = match report.pipeline {
                        Pipeline::Quantized => tile_size(effort),
                        _ => TileSize::Small,
                    };
                    assert_eq!(report.tile_size, expected);
                    interpolated += report.totals.interpolated_tiles;
                }
            }
        }
    }
    assert!(interpolated > 100, "{interpolated}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_bits_hold_the_bound(
        bits in prop::collection::vec(any::<u32>(), 1..9000),
        rows in 1..90u64,
        bound in prop::sample::select(vec![Bound::Abs(1e-2), Bound::Abs(1e9), Bound::Rel(1e-3), Bound::PwRel(1e-3)]),
        effort in prop::sample::select(EFFORTS.to_vec()),
    ) {
        let values: Vec<f32> = bits.iter().map(|&bits| f32::from_bits(bits)).collect();
        let columns = values.len() as u64 / rows;
        check_bound(&values[..(rows * columns) as usize], &[rows, columns], &options(effort, bound));
    }

    #[test]
    fn regions_are_cut_from_the_whole(
        extents in prop::collection::vec(1..60u64, 1..=3),
        cuts in prop::collection::vec((0.0..1.0f64, 0.0..1.0f64), 3),
        effort in prop::sample::select(EFFORTS.to_vec()),
    ) {
        let values = as_type::<f32>(&field(&extents, 7));
        let (stream, whole) = check_bound(&values, &extents, &options(effort, Bound::Abs(1e-3)));
        let whole = whole.to_vec::<f32>().unwrap();
        let region: Vec<_> = extents.iter().zip(&cuts).map(|(&extent, &(a, b))| {
            let (a, b) = ((a * extent as f64) as u64, (b * (extent + 1) as f64) as u64);
            a.min(b)..a.max(b)
        }).collect();
        let part = decompress_region(&stream, &region, &DecompressOptions::default()).unwrap().to_vec::<f32>().unwrap();
        let is_inside = |mut number: u64| extents.iter().zip(&region).rev().all(|(&extent, range)| {
            let at = number % extent;
            number /= extent;
            range.contains(&at)
        });
        let expected = (0..).zip(&whole).filter(|&(number, _)| is_inside(number)).map(|(_, value)| value.to_bits());
        prop_assert!(expected.eq(part.iter().map(|value| value.to_bits())));
    }
}

#[test]
fn every_reader_and_writer_has_tiles_and_blocks() {
    for effort in EFFORTS {
        check_readers_and_writers(effort);
    }
}

fn check_readers_and_writers(effort: Effort) {
    let extents = [70, 90, 100];
    let values = as_type::<f32>(&field(&extents, 5));
    let view = ArrayView::new(&values, &extents).unwrap();
    let options = options(effort, Bound::Abs(1e-3)).with_fill(Fill::Value(-9999.0));
    let stream = compress(&view, &options).unwrap();
    assert!(compress(&view, &options.clone().with_threads(3)).unwrap() == stream);
    let stats = ArrayStats::of(&view, options.bound(), options.fill()).unwrap();
    let mut writer = Writer::with_stats(Vec::new(), view.shape(), &options, &stats).unwrap();
    view.bytes().chunks(100_003).for_each(|part| writer.push(part).unwrap());
    assert!(writer.finish().unwrap() == stream);

    let whole = decompress(&stream, &DecompressOptions::default()).unwrap();
    let mut in_order = Vec::new();
    SequentialReader::new(&stream[..], DecompressOptions::default()).unwrap().copy_to(&mut in_order).unwrap();
    assert!(in_order == whole.bytes());
    let mut reader = Reader::new(std::io::Cursor::new(&stream), DecompressOptions::default()).unwrap();
    let mut copied = Vec::new();
    reader.read_to_end(&mut copied).unwrap();
    assert!(copied == whole.bytes());

    let mut damaged = stream.clone();
    damaged[stream.len() / 2] ^= 1;
    assert!(decompress(&damaged, &DecompressOptions::default()).is_err());
    let salvage = Salvage::open(damaged.as_slice()).unwrap();
    let (report, losses) = salvage.inspect(&DecompressOptions::default()).unwrap();
    assert_eq!((losses.len(), report.tile_size), (1, tile_size(effort)));
}

/// As rain, most of which is none. Masks of its zeros would take more than all values do.
#[test]
fn zeros_between_small_values_take_no_masks() {
    let mut rng = Rng(5);
    let mut values = vec![0.0; 60 * 60 * 60];
    for value in &mut values {
        *value = match rng.next() % 500 {
            0 => 2.0,
            1..100 => 0.05 * rng.unit() as f32,
            _ => 0.0,
        };
    }
    let options = options(Effort::Balanced, Bound::Abs(0.1)).with_fill(Fill::None);
    let (stream, array) = check_bound(&values, &[60, 60, 60], &options);
    assert!(stream.len() < values.len() / 50, "{}", stream.len());
    let same_zeros = |(&a, b): (&f32, f32)| a != 0.0 || b.to_bits() == 0;
    assert!(values.iter().zip(array.to_vec::<f32>().unwrap()).all(same_zeros));
}

#[test]
fn best_stands_for_blocks() {
    let values = as_type::<f32>(&field(&[40, 50, 30], 5));
    let view = ArrayView::new(&values, &[40, 50, 30]).unwrap();
    let stream = |effort| compress(&view, &options(effort, Bound::Abs(1e-3))).unwrap();
    assert!(stream(Effort::Best) == stream(Effort::Balanced));
}

#[test]
fn lossless_streams_have_tiles() {
    let values: Vec<f32> = (0..10_000).map(|i| (i as f32 / 70.0).sin()).collect();
    let view = ArrayView::new(&values, &[100, 100]).unwrap();
    for effort in Effort::ALL {
        let lossless = compress(&view, &options(effort, Bound::Lossless)).unwrap();
        assert_eq!(inspect(&lossless).unwrap().tile_size, TileSize::Small);
    }
}

#[test]
fn a_gpu_makes_the_same_stream_or_is_missing() {
    let values: Vec<f32> = (0..10_000).map(|i| (i as f32 / 70.0).sin()).collect();
    let view = ArrayView::new(&values, &[100, 100]).unwrap();
    for effort in EFFORTS {
        let options = options(effort, Bound::Abs(1e-3));
        let expected = compress(&view, &options).unwrap();
        match compress(&view, &options.with_backend(Backend::Cuda(CudaDevices::One(0)))) {
            Ok(stream) => assert!(stream == expected),
            Err(error) => assert!(matches!(error, syncline::Error::Gpu { .. }), "{error}"),
        }
    }
}
