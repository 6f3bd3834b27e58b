//! The compression of one array, in memory or larger.

use std::cell::Cell;
use std::io::Write;

use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, ErrorSummary, Pattern, Pipeline, PsnrGoal, Resolved};
use syncline_core::container::{HEADER_LEN, Header, table_and_trailer};
use syncline_core::error::{Error, Result};
use syncline_core::geometry::{Geometry, TileSize};
use syncline_core::huffman::IndexKind;
use syncline_core::pipeline::{self, EncodeScratch, compress_bound, encode_chunk};

use crate::backend::{Choice, Execution, Stopwatch, Work, encode_obstacle, stream_obstacle};
use crate::description::{FillPattern, Summary};
use crate::devices::Backend;
use crate::gpu_backend::Compression;
use crate::in_order::in_order;
use crate::io::ReadAt;
use crate::options::{CompressOptions, Meter};
use crate::pool::{MOST_KEPT_BYTES, Pool, Reused, check_memory, threads_for, useful_threads, with_kept};
use crate::range::{SCAN_PART, resolve_by_scan};
use crate::source::ArraySource;

/// Limit on the bytes of elements in chunks that are being compressed or wait to be written: enough to keep all threads
/// busy, and little memory even if no chunk becomes smaller.
const WAITING_BYTES: u64 = 128 << 20;

thread_local! {
    /// Memory for small arrays.
    static SCRATCH: Cell<Option<Box<EncodeScratch>>> = const { Cell::new(None) };
}

/// Compresses an array that starts at byte `offset` of a source, as [`compress_from`](crate::compress_from) does.
pub(crate) fn compress_array<S: ReadAt + ?Sized, W: Write>(
    source: &S,
    offset: u64,
    element_type: ElementType,
    shape: Shape,
    options: &CompressOptions,
    mut sink: W,
) -> Result<Summary> {
    let bytes = shape.len() * element_type.size() as u64;
    let available = source.size()?.saturating_sub(offset);
    if available < bytes {
        return Err(Error::invalid(format!(
            "an array of shape {shape} and type {element_type} has {bytes} bytes, but the data has \
             {available}: check the shape, the type, and the offset"
        )));
    }
    // Invalid options are reported before GPUs are opened, whose absence is another error.
    options.validate(element_type)?;
    let geometry = Geometry::with_tiles(shape, options.tile_size());
    let tasks = geometry.chunks().max(shape.len().div_ceil(SCAN_PART));
    let pool = Pool::new(threads_for(tasks, options.threads()), tasks)?;
    let array = ArraySource::new(source, offset, element_type);
    let work = Work::compression(options);
    let stopwatch = Stopwatch::start(work, bytes);
    // A thread codes a chunk.
    let threads = useful_threads(pool.threads(), geometry.chunks());
    let mut choice = Choice::new(options.backend(), work, bytes, threads, encode_obstacle(options))?;
    let gpus = choice.gpus.take();
    let mut gpu = None;
    if let Some(gpus) = &gpus {
        match Compression::new(gpus, element_type, &geometry, options) {
            Ok(compression) => gpu = Some((compression, gpus.names())),
            // With `Auto`, a GPU that is busy or too small counts as none.
            Err(error) if options.backend() == Backend::Auto => choice.reason = error.to_string(),
            Err(error) => return Err(error),
        }
    }
    let resolved = match gpu.as_mut().map(|(gpu, _)| gpu.resolve(&array, options, &pool)) {
        // So does one that fails before anything is written.
        Some(Err(Error::Gpu { message, .. })) if options.backend() == Backend::Auto => {
            (gpu, choice.reason) = (None, message);
            resolve_by_scan(&array, element_type, shape.len(), options, &pool)?
        }
        Some(resolved) => resolved?,
        None => resolve_by_scan(&array, element_type, shape.len(), options, &pool)?,
    };
    let header = header_for(element_type, shape, options, options.tile_size(), &resolved);
    // Streams that turn out lossless have small tiles.
    let geometry = header.geometry()?;
    if let (Some((compression, names)), Some(gpus)) = (gpu.take(), &gpus) {
        match compression.with_geometry(gpus, &geometry, options) {
            Ok(compression) => gpu = Some((compression, names)),
            Err(Error::Gpu { message, .. }) if options.backend() == Backend::Auto => choice.reason = message,
            Err(error) => return Err(error),
        }
    }
    let mut job = Job {
        geometry,
        header,
        array,
        options,
        pool,
        gpu: gpu.as_mut().map(|(gpu, _)| gpu),
        gpu_failed: None,
        held: 0,
    };
    let compressed_bytes = match options.bound() {
        Bound::Psnr(target) => job.reach_psnr(target, resolved.clone(), &mut sink)?,
        _ => {
            sink.write_all(&job.header.to_bytes())?;
            job.write_chunks(&mut sink)?.0
        }
    };
    let (header, gpu_failed) = (job.header, job.gpu_failed);
    let execution = match (gpu.filter(|_| gpu_failed.is_none()), stream_obstacle(&header)) {
        (Some((_, names)), None) => Execution { gpus: names, reason: choice.reason },
        (Some(_), Some(obstacle)) => Execution::cpu(obstacle),
        (None, _) => Execution::cpu(gpu_failed.unwrap_or(choice.reason)),
    };
    sink.flush()?;
    stopwatch.end(&execution, threads);
    Ok(summary(&header, options.bound(), &resolved, compressed_bytes, execution))
}

