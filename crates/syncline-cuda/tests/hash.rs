//! Hashes of many pieces equal those of the CPU.

mod common;

use common::Random;
use syncline_core::container::{ChunkKind, RecordBuilder, parse_record};
use syncline_cuda::Device;
use syncline_cuda::container::hash::{ExcludedRange, Hasher, Pieces};
use syncline_cuda::device::Arena;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// The CPU's hash of a piece without its excluded range.
fn expected(piece: &[u8], excluded: ExcludedRange) -> u64 {
    let mut hash = Xxh3Default::new();
    hash.update(&piece[..excluded.at as usize]);
    hash.update(&piece[(excluded.at + excluded.bytes) as usize..]);
    hash.digest()
}

fn random_bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    (0..length.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).take(length).collect()
}

/// Hashes the pieces of `bytes` twice and compares each hash. The second time shows that progress words are restored.
fn check(device: &Device, bytes: &[u8], starts: &[u64], lengths: &[u32], excluded: ExcludedRange) {
    let stream = device.context().default_stream();
    let mut arena = Arena::new(stream.clone());
    let hasher = Hasher::new(device).unwrap();
    let on_device = stream.clone_htod(bytes).unwrap();
    let (starts_there, lengths_there) = (stream.clone_htod(starts).unwrap(), stream.clone_htod(lengths).unwrap());
    let pieces = Pieces {
        starts: &starts_there.as_view(),
        lengths: &lengths_there.as_view(),
        longest: lengths.iter().copied().max().unwrap_or(0),
        excluded,
    };
    let mut hashes = stream.clone_htod(&vec![u64::MAX; starts.len()]).unwrap();
    for _ in 0..2 {
        let mut frame = arena.frame().unwrap();
        hasher.hash(&mut frame, &on_device.as_view(), &pieces, &mut hashes.as_view_mut()).unwrap();
    }
    let found = stream.clone_dtoh(&hashes).unwrap();
    for ((&start, &length), &hash) in starts.iter().zip(lengths).zip(&found) {
        let piece = &bytes[start as usize..][..length as usize];
        assert_eq!(hash, expected(piece, excluded), "{length} bytes from {start}, without {excluded:?}");
    }
}

#[test]
fn hashes_of_all_lengths_equal_the_cpus() {
    let Some(device) = common::device() else { return };
    let bytes = random_bytes(3 << 20, 1);
    let kibs = (1..common::unless_tiny(40_u32, 18)).map(|kib| kib << 10);
    let around = |length: u32| [length - 65, length - 64, length - 63, length - 1, length, length + 1, length + 8];
    let lengths: Vec<u32> = (0..=300).chain(kibs.flat_map(around)).collect();
    let long = [1 << 20, (1 << 20) + 17, 2_999_999];
    // None, that of a record, and others that cross words and stripes.
    let excluded = [
        ExcludedRange::NONE,
        ExcludedRange::RECORD,
        ExcludedRange { at: 13, bytes: 3 },
        ExcludedRange { at: 1100, bytes: 12 },
    ];
    for (case, alignment) in [0, 8, 1, 5].into_iter().enumerate() {
        for (which, &excluded) in excluded.iter().enumerate() {
            // Tiny runs hash the long pieces once at each alignment, each time without another range.
            let long = common::unless_tiny(&long[..], if which == case { &long[..] } else { &[] });
            let room = (excluded.at + excluded.bytes) as u32;
            let lengths: Vec<u32> = lengths.iter().chain(long).map(|&length| length.max(room)).collect();
            let starts: Vec<u64> = (0..lengths.len() as u64).map(|i| i * 16 + alignment).collect();
            check(device, &bytes, &starts, &lengths, excluded);
        }
    }
    check(device, &bytes, &[4], &[3_000_000], ExcludedRange::RECORD);
}

#[test]
fn long_pieces_are_chained_concurrently() {
    let Some(device) = common::device() else { return };
    let bytes = random_bytes(8 << 20, 4);
    // Lengths around the minimum for concurrent chaining, which no number of parts divides; enough pieces that blocks
    // finish in every order.
    let many = common::unless_tiny((70, 61_003), (9, 6101));
    for (count, step) in [(1_u32, 0), (3, common::unless_tiny(1_900_000, 190_000)), many] {
        let lengths: Vec<u32> = (0..count).map(|i| (511 << 10) + 9 + i * step).collect();
        let starts: Vec<u64> = (0..u64::from(count)).map(|i| i * 48).collect();
        for _ in 0..common::unless_tiny(8, 1) {
            check(device, &bytes, &starts, &lengths, ExcludedRange::RECORD);
        }
    }
}

#[test]
fn without_an_excluded_range_the_hash_is_xxh3() {
    let Some(_) = common::device() else { return };
    let bytes = random_bytes(1000, 2);
    assert_eq!(expected(&bytes, ExcludedRange::NONE), xxh3_64(&bytes));
}

