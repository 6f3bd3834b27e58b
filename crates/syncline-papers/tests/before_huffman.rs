//! cuSZ with GPULZ before its Huffman coder: values come back within the bound, and GPUs make the streams of the CPU.

#[path = "../../syncline-cuda/tests/common/mod.rs"]
mod common;

use common::{pick, unless_tiny};
use syncline_core::array::{ElementType, Shape};
use syncline_core::error::Error;
use syncline_cuda::lossless::{LosslessCompressor, LosslessDecompressor};
use syncline_cuda::pipeline::{StreamInfo, compress_bound};
use syncline_papers::cusz_gpulz_2023::{OPTIONS, Quantization, RADIUS, compress_codes, decompress_codes};

const BOUND: f64 = 1e-2;

/// A smooth field with a flat part, some steps that no code expresses, and values that are not finite.
fn field(extents: &[u64]) -> Vec<f32> {
    let count = extents.iter().product::<u64>();
    let value = |i: u64| match i {
        _ if i % 5000 == 77 => f32::NAN,
        _ if i % 3000 == 50 => 1e30,
        _ if i % 900 == 13 => 100.0,
        _ if i % count.div_ceil(2).max(1) < count / 4 => 1.0,
        _ => (i as f32 * 0.002).sin() * 3.0,
    };
    (0..count).map(value).collect()
}

#[test]
fn values_of_every_rank_come_back_within_the_bound() {
    for extents in [&[5000][..], &[70, 45], &[19, 11, 21], &[3, 9, 5, 7], &[1], &[0]] {
        let (values, shape) = (field(extents), Shape::new(extents).unwrap());
        let quantization = Quantization::new(shape, BOUND);
        let (codes, rare) = quantization.codes(&values);
        let made = compress_codes(&codes).unwrap();
        assert!(decompress_codes(&made).unwrap() == codes, "{extents:?}");
        let back = quantization.values(&codes, &rare).unwrap();
        for (i, (&value, &back)) in values.iter().zip(&back).enumerate() {
            let kept = value.to_bits() == back.to_bits() || f64::from(value - back).abs() < BOUND;
            assert!(kept, "{extents:?}: value {i} is {back}, not {value}");
        }
        assert_eq!(back.len(), values.len());
    }
}

#[test]
fn residuals_beyond_the_radius_have_code_0() {
    let step = 2.0 * BOUND as f32;
    let integers = [0, RADIUS - 1, 2 * RADIUS - 1, 0];
    let values = integers.map(|q| q as f32 * step);
    let quantization = Quantization::new(Shape::new(&[4]).unwrap(), BOUND);
    let (codes, rare) = quantization.codes(&values);
    let middle = RADIUS as u16;
    assert_eq!((codes, rare.residuals), (vec![middle, 2 * middle - 1, 0, 0], vec![RADIUS, 1 - 2 * RADIUS]));
}

#[test]
fn codes_that_do_not_fit_the_rest_are_errors() {
    let values = field(&[3000]);
    let quantization = Quantization::new(Shape::new(&[3000]).unwrap(), BOUND);
    let (codes, rare) = quantization.codes(&values);
    let mut wrong = vec![(codes[1..].to_vec(), rare.clone())];
    for length in [rare.residuals.len() - 1, rare.residuals.len() + 1] {
        let mut rare = rare.clone();
        rare.residuals.resize(length, 0);
        wrong.push((codes.clone(), rare));
    }
    let mut outside = rare;
    outside.exact.push((3000, 1.0));
    wrong.push((codes, outside));
    for (codes, rare) in wrong {
        assert!(matches!(quantization.values(&codes, &rare), Err(Error::Corrupt { .. })));
    }
}

#[test]
fn gpu_makes_the_stream_of_the_cpu_and_reads_it() {
    let Some(device) = common::device_with(&syncline_papers::HEADERS) else { return };
    let stream = device.context().new_stream().unwrap();
    let extents = [unless_tiny(100, 9), pick(120, 17), 40];
    let (codes, _) = Quantization::new(Shape::new(&extents).unwrap(), BOUND).codes(&field(&extents));
    let expected = compress_codes(&codes).unwrap();

    let bytes: Vec<u8> = codes.iter().flat_map(|code| code.to_le_bytes()).collect();
    let shape = Shape::new(&[codes.len() as u64]).unwrap();
    let input = stream.clone_htod(&bytes).unwrap();
    let mut output = stream.alloc_zeros::<u8>(compress_bound(ElementType::U16, shape) as usize).unwrap();
    let mut compressor = LosslessCompressor::new(device, &stream).unwrap();
    let made =
        compressor.compress(&input.as_view(), ElementType::U16, shape, &OPTIONS, &mut output.as_view_mut()).unwrap();
    let on_gpu = stream.clone_dtoh(&output.slice(..made.bytes as usize)).unwrap();
    assert!(on_gpu == expected, "{} bytes on the GPU, {} on the CPU", on_gpu.len(), expected.len());

    let info = StreamInfo::from_bytes(&expected).unwrap();
    let mut decompressor = LosslessDecompressor::new(device, stream.clone(), &info).unwrap();
    let mut back = stream.alloc_zeros::<u8>(bytes.len()).unwrap();
    decompressor.decompress(&output.slice(..expected.len()), &mut back.as_view_mut()).unwrap();
    decompressor.check().unwrap();
    assert!(stream.clone_dtoh(&back).unwrap() == bytes);
}
