//! Arrays that do not pass through memory as a whole: files, writers, readers; limits, progress, cancellation.

mod common;

use std::fs::{self, File};
use std::io::{Cursor, Read};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{repair_checksums, smooth};
use syncline::{
    Advanced, ArrayView, Bound, CompressOptions, DecompressOptions, Effort, ElementType, Error, Fill, IndexKind,
    ReadAt, Reader, SequentialReader, Shape, StreamFile, Writer, compress, compress_from, decompress,
};

fn field(extents: &[u64]) -> (Vec<f32>, Vec<u8>) {
    let values: Vec<f32> = smooth(extents, 8).into_iter().map(|v| v as f32).collect();
    let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    (values, bytes)
}

const SHAPES: [&[u64]; 6] = [&[0], &[2_500_000], &[1100, 1050], &[70, 130, 150], &[3, 30, 140, 120], &[40, 2, 3, 5]];

#[test]
fn files_give_the_same_streams_and_arrays_as_memory() {
    let folder = tempfile::tempdir().unwrap();
    for (i, extents) in SHAPES.iter().enumerate() {
        let (values, bytes) = field(extents);
        let options = CompressOptions::new(Bound::Rel(1e-4)).with_threads(3);
        let expected = compress(&ArrayView::new(&values, extents).unwrap(), &options).unwrap();

        // With something in front of the array, as a .npy file has.
        let path = folder.path().join(format!("{i}"));
        fs::write(&path, [b"header12".as_slice(), &bytes].concat()).unwrap();
        let shape = Shape::new(extents).unwrap();
        let mut stream = Vec::new();
        let file = File::open(&path).unwrap();
        let summary = compress_from(&file, 8, ElementType::F32, shape, &options, &mut stream).unwrap();
        assert!(stream == expected, "{extents:?}");
        assert_eq!((summary.compressed_bytes, summary.uncompressed_bytes), (stream.len() as u64, bytes.len() as u64));

        let compressed = folder.path().join(format!("{i}.syn"));
        fs::write(&compressed, &stream).unwrap();
        let opened = StreamFile::open(File::open(&compressed).unwrap()).unwrap();
        assert_eq!(opened.inspect().unwrap().compressed_bytes, stream.len() as u64);
        let back = folder.path().join(format!("{i}.back"));
        opened.decompress_to(&File::create(&back).unwrap(), 5, &DecompressOptions::default()).unwrap();
        let array = decompress(&stream, &DecompressOptions::default()).unwrap();
        assert!(fs::read(&back).unwrap().get(5..).unwrap_or(&[]) == array.bytes(), "{extents:?}");
    }
}

#[test]
fn a_writer_gives_the_same_stream_for_any_pushes() {
    for extents in SHAPES {
        let (values, bytes) = field(extents);
        let shape = Shape::new(extents).unwrap();
        for bound in [Bound::Lossless, Bound::Abs(1e-3), Bound::PwRel(1e-3)] {
            let options = CompressOptions::new(bound).with_threads(2);
            let mut streams = Vec::new();
            for step in [1000, 77_777, usize::MAX] {
                let mut writer = Writer::new(Vec::new(), ElementType::F32, shape, &options).unwrap();
                bytes.chunks(step).for_each(|part| writer.push(part).unwrap());
                streams.push(writer.finish().unwrap());
            }
            assert!(streams.windows(2).all(|pair| pair[0] == pair[1]), "{extents:?} {bound:?}");
            let array = decompress(&streams[0], &DecompressOptions::default()).unwrap();
            let back = array.to_vec::<f32>().unwrap();
            let held = |x: f32, y: f32| match bound {
                Bound::Abs(bound) => (f64::from(x) - f64::from(y)).abs() <= bound,
                Bound::PwRel(ratio) => (f64::from(x) - f64::from(y)).abs() <= ratio * f64::from(x.abs()),
                _ => x.to_bits() == y.to_bits(),
            };
            assert!(values.iter().zip(&back).all(|(&x, &y)| held(x, y)), "{extents:?} {bound:?}");
        }
    }
}

#[test]
fn a_writer_takes_a_stated_range_and_fill() {
    let (mut values, _) = field(&[300, 400]);
    values[1000..3000].fill(f32::NAN);
    values[60_000..64_000].fill(-999.0);
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let options = CompressOptions::new(Bound::Rel(1e-3)).with_fill(Fill::Value(-999.0));
    let shape = Shape::new(&[300, 400]).unwrap();
    assert!(Writer::new(Vec::new(), ElementType::F32, shape, &options).is_err());
    let mut writer = Writer::with_range(Vec::new(), ElementType::F32, shape, &options, -13.0, 13.0).unwrap();
    writer.push(&bytes).unwrap();
    let stream = writer.finish().unwrap();
    let report = syncline::inspect(&stream).unwrap();
    assert_eq!((report.range, report.abs_bound, report.fills.len()), (Some((-13.0, 13.0)), 1e-3 * 26.0, 2));
    assert!(report.totals.verbatim < 100, "{}", report.totals.verbatim);
    let back = decompress(&stream, &DecompressOptions::default()).unwrap().to_vec::<f32>().unwrap();
    assert!(values.iter().zip(&back).all(|(x, y)| x.to_bits() == y.to_bits() || f64::from(x - y).abs() <= 0.026));
}

