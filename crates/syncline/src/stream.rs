//! Streams with positional access: opening, inspecting, and decompressing them as a whole or by region.

mod parts;

use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
pub use syncline_core::container::Header;
use syncline_core::container::{ChunkTable, read_outline};
use syncline_core::error::{Error, Location, Result};
use syncline_core::geometry::{Geometry, Region};
use syncline_core::huffman::IndexKind;
use syncline_core::mem::scatter::{ChunkSink, Scatter, Unwritten};
use syncline_core::pipeline::{self, DecodeScratch, Destination, decode_chunk, inspect_chunk};

use crate::array::Array;
use crate::backend::{Choice, Execution, Stopwatch, Target, Work, decode_obstacle};
use crate::description::Description;
use crate::devices::Backend;
use crate::gpu_backend::Decompression;
use crate::io::{ReadAt, Turns, WriteAt};
use crate::options::{DecompressOptions, Meter};
use crate::pool::{MOST_KEPT_BYTES, Pool, Reused, all_threads, check_memory, threads_for, useful_threads, with_kept};
use crate::sink::FileSink;

/// Bytes of GPU output that a thread copies at a time.
const STEP_BYTES: usize = 1 << 20;

/// Bytes that are read at a time.
const READ_BYTES: usize = 16 << 20;

/// A stream with positional access: a file, or bytes in memory. Only the necessary parts are read.
///
/// ```
/// use syncline::{ArrayView, Bound, DecompressOptions, CompressOptions, StreamFile, compress};
/// let field = [1.5f32; 3000];
/// let stream = compress(&ArrayView::new(&field, &[30, 100])?, &CompressOptions::new(Bound::Abs(0.1)))?;
///
/// // The source can also be a `std::fs::File`.
/// let stream = StreamFile::open(stream)?;
/// assert_eq!(stream.header().shape.extents(), [30, 100]);
/// let part = stream.decompress_region(&[0..2, 50..60], &DecompressOptions::default())?;
/// assert_eq!(part.shape().len(), 20);
/// let mut bytes = vec![0; 12_000];
/// stream.decompress_into(&mut bytes, &DecompressOptions::default())?;
/// # Ok::<(), syncline::Error>(())
/// ```
pub struct StreamFile<S> {
    source: S,
    header: Header,
    geometry: Geometry,
    table: ChunkTable,
    stream_len: u64,
}

impl<S: ReadAt> StreamFile<S> {
    /// Reads and checks the header and the chunk table.
    ///
    /// # Errors
    /// [`Error::NotSyncline`], [`Error::UnsupportedVersion`], [`Error::Truncated`], [`Error::Corrupt`], or
    /// [`Error::Io`].
    pub fn open(source: S) -> Result<Self> {
        let stream_len = source.size()?;
        let read = |offset: u64, length: usize| {
            let mut bytes = Vec::new();
            read_into(&source, offset, length, &mut bytes).map(|()| bytes)
        };
        let (header, geometry, table) = read_outline(stream_len, read)?;
        Ok(Self { source, header, geometry, table, stream_len })
    }

    /// Returns the header: the contents of the stream and the options that it was made with.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the sizes and counts of the parts of the stream. Reads every chunk.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a damaged chunk; [`Error::Io`].
    pub fn inspect(&self) -> Result<Description> {
        let mut description = Description::new(&self.header, self.stream_len);
        let mut buffer = Vec::new();
        for chunk in 0..self.table.chunks() {
            let record = self.record(chunk, &mut buffer)?;
            let counts = inspect_chunk(&self.header, &self.geometry, chunk, record);
            description.totals.add(&counts.map_err(|error| self.in_chunk(chunk, error))?);
        }
        Ok(description)
    }

    /// Decompresses the whole array.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for a damaged chunk; [`Error::MemoryLimit`]; [`Error::Gpu`]; [`Error::Cancelled`];
    /// [`Error::Io`].
    pub fn decompress(&self, options: &DecompressOptions) -> Result<Array> {
        let bytes = self.allocate_and_fill(self.geometry.whole(), options)?;
        Ok(Array::new(bytes, self.header.element_type, self.header.shape))
    }

