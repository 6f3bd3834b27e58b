//! Compression that never waits for the device: everything that depends on the elements is decided by kernels, or by a
//! function of the host that the device calls.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtrMut};
use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, Pipeline, Resolved};
use syncline_core::container::{HEADER_LEN, Header};
use syncline_core::geometry::Geometry;
use syncline_core::huffman::IndexKind;
use syncline_core::pipeline::compress_bound;

use super::compress::{BATCH_BYTES, Batches, CompressOptions, Form};
use super::{check_array, check_output};
use crate::container::assemble::{Assembler, BatchInput, BatchPlan, Bitmaps, Codes, QueuedParts, RecordOutput};
use crate::container::progress::{Outcome, Progress, STATUS_NO_WIDE_CODES};
use crate::container::record::{Contents, Lists};
use crate::container::structs::QueuedEnd;
use crate::container::table::StreamEnd;
use crate::device::{Arena, Device};
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::{ChunkBatch, Slab};
use crate::quantize::{QueuedBound, QueuedQuantizer, STATUS_LOSSLESS, STATUS_OTHER_CONSTANTS};

/// Compresses arrays of one type and shape on one stream, without waiting for the device. The streams are those of
/// [`Compressor`](super::Compressor) without LZSS tokens and token codebooks.
///
/// Everything is allocated by the constructor, for the worst case: two to four times the size of a batch of the array.
/// After that, [`Self::compress`] only queues work, so that it can be captured in a CUDA graph, if the context does not
/// track slices across streams (`CudaContext::disable_event_tracking`).
#[derive(Debug)]
pub struct QueuedCompressor<'d> {
    stream: Arc<CudaStream>,
    element_type: ElementType,
    shape: Shape,
    batches: Batches,
    /// Tiles of the largest chunk.
    chunk_tiles: u32,
    parts: QueuedParts,
    bound: QueuedBound,
    quantizer: QueuedQuantizer,
    assembler: Assembler<'d>,
    progress: Progress,
    control: CudaSlice<u32>,
    arena: Arena,
    /// Size in bytes of the output of the last call.
    room: u64,
}

impl<'d> QueuedCompressor<'d> {
    /// Returns a compressor for arrays like `model`, working on `stream`, which it waits for. Its elements tell whether
    /// there are chunks that take the wide radius, and values that are masked: there is room for these, and kernels are
    /// queued for them, only then.
    ///
    /// # Errors
    /// [`CudaError::Core`] for a bound that the element type cannot have; [`CudaError::Unsupported`] for a PSNR, and if
    /// fill values are to be detected; [`CudaError::Lossless`] if the bound asks for a lossless stream, or there are no
    /// elements; [`CudaError::InvalidArgument`] if lengths or alignment do not fit; errors of [`Device::kernel`];
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn new(
        device: &'d Device,
        stream: &Arc<CudaStream>,
        model: &CudaView<'_, u8>,
        (element_type, shape): (ElementType, Shape),
        options: &CompressOptions,
        rewritable: bool,
    ) -> Result<Self> {
        let how = (options, rewritable);
        Self::with_batch_bytes(device, stream, model, (element_type, shape), how, BATCH_BYTES)
    }

