//! The devices' streams and arrays against the CPU's, with batches and buffers small enough that there are many of
//! each.

use std::io::Write;
use std::sync::{Mutex, OnceLock};

use rayon::prelude::*;
use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, Fill};
use syncline_core::container::{HEADER_LEN, table_and_trailer};
use syncline_core::geometry::Geometry;
use syncline_core::huffman::IndexKind;
use syncline_core::pipeline::{Coder, Effort};

use super::plan::{layer_batches, stretch_batches};
use super::{Compression, Decompression, Gpus, Sizes};
use crate::devices::{Backend, CudaDevices};
use crate::job::header_for;
use crate::options::{CompressOptions, DecompressOptions, Meter};
use crate::pool::Pool;
use crate::source::ArraySource;
use crate::{Advanced, StreamFile, compress_from, decompress};

/// All GPUs, the first one twice, so that the work is shared also where there is only one; opened once. Without one:
/// `None` and one line that says so, or a failure if `SYNCLINE_REQUIRE_CUDA` is 1.
fn gpus() -> Option<&'static Gpus> {
    static GPUS: OnceLock<Option<Gpus>> = OnceLock::new();
    let open = || match Gpus::open(CudaDevices::All) {
        Ok(Gpus(mut devices)) => {
            devices.push(devices[0]);
            Some(Gpus(devices))
        }
        Err(error) if std::env::var_os("SYNCLINE_REQUIRE_CUDA").is_some_and(|value| value == "1") => {
            panic!("SYNCLINE_REQUIRE_CUDA is set: {error}")
        }
        Err(error) => {
            // Not through `eprintln!`, which the test harness hides when a test passes.
            let _ = writeln!(std::io::stderr(), "skipped: no CUDA device ({error})");
            None
        }
    };
    GPUS.get_or_init(open).as_ref()
}

/// The first, or the second if `SYNCLINE_TEST_SIZE` says that tests are to be small, under a sanitizer.
fn pick<T>(whole: T, small: T) -> T {
    match std::env::var("SYNCLINE_TEST_SIZE").as_deref() {
        Ok("tiny" | "small") => small,
        Ok("whole") | Err(_) => whole,
        Ok(other) => panic!("SYNCLINE_TEST_SIZE is 'whole', 'small' or 'tiny', not '{other}'"),
    }
}

/// Waves, noise, and now and then a fill value, a NaN or an infinity.
fn field(element: ElementType, count: u64) -> Vec<u8> {
    let mut state = 7u64;
    let values = (0..count).map(|i| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match state >> 40 {
            noise if noise % 5003 == 0 => f64::NAN,
            noise if noise % 5009 == 0 => f64::INFINITY,
            _ if i / 700 % 11 == 3 => -9999.0,
            noise => (i as f64 * 0.01).sin() * 10.0 + (i as f64 * 0.0003).cos() * 5.0 + noise as f64 * 1e-9,
        }
    });
    let bits = values.map(|value| element.bits_of_number(value).unwrap());
    bits.flat_map(|bits| bits.to_le_bytes()[..element.size()].to_vec()).collect()
}

fn shapes() -> [&'static [u64]; 7] {
    pick(
        [&[0], &[1], &[2_500_001], &[1100, 1050], &[130, 70, 150], &[3, 30, 140, 121], &[1, 9, 1, 300_000]],
        [&[0], &[1], &[60_001], &[110, 105], &[20, 30, 35], &[3, 12, 20, 21], &[1, 9, 1, 3000]],
    )
}

/// Kept on the devices as a whole, and batch by batch; many small pieces, few large ones.
fn all_sizes() -> [Sizes; 3] {
    let usual = Sizes::default();
    [
        usual,
        Sizes { batch: 3 << 20, piece: 256 << 10, lanes: 2, ..usual },
        Sizes { batch: 1, piece: 128 << 10, device_memory: 0, ..usual },
    ]
}

/// The first `count` sizes of [`all_sizes`] for a case, or one of them if `SYNCLINE_TEST_SIZE` is `tiny`, as on an
/// emulated GPU; another one for the next case.
fn sizes_of(case: usize, count: usize) -> Vec<Sizes> {
    let all = &all_sizes()[..count];
    match std::env::var("SYNCLINE_TEST_SIZE").as_deref() {
        Ok("tiny") => vec![all[case % count]],
        _ => all.to_vec(),
    }
}

