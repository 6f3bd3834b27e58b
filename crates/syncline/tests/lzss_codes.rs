//! Lossy streams whose codes may be LZSS tokens: same arrays as without, never longer; regions of them; damage that no
//! checksum notices.

mod common;

use common::{Real, Rng, check_bound, repair_checksums, smooth};
use proptest::prelude::*;
use syncline::{
    Advanced, ArrayView, Backend, Bound, Coder, CompressOptions, CudaDevices, DecompressOptions, Effort, ElementType,
    IndexKind, Pipeline, Shape, StreamFile, SymbolWidth, Writer, compress, decompress, decompress_region, inspect,
};

const HEADER: usize = 144;
/// What LZSS codes are announced by in the header, and the kind of the first chunk.
const ANNOUNCED: usize = 19;
const KIND: usize = HEADER + 16;
const LZSS_CODES: u8 = 4;

/// Returns zeros with patches of waves and noise, with jumps of all sizes, fill, and values that are too large for
/// every step.
fn patches(extents: &[u64], seed: u64) -> Vec<f64> {
    let mut rng = Rng(seed);
    let width = extents.last().copied().unwrap_or(1).max(1);
    smooth(extents, seed)
        .into_iter()
        .enumerate()
        .map(|(i, wave)| {
            let (x, y) = (i as u64 % width / 24, i as u64 / width / 24);
            let patch = (x * 7 + y * 3 + seed).is_multiple_of(5);
            match rng.next() % 8000 {
                0 => f64::NAN,
                1 => -9999.0,
                2 => f64::NEG_INFINITY,
                3 => 300.0,
                4 => 2.0,
                _ if patch => wave / 50.0,
                _ => 0.0,
            }
        })
        .collect()
}

fn options(bound: Bound, pipeline: Coder) -> CompressOptions {
    advanced_options(bound, Advanced::default().with_coder(pipeline))
}

fn advanced_options(bound: Bound, advanced: Advanced) -> CompressOptions {
    CompressOptions::new(bound).with_effort(Effort::Fast).with_advanced(advanced).with_threads(1)
}

fn as_type<T: Real>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&v| T::from_f64(v)).collect()
}

/// Checks the bound, that the array is the one without LZSS and that the stream is not longer. Returns the stream.
fn check<T: Real>(values: &[f64], extents: &[u64], options: &CompressOptions) -> Vec<u8> {
    let values: Vec<T> = as_type(values);
    let (stream, array) = check_bound(&values, extents, options);
    let plain = compress(
        &ArrayView::new(&values, extents).unwrap(),
        &options.clone().with_advanced(options.advanced().with_coder(Coder::Huffman)),
    );
    let plain = plain.unwrap();
    assert!(decompress(&plain, &DecompressOptions::default()).unwrap() == array);
    let report = inspect(&stream).unwrap();
    assert_eq!((stream[ANNOUNCED] == 1, plain[ANNOUNCED]), (report.lzss_codes, 0));
    let may = report.pipeline != Pipeline::Lossless && options.advanced().coder.is_some_and(Coder::lzss_codes);
    assert_eq!(report.lzss_codes, may);
    assert!(report.pipeline == Pipeline::Lossless || stream.len() <= plain.len(), "{} {}", stream.len(), plain.len());
    stream
}

#[test]
fn every_type_bound_width_and_level_comes_back() {
    let extents: [&[u64]; 4] = [&[40_000], &[190, 210], &[30, 33, 40], &[3, 17, 28, 30]];
    let bounds = [Bound::Abs(0.01), Bound::Rel(1e-4), Bound::Psnr(90.0), Bound::PwRel(0.05)];
    let mut used = 0;
    for (i, pipeline) in [Coder::LzssHuffman, Coder::Auto].into_iter().enumerate() {
        for (extents, bound) in extents.into_iter().flat_map(|e| bounds.map(|b| (e, b))) {
            let values = patches(extents, 5 + i as u64);
            let single = check::<f32>(&values, extents, &options(bound, pipeline));
            let double = check::<f64>(
                &values,
                extents,
                &advanced_options(bound, Advanced::default().with_coder(pipeline).with_index(IndexKind::None)),
            );
            used += inspect(&single).unwrap().totals.lzss_chunks + inspect(&double).unwrap().totals.lzss_chunks;
        }
    }
    assert!(used > 40, "{used}");
    let values = patches(&[200, 200], 3);
    for symbol in SymbolWidth::ALL.into_iter().map(Some).chain([None]) {
        for level in 1..=9 {
            let options = advanced_options(
                Bound::Abs(0.05),
                Advanced::default().with_coder(Coder::LzssHuffman).with_symbol(symbol).with_level(level),
            );
            let stream = check::<f32>(&values, &[200, 200], &options);
            assert_eq!(inspect(&stream).unwrap().totals.lzss_chunks, 1, "{symbol:?} {level}");
        }
    }
}