    /// Returns a compressor with batches of about `batch_bytes` bytes of elements. Smaller batches take less workspace
    /// and more launches.
    ///
    /// # Errors
    /// The errors of [`Self::new`].
    pub fn with_batch_bytes(
        device: &'d Device,
        stream: &Arc<CudaStream>,
        model: &CudaView<'_, u8>,
        (element_type, shape): (ElementType, Shape),
        (options, rewritable): (&CompressOptions, bool),
        batch_bytes: u64,
    ) -> Result<Self> {
        check_array(model, element_type, shape)?;
        let CompressOptions { bound, fill, group_log2 } = *options;
        let unresolved = Resolved { pipeline: Pipeline::Quantized, bound, ..Resolved::lossless() };
        let header = Header { group_log2, ..Header::new(element_type, shape, IndexKind::Symbol, &unresolved) };
        let geometry = Geometry::new(shape);
        let bound = QueuedBound::new(device, stream, header.clone(), fill, rewritable)?;
        let batches = Batches::new(Form::of(&header), &geometry, 0..geometry.chunks(), batch_bytes.max(1))?;
        let most_chunks = batches.most_chunks();
        let quantizer = |bitmaps| {
            let made = QueuedQuantizer::new(device, element_type, options.bound, group_log2, &geometry, bitmaps)?;
            let words = made.control_words(most_chunks);
            Ok::<_, CudaError>((made, stream.alloc_zeros(words).allocating(4 * words as u64)?))
        };
        // Logarithms are taken of magnitudes, so that there are signs, and often masked zeros. Where kernels wait for
        // the constants of the host from the start, nothing else tells whether there are masked elements.
        let bitmaps = rewritable || matches!(options.bound, Bound::PwRel(_));
        let (first_quantizer, control) = quantizer(bitmaps)?;
        let mut made = Self {
            stream: stream.clone(),
            element_type,
            shape,
            chunk_tiles: u64::from(geometry.tiles_per_chunk()).min(geometry.tiles()) as u32,
            parts: QueuedParts { wide: false, bitmaps },
            bound,
            quantizer: first_quantizer,
            assembler: Assembler::new(device, IndexKind::Symbol, group_log2, element_type.size() as u32)?,
            progress: Progress::new(stream, batches.chunks())?,
            control,
            arena: Arena::new(stream.clone()),
            room: 0,
            batches,
        };
        if made.run_once(model)? & STATUS_OTHER_CONSTANTS != 0 {
            made.bound.resolve_first();
            made.parts.bitmaps = true;
            (made.quantizer, made.control) = quantizer(true)?;
            made.run_once(model)?;
        }
        if made.status()? & STATUS_NO_WIDE_CODES != 0 {
            made.parts.wide = true;
            made.run_once(model)?;
        }
        Ok(made)
    }

    /// Compresses an array to nowhere: this loads all kernels and allocates all memory. Returns the status.
    fn run_once(&mut self, model: &CudaView<'_, u8>) -> Result<u32> {
        let mut header = self.stream.alloc_zeros::<u8>(HEADER_LEN).doing("allocating a header")?;
        self.compress(model, &mut header.as_view_mut(), None)?;
        self.stream.synchronize().doing("waiting for compression")?;
        // The next frame has a single block of memory of all that was needed.
        self.arena.frame().map(|_| ())?;
        self.stream.synchronize().doing("waiting for memory")?;
        self.status()
    }

    /// Returns the status of the last compression, which is complete.
    fn status(&self) -> Result<u32> {
        Ok(self.progress.queued_outcome()?.map_or(0, |(_, status)| status))
    }

    /// Returns the bytes of device memory that are held.
    pub fn workspace_bytes(&self) -> u64 {
        let words = 4 * (self.control.len() as u64 + self.progress.chunks());
        self.arena.capacity() as u64 + self.assembler.device_bytes() + words
    }

    /// Queues the compression of an array, given as little-endian bytes, into `output`. [`compress_bound`] bytes
    /// are always enough room. The first word of `size`, if given, receives the stream's size in bytes; 0 if there is
    /// none, for which [`Self::check`] has the reason.
    ///
    /// # Errors
    /// [`CudaError::NoRoom`] if the output has no room for a header; [`CudaError::InvalidArgument`] if lengths or
    /// alignment do not fit; [`CudaError::Driver`].
    pub fn compress(
        &mut self,
        input: &CudaView<'_, u8>,
        output: &mut CudaViewMut<'_, u8>,
        size: Option<&mut CudaViewMut<'_, u64>>,
    ) -> Result<()> {
        check_array(input, self.element_type, self.shape)?;
        check_output(&self.stream, output)?;
        if size.as_ref().is_some_and(|size| size.is_empty()) {
            return Err(CudaError::invalid("there is no word for the size"));
        }
        let available = output.len() as u64;
        if available < HEADER_LEN as u64 {
            return Err(CudaError::NoRoom { needed: compress_bound(self.element_type, self.shape), available });
        }
        self.room = available;
        self.progress.restart(HEADER_LEN as u64)?;
        self.bound.queue(input)?;
        let slab = Slab { bytes: input.slice(..), first_element: 0 };
        let batches: Vec<(u64, ChunkBatch)> = self.batches.numbered().map(|(first, batch)| (first, *batch)).collect();
        for (first, batch) in batches {
            self.batch(&batch, first, &slab, output)?;
        }
        let end = QueuedEnd {
            header: self.bound.header(),
            status: self.bound.status(),
            size: size.map_or(0, |size| size.device_ptr_mut(&self.stream).0),
        };
        let (end, chunks) = (StreamEnd::Queued(end), self.batches.chunks());
        self.assembler.finish_stream(&self.stream, &mut self.progress, end, chunks, output)
    }

