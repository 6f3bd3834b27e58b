//! Sources and sinks that fail, limits, cancellation and impossible wishes: errors keep what they say, and nothing that
//! failed is taken for a stream.

use std::io::{self, Cursor, ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use syncline::{
    ArrayView, Backend, Bound, CompressOptions, CudaDevices, DecompressOptions, Effort, ElementType, Error, ReadAt,
    Reader, Shape, StreamFile, WriteAt, Writer, compress, compress_from, decompress,
};

/// Elements of a chunk of a small array.
const CHUNK: u64 = 1 << 19;

fn shape(extents: &[u64]) -> Shape {
    Shape::new(extents).unwrap()
}

/// Five chunks of bytes.
fn bytes() -> Vec<u8> {
    (0..5 * CHUNK).map(|i| (i >> 7) as u8).collect()
}

/// In rounds of two chunks, and the last alone.
fn options() -> CompressOptions {
    CompressOptions::default().with_threads(2)
}

/// A writer of them.
fn begin<W: Write>(sink: W) -> Result<Writer<W>, Error> {
    Writer::new(sink, ElementType::U8, shape(&[5 * CHUNK]), &options())
}

fn is_full<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Io(error)) if error.kind() == ErrorKind::StorageFull)
}

/// A sink one of whose writes fails, the others do not.
#[derive(Default)]
struct FailsOnce {
    at: usize,
    writes: usize,
    bytes: Vec<u8>,
}

impl FailsOnce {
    fn at(write: usize) -> Self {
        Self { at: write, ..Self::default() }
    }
}

impl Write for FailsOnce {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writes += 1;
        if self.writes == self.at {
            return Err(ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A source all of whose reads fail from some byte on.
struct FailsFrom<'a>(&'a [u8], u64);

impl ReadAt for FailsFrom<'_> {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if offset + buffer.len() as u64 > self.1 {
            return Err(ErrorKind::StorageFull.into());
        }
        self.0.read_exact_at(buffer, offset)
    }
}

/// A place where nothing can be written.
struct Full;

impl WriteAt for Full {
    fn write_all_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(ErrorKind::StorageFull.into())
    }
}

/// The writes of a stream are its header, five records, and the table.
#[test]
fn a_writer_whose_sink_failed_stays_failed() {
    let bytes = bytes();
    let (mut pushed, mut finished) = (FailsOnce::default(), FailsOnce::default());
    begin(&mut pushed).unwrap().push(&bytes).unwrap();
    let mut writer = begin(&mut finished).unwrap();
    writer.push(&bytes).unwrap();
    writer.finish().unwrap();
    assert!(decompress(&finished.bytes, &DecompressOptions::default()).unwrap().bytes() == bytes);
    assert_eq!((pushed.writes, finished.writes), (5, 7), "two rounds; the last chunk and the table");

    assert!(is_full(begin(&mut FailsOnce::at(1))));
    for write in 2..=finished.writes {
        let mut sink = FailsOnce::at(write);
        let mut writer = begin(&mut sink).unwrap();
        if write <= pushed.writes {
            assert!(is_full(writer.push(&bytes)), "write {write}");
            let again = writer.push(&[]).unwrap_err();
            assert!(again.to_string().contains("an earlier push failed"), "{again}");
            assert!(matches!(writer.finish(), Err(Error::InvalidArgument(_))), "write {write}");
        } else {
            writer.push(&bytes).unwrap();
            assert!(is_full(writer.finish()), "write {write}");
        }
        assert!(decompress(&sink.bytes, &DecompressOptions::default()).is_err(), "write {write}");
    }
}

