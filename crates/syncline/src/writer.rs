//! Compression of elements that arrive in order.

use std::fmt;
use std::io::Write;
use std::ops::Range;

use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{ArrayStats, Bound, Resolved, resolve};
use syncline_core::container::{HEADER_LEN, Header, table_and_trailer};
use syncline_core::error::{Error, Result};
use syncline_core::geometry::Geometry;
use syncline_core::pipeline::{self, EncodeScratch, encode_chunk};

use crate::backend::Execution;
use crate::description::Summary;
use crate::job::{header_for, summary};
use crate::options::{CompressOptions, Meter};
use crate::pool::{Pool, Reused};
use crate::ring::Ring;
use crate::source::Part;

/// Compresses elements that are pushed in C order, and writes each chunk as soon as its elements are there.
///
/// The elements are compressed before all of them are known, so [`Bound::Rel`] and [`Bound::Psnr`] need the value range
/// of the whole array. There are three ways to create a writer:
///
/// - [`Writer::with_stats`] knows everything that [`compress`](crate::compress) finds in the array, and writes the same
///   bytes. They differ only with [`Bound::Psnr`] and only if the first step misses it: `compress` then starts again
///   with a smaller step, and a writer cannot, because it has already written chunks.
/// - [`Writer::with_range`] knows the value range. It assumes that the first NaN of the array is the quiet NaN, that
///   the given fill value occurs, that -0.0 is rare, and, for [`Bound::PwRel`], that zeros occur. It writes the bytes
///   of `compress` if all of this is true, the array has no other fill value, its values are no whole multiples of a
///   number above twice the bound, and at most a quarter of them are too large for an absolute bound. Otherwise its
///   header lists other special values, or has another step.
/// - [`Writer::new`] makes the same assumptions. Its header has no range, so that its bytes are never those of
///   `compress` with loss. Lossless streams are always equal.
///
/// A writer holds the elements of one layer of tiles (8 planes of a 3-D array, 32 rows of a 2-D one) and of a few
/// chunks.
///
/// A writer cannot be used any more after a push that failed or was cancelled: some of the pushed elements, and part of
/// a record, may have been written. The sink does not contain a valid stream then. The only exception is a push of more
/// elements than the array has, which changes nothing.
///
/// ```
/// use syncline::{Bound, DecompressOptions, ElementType, CompressOptions, Shape, Writer, decompress};
/// let options = CompressOptions::new(Bound::Abs(0.01));
/// let mut writer = Writer::new(Vec::new(), ElementType::F32, Shape::new(&[100, 200])?, &options)?;
/// for row in 0..100 {
///     let bytes: Vec<u8> = (0..200).flat_map(|x| ((row + x) as f32).to_le_bytes()).collect();
///     writer.push(&bytes)?;
/// }
/// let stream = writer.finish()?;
/// assert_eq!(decompress(&stream, &DecompressOptions::default())?.to_vec::<f32>()?.len(), 20_000);
/// # Ok::<(), syncline::Error>(())
/// ```
pub struct Writer<W> {
    sink: W,
    header: Header,
    geometry: Geometry,
    options: CompressOptions,
    pool: Pool,
    scratch: Reused<EncodeScratch>,
    /// Bytes from the first element on that the next chunk needs.
    pending: Ring,
    next_chunk: u64,
    /// Number of elements that complete the next chunks. It is stored because its computation visits all of their
    /// tiles.
    wake_at: u64,
    record_lengths: Vec<u32>,
    /// Elements of the chunks that are written.
    done: u64,
    /// Whether a push failed, so that the contents of the sink are unknown.
    failed: bool,
    resolved: Resolved,
}

impl<W: Write> Writer<W> {
    /// Creates a writer for an array of this type and shape, and writes the header of the stream.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the type does not support the bound or the bound needs the value range;
    /// [`Error::Io`].
    pub fn new(sink: W, element_type: ElementType, shape: Shape, options: &CompressOptions) -> Result<Self> {
        if matches!(options.bound(), Bound::Rel(_) | Bound::Psnr(_)) {
            return Err(Error::invalid(
                "a bound relative to the value range needs the range of the whole array, of which a writer sees one \
                 part at a time: state the range, or use an absolute bound",
            ));
        }
        Self::start(sink, shape, options, ArrayStats::assumed(element_type, options.bound(), options.fill(), None))
    }

