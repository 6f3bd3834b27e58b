//! Streams with an error bound of arrays with everything in them: every type and bound, regions, and damage that no
//! checksum notices.

mod common;

use common::{Real, Rng, check_bound, repair_checksums, smooth};
use proptest::prelude::*;
use syncline::{
    ArrayView, Backend, Bound, CompressOptions, CudaDevices, DecompressOptions, Effort, ElementType, Shape, StreamFile,
    Writer, compress, decompress, decompress_region, inspect,
};

const HEADER: usize = 144;
/// The flags of the header, and the kind of the first chunk.
const FLAGS: usize = 19;
const KIND: usize = HEADER + 16;
const QUANTIZED: u8 = 2;

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

fn options(bound: Bound) -> CompressOptions {
    CompressOptions::new(bound).with_effort(Effort::Fast).with_threads(1)
}

fn as_type<T: Real>(values: &[f64]) -> Vec<T> {
    values.iter().map(|&v| T::from_f64(v)).collect()
}

/// Checks the bound. Returns the stream.
fn check<T: Real>(values: &[f64], extents: &[u64], options: &CompressOptions) -> Vec<u8> {
    check_bound(&as_type::<T>(values), extents, options).0
}

#[test]
fn every_type_and_bound_comes_back() {
    let extents: [&[u64]; 4] = [&[40_000], &[190, 210], &[30, 33, 40], &[3, 17, 28, 30]];
    let bounds = [Bound::Abs(0.01), Bound::Rel(1e-4), Bound::Psnr(90.0), Bound::PwRel(0.05)];
    for (extents, bound) in extents.into_iter().flat_map(|e| bounds.map(|b| (e, b))) {
        let values = patches(extents, 5);
        check::<f32>(&values, extents, &options(bound));
        check::<f64>(&values, extents, &options(bound));
    }
}

#[test]
fn small_and_uniform_arrays_come_back() {
    for length in [0usize, 1, 2, 127, 128, 129, 1023, 1025, 16_385] {
        for value in [0.0, 7.5] {
            check::<f32>(&vec![value; length], &[length as u64], &options(Bound::Abs(0.1)));
        }
        let counting: Vec<f64> = (0..length).map(|i| i as f64).collect();
        check::<f64>(&counting, &[length as u64], &options(Bound::Abs(0.1)));
    }
}

#[test]
fn streams_do_not_depend_on_threads_or_on_how_elements_come() {
    let values: Vec<f32> = as_type(&patches(&[40, 90, 200], 2));
    let view = ArrayView::new(&values, &[40, 90, 200]).unwrap();
    let options = options(Bound::Abs(0.01)).with_fill(syncline::Fill::None);
    let stream = compress(&view, &options).unwrap();
    assert!(stream == compress(&view, &options.clone().with_threads(3)).unwrap());
    let shape = Shape::new(&[40, 90, 200]).unwrap();
    let (low, high) = inspect(&stream).unwrap().range.unwrap();
    let mut writer = Writer::with_range(Vec::new(), ElementType::F32, shape, &options, low, high).unwrap();
    for part in view.bytes().chunks(100_001) {
        writer.push(part).unwrap();
    }
    assert!(writer.finish().unwrap() == stream && stream[KIND] == QUANTIZED);
}

#[test]
fn a_bound_without_a_step_makes_a_lossless_stream() {
    let view = ArrayView::new(&[1.1f32, 2.0], &[2]).unwrap();
    let tight = compress(&view, &options(Bound::Abs(1e-40))).unwrap();
    assert_eq!((tight[14], tight[FLAGS]), (1, 0));
}

#[test]
fn backend_auto_reports_the_processor() {
    let values: Vec<f32> = as_type(&patches(&[200, 200], 3));
    let view = ArrayView::new(&values, &[200, 200]).unwrap();
    let auto = options(Bound::Abs(0.01));
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
        seed in 0..1000u64, extents in [1..40u64, 1..60u64, 1..70u64],
        cut in [0.0..1.0f64, 0.0..1.0, 0.0..1.0], size in [0.0..1.0f64, 0.0..1.0, 0.0..1.0],
    ) {
        let stream = check::<f32>(&patches(&extents, seed), &extents, &options(Bound::Abs(0.01)));
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

/// A stream of one chunk, its array, and the length of the chunk's record.
fn one_chunk() -> (Vec<u8>, syncline::Array, usize) {
    let stream = check::<f32>(&patches(&[80, 90], 21), &[80, 90], &options(Bound::Abs(0.02)));
    assert_eq!(stream[KIND], QUANTIZED);
    let record = u32::from_le_bytes(stream[HEADER + 4..HEADER + 8].try_into().unwrap()) as usize;
    let array = decompress(&stream, &DecompressOptions::default()).unwrap();
    (stream, array, record)
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
        + (0..4).fold(40usize, |at, section| match length(section) {
            0 => at,
            length => at.next_multiple_of(16) + length,
        });
    let codes = codes.next_multiple_of(16);
    assert!(length(4) > 0);
    for cut in 0..length(4) {
        let mut damaged = stream.clone();
        damaged[payload + 16..payload + 20].copy_from_slice(&(cut as u32).to_le_bytes());
        // The remaining sections must be found: they start at the next multiple of 16.
        let (from, to) = ((codes + length(4)).next_multiple_of(16), (codes + cut).next_multiple_of(16));
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
    fails(&[(FLAGS, 2)], "out of range");
    fails(&[(FLAGS, 1)], "does not fit");
    fails(&[(14, 1)], "does not fit");
    for kind in [1, 3, 4] {
        fails(&[(KIND, kind)], "does not fit");
    }
    fails(&[(KIND, 5)], "unknown kind");
    let payload = HEADER + 32;
    // Section 0 is the first, after the table: its scheme, predictors, and flags.
    let tiles = payload + 48;
    fails(&[(tiles + 4, 9)], "scheme");
    fails(&[(tiles + 5, 9)], "predictor");
    fails(&[(tiles + 8, 8)], "does not fit");
    let length = |number: usize| {
        let at = payload + 4 * number;
        u32::from_le_bytes(stream[at..at + 4].try_into().unwrap()) as usize
    };
    let section = |number: usize| (0..number).fold(tiles, |at, section| (at + length(section)).next_multiple_of(16));
    // The section of codes: strips, coded strips, codebooks, flags, and lengths.
    let codes = section(4);
    for (at, value) in [(0, 0xff), (4, 0xff), (8, 7), (9, 2), (10, 1), (12, 0xff), (16, 0xff), (19, 0x80), (20, 0xff)] {
        fails(&[(codes + at, value)], "chunk 0");
    }
    for number in 0..5 {
        fails(&[(payload + 4 * number + 3, 255)], "truncated");
    }
    fails(&[(payload + 4 * 5, 1)], "chunk 0");
}
