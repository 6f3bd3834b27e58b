//! The device compresses arrays to the CPU's bytes.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use syncline_core::array::ElementType;
use syncline_core::bound::{Bound, Fill, Pipeline, Resolved};
use syncline_core::container::{HEADER_LEN, Header, Sections, TileSection, parse_record};
use syncline_core::huffman::IndexKind;
use syncline_core::pipeline::CoderOptions;
use syncline_core::predict::interpolate::INTERPOLATION;
use syncline_cuda::cudarc;
use syncline_cuda::device::Device;
use syncline_cuda::error::CudaError;
use syncline_cuda::geometry::Slab;
use syncline_cuda::pipeline::{CompressOptions, Compressor, Decompressor, StreamInfo, compress_bound};

use super::common::streams::{Field, Options};
use super::common::unless_tiny;
use super::stream::{Making, compress_by, opened};
use super::{BALANCED, BEST};

fn no_index() -> Making {
    Making { index: IndexKind::None, ..Making::default() }
}

/// Compares two streams, or parts of them.
fn assert_same(found: &[u8], expected: &[u8], what: &str) {
    let differs = found.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!(differs, None, "{what}: first difference of {} bytes", expected.len());
    assert_eq!(found.len(), expected.len(), "{what}: length");
}

/// Compresses the chunks of an array with the header of a stream that the CPU has made, and compares the records.
pub fn makes_the_same(
    device: &Device,
    stream: &Arc<CudaStream>,
    bytes: &[u8],
    made: &[u8],
    lossless: &CoderOptions,
    what: &str,
) {
    let (header, geometry) = opened(made);
    let upload = stream.clone_htod(&[bytes, &[0; 16]].concat()).unwrap();
    let slab = Slab { bytes: upload.slice(..bytes.len()), first_element: 0 };
    let mut output = stream.clone_htod(&vec![0x5A_u8; compress_bound(header.element_type, header.shape) as usize]);
    let output = output.as_mut().unwrap();
    // Whole arrays in one batch, and batches of one chunk.
    for batch_bytes in unless_tiny(&[1 << 30, 1][..], &[1 << 30]) {
        let mut compressor =
            Compressor::new(device, stream).unwrap().with_coder(*lossless).with_batch_bytes(*batch_bytes);
        let chunks = 0..geometry.chunks();
        let records = compressor
            .compress_chunks(&header, &geometry, chunks, &slab, &mut output.as_view_mut())
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let length = records.lengths.iter().map(|&length| length as usize).sum::<usize>();
        let found = stream.clone_dtoh(&output.slice(..length)).unwrap();
        assert_same(&found, &made[HEADER_LEN..HEADER_LEN + length], what);
    }
}

/// Compresses a whole array and compares the stream with the CPU's.
fn check(field: &Field, options: &Options, lossless: &CoderOptions) {
    let Some((device, stream)) = super::device() else { return };
    let Options { bound, fill, group_log2, .. } = *options;
    let what = format!("{}, {options:?}, {}", field.name, lossless.effort);
    let expected = field.stream_of(options, lossless);
    let room = compress_bound(field.element, field.shape) as usize;
    let input = stream.clone_htod(&field.bytes).unwrap();
    let mut output = stream.clone_htod(&vec![0xA5_u8; room + 64]).unwrap();
    let mut compressor = Compressor::new(device, &stream).unwrap().with_coder(*lossless);
    for _ in 0..unless_tiny(2, 1) {
        let options = CompressOptions { bound, fill, group_log2 };
        let view = &mut output.slice_mut(..room);
        let made = compressor.compress(&input.as_view(), field.element, field.shape, &options, view).unwrap();
        let found = stream.clone_dtoh(&output).unwrap();
        assert_same(&found[..made.bytes as usize], &expected, &what);
        assert!(found[room..].iter().all(|&byte| byte == 0xA5), "{what}: written past the end");
    }
}

#[test]
fn whole_streams_of_every_bound_are_the_same() {
    let cube = unless_tiny(&[70_u64, 60, 80][..], &[17, 20, 24]);
    let smooth = Field::smooth(ElementType::F32, cube, 0.01);
    check(&smooth, &Options::new(Bound::Psnr(60.0)), &BALANCED);
    let plane = unless_tiny(&[600_u64, 700][..], &[70, 66]);
    let doubles = Field::smooth(ElementType::F64, plane, 1e-4);
    check(&doubles, &Options { group_log2: 6, ..Options::new(Bound::Rel(1e-4)) }, &BALANCED);
    check(&doubles, &Options::new(Bound::Psnr(90.0)), &BEST);
}