    /// Creates a writer that knows the smallest and largest finite value of the whole array, apart from fill values.
    /// Arrays of 64-bit integers are compressed without loss, because their bound needs exact statistics
    /// ([`Writer::with_stats`]).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the range is invalid; otherwise as [`Writer::new`].
    pub fn with_range(
        sink: W,
        element_type: ElementType,
        shape: Shape,
        options: &CompressOptions,
        low: f64,
        high: f64,
    ) -> Result<Self> {
        let most = if element_type.computed() == ElementType::F32 { f64::from(f32::MAX) } else { f64::MAX };
        if !(-most <= low && low <= high && high <= most) {
            return Err(Error::invalid(format!(
                "the value range {low:?} to {high:?} is invalid: give a smallest and a largest finite value"
            )));
        }
        let range = Some((low, high));
        Self::start(sink, shape, options, ArrayStats::assumed(element_type, options.bound(), options.fill(), range))
    }

    /// Creates a writer of an array with these statistics. The fill option is not used, because the
    /// statistics contain the fill value.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the statistics were made for another bound; errors of [`Writer::new`].
    pub fn with_stats(sink: W, shape: Shape, options: &CompressOptions, stats: &ArrayStats) -> Result<Self> {
        if stats.bound() != options.bound() {
            return Err(Error::invalid(format!(
                "the statistics were made for another bound ({:?}) than that of the options ({:?}): \
                 examine the array with the same bound",
                stats.bound(),
                options.bound()
            )));
        }
        Self::start(sink, shape, options, *stats)
    }

    fn start(mut sink: W, shape: Shape, options: &CompressOptions, stats: ArrayStats) -> Result<Self> {
        let element_type = stats.element_type();
        options.validate(element_type)?;
        let resolved = match options.bound() {
            Bound::Lossless => Resolved::lossless(),
            _ => resolve(stats, options.rewritable())?,
        };
        let header = header_for(element_type, shape, options, options.tile_size(), &resolved);
        sink.write_all(&header.to_bytes())?;
        let geometry = header.geometry()?;
        let pool = Pool::new(options.threads(), geometry.chunks())?;
        Ok(Self {
            sink,
            header,
            geometry,
            options: options.clone(),
            pool,
            scratch: Reused::default(),
            pending: Ring::default(),
            next_chunk: 0,
            wake_at: 0,
            record_lengths: Vec::new(),
            done: 0,
            failed: false,
            resolved,
        })
    }

