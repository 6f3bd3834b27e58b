//! Streams that an earlier version wrote: they must decode to the same bits for ever, whatever part of them is damaged
//! must be noticed, and the version that wrote them must still write them.
//!
//! With `SYNCLINE_WRITE_GOLDEN` in the environment a missing file of the current version is written when the test runs
//! (and then belongs into the repository); an existing one is never rewritten.

mod common;

use std::fs;
use std::io::{self, Cursor, Read};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;

use common::{Rng, repair_checksums, smooth};
use syncline::{
    Advanced, ArrayView, Bound, Coder, CompressOptions, DecompressOptions, Effort, ElementType, Error, IndexKind,
    ReadAt, Reader, Shape, StreamFile, WriteAt, compress, decompress,
};

struct Case {
    name: &'static str,
    element_type: ElementType,
    extents: &'static [u64],
    bound: Bound,
    index: IndexKind,
}

const CASES: [Case; 29] = [
    case("f32_3d_rel", ElementType::F32, &[9, 17, 21], Bound::Rel(1e-3), IndexKind::Symbol),
    case("f32_2d_abs_fill", ElementType::F32, &[50, 45], Bound::Abs(0.05), IndexKind::Symbol),
    case("f32_1d_outliers", ElementType::F32, &[1500], Bound::Abs(1e-4), IndexKind::Symbol),
    case("f32_2d_pw_rel", ElementType::F32, &[33, 40], Bound::PwRel(1e-2), IndexKind::Symbol),
    case("f64_4d_psnr", ElementType::F64, &[2, 5, 9, 11], Bound::Psnr(60.0), IndexKind::Symbol),
    case("f64_2d_lossless", ElementType::F64, &[20, 33], Bound::Lossless, IndexKind::Symbol),
    case("u16_2d_lossless", ElementType::U16, &[40, 50], Bound::Lossless, IndexKind::Symbol),
    case("u8_raw", ElementType::U8, &[100], Bound::Lossless, IndexKind::Symbol),
    case("i32_1d_lzss", ElementType::I32, &[2000], Bound::Lossless, IndexKind::Symbol),
    case("u16_2d_lzss_huffman", ElementType::U16, &[40, 50], Bound::Lossless, IndexKind::Symbol),
    case("f32_2d_sparse", ElementType::F32, &[64, 160], Bound::Abs(0.02), IndexKind::Symbol),
    case("f32_6d_rel", ElementType::F32, &[2, 3, 1, 5, 9, 11], Bound::Rel(1e-3), IndexKind::Symbol),
    case("u16_7d_lossless", ElementType::U16, &[4, 2, 3, 2, 5, 6, 20], Bound::Lossless, IndexKind::Symbol),
    case("f32_3d_rel_block", ElementType::F32, &[20, 37, 41], Bound::Rel(1e-3), IndexKind::Symbol),
    case("f32_2d_abs_fill_block", ElementType::F32, &[130, 90], Bound::Abs(0.05), IndexKind::Symbol),
    case("f64_4d_psnr_block", ElementType::F64, &[2, 9, 17, 21], Bound::Psnr(60.0), IndexKind::Symbol),
    case("f32_2d_sparse_block", ElementType::F32, &[64, 160], Bound::Abs(0.02), IndexKind::Symbol),
    case("f32_1d_rewritable_block", ElementType::F32, &[3000], Bound::Abs(0.03), IndexKind::Symbol),
    case("u16_2d_no_index", ElementType::U16, &[40, 50], Bound::Lossless, IndexKind::None),
    case("f64_2d_abs", ElementType::F64, &[50, 45], Bound::Abs(1e-4), IndexKind::Symbol),
    case("f32_2d_abs_rewritable", ElementType::F32, &[50, 45], Bound::Abs(0.03), IndexKind::Symbol),
    case("f32_1d_best_pw_rel", ElementType::F32, &[3000], Bound::PwRel(1e-2), IndexKind::Symbol),
    case("u16_2d_abs", ElementType::U16, &[50, 45], Bound::Abs(4.0), IndexKind::Symbol),
    case("u8_3d_rel", ElementType::U8, &[17, 18, 21], Bound::Rel(0.02), IndexKind::Symbol),
    case("f16_2d_rel", ElementType::F16, &[50, 45], Bound::Rel(1e-2), IndexKind::Symbol),
    case("bf16_2d_abs_block", ElementType::Bf16, &[130, 90], Bound::Abs(0.5), IndexKind::Symbol),
    case("i64_1d_abs", ElementType::I64, &[3000], Bound::Abs(25.0), IndexKind::Symbol),
    case("i32_2d_abs_rewritable", ElementType::I32, &[50, 45], Bound::Abs(9.0), IndexKind::Symbol),
    case("f32_empty", ElementType::F32, &[0, 5], Bound::Rel(1e-3), IndexKind::Symbol),
];

