//! Quantized streams of the CPU are parsed and decoded on the device to the CPU's values: every kind of stream and
//! tile, parts of arrays, golden files, damage, and a CUDA graph.

#![allow(unsafe_code)]

mod blocks;
#[path = "../common/mod.rs"]
mod common;
mod damage;
mod mutants;
#[path = "../common/parts.rs"]
mod parts;
#[path = "../common/real.rs"]
mod real;
#[path = "../common/stream.rs"]
mod stream;
mod tiles;

use std::sync::Arc;

use common::{Random, Share, pick, unless_tiny, unless_tiny_one};
use cudarc::driver::CudaStream;
use cudarc::driver::sys::{CUgraphInstantiate_flags_enum, CUstreamCaptureMode};
use parts::{check_parts, comes_back};
use real::{Real, bytes_of, on_gpu};
use stream::{Making, compress, opened, try_decompress};
use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, Fill};
use syncline_core::container::{ChunkTable, Header, TileSection, table_and_trailer};
use syncline_core::geometry::TileSize;
use syncline_cuda::cudarc;
use syncline_cuda::device::Device;
use syncline_cuda::error::CudaError;
use syncline_cuda::pipeline::{Decompressor, StreamInfo};

/// Returns the GPU and a new stream, which may be captured.
fn device() -> Option<(&'static Device, Arc<CudaStream>)> {
    let device = common::device()?;
    // SAFETY: every test works on one stream, and the decompressor orders its second stream by events.
    unsafe { device.context().disable_event_tracking() };
    Some((device, device.context().new_stream().unwrap()))
}

/// Returns a field with smooth and constant parts, jumps, fill values, NaN, zeros of both signs, and noise that makes
/// chunks raw.
fn field(extents: &[u64], seed: u64, wild: bool) -> Vec<f64> {
    let mut random = Random(seed);
    let nx = extents.last().copied().unwrap_or(1).max(1);
    let count: u64 = extents.iter().product();
    let mut value = |i: u64| {
        let (x, y) = ((i % nx) as f64, (i / nx) as f64);
        let smooth = (x * 0.11).sin() * 3.0 + (y * 0.013).cos() * 2.0;
        let part = if wild { i / 2500 % 9 } else { 0 };
        match part {
            1 => 1.5,
            2 if random.below(30) == 0 => smooth * 40.0,
            3 if !(i / 3).is_multiple_of(5) => f64::NAN,
            4 if (i / 7).is_multiple_of(3) => -9999.0,
            5 if random.below(50) == 0 => [f64::INFINITY, -0.0, 0.0, f64::NEG_INFINITY][random.below(4) as usize],
            6 => (random.unit() - 0.5) * 2000.0,
            7 => -smooth,
            _ => smooth + random.unit() * 0.01 + 4.5,
        }
    };
    (0..count).map(&mut value).collect()
}

fn table(bytes: &[u8]) -> ChunkTable {
    let (header, geometry) = opened(bytes);
    let read = |at: u64, length: usize| Ok(bytes[at as usize..at as usize + length].to_vec());
    ChunkTable::read(bytes.len() as u64, &header, geometry.chunks(), read).unwrap()
}

/// Returns a decompressor after its memory has been allocated. Allocations are ordered on streams, and the second
/// stream first writes the starts of records to its own memory. Without waiting for the allocation, initcheck reports
/// these as uninitialized, although the hashes computed with them are correct.
fn settled(device: &Device, stream: &Arc<CudaStream>, info: &StreamInfo) -> Decompressor {
    let decompressor = Decompressor::new(device, stream.clone(), info).unwrap();
    stream.synchronize().unwrap();
    decompressor
}

const SHAPES: [&[u64]; 10] = [
    &[50_000],
    &[1],
    &[33, 32, 17],
    &[130, 700],
    &[2, 3, 50, 60],
    &[4097],
    &[8, 8, 8],
    &[40, 60, 50],
    &[5, 1, 333],
    &[],
];