    /// Adds the next elements as little-endian bytes. A push may end within an element.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for more elements than the shape has, or after a push that failed;
    /// [`Error::MemoryLimit`]; [`Error::Cancelled`]; [`Error::Io`].
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.check_intact()?;
        let size = self.header.element_type.size() as u64;
        let taken = self.pending.end();
        let total = self.geometry.elements() * size;
        if bytes.len() as u64 > total - taken {
            return Err(Error::invalid(format!(
                "more than the {total} bytes of an array of shape {}",
                self.header.shape
            )));
        }
        // Until all chunks are written.
        self.failed = true;
        // In steps, so that one large push does not copy the whole array.
        const STEP: usize = 8 << 20;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(STEP));
            self.add(now)?;
            bytes = later;
            self.write_complete_chunks(false)?;
        }
        self.failed = false;
        Ok(())
    }

    /// Compresses the remaining elements, writes the chunk table and the trailer, and returns the sink.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if elements are missing; otherwise as [`Writer::push`].
    pub fn finish(self) -> Result<W> {
        self.finish_with_summary().map(|(sink, _)| sink)
    }

    /// Does the same as [`Writer::finish`], and returns the summary of the compression as well. It does not know how
    /// many elements hold the fill patterns.
    ///
    /// # Errors
    /// As [`Writer::finish`].
    pub fn finish_with_summary(mut self) -> Result<(W, Summary)> {
        self.check_intact()?;
        self.write_complete_chunks(true)?;
        if self.next_chunk < self.geometry.chunks() {
            let size = self.header.element_type.size() as u64;
            return Err(Error::invalid(format!(
                "the array has {} bytes, only {} were pushed",
                self.geometry.elements() * size,
                self.pending.end()
            )));
        }
        let end = table_and_trailer(&self.header, &self.record_lengths);
        self.sink.write_all(&end)?;
        self.sink.flush()?;
        let records: u64 = self.record_lengths.iter().map(|&length| u64::from(length)).sum();
        let length = HEADER_LEN as u64 + records + end.len() as u64;
        let execution = Execution::cpu("elements that arrive in order are compressed there");
        Ok((self.sink, summary(&self.header, self.options.bound(), &self.resolved, length, execution)))
    }

    /// Returns an error if an earlier push failed.
    fn check_intact(&self) -> Result<()> {
        match self.failed {
            true => Err(Error::invalid(
                "an earlier push failed, so that the stream is incomplete: start again with a new Writer",
            )),
            false => Ok(()),
        }
    }

    /// Compresses the chunks that are complete: as many at a time as there are threads, unless no more elements will
    /// come.
    fn write_complete_chunks(&mut self, all: bool) -> Result<()> {
        let have = self.pending.end() / self.header.element_type.size() as u64;
        loop {
            self.make_room()?;
            if !all && have < self.wake_at {
                return Ok(());
            }
            let threads = self.pool.threads() as u64;
            let left = self.geometry.chunks() - self.next_chunk;
            let ahead = self.next_chunk..self.next_chunk + left.min(threads);
            let complete = ahead.take_while(|&chunk| self.geometry.element_range(chunk).end <= have).count() as u64;
            if complete == 0 || (!all && complete < threads) {
                // Less than a full round of chunks waits for more.
                self.wake_at = match threads <= left {
                    true => self.geometry.element_range(self.next_chunk + threads - 1).end,
                    false => u64::MAX,
                };
                return Ok(());
            }
            self.write_round(self.next_chunk..self.next_chunk + complete, have)?;
        }
    }

    /// Compresses the chunks in this range, which are the next ones, and drops the elements that the later chunks of
    /// the first `have` elements do not need.
    fn write_round(&mut self, chunks: Range<u64>, have: u64) -> Result<()> {
        let source = Part::new(&self.pending, self.header.element_type);
        let (header, geometry) = (&self.header, &self.geometry);
        let (scratch, lossless) = (&self.scratch, &self.options.coder_options());
        let encode = |chunk: u64| {
            let mut record = Vec::new();
            scratch.with(|scratch| encode_chunk(header, geometry, chunk, &source, lossless, scratch, &mut record))?;
            Ok(record)
        };
        for record in self.pool.map(chunks.clone(), encode)? {
            self.sink.write_all(&record)?;
            self.record_lengths.push(record.len() as u32);
        }
        self.next_chunk = chunks.end;
        let keep = match self.next_chunk < self.geometry.chunks() {
            true => self.geometry.element_range(self.next_chunk).start,
            false => have,
        };
        self.pending.forget_to(keep * self.header.element_type.size() as u64);
        self.done += chunks.map(|chunk| self.geometry.chunk_elements(chunk)).sum::<u64>();
        Meter::new(&self.options.progress, self.geometry.elements()).advance(self.done)
    }

    /// Adds bytes to the elements that wait.
    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        let limit = self.options.memory_limit().unwrap_or(u64::MAX);
        if self.pending.push(bytes, limit) {
            return Ok(());
        }
        let needed = self.pending.end() + bytes.len() as u64 - self.pending.position();
        Err(Error::MemoryLimit { what: "holding a layer of tiles".into(), needed, limit })
    }

    /// Reduces the number of threads to those that fit in the memory limit beside the waiting elements.
    fn make_room(&mut self) -> Result<()> {
        let Some(limit) = self.options.memory_limit() else { return Ok(()) };
        let needed = self.pending.capacity();
        let each = pipeline::encode_memory(&self.header, &self.geometry);
        if let Some(fewer) = self.pool.limited(limit - needed, each, "compression", limit)? {
            self.pool = fewer;
            // A round has fewer chunks now.
            self.wake_at = 0;
        }
        Ok(())
    }
}