const fn case(
    name: &'static str,
    element_type: ElementType,
    extents: &'static [u64],
    bound: Bound,
    index: IndexKind,
) -> Case {
    Case { name, element_type, extents, bound, index }
}

/// The array of a case, as little-endian bytes: integer arithmetic and exactly rounded operations only, so the same
/// everywhere.
fn array_bytes(case: &Case) -> Vec<u8> {
    let count = case.extents.iter().product::<u64>();
    let mut rng = Rng(case.name.len() as u64);
    let width = case.extents.last().copied().unwrap_or(1).max(1);
    let mut out = Vec::new();
    for i in 0..count {
        let (x, y) = (i % width, i / width);
        let wave = (x * x * 3 + y * 40) % 997;
        let noise = rng.next() % 16;
        match case.element_type {
            ElementType::F32 => {
                let mut value = (wave as f32 - 300.0) / 16.0 + noise as f32 / 256.0;
                match (case.name.trim_end_matches("_block"), i % 211) {
                    // Zeros with patches of noise, and jumps.
                    ("f32_2d_sparse", 7) => value = 40.0,
                    ("f32_2d_sparse", 90) => value = 8.0,
                    ("f32_2d_sparse", _) => value = if (x / 16 + y / 16) % 5 == 0 { noise as f32 / 128.0 } else { 0.0 },
                    ("f32_2d_abs_fill", 0..90) => value = -9999.0,
                    ("f32_2d_abs_fill", 100) => value = f32::INFINITY,
                    ("f32_2d_pw_rel", 0..20) => value = 0.0,
                    ("f32_1d_outliers", 7) => value = 1e6,
                    (_, 33) if case.name.contains("2d") => value = f32::NAN,
                    _ => {}
                }
                out.extend_from_slice(&value.to_le_bytes());
            }
            ElementType::F64 => {
                out.extend_from_slice(&((wave as f64 - 300.0) / 16.0 + noise as f64 / 256.0).to_le_bytes())
            }
            ElementType::U16 => out.extend_from_slice(&((wave + noise) as u16).to_le_bytes()),
            // Rows that repeat, with a change here and there.
            ElementType::I32 if case.name.ends_with("_lzss") => {
                out.extend_from_slice(&((i % 37 * 1000 + u64::from(noise == 0)) as i32).to_le_bytes())
            }
            ElementType::I32 => out.extend_from_slice(&((wave * 50 + noise) as i32 - 7).to_le_bytes()),
            ElementType::U8 => out.push(rng.next() as u8),
            ElementType::I64 => out.extend_from_slice(&((1 << 60) + (wave * 50 + noise) as i64).to_le_bytes()),
            ElementType::F16 | ElementType::Bf16 => {
                let value = f64::from((wave as f32 - 300.0) / 16.0 + noise as f32 / 256.0);
                let bits = if i % 211 == 33 { Some(0x7FC7) } else { case.element_type.bits_of_number(value) };
                out.extend_from_slice(&bits.unwrap_or(0).to_le_bytes()[..2]);
            }
            other => unreachable!("no case holds {other}"),
        }
    }
    out
}

fn write_current(case: &Case) -> Vec<u8> {
    let bytes = array_bytes(case);
    let view = ArrayView::from_bytes(&bytes, case.element_type, Shape::new(case.extents).unwrap()).unwrap();
    let pipeline = match case.name {
        name if name.ends_with("_lzss") => Coder::Lzss,
        name if name.ends_with("_lzss_huffman") => Coder::LzssHuffman,
        _ => Coder::Numbers,
    };
    let effort = match case.name {
        name if name.contains("_best") => Effort::Best,
        name if name.ends_with("_block") || case.bound == Bound::Lossless => Effort::Balanced,
        _ => Effort::Fast,
    };
    let advanced = Advanced::default().with_index(case.index).with_coder(pipeline);
    let options = CompressOptions::new(case.bound).with_effort(effort).with_advanced(advanced);
    compress(&view, &options.with_rewritable(case.name.contains("_rewritable"))).unwrap()
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden")
}