#[test]
fn small_and_uniform_arrays_come_back() {
    for pipeline in [Coder::LzssHuffman, Coder::Auto] {
        for length in [0usize, 1, 2, 127, 128, 129, 1023, 1025, 16_385] {
            for value in [0.0, 7.5] {
                check::<f32>(&vec![value; length], &[length as u64], &options(Bound::Abs(0.1), pipeline));
            }
            let counting: Vec<f64> = (0..length).map(|i| i as f64).collect();
            check::<f64>(&counting, &[length as u64], &options(Bound::Abs(0.1), pipeline));
        }
    }
}

#[test]
fn it_pays_where_most_codes_are_zero_and_only_there() {
    let sparse = patches(&[600, 700], 8);
    let noise: Vec<f64> = std::iter::repeat_with({
        let mut rng = Rng(4);
        move || rng.unit()
    })
    .take(600 * 700)
    .collect();
    for (values, pays) in [(&sparse, true), (&noise, false)] {
        let planes = check::<f32>(values, &[600, 700], &options(Bound::Abs(0.01), Coder::Huffman));
        let auto = check::<f32>(values, &[600, 700], &options(Bound::Abs(0.01), Coder::Auto));
        let report = inspect(&auto).unwrap();
        assert!(report.lzss_codes && !inspect(&planes).unwrap().lzss_codes);
        assert_eq!(report.totals.lzss_chunks > 0, pays);
        assert!(!pays || auto.len() < planes.len() * 9 / 10, "{} {}", auto.len(), planes.len());
    }
    // More residuals are outside of the codes than the usual radius allows: no tokens, and none are tried.
    let wild: Vec<f64> = noise.iter().map(|v| v * 1e4).collect();
    let stream = check::<f32>(&wild, &[600, 700], &options(Bound::Abs(0.1), Coder::LzssHuffman));
    assert_eq!(inspect(&stream).unwrap().totals.lzss_chunks, 0);
}

#[test]
fn streams_do_not_depend_on_threads_or_on_how_elements_come() {
    let values: Vec<f32> = as_type(&patches(&[40, 90, 200], 2));
    let view = ArrayView::new(&values, &[40, 90, 200]).unwrap();
    for pipeline in [Coder::LzssHuffman, Coder::Auto] {
        let options = options(Bound::Abs(0.01), pipeline).with_fill(syncline::Fill::None);
        let stream = compress(&view, &options).unwrap();
        assert!(stream == compress(&view, &options.clone().with_threads(3)).unwrap());
        let shape = Shape::new(&[40, 90, 200]).unwrap();
        let (low, high) = inspect(&stream).unwrap().range.unwrap();
        let mut writer = Writer::with_range(Vec::new(), ElementType::F32, shape, &options, low, high).unwrap();
        for part in view.bytes().chunks(100_001) {
            writer.push(part).unwrap();
        }
        assert!(writer.finish().unwrap() == stream && stream[KIND] == LZSS_CODES);
    }
}

#[test]
fn codes_with_every_index_come_back() {
    let values = patches(&[50_000], 3);
    for index in IndexKind::ALL {
        let options =
            advanced_options(Bound::Abs(0.01), Advanced::default().with_coder(Coder::LzssHuffman).with_index(index));
        check::<f32>(&values, &[50_000], &options);
    }
}

#[test]
fn lzss_alone_is_for_lossless_streams() {
    let view = ArrayView::new(&[1.0f32, 2.0], &[2]).unwrap();
    for bound in [Bound::Abs(0.1), Bound::Rel(0.1), Bound::Psnr(50.0), Bound::PwRel(0.1)] {
        let error = compress(&view, &options(bound, Coder::Lzss)).unwrap_err().to_string();
        assert!(error.contains("lzss+huffman"), "{error}");
    }
    compress(&view, &options(Bound::Lossless, Coder::Lzss)).unwrap();
    let shape = Shape::new(&[2]).unwrap();
    let lossy = options(Bound::Abs(0.1), Coder::Lzss);
    assert!(Writer::new(Vec::new(), ElementType::F32, shape, &lossy).is_err());
    // A bound for which no step is valid makes the stream lossless, which has no codes to announce.
    let tight = compress(&view, &options(Bound::Abs(1e-40), Coder::LzssHuffman)).unwrap();
    assert_eq!((tight[14], tight[ANNOUNCED]), (1, 0));
}

