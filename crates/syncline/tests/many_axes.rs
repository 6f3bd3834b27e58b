//! Arrays of more than four axes: the stream keeps their shape, and is otherwise that of the array whose slowest axes
//! are merged.

mod common;

use std::io::{Cursor, Read, Write};
use std::ops::Range;

use proptest::prelude::*;
use syncline::{
    ArrayView, Bound, CompressOptions, DecompressOptions, ElementType, Error, MAX_RANK, Reader, Shape, SparseBytes,
    StreamFile, Writer, compress, compress_bound, decompress, decompress_region, decompress_region_into, inspect,
};

/// Returns a smooth field with some noise.
fn field(count: u64) -> Vec<f32> {
    (0..count).map(|i| (i as f32 / 37.0).sin() * 100.0 + (i * 7919 % 13) as f32 / 10.0).collect()
}

fn stream_of(values: &[f32], extents: &[u64], bound: Bound) -> Vec<u8> {
    compress(&ArrayView::new(values, extents).unwrap(), &CompressOptions::new(bound)).unwrap()
}

/// Returns the elements of a region in C order, found one by one.
fn elements_of(values: &[f32], extents: &[u64], region: &[Range<u64>]) -> Vec<f32> {
    let mut numbers = vec![0];
    for (range, extent) in region.iter().zip(extents) {
        numbers = numbers.iter().flat_map(|n| range.clone().map(move |i| n * extent + i)).collect();
    }
    numbers.iter().map(|&n| values[n as usize]).collect()
}

/// Extents of 5 to 7 axes, and a region.
fn arrays() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    prop::collection::vec((prop_oneof![4 => 1u64..8, 1 => Just(1), 1 => 8u64..20], any::<u64>(), any::<u64>()), 5..=7)
        .prop_filter("few elements", |axes| axes.iter().map(|axis| axis.0).product::<u64>() <= 200_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn regions_are_those_of_the_array(axes in arrays(), lossless in any::<bool>()) {
        let extents: Vec<u64> = axes.iter().map(|axis| axis.0).collect();
        let region: Vec<Range<u64>> = axes
            .iter()
            .map(|&(extent, a, b)| (a % (extent + 1), b % (extent + 1)))
            .map(|(a, b)| a.min(b)..a.max(b))
            .collect();
        let values = field(extents.iter().product());
        let stream = stream_of(&values, &extents, if lossless { Bound::Lossless } else { Bound::Abs(0.01) });
        let options = DecompressOptions::default();
        let whole = decompress(&stream, &options).unwrap();
        prop_assert_eq!(whole.shape().extents().to_vec(), extents.clone());
        let whole = whole.to_vec::<f32>().unwrap();
        let bound = if lossless { 0.0 } else { 0.01 };
        prop_assert!(values.iter().zip(&whole).all(|(x, y)| (x - y).abs() <= bound));

        let expected = elements_of(&whole, &extents, &region);
        let part = decompress_region(&stream, &region, &options).unwrap();
        let part_extents: Vec<u64> = region.iter().map(|range| range.end - range.start).collect();
        prop_assert_eq!(part.shape().extents().to_vec(), part_extents);
        prop_assert_eq!(&part.to_vec::<f32>().unwrap(), &expected);
        let mut memory = vec![0; 4 * expected.len() + 1];
        decompress_region_into(&stream, &region, &mut memory[1..], &options).unwrap();
        prop_assert_eq!(&memory[1..], part.bytes());

        // The same from only those bytes that the region needs.
        let (head, tail) = (&stream[..SparseBytes::HEAD_BYTES], &stream[stream.len() - 64..]);
        let mut bytes = SparseBytes::from_ends(head.to_vec(), tail.to_vec()).unwrap();
        if let Some(range) = bytes.missing() {
            bytes.insert(range.start, stream[range.start as usize..range.end as usize].to_vec());
        }
        let mut sparse = StreamFile::open(bytes).unwrap();
        loop {
            let missing = sparse.missing_ranges(&region).unwrap();
            if missing.is_empty() {
                break;
            }
            for range in missing {
                sparse.source_mut().insert(range.start, stream[range.start as usize..range.end as usize].to_vec());
            }
        }
        prop_assert!(sparse.decompress_region(&region, &options).unwrap() == part);
    }
}