fn every_kind<T: Real>(log: bool) {
    let Some((device, stream)) = device() else { return };
    let bound = if log { Bound::PwRel(1e-2) } else { Bound::Abs(0.01) };
    let mut share = Share::one_in(7);
    for extents in SHAPES {
        for wild in [false, true] {
            let values = field(extents, 3, wild);
            let bytes = bytes_of::<T>(&values);
            for (chunk_tiles, fill) in [(None, Fill::Auto), (Some(7), Fill::Value(-9999.0)), (Some(20), Fill::Auto)] {
                if !share.takes() {
                    continue;
                }
                let making = Making { fill, chunk_tiles, ..Making::default() };
                let made = compress(&bytes, T::TYPE, extents, bound, &making);
                let what = format!("{} {extents:?}, wild {wild}, {making:?}", T::TYPE);
                if stream::is_lossy(&made) {
                    comes_back(device, &stream, &made, &what);
                }
            }
        }
    }
}

#[test]
fn streams_of_f32_come_back() {
    every_kind::<f32>(false);
}

#[test]
fn streams_of_f64_come_back() {
    every_kind::<f64>(false);
}

#[test]
fn logarithms_of_f32_come_back() {
    every_kind::<f32>(true);
}

#[test]
fn logarithms_of_f64_come_back() {
    every_kind::<f64>(true);
}

#[test]
fn other_bounds_and_contents_come_back() {
    let Some((device, stream)) = device() else { return };
    let extents = pick([48, 64, 80], [16, 24, 40]);
    let elements = extents.iter().product::<u64>() as usize;
    let values = field(&extents, 9, false);
    for bound in [Bound::Rel(1e-2), Bound::Rel(1e-4), Bound::Psnr(70.0), Bound::Abs(1e-5), Bound::Abs(3.0)] {
        let made = compress(&bytes_of::<f32>(&values), ElementType::F32, &extents, bound, &Making::default());
        comes_back(device, &stream, &made, &format!("{bound:?}"));
    }
    // Only constant tiles; and all values NaN but one.
    let mut flat = vec![2.5; elements];
    flat[100] = 2.6;
    let made = compress(&bytes_of::<f32>(&flat), ElementType::F32, &extents, Bound::Abs(0.2), &Making::default());
    comes_back(device, &stream, &made, "constant");
    let mut nan = vec![f64::NAN; elements];
    (nan[5000], nan[5001]) = (1.0, 2.0);
    let made = compress(&bytes_of::<f64>(&nan), ElementType::F64, &extents, Bound::Abs(0.2), &Making::default());
    comes_back(device, &stream, &made, "NaN");
}

#[test]
fn many_small_chunks_come_back() {
    let Some((device, stream)) = device() else { return };
    // Large enough for more than one batch of records.
    let extents = [pick(700, 300) * 1024];
    let values = field(&extents, 5, true);
    let making = Making { chunk_tiles: Some(1), ..Making::default() };
    let made = compress(&bytes_of::<f32>(&values), ElementType::F32, &extents, Bound::Abs(0.01), &making);
    comes_back(device, &stream, &made, "small chunks");
}

/// Tiles of a range are decompressed from the records that they need.
#[test]
fn parts_come_back_and_nothing_else_is_touched() {
    let Some((device, stream)) = device() else { return };
    let mut random = Random(21);
    let usual = [&[40_u64, 60, 50][..], &[130, 700], &[50_000]];
    for (number, extents) in unless_tiny(usual, [&[20, 25, 50], &[66, 330], &[12_000]]).into_iter().enumerate() {
        let values = field(extents, 8, true);
        for &chunk_tiles in unless_tiny_one(&[10, 7, 300], number) {
            let making = Making { chunk_tiles: Some(chunk_tiles), ..Making::default() };
            let bytes = compress(&bytes_of::<f32>(&values), ElementType::F32, extents, Bound::Abs(0.01), &making);
            check_parts(device, &stream, &bytes, &mut random);
        }
    }
}

