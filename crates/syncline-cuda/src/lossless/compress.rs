//! Compresses arrays in device memory to lossless streams of LZSS chunks.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtrMut};
use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{ErrorSummary, Resolved};
use syncline_core::container::{HEADER_LEN, Header, RECORD_HEADER_LEN, table_and_trailer};
use syncline_core::geometry::Geometry;
use syncline_core::huffman::IndexKind;
use syncline_core::pipeline::{Coder, CoderOptions, LzssChoice};

use super::cost_model::{Job, Samples};
use super::records::{Record, TOKENS_AT};
use super::tiles::Tiles;
use super::write_tokens::{self, Source, TokenEncoder, TokenPlaces};
use crate::container::hash::{self, ExcludedRange, Hasher};
use crate::device::{Arena, Device, Frame, Pinned};
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::{ChunkBatch, Slab};
use crate::pipeline::{ChunkRecords, Compressed, check_array, check_output, compress_bound};

/// Maximum bytes of elements in a batch.
const BATCH_BYTES: u64 = 256 << 20;

/// Returns whether this module writes and reads lossless streams of this coder.
pub fn is_supported(pipeline: Coder) -> bool {
    matches!(pipeline, Coder::Lzss | Coder::LzssHuffman)
}

/// Compresses arrays without loss on one stream of a device, and keeps its workspace between calls.
#[derive(Debug)]
pub struct LosslessCompressor<'d> {
    device: &'d Device,
    stream: Arc<CudaStream>,
    arena: Arena,
    batch_bytes: u64,
    hasher: Hasher,
    tiles: Option<(ElementType, Shape, Tiles)>,
    tokens: TokenEncoder,
    /// Page-locked memory for samples.
    samples: Option<Arc<Pinned<u8>>>,
}

impl<'d> LosslessCompressor<'d> {
    /// Returns a compressor that works on `stream`.
    ///
    /// # Errors
    /// The errors of [`Device::kernel`].
    pub fn new(device: &'d Device, stream: &Arc<CudaStream>) -> Result<Self> {
        Ok(Self {
            device,
            stream: stream.clone(),
            arena: Arena::new(stream.clone()),
            batch_bytes: BATCH_BYTES,
            hasher: Hasher::new(device)?,
            tiles: None,
            tokens: TokenEncoder::new(device)?,
            samples: None,
        })
    }

    /// Sets the size of a batch to about `bytes` bytes of elements. Smaller batches take less workspace and more
    /// launches.
    #[must_use]
    pub fn with_batch_bytes(self, bytes: u64) -> Self {
        Self { batch_bytes: bytes.max(1), ..self }
    }

    /// Returns the bytes of device memory that are held between calls.
    pub fn workspace_bytes(&self) -> u64 {
        self.arena.capacity() as u64
    }