    /// Decompresses the whole array into a buffer of the caller: `out` receives the elements as little-endian bytes.
    /// Returns the processor that was used, and why.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `out` does not have the length of the array; otherwise as
    /// [`StreamFile::decompress`].
    pub fn decompress_into(&self, out: &mut [u8], options: &DecompressOptions) -> Result<Execution> {
        let needed = self.geometry.elements() * self.header.element_type.size() as u64;
        if out.len() as u64 != needed {
            return Err(Error::invalid(format!("the array has {needed} bytes, but the output has {}", out.len())));
        }
        self.fill(Output::Given(out), self.geometry.whole(), options)
    }

    /// Decompresses a region into a buffer of the caller: `out` receives the elements as little-endian bytes, in C
    /// order. Returns the processor that was used, and why.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the region is outside of the array or `out` does not have the length of the region
    /// in bytes; otherwise as [`StreamFile::decompress`]. The contents of `out` are unspecified after an error.
    pub fn decompress_region_into(
        &self,
        ranges: &[Range<u64>],
        out: &mut [u8],
        options: &DecompressOptions,
    ) -> Result<Execution> {
        let region = self.geometry.region(ranges)?;
        let needed = region.len() * self.header.element_type.size() as u64;
        if out.len() as u64 != needed {
            return Err(Error::invalid(format!("the region has {needed} bytes, but the output has {}", out.len())));
        }
        self.fill(Output::Given(out), region, options)
    }