fn compressed(
    gpus: &Gpus,
    bytes: &[u8],
    element: ElementType,
    shape: Shape,
    options: &CompressOptions,
    sizes: Sizes,
) -> Vec<u8> {
    let tile_size = options.tile_size();
    let geometry = Geometry::with_tiles(shape, tile_size);
    let pool = Pool::new(3, u64::MAX).unwrap();
    let array = ArraySource::new(bytes, 0, element);
    let mut work = Compression::with_sizes(gpus, element, &geometry, options, sizes).unwrap();
    let resolved = work.resolve(&array, options, &pool).unwrap();
    let header = header_for(element, shape, options, tile_size, &resolved);
    let mut last = Vec::new();
    // Twice: the second time with everything used before, as for a PSNR.
    for _ in 0..2 {
        let mut stream = header.to_bytes().to_vec();
        let no_progress = crate::options::Progress::default();
        let meter = Meter::new(&no_progress, geometry.elements());
        let mut write = |record: &[u8]| {
            stream.extend_from_slice(record);
            Ok(())
        };
        let (lengths, _) = work.compress(&array, &header, &pool, &meter, &mut write).unwrap();
        assert_eq!(stream.len(), HEADER_LEN + lengths.iter().map(|&length| length as usize).sum::<usize>());
        stream.extend_from_slice(&table_and_trailer(&header, &lengths));
        assert!(last.is_empty() || last == stream, "{shape}: another stream the second time");
        last = stream;
    }
    last
}

#[test]
fn streams_and_arrays_are_those_of_the_cpu() {
    let Some(gpus) = gpus() else { return };
    // Every combination has kernels of its own, and compiling them takes longer than the test.
    let usual = (ElementType::F32, Bound::Rel(1e-3));
    let ragged: &[u64] = pick(&[130, 70, 150], &[20, 30, 35]);
    let mut cases: Vec<_> = shapes().into_iter().map(|extents| (usual, Effort::Fast, extents)).collect();
    cases.push(((ElementType::F64, Bound::Abs(1e-4)), Effort::Fast, ragged));
    cases.push(((ElementType::F64, Bound::PwRel(1e-2)), Effort::Fast, ragged));
    cases.push(((ElementType::F16, Bound::Rel(1e-2)), Effort::Balanced, ragged));
    for (case, ((element, bound), effort, extents)) in cases.into_iter().enumerate() {
        let shape = Shape::new(extents).unwrap();
        let bytes = field(element, shape.len());
        let options = CompressOptions::new(bound).with_effort(effort);
        let options = options.with_backend(Backend::Cpu);
        let mut expected = Vec::new();
        let summary = compress_from(bytes.as_slice(), 0, element, shape, &options, &mut expected).unwrap();
        if summary.step == 0.0 {
            continue;
        }
        let array = decompress(&expected, &DecompressOptions::default().with_backend(Backend::Cpu)).unwrap();
        for sizes in sizes_of(case, 3) {
            let what = format!("{element} {shape} {bound:?} {effort} {sizes:?}");
            let stream = compressed(gpus, &bytes, element, shape, &options, sizes);
            assert!(stream == expected, "{what}: {} bytes, not {}", stream.len(), expected.len());
            let count = shape.len();
            for wanted in [0..count, count / 3..count / 3 * 2, count..count] {
                check_decompression(gpus, &stream, array.bytes(), wanted, sizes, &what);
            }
        }
    }
}

#[test]
fn lossless_streams_and_arrays_are_those_of_the_cpu() {
    let Some(gpus) = gpus() else { return };
    for (element, pipeline) in [
        (ElementType::U16, Coder::LzssHuffman),
        (ElementType::F32, Coder::Auto),
        (ElementType::F64, Coder::Lzss),
        (ElementType::I8, Coder::Auto),
    ] {
        let shapes = pick(
            [&[0][..], &[1], &[1_250_001], &[530, 1050], &[65, 70, 150]],
            [&[0], &[1], &[50_001], &[53, 105], &[25, 20, 30]],
        );
        for (case, extents) in shapes.into_iter().enumerate() {
            let shape = Shape::new(extents).unwrap();
            let bytes = field(ElementType::F32, shape.len() * element.size() as u64 / 4 + 1);
            let bytes = &bytes[..shape.len() as usize * element.size()];
            let options = CompressOptions::new(Bound::Lossless).with_advanced(Advanced::default().with_coder(pipeline));
            let options = options.with_backend(Backend::Cpu);
            let mut expected = Vec::new();
            compress_from(bytes, 0, element, shape, &options, &mut expected).unwrap();
            // Not layer by layer of tiles: each would take all of its chunk to be decoded.
            for sizes in sizes_of(case, 2) {
                let what = format!("{element} {shape} {pipeline} {sizes:?}");
                let stream = compressed(gpus, bytes, element, shape, &options, sizes);
                assert!(stream == expected, "{what}: {} bytes, not {}", stream.len(), expected.len());
                let count = shape.len();
                for wanted in [0..count, count / 3..count / 3 * 2, count..count] {
                    check_decompression(gpus, &stream, bytes, wanted, sizes, &what);
                }
            }
        }
    }
}

