//! Compresses arrays in device memory to lossless streams.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DevicePtrMut};
use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{ErrorSummary, Resolved};
use syncline_core::container::{HEADER_LEN, Header, RECORD_HEADER_LEN, table_and_trailer};
use syncline_core::geometry::Geometry;
use syncline_core::huffman::IndexKind;
use syncline_core::pipeline::{Coder, CoderOptions, LzssEstimate};

use super::cost_model::{Job, Samples};
use super::records::{Record, TOKENS_AT, patch_raw, raw_bytes};
use super::tiles::Tiles;
use super::write_numbers::{NumberEncoder, Work};
use super::write_tokens::{self, Source, TokenEncoder, TokenPlaces};
use crate::container::hash::{self, ExcludedRange, Hasher};
use crate::device::{Arena, Copies, Device, Frame, Patches, Pinned, Transfer};
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::{ChunkBatch, Slab};
use crate::pipeline::{ChunkRecords, Compressed, check_array, check_output, compress_bound};

/// Maximum bytes of elements in a batch.
const BATCH_BYTES: u64 = 256 << 20;

/// Compresses arrays without loss on one stream of a device, and keeps its workspace between calls.
#[derive(Debug)]
pub struct LosslessCompressor<'d> {
    device: &'d Device,
    stream: Arc<CudaStream>,
    arena: Arena,
    batch_bytes: u64,
    hasher: Hasher,
    transfer: Transfer,
    tiles: Option<(ElementType, Shape, Tiles)>,
    tokens: TokenEncoder,
    /// Created on first use, because its kernels take a while to compile.
    numbers: Option<NumberEncoder>,
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
            transfer: Transfer::new(device)?,
            tiles: None,
            tokens: TokenEncoder::new(device)?,
            numbers: None,
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
    /// [`CudaError::NoRoom`]; [`CudaError::InvalidArgument`] if lengths or alignment do not match;
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
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
        job.options.validate()?;
        check_output(&self.stream, output)?;
        if chunks.start > chunks.end || chunks.end > job.geometry.chunks() {
            return Err(CudaError::invalid(format!("chunks {chunks:?} of {}", job.geometry.chunks())));
        }
        self.prepare(job)?;
        let step = self.tiles.as_ref().map_or(1, |(.., tiles)| tiles.chunks_in(self.batch_bytes, 0));
        self.check_slab(job, &chunks)?;
        // The host estimates what tokens of the next batches' chunks would take while the device works on a batch.
        let mut estimates = match job.options.tries_lzss(job.header.element_type.size()) {
            true => Some(self.samples(job, &chunks)?.choose(job)),
            false => None,
        };
        let mut lengths = Vec::new();
        let mut at = start;
        // While the host works on the first estimates, the device has nothing to do.
        let first = if estimates.is_some() { (step / 4).max(1) } else { step };
        for batch in batches_of(&chunks, first, step) {
            let own = (batch.start - chunks.start) as usize..(batch.end - chunks.start) as usize;
            let estimates = estimates.as_mut().map(|estimates| estimates.wait(own)).transpose()?;
            let own = self.batch(job, batch, estimates.as_deref(), at, output)?;
            at += own.iter().map(|&length| u64::from(length)).sum::<u64>();
            lengths.extend(own);
        }
        Ok(lengths)
    }

    /// Checks that the slab contains some chunks.
    fn check_slab(&self, job: Job<'_>, chunks: &Range<u64>) -> Result<()> {
        let element_bytes = job.header.element_type.size() as u32;
        for ends in [chunks.start..chunks.end.min(chunks.start + 1), chunks.end.max(chunks.start + 1) - 1..chunks.end] {
            job.slab.check(job.geometry, &ChunkBatch::new(job.geometry, ends)?, element_bytes)?;
        }
        Ok(())
    }

    /// Takes samples of some chunks, which the slab contains.
    fn samples(&mut self, job: Job<'_>, chunks: &Range<u64>) -> Result<Samples> {
        let Some((.., tiles)) = &self.tiles else { return Err(CudaError::invalid("no stream was begun")) };
        Samples::take(&mut self.arena.frame()?, tiles, job, chunks.clone(), &mut self.samples)
    }

    /// Creates the stages that the stream needs, except those left by an earlier stream.
    fn prepare(&mut self, job: Job<'_>) -> Result<()> {
        let Header { element_type, shape, .. } = *job.header;
        if self.tiles.as_ref().is_none_or(|(element, of, _)| (*element, *of) != (element_type, shape)) {
            self.tiles = Some((element_type, shape, Tiles::new(self.device, element_type, job.geometry)?));
        }
        let has_numbers = matches!(job.options.coder, Coder::Auto | Coder::Numbers);
        if has_numbers && self.numbers.as_ref().is_none_or(|numbers| numbers.element() != element_type) {
            self.numbers = Some(NumberEncoder::new(self.device, element_type)?);
        }
        Ok(())
    }

    /// Writes the records of a batch from byte `at` of the output on. `estimates` are those of the chunks as tokens, if
    /// they may become tokens. Returns their lengths in bytes.
    fn batch(
        &mut self,
        job: Job<'_>,
        chunks: Range<u64>,
        estimates: Option<&[LzssEstimate]>,
        at: u64,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<Vec<u32>> {
        let Some((.., tiles)) = &self.tiles else { return Err(CudaError::invalid("no stream was begun")) };
        let stream = self.stream.clone();
        let batch = &ChunkBatch::new(job.geometry, chunks.clone())?;
        job.slab.check(job.geometry, batch, tiles.element_bytes() as u32)?;
        let mut frame = self.arena.frame()?;
        let (slots, _in_order) = tiles.in_order(&mut frame, batch, job.slab)?;
        let bytes_of = |number: usize| tiles.elements_of(batch, number as u32) * tiles.element_bytes();

        // Codes all chunks as numbers, unless the coder has tokens only.
        let work = Work { job, tiles, batch, first_chunk: chunks.start, slots };
        let coder = job.options.coder;
        let mut numbers = self.numbers.as_mut().filter(|_| matches!(coder, Coder::Auto | Coder::Numbers));
        let mut as_numbers = match &mut numbers {
            Some(numbers) => Some(numbers.lay_out(&mut frame, work)?),
            None => None,
        };
        let of_numbers = |number: usize| as_numbers.as_ref().map(|laid_out| laid_out.records[number].bytes);

        // Finds the tokens of all chunks, or of those for which they are promising.
        let source = |(number, estimate): (usize, &LzssEstimate)| Source {
            base: slots.pointer,
            offset: number as u64 * slots.stride,
            bytes: bytes_of(number),
            params: estimate.choice.params,
            has_matches: estimate.choice.has_matches,
            has_words: estimate.choice.has_words,
            chunk: chunks.start + number as u64,
        };
        let is_wanted = |&(number, estimate): &(usize, &LzssEstimate)| {
            of_numbers(number).is_none_or(|bytes| CoderOptions::is_promising(estimate.expected, bytes))
        };
        let wanted = || estimates.unwrap_or_default().iter().enumerate().filter(is_wanted);
        let sources: Vec<Source> = wanted().map(source).collect();
        let mut as_tokens = match sources.is_empty() {
            true => None,
            false => {
                let mut found = self.tokens.find(&mut frame, &sources)?;
                let laid_out = match coder {
                    Coder::Lzss => None,
                    _ => Some(self.tokens.lay_out(&mut frame, &mut found)?),
                };
                Some((found, laid_out))
            }
        };
        let mut of_tokens: Vec<Option<(usize, Record)>> = (0..chunks.end - chunks.start).map(|_| None).collect();
        if let Some((found, laid_out)) = &as_tokens {
            let sections = write_tokens::sections(found, laid_out.as_ref()).into_iter().enumerate();
            for ((chunk, _), (number, tokens)) in wanted().zip(sections) {
                of_tokens[chunk] = Some((number, Record::new(tokens)));
            }
        }

        // Takes the shortest coding of each chunk: raw before numbers, and numbers before tokens.
        let lengths: Vec<u64> = of_tokens
            .iter_mut()
            .enumerate()
            .map(|(number, tokens)| {
                let other = of_numbers(number).unwrap_or(u64::MAX).min(raw_bytes(bytes_of(number)));
                *tokens = tokens.take().filter(|(_, record)| record.bytes < other);
                tokens.as_ref().map_or(other, |(_, record)| record.bytes)
            })
            .collect();
        let layout = Layout::new(&lengths, at, output.len() as u64)?;
        let (output_pointer, _) = output.device_ptr_mut(&stream);
        let mut places = as_tokens.as_ref().map(|(found, laid_out)| TokenPlaces::new(found, laid_out.as_ref()));
        let (mut patches, mut copies) = (Patches::default(), Copies::default());
        let mut number_places = vec![None; lengths.len()];
        for (number, (tokens, &place)) in of_tokens.iter().zip(&layout.places).enumerate() {
            let (chunk, bytes) = (chunks.start + number as u64, bytes_of(number));
            match (tokens, &mut places, &mut as_tokens) {
                (Some((source, record)), Some(places), Some((found, laid_out))) => {
                    record.patch(place, chunk, &mut places.patches);
                    let tokens = (*source, &record.tokens);
                    places.place(&stream, tokens, found, laid_out.as_ref(), output_pointer, place + TOKENS_AT);
                }
                _ if lengths[number] < raw_bytes(bytes) => number_places[number] = Some(place),
                _ => {
                    patch_raw(place, chunk, bytes, &mut patches);
                    let from = slots.pointer + number as u64 * slots.stride;
                    copies.add(from, output_pointer + place + RECORD_HEADER_LEN as u64, bytes);
                }
            }
        }

        // Writes the records.
        self.transfer.patch(&stream, &patches, output)?;
        self.transfer.copy(&stream, &copies)?;
        if let (Some(numbers), Some(laid_out)) = (numbers, as_numbers.take()) {
            numbers.write(&mut frame, work, laid_out, &number_places, output)?;
        }
        if let (Some((mut found, laid_out)), Some(places)) = (as_tokens, places) {
            self.tokens.write(&stream, &mut found, laid_out, &places, output)?;
        }
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
    fn new(lengths: &[u64], at: u64, room: u64) -> Result<Self> {
        // A record is at most as long as its chunk stored raw, which has at most 2^25 bytes.
        let lengths: Vec<u32> = lengths.iter().map(|&bytes| bytes as u32).collect();
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

/// Splits chunks into batches of up to `most` chunks. The first one has up to `step`, and each further one up to twice
/// as many as the one before, so that the device can start as soon as the coding of the first chunks is chosen.
fn batches_of(chunks: &Range<u64>, mut step: u64, most: u64) -> Vec<Range<u64>> {
    let (mut batches, mut first) = (Vec::new(), chunks.start);
    while first < chunks.end {
        let end = chunks.end.min(first + step);
        batches.push(first..end);
        (first, step) = (end, most.min(2 * step));
    }
    batches
}