    /// Returns the number of elements of each chunk, and the length of its record in bytes, in order.
    pub fn chunk_sizes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        (0..self.table.chunks()).map(|chunk| (self.geometry.chunk_elements(chunk), self.table.record(chunk).1 as u64))
    }

    /// Returns the source.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Returns the source for changes, such as [`SparseBytes::insert`](crate::SparseBytes::insert). The bytes of the
    /// stream that were read so far must stay the same.
    pub fn source_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// Decompresses a region, given as one range for each axis, slowest first. Only the chunks that contain parts of it
    /// are read, and of those with a bound, if the source is not in memory, only the parts that small regions need.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the region is outside of the array; otherwise as [`StreamFile::decompress`].
    pub fn decompress_region(&self, ranges: &[Range<u64>], options: &DecompressOptions) -> Result<Array> {
        let region = self.geometry.region(ranges)?;
        let extents: Vec<u64> = ranges.iter().map(|r| r.end - r.start).collect();
        let shape = syncline_core::array::Shape::new(&extents)?;
        let bytes = self.allocate_and_fill(region, options)?;
        Ok(Array::new(bytes, self.header.element_type, shape))
    }

    /// Decompresses the whole array and writes it to a sink from byte `offset` on, in pieces, so that memory stays
    /// bounded. Returns the processor that was used, and why.
    ///
    /// # Errors
    /// As [`StreamFile::decompress`]; [`Error::Io`] if the sink fails.
    pub fn decompress_to<W: WriteAt + ?Sized>(
        &self,
        sink: &W,
        offset: u64,
        options: &DecompressOptions,
    ) -> Result<Execution> {
        let pool = self.pool(options)?;
        let meter = || Meter::new(&options.progress, self.geometry.elements());
        let element = self.header.element_type.size();
        if offset.checked_add(self.geometry.elements() * element as u64).is_none() {
            return Err(Error::invalid(format!(
                "the array does not fit in a file from byte {offset} on: use a smaller offset"
            )));
        }
        let turns = Turns::new(sink);
        let execution = self.on_gpus(&self.geometry.whole(), Target::Writer, 0, options, |gpus| {
            let put = |_: usize, first: u64, bytes: &[u8]| {
                turns.turn(|sink| sink.write_all_at(bytes, offset + first * element as u64))
            };
            gpus.run(&self.source, &pool, &meter(), &put)
        })?;
        if execution.on_gpu() {
            return Ok(execution);
        }
        // The CPU has a progress count of its own, because it repeats what a failed GPU has done.
        let meter = meter();
        let limited = self.limited(&pool, 0, self.chunk_bytes(), options)?;
        let (buffers, boxes) = (Reused::default(), Reused::<Vec<u8>>::default());
        let decode = |chunk: usize| {
            boxes.with(|bytes| {
                let mut tiles = FileSink::new(&turns, offset, element, &self.geometry, chunk as u64, bytes);
                self.decode(chunk as u64, &buffers, (&mut tiles).into())
            })?;
            meter.advance(self.geometry.chunk_elements(chunk as u64))
        };
        self.map(limited.unwrap_or(pool), 0..self.table.chunks() as usize, decode)?;
        Ok(execution)
    }

    /// Returns the bytes that each thread of a decompression on the CPU needs in addition to the elements.
    /// [`DecompressOptions::memory_limit`] must include them.
    pub fn memory_per_thread(&self) -> u64 {
        pipeline::decode_memory(&self.header, &self.geometry)
    }

    /// Returns the elements of a region in one layer of tiles. A region that is decompressed in thinner parts has its
    /// tiles decoded several times.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the region is outside of the array.
    pub fn layer_len(&self, region: &[Range<u64>]) -> Result<u64> {
        Ok(self.geometry.layer_len(&self.geometry.region(region)?))
    }

    /// Returns the processor that would decompress a region with these options. Opens a GPU if one is requested or
    /// chosen.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the region is outside of the array; [`Error::Gpu`] if a requested GPU cannot be
    /// used.
    pub fn execution(&self, region: &[Range<u64>], options: &DecompressOptions) -> Result<Execution> {
        Ok(self.choose(&self.geometry.region(region)?, Target::Memory, options)?.execution())
    }

    fn choose(&self, region: &Region, target: Target, options: &DecompressOptions) -> Result<Choice> {
        let bytes = region.len() * self.header.element_type.size() as u64;
        let tasks = self.tasks();
        let threads = match useful_threads(threads_for(tasks, options.threads()), tasks) {
            0 => useful_threads(all_threads(), tasks),
            threads => threads,
        };
        let obstacle = decode_obstacle(&self.header);
        Choice::new(options.backend(), Work::decompression(&self.header, target), bytes, threads, obstacle)
    }

    /// Returns the threads that can be useful.
    fn pool(&self, options: &DecompressOptions) -> Result<Pool> {
        let tasks = self.tasks();
        Pool::new(threads_for(tasks, options.threads()), tasks)
    }

    /// Returns the number of independent tasks for threads: chunks, or any number if several threads decode one chunk.
    fn tasks(&self) -> u64 {
        match self.decodes_by_groups() {
            true => self.table.chunks(),
            false => u64::MAX,
        }
    }

    /// Returns whether one thread decodes each chunk. Other decoders divide a chunk among all threads of their pool.
    fn decodes_by_groups(&self) -> bool {
        self.header.index == IndexKind::Symbol
    }

    /// Runs `work` with a decompression of the region on GPUs, if they are chosen, while the host holds `output` bytes
    /// of the result. Returns the [`Execution`], on the CPU if the GPUs failed or were not chosen.
    fn on_gpus(
        &self,
        region: &Region,
        target: Target,
        output: u64,
        options: &DecompressOptions,
        work: impl FnOnce(&mut Decompression<'_>) -> Result<()>,
    ) -> Result<Execution> {
        let choice = self.choose(region, target, options)?;
        let Some(gpus) = &choice.gpus else { return Ok(choice.execution()) };
        let limit = options.memory_limit().map(|limit| limit.saturating_sub(output));
        let done = Decompression::new(gpus, &self.source, region, limit).map(|mut gpus| work(&mut gpus));
        match (done, options.backend()) {
            (Ok(Ok(())), _) => Ok(choice.execution()),
            // With `Auto`, a GPU that is busy, too small, or fails counts as none. What it has written is written
            // again.
            (Err(error) | Ok(Err(error @ Error::Gpu { .. })), Backend::Auto) => Ok(Execution::cpu(error.to_string())),
            (Err(error) | Ok(Err(error)), _) => Err(error),
        }
    }

    /// Returns the elements of a region, if the memory limit permits.
    fn allocate_and_fill(&self, region: Region, options: &DecompressOptions) -> Result<Vec<u8>> {
        let needed = region.len() * self.header.element_type.size() as u64;
        let limit = options.memory_limit().unwrap_or(u64::MAX);
        let error = || Error::MemoryLimit { what: "the decompressed array".into(), needed, limit };
        if needed > limit {
            return Err(error());
        }
        let length = usize::try_from(needed).map_err(|_| error())?;
        let mut memory = Unwritten::new(length).ok_or_else(error)?;
        self.fill(Output::New(&mut memory), region, options)?;
        memory.written().ok_or_else(|| Error::corrupt("the stream", "not all elements are in its chunks"))
    }

    /// Returns the largest number of bytes of a chunk's elements.
    fn chunk_bytes(&self) -> u64 {
        let elements = u64::from(self.geometry.tiles_per_chunk()) * self.geometry.unclipped_len();
        elements.min(self.geometry.elements()) * self.header.element_type.size() as u64
    }

    /// Returns a pool with as many threads as the memory limit permits, beside `output` bytes of output and `own` bytes
    /// per thread; `None` if it permits all threads of this pool.
    fn limited(&self, pool: &Pool, output: u64, own: u64, options: &DecompressOptions) -> Result<Option<Pool>> {
        let Some(limit) = options.memory_limit() else { return Ok(None) };
        let each = own + self.memory_per_thread();
        pool.limited(limit.saturating_sub(output), each, "decompression", limit)
    }

    fn fill(&self, mut out: Output, region: Region, options: &DecompressOptions) -> Result<Execution> {
        let pool = self.pool(options)?;
        let element = self.header.element_type.size();
        let out_bytes = region.len() * element as u64;
        let stopwatch = Stopwatch::start(Work::decompression(&self.header, Target::Memory), out_bytes);
        let execution = self.on_gpus(&region, Target::Memory, out_bytes, options, |gpus| {
            let meter = Meter::new(&options.progress, region.len());
            self.fill_from_gpus(out.bytes(), gpus, &pool, &meter)
        })?;
        if execution.on_gpu() {
            stopwatch.end(&execution, 0);
            return Ok(execution);
        }
        let pool = self.limited(&pool, out_bytes, 0, options)?.unwrap_or(pool);
        let sinks: Vec<_> = out.scatter(&self.geometry, region.clone(), element).collect();
        let threads = pool.threads().min(sinks.len()) as u64;
        if self.memory_per_thread() > MOST_KEPT_BYTES {
            check_memory(self.memory_per_thread().saturating_mul(threads))?;
        }
        let total = sinks.iter().map(|tiles| self.geometry.chunk_elements(tiles.chunk())).sum();
        let meter = Meter::new(&options.progress, total);
        let buffers = Reused::default();
        let decode = |mut tiles: ChunkSink| {
            let chunk = tiles.chunk();
            match self.parts(chunk, &|tile| region.meets(tile)) {
                Some(parts) => self.decode_parts(&parts, &buffers, (&mut tiles).into())?,
                None => self.decode(chunk, &buffers, (&mut tiles).into())?,
            }
            meter.advance(self.geometry.chunk_elements(chunk))
        };
        self.map(pool, sinks, decode)?;
        stopwatch.end(&execution, threads as usize);
        Ok(execution)
    }

    /// Decodes chunks on the threads of this pool only.
    fn map<T: Send>(
        &self,
        pool: Pool,
        chunks: impl IntoIterator<Item = T>,
        decode: impl Fn(T) -> Result<()> + Sync,
    ) -> Result<()> {
        if pool.threads() == 1 && !self.decodes_by_groups() {
            // Other decoders use all threads of the pool in which they are called. On the caller's thread that would be
            // the shared pool.
            let chunks: Vec<T> = chunks.into_iter().collect();
            return pool.install(|| chunks.into_iter().try_for_each(&decode));
        }
        pool.map(chunks, decode).map(drop)
    }

    fn fill_from_gpus(&self, mut out: &mut [u8], gpus: &mut Decompression, pool: &Pool, meter: &Meter) -> Result<()> {
        let element = self.header.element_type.size();
        let parts = gpus.parts();
        let mut targets = Vec::new();
        for part in &parts {
            let (target, rest) = out.split_at_mut((part.end - part.start) as usize * element);
            targets.push(Mutex::new(target));
            out = rest;
        }
        let put = |part: usize, first: u64, bytes: &[u8]| {
            let at = (first - parts[part].start) as usize * element;
            let mut target = targets[part].lock().unwrap_or_else(PoisonError::into_inner);
            let steps = target[at..at + bytes.len()].par_chunks_mut(STEP_BYTES).zip(bytes.par_chunks(STEP_BYTES));
            pool.install_apart(|| steps.for_each(|(to, from)| to.copy_from_slice(from)));
            Ok(())
        };
        gpus.run(&self.source, pool, meter, &put)
    }

    /// Decodes the tiles of a chunk that the sink needs.
    fn decode(&self, chunk: u64, buffers: &Reused<Buffers>, tiles: Destination<'_, '_>) -> Result<()> {
        let decode = |Buffers { record, scratch }: &mut Buffers| {
            let record = self.record(chunk, record)?;
            decode_chunk(&self.header, &self.geometry, chunk, record, scratch, tiles)
                .map_err(|error| self.in_chunk(chunk, error))
        };
        let keeps = self.table.chunks() == 1 && self.memory_per_thread() <= MOST_KEPT_BYTES;
        if keeps { with_kept(&BUFFERS, decode) } else { buffers.with(decode) }
    }

    /// Returns the error with the location of a chunk.
    fn in_chunk(&self, chunk: u64, error: Error) -> Error {
        error.located(Location::of_chunk(chunk, self.table.record(chunk).0))
    }

    /// Returns the record of a chunk, read into `buffer` unless it is in memory.
    fn record<'s>(&'s self, chunk: u64, buffer: &'s mut Vec<u8>) -> Result<&'s [u8]> {
        let (offset, length) = self.table.record(chunk);
        if let Some(stream) = self.source.in_memory() {
            // The table was checked against the length of the stream.
            return Ok(&stream[offset as usize..offset as usize + length]);
        }
        read_into(&self.source, offset, length, buffer)?;
        Ok(buffer)
    }
}

