//! What is left of damaged streams.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use syncline::{
    ArrayView, Bound, CompressOptions, DecompressOptions, Effort, Error, Loss, ReadAt, Reader, Salvage,
    SequentialReader, SparseBytes, StreamFile, compress, decompress,
};

const LEN: usize = 3_000_000;
const CHUNKS: u64 = 6;
const LOST: u32 = 0x7FC0_1234;

fn stream(bound: Bound) -> Vec<u8> {
    let field: Vec<f32> = (0..LEN).map(|i| (i as f32 * 1e-3).sin() + (i * 7919 % 101) as f32 * 1e-3).collect();
    compress(&ArrayView::new(&field, &[LEN as u64]).unwrap(), &CompressOptions::new(bound).with_effort(Effort::Fast))
        .unwrap()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// Salvages into memory.
fn salvaged(stream: &[u8]) -> (Vec<u32>, Vec<Loss>) {
    let file = tempfile::tempfile().unwrap();
    let salvage = Salvage::open(stream).unwrap();
    let losses = salvage.decompress_to(&file, 0, u64::from(LOST), &DecompressOptions::default()).unwrap();
    let checked = salvage.check(&DecompressOptions::default()).unwrap();
    assert_eq!(
        checked.iter().flat_map(|loss| loss.chunks.clone()).collect::<Vec<_>>(),
        losses.iter().flat_map(|loss| loss.chunks.clone()).collect::<Vec<_>>()
    );
    let mut bytes = vec![0; 4 * LEN];
    syncline::ReadAt::read_exact_at(&file, &mut bytes, 0).unwrap();
    (words(&bytes), losses)
}

/// Checks that all elements are those of the array, except lost ones.
fn check(whole: &[u32], back: &[u32], losses: &[Loss]) {
    for (i, (expected, found)) in whole.iter().zip(back).enumerate() {
        let lost = losses.iter().any(|loss| loss.elements.contains(&(i as u64)));
        assert_eq!(*found, if lost { LOST } else { *expected }, "element {i}");
    }
}

#[test]
fn intact_chunks_are_kept() {
    for bound in [Bound::Lossless, Bound::Abs(1e-3)] {
        let good = stream(bound);
        let whole = words(decompress(&good, &DecompressOptions::default()).unwrap().bytes());
        let (back, losses) = salvaged(&good);
        assert_eq!(losses, []);
        check(&whole, &back, &losses);
        let ranges = |chunk: usize| {
            let file = StreamFile::open(good.as_slice()).unwrap();
            let lengths: Vec<u64> = file.chunk_sizes().map(|(_, length)| length).collect();
            let start = SparseBytes::HEAD_BYTES as u64 + lengths[..chunk].iter().sum::<u64>();
            start..start + lengths[chunk]
        };
        assert!(StreamFile::open(good.as_slice()).unwrap().inspect().unwrap().totals.chunks == CHUNKS);

        // A payload, the header of a record, and the end.
        let mut bad = good.clone();
        bad[ranges(1).start as usize + 100] ^= 1;
        let (back, losses) = salvaged(&bad);
        assert_eq!((losses.len(), losses[0].chunks.clone()), (1, 1..2));
        assert!(losses[0].reason.contains("checksum"), "{losses:?}");
        check(&whole, &back, &losses);

        let mut bad = good.clone();
        bad[ranges(0).start as usize] ^= 1;
        let length = bad.len();
        bad[length - 1] ^= 1;
        let (back, losses) = salvaged(&bad);
        assert_eq!((losses.len(), losses[0].chunks.clone()), (1, 0..1));
        assert_eq!(losses[0].reason, "the record is missing");
        check(&whole, &back, &losses);

        for (cut, lost) in [(good.len() - 1, 6), (ranges(5).end as usize, 6), (ranges(4).end as usize - 1, 4)] {
            let (back, losses) = salvaged(&good[..cut]);
            let chunks: Vec<u64> = losses.iter().flat_map(|loss| loss.chunks.clone()).collect();
            assert_eq!(chunks, (lost..CHUNKS).collect::<Vec<_>>(), "{cut}");
            check(&whole, &back, &losses);
        }
        // A piece is missing from the middle, by no multiple of the alignment.
        let cut = ranges(1).start as usize + 50;
        let (back, losses) = salvaged(&[&good[..cut], &good[cut + 77..]].concat());
        assert_eq!((losses.len(), losses[0].chunks.clone()), (1, 1..2));
        check(&whole, &back, &losses);
    }
}

/// A stream that counts how many of its bytes are read.
struct Counted(Vec<u8>, AtomicU64);

impl ReadAt for Counted {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.1.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.0.read_exact_at(buffer, offset)
    }
}