/// Values next to fill values, zeros, and streams without interpolation.
#[test]
fn fill_values_within_the_range_and_rewritable_streams_are_the_same() {
    let extents = unless_tiny(&[40_u64, 64, 60][..], &[17, 16, 20]);
    let rewritable = CoderOptions { rewritable: true, ..BALANCED };
    for element in [ElementType::F32, ElementType::F64] {
        let field = Field::smooth(element, extents, 1e-4);
        let zeros = field.clone().with("zeros", |i| (i / 40 % 5 == 0).then_some(0.0));
        let both = zeros.clone().with("-0.0 and fill", |i| match i % 97 {
            3 => Some(-0.0),
            4 => Some(0.5),
            _ => None,
        });
        let fill = Fill::of(&[0.5, 0.0]).unwrap();
        let options = Options { fill: Fill::None, ..Options::new(Bound::Abs(0.01)) };
        check(&zeros, &options, &BALANCED);
        check(&both, &Options { fill, ..options }, &BALANCED);
        check(&both, &Options { fill, bound: Bound::PwRel(0.01), ..options }, &BALANCED);
        check(&field, &Options { rewritable: true, fill: Fill::Auto, ..options }, &rewritable);
    }
}

/// Tiles without valid elements take the base of tiles before, from which interpolation starts.
#[test]
fn tiles_without_valid_elements_are_the_same() {
    let Some((device, stream)) = super::device() else { return };
    let extents = unless_tiny(&[40_u64, 64, 64][..], &[24, 16, 20]);
    let layer = 8 * extents[1] * extents[2];
    // Without interpolation, integers are below 2^22. Every other layer of tiles has values that are slightly larger.
    let large = |i: u64| Some(4_194_196.0 + (i % 7) as f64 + if (i / layer).is_multiple_of(2) { 0.0 } else { 150.0 });
    let field = Field::smooth(ElementType::F32, extents, 0.0).with("large", large);
    let holes = field.clone().with("NaN", |i| (i / 5 % 3 == 0).then_some(f64::NAN));
    let both = holes.clone().with("fill", |i| (i % 4 == 0).then_some(-9999.0));
    for (field, patterns) in [(&field, vec![]), (&holes, vec![]), (&both, vec![-9999_f32, 1e30])] {
        let options = Options { fill: Fill::None, ..Options::new(Bound::Abs(0.5)) };
        let patterns = patterns.iter().map(|pattern: &f32| u64::from(pattern.to_bits())).collect();
        let (pipeline, abs_bound, step) = (Pipeline::Quantized, 0.5, 1.0);
        let header = field.header(&options, &Resolved { pipeline, abs_bound, step, ..field.resolve(&options) });
        let (made, _) = field.stream_by(&Header { patterns, token_codes: true, ..header }, &BALANCED);
        let (header, geometry) = opened(&made);
        assert_eq!(header.step, 1.0);
        let (_, payload) = parse_record(super::record(&made, 0), 0).unwrap();
        let sections = Sections::parse(payload, "test").unwrap().0;
        let tiles = geometry.chunk(0).count();
        let section = TileSection::parse(sections[0], tiles, header.patterns.len(), "test").unwrap();
        let row = tiles / (extents[0] as usize / 8);
        let interpolated = section.tiles[row..2 * row].iter().filter(|meta| meta.predictor == INTERPOLATION).count();
        assert!(interpolated > 0, "{}", field.name);
        makes_the_same(device, &stream, &field.bytes, &made, &BALANCED, &field.name);
    }
}

#[test]
fn streams_without_an_index_are_refused() {
    let Some((device, stream)) = super::device() else { return };
    let field = Field::smooth(ElementType::F32, &[100], 0.01);
    let made = compress_by(&field.bytes, field.element, &[100], Bound::Abs(0.01), &no_index(), &BALANCED);
    let info = StreamInfo::from_bytes(&made).unwrap();
    assert!(matches!(Decompressor::new(device, stream, &info), Err(CudaError::Unsupported(_))));
}