    /// Compresses an array, given as little-endian bytes, into `output`. [`compress_bound`] bytes are always enough
    /// room; less suffices if the stream turns out to fit. Returns when the stream is complete; after an error, work
    /// may still be queued.
    ///
    /// # Errors
    /// [`CudaError::Unsupported`] unless the coder is LZSS or LZSS followed by Huffman, [`CudaError::NoRoom`];
    /// [`CudaError::InvalidArgument`] if lengths or alignment do not match; [`CudaError::OutOfMemory`];
    /// [`CudaError::Driver`].
    pub fn compress(
        &mut self,
        input: &CudaView<'_, u8>,
        element_type: ElementType,
        shape: Shape,
        options: &CoderOptions,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<Compressed> {
        check_array(input, element_type, shape)?;
        let (resolved, geometry) = (Resolved::lossless(), Geometry::new(shape));
        let header = Header::new(element_type, shape, IndexKind::Symbol, &resolved);
        let available = output.len() as u64;
        if available < HEADER_LEN as u64 {
            return Err(CudaError::NoRoom { needed: compress_bound(element_type, shape), available });
        }
        let slab = Slab { bytes: input.slice(..), first_element: 0 };
        let job = Job { header: &header, geometry: &geometry, options, slab: &slab };
        let lengths = self.records(job, 0..geometry.chunks(), HEADER_LEN as u64, output)?;
        let end = HEADER_LEN as u64 + lengths.iter().map(|&length| u64::from(length)).sum::<u64>();
        let table = table_and_trailer(&header, &lengths);
        let needed = end + table.len() as u64;
        if needed > available {
            return Err(CudaError::NoRoom { needed, available });
        }
        let mut put = |at: u64, bytes: &[u8]| {
            let range = at as usize..at as usize + bytes.len();
            self.stream.memcpy_htod(bytes, &mut output.slice_mut(range)).doing("writing the chunk table")
        };
        put(0, &header.to_bytes())?;
        put(end, &table)?;
        self.stream.synchronize().doing("waiting for compression")?;
        Ok(Compressed { bytes: needed, header, resolved })
    }

    /// Writes the records of some chunks to the start of `output`, one after another, without header and chunk table.
    /// `slab` contains the chunks' elements.
    ///
    /// # Errors
    /// The errors of [`Self::compress`].
    pub fn compress_chunks(
        &mut self,
        header: &Header,
        geometry: &Geometry,
        options: &CoderOptions,
        chunks: Range<u64>,
        slab: &Slab<'_>,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<ChunkRecords> {
        let job = Job { header, geometry, options, slab };
        let lengths = self.records(job, chunks, 0, output)?;
        self.stream.synchronize().doing("waiting for compression")?;
        Ok(ChunkRecords { lengths, errors: ErrorSummary::default() })
    }

    /// Writes the records of some chunks from byte `start` of the output on. Returns their lengths in bytes.
    fn records(
        &mut self,
        job: Job<'_>,
        chunks: Range<u64>,
        start: u64,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<Vec<u32>> {
        if !is_supported(job.options.coder) {
            return Err(CudaError::Unsupported(format!(
                "the coder {} is done on the CPU: the GPU has lzss and lzss+huffman",
                job.options.coder
            )));
        }
        job.options.validate()?;
        check_output(&self.stream, output)?;
        if chunks.start > chunks.end || chunks.end > job.geometry.chunks() {
            return Err(CudaError::invalid(format!("chunks {chunks:?} of {}", job.geometry.chunks())));
        }
        self.prepare(job)?;
        let step = self.tiles.as_ref().map_or(1, |(.., tiles)| tiles.chunks_in(self.batch_bytes, 0));
        let samples = self.samples(job, &chunks)?;
        // The host chooses the coding of the next batches' chunks while the device works on a batch.
        let mut choices = samples.choose(job);
        let mut lengths = Vec::new();
        let mut at = start;
        for batch in batches_of(&chunks, step) {
            let own = (batch.start - chunks.start) as usize..(batch.end - chunks.start) as usize;
            let choices = choices.wait(own)?;
            let own = self.batch(job, batch, &choices, at, output)?;
            at += own.iter().map(|&length| u64::from(length)).sum::<u64>();
            lengths.extend(own);
        }
        Ok(lengths)
    }

    /// Takes samples of some chunks, if the slab contains them.
    fn samples(&mut self, job: Job<'_>, chunks: &Range<u64>) -> Result<Samples> {
        let Some((.., tiles)) = &self.tiles else { return Err(CudaError::invalid("no stream was begun")) };
        for ends in [chunks.start..chunks.end.min(chunks.start + 1), chunks.end.max(chunks.start + 1) - 1..chunks.end] {
            let batch = ChunkBatch::new(job.geometry, ends)?;
            job.slab.check(job.geometry, &batch, tiles.element_bytes() as u32)?;
        }
        Samples::take(&mut self.arena.frame()?, tiles, job, chunks.clone(), &mut self.samples)
    }

    /// Creates the stages that the stream needs, except those left by an earlier stream.
    fn prepare(&mut self, job: Job<'_>) -> Result<()> {
        let Header { element_type, shape, .. } = *job.header;
        if self.tiles.as_ref().is_none_or(|(element, of, _)| (*element, *of) != (element_type, shape)) {
            self.tiles = Some((element_type, shape, Tiles::new(self.device, element_type, job.geometry)?));
        }
        Ok(())
    }

    /// Writes the records of a batch, coded according to `choices`, from byte `at` of the output on. Returns their
    /// lengths in bytes.
    fn batch(
        &mut self,
        job: Job<'_>,
        chunks: Range<u64>,
        choices: &[LzssChoice],
        at: u64,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<Vec<u32>> {
        let Some((.., tiles)) = &self.tiles else { return Err(CudaError::invalid("no stream was begun")) };
        let stream = self.stream.clone();
        let batch = ChunkBatch::new(job.geometry, chunks.clone())?;
        job.slab.check(job.geometry, &batch, tiles.element_bytes() as u32)?;
        let mut frame = self.arena.frame()?;
        let (slots, _in_order) = tiles.in_order(&mut frame, &batch, job.slab)?;

        // Finds the tokens of all chunks.
        let bytes_of = |number: usize| tiles.elements_of(&batch, number as u32) * tiles.element_bytes();
        let source = |(number, choice): (usize, &LzssChoice)| Source {
            base: slots.pointer,
            offset: number as u64 * slots.stride,
            bytes: bytes_of(number),
            params: choice.params,
            has_matches: choice.has_matches,
            has_words: choice.has_words,
            chunk: chunks.start + number as u64,
        };
        let sources: Vec<Source> = choices.iter().enumerate().map(source).collect();
        let mut found = self.tokens.find(&mut frame, &sources)?;
        let laid_out = match job.options.coder {
            Coder::LzssHuffman => Some(self.tokens.lay_out(&mut frame, &mut found)?),
            _ => None,
        };

        // Places all records in the output.
        let sections = write_tokens::sections(&found, laid_out.as_ref()).into_iter().enumerate();
        let record = |(number, tokens)| (Record::new(tokens, bytes_of(number)), bytes_of(number));
        let records: Vec<(Record, u64)> = sections.map(record).collect();
        let layout = Layout::new(&records, at, output.len() as u64)?;
        let mut places = TokenPlaces::new(&found, laid_out.as_ref());
        let (output_pointer, _) = output.device_ptr_mut(&stream);
        for (number, ((record, elements), &place)) in records.iter().zip(&layout.places).enumerate() {
            record.patch(place, chunks.start + number as u64, *elements, &mut places.patches);
            if record.is_raw {
                let from = slots.pointer + number as u64 * slots.stride;
                places.copies.add(from, output_pointer + place + RECORD_HEADER_LEN as u64, *elements);
                continue;
            }
            let tokens = (number, &record.tokens);
            let at = place + TOKENS_AT;
            places.place(&stream, tokens, &mut found, laid_out.as_ref(), output_pointer, at);
        }

        // Writes the records.
        self.tokens.write(&stream, &mut found, laid_out, &places, output)?;
        layout.checksum(&mut frame, &self.hasher, output)?;
        Ok(layout.lengths)
    }
}

/// Locations of a batch's records in the output.
struct Layout {
    places: Vec<u64>,
    lengths: Vec<u32>,
}

impl Layout {
    /// Places records one after another from byte `at` on, if there is room.
    fn new(records: &[(Record, u64)], at: u64, room: u64) -> Result<Self> {
        // A record is at most as long as its chunk stored raw, which has at most 2^25 bytes.
        let lengths: Vec<u32> = records.iter().map(|(record, _)| record.bytes as u32).collect();
        let mut end = at;
        let place = |&length: &u32| {
            let start = end;
            end += u64::from(length);
            start
        };
        let places = lengths.iter().map(place).collect();
        match end > room {
            true => Err(CudaError::NoRoom { needed: end, available: room }),
            false => Ok(Self { places, lengths }),
        }
    }

    /// Writes the hashes of the records into the records.
    fn checksum(&self, frame: &mut Frame<'_>, hasher: &Hasher, output: &mut CudaViewMut<'_, u8>) -> Result<()> {
        let longest = self.lengths.iter().copied().max().unwrap_or(0);
        let (starts, lengths) = (frame.upload(&self.places)?, frame.upload(&self.lengths)?);
        let (starts, lengths) = (starts.as_view(), lengths.as_view());
        hasher.checksum(
            frame,
            output,
            &hash::Pieces { starts: &starts, lengths: &lengths, longest, excluded: ExcludedRange::RECORD },
        )
    }
}

/// Splits chunks into batches of up to `most` chunks. The first batches are smaller, so that the device can start as
/// soon as the coding of the first chunks is chosen.
fn batches_of(chunks: &Range<u64>, most: u64) -> Vec<Range<u64>> {
    let (mut batches, mut first) = (Vec::new(), chunks.start);
    let mut step = (most / 4).max(1);
    while first < chunks.end {
        let end = chunks.end.min(first + step);
        batches.push(first..end);
        (first, step) = (end, most.min(2 * step));
    }
    batches
}