/// Returns a golden file of a case: the stream (`syn`), or the XXH3-64 of the bytes it decodes to (`xxh3`, in
/// hexadecimal). A missing file is a failure, unless the test was asked to write it.
fn golden_file(case: &Case, extension: &str, contents: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let path = folder().join(format!("v1_{}.{extension}", case.name));
    if !path.exists() {
        assert!(
            std::env::var_os("SYNCLINE_WRITE_GOLDEN").is_some(),
            "{} is missing: restore it or, if its case is new, have it written with SYNCLINE_WRITE_GOLDEN=1 cargo test \
             -p syncline --test golden",
            path.display()
        );
        fs::create_dir_all(folder()).unwrap();
        // Tests run side by side: each file appears whole.
        let unfinished = path.with_extension(format!("{extension}-{:?}", std::thread::current().id()));
        fs::write(&unfinished, contents()).unwrap();
        fs::rename(unfinished, &path).unwrap();
    }
    fs::read(&path).unwrap()
}

fn golden(case: &Case) -> Vec<u8> {
    golden_file(case, "syn", || write_current(case))
}

#[test]
fn golden_streams_decode_to_the_same_bits_for_ever() {
    for case in &CASES {
        let array = decompress(&golden(case), &DecompressOptions::default()).unwrap();
        let hash = format!("{:016x}\n", xxhash_rust::xxh3::xxh3_64(array.bytes())).into_bytes();
        assert_eq!(golden_file(case, "xxh3", || hash.clone()), hash, "{}", case.name);
    }
}

/// Also those that no case of this version stands for.
#[test]
fn every_stream_in_the_folder_decodes_to_its_hash() {
    let entries = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let streams: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|e| e == "syn")).collect();
    assert!(streams.len() >= CASES.len(), "{} streams", streams.len());
    for path in streams {
        let array = decompress(&fs::read(&path).unwrap(), &DecompressOptions::default()).unwrap();
        let expected = fs::read_to_string(path.with_extension("xxh3"))
            .unwrap_or_else(|error| panic!("the hash beside {}: {error}", path.display()));
        assert_eq!(format!("{:016x}\n", xxhash_rust::xxh3::xxh3_64(array.bytes())), expected, "{}", path.display());
    }
}

#[test]
fn golden_streams_decode_within_their_bound() {
    for case in &CASES {
        let stream = golden(case);
        let array = decompress(&stream, &DecompressOptions::default()).unwrap();
        let report = syncline::inspect(&stream).unwrap();
        let original = array_bytes(case);
        assert_eq!((array.shape().extents(), array.bytes().len()), (case.extents, original.len()), "{}", case.name);
        let element = case.element_type.size();
        for (x, y) in original.chunks_exact(element).zip(array.bytes().chunks_exact(element)) {
            let value = |b: &[u8]| {
                let mut bits = [0; 8];
                bits[..b.len()].copy_from_slice(b);
                match (case.element_type, u64::from_le_bytes(bits)) {
                    // All are close to 2^60.
                    (ElementType::I64, bits) => (bits as i64 - (1 << 60)) as f64,
                    (element, bits) => element.number_of_bits(bits),
                }
            };
            let within = x == y
                || match case.bound {
                    Bound::Lossless => false,
                    Bound::PwRel(r) => (value(x) - value(y)).abs() <= r * value(x).abs(),
                    _ => (value(x) - value(y)).abs() <= report.abs_bound,
                };
            assert!(within, "{}: {x:?} came back as {y:?}", case.name);
        }
    }
}

#[test]
fn this_version_still_writes_the_golden_streams() {
    for case in &CASES {
        assert!(write_current(case) == golden(case), "{} is written differently now", case.name);
    }
}

/// Runs `work` as the only thread of a pool, to which calls leave their work. Thousands of calls would otherwise each
/// start a thread or wait for one.
fn alone(work: impl FnOnce() + Send) {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(work);
}