/// More calls at a time than there are threads to wait for them.
#[test]
fn arrays_are_decompressed_side_by_side() {
    if gpus().is_none() {
        return;
    }
    let shape = Shape::new(&[40, 50, 60]).unwrap();
    let bytes = field(ElementType::F32, shape.len());
    let mut stream = Vec::new();
    let options = CompressOptions::new(Bound::Rel(1e-3)).with_backend(Backend::Cpu);
    compress_from(bytes.as_slice(), 0, ElementType::F32, shape, &options, &mut stream).unwrap();
    let expected = decompress(&stream, &DecompressOptions::default().with_backend(Backend::Cpu)).unwrap();
    let cuda = DecompressOptions::default().with_backend(Backend::Cuda(CudaDevices::One(0)));
    (0..2 * rayon::current_num_threads())
        .into_par_iter()
        .with_max_len(1)
        .for_each(|_| assert!(decompress(&stream, &cuda).unwrap() == expected));
}

fn check_decompression(
    gpus: &Gpus,
    stream: &[u8],
    expected: &[u8],
    wanted: std::ops::Range<u64>,
    sizes: Sizes,
    what: &str,
) {
    let size = StreamFile::open(stream).unwrap().header().element_type.size();
    let batches = |geometry: &Geometry, element, batch| stretch_batches(geometry, &wanted, element, batch);
    let mut work = Decompression::with_sizes(gpus, stream, batches, None, sizes).unwrap();
    let whole = elements_of(&mut work, stream, wanted.end - wanted.start, what);
    assert!(whole == expected[wanted.start as usize * size..wanted.end as usize * size], "{what} {wanted:?}");
}

/// Runs a decompression of so many elements, and returns them.
fn elements_of(work: &mut Decompression<'_>, stream: &[u8], count: u64, what: &str) -> Vec<u8> {
    let size = StreamFile::open(stream).unwrap().header().element_type.size();
    let parts = work.parts();
    let made: Vec<Mutex<Vec<u8>>> = parts.iter().map(|_| Mutex::default()).collect();
    let put = |part: usize, first: u64, bytes: &[u8]| {
        let mut made = made[part].lock().unwrap();
        assert_eq!(parts[part].start + (made.len() / size) as u64, first, "{what}");
        made.extend_from_slice(bytes);
        Ok(())
    };
    work.run(stream, &Pool::new(3, u64::MAX).unwrap(), &Meter::new(&crate::options::Progress::default(), count), &put)
        .unwrap();
    made.into_iter().flat_map(|part| part.into_inner().unwrap()).collect()
}

/// Regions that are not contiguous in the array, of streams of all kinds.
#[test]
fn boxes_are_those_of_the_cpu() {
    let Some(gpus) = gpus() else { return };
    let cases = [
        (ElementType::F32, Bound::Rel(1e-3), Effort::Fast, &[30, 40, 50][..], vec![3..29, 9..11, 7..50]),
        (ElementType::F32, Bound::Lossless, Effort::Fast, &[2, 3, 12, 20, 21], vec![0..2, 1..3, 5..9, 0..20, 4..5]),
        (ElementType::U16, Bound::Lossless, Effort::Fast, &[200, 105], vec![31..170, 33..64]),
        (ElementType::F32, Bound::Abs(1e-2), Effort::Balanced, &[70, 40, 50], vec![60..70, 0..40, 49..50]),
    ];
    for (case, (element, bound, effort, extents, ranges)) in cases.into_iter().enumerate() {
        let shape = Shape::new(extents).unwrap();
        let bytes = field(ElementType::F32, shape.len());
        let bytes = &bytes[..shape.len() as usize * element.size()];
        let options = CompressOptions::new(bound).with_effort(effort);
        let mut stream = Vec::new();
        compress_from(bytes, 0, element, shape, &options.with_backend(Backend::Cpu), &mut stream).unwrap();
        let file = StreamFile::open(stream.as_slice()).unwrap();
        let on_cpu = DecompressOptions::default().with_backend(Backend::Cpu);
        let expected = file.decompress_region(&ranges, &on_cpu).unwrap();
        for sizes in sizes_of(case, 3) {
            let what = format!("{element} {shape} {bound:?} {ranges:?} {sizes:?}");
            let geometry = Geometry::of_stream(shape, file.header().tile_size, file.header().chunk_tiles).unwrap();
            let region = geometry.region(&ranges).unwrap();
            let batches = |geometry: &Geometry, element, batch| layer_batches(geometry, &region, element, batch);
            let mut work = Decompression::with_sizes(gpus, stream.as_slice(), batches, None, sizes).unwrap();
            assert!(elements_of(&mut work, &stream, region.len(), &what) == expected.bytes(), "{what}");
        }
        let cuda = DecompressOptions::default().with_backend(Backend::Cuda(CudaDevices::One(0)));
        assert!(file.execution(&ranges, &cuda).unwrap().on_gpu());
        assert!(file.decompress_region(&ranges, &cuda).unwrap() == expected, "{shape} {ranges:?}");
    }
}

