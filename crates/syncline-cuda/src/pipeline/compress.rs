//! Compresses arrays in device memory to streams in device memory.
//!
//! Chunks are processed in batches, so that the workspace does not grow with the array. All that depends on the
//! elements is decided by kernels, but for the bound: the host resolves it from what a scan of the array found, either
//! between the scan and the other kernels, or in a function that the device calls.

mod batches;
mod options;
mod stages;
mod worst_case;

use std::ops::Range;
use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut};
use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, ErrorSummary, Pipeline, PsnrGoal, Resolved, Scan, resolve};
use syncline_core::container::{HEADER_LEN, Header};
use syncline_core::geometry::Geometry;
use syncline_core::huffman::IndexKind;

use super::{check_array, check_output, compress_bound};
use crate::container::progress::Progress;
use crate::container::table::StreamEnd;
use crate::device::{Arena, Device};
use crate::error::{CudaError, Result};
use crate::geometry::Slab;
use crate::quantize::BoundScan;
use batches::{BATCH_BYTES, Batches};
pub use options::{ChunkRecords, CompressOptions, Compressed, Sizing};
use stages::Stages;
use worst_case::WorstCase;

/// Compresses arrays with a bound on one stream of a device, and keeps its workspace between calls.
#[derive(Debug)]
pub struct Compressor<'d> {
    /// Dropped first: it waits for the stream.
    worst_case: Option<WorstCase>,
    device: &'d Device,
    stream: Arc<CudaStream>,
    arena: Arena,
    batch_bytes: u64,
    stages: Stages<'d>,
    scan: Option<(ElementType, BoundScan)>,
    progress: Option<Progress>,
}

/// What is known of an array from a scan.
struct Scanned {
    resolved: Resolved,
    /// Whether there may be -0.0 among the elements.
    minus_zeros: bool,
}

impl<'d> Compressor<'d> {
    /// Returns a compressor that works on `stream`. With [`Sizing::WorstCase`], it waits for the stream.
    ///
    /// # Errors
    /// Errors of [`Device::kernel`]; [`CudaError::Driver`]. With [`Sizing::WorstCase`] also [`CudaError::OutOfMemory`],
    /// [`CudaError::Core`] for a bound that the element type cannot have, [`CudaError::Unsupported`] for a PSNR, and if
    /// fill values are to be detected, and [`CudaError::Lossless`] if the bound asks for a lossless stream, or there
    /// are no elements.
    pub fn new(device: &'d Device, stream: &Arc<CudaStream>, sizing: Sizing<'_>) -> Result<Self> {
        Self::with_batch_bytes(device, stream, sizing, BATCH_BYTES)
    }

    /// Returns a compressor with batches of about `batch_bytes` bytes of elements. Smaller batches take less workspace
    /// and more launches.
    ///
    /// # Errors
    /// The errors of [`Self::new`].
    pub fn with_batch_bytes(
        device: &'d Device,
        stream: &Arc<CudaStream>,
        sizing: Sizing<'_>,
        batch_bytes: u64,
    ) -> Result<Self> {
        let mut made = Self {
            worst_case: None,
            device,
            stream: stream.clone(),
            arena: Arena::new(stream.clone()),
            batch_bytes: batch_bytes.max(1),
            stages: Stages::new(device, stream)?,
            scan: None,
            progress: None,
        };
        if let Sizing::WorstCase { element_type, shape, options } = sizing {
            made.prepare_worst_case(element_type, *shape, options)?;
        }
        Ok(made)
    }

    /// Returns the bytes of device memory that are held between calls, determined by the largest call so far.
    pub fn workspace_bytes(&self) -> u64 {
        let lengths = self.progress.as_ref().map_or(0, |progress| 4 * progress.chunks());
        self.arena.capacity() as u64 + lengths
    }