#[test]
fn a_writer_wants_exactly_the_elements_of_the_shape() {
    let shape = Shape::new(&[10, 10]).unwrap();
    let options = CompressOptions::new(Bound::Abs(0.1));
    let mut writer = Writer::new(Vec::new(), ElementType::F32, shape, &options).unwrap();
    writer.push(&[0; 396]).unwrap();
    assert!(writer.push(&[0; 5]).is_err());
    assert!(writer.finish().is_err());
}

#[test]
fn a_reader_gives_the_elements_in_order() {
    for extents in SHAPES {
        let (values, _) = field(extents);
        for index in IndexKind::ALL {
            let options = CompressOptions::new(Bound::Rel(1e-3)).with_effort(Effort::Fast);
            let options = options.with_advanced(Advanced::default().with_index(index));
            let stream = compress(&ArrayView::new(&values, extents).unwrap(), &options).unwrap();
            let expected = decompress(&stream, &DecompressOptions::default()).unwrap();
            let mut reader = Reader::new(Cursor::new(&stream), DecompressOptions::default()).unwrap();
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            assert!(bytes == expected.bytes(), "{extents:?} {index}");
        }
    }
}

/// While its elements are read in order, and with the same sizes and counts as a stream in memory.
#[test]
fn a_reader_gives_regions_and_sizes() {
    let (values, _) = field(&[70, 130, 150]);
    let view = ArrayView::new(&values, &[70, 130, 150]).unwrap();
    let stream = compress(&view, &CompressOptions::new(Bound::Rel(1e-3))).unwrap();
    let options = DecompressOptions::default();
    let whole = decompress(&stream, &options).unwrap();
    let mut reader = Reader::new(Cursor::new(&stream), options.clone()).unwrap();
    assert_eq!(reader.inspect().unwrap(), syncline::inspect(&stream).unwrap());
    assert_eq!(reader.header().shape, view.shape());
    assert!(format!("{reader:?}").contains("stream_len"));
    let mut bytes = vec![0; 1_000_001];
    reader.read_exact(&mut bytes).unwrap();
    for region in [[0..70, 0..130, 0..150], [3..4, 7..90, 149..150], [69..70, 0..130, 8..16], [5..5, 0..130, 0..1]] {
        let expected = syncline::decompress_region(&stream, &region, &options).unwrap();
        assert!(reader.read_region(&region).unwrap() == expected, "{region:?}");
    }
    for region in [&[0..71, 0..130, 0..150][..], &[0..70, 0..130], &[0..70, 131..131, 0..150]] {
        assert!(matches!(reader.read_region(region), Err(Error::InvalidArgument(_))), "{region:?}");
    }
    reader.read_to_end(&mut bytes).unwrap();
    assert!(bytes == whole.bytes());
}

#[test]
fn arrays_are_decompressed_into_memory_of_the_callers() {
    for extents in SHAPES {
        let (values, bytes) = field(extents);
        let stream = compress(&ArrayView::new(&values, extents).unwrap(), &CompressOptions::default()).unwrap();
        let file = StreamFile::open(stream.as_slice()).unwrap();
        let options = DecompressOptions::default().with_threads(3);
        let mut out = vec![0xff; bytes.len()];
        assert!(!file.decompress_into(&mut out, &options).unwrap().on_gpu());
        assert!(out == bytes, "{extents:?}");
        for length in [bytes.len() + 1, bytes.len().saturating_sub(1), 0] {
            if length != bytes.len() {
                let error = file.decompress_into(&mut vec![0; length], &options).unwrap_err();
                let text = format!("the array has {} bytes, but the output has {length}", bytes.len());
                assert!(error.to_string().contains(&text), "{extents:?}: {error}");
            }
        }
    }
}

#[test]
fn a_summary_has_the_ratios_of_the_report() {
    for (extents, bits) in [(&[300, 70][..], 32.0), (&[0], 0.0)] {
        let (_, bytes) = field(extents);
        let mut stream = Vec::new();
        let shape = Shape::new(extents).unwrap();
        let options = CompressOptions::new(Bound::Rel(1e-3));
        let summary = compress_from(&bytes, 0, ElementType::F32, shape, &options, &mut stream).unwrap();
        let report = syncline::inspect(&stream).unwrap();
        assert_eq!((summary.ratio(), summary.bits_per_value()), (report.ratio(), report.bits_per_value()));
        assert!(summary.bits_per_value() <= bits && summary == summary.clone());
        assert_eq!(summary.ratio(), bytes.len() as f64 / stream.len() as f64);
    }
}