const GOLDEN: [(&str, &[u8]); 7] = [
    ("f32_1d_outliers", include_bytes!("../../../../testdata/golden/v1_f32_1d_outliers.syn")),
    ("f32_2d_abs_fill", include_bytes!("../../../../testdata/golden/v1_f32_2d_abs_fill.syn")),
    ("f32_2d_pw_rel", include_bytes!("../../../../testdata/golden/v1_f32_2d_pw_rel.syn")),
    ("f32_3d_rel", include_bytes!("../../../../testdata/golden/v1_f32_3d_rel.syn")),
    ("f32_empty", include_bytes!("../../../../testdata/golden/v1_f32_empty.syn")),
    ("f64_4d_psnr", include_bytes!("../../../../testdata/golden/v1_f64_4d_psnr.syn")),
    ("f64_2d_lossless", include_bytes!("../../../../testdata/golden/v1_f64_2d_lossless.syn")),
];

#[test]
fn golden_streams_come_back() {
    let Some((device, stream)) = device() else { return };
    let mut lossy = 0;
    for (name, bytes) in GOLDEN {
        let info = StreamInfo::from_bytes(bytes).unwrap();
        // The device's copy of the stream gives the same description.
        let copy = stream.clone_htod(bytes).unwrap();
        let again = StreamInfo::from_device(&stream, &copy.as_view()).unwrap();
        assert_eq!((again.header(), again.geometry()), (info.header(), info.geometry()));
        match Decompressor::new(device, stream.clone(), &info) {
            Err(CudaError::Unsupported(_)) => assert!(!stream::is_lossy(bytes), "{name}"),
            Err(error) => panic!("{name}: {error}"),
            Ok(_) => comes_back(device, &stream, bytes, name),
        }
        lossy += usize::from(stream::is_lossy(bytes));
    }
    assert!(lossy >= 5, "{lossy}");
}

#[test]
fn an_empty_array_comes_back() {
    let Some((device, stream)) = device() else { return };
    let one = compress(&bytes_of::<f32>(&[1.0; 40]), ElementType::F32, &[40], Bound::Abs(0.5), &Making::default());
    for extents in [&[0_u64][..], &[3, 0, 5]] {
        let header = Header { shape: Shape::new(extents).unwrap(), ..opened(&one).0 };
        let made = stream::of_records(&header, &[]);
        comes_back(device, &stream, &made, "empty");
    }
}

#[test]
fn a_graph_of_the_work_can_be_replayed() {
    let Some((device, stream)) = device() else { return };
    let extents = unless_tiny([40, 60, 50], [16, 24, 40]);
    for bound in [Bound::Abs(0.01), Bound::PwRel(0.01)] {
        let making = Making { chunk_tiles: Some(unless_tiny(64, 20)), ..Making::default() };
        let of =
            |seed| compress(&bytes_of::<f32>(&field(&extents, seed, true)), ElementType::F32, &extents, bound, &making);
        let bytes = of(1);
        let info = StreamInfo::from_bytes(&bytes).unwrap();
        let expected = try_decompress(&bytes).unwrap();
        let mut decompressor = Decompressor::new(device, stream.clone(), &info).unwrap();
        let mut input = stream.clone_htod(&bytes).unwrap();
        let mut output = stream.alloc_zeros::<u8>(info.decompressed_len() as usize).unwrap();
        stream.synchronize().unwrap();
        stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).unwrap();
        decompressor.decompress(&input.as_view(), &mut output.as_view_mut()).unwrap();
        let flags = CUgraphInstantiate_flags_enum(0);
        let graph = stream.end_capture(flags).unwrap().unwrap();
        for _ in 0..unless_tiny(2, 1) {
            stream.memset_zeros(&mut output).unwrap();
            graph.launch().unwrap();
            decompressor.check().unwrap();
            let out = stream.clone_dtoh(&output).unwrap();
            assert!(out == expected, "{bound:?}");
        }
        // The graph reads the stream when it is launched.
        let mut damaged = bytes.clone();
        let (at, length) = info.record(0);
        damaged[at as usize + length / 2] ^= 4;
        stream.memcpy_htod(&damaged, &mut input).unwrap();
        graph.launch().unwrap();
        assert!(matches!(decompressor.check(), Err(CudaError::Core(_))));
    }
}