    /// Waits for the stream, and returns the size in bytes of what the last compression made.
    ///
    /// # Errors
    /// [`CudaError::NoRoom`]; [`CudaError::Lossless`] if the bound resolves to lossless compression;
    /// [`CudaError::Unsupported`] if there are parts for which there is no room;
    /// [`CudaError::InvalidArgument`] if nothing was compressed; [`CudaError::Driver`].
    pub fn check(&self) -> Result<u64> {
        self.stream.synchronize().doing("waiting for compression")?;
        let (bytes, status) =
            self.progress.queued_outcome()?.ok_or_else(|| CudaError::invalid("nothing was compressed"))?;
        if status & STATUS_LOSSLESS != 0 {
            return Err(CudaError::Lossless("no quantization step serves this bound".into()));
        }
        if status & STATUS_OTHER_CONSTANTS != 0 {
            return Err(unforeseen("elements are masked: NaN, fill values, or -0.0"));
        }
        if status & STATUS_NO_WIDE_CODES != 0 {
            return Err(unforeseen("the bound is so tight for these elements that codes need 16 bits"));
        }
        match Progress::outcome_of(bytes, status.into())? {
            Outcome { fits: true, .. } => Ok(bytes),
            Outcome { fits: false, .. } => Err(CudaError::NoRoom { needed: bytes, available: self.room }),
        }
    }

    /// Queues the work of a batch, whose first chunk is number `first`.
    fn batch(
        &mut self,
        batch: &ChunkBatch,
        first: u64,
        slab: &Slab<'_>,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        let stream = self.stream.clone();
        let Self { bound, quantizer, assembler, progress, control, arena, .. } = self;
        let most_chunks = self.batches.most_chunks() as u32;
        let mut frame = arena.frame()?;
        let mut record_inputs = assembler.allocate_inputs(&mut frame, batch, most_chunks)?;
        let listed = assembler.prepare_queued(&stream, batch, (most_chunks, self.chunk_tiles), self.parts)?;
        let mut control = control.slice_mut(..quantizer.control_words(batch.chunks().into()));
        let words = control.len() as u64;
        let clear = (control.device_ptr_mut(&stream).0, words);
        let records = record_inputs.argument(&stream, Some(clear), None)?;
        let step = bound.step(first == 0);
        let mut quantized = quantizer.quantize(&mut frame, slab, batch, &mut control, records, &step)?;
        if step.follows_scan {
            bound.join()?;
        }
        let status = bound.status();
        let mut lists = quantizer.list(&mut frame, &mut quantized, listed, status)?;
        quantizer.gather(&frame, slab, &mut quantized, &mut lists, &bound.step(false))?;

        let classes = quantized.group_classes.as_view();
        let codes = Codes { codes: &mut quantized.codes, classes: Some(&classes) };
        let started = assembler.start(&mut frame, record_inputs, codes)?;
        let side = &lists.side;
        let bitmaps = Bitmaps { masks: Some(side.masks.as_view()), signs: Some(side.signs.as_view()) };
        let record_lists = Lists {
            outlier_positions: side.outlier_positions.as_view(),
            outlier_residuals: side.residuals.as_view(),
            verbatim_positions: side.verbatim_positions.as_view(),
            verbatim_values: side.verbatim_values.as_view(),
        };
        let contents = Contents {
            geometry: *quantizer.geometry(),
            batch: *batch,
            metas: &quantized.metas.as_view(),
            bases: &quantized.bases.as_view(),
            lists: &record_lists,
            slab,
        };
        let plan = BatchPlan { lists: false, most_groups: u32::MAX, ..BatchPlan::default() };
        let (codes, summaries) = (&mut quantized.codes, &quantized.summaries.as_view());
        let input = BatchInput { plan: &plan, summaries, bitmaps: &bitmaps, contents: &contents, tokens: None };
        let to = RecordOutput { progress, first, output };
        assembler.finish_queued(&mut frame, started, input, codes, to, listed.streams)
    }
}

/// Returns the error for an array with parts that the model has not.
fn unforeseen(what: &str) -> CudaError {
    let text = format!("{what}, for which this compressor has made no room: make one with an array like this");
    CudaError::Unsupported(text)
}

impl Drop for QueuedCompressor<'_> {
    fn drop(&mut self) {
        // Page-locked memory must outlive the work. An error would show in the next call.
        let _ = self.stream.context().bind_to_thread();
        let _ = self.stream.synchronize();
    }
}