#[test]
fn the_stream_is_that_of_merged_axes_with_another_header() {
    let values = field(2 * 3 * 4 * 9 * 10 * 11);
    for bound in [Bound::Rel(1e-3), Bound::Lossless] {
        let stream = stream_of(&values, &[2, 3, 1, 4, 9, 10, 11], bound);
        let merged = stream_of(&values, &[24, 9, 10, 11], bound);
        // The last checksum covers that of the header.
        let [own, other] = [&stream, &merged].map(|bytes| &bytes[SparseBytes::HEAD_BYTES..bytes.len() - 16]);
        assert!(own == other, "{bound:?}");
        assert_ne!(stream, merged);
        assert_eq!(inspect(&stream).unwrap().shape.to_string(), "2x3x1x4x9x10x11");
    }
}

#[test]
fn writers_and_readers_take_the_elements_in_order() {
    let extents = [3, 5, 2, 40, 50, 60];
    let values = field(extents.iter().product());
    let shape = Shape::new(&extents).unwrap();
    let options = CompressOptions::new(Bound::Abs(0.01));
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut writer = Writer::new(Vec::new(), ElementType::F32, shape, &options).unwrap();
    // One item of the first axis at a time.
    for item in bytes.chunks(bytes.len() / 3) {
        writer.write_all(item).unwrap();
    }
    let stream = writer.finish().unwrap();
    let whole = decompress(&stream, &DecompressOptions::default()).unwrap();
    assert_eq!(whole.shape(), shape);
    assert!(values.iter().zip(whole.to_vec::<f32>().unwrap()).all(|(x, y)| (x - y).abs() <= 0.01));

    let mut reader = Reader::new(Cursor::new(&stream), DecompressOptions::default()).unwrap();
    let region = [1..3, 4..5, 0..2, 7..9, 0..50, 59..60];
    let part = reader.read_region(&region).unwrap().to_vec::<f32>().unwrap();
    assert!(part == elements_of(&whole.to_vec().unwrap(), &extents, &region));
    let mut read = Vec::new();
    reader.read_to_end(&mut read).unwrap();
    assert!(read == whole.bytes());
}

#[test]
fn as_many_axes_as_a_stream_can_have() {
    let mut extents = [1; MAX_RANK];
    for axis in [0, 3, 4, 9, 17, 20, 25, 30, 31] {
        extents[axis] = 3;
    }
    let values = field(extents.iter().product());
    let stream = stream_of(&values, &extents, Bound::Lossless);
    let array = decompress(&stream, &DecompressOptions::default()).unwrap();
    assert_eq!(array.shape().extents(), extents);
    assert_eq!(array.to_vec::<f32>().unwrap(), values);
    let region: Vec<_> = extents.iter().map(|&extent| extent / 3..extent.min(2)).collect();
    let part = decompress_region(&stream, &region, &DecompressOptions::default()).unwrap();
    assert_eq!(part.to_vec::<f32>().unwrap(), elements_of(&values, &extents, &region));
    assert!(matches!(Shape::new(&[1; MAX_RANK + 1]), Err(Error::InvalidArgument(text)) if text.contains("33")));
}

#[test]
fn arrays_without_elements() {
    for extents in [&[0, 2, 3, 4, 5][..], &[2, 3, 0, 4, 5, 6], &[1 << 40, 0, 1, 1 << 10, 3, 2], &[2, 2, 2, 2, 2, 0]] {
        let stream = stream_of(&[], extents, Bound::Rel(1e-3));
        let shape = Shape::new(extents).unwrap();
        assert!(stream.len() as u64 <= compress_bound(ElementType::F32, shape));
        let array = decompress(&stream, &DecompressOptions::default()).unwrap();
        assert_eq!((array.shape(), array.bytes().len()), (shape, 0));
        let mut read = Vec::new();
        Reader::new(Cursor::new(&stream), DecompressOptions::default()).unwrap().read_to_end(&mut read).unwrap();
        assert!(read.is_empty());
    }
}

/// Layers of a reader are cut along each kind of axis.
#[test]
fn layers_of_a_reader_follow_each_other() {
    // Fields of more and of fewer elements than a layer, and slow axes on both sides of that.
    for extents in [&[2, 2, 2, 170, 160, 170][..], &[3, 3, 2, 300, 2, 60, 50], &[2, 700, 3, 1, 2, 2, 400]] {
        let values: Vec<u8> = (0..extents.iter().product::<u64>()).map(|i| (i >> 8) as u8).collect();
        let stream = compress(&ArrayView::new(&values, extents).unwrap(), &CompressOptions::default()).unwrap();
        let mut read = Vec::new();
        Reader::new(Cursor::new(&stream), DecompressOptions::default()).unwrap().read_to_end(&mut read).unwrap();
        assert!(read == values, "{extents:?}");
    }
}