#[test]
fn backend_auto_reports_the_processor() {
    let values: Vec<f32> = as_type(&patches(&[200, 200], 3));
    let view = ArrayView::new(&values, &[200, 200]).unwrap();
    let auto = options(Bound::Abs(0.01), Coder::LzssHuffman);
    let shape = Shape::new(&[200, 200]).unwrap();
    let mut stream = Vec::new();
    let made = syncline::compress_from(view.bytes(), 0, ElementType::F32, shape, &auto, &mut stream).unwrap();
    // Too small for a GPU, unless a GPU is requested.
    assert!(!made.execution.on_gpu(), "{}", made.execution);
    let file = StreamFile::open(&stream[..]).unwrap();
    let execution = file.execution(&[0..200, 0..200], &DecompressOptions::default()).unwrap();
    assert!(!execution.on_gpu(), "{execution}");
    // A requested GPU must exist, does the work, and writes the same bytes.
    let asked = Backend::Cuda(CudaDevices::One(0));
    match file.execution(&[0..200, 0..200], &DecompressOptions::default().with_backend(asked)) {
        Ok(execution) => assert!(execution.on_gpu(), "{execution}"),
        Err(error) => assert!(matches!(error, syncline::Error::Gpu { .. }), "{error}"),
    }
    match compress(&view, &auto.with_backend(asked)) {
        Ok(other) => assert!(other == stream),
        Err(error) => assert!(matches!(error, syncline::Error::Gpu { .. }), "{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn regions_are_what_the_array_has_there(
        seed in 0..1000u64, level in 1..=9u8, extents in [1..40u64, 1..60u64, 1..70u64],
        cut in [0.0..1.0f64, 0.0..1.0, 0.0..1.0], size in [0.0..1.0f64, 0.0..1.0, 0.0..1.0],
    ) {
        let advanced = Advanced::default().with_coder(Coder::LzssHuffman).with_level(level);
        let options = advanced_options(Bound::Abs(0.01), advanced);
        let stream = check::<f32>(&patches(&extents, seed), &extents, &options);
        let whole = decompress(&stream, &DecompressOptions::default()).unwrap();
        let region: [_; 3] = std::array::from_fn(|i| {
            let first = (extents[i] as f64 * cut[i]) as u64;
            first..first + ((extents[i] - first) as f64 * size[i]) as u64
        });
        let got = decompress_region(&stream, &region, &DecompressOptions::default()).unwrap();
        let mut want = Vec::new();
        for z in region[0].clone() {
            for y in region[1].clone() {
                for x in region[2].clone() {
                    let at = ((z * extents[1] + y) * extents[2] + x) as usize * 4;
                    want.extend_from_slice(&whole.bytes()[at..at + 4]);
                }
            }
        }
        prop_assert_eq!(got.bytes(), &want[..]);
    }
}

/// A stream of one chunk of LZSS codes, its array, and the length of the chunk's record.
fn one_chunk() -> (Vec<u8>, syncline::Array, usize) {
    let stream = check::<f32>(&patches(&[80, 90], 21), &[80, 90], &options(Bound::Abs(0.02), Coder::LzssHuffman));
    assert_eq!(stream[KIND], LZSS_CODES);
    let record = u32::from_le_bytes(stream[HEADER + 4..HEADER + 8].try_into().unwrap()) as usize;
    let array = decompress(&stream, &DecompressOptions::default()).unwrap();
    (stream, array, record)
}

#[test]
fn the_golden_stream_has_them() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/golden/v1_f32_2d_lzss_huffman.syn");
    let report = inspect(&std::fs::read(path).unwrap()).unwrap();
    assert!(report.lzss_codes && report.totals.lzss_chunks == 1 && report.totals.outliers > 40);
}

#[test]
fn damage_behind_a_right_checksum_is_an_error_or_other_values() {
    let (stream, array, record) = one_chunk();
    let mut errors = 0;
    for at in HEADER + 32..HEADER + record {
        for bit in [0, 3, 7] {
            let mut damaged = stream.clone();
            damaged[at] ^= 1 << bit;
            repair_checksums(&mut damaged);
            match decompress(&damaged, &DecompressOptions::default()) {
                Ok(other) => assert_eq!(other.bytes().len(), array.bytes().len()),
                Err(_) => errors += 1,
            }
            let _ = inspect(&damaged);
        }
    }
    assert!(errors > record / 2, "{errors} of {record}");
    for length in 0..stream.len() {
        assert!(decompress(&stream[..length], &DecompressOptions::default()).is_err(), "{length}");
    }
}

