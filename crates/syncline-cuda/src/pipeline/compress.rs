//! Arrays in device memory to streams in device memory.
//!
//! Chunks go through the stages in batches, so that the workspace does not grow with the array. What a batch came out as after quantising is read back
//! while the device builds codebooks and encodes: the host is waited for only where chunks have outliers, verbatim values or bitmaps beside their codes.

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtrMut};
use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, Fill, Pipeline, PsnrGoal, Resolved, resolve};
use syncline_core::container::{ALIGNMENT, HEADER_LEN, Header};
use syncline_core::geometry::Geometry;
use syncline_core::huffman::IndexKind;
use syncline_core::pipeline::{ChunkSummary as Errors, LosslessOptions, max_stream_len};

use crate::coded::CodeEncoder;
use crate::container::assemble::{Assembler, BatchPlan, Bitmaps, Codes, Observer, TokenCodes};
use crate::container::records::{Contents, Lists, Progress, Tiles};
use crate::device::{Arena, Device, Pinned};
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::{DeviceGeometry, Slab};
use crate::quantize::{BoundScan, ChunkSummary, Quantizer};

/// Elements of a batch, as bytes with all padding of the codes. What batches take does not depend on how large they are but for the beginnings and ends of the steps, in
/// which most of the device is idle: some 150 microseconds a batch.
const BATCH_BYTES: u64 = 2 << 30;

/// The same where codes become tokens, which take several bytes a code on the way.
const TOKEN_BATCH_BYTES: u64 = 512 << 20;

/// How to compress.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompressOptions {
    /// The error bound.
    pub bound: Bound,
    /// Which values are fill, left out of the range and kept exactly.
    pub fill: Fill,
    /// Which index the codes carry.
    pub index: IndexKind,
    /// log2 of the symbols in a group of the codes: 6 or 7.
    pub group_log2: u8,
}

impl CompressOptions {
    /// Defaults with this bound: detected fill values, the symbol index, the usual groups.
    pub fn new(bound: Bound) -> Self {
        Self { bound, fill: Fill::Auto, index: IndexKind::Symbol, group_log2: Header::GROUP_LOG2 }
    }
}

/// What a compression did.
#[derive(Debug, Clone)]
pub struct Compressed {
    /// Bytes of the stream.
    pub bytes: u64,
    /// The stream's header.
    pub header: Header,
    /// The bound and the fill patterns, with how many elements hold them.
    pub resolved: Resolved,
}

/// The records of some chunks.
#[derive(Debug, Clone)]
pub struct ChunkRecords {
    /// Bytes of each; they stand one after another.
    pub lengths: Vec<u32>,
    /// Errors, if the bound is a PSNR.
    pub errors: Errors,
}

/// Most bytes that a stream of this array can have.
pub fn max_compressed_len(element_type: ElementType, shape: Shape) -> u64 {
    let bytes = shape.len().saturating_mul(element_type.size() as u64);
    max_stream_len(bytes, Geometry::new(shape).chunks())
}

/// Compresses arrays of `f32` and `f64` on one stream of a device. Keeps its workspace from call to call.
#[derive(Debug)]
pub struct Compressor<'d> {
    device: &'d Device,
    stream: Arc<CudaStream>,
    arena: Arena,
    batch_bytes: u64,
    /// Whether and how codes become LZSS tokens.
    lossless: LosslessOptions,
    tokens: Option<CodeEncoder>,
    scan: Option<(ElementType, BoundScan)>,
    assembler: Option<Assembler<'d>>,
    quantizer: Option<(Header, Quantizer)>,
    progress: Option<Progress>,
    summaries: Option<Pinned<ChunkSummary>>,
    control: Option<Control>,
}

/// What quantising counts with: words that are 0 but while it does.
#[derive(Debug)]
struct Control {
    words: CudaSlice<u32>,
    /// Whether a launch that was to clear them is missing.
    used: bool,
}

/// A stream in the making.
struct Job<'j> {
    header: &'j Header,
    geometry: &'j Geometry,
    /// Chunks of the largest batch.
    batch_chunks: u64,
}