    /// Frees the device memory that grows with the arrays, which the next call allocates again. With
    /// [`Sizing::WorstCase`], this does nothing.
    pub fn free_workspace(&mut self) {
        if self.worst_case.is_none() {
            self.arena.clear();
        }
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
        let Scanned { mut resolved, minus_zeros } = self.scan(input, element_type, shape, options)?;
        let available = output.len() as u64;
        if available < HEADER_LEN as u64 {
            return Err(CudaError::NoRoom { needed: compress_bound(element_type, shape), available });
        }
        let geometry = Geometry::with_tiles(shape, options.tile_size);
        let slab = Slab { bytes: input.slice(..), first_element: 0 };
        let goal = match options.bound {
            Bound::Psnr(target) => Some(PsnrGoal::new(target, &resolved)),
            _ => None,
        };
        let mut attempt = 0;
        loop {
            if resolved.pipeline == Pipeline::Lossless {
                return Err(CudaError::Lossless("no quantization step serves this bound".into()));
            }
            let header = Header::new(element_type, shape, IndexKind::Symbol, &resolved);
            let header = header.with_tile_size(options.tile_size);
            self.stages.prepare(&header, &geometry, options.interpolates && !options.rewritable)?;
            self.stages.upload(&header, minus_zeros)?;
            let chunks = 0..geometry.chunks();
            let errors = self.records(&header, &geometry, chunks.clone(), &slab, HEADER_LEN as u64, output)?;
            let Some(progress) = &mut self.progress else { return Err(CudaError::invalid("no stream was begun")) };
            let end = StreamEnd::Known(&header.to_bytes());
            self.stages.records.finish(&self.stream, progress, end, chunks.end, output)?;
            let outcome = progress.outcome()?;
            if !outcome.fits {
                return Err(CudaError::NoRoom { needed: outcome.bytes, available });
            }
            match goal.as_ref().and_then(|goal| goal.next(element_type, &resolved, &errors, attempt)) {
                None => return Ok(Compressed { bytes: outcome.bytes, header, resolved }),
                Some(tightened) => (resolved, attempt) = (tightened, attempt + 1),
            }
        }
    }

    /// Writes the records of some chunks to the start of `output`, one after another, without header and chunk table.
    /// `slab` contains the chunks' elements. Tiles are interpolated only if `interpolates`. Returns when the records
    /// are complete.
    ///
    /// # Errors
    /// The errors of [`Self::compress`].
    pub fn compress_chunks(
        &mut self,
        header: &Header,
        geometry: &Geometry,
        (chunks, interpolates): (Range<u64>, bool),
        slab: &Slab<'_>,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<ChunkRecords> {
        self.stages.prepare(header, geometry, interpolates)?;
        // These elements were not scanned, so -0.0 may occur.
        self.stages.upload(header, true)?;
        let errors = self.records(header, geometry, chunks.clone(), slab, 0, output)?;
        let Some(progress) = &mut self.progress else { return Err(CudaError::invalid("no stream was begun")) };
        let (outcome, lengths) = progress.records(chunks.end - chunks.start)?;
        if !outcome.fits {
            return Err(CudaError::NoRoom { needed: outcome.bytes, available: output.len() as u64 });
        }
        Ok(ChunkRecords { lengths, errors })
    }

    fn scan(
        &mut self,
        input: &CudaView<'_, u8>,
        element_type: ElementType,
        shape: Shape,
        options: &CompressOptions,
    ) -> Result<Scanned> {
        check_array(input, element_type, shape)?;
        options.bound.validate(element_type)?;
        if options.bound == Bound::Lossless {
            return Err(CudaError::Lossless("the bound asked for is lossless".into()));
        }
        let scan = match self.scan.take().filter(|(element, _)| *element == element_type) {
            Some((_, scan)) => scan,
            None => BoundScan::new(self.device, element_type)?,
        };
        let (_, scan) = self.scan.insert((element_type, scan));
        let found: Scan = scan.scan(&self.stream, input, options.bound, options.fill)?;
        Ok(Scanned { minus_zeros: found.minus_zeros() > 0, resolved: resolve(&found, options.rewritable)? })
    }

    /// Queues the records of some chunks from byte `start` of the output on, with the constants that are uploaded.
    /// Returns their errors, for which it waits if the bound is a PSNR.
    fn records(
        &mut self,
        header: &Header,
        geometry: &Geometry,
        chunks: Range<u64>,
        slab: &Slab<'_>,
        start: u64,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<ErrorSummary> {
        check_output(&self.stream, output)?;
        let element_bytes = header.element_type.size() as u32;
        let batches = Batches::new(geometry, chunks, element_bytes, self.batch_bytes)?;
        if self.progress.as_ref().is_none_or(|progress| progress.chunks() < batches.chunks()) {
            self.progress = None;
        }
        let progress = match &mut self.progress {
            Some(progress) => progress,
            none => none.insert(Progress::new(&self.stream, batches.chunks())?),
        };
        progress.start(start)?;
        let mut total = ErrorSummary::default();
        for (first, batch) in batches.numbered() {
            let errors = self.stages.batch(&mut self.arena, (batch, first), slab, None, progress, output)?;
            total.squared_error += errors.squared_error;
            total.counted += errors.counted;
        }
        Ok(total)
    }
}
