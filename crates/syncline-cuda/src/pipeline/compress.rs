//! Compresses arrays in device memory to streams in device memory.
//!
//! Chunks are processed in batches, so that the workspace does not grow with the array. The summaries of a quantized
//! batch are copied to the host while the device builds codebooks and encodes. The host result is only needed if some
//! chunk has outliers, verbatim values or bitmaps in addition to codes.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut};
use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, ErrorSummary, Fill, Pipeline, PsnrGoal, Resolved, resolve};
use syncline_core::container::{HEADER_LEN, Header};
use syncline_core::geometry::Geometry;
use syncline_core::huffman::IndexKind;
use syncline_core::pipeline::{CoderOptions, compress_bound};

use crate::container::assemble::Assembler;
use crate::container::progress::Progress;
use crate::container::table::StreamEnd;
use crate::device::{Arena, Device, Pinned};
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::Slab;
use crate::lzss_codes::CodeEncoder;
use crate::pipeline::{check_array, check_output};
use crate::quantize::{BoundScan, ChunkSummary, PendingScan, Quantizer};

mod batch;
mod batches;
mod token_codes;
mod token_stream;

pub(super) use batches::{BATCH_BYTES, Batches, Form};
use token_codes::{BatchRecords, TokenCompressor};

/// Options of a compression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompressOptions {
    /// The error bound.
    pub bound: Bound,
    /// Which values are fill values: these do not count in the range and are stored exactly.
    pub fill: Fill,
    /// log2 of the number of codes in a group: 6 or 7.
    pub group_log2: u8,
}

impl CompressOptions {
    /// Returns the defaults with this bound: detected fill values, and the default group size.
    pub fn new(bound: Bound) -> Self {
        Self { bound, fill: Fill::Auto, group_log2: Header::GROUP_LOG2 }
    }
}

/// The result of a compression.
#[derive(Debug, Clone)]
pub struct Compressed {
    /// Size of the stream in bytes.
    pub bytes: u64,
    /// The stream's header.
    pub header: Header,
    /// The resolved bound and the fill patterns, with the number of elements that hold each pattern.
    pub resolved: Resolved,
}

/// The records of some consecutive chunks.
#[derive(Debug, Clone)]
pub struct ChunkRecords {
    /// Length of each record in bytes; records are adjacent.
    pub lengths: Vec<u32>,
    /// Sums of squared errors, if the bound is a PSNR.
    pub errors: ErrorSummary,
}

/// Compresses arrays of `f32` and `f64` on one stream of a device, and keeps its workspace between calls.
#[derive(Debug)]
pub struct Compressor<'d> {
    device: &'d Device,
    stream: Arc<CudaStream>,
    arena: Arena,
    batch_bytes: u64,
    /// Whether and how codes are coded as LZSS tokens.
    coder: CoderOptions,
    tokens: Option<CodeEncoder>,
    /// For chunks with token codebooks.
    token_compressor: Option<TokenCompressor>,
    scan: Option<(ElementType, BoundScan)>,
    assembler: Option<Assembler<'d>>,
    quantizer: Option<Quantizer>,
    progress: Option<Progress>,
    summaries: Option<Pinned<ChunkSummary>>,
    control: Option<Control>,
    /// Whether there may be -0.0 among the elements.
    minus_zeros: bool,
}

/// A bound that the device resolves before the host has read the result of the scan.
#[derive(Debug)]
struct Pending<'i> {
    /// The running scan; `None` once the host has waited for it.
    begun: Option<PendingScan>,
    input: &'i CudaView<'i, u8>,
    /// The bound as the host resolves it from the scan's result; `None` until then.
    resolved: Option<Resolved>,
}

/// The control words of the quantizing kernel: 0 except while that kernel runs.
#[derive(Debug)]
struct Control {
    words: CudaSlice<u32>,
    /// Whether the words may not be 0, because the launch that clears them did not happen.
    used: bool,
}