/// The section of codes cut to every length, as a hostile writer could: all of the record after it moves up.
#[test]
fn a_section_that_ends_early_is_an_error() {
    let (stream, _, record) = one_chunk();
    let payload = HEADER + 32;
    let length = |number: usize| {
        let at = payload + 4 * number;
        u32::from_le_bytes(stream[at..at + 4].try_into().unwrap()) as usize
    };
    let codes = payload
        + (0..3).fold(40usize, |at, section| match length(section) {
            0 => at,
            length => at.next_multiple_of(16) + length,
        });
    let codes = codes.next_multiple_of(16);
    for cut in 0..length(3) {
        let mut damaged = stream.clone();
        damaged[payload + 12..payload + 16].copy_from_slice(&(cut as u32).to_le_bytes());
        // The remaining sections must be found: they start at the next multiple of 16.
        let (from, to) = ((codes + length(3)).next_multiple_of(16), (codes + cut).next_multiple_of(16));
        damaged[codes + cut..to.max(codes + cut)].fill(0);
        damaged.copy_within(from..HEADER + record, to);
        damaged[HEADER + record - (from - to)..HEADER + record].fill(0);
        repair_checksums(&mut damaged);
        let error = decompress(&damaged, &DecompressOptions::default()).unwrap_err().to_string();
        assert!(error.contains("damaged") || error.contains("truncated"), "{cut}: {error}");
        let _ = inspect(&damaged);
    }
}

#[test]
fn lying_headers_and_counts_are_errors() {
    let (stream, ..) = one_chunk();
    let fails = |changes: &[(usize, u8)], what: &str| {
        let mut damaged = stream.clone();
        for &(at, value) in changes {
            assert_ne!(damaged[at], value, "{at} is no change");
            damaged[at] = value;
        }
        repair_checksums(&mut damaged);
        let error = decompress(&damaged, &DecompressOptions::default()).unwrap_err().to_string();
        assert!(error.contains(what), "{changes:?}: {error}");
    };
    fails(&[(ANNOUNCED, 0)], "does not announce");
    fails(&[(ANNOUNCED, 2)], "LZSS tokens, which the header does not announce");
    fails(&[(ANNOUNCED, 8)], "out of range");
    fails(&[(ANNOUNCED, 4)], "large tiles without token codebooks");
    fails(&[(14, 1)], "lossless");
    fails(&[(KIND, 2)], "radius");
    for kind in [1, 3] {
        fails(&[(KIND, kind)], "does not fit");
    }
    fails(&[(KIND, 5)], "token codebooks, which the header does not announce");
    fails(&[(KIND, 6)], "unknown kind");
    let payload = HEADER + 32;
    // Section 0 is the first, after the table: its radius and flags.
    let tiles = payload + 48;
    fails(&[(tiles + 4, 0x81)], "radius");
    fails(&[(tiles + 4, 0), (tiles + 5, 2)], "radius");
    let length = |number: usize| {
        let at = payload + 4 * number;
        u32::from_le_bytes(stream[at..at + 4].try_into().unwrap()) as usize
    };
    let section = |number: usize| (0..number).fold(tiles, |at, section| (at + length(section)).next_multiple_of(16));
    // Within the section of codes: a table of ten lengths, then (two sections are empty) the parameters and the blocks.
    let parameters = section(3) + 48;
    for (at, value) in [
        (0, 0u8),
        (0, 3),
        (1, 0),
        (1, 10),
        (2, 0),
        (2, 17),
        (3, 3),
        (3, 0),
        (8, 0),
        (10, 1),
        (11, 0xff),
        (12, 0xff),
        (15, 0x80),
    ] {
        fails(&[(parameters + at, value)], "chunk 0");
    }
    for (entry, value) in [(0, 255), (1, 255), (2, 255), (3, 255), (4, 255), (5, 255), (6, 255)] {
        fails(&[(section(3) + 4 * entry + 3, value)], "truncated");
    }
    // Some of the literals as a section of their own.
    let entry = section(3) + 4 * 6;
    let literals = u32::from_le_bytes(stream[entry..entry + 4].try_into().unwrap());
    let cut = (literals - 1) / 16 * 16;
    let lengths = [cut.to_le_bytes(), (literals - cut).to_le_bytes()].concat();
    let changes: Vec<(usize, u8)> = (entry..).zip(lengths).filter(|&(at, byte)| stream[at] != byte).collect();
    fails(&changes, "unexpected sections");
}