/// Threat model: a damaged stream gives an error, or the right data; it never panics and never gives other data.
fn error_or_same(name: &str, stream: &[u8], expected: &syncline::Array) -> bool {
    // One thread: the streams have a chunk or two, and handing each to another thread takes longer than decoding it.
    match decompress(stream, &DecompressOptions::default().with_threads(1)) {
        Ok(array) => {
            assert!(array == *expected, "{name}: wrong data");
            false
        }
        Err(_) => true,
    }
}

#[test]
fn flipped_bits_of_every_byte_are_noticed() {
    alone(|| {
        for case in &CASES {
            let mut stream = golden(case);
            let expected = decompress(&stream, &DecompressOptions::default()).unwrap();
            let mut noticed = 0;
            // One bit of each byte: another one for the next byte.
            for at in 0..stream.len() {
                stream[at] ^= 1 << (at % 8);
                noticed += usize::from(error_or_same(case.name, &stream, &expected));
                stream[at] ^= 1 << (at % 8);
            }
            assert_eq!(noticed, stream.len(), "{}: every byte of a stream is covered by a checksum", case.name);
        }
    });
}

#[test]
fn every_truncation_is_noticed() {
    alone(|| {
        for case in &CASES {
            let stream = golden(case);
            let expected = decompress(&stream, &DecompressOptions::default()).unwrap();
            for length in 0..stream.len() {
                assert!(error_or_same(case.name, &stream[..length], &expected), "{} cut to {length}", case.name);
            }
        }
    });
}

/// A stream that is not in memory: reads have to lie within it.
struct Elsewhere(Vec<u8>);

impl ReadAt for Elsewhere {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        assert!(buffer.len() <= self.0.len(), "{} bytes for a stream of {}", buffer.len(), self.0.len());
        self.0.read_exact_at(buffer, offset)
    }
}

/// A file in memory.
#[derive(Default)]
struct Written(Mutex<Vec<u8>>);

impl WriteAt for Written {
    fn write_all_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        let mut bytes = self.0.lock().unwrap();
        let end = offset as usize + buffer.len();
        let length = end.max(bytes.len());
        bytes.resize(length, 0);
        bytes[offset as usize..end].copy_from_slice(buffer);
        Ok(())
    }
}

/// Decodes a stream that may be hostile through every function of the public interface. If the whole stream can be
/// decoded, all functions must return the same elements; otherwise each may return an error. Returns whether the whole
/// stream can be decoded.
fn doors_agree(stream: &[u8], rng: &mut Rng) -> bool {
    let options = DecompressOptions::default().with_threads(1).with_memory_limit(64 << 20);
    let _ = syncline::inspect(stream);
    let whole = decompress(stream, &options);
    if matches!(whole, Err(Error::MemoryLimit { .. })) {
        return false;
    }
    let whole = whole.ok();
    let same = |bytes: &[u8], door: &str| {
        assert!(whole.as_ref().is_none_or(|whole| whole.bytes() == bytes), "{door}: other elements");
    };
    let Ok(file) = StreamFile::open(Elsewhere(stream.to_vec())) else {
        assert!(whole.is_none());
        return false;
    };
    let written = Written::default();
    match file.decompress_to(&written, 0, &options) {
        Ok(_) => same(&written.0.into_inner().unwrap(), "to a file"),
        Err(error) => assert!(whole.is_none(), "to a file: {error}"),
    }
    let mut bytes = Vec::new();
    match Reader::new(Cursor::new(stream), options.clone()).unwrap().read_to_end(&mut bytes) {
        Ok(_) => same(&bytes, "reader"),
        Err(error) => assert!(whole.is_none(), "reader: {error}"),
    }
    let header = file.header();
    let extents = header.shape.extents();
    let region: Vec<Range<u64>> = extents
        .iter()
        .map(|&extent| {
            let start = rng.next() % (extent + 1);
            start..start + rng.next() % (extent - start + 1)
        })
        .collect();
    match (file.decompress_region(&region, &options), &whole) {
        (Ok(part), Some(whole)) => {
            let size = header.element_type.size();
            let mut elements = vec![0usize];
            for (range, extent) in region.iter().zip(extents) {
                let along =
                    |e: &usize| range.clone().map(move |i| e * *extent as usize + i as usize).collect::<Vec<_>>();
                elements = elements.iter().flat_map(along).collect();
            }
            let expected = elements.iter().flat_map(|e| &whole.bytes()[e * size..(e + 1) * size]);
            assert!(part.bytes().iter().eq(expected), "{region:?}: other elements");
        }
        (Err(error), Some(_)) => panic!("{region:?}: {error}"),
        (_, None) => {}
    }
    whole.is_some()
}