/// Returns the summary of a compression that wrote this header.
pub(crate) fn summary(
    header: &Header,
    bound: Bound,
    resolved: &Resolved,
    compressed_bytes: u64,
    execution: Execution,
) -> Summary {
    let fill = |pattern: &Pattern| FillPattern::new(header.element_type, pattern.bits, pattern.count);
    Summary {
        element_type: header.element_type,
        shape: header.shape,
        bound,
        abs_bound: header.abs_bound,
        step: header.step,
        range: header.value_range(),
        fills: resolved.patterns.iter().map(fill).collect(),
        uncompressed_bytes: header.shape.len() * header.element_type.size() as u64,
        compressed_bytes,
        execution,
    }
}

/// Returns the header of a stream for a resolved bound.
pub(crate) fn header_for(
    element_type: ElementType,
    shape: Shape,
    options: &CompressOptions,
    tile_size: TileSize,
    resolved: &Resolved,
) -> Header {
    match resolved.pipeline {
        Pipeline::Lossless => Header::new(element_type, shape, options.advanced().index, resolved),
        // Streams with an error bound have an index of their own.
        _ => Header::new(element_type, shape, IndexKind::Symbol, resolved).with_tile_size(tile_size),
    }
}

/// The compression of one array.
struct Job<'a, S: ?Sized> {
    header: Header,
    geometry: Geometry,
    array: ArraySource<'a, S>,
    options: &'a CompressOptions,
    pool: Pool,
    /// The GPUs, if they compress the array.
    gpu: Option<&'a mut Compression>,
    /// The reason why the GPUs failed, if they did.
    gpu_failed: Option<String>,
    /// Bytes that are kept in memory while chunks are compressed.
    held: u64,
}