/// Reads `length` bytes from an offset of a source. The buffer grows as bytes arrive, because a stream can claim a
/// length that the source does not have.
pub(crate) fn read_into<S: ReadAt + ?Sized>(
    source: &S,
    offset: u64,
    length: usize,
    buffer: &mut Vec<u8>,
) -> Result<()> {
    buffer.clear();
    while buffer.len() < length {
        let start = buffer.len();
        buffer.resize(length.min(start + READ_BYTES), 0);
        source.read_exact_at(&mut buffer[start..], offset + start as u64)?;
    }
    Ok(())
}

impl<S> fmt::Debug for StreamFile<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamFile")
            .field("header", &self.header)
            .field("stream_len", &self.stream_len)
            .finish_non_exhaustive()
    }
}

/// The destination of a region.
enum Output<'a> {
    /// Memory of the caller.
    Given(&'a mut [u8]),
    /// Memory that has not been written yet.
    New(&'a mut Unwritten),
}

impl Output<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Given(bytes) => bytes,
            Self::New(memory) => memory.zeroed(),
        }
    }

    fn scatter<'s>(&'s mut self, geometry: &'s Geometry, region: Region, element: usize) -> Scatter<'s> {
        match self {
            Self::Given(bytes) => Scatter::new(bytes, geometry, region, element),
            Self::New(memory) => memory.scatter(geometry, region, element),
        }
    }
}

/// Memory that is reused for all chunks of a thread.
#[derive(Default)]
struct Buffers {
    record: Vec<u8>,
    scratch: DecodeScratch,
}

thread_local! {
    /// Memory for small streams.
    static BUFFERS: Cell<Option<Box<Buffers>>> = const { Cell::new(None) };
}