/// Damage that checksums do not catch, as a hostile writer could make it: the checksums are put right after each flip.
fn try_hostile_streams(rounds: u64, seed: u64) {
    alone(|| {
        for case in &CASES {
            let original = golden(case);
            let mut rng = Rng(seed);
            assert!(doors_agree(&original, &mut rng));
            for round in 0..rounds {
                let mut stream = original.clone();
                for _ in 0..1 + round % 3 {
                    let at = (rng.next() % stream.len() as u64) as usize;
                    stream[at] = match rng.next() % 3 {
                        0 => rng.next() as u8,
                        1 => 0xff,
                        _ => stream[at] ^ (1 << (rng.next() % 8)),
                    };
                }
                repair_checksums(&mut stream);
                doors_agree(&stream, &mut rng);
            }
        }
    });
}

#[test]
fn hostile_streams_with_right_checksums_are_errors_or_the_same_through_every_door() {
    try_hostile_streams(200, 11);
}

#[test]
#[ignore = "takes long"]
fn many_hostile_streams_are_errors_or_the_same_through_every_door() {
    try_hostile_streams(2000, 13);
}

/// Sets each byte of the header, and of the first record's header and table of sections, to one in `one_in` of its most
/// harmful values: to others in the next byte, and in the next case.
fn try_hostile_headers(one_in: usize) {
    alone(|| {
        for (number, case) in CASES.iter().enumerate() {
            let original = golden(case);
            let mut rng = Rng(12);
            for at in (8..128).chain(144..216).filter(|&at| at < original.len()) {
                let values = [0, 1, 0x7f, 0x80, 0xff, original[at].wrapping_add(1), original[at].wrapping_sub(1)];
                for value in values.into_iter().skip((at + number) % one_in).step_by(one_in) {
                    let mut stream = original.clone();
                    stream[at] = value;
                    repair_checksums(&mut stream);
                    doors_agree(&stream, &mut rng);
                }
            }
        }
    });
}

#[test]
fn hostile_headers_are_errors_or_the_same_through_every_door() {
    try_hostile_headers(3);
}

#[test]
#[ignore = "takes long"]
fn all_hostile_headers_are_errors_or_the_same_through_every_door() {
    try_hostile_headers(1);
}

#[test]
fn a_newer_version_is_named() {
    let mut stream = golden(&CASES[0]);
    stream[8] = 2;
    match decompress(&stream, &DecompressOptions::default()) {
        Err(Error::UnsupportedVersion { found: 2, supported: 1 }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn other_files_are_recognized_as_such() {
    for bytes in [&b""[..], b"x", b"\x93NUMPY\x01\x00", &[0; 1000]] {
        assert!(matches!(decompress(bytes, &DecompressOptions::default()), Err(Error::NotSyncline(_))), "{bytes:?}");
    }
}

#[test]
fn damage_stays_in_its_chunk() {
    let values: Vec<f32> = smooth(&[3 << 20], 1).into_iter().map(|v| v as f32).collect();
    let view = ArrayView::new(&values, &[3 << 20]).unwrap();
    let options = CompressOptions::new(Bound::Rel(1e-3)).with_effort(Effort::Fast);
    let mut stream = compress(&view, &options).unwrap();
    let whole = decompress(&stream, &DecompressOptions::default()).unwrap();
    let middle = stream.len() / 2;
    stream[middle] ^= 4;
    assert!(decompress(&stream, &DecompressOptions::default()).is_err());
    let chunk = 1u64 << 20;
    for (range, intact) in [(0..chunk, true), (chunk..2 * chunk, false), (2 * chunk..3 * chunk, true)] {
        let part = syncline::decompress_region(&stream, std::slice::from_ref(&range), &DecompressOptions::default());
        assert_eq!(part.is_ok(), intact, "{range:?}");
        if let Ok(part) = part {
            assert_eq!(part.bytes(), &whole.bytes()[range.start as usize * 4..range.end as usize * 4]);
        }
    }
}