impl<'d> Compressor<'d> {
    /// A compressor whose work goes to `stream`.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn new(device: &'d Device, stream: &Arc<CudaStream>) -> Result<Self> {
        Ok(Self {
            device,
            stream: stream.clone(),
            arena: Arena::new(stream.clone()),
            batch_bytes: BATCH_BYTES,
            lossless: LosslessOptions::default(),
            tokens: None,
            scan: None,
            assembler: None,
            quantizer: None,
            progress: None,
            summaries: None,
            control: None,
        })
    }

    /// Works in batches of about so many bytes of elements: less workspace, more launches.
    #[must_use]
    pub fn with_batch_bytes(self, bytes: u64) -> Self {
        Self { batch_bytes: bytes.max(1), ..self }
    }

    /// Makes codes LZSS tokens where the pipeline says so: with `lzss+huffman` wherever that is shorter, with `auto` where an estimate says that it pays. Takes several times as long.
    #[must_use]
    pub fn with_lossless(mut self, options: LosslessOptions) -> Self {
        self.set_lossless(options);
        self
    }

    /// As [`Self::with_lossless`].
    pub fn set_lossless(&mut self, options: LosslessOptions) {
        self.lossless = options;
    }

    /// Bytes of device memory held between calls: what the largest so far took.
    pub fn workspace_bytes(&self) -> u64 {
        let lengths = self.progress.as_ref().map_or(0, |progress| 4 * progress.chunks());
        let coders = self.assembler.as_ref().map_or(0, Assembler::device_bytes)
            + self.control.as_ref().map_or(0, |control| 4 * control.words.len() as u64);
        self.arena.capacity() as u64 + lengths + coders
    }

    /// Compresses an array, given as little-endian bytes, into `output`, which has room for [`max_compressed_len`] bytes or as many as the stream turns out to
    /// have. Returns when the stream is complete.
    ///
    /// # Errors
    /// [`CudaError::Core`] for a bound that the element type cannot have, [`CudaError::Lossless`] if the bound asks for or resolves to a lossless stream,
    /// [`CudaError::NoRoom`]; [`CudaError::InvalidArgument`] if lengths or alignment do not fit; [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn compress(
        &mut self,
        input: &CudaView<'_, u8>,
        element_type: ElementType,
        shape: Shape,
        options: &CompressOptions,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<Compressed> {
        self.compress_observed(input, element_type, shape, options, output, &mut |_| Ok(()))
    }

    /// [`Self::compress`] that calls `observer` with a name after each launch, or after some launches together: a bench records events there.
    ///
    /// # Errors
    /// As [`Self::compress`], or what `observer` returns.
    pub fn compress_observed(
        &mut self,
        input: &CudaView<'_, u8>,
        element_type: ElementType,
        shape: Shape,
        options: &CompressOptions,
        output: &mut CudaViewMut<'_, u8>,
        observer: &mut Observer<'_>,
    ) -> Result<Compressed> {
        let bytes = shape.len().saturating_mul(element_type.size() as u64);
        if input.len() as u64 != bytes {
            return Err(CudaError::invalid(format!(
                "{shape} of {element_type} has {bytes} bytes, not {}",
                input.len()
            )));
        }
        let mut resolved = self.resolve(input, element_type, shape, options)?;
        observer("scan")?;
        let geometry = Geometry::new(shape);
        let slab = Slab { bytes: input.slice(..), first_element: 0 };
        let goal = match options.bound {
            Bound::Psnr(target) => Some(PsnrGoal::new(target, &resolved)),
            _ => None,
        };
        for _ in 0..PsnrGoal::ATTEMPTS {
            if resolved.pipeline == Pipeline::Lossless {
                return Err(CudaError::Lossless("no quantisation step serves this bound".into()));
            }
            let header = Header {
                group_log2: options.group_log2,
                lzss_codes: self.lossless.pipeline.lzss_codes(),
                ..Header::new(element_type, shape, options.index, &resolved)
            };
            let (bytes, errors) = self.stream(&header, &geometry, &slab, output, observer)?;
            match goal.and_then(|goal| goal.next(element_type, &resolved, &errors)) {
                None => return Ok(Compressed { bytes, header, resolved }),
                Some(tightened) => resolved = tightened,
            }
        }
        Err(goal.map_or_else(|| CudaError::invalid("no attempt"), |goal| goal.not_reached().into()))
    }

    /// Resolves the bound over a whole array in device memory.
    ///
    /// # Errors
    /// As [`Self::compress`].
    pub fn resolve(
        &mut self,
        input: &CudaView<'_, u8>,
        element_type: ElementType,
        shape: Shape,
        options: &CompressOptions,
    ) -> Result<Resolved> {
        options.bound.validate(element_type)?;
        self.lossless.validate(options.bound)?;
        if options.bound == Bound::Lossless {
            return Err(CudaError::Lossless("the bound asked for is lossless".into()));
        }
        debug_assert_eq!(input.len() as u64, shape.len() * element_type.size() as u64);
        let scan = match self.scan.take().filter(|(element, _)| *element == element_type) {
            Some((_, scan)) => scan,
            None => BoundScan::new(self.device, element_type)?,
        };
        let (_, scan) = self.scan.insert((element_type, scan));
        let found = scan.scan(&self.stream, input, options.fill)?;
        Ok(resolve(options.bound, element_type, &found)?)
    }

    /// Writes the records of some chunks to the start of `output`, one after another: no header and no table. `slab` has their elements.
    /// Returns when they are complete.
    ///
    /// # Errors
    /// As [`Self::compress`].
    pub fn compress_chunks(
        &mut self,
        header: &Header,
        geometry: &Geometry,
        chunks: Range<u64>,
        slab: &Slab<'_>,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<ChunkRecords> {
        let observer = &mut |_| Ok(());
        let count = chunks.end.saturating_sub(chunks.start);
        let errors = self.records(header, geometry, chunks, slab, 0, output, observer)?;
        let Some(progress) = &mut self.progress else { return Err(CudaError::invalid("no stream was begun")) };
        let (outcome, lengths) = progress.records(count)?;
        if !outcome.fits {
            return Err(CudaError::NoRoom { needed: outcome.bytes, available: output.len() as u64 });
        }
        Ok(ChunkRecords { lengths, errors })
    }

    /// A whole stream with this header; its bytes, and the errors of all chunks.
    fn stream(
        &mut self,
        header: &Header,
        geometry: &Geometry,
        slab: &Slab<'_>,
        output: &mut CudaViewMut<'_, u8>,
        observer: &mut Observer<'_>,
    ) -> Result<(u64, Errors)> {
        let available = output.len() as u64;
        if available < HEADER_LEN as u64 {
            return Err(CudaError::NoRoom { needed: max_compressed_len(header.element_type, header.shape), available });
        }
        let chunks = geometry.chunks();
        let errors = self.records(header, geometry, 0..chunks, slab, HEADER_LEN as u64, output, observer)?;
        let (Some(assembler), Some(progress)) = (&self.assembler, &mut self.progress) else {
            return Err(CudaError::invalid("no stream was begun"));
        };
        assembler.finish_stream(&self.stream, progress, &header.to_bytes(), chunks, output)?;
        observer("record_table")?;
        let outcome = progress.outcome()?;
        if !outcome.fits {
            return Err(CudaError::NoRoom { needed: outcome.bytes, available });
        }
        Ok((outcome.bytes, errors))
    }

    /// Writes the records of some chunks from byte `start` of the output on.
    #[expect(clippy::too_many_arguments, reason = "the chunks, where they come from and go to")]
    fn records(
        &mut self,
        header: &Header,
        geometry: &Geometry,
        chunks: Range<u64>,
        slab: &Slab<'_>,
        start: u64,
        output: &mut CudaViewMut<'_, u8>,
        observer: &mut Observer<'_>,
    ) -> Result<Errors> {
        if !output.device_ptr_mut(&self.stream).0.is_multiple_of(ALIGNMENT as u64) {
            return Err(CudaError::invalid("the output must start on a multiple of 16 bytes"));
        }
        if header.lzss_codes != self.lossless.pipeline.lzss_codes() {
            return Err(CudaError::invalid("the header says otherwise of codes as LZSS tokens than the pipeline"));
        }
        if chunks.start > chunks.end || chunks.end > geometry.chunks() {
            return Err(CudaError::invalid(format!("chunks {chunks:?} of {}", geometry.chunks())));
        }
        let count = chunks.end - chunks.start;
        let job = Job { header, geometry, batch_chunks: self.batch_chunks(header, geometry, count) };
        self.prepare(&job, count)?;
        self.arena.reserve(Self::batch_workspace(header, geometry, job.batch_chunks) as usize)?;
        if let Some(progress) = &mut self.progress {
            progress.start(start)?;
        }
        let mut errors = Errors::default();
        let mut first = chunks.start;
        while first < chunks.end {
            let end = chunks.end.min(first + job.batch_chunks);
            let batch = self.batch(&job, first..end, first - chunks.start, slab, output, observer)?;
            errors.squared_error += batch.squared_error;
            errors.counted += batch.counted;
            first = end;
        }
        Ok(errors)
    }

    /// Bytes of device memory that compressing such an array takes beside input and output, but for what stands beside the codes: outliers, verbatim values and bitmaps.
    pub fn needed_workspace(&self, header: &Header, geometry: &Geometry) -> u64 {
        let chunks = self.batch_chunks(header, geometry, geometry.chunks());
        // Codewords, symbols in their order and bytes of five codebooks a chunk, and counts of four.
        let books = chunks * 1024 * (5 * (size_of::<u32>() + size_of::<u16>() + 1) + 4 * size_of::<u32>()) as u64;
        // What quantising counts with, a word for at least eight tiles.
        let control = chunks * (u64::from(geometry.tiles_per_chunk()).min(geometry.tiles()) / 2 + 4);
        let lengths = geometry.chunks() * size_of::<u32>() as u64;
        Self::batch_workspace(header, geometry, chunks) + books + control + lengths
    }

    /// Bytes of the arena that a batch of so many chunks takes.
    fn batch_workspace(header: &Header, geometry: &Geometry, chunks: u64) -> u64 {
        let elements = chunks * Self::padded_chunk(header, geometry);
        let tiles = chunks * u64::from(geometry.tiles_per_chunk()).min(geometry.tiles().max(1));
        // Codes, which encoded segments take the place of, and the sums of hashing those of these. With the gap index segments are elsewhere; there is a subsequence's gap and
        // the bits of four codewords.
        let codes = match header.index {
            IndexKind::Gap => 4 * elements + elements / 8 + elements / 4,
            _ => 2 * elements,
        };
        // For a group its class, its bits, twice, and shares of index and bitmap; a segment's sums and starts.
        let encoding = 6 * (elements >> header.group_log2) + elements / 64;
        let measured = if matches!(header.bound, Bound::Psnr(_)) { 10 } else { 0 };
        codes + encoding + (34 + measured) * tiles + (chunks << 11) + (256 << 10)
    }

    /// Elements of a chunk, codes padded to groups.
    fn padded_chunk(header: &Header, geometry: &Geometry) -> u64 {
        DeviceGeometry::new(geometry, header.group_log2).chunk_slots().max(1) << header.group_log2
    }

    /// Chunks of a batch, of `count` chunks in all: as many in each batch, as far as it goes.
    fn batch_chunks(&self, header: &Header, geometry: &Geometry, count: u64) -> u64 {
        let chunk = Self::padded_chunk(header, geometry);
        let batch_bytes = if header.lzss_codes { self.batch_bytes.min(TOKEN_BATCH_BYTES) } else { self.batch_bytes };
        let most = (batch_bytes / (chunk * header.element_type.size() as u64)).max(1);
        count.div_ceil(count.div_ceil(most).max(1)).max(1)
    }

    /// Makes what the stream needs and is not there from the one before.
    fn prepare(&mut self, job: &Job<'_>, chunks: u64) -> Result<()> {
        let Job { header, geometry, batch_chunks } = job;
        let element_bytes = header.element_type.size() as u32;
        if !self.assembler.as_ref().is_some_and(|a| a.is_for(header.index, header.group_log2, element_bytes)) {
            self.assembler = None;
            self.assembler = Some(Assembler::new(self.device, header.index, header.group_log2, element_bytes)?);
        }
        if self.quantizer.as_ref().is_none_or(|(of, _)| of != *header) {
            self.quantizer = Some(((*header).clone(), Quantizer::new(self.device, header, geometry)?));
        }
        let words = self.quantizer.as_ref().map_or(0, |(_, quantizer)| quantizer.control_words(*batch_chunks));
        if self.control.as_ref().is_none_or(|control| control.words.len() < words) {
            self.control = None;
            let words = self.stream.alloc_zeros(words);
            let words = words.map_err(|_| CudaError::OutOfMemory { bytes: 4 * *batch_chunks })?;
            self.control = Some(Control { words, used: false });
        }
        if self.progress.as_ref().is_none_or(|progress| progress.chunks() < chunks) {
            self.progress = None;
            self.progress = Some(Progress::new(&self.stream, chunks)?);
        }
        let element_bytes = u64::from(element_bytes);
        if header.lzss_codes && self.tokens.as_ref().is_none_or(|tokens| tokens.element_bytes() != element_bytes) {
            self.tokens = Some(CodeEncoder::new(self.device, element_bytes)?);
        }
        if self.summaries.as_ref().is_none_or(|summaries| (summaries.len() as u64) < *batch_chunks) {
            self.summaries = None;
            self.summaries = Some(Pinned::new(&self.stream, *batch_chunks as usize)?);
        }
        Ok(())
    }

    /// Writes the records of a batch behind those before. `first` is the number of its first chunk among the records.
    fn batch(
        &mut self,
        job: &Job<'_>,
        chunks: Range<u64>,
        first: u64,
        slab: &Slab<'_>,
        output: &mut CudaViewMut<'_, u8>,
        observer: &mut Observer<'_>,
    ) -> Result<Errors> {
        let (Some(assembler), Some((_, quantizer)), Some(progress), Some(host), Some(control)) =
            (&mut self.assembler, &self.quantizer, &mut self.progress, &mut self.summaries, &mut self.control)
        else {
            return Err(CudaError::invalid("no stream was begun"));
        };
        let mut frame = self.arena.frame()?;
        if std::mem::replace(&mut control.used, true) {
            self.stream.memset_zeros(&mut control.words).doing("clearing counters")?;
        }
        let mut counters = control.words.slice_mut(..quantizer.control_words(chunks.end - chunks.start));
        let mut quantised = quantizer.quantize_with(&mut frame, slab, chunks, &mut counters)?;
        observer("quantize")?;
        let mut tokens = self.tokens.as_mut().filter(|_| job.header.lzss_codes);
        let narrow = match &tokens {
            Some(tokens) => Some(tokens.narrow(&mut frame, quantizer.geometry(), &mut quantised, &self.lossless)?),
            None => None,
        };
        let batch = quantised.batch;
        let classes = quantised.group_classes.as_view();
        let codes = Codes {
            codes: &mut quantised.codes,
            classes: (job.header.index == IndexKind::Symbol).then_some(&classes),
            summaries: &quantised.summaries.as_view(),
            control: Some(&mut counters),
        };
        let tiles = Tiles {
            metas: &mut quantised.metas,
            bases: &quantised.bases.as_view(),
            counts: Some([&mut quantised.outliers, &mut quantised.verbatim]),
        };
        let (geometry, streams) = (quantizer.geometry(), job.batch_chunks as u32);
        let begun = assembler.begin(&mut frame, geometry, &batch, streams, codes, tiles, Some(host), observer)?;
        control.used = false;

        let summaries = &host.wait()?[..batch.chunks() as usize];
        let plan = BatchPlan::new(&batch, summaries);
        if !plan.wide.is_empty() {
            quantizer.widen(&mut frame, slab, &mut quantised, summaries)?;
            observer("quantize_wide")?;
        }
        let mut side = quantizer.gather(&mut frame, slab, &mut quantised, summaries)?;
        observer("quantize_gather")?;
        let mut coded = None;
        if let (Some(tokens), Some(narrow)) = (&mut tokens, narrow) {
            let lengths = assembler.code_lengths(&self.stream)?;
            let how = (job.header.index, &self.lossless);
            let (quantised, side) = (&mut quantised, &mut side);
            coded = tokens
                .encode(&mut frame, quantizer, slab, quantised, narrow, side, summaries, &lengths, how, observer)?;
        }
        let lists = Lists {
            outlier_positions: side.outlier_positions.as_view(),
            outlier_residuals: side.residuals.as_view(),
            verbatim_positions: side.verbatim_positions.as_view(),
            verbatim_values: side.verbatim_values.as_view(),
        };
        let bitmaps = Bitmaps { masks: Some(side.masks.as_view()), signs: Some(side.signs.as_view()) };
        let contents = Contents {
            geometry: *quantizer.geometry(),
            batch,
            metas: &quantised.metas.as_view(),
            bases: &quantised.bases.as_view(),
            lists: &lists,
            slab,
        };
        let codes = &mut quantised.codes;
        let stream = &self.stream;
        match (tokens, coded) {
            (Some(encoder), Some(mut coded)) => {
                let (lists, tokens) = (coded.lists.view(), &mut coded.tokens);
                let mut write =
                    |places: &[Option<u64>], output: &mut CudaViewMut<'_, u8>, observer: &mut Observer<'_>| {
                        encoder.write(stream, tokens, places, output, observer)
                    };
                let tokens = Some(TokenCodes { lists: &lists, write: &mut write });
                let (frame, output) = (&mut frame, output);
                assembler.finish_with(
                    frame, begun, &plan, codes, &bitmaps, &contents, tokens, progress, first, output, observer,
                )?;
            }
            _ => {
                assembler
                    .finish(&mut frame, begun, &plan, codes, &bitmaps, &contents, progress, first, output, observer)?;
            }
        }
        let squared_error = summaries.iter().map(|summary| u128::from(summary.squared_error)).sum();
        Ok(Errors { squared_error, counted: summaries.iter().map(|summary| summary.counted).sum() })
    }
}
