//! Compression of a stream of elements that come in order.

use std::io::Write;

use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::Bound;
use syncline_core::container::{Header, table_and_trailer};
use syncline_core::error::{Error, Result};
use syncline_core::geometry::Geometry;
use syncline_core::pipeline::{EncodeScratch, encode_chunk};

use crate::compress::header_for;
use crate::options::{Meter, Options};
use crate::pool::{Pool, Reused};
use crate::range::resolve_stated;
use crate::source::Part;

/// Compresses elements that are pushed in C order, and writes each chunk as soon as its elements are there.
///
/// The elements are not seen before they are compressed, so [`Bound::Rel`] and [`Bound::Psnr`] need the value range of the whole array
/// ([`Writer::with_range`]), and of the fill values only NaN and a given one are recognised.
/// It holds the elements of one layer of tiles (8 planes of a 3-D array, 32 rows of a 2-D one) and of a few chunks.
///
/// ```
/// use syncline::{Bound, DecodeOptions, ElementType, Options, Shape, Writer, decompress};
/// let options = Options::new(Bound::Abs(0.01));
/// let mut writer = Writer::new(Vec::new(), ElementType::F32, Shape::new(&[100, 200])?, &options)?;
/// for row in 0..100 {
///     let bytes: Vec<u8> = (0..200).flat_map(|x| ((row + x) as f32).to_le_bytes()).collect();
///     writer.push(&bytes)?;
/// }
/// let stream = writer.finish()?;
/// assert_eq!(decompress(&stream, &DecodeOptions::default())?.to_vec::<f32>()?.len(), 20_000);
/// # Ok::<(), syncline::Error>(())
/// ```
pub struct Writer<W> {
    sink: W,
    header: Header,
    geometry: Geometry,
    options: Options,
    pool: Pool,
    scratch: Reused<EncodeScratch>,
    /// Bytes from the first element that the next chunk needs.
    pending: Vec<u8>,
    /// Raster index of the first element in `pending`.
    first: u64,
    next_chunk: u64,
    /// Elements that must be there before the next chunks are complete; kept because it takes a look at every tile of theirs.
    wake_at: u64,
    record_lengths: Vec<u32>,
    done: u64,
}

impl<W: Write> Writer<W> {
    /// A writer of an array of this type and shape; the stream's header is written at once.
    ///
    /// # Errors
    /// A bound that the type cannot have or that needs the value range, or a failing sink.
    pub fn new(sink: W, element_type: ElementType, shape: Shape, options: &Options) -> Result<Self> {
        if matches!(options.bound, Bound::Rel(_) | Bound::Psnr(_)) {
            return Err(Error::invalid(
                "a bound relative to the value range needs the range of the whole array: use Writer::with_range, or an absolute bound",
            ));
        }
        Self::start(sink, element_type, shape, options, None)
    }