impl<'d> Compressor<'d> {
    /// Returns a compressor that works on `stream`.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn new(device: &'d Device, stream: &Arc<CudaStream>) -> Result<Self> {
        Ok(Self {
            device,
            stream: stream.clone(),
            arena: Arena::new(stream.clone()),
            batch_bytes: BATCH_BYTES,
            coder: CoderOptions::default(),
            tokens: None,
            token_compressor: None,
            scan: None,
            assembler: None,
            quantizer: None,
            progress: None,
            summaries: None,
            control: None,
            minus_zeros: true,
        })
    }

    /// Sets the size of a batch to about `bytes` bytes of elements. Smaller batches take less workspace and more
    /// launches.
    #[must_use]
    pub fn with_batch_bytes(self, bytes: u64) -> Self {
        Self { batch_bytes: bytes.max(1), ..self }
    }

    /// Lets codes be coded as LZSS tokens: with `lzss+huffman` in every chunk that becomes shorter, with `auto` where
    /// an estimate predicts a gain. Compression then takes several times as long.
    #[must_use]
    pub fn with_coder(mut self, options: CoderOptions) -> Self {
        self.set_coder(options);
        self
    }

    /// Sets how codes are coded, as [`Self::with_coder`] does.
    pub fn set_coder(&mut self, options: CoderOptions) {
        self.coder = options;
    }

    /// Returns the bytes of device memory that are held between calls, determined by the largest call so far.
    pub fn workspace_bytes(&self) -> u64 {
        let lengths = self.progress.as_ref().map_or(0, |progress| 4 * progress.chunks());
        let coders = self.assembler.as_ref().map_or(0, Assembler::device_bytes)
            + self.control.as_ref().map_or(0, |control| 4 * control.words.len() as u64);
        self.arena.capacity() as u64 + lengths + coders
    }

    /// Frees the device memory that grows with the arrays, which the next call allocates again.
    pub fn free_workspace(&mut self) {
        self.arena.clear();
        self.tokens = None;
    }

    /// Compresses an array, given as little-endian bytes, into `output`. [`compress_bound`] bytes are always enough
    /// room; less suffices if the stream turns out to fit. Returns when the stream is complete: work that is still
    /// queued uses neither input nor output. After an error it may.
    ///
    /// # Errors
    /// [`CudaError::Core`] for a bound that the element type cannot have, [`CudaError::Lossless`] if the bound asks for
    /// or resolves to a lossless stream, [`CudaError::NoRoom`]; [`CudaError::InvalidArgument`] if lengths or alignment
    /// do not fit; [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn compress(
        &mut self,
        input: &CudaView<'_, u8>,
        element_type: ElementType,
        shape: Shape,
        options: &CompressOptions,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<Compressed> {
        let begun = self.begin_scan(input, element_type, shape, options)?;
        if self.coder.token_codes(options.bound) {
            let resolved = self.finish_scan(begun, input)?;
            return self.compress_token_codes(input, (element_type, shape), options, resolved, output);
        }
        // The host computes the geometry while the device scans the array.
        let geometry = Geometry::new(shape);
        let form = Form {
            element_bytes: element_type.size() as u32,
            group_log2: options.group_log2,
            index: IndexKind::Symbol,
            lzss_codes: self.coder.coder.lzss_codes(),
            measured: matches!(options.bound, Bound::Psnr(_)),
        };
        let batches = Batches::new(form, &geometry, 0..geometry.chunks(), self.batch_bytes);
        let prepared = batches.and_then(|batches| self.prepare(&batches).map(|()| batches));
        let slab = Slab { bytes: input.slice(..), first_element: 0 };
        let unresolved = Resolved { pipeline: Pipeline::Quantized, bound: options.bound, ..Resolved::lossless() };
        let header_of = |resolved: &Resolved| Header {
            group_log2: options.group_log2,
            lzss_codes: form.lzss_codes,
            ..Header::new(element_type, shape, IndexKind::Symbol, resolved)
        };
        let mut header = header_of(&unresolved);
        let is_early = matches!(options.bound, Bound::Abs(_) | Bound::Rel(_))
            // The device computes the other step.
            && !self.coder.rewritable
            && prepared.as_ref().is_ok_and(|batches| batches.chunks() > 0)
            && self.quantizer.as_ref().is_some_and(|quantizer| quantizer.can_start_before_bound(&header, &geometry));
        let (mut resolved, batches) = if is_early {
            let batches = prepared?;
            let mut pending = Pending { begun: Some(begun), input, resolved: None };
            let made = self.stream(&mut header, &geometry, &batches, &slab, output, Some(&mut pending))?;
            let resolved = pending.resolved.ok_or_else(|| CudaError::invalid("no bound was resolved"))?;
            if let Some((bytes, _)) = made {
                return Ok(Compressed { bytes, header, resolved });
            }
            (resolved, batches)
        } else {
            let resolved = self.finish_scan(begun, input)?;
            (resolved, prepared?)
        };
        let goal = match options.bound {
            Bound::Psnr(target) => Some(PsnrGoal::new(target, &resolved)),
            _ => None,
        };
        let mut attempt = 0;
        loop {
            if resolved.pipeline == Pipeline::Lossless {
                return Err(CudaError::Lossless("no quantization step serves this bound".into()));
            }
            let mut header = header_of(&resolved);
            let made = self.stream(&mut header, &geometry, &batches, &slab, output, None)?;
            let (bytes, errors) = made.ok_or_else(|| CudaError::invalid("the bound was resolved"))?;
            match goal.and_then(|goal| goal.next(element_type, &resolved, &errors, attempt)) {
                None => return Ok(Compressed { bytes, header, resolved }),
                Some(tightened) => (resolved, attempt) = (tightened, attempt + 1),
            }
        }
    }

    /// Resolves the bound over a whole array in device memory.
    ///
    /// # Errors
    /// The errors of [`Self::compress`].
    pub fn resolve(
        &mut self,
        input: &CudaView<'_, u8>,
        element_type: ElementType,
        shape: Shape,
        options: &CompressOptions,
    ) -> Result<Resolved> {
        let begun = self.begin_scan(input, element_type, shape, options)?;
        self.finish_scan(begun, input)
    }

    fn begin_scan(
        &mut self,
        input: &CudaView<'_, u8>,
        element_type: ElementType,
        shape: Shape,
        options: &CompressOptions,
    ) -> Result<PendingScan> {
        check_array(input, element_type, shape)?;
        options.bound.validate(element_type)?;
        self.coder.validate(options.bound)?;
        if options.bound == Bound::Lossless {
            return Err(CudaError::Lossless("the bound asked for is lossless".into()));
        }
        let scan = match self.scan.take().filter(|(element, _)| *element == element_type) {
            Some((_, scan)) => scan,
            None => BoundScan::new(self.device, element_type)?,
        };
        let (_, scan) = self.scan.insert((element_type, scan));
        scan.start(&self.stream, input, options.bound, options.fill)
    }

    fn finish_scan(&mut self, begun: PendingScan, input: &CudaView<'_, u8>) -> Result<Resolved> {
        let Some((_, scan)) = &mut self.scan else { return Err(CudaError::invalid("no scan was begun")) };
        let (found, _) = scan.finish(begun, &self.stream, input)?;
        self.minus_zeros = found.minus_zeros() > 0;
        Ok(resolve(&found, self.coder.rewritable)?)
    }

    /// Writes the records of some chunks to the start of `output`, one after another, without header and chunk table.
    /// `slab` contains the chunks' elements. Returns when the records are complete.
    ///
    /// # Errors
    /// The errors of [`Self::compress`].
    pub fn compress_chunks(
        &mut self,
        header: &Header,
        geometry: &Geometry,
        chunks: Range<u64>,
        slab: &Slab<'_>,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<ChunkRecords> {
        let records = if header.token_codes {
            let records = self.token_records(header, geometry, chunks, slab, 0, output)?;
            self.stream.synchronize().doing("waiting for compression")?;
            records
        } else {
            self.chunk_records(header, geometry, chunks, slab, output)?
        };
        Ok(ChunkRecords { errors: records.total(), lengths: records.lengths })
    }

    /// Writes the records of some chunks without token codebooks to the start of `output`.
    fn chunk_records(
        &mut self,
        header: &Header,
        geometry: &Geometry,
        chunks: Range<u64>,
        slab: &Slab<'_>,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<BatchRecords> {
        let batches = self.batches_of(header, geometry, chunks)?;
        // These elements were not scanned, so -0.0 may occur.
        self.minus_zeros = true;
        let errors = self.records(&mut header.clone(), geometry, &batches, slab, 0, output, None)?;
        let errors = errors.ok_or_else(|| CudaError::invalid("the bound was resolved"))?;
        let Some(progress) = &mut self.progress else { return Err(CudaError::invalid("no stream was begun")) };
        let (outcome, lengths) = progress.records(batches.chunks())?;
        if !outcome.fits {
            return Err(CudaError::NoRoom { needed: outcome.bytes, available: output.len() as u64 });
        }
        Ok(BatchRecords { lengths, errors })
    }

    /// Writes a whole stream with this header. Returns its size in bytes and the errors of all chunks. `pending` is as
    /// in [`Self::batch`].
    fn stream(
        &mut self,
        header: &mut Header,
        geometry: &Geometry,
        batches: &Batches,
        slab: &Slab<'_>,
        output: &mut CudaViewMut<'_, u8>,
        pending: Option<&mut Pending<'_>>,
    ) -> Result<Option<(u64, ErrorSummary)>> {
        let available = output.len() as u64;
        if available < HEADER_LEN as u64 {
            return Err(CudaError::NoRoom { needed: compress_bound(header.element_type, header.shape), available });
        }
        let errors = self.records(header, geometry, batches, slab, HEADER_LEN as u64, output, pending)?;
        let Some(errors) = errors else { return Ok(None) };
        let (Some(assembler), Some(progress)) = (&self.assembler, &mut self.progress) else {
            return Err(CudaError::invalid("no stream was begun"));
        };
        let end = header.to_bytes();
        assembler.finish_stream(&self.stream, progress, StreamEnd::Known(&end), batches.chunks(), output)?;
        let outcome = progress.outcome()?;
        if !outcome.fits {
            return Err(CudaError::NoRoom { needed: outcome.bytes, available });
        }
        Ok(Some((outcome.bytes, total(&errors))))
    }

    /// Returns the batches of some chunks of an array with their memory requirements.
    fn batches_of(&mut self, header: &Header, geometry: &Geometry, chunks: Range<u64>) -> Result<Batches> {
        if header.lzss_codes != self.coder.coder.lzss_codes() {
            return Err(CudaError::invalid("the header says otherwise of codes as LZSS tokens than the pipeline"));
        }
        let batches = Batches::new(Form::of(header), geometry, chunks, self.batch_bytes)?;
        self.prepare(&batches)?;
        Ok(batches)
    }

    /// Writes the records of prepared batches from byte `start` of the output on. Returns the errors of each chunk.
    #[expect(clippy::too_many_arguments, reason = "the chunks, where they come from and go to")]
    fn records(
        &mut self,
        header: &mut Header,
        geometry: &Geometry,
        batches: &Batches,
        slab: &Slab<'_>,
        start: u64,
        output: &mut CudaViewMut<'_, u8>,
        mut pending: Option<&mut Pending<'_>>,
    ) -> Result<Option<Vec<ErrorSummary>>> {
        check_output(&self.stream, output)?;
        self.prepare_quantizer(header, geometry, batches)?;
        if let Some(progress) = &mut self.progress {
            progress.start(start)?;
        }
        let mut errors = Vec::new();
        for (first, batch) in batches.numbered() {
            let most = batches.most_chunks() as u32;
            let of_batch = self.batch(header, batch, most, first, slab, output, pending.take())?;
            let Some(of_batch) = of_batch else { return Ok(None) };
            errors.extend(of_batch);
        }
        Ok(Some(errors))
    }

    /// Returns the bytes of device memory that compressing such an array takes in addition to input and output. Not
    /// included are outliers, verbatim values, bitmaps, and LZSS tokens, which temporarily take several bytes per code.
    pub fn needed_workspace(&self, header: &Header, geometry: &Geometry) -> u64 {
        if header.token_codes {
            return self.needed_token_workspace(header, geometry);
        }
        match Batches::new(Form::of(header), geometry, 0..geometry.chunks(), self.batch_bytes) {
            Ok(batches) => batches.needed(geometry),
            Err(_) => u64::MAX,
        }
    }

    /// Allocates and loads what these batches need for any resolved bound, except what an earlier stream left.
    fn prepare(&mut self, batches: &Batches) -> Result<()> {
        let Form { element_bytes, group_log2, index, lzss_codes, .. } = batches.form;
        if !self.assembler.as_ref().is_some_and(|a| a.is_for(index, group_log2, element_bytes)) {
            self.assembler = None;
            self.assembler = Some(Assembler::new(self.device, index, group_log2, element_bytes)?);
        }
        if self.progress.as_ref().is_none_or(|progress| progress.chunks() < batches.chunks()) {
            self.progress = None;
            self.progress = Some(Progress::new(&self.stream, batches.chunks())?);
        }
        let element_bytes = u64::from(element_bytes);
        if lzss_codes && self.tokens.as_ref().is_none_or(|tokens| tokens.element_bytes() != element_bytes) {
            self.tokens = Some(CodeEncoder::new(self.device, element_bytes)?);
        }
        if self.summaries.as_ref().is_none_or(|summaries| (summaries.len() as u64) < batches.most_chunks()) {
            self.summaries = None;
            self.summaries = Some(Pinned::new(&self.stream, batches.most_chunks() as usize)?);
        }
        self.arena.reserve(batches.workspace() as usize)
    }

    /// Creates the quantizer for this header and its control words.
    fn prepare_quantizer(&mut self, header: &Header, geometry: &Geometry, batches: &Batches) -> Result<()> {
        if !self.quantizer.as_mut().is_some_and(|quantizer| quantizer.adapt(header, geometry)) {
            self.quantizer = None;
            self.quantizer = Some(Quantizer::new(self.device, header, geometry)?);
        }
        if let Some(quantizer) = &mut self.quantizer {
            quantizer.set_minus_zeros(self.minus_zeros);
        }
        let words = self.quantizer.as_ref().map_or(0, |quantizer| quantizer.control_words(batches.most_chunks()));
        if self.control.as_ref().is_none_or(|control| control.words.len() < words) {
            self.control = None;
            let words = self.stream.alloc_zeros(words).allocating(4 * words as u64)?;
            self.control = Some(Control { words, used: false });
        }
        Ok(())
    }
}

/// Returns the errors of all chunks.
fn total(errors: &[ErrorSummary]) -> ErrorSummary {
    ErrorSummary {
        squared_error: errors.iter().map(|own| own.squared_error).sum(),
        counted: errors.iter().map(|own| own.counted).sum(),
    }
}