#[test]
fn stream_full_of_false_records_is_read_a_few_times() {
    let good = stream(Bound::Lossless);
    let whole = words(decompress(&good, &DecompressOptions::default()).unwrap().bytes());
    // Each claims as many bytes as a record can have, and the number of a chunk.
    let mut bad = good[..144].to_vec();
    for _ in 0..40_000 {
        bad.extend_from_slice(b"SYCK");
        bad.extend_from_slice(&(1u32 << 20).to_le_bytes());
        bad.extend_from_slice(&1u64.to_le_bytes());
    }
    // Records after the reach of the false ones are found.
    bad.extend(std::iter::repeat_n(0, 2 << 20));
    bad.extend_from_slice(&good[144..good.len() - 1]);
    let length = bad.len() as u64;
    let counted = Counted(bad, AtomicU64::new(0));
    let salvage = Salvage::open(&counted).unwrap();
    let read = counted.1.load(Ordering::Relaxed);
    assert!(read < 6 * length, "{read} bytes of {length} were read");
    let (back, losses) = salvaged(&counted.0);
    assert_eq!(losses, []);
    check(&whole, &back, &losses);
    assert_eq!(salvage.inspect(&DecompressOptions::default()).unwrap().0.totals.chunks, CHUNKS);
}

#[test]
fn salvage_without_header_is_an_error_and_without_chunks_restores_nothing() {
    let good = stream(Bound::Abs(1e-3));
    assert!(matches!(Salvage::open(&good[..100]), Err(Error::Truncated { .. })));
    assert!(matches!(Salvage::open(b"nothing".as_slice()), Err(Error::NotSyncline(_))));
    let salvage = Salvage::open(&good[..200]).unwrap();
    let file = tempfile::tempfile().unwrap();
    assert!(matches!(salvage.decompress_to(&file, 0, 0, &DecompressOptions::default()), Err(Error::Corrupt { .. })));
    assert_eq!(salvage.check(&DecompressOptions::default()).unwrap()[0].chunks, 0..CHUNKS);
    let (report, losses) = salvage.inspect(&DecompressOptions::default()).unwrap();
    assert_eq!((report.totals.chunks, losses.len()), (0, 1));
}

/// The table's checksum covers the header, whose step the records need.
#[test]
fn records_with_the_header_of_another_stream_are_refused_by_every_reader() {
    let (one, other) = (stream(Bound::Abs(1e-3)), stream(Bound::Abs(1e-2)));
    let spliced = [&one[..144], &other[144..]].concat();
    let options = DecompressOptions::default;
    let refusal = |error: Error| assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    refusal(StreamFile::open(spliced.as_slice()).unwrap_err());
    let reader = SequentialReader::new(spliced.as_slice(), options()).unwrap();
    refusal(reader.copy_to(io::sink()).unwrap_err());
    refusal(Reader::new(io::Cursor::new(&spliced), options()).unwrap_err());
    let salvage = Salvage::open(&spliced).unwrap();
    assert!(salvage.outline_error().unwrap().to_string().contains("the header is that of another stream"));
}