#[test]
fn a_cancelled_writer_stays_cancelled() {
    let calls = Arc::new(AtomicU64::new(0));
    let once = move |_: u64, _: u64| match calls.fetch_add(1, Ordering::Relaxed) {
        0 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let options = options().with_progress(once);
    let mut writer = Writer::new(Vec::new(), ElementType::U8, shape(&[5 * CHUNK]), &options).unwrap();
    let bytes = bytes();
    let (first, rest) = bytes.split_at(2 * CHUNK as usize);
    assert!(matches!(writer.push(first), Err(Error::Cancelled)));
    assert!(matches!(writer.push(rest), Err(Error::InvalidArgument(_))));
    assert!(format!("{writer:?}").contains("failed: true"));
    assert!(matches!(writer.finish(), Err(Error::InvalidArgument(_))));
}

#[test]
fn writer_refuses_surplus_elements_and_continues() {
    let mut writer = Writer::new(Vec::new(), ElementType::U16, shape(&[3]), &CompressOptions::default()).unwrap();
    writer.push(&[1, 2, 3]).unwrap();
    assert!(matches!(writer.push(&[4, 5, 6, 7]), Err(Error::InvalidArgument(_))));
    writer.push(&[4, 5, 6]).unwrap();
    let stream = writer.finish().unwrap();
    assert_eq!(decompress(&stream, &DecompressOptions::default()).unwrap().bytes(), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_writer_is_a_sink_itself() {
    let bytes = bytes();
    let mut writer = begin(FailsOnce::default()).unwrap();
    assert_eq!(io::copy(&mut Cursor::new(&bytes), &mut writer).unwrap(), bytes.len() as u64);
    writer.flush().unwrap();
    assert_eq!(writer.write(&[0]).unwrap_err().kind(), ErrorKind::InvalidInput);
    let stream = writer.finish().unwrap().bytes;
    let view = ArrayView::new(&bytes, &[5 * CHUNK]).unwrap();
    assert!(stream == compress(&view, &options()).unwrap());

    let mut writer = begin(FailsOnce::at(2)).unwrap();
    assert_eq!(writer.write_all(&bytes).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(writer.write_all(&bytes).unwrap_err().kind(), ErrorKind::InvalidInput);
    let limited = options().with_memory_limit(1 << 20);
    let mut writer = Writer::new(io::sink(), ElementType::U8, shape(&[5 * CHUNK]), &limited).unwrap();
    assert_eq!(writer.write_all(&bytes).unwrap_err().kind(), ErrorKind::OutOfMemory);
}

#[test]
fn a_writer_holds_no_more_than_the_memory_limit() {
    // A layer of blocks is the array.
    let extents = [16, 512, 512];
    let bytes = vec![0; 16 << 20];
    let write = |limit: u64| {
        let options = CompressOptions::new(Bound::Abs(0.1)).with_threads(3).with_memory_limit(limit);
        let mut writer = Writer::new(Vec::new(), ElementType::F32, shape(&extents), &options)?;
        bytes.chunks(1 << 18).try_for_each(|part| writer.push(part))?;
        writer.finish()
    };
    for limit in [1 << 18, 4 << 20, 8 << 20] {
        let error = write(limit).unwrap_err();
        assert!(matches!(error, Error::MemoryLimit { needed, .. } if needed > limit), "{limit}: {error}");
    }
    let stream = write(96 << 20).unwrap();
    assert!(stream == write(u64::MAX).unwrap());
    assert!(decompress(&stream, &DecompressOptions::default()).unwrap().bytes() == bytes);
}

#[test]
fn source_that_is_too_short_is_an_error() {
    for offset in [0, 1, 99, 100, 101, u64::MAX] {
        let result = compress_from(
            [0; 100].as_slice(),
            offset,
            ElementType::F32,
            shape(&[5, 6]),
            &CompressOptions::default(),
            io::sink(),
        );
        let error = result.unwrap_err();
        let there = format!("has 120 bytes, but the data has {}", 100u64.saturating_sub(offset));
        assert!(matches!(&error, Error::InvalidArgument(text) if text.contains(&there)), "{error}");
    }
}

#[test]
fn failing_sources_and_sinks_end_a_compression() {
    let bytes = bytes();
    let source = |end| FailsFrom(&bytes, end);
    let end = bytes.len() as u64;
    for threads in [1, 2] {
        for (bound, element_type) in [(Bound::Lossless, ElementType::U8), (Bound::Rel(1e-3), ElementType::F32)] {
            let options = CompressOptions::new(bound).with_threads(threads);
            let shape = shape(&[end / element_type.size() as u64]);
            let run = |source: &FailsFrom, sink: &mut FailsOnce| {
                compress_from(source, 0, element_type, shape, &options, sink)
            };
            for from in [0, end - 1] {
                assert!(is_full(run(&source(from), &mut FailsOnce::default())), "{bound:?} from {from}");
            }
            let mut sink = FailsOnce::default();
            run(&source(end), &mut sink).unwrap();
            for write in 1..=sink.writes {
                assert!(is_full(run(&source(end), &mut FailsOnce::at(write))), "{bound:?} write {write}");
            }
        }
    }
}

#[test]
fn failing_sources_and_sinks_end_a_decompression() {
    let bytes = bytes();
    let stream = compress(&ArrayView::new(&bytes, &[5 * CHUNK]).unwrap(), &options()).unwrap();
    let decode = DecompressOptions::default().with_threads(2);
    assert!(is_full(StreamFile::open(stream.as_slice()).unwrap().decompress_to(&Full, 0, &decode)));
    assert!(is_full(StreamFile::open(FailsFrom(&stream, 100))));

    // The table is at the end: it is there when the stream is opened, and gone later.
    let gone = Arc::new(AtomicU64::new(0));
    let file = StreamFile::open(Vanishing(&stream, gone.clone())).unwrap();
    gone.store(1, Ordering::Relaxed);
    assert!(is_full(file.decompress(&decode)));
    assert!(is_full(file.decompress_into(&mut vec![0; bytes.len()], &decode)));
    assert!(is_full(file.inspect()));
    gone.store(0, Ordering::Relaxed);
    assert!(file.decompress(&decode).unwrap().bytes() == bytes);

    let mut damaged = stream.clone();
    damaged[200] ^= 1;
    let mut reader = Reader::new(Cursor::new(damaged), decode).unwrap();
    assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap_err().kind(), ErrorKind::InvalidData);
}

/// A stream that cannot be read while a flag is set.
struct Vanishing<'a>(&'a [u8], Arc<AtomicU64>);

impl ReadAt for Vanishing<'_> {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self.1.load(Ordering::Relaxed) {
            0 => self.0.read_exact_at(buffer, offset),
            _ => Err(ErrorKind::StorageFull.into()),
        }
    }
}

