//! Reading parts of a stream: into memory of the caller, and from some of its bytes only.

use std::io;
use std::ops::Range;
use std::sync::Mutex;

use proptest::prelude::*;
use syncline::{
    Advanced, ArrayView, Bound, Coder, CompressOptions, DecompressOptions, Error, ReadAt, SparseBytes, StreamFile,
    compress, compress_bound, compress_into, decompress_into, decompress_region, decompress_region_into,
};

/// A stream that records which bytes are read.
struct Recorded(Vec<u8>, Mutex<Vec<Range<u64>>>);

impl ReadAt for Recorded {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.1.lock().unwrap().push(offset..offset + buffer.len() as u64);
        self.0.read_exact_at(buffer, offset)
    }
}

fn options() -> DecompressOptions {
    DecompressOptions::new().with_threads(2)
}

fn field(extents: &[u64]) -> Vec<f32> {
    (0..extents.iter().product::<u64>()).map(|i| (i as f32 * 0.003).sin() + (i % 97) as f32 * 0.01).collect()
}

/// A shape and a region of it.
fn any_region() -> impl Strategy<Value = (Vec<u64>, Vec<Range<u64>>)> {
    let shapes = prop_oneof![
        prop::collection::vec(1u64..40, 1..=4),
        (1u64..60_000).prop_map(|x| vec![x]),
        (1u64..700, 1u64..700).prop_map(|(y, x)| vec![y, x]),
    ];
    shapes.prop_flat_map(|extents| {
        let axes: Vec<_> =
            (extents.iter()).map(|&extent| (0..=extent, 0..=extent).prop_map(|(a, b)| a.min(b)..a.max(b))).collect();
        (Just(extents), axes)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_region_needs_its_byte_ranges_and_no_others((extents, region) in any_region(), lossless in any::<bool>()) {
        let field = field(&extents);
        let bound = if lossless { Bound::Lossless } else { Bound::Abs(1e-3) };
        let stored = compress(&ArrayView::new(&field, &extents)?, &CompressOptions::new(bound))?;
        let expected = decompress_region(&stored, &region, &options())?.into_bytes();

        // Starting with an empty head and the shortest tail, the requested ranges are always enough.
        let end = stored.len();
        let head = stored[..SparseBytes::HEAD_BYTES].to_vec();
        let mut bytes = SparseBytes::from_ends(head, stored[end - SparseBytes::TAIL_BYTES..].to_vec())?;
        prop_assert_eq!(bytes.size()?, end as u64);
        let slice = |range: &Range<u64>| stored[range.start as usize..range.end as usize].to_vec();
        if let Some(range) = bytes.missing() {
            bytes.insert(range.start, slice(&range));
        }
        prop_assert_eq!(bytes.missing(), None);
        let mut sparse = StreamFile::open(bytes)?;
        let ranges = sparse.byte_ranges(&region)?;
        prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
        for range in &ranges {
            sparse.source_mut().insert(range.start, slice(range));
        }
        let mut out = vec![0xa5; expected.len()];
        sparse.decompress_region_into(&region, &mut out, &options())?;
        prop_assert!(out == expected);

        // Each byte that is read is in a range, and each range is read.
        let recorded = StreamFile::open(Recorded(stored, Mutex::default()))?;
        recorded.source().1.lock().unwrap().clear();
        recorded.decompress_region_into(&region, &mut out, &options())?;
        let read = recorded.source().1.lock().unwrap().clone();
        prop_assert!(read.iter().all(|r| ranges.iter().any(|range| range.start <= r.start && r.end <= range.end)));
        let bytes = |ranges: &[Range<u64>]| ranges.iter().map(|range| range.end - range.start).sum::<u64>();
        prop_assert_eq!(bytes(&read), bytes(&ranges));
    }

    #[test]
    fn memory_of_the_caller_may_have_any_alignment((extents, region) in any_region(), shift in 0usize..8) {
        let field = field(&extents);
        let view = ArrayView::new(&field, &extents)?;
        let made = CompressOptions::new(Bound::Abs(1e-3));
        let stored = compress(&view, &made)?;
        let mut memory = vec![0; shift + compress_bound(view.element_type(), view.shape()) as usize];
        let summary = compress_into(&view, &mut memory[shift..], &made)?;
        prop_assert!(memory[shift..shift + summary.compressed_bytes as usize] == stored);

        let expected = decompress_region(&stored, &region, &options())?.into_bytes();
        let mut memory = vec![0; shift + expected.len()];
        decompress_region_into(&stored, &region, &mut memory[shift..], &options())?;
        prop_assert!(memory[shift..] == expected);
        let mut memory = vec![0; shift + field.len() * 4];
        decompress_into(&stored, &mut memory[shift..], &options())?;
    }
}

#[test]
fn outputs_of_another_length_are_refused() {
    let field = field(&[100, 70]);
    let view = ArrayView::new(&field, &[100, 70]).unwrap();
    let options = CompressOptions::new(Bound::Lossless).with_advanced(Advanced::default().with_coder(Coder::Huffman));
    let stored = compress(&view, &options).unwrap();
    for length in [0, 1, 143, stored.len() - 1] {
        let error = compress_into(&view, &mut vec![0; length], &options).unwrap_err();
        assert!(matches!(&error, Error::InvalidArgument(text) if text.contains("are always enough")), "{error}");
    }
    assert!(compress_into(&view, &mut vec![0; stored.len()], &options).is_ok());
    for length in [0, 27_999, 28_001] {
        let error = decompress_into(&stored, &mut vec![0; length], &self::options()).unwrap_err();
        assert!(error.to_string().contains("28000 bytes"), "{error}");
        let error = decompress_region_into(&stored, &[0..2, 1..2], &mut vec![0; length], &self::options());
        assert!(error.unwrap_err().to_string().contains("region has 8 bytes"));
    }
    let outside = decompress_region_into(&stored, &[0..101, 0..1], &mut vec![0; 404], &self::options());
    assert!(matches!(outside.unwrap_err(), Error::InvalidArgument(_)));
    assert!(StreamFile::open(stored).unwrap().byte_ranges(&[0..100, 0..71]).is_err());
}

#[test]
fn ends_that_contradict_the_stream_are_errors() {
    let numbers: Vec<u64> = (0..100_000).collect();
    let stored = compress(&ArrayView::new(&numbers, &[100_000]).unwrap(), &CompressOptions::default()).unwrap();
    let head = || stored[..SparseBytes::HEAD_BYTES].to_vec();
    let tail = |bytes: usize| stored[stored.len() - bytes..].to_vec();
    assert!(matches!(SparseBytes::from_ends(head(), tail(31)), Err(Error::Truncated { .. })));
    assert!(matches!(SparseBytes::from_ends(head(), vec![0; 32]), Err(Error::Corrupt { .. })));

    // A number of chunks that the checksum does not cover yet: nothing is allocated for it.
    for (at, value) in [(0, u64::MAX), (8, u64::MAX), (8, u64::MAX / 4), (0, 1 << 60), (8, 1 << 59)] {
        let mut end = tail(32);
        end[at..at + 8].copy_from_slice(&value.to_le_bytes());
        match SparseBytes::from_ends(head(), end) {
            Ok(bytes) => assert!(bytes.missing().is_some() && StreamFile::open(bytes).is_err()),
            Err(error) => assert!(matches!(error, Error::Corrupt { .. }), "{error}"),
        }
    }

    // Missing bytes are an error, not zeros.
    let opened = StreamFile::open(SparseBytes::from_ends(head(), tail(200)).unwrap()).unwrap();
    let error = opened.decompress(&options()).unwrap_err();
    assert!(error.to_string().contains("are missing"), "{error}");
    // Bytes before the stream's start, as a store gives that does not know where it starts.
    let longer = [vec![1; 7], stored.clone()].concat();
    let opened = StreamFile::open(SparseBytes::from_ends(head(), longer).unwrap()).unwrap();
    assert_eq!(opened.decompress(&options()).unwrap().to_vec::<u64>().unwrap(), numbers);
}