impl<S: ReadAt + ?Sized> Job<'_, S> {
    /// Compresses all chunks and writes them in order, with the chunk table and trailer. Returns the length of the
    /// stream in bytes and the sum of the chunks' summaries.
    fn write_chunks<W: Write>(&mut self, sink: &mut W) -> Result<(u64, ErrorSummary)> {
        let meter = || Meter::new(&self.options.progress, self.geometry.elements());
        let written = Cell::new(false);
        let mut write = |record: &[u8]| {
            written.set(true);
            Ok(sink.write_all(record)?)
        };
        let by_gpu = match &mut self.gpu {
            Some(gpu) if stream_obstacle(&self.header).is_none() => {
                Some(gpu.compress(&self.array, &self.header, &self.pool, &meter(), &mut write))
            }
            _ => None,
        };
        let (lengths, total) = match by_gpu {
            // With `Auto`, a failing GPU counts as none, unless something has been written.
            Some(Err(Error::Gpu { message, .. })) if self.options.backend() == Backend::Auto && !written.get() => {
                let made = self.encode_chunks(&meter(), &mut write)?;
                (self.gpu, self.gpu_failed) = (None, Some(message));
                made
            }
            Some(made) => made?,
            None => self.encode_chunks(&meter(), &mut write)?,
        };
        let end = table_and_trailer(&self.header, &lengths);
        sink.write_all(&end)?;
        let records: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
        Ok((HEADER_LEN as u64 + records + end.len() as u64, total))
    }

    /// Compresses all chunks on the CPU; `write` receives the records in order.
    fn encode_chunks(
        &self,
        meter: &Meter,
        write: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<(Vec<u32>, ErrorSummary)> {
        let chunks = self.geometry.chunks() as usize;
        let chunk_bytes = u64::from(self.geometry.tiles_per_chunk())
            * self.geometry.unclipped_len()
            * self.header.element_type.size() as u64;
        // Each thread holds its window of the source, the chunk that it encodes, and some finished chunks.
        let each = pipeline::encode_memory(&self.header, &self.geometry);
        let available = |limit: u64| limit.saturating_sub(self.held);
        let limited = match self.options.memory_limit() {
            Some(limit) => self.pool.limited(available(limit), each, "compression", limit)?,
            None => None,
        };
        let pool = limited.as_ref().unwrap_or(&self.pool);
        let threads = pool.threads();
        // One more chunk for each thread keeps threads from waiting for the slowest one.
        let (waiting, least) = match self.options.memory_limit() {
            Some(limit) => (WAITING_BYTES.min(available(limit).saturating_sub(threads as u64 * each)), threads),
            None => (WAITING_BYTES, 2 * threads),
        };
        let ahead = ((waiting / chunk_bytes) as usize).max(least);
        let mut lengths = Vec::new();
        let mut total = ErrorSummary::default();
        let keeps = chunks == 1 && each <= MOST_KEPT_BYTES;
        if !keeps {
            check_memory(each.saturating_mul(threads.min(chunks) as u64))?;
        }
        let scratch = Reused::<EncodeScratch>::default();
        let encode = |chunk: usize, record: &mut Vec<u8>| {
            let with_scratch = |scratch: &mut EncodeScratch| {
                let lossless = &self.options.coder_options();
                encode_chunk(&self.header, &self.geometry, chunk as u64, &self.array, lossless, scratch, record)
            };
            let summary = if keeps { with_kept(&SCRATCH, with_scratch) } else { scratch.with(with_scratch) }?;
            meter.advance(self.geometry.chunk_elements(chunk as u64))?;
            Ok(summary)
        };
        let mut finish = |record: &[u8], summary: ErrorSummary| {
            lengths.push(record.len() as u32);
            total.squared_error += summary.squared_error;
            total.counted += summary.counted;
            write(record)
        };
        if threads == 1 || keeps {
            // Each chunk reuses the memory of an earlier one.
            let mut record = Vec::new();
            for chunk in 0..chunks {
                record.clear();
                let summary = encode(chunk, &mut record)?;
                finish(&record, summary)?;
            }
            return Ok((lengths, total));
        }
        let encode = |chunk| {
            let mut record = Vec::new();
            encode(chunk, &mut record).map(|summary| (record, summary))
        };
        let mut take = |(record, summary): (Vec<u8>, _)| finish(&record, summary);
        if chunks > ahead {
            in_order(threads, chunks, ahead, encode, take)?;
        } else {
            pool.map(0..chunks, encode)?.into_iter().try_for_each(&mut take)?;
        }
        Ok((lengths, total))
    }

    /// Compresses with smaller and smaller bounds until the PSNR is reached, and writes that stream.
    fn reach_psnr<W: Write>(&mut self, target: f64, mut resolved: Resolved, sink: &mut W) -> Result<u64> {
        let goal = PsnrGoal::new(target, &resolved);
        // A small stream is kept in memory until its PSNR is known. A large one is made twice instead, so that memory
        // stays bounded.
        let most = compress_bound(self.header.element_type, self.header.shape);
        let least = pipeline::encode_memory(&self.header, &self.geometry);
        let fits = self.options.memory_limit().is_none_or(|limit| most.saturating_add(least) <= limit);
        let keeps = most <= 2 * WAITING_BYTES && fits;
        self.held = if keeps { most } else { 0 };
        let mut attempt = 0;
        loop {
            let mut stream = Vec::new();
            let (length, summary) = if keeps {
                stream.extend_from_slice(&self.header.to_bytes());
                self.write_chunks(&mut stream)?
            } else {
                self.write_chunks(&mut std::io::sink())?
            };
            let Some(tightened) = goal.next(self.header.element_type, &resolved, &summary, attempt) else {
                if keeps {
                    sink.write_all(&stream)?;
                    return Ok(length);
                }
                sink.write_all(&self.header.to_bytes())?;
                return Ok(self.write_chunks(sink)?.0);
            };
            (resolved, attempt) = (tightened, attempt + 1);
            let Header { element_type, shape, tile_size, .. } = self.header;
            self.header = header_for(element_type, shape, self.options, tile_size, &resolved);
            self.geometry = self.header.geometry()?;
        }
    }
}