/// A stream whose reads are interrupted once, at a given position.
struct Interrupted(Cursor<Vec<u8>>, Arc<AtomicU64>);

impl Read for Interrupted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.1.swap(0, Ordering::Relaxed) {
            0 => self.0.read(buffer),
            _ => Err(ErrorKind::TimedOut.into()),
        }
    }
}

impl io::Seek for Interrupted {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

#[test]
fn reader_continues_after_an_error() {
    // More than a layer that is read at a time.
    let bytes: Vec<u8> = (0..5u32 << 21).flat_map(|i| (i >> 9).to_le_bytes()).collect();
    let view = ArrayView::from_bytes(&bytes, ElementType::U32, shape(&[5 << 21])).unwrap();
    let stream = compress(&view, &options()).unwrap();
    let fails = Arc::new(AtomicU64::new(0));
    let mut reader =
        Reader::new(Interrupted(Cursor::new(stream), fails.clone()), DecompressOptions::default().with_threads(2))
            .unwrap();
    let (mut back, mut errors) = (Vec::new(), 0);
    let mut buffer = vec![0; 1 << 20];
    loop {
        fails.store((back.len() % (3 << 20) == 0).into(), Ordering::Relaxed);
        match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => back.extend_from_slice(&buffer[..count]),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::TimedOut);
                errors += 1;
                fails.store(0, Ordering::Relaxed);
                let count = reader.read(&mut buffer).unwrap();
                back.extend_from_slice(&buffer[..count]);
            }
        }
    }
    assert!(errors > 0 && back == bytes, "{errors} errors, {} bytes", back.len());
}

#[test]
fn arrays_are_not_written_beyond_all_places() {
    let stream = compress(&ArrayView::new(&[1u8; 100], &[100]).unwrap(), &options()).unwrap();
    let file = StreamFile::open(stream.as_slice()).unwrap();
    let error = file.decompress_to(&Full, u64::MAX - 10, &DecompressOptions::default()).unwrap_err();
    assert!(matches!(&error, Error::InvalidArgument(text) if text.contains("does not fit in a file")), "{error}");
}

#[test]
fn a_range_is_one_of_the_type() {
    let of = |element, high| {
        Writer::with_range(io::sink(), element, shape(&[8]), &CompressOptions::new(Bound::Rel(1e-3)), 0.0, high)
    };
    assert!(of(ElementType::F64, 1e300).is_ok() && of(ElementType::F32, 1e38).is_ok());
    for (element, high) in [(ElementType::F32, 1e300), (ElementType::F64, f64::INFINITY), (ElementType::F64, -1.0)] {
        assert!(matches!(of(element, high), Err(Error::InvalidArgument(_))), "{element} {high}");
    }
}

/// A stream that was kept while the PSNR was tried counts, too, and what is tried again needs no more.
#[test]
fn a_psnr_is_reached_within_little_memory() {
    let mut state = 1u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state as f32
    };
    // With what a thread takes, 17 MiB, more than the limit.
    let field: Vec<f32> = (0..3 << 20).map(|_| noise()).collect();
    let view = ArrayView::new(&field, &[3 << 20]).unwrap();
    let options = CompressOptions::new(Bound::Psnr(60.0)).with_effort(Effort::Fast).with_threads(1);
    let of = |options: &CompressOptions| {
        let mut stream = Vec::new();
        compress_from(&view.bytes(), 0, ElementType::F32, view.shape(), options, &mut stream).map(|_| stream)
    };
    let unlimited = of(&options).unwrap();
    assert!(of(&options.clone().with_memory_limit(20 << 20)).unwrap() == unlimited);
}

/// Whether or not there is a GPU: what is wrong is the bound.
#[test]
fn bound_invalid_for_the_type_is_the_same_error_on_every_backend() {
    let values = [0i32; 6];
    let view = ArrayView::new(&values, &[6]).unwrap();
    for backend in [Backend::Cuda(CudaDevices::One(4000)), Backend::Auto, Backend::Cpu] {
        let options = CompressOptions::new(Bound::PwRel(0.1)).with_backend(backend);
        let error = compress(&view, &options).unwrap_err();
        assert!(matches!(&error, Error::InvalidArgument(text) if text.contains("i32")), "{backend}: {error}");
    }
}