#[test]
fn memory_limits_are_respected() {
    let (values, _) = field(&[1100, 1050]);
    let view = ArrayView::new(&values, &[1100, 1050]).unwrap();
    let stream = compress(&view, &CompressOptions::new(Bound::Rel(1e-3))).unwrap();
    let options = DecompressOptions::default().with_memory_limit(1 << 20);
    assert!(matches!(decompress(&stream, &options), Err(Error::MemoryLimit { .. })));
    assert!(syncline::decompress_region(&stream, &[0..10, 0..10], &options).is_err());
    let options = DecompressOptions::default().with_memory_limit(64 << 20);
    assert!(decompress(&stream, &options).is_ok());
    assert!(matches!(
        compress(&view, &CompressOptions::new(Bound::Rel(1e-3)).with_memory_limit(1 << 20)),
        Err(Error::MemoryLimit { .. })
    ));
    assert!(compress(&view, &CompressOptions::new(Bound::Rel(1e-3)).with_memory_limit(64 << 20)).unwrap() == stream);
    // The stream itself counts, too.
    let mut rng = common::Rng(1);
    let noise: Vec<u64> = (0..5 << 20).map(|_| rng.next()).collect();
    let options = CompressOptions::default().with_memory_limit(32 << 20).with_threads(1);
    let result = compress(&ArrayView::new(&noise, &[5 << 20]).unwrap(), &options);
    assert!(matches!(result, Err(Error::MemoryLimit { .. })));
}

/// A source that counts how often it is read.
struct Counted(Vec<u8>, AtomicU64);

impl ReadAt for Counted {
    fn size(&self) -> std::io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.read_exact_at(buffer, offset)
    }
}

#[test]
fn rows_of_tiles_and_of_samples_are_read_many_at_a_time() {
    const EXTENTS: [u64; 3] = [100, 200, 192];
    let (values, bytes) = field(&EXTENTS);
    let rows = EXTENTS[0] * EXTENTS[1];
    for (effort, most) in [(Effort::Balanced, rows / 10), (Effort::Fast, rows / 2)] {
        let options = CompressOptions::new(Bound::Rel(1e-4)).with_effort(effort).with_threads(1);
        let expected = compress(&ArrayView::new(&values, &EXTENTS).unwrap(), &options).unwrap();
        let source = Counted(bytes.clone(), AtomicU64::new(0));
        let (shape, mut stream) = (Shape::new(&EXTENTS).unwrap(), Vec::new());
        compress_from(&source, 0, ElementType::F32, shape, &options, &mut stream).unwrap();
        assert!(stream == expected, "{effort:?}");
        let reads = source.1.into_inner();
        assert!(reads <= most, "{effort:?}: {reads} of {rows} rows");
    }
}

#[test]
fn progress_counts_up_and_cancels() {
    let (values, _) = field(&[70, 130, 150]);
    let view = ArrayView::new(&values, &[70, 130, 150]).unwrap();
    let most = Arc::new(AtomicU64::new(0));
    let seen = most.clone();
    let progress = move |done: u64, of: u64| {
        assert!(done <= of);
        seen.fetch_max(done, Ordering::Relaxed);
        ControlFlow::Continue(())
    };
    let stream = compress(&view, &CompressOptions::new(Bound::Rel(1e-3)).with_progress(progress.clone())).unwrap();
    assert_eq!(most.swap(0, Ordering::Relaxed), values.len() as u64);
    decompress(&stream, &DecompressOptions::default().with_progress(progress)).unwrap();
    assert_eq!(most.load(Ordering::Relaxed), values.len() as u64);

    let cancel = |_: u64, _: u64| ControlFlow::Break(());
    let options = CompressOptions::new(Bound::Rel(1e-3)).with_progress(cancel);
    assert!(matches!(compress(&view, &options), Err(Error::Cancelled)));
    let options = DecompressOptions::default().with_progress(cancel);
    assert!(matches!(decompress(&stream, &options), Err(Error::Cancelled)));
}