    /// As [`Writer::new`], with the smallest and largest finite value of the whole array, fill left out.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub fn with_range(
        sink: W,
        element_type: ElementType,
        shape: Shape,
        options: &Options,
        low: f64,
        high: f64,
    ) -> Result<Self> {
        if !(low <= high && (high - low).is_finite()) {
            return Err(Error::invalid(format!("{low} to {high} is not a value range")));
        }
        Self::start(sink, element_type, shape, options, Some((low, high)))
    }

    fn start(
        mut sink: W,
        element_type: ElementType,
        shape: Shape,
        options: &Options,
        range: Option<(f64, f64)>,
    ) -> Result<Self> {
        options.lossless.validate(options.bound)?;
        let header = header_for(element_type, shape, options, &resolve_stated(element_type, options, range)?);
        sink.write_all(&header.to_bytes())?;
        let geometry = Geometry::new(shape);
        let pool = Pool::new(options.threads)?;
        Ok(Self {
            sink,
            header,
            geometry,
            options: options.clone(),
            pool,
            scratch: Reused::default(),
            pending: Vec::new(),
            first: 0,
            next_chunk: 0,
            wake_at: 0,
            record_lengths: Vec::new(),
            done: 0,
        })
    }

    /// Takes the next elements, little-endian; a push may end in the middle of an element.
    ///
    /// # Errors
    /// More elements than the shape has, a failing sink, cancellation, or the memory limit.
    pub fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        let size = self.header.element_type.size() as u64;
        let taken = self.first * size + self.pending.len() as u64;
        let total = self.geometry.elements() * size;
        if bytes.len() as u64 > total - taken {
            return Err(Error::invalid(format!(
                "more than the {total} bytes of an array of shape {}",
                self.header.shape
            )));
        }
        // In steps, so that one big push does not copy the whole array.
        const STEP: usize = 8 << 20;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(STEP));
            self.pending.extend_from_slice(now);
            bytes = later;
            self.write_complete_chunks(false)?;
        }
        Ok(())
    }

    /// Writes what is left, the chunk table and the trailer, and returns the sink.
    ///
    /// # Errors
    /// Elements are missing, or as [`Writer::push`].
    pub fn finish(mut self) -> Result<W> {
        self.write_complete_chunks(true)?;
        if self.next_chunk < self.geometry.chunks() {
            let size = self.header.element_type.size() as u64;
            return Err(Error::invalid(format!(
                "the array has {} bytes, only {} were pushed",
                self.geometry.elements() * size,
                self.first * size + self.pending.len() as u64
            )));
        }
        self.sink.write_all(&table_and_trailer(&self.record_lengths))?;
        self.sink.flush()?;
        Ok(self.sink)
    }

    /// Compresses the chunks whose elements are all there: as many at once as there are threads, unless no more will come.
    fn write_complete_chunks(&mut self, all: bool) -> Result<()> {
        let size = self.header.element_type.size();
        loop {
            let have = self.first + (self.pending.len() / size) as u64;
            if !all && have < self.wake_at {
                return self.check_memory();
            }
            let complete = (self.next_chunk..self.geometry.chunks())
                .take(self.pool.threads())
                .take_while(|&chunk| self.geometry.chunk_span(chunk).end <= have)
                .count() as u64;
            if complete == 0 || (!all && complete < self.pool.threads() as u64) {
                let last = self.next_chunk + self.pool.threads() as u64 - 1;
                // Without a full round of chunks left, they wait for the end.
                self.wake_at = match last < self.geometry.chunks() {
                    true => self.geometry.chunk_span(last).end,
                    false => u64::MAX,
                };
                return self.check_memory();
            }
            let source = Part::new(&self.pending, self.first);
            let (header, geometry) = (&self.header, &self.geometry);
            let chunks = self.next_chunk..self.next_chunk + complete;
            let (scratch, lossless) = (&self.scratch, &self.options.lossless);
            let encode = |chunk: u64| {
                let mut record = Vec::new();
                scratch
                    .with(|scratch| encode_chunk(header, geometry, chunk, &source, lossless, scratch, &mut record))?;
                Ok(record)
            };
            for record in self.pool.map(chunks.clone(), encode)? {
                self.sink.write_all(&record)?;
                self.record_lengths.push(record.len() as u32);
            }
            self.done += chunks.map(|chunk| self.geometry.chunk_elements(chunk)).sum::<u64>();
            self.next_chunk += complete;
            let keep = match self.next_chunk < self.geometry.chunks() {
                true => self.geometry.chunk_span(self.next_chunk).start,
                false => have,
            };
            self.pending.drain(..(keep - self.first) as usize * size);
            self.first = keep;
            let meter = Meter::new(&self.options.progress, self.geometry.elements());
            meter.advance(self.done)?;
        }
    }

    fn check_memory(&self) -> Result<()> {
        let needed = self.pending.capacity() as u64;
        match self.options.memory_limit {
            Some(limit) if needed > limit => {
                Err(Error::MemoryLimit { what: "holding a layer of tiles".into(), needed, limit })
            }
            _ => Ok(()),
        }
    }
}

impl<W: Write> Write for Writer<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.push(bytes)?;
        Ok(bytes.len())
    }

    /// Does nothing: chunks are written when they are complete, the last by [`Writer::finish`].
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