/// One decompressor after the other takes over the memory: larger and smaller arrays, and both types.
#[test]
fn another_stream_takes_over_the_memory() {
    let Some((device, stream)) = device() else { return };
    let mut former: Option<Decompressor> = None;
    let mut reserved = Vec::new();
    let shapes = [vec![5, 20, 30], vec![40, 90], vec![5, 20, 30], vec![900], vec![5, 20, 30]];
    for (number, extents) in shapes.into_iter().enumerate() {
        let making = Making { chunk_tiles: Some(4), ..Making::default() };
        let values = field(&extents, number as u64, true);
        let double = number % 2 == 1;
        let (elements, bytes) = match double {
            true => (ElementType::F64, bytes_of::<f64>(&values)),
            false => (ElementType::F32, bytes_of::<f32>(&values)),
        };
        let compressed = compress(&bytes, elements, &extents, Bound::Abs(0.01), &making);
        let info = StreamInfo::from_bytes(&compressed).unwrap();
        let mut decompressor = match former.take() {
            Some(former) => former.for_stream(device, &info).unwrap(),
            None => settled(device, &stream, &info),
        };
        stream.synchronize().unwrap();
        let expected = try_decompress(&compressed).unwrap();
        let out = match double {
            true => on_gpu(&mut decompressor, &stream, &compressed),
            false => on_gpu(&mut decompressor, &stream, &compressed),
        };
        assert!(out.unwrap() == expected, "{extents:?}");
        reserved.push(decompressor.workspace_bytes());
        former = Some(decompressor);
    }
    // The last stream needs no more than the one before it of the same shape.
    assert_eq!(reserved[4], reserved[2]);
}

#[test]
fn wrong_arguments_are_refused() {
    let Some((device, stream)) = device() else { return };
    let extents = [20, 20, 20];
    let bytes = compress(
        &bytes_of::<f32>(&field(&extents, 1, false)),
        ElementType::F32,
        &extents,
        Bound::Abs(0.01),
        &Making::default(),
    );
    let info = StreamInfo::from_bytes(&bytes).unwrap();
    let mut decompressor = Decompressor::new(device, stream.clone(), &info).unwrap();
    let input = stream.clone_htod(&bytes).unwrap();
    let mut right = stream.alloc_zeros::<u8>(32_000).unwrap();
    let mut short = stream.alloc_zeros::<u8>(31_996).unwrap();
    let mut misaligned = stream.alloc_zeros::<u8>(32_002).unwrap();
    let view = input.as_view();
    let invalid = |result: Result<(), CudaError>| assert!(matches!(result, Err(CudaError::InvalidArgument(_))));
    invalid(decompressor.decompress(&view, &mut short.as_view_mut()));
    invalid(decompressor.decompress(&view, &mut misaligned.slice_mut(2..)));
    invalid(decompressor.decompress(&view.slice(16..), &mut right.as_view_mut()));
    let tiles = 0..info.geometry().tiles();
    invalid(decompressor.decompress_tiles(&view, 160, tiles.clone(), &mut right.as_view_mut(), 0));
    invalid(decompressor.decompress_tiles(&view.slice(8..), 0, tiles.clone(), &mut right.as_view_mut(), 0));
    invalid(decompressor.decompress_tiles(&view, 0, tiles, &mut right.as_view_mut(), 1));
    decompressor.decompress(&view, &mut right.as_view_mut()).unwrap();
    decompressor.check().unwrap();
}