/// A header can promise anything; nothing is allocated before the stream has shown that it can hold it.
#[test]
fn promises_are_checked_before_memory_is_taken() {
    let (values, _) = field(&[70, 130, 150]);
    let view = ArrayView::new(&values, &[70, 130, 150]).unwrap();
    let mut stream = compress(&view, &CompressOptions::new(Bound::Rel(1e-3))).unwrap();
    for (axis, extent) in [(0, 1u64 << 40), (1, 1 << 30), (2, 1 << 45), (0, 71), (2, 1200)] {
        let original = stream.clone();
        stream[24 + 8 * axis..32 + 8 * axis].copy_from_slice(&extent.to_le_bytes());
        repair_checksums(&mut stream);
        assert!(decompress(&stream, &DecompressOptions::default()).is_err(), "axis {axis} of {extent}");
        stream = original;
    }
    assert!(decompress(&stream, &DecompressOptions::default()).is_ok());
}

/// Extents beside an extent of 0 may be huge and cost a stream nothing.
#[test]
fn a_huge_empty_array_is_read_at_once() {
    for extents in [&[1 << 59, 0][..], &[0, 1 << 59], &[1 << 50, 0, 2, 3], &[3, 1 << 50, 0, 7], &[0]] {
        let shape = Shape::new(extents).unwrap();
        let options = CompressOptions::new(Bound::Abs(0.1));
        let stream = Writer::new(Vec::new(), ElementType::F32, shape, &options).unwrap().finish().unwrap();
        assert!(decompress(&stream, &DecompressOptions::default()).unwrap().bytes().is_empty());
        let mut bytes = Vec::new();
        let mut reader = Reader::new(Cursor::new(stream), DecompressOptions::default()).unwrap();
        reader.read_to_end(&mut bytes).unwrap();
        assert!(bytes.is_empty(), "{extents:?}");
    }
}

/// A push that completes no chunk must not look at all tiles of the next.
#[test]
fn tiny_pushes_give_the_same_stream() {
    let (values, bytes) = field(&[40, 200, 300]);
    let shape = Shape::new(&[40, 200, 300]).unwrap();
    let options = CompressOptions::new(Bound::Abs(0.01)).with_threads(2);
    let write = |step: usize| {
        let mut writer = Writer::new(Vec::new(), ElementType::F32, shape, &options).unwrap();
        bytes.chunks(step).for_each(|part| writer.push(part).unwrap());
        writer.finish().unwrap()
    };
    assert_eq!(bytes.len(), values.len() * 4);
    assert!(write(7) == write(bytes.len()));
}

#[test]
fn streams_that_arrive_in_order_give_the_same_arrays() {
    for extents in SHAPES {
        let (values, _) = field(extents);
        for (bound, threads) in [(Bound::Abs(1e-3), 1), (Bound::Lossless, 3)] {
            let stream = compress(&ArrayView::new(&values, extents).unwrap(), &CompressOptions::new(bound)).unwrap();
            let options = DecompressOptions::default().with_threads(threads);
            let expected = decompress(&stream, &options).unwrap();
            let reader = SequentialReader::new(stream.as_slice(), options.clone()).unwrap();
            let mut back = Vec::new();
            assert_eq!(reader.copy_to(&mut back).unwrap(), stream.len() as u64);
            assert!(back == expected.bytes(), "{extents:?} {bound:?}");

            // Bytes that follow, damage, and an early end.
            let fails = |bytes: &[u8]| {
                let reader = SequentialReader::new(bytes, options.clone()).unwrap();
                reader.copy_to(std::io::sink()).unwrap_err()
            };
            assert!(matches!(fails(&[&stream[..], b"x"].concat()), Error::Corrupt { .. }));
            for place in [150, stream.len() / 2, stream.len() - 1] {
                let mut bad = stream.clone();
                bad[place.max(150)] ^= 1;
                let error = fails(&bad);
                assert!(matches!(error, Error::Corrupt { .. } | Error::Truncated { .. }), "{place}: {error}");
                assert!(matches!(fails(&stream[..place.max(144)]), Error::Truncated { .. }));
            }
        }
    }
    let error = SequentialReader::new(b"nothing!".as_slice(), DecompressOptions::default()).unwrap_err();
    assert!(matches!(error, Error::NotSyncline(_)));
}

#[test]
fn reading_in_order_keeps_to_its_memory_limit() {
    let extents = [160, 130, 150];
    let (values, _) = field(&extents);
    let options = CompressOptions::new(Bound::Abs(1e-3));
    let stream = compress(&ArrayView::new(&values, &extents).unwrap(), &options).unwrap();
    let read = |limit: u64| {
        let options = DecompressOptions::default().with_threads(4).with_memory_limit(limit);
        let mut back = Vec::new();
        SequentialReader::new(stream.as_slice(), options).unwrap().copy_to(&mut back).map(|_| back)
    };
    let Err(Error::MemoryLimit { needed, .. }) = read(1 << 22) else { panic!() };
    assert!(needed < 100 << 20);
    let expected = decompress(&stream, &DecompressOptions::default()).unwrap();
    assert!(read(needed.max(80 << 20)).unwrap() == expected.bytes());
}