/// Through the public functions: files, PSNR, fill, what falls back to the CPU, damage, cancellation.
#[test]
fn the_library_says_where_it_worked() {
    if gpus().is_none() {
        return;
    }
    let extents = pick([70, 130, 150], [70, 12, 40]);
    let shape = Shape::new(&extents).unwrap();
    let bytes = field(ElementType::F32, shape.len());
    let run = |options: &CompressOptions| {
        let mut stream = Vec::new();
        let summary = compress_from(bytes.as_slice(), 0, ElementType::F32, shape, options, &mut stream).unwrap();
        (summary, stream)
    };
    let cuda = Backend::Cuda(CudaDevices::All);
    let fast = |bound| CompressOptions::new(bound).with_effort(Effort::Fast);
    for (options, on_gpu) in [
        (fast(Bound::Psnr(60.0)), true),
        (CompressOptions::new(Bound::Rel(1e-3)).with_fill(Fill::Value(-9999.0)).with_memory_limit(64 << 20), true),
        (fast(Bound::Rel(1e-3)).with_fill(Fill::None), true),
        (fast(Bound::Rel(1e-3)).with_device_memory_limit(0), true),
        (CompressOptions::new(Bound::Psnr(60.0)), true),
        (CompressOptions::new(Bound::Rel(1e-3)).with_effort(Effort::Best).with_fill(Fill::Value(-9999.0)), true),
        (CompressOptions::new(Bound::Abs(1e-30)).with_advanced(Advanced::default().with_coder(Coder::Numbers)), true),
        (CompressOptions::new(Bound::Abs(1e-30)).with_advanced(Advanced::default().with_index(IndexKind::None)), false),
        (CompressOptions::new(Bound::Lossless), true),
        (CompressOptions::new(Bound::Lossless).with_advanced(Advanced::default().with_coder(Coder::Lzss)), true),
        (CompressOptions::new(Bound::Lossless).with_advanced(Advanced::default().with_coder(Coder::LzssHuffman)), true),
    ] {
        let (here, stream) = run(&options.clone().with_backend(cuda));
        let (there, expected) = run(&options.clone().with_backend(Backend::Cpu));
        assert!(stream == expected, "{options:?}");
        assert_eq!((here.execution.on_gpu(), there.execution.on_gpu()), (on_gpu, false), "{options:?}");
        assert!(on_gpu || here.execution.reason.contains("lossless"), "{}", here.execution);

        let file = StreamFile::open(stream.as_slice()).unwrap();
        let (gpu, cpu) =
            (DecompressOptions::default().with_backend(cuda), DecompressOptions::default().with_backend(Backend::Cpu));
        let expected = file.decompress(&cpu).unwrap();
        assert!(file.decompress(&gpu).unwrap() == expected, "{options:?}");
        let mut into = vec![0xA5; expected.bytes().len()];
        assert_eq!(file.decompress_into(&mut into, &gpu).unwrap().on_gpu(), on_gpu);
        assert!(into == expected.bytes());
        for region in [
            [3..17, 0..extents[1], 0..extents[2]],
            [9..10, 5..extents[1] - 3, 0..extents[2]],
            [1..2, 7..8, 20..30],
            [3..60, 5..extents[1] - 3, 7..8],
            [4..4, 0..1, 0..1],
        ] {
            assert!(
                file.decompress_region(&region, &gpu).unwrap() == file.decompress_region(&region, &cpu).unwrap(),
                "{region:?}"
            );
        }
        if on_gpu {
            let mut damaged = stream.clone();
            let middle = damaged.len() / 2;
            damaged[middle] ^= 1;
            let file = StreamFile::open(damaged.as_slice()).unwrap();
            let error = file.decompress(&gpu).unwrap_err();
            assert!(matches!(error, crate::Error::Corrupt { .. }), "{error}");
            let stop = |_, _| std::ops::ControlFlow::Break(());
            let options = options.with_backend(cuda).with_progress(stop);
            let result = compress_from(bytes.as_slice(), 0, ElementType::F32, shape, &options, std::io::sink());
            assert!(matches!(result, Err(crate::Error::Cancelled)));
            let file = StreamFile::open(stream.as_slice()).unwrap();
            assert!(matches!(file.decompress(&gpu.with_progress(stop)), Err(crate::Error::Cancelled)));
        }
    }
}
