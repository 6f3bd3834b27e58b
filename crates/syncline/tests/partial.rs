//! Reading parts of a stream: into memory of the caller, and from some of its bytes only.

use std::io;
use std::ops::Range;
use std::sync::Mutex;

use proptest::prelude::*;
use syncline::{
    Advanced, ArrayView, Bound, Coder, CompressOptions, DecompressOptions, Effort, Error, ReadAt, SparseBytes,
    StreamFile, compress, compress_bound, compress_into, decompress, decompress_into, decompress_region,
    decompress_region_into,
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

/// Returns the bytes of all ranges.
fn bytes_of(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Returns the values of a region of an array.
fn values_of(all: &[f32], extents: &[u64], region: &[Range<u64>]) -> Vec<f32> {
    let is_inside = |number: usize| {
        let mut rest = number as u64;
        extents.iter().zip(region).rev().all(|(&extent, range)| {
            let at = rest % extent;
            rest /= extent;
            range.contains(&at)
        })
    };
    all.iter().enumerate().filter(|&(number, _)| is_inside(number)).map(|(_, &value)| value).collect()
}

/// Adds what a region needs of the bytes that are stored. Returns the ranges of each round of requests.
fn fetch_all(sparse: &mut StreamFile<SparseBytes>, stored: &[u8], region: &[Range<u64>]) -> Vec<Vec<Range<u64>>> {
    let mut rounds = Vec::new();
    loop {
        let missing = sparse.missing_ranges(region).unwrap();
        assert!(missing.windows(2).all(|pair| pair[0].end < pair[1].start), "{missing:?}");
        if missing.is_empty() {
            return rounds;
        }
        for range in &missing {
            let bytes = stored[range.start as usize..range.end as usize].to_vec();
            sparse.source_mut().insert(range.start, bytes);
        }
        rounds.push(missing);
    }
}

/// A field of 2^20 elements with some detail, and its stream.
fn large(effort: Effort) -> (Vec<f32>, Vec<u8>) {
    let extents = [64, 128, 128];
    let value = |i: u64| (i as f32 * 0.003).sin() * 20.0 + (i / 16384) as f32 + ((i * i) % 97) as f32 * 0.004;
    let field: Vec<f32> = (0..extents.iter().product()).map(value).collect();
    let options = CompressOptions::new(Bound::Abs(1e-3)).with_effort(effort);
    let stored = compress(&ArrayView::new(&field, &extents).unwrap(), &options);
    (field, stored.unwrap())
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
    fn a_region_needs_the_missing_ranges_and_no_others(
        (extents, region) in any_region(),
        effort in prop::sample::select(vec![None, Some(Effort::Fast), Some(Effort::Balanced)]),
        bound in prop::sample::select(vec![1e-3, 1e-5]),
    ) {
        let field = field(&extents);
        let options = match effort {
            None => CompressOptions::new(Bound::Lossless),
            Some(effort) => CompressOptions::new(Bound::Abs(bound)).with_effort(effort),
        };
        let stored = compress(&ArrayView::new(&field, &extents)?, &options)?;
        let expected = decompress_region(&stored, &region, &self::options())?.into_bytes();

        // Starting with an empty head and the shortest tail, the requested ranges are always enough.
        let end = stored.len();
        let head = stored[..SparseBytes::HEAD_BYTES].to_vec();
        let mut bytes = SparseBytes::from_ends(head, stored[end - SparseBytes::TAIL_BYTES..].to_vec())?;
        prop_assert_eq!(bytes.size()?, end as u64);
        if let Some(range) = bytes.missing() {
            bytes.insert(range.start, stored[range.start as usize..range.end as usize].to_vec());
        }
        prop_assert_eq!(bytes.missing(), None);
        let mut sparse = StreamFile::open(bytes)?;
        let rounds = fetch_all(&mut sparse, &stored, &region);
        let mut out = vec![0xa5; expected.len()];
        sparse.decompress_region_into(&region, &mut out, &self::options())?;
        prop_assert!(out == expected);
        let whole = decompress(&stored, &self::options())?.to_vec::<f32>()?;
        let of_region: Vec<f32> = out.as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect();
        prop_assert!(of_region == values_of(&whole, &extents, &region));

        // A source that can be read at any place is read in the same ranges.
        let recorded = StreamFile::open(Recorded(stored, Mutex::default()))?;
        recorded.source().1.lock().unwrap().clear();
        recorded.decompress_region_into(&region, &mut out, &DecompressOptions::new().with_threads(1))?;
        prop_assert!(out == expected);
        let read = recorded.source().1.lock().unwrap().clone();
        let ranges = rounds.concat();
        prop_assert!(read.iter().all(|r| ranges.iter().any(|range| range.start <= r.start && r.end <= range.end)));
        prop_assert_eq!(bytes_of(&read), bytes_of(&ranges));
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
fn small_regions_of_a_large_chunk_take_two_requests_of_a_few_percent() {
    // A point, a row, a cube that meets eight tiles, and one that is a sixteenth of the array; shares of small tiles
    // and of blocks.
    let regions = [
        ([33..34, 17..18, 99..100], [0.06, 0.12], [1, 2]),
        ([50..51, 71..72, 0..128], [0.06, 0.28], [1, 4]),
        ([4..12, 60..68, 28..36], [0.08, 0.3], [2, 4]),
        ([0..32, 40..72, 64..128], [0.35, 0.35], [8, 4]),
    ];
    for (number, (region, shares, most)) in [0, 1].into_iter().flat_map(|n| regions.clone().map(|of| (n, of))) {
        let (field, stored) = large([Effort::Fast, Effort::Balanced][number]);
        let (share, most) = (shares[number], most[number]);
        // What a reader fetches first has the header of the stream and what comes before the codewords.
        let head = stored[..20 << 10].to_vec();
        let bytes = SparseBytes::from_head(head).unwrap().expect("one chunk");
        assert_eq!(bytes.missing(), None);
        let mut sparse = StreamFile::open(bytes).unwrap();
        let rounds = fetch_all(&mut sparse, &stored, &region);
        assert!(rounds.len() == 1 && rounds[0].len() <= most, "{region:?}: {rounds:?}");
        assert!((bytes_of(&rounds[0]) as f64) < share * stored.len() as f64, "{region:?}: {rounds:?}");
        let part = sparse.decompress_region(&region, &options()).unwrap();
        let expected = decompress_region(&stored, &region, &options()).unwrap();
        assert!(part == expected);
        let [z, y, x] = [0, 1, 2].map(|axis| region[axis].start);
        let first = part.to_vec::<f32>().unwrap()[0];
        assert!((first - field[((z * 128 + y) * 128 + x) as usize]).abs() < 1e-3);
    }
}

#[test]
fn damage_is_found_in_the_parts_that_are_read_and_only_there() {
    for effort in [Effort::Fast, Effort::Balanced] {
        check_damage(&large(effort).1);
    }
}

fn check_damage(stored: &[u8]) {
    let region = [33..34, 17..18, 99..100];
    let expected = decompress_region(stored, &region, &options()).unwrap();
    let recorded = StreamFile::open(Recorded(stored.to_vec(), Mutex::default())).unwrap();
    recorded.source().1.lock().unwrap().clear();
    recorded.decompress_region(&region, &options()).unwrap();
    let read = recorded.source().1.lock().unwrap().clone();
    let is_read = |at: usize| read.iter().any(|range| range.contains(&(at as u64)));
    let mut found = 0;
    for at in (SparseBytes::HEAD_BYTES..stored.len() - 64).step_by(997) {
        let mut damaged = stored.to_vec();
        damaged[at] ^= 0x10;
        let part = StreamFile::open(Recorded(damaged, Mutex::default())).unwrap();
        match part.decompress_region(&region, &options()) {
            Ok(part) => assert!(part == expected, "byte {at}"),
            Err(error) => {
                assert!(matches!(error, Error::Corrupt { .. }) && is_read(at), "byte {at}: {error}");
                found += 1;
            }
        }
    }
    assert!(found >= 10, "{found}");
}

#[test]
fn parts_are_read_wherever_the_words_of_blocks_begin() {
    // Each verbatim value makes what comes before the words longer, so that their start takes all places in a piece.
    let extents = [64, 128, 64];
    for spikes in (0..1040).step_by(10) {
        let mut field: Vec<f32> = (0..1 << 19).map(|i: u64| ((i * i) % 97) as f32 * 0.004).collect();
        (0..spikes).for_each(|k| field[k * 499 + 7] = f32::INFINITY);
        let options = CompressOptions::new(Bound::Abs(1e-1));
        let stored = compress(&ArrayView::new(&field, &extents).unwrap(), &options).unwrap();
        let source = StreamFile::open(Recorded(stored.clone(), Mutex::default())).unwrap();
        let region = [3..4, 5..6, 7..8];
        let part = source.decompress_region(&region, &self::options()).unwrap();
        assert!(part == decompress_region(&stored, &region, &self::options()).unwrap(), "{spikes}");
        assert!(bytes_of(&source.source().1.lock().unwrap()) < stored.len() as u64, "{spikes}");
    }
}

#[test]
fn outputs_of_another_length_are_refused() {
    let field = field(&[100, 70]);
    let view = ArrayView::new(&field, &[100, 70]).unwrap();
    let options = CompressOptions::new(Bound::Lossless).with_advanced(Advanced::default().with_coder(Coder::Numbers));
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
    let sparse = SparseBytes::from_head(stored).unwrap().unwrap();
    assert!(StreamFile::open(sparse).unwrap().missing_ranges(&[0..100, 0..71]).is_err());
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