impl<W> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("header", &self.header)
            .field("options", &self.options)
            .field("done", &self.done)
            .field("pending_bytes", &(self.pending.end() - self.pending.position()))
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl<W: Write> Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.push(bytes)?;
        Ok(bytes.len())
    }

    /// Does nothing: chunks are written when they are complete, and the last ones by [`Writer::finish`].
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DecompressOptions, SequentialReader};

    /// Noise, so that records have their greatest length.
    fn elements(count: u64) -> Vec<u8> {
        (0..count as u32).flat_map(|i| i.wrapping_mul(0x9E37_79B1).to_le_bytes()).collect()
    }

    fn write(bytes: &[u8], options: &CompressOptions) -> (Result<Vec<u8>>, usize) {
        let shape = Shape::new(&[bytes.len() as u64 / 4]).unwrap();
        let mut writer = Writer::new(Vec::new(), ElementType::I32, shape, options).unwrap();
        let pushed = writer.push(bytes);
        let threads = writer.pool.threads();
        (pushed.and_then(|()| writer.finish()), threads)
    }

    /// With one tile in a chunk, a layer of tiles has many chunks, as that of a wide array has.
    #[test]
    fn wide_layer_is_not_moved_for_each_chunk() {
        const CHUNKS: u64 = 20_000;
        let shape = Shape::new(&[8, 8, 8 * CHUNKS]).unwrap();
        let bytes: Vec<u8> = (0..shape.len() as u32).map(|i| (i >> 12) as u8).collect();
        let options = CompressOptions::default().with_threads(1);
        let mut writer = Writer::new(Vec::new(), ElementType::U8, shape, &options).unwrap();
        writer.header.chunk_tiles = 1;
        writer.geometry = writer.header.geometry().unwrap();
        writer.sink = writer.header.to_bytes().to_vec();
        bytes.chunks(1 << 20).for_each(|part| writer.push(part).unwrap());
        assert_eq!(writer.next_chunk, CHUNKS);
        assert!(writer.pending.moved < 10 * bytes.len(), "{} bytes were moved", writer.pending.moved);
        let stream = writer.finish().unwrap();

        let reader = SequentialReader::new(stream.as_slice(), DecompressOptions::new().with_threads(1)).unwrap();
        let mut back = Vec::new();
        let moved = reader.copy_counted(&mut back);
        assert!(back == bytes && moved < 10 * bytes.len(), "{moved} bytes were moved");
    }

    #[test]
    fn a_memory_limit_leaves_as_many_threads_as_it_has_room_for() {
        let bytes = elements(6 << 20);
        let options = CompressOptions::default().with_threads(4);
        let (expected, threads) = write(&bytes, &options);
        assert_eq!(threads, 4);
        let expected = expected.unwrap();

        let header = Header::parse(&expected).unwrap();
        let each = pipeline::encode_memory(&header, &Geometry::new(header.shape));
        for (limit, most) in [(each + (17 << 20), 1), (3 * each, 2), (20 * each, 4)] {
            let (stream, threads) = write(&bytes, &options.clone().with_memory_limit(limit));
            assert!(stream.unwrap() == expected, "limit {limit}");
            assert!((1..=most).contains(&threads), "limit {limit}: {threads} threads");
        }
        for limit in [1, 1 << 20, each, each + (8 << 20) - 1] {
            let (result, _) = write(&bytes, &options.clone().with_memory_limit(limit));
            assert!(matches!(result, Err(Error::MemoryLimit { needed, .. }) if needed > limit), "limit {limit}");
        }
    }
}