#[test]
fn starts_and_lengths_are_not_trusted() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    let mut arena = Arena::new(stream.clone());
    let bytes = random_bytes(1 << 16, 3);
    let mut on_device = stream.clone_htod(&bytes).unwrap();
    let starts = [0, 1 << 16, (1 << 16) + 1, u64::MAX, 1000, 2000, (1 << 16) - 100, 3000];
    let lengths = [u32::MAX, 0, 0, 16, 7, 1 << 16, 101, 40_000];
    let (starts, lengths) = (stream.clone_htod(&starts).unwrap(), stream.clone_htod(&lengths).unwrap());
    let pieces = Pieces {
        starts: &starts.as_view(),
        lengths: &lengths.as_view(),
        longest: 10_000,
        excluded: ExcludedRange::RECORD,
    };
    let hasher = Hasher::new(device).unwrap();
    let mut hashes = stream.clone_htod(&[u64::MAX; 8]).unwrap();
    hasher.hash(&mut arena.frame().unwrap(), &on_device.as_view(), &pieces, &mut hashes.as_view_mut()).unwrap();
    assert_eq!(stream.clone_dtoh(&hashes).unwrap(), [0; 8]);
    let mut progress = stream.alloc_zeros::<u64>(8).unwrap();
    let mut differs = stream.clone_htod(&[u32::MAX; 8]).unwrap();
    let (view, progress, to) = (on_device.as_view(), &mut progress.as_view_mut(), &mut differs.as_view_mut());
    hasher.verify(&mut arena.frame().unwrap(), &view, &pieces, progress, to).unwrap();
    assert_eq!(stream.clone_dtoh(&differs).unwrap(), [0; 8]);
    hasher.checksum(&mut arena.frame().unwrap(), &mut on_device.as_view_mut(), &pieces).unwrap();
    assert_eq!(stream.clone_dtoh(&on_device).unwrap(), bytes);
}

#[test]
fn records_are_checksummed() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    let mut arena = Arena::new(stream.clone());
    let (mut records, mut starts, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    for (chunk, payload) in [8, 100, 168, 184, 216, 1000, 5000, 100_000, 1 << 21].into_iter().enumerate() {
        starts.push(records.len() as u64);
        let record = RecordBuilder::begin(&mut records, ChunkKind::Raw, chunk as u64);
        records.extend(random_bytes(payload, chunk as u64));
        record.finish(&mut records);
        lengths.push((records.len() as u64 - starts[chunk]) as u32);
    }
    let mut unsigned = records.clone();
    for &start in &starts {
        unsigned[start as usize + 24..][..8].fill(0xA5);
    }
    let mut on_device = stream.clone_htod(&unsigned).unwrap();
    let longest = *lengths.iter().max().unwrap();
    let (starts_there, lengths_there) = (stream.clone_htod(&starts).unwrap(), stream.clone_htod(&lengths).unwrap());
    let pieces = Pieces {
        starts: &starts_there.as_view(),
        lengths: &lengths_there.as_view(),
        longest,
        excluded: ExcludedRange::RECORD,
    };
    let hasher = Hasher::new(device).unwrap();
    hasher.checksum(&mut arena.frame().unwrap(), &mut on_device.as_view_mut(), &pieces).unwrap();
    let checksummed = stream.clone_dtoh(&on_device).unwrap();
    for (chunk, (&start, &length)) in starts.iter().zip(&lengths).enumerate() {
        parse_record(&checksummed[start as usize..][..length as usize], chunk as u64).unwrap();
    }
    assert!(checksummed == records);

    // Verifies the records, then with the last byte of a payload and the hash of another record changed, then again.
    // The repetition shows that progress words are restored.
    let mut progress = stream.alloc_zeros::<u64>(starts.len()).unwrap();
    let mut differs = stream.clone_htod(&vec![u32::MAX; starts.len()]).unwrap();
    let mut damaged = records.clone();
    damaged[(starts[8] + u64::from(lengths[8])) as usize - 1] ^= 1;
    damaged[starts[3] as usize + 24] ^= 0x80;
    for (bytes, wrong) in [(&records, &[][..]), (&damaged, &[3, 8][..]), (&records, &[])] {
        let bytes = stream.clone_htod(bytes).unwrap();
        let (progress, to) = (&mut progress.as_view_mut(), &mut differs.as_view_mut());
        hasher.verify(&mut arena.frame().unwrap(), &bytes.as_view(), &pieces, progress, to).unwrap();
        let expected: Vec<u32> = (0..starts.len()).map(|chunk| wrong.contains(&chunk).into()).collect();
        assert_eq!(stream.clone_dtoh(&differs).unwrap(), expected);
    }
}
