//! Compression that never waits for the device.

use cudarc::driver::{CudaView, CudaViewMut, DevicePtrMut};
use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, Pipeline, Resolved};
use syncline_core::container::{HEADER_LEN, Header};
use syncline_core::geometry::Geometry;
use syncline_core::huffman::IndexKind;
use syncline_core::quantize::mask::MAX_PATTERNS;

use super::batches::Batches;
use super::{CompressOptions, Compressor};
use crate::container::progress::{Outcome, Progress};
use crate::container::structs::QueuedEnd;
use crate::container::table::StreamEnd;
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::{Slab, element_range};
use crate::pipeline::{check_array, check_output, compress_bound};
use crate::quantize::{QueuedBound, STATUS_LOSSLESS};

/// What arrays of one type and shape need to be compressed without the host.
#[derive(Debug)]
pub(super) struct WorstCase {
    element_type: ElementType,
    shape: Shape,
    batches: Batches,
    /// Waits for the stream when it is dropped, which is before the page-locked memory of the progress is freed.
    bound: QueuedBound,
    progress: Progress,
    /// Size in bytes of the output of the last call, 0 before the first.
    room: u64,
}

/// The error of a compressor that was made for other calls.
fn not_prepared() -> CudaError {
    CudaError::invalid("the compressor was not made for the worst case of arrays of one type and shape")
}

impl Compressor<'_> {
    /// Allocates everything for arrays of one type and shape, and loads all kernels.
    pub(super) fn prepare_worst_case(
        &mut self,
        element_type: ElementType,
        shape: Shape,
        options: &CompressOptions,
    ) -> Result<()> {
        let CompressOptions { bound, fill, rewritable, interpolates, tile_size } = *options;
        let pipeline = match bound {
            Bound::PwRel(_) => Pipeline::LogQuantized,
            _ => Pipeline::Quantized,
        };
        let unresolved = Resolved { pipeline, bound, ..Resolved::lossless() };
        let header = Header::new(element_type, shape, IndexKind::Symbol, &unresolved).with_tile_size(tile_size);
        let geometry = Geometry::with_tiles(shape, tile_size);
        let queued = QueuedBound::new(self.device, &self.stream, header.clone(), fill, rewritable)?;
        // What is to be masked is not known here, so that there is memory for the most masks.
        let widest = Header { patterns: (1..=MAX_PATTERNS as u64).collect(), ..header };
        self.stages.prepare(&widest, &geometry, interpolates && !rewritable)?;
        let element_bytes = element_type.size() as u32;
        let batches = Batches::new(&geometry, 0..geometry.chunks(), element_bytes, self.batch_bytes)?;
        let progress = Progress::new(&self.stream, batches.chunks())?;
        let mut made = WorstCase { element_type, shape, batches, bound: queued, progress, room: 0 };
        self.run_once(&mut made, &geometry)?;
        self.worst_case = Some(made);
        Ok(())
    }

    /// Compresses a batch of zeros to nowhere: this loads all kernels and allocates all memory.
    fn run_once(&mut self, made: &mut WorstCase, geometry: &Geometry) -> Result<()> {
        let WorstCase { element_type, batches, bound, progress, .. } = made;
        let Some((first, batch)) = batches.numbered().next() else { return Ok(()) };
        let range = element_range(geometry, batch);
        let bytes = (range.end - range.start) * element_type.size() as u64;
        let zeros = self.stream.alloc_zeros::<u8>(bytes as usize).allocating(bytes)?;
        let slab = Slab { bytes: zeros.as_view(), first_element: range.start };
        let mut header = self.stream.alloc_zeros::<u8>(HEADER_LEN).doing("allocating a header")?;
        let output = &mut header.as_view_mut();
        progress.restart(HEADER_LEN as u64)?;
        bound.queue(&slab.bytes)?;
        self.stages.batch(&mut self.arena, (batch, first), &slab, Some(&bound.step()), progress, output)?;
        let end = StreamEnd::Queued(QueuedEnd { header: bound.header(), status: bound.status(), size: 0 });
        self.stages.records.finish(&self.stream, progress, end, batch.chunks().into(), output)?;
        // The next frame has a single block of memory of all that was needed.
        self.arena.frame().map(|_| ())?;
        progress.restart(HEADER_LEN as u64)?;
        self.stream.synchronize().doing("waiting for memory")
    }

    /// Queues the compression of an array, given as little-endian bytes, into `output`. [`compress_bound`] bytes
    /// are always enough room. The first word of `size`, if given, receives the stream's size in bytes; 0 if there is
    /// none, for which [`Self::check`] has the reason.
    ///
    /// This only queues work, so that it can be captured in a CUDA graph, if the context does not track slices across
    /// streams (`CudaContext::disable_event_tracking`).
    ///
    /// # Errors
    /// [`CudaError::NoRoom`] if the output has no room for a header; [`CudaError::InvalidArgument`] if lengths or
    /// alignment do not fit, or without [`Sizing::WorstCase`](super::Sizing::WorstCase); [`CudaError::Driver`].
    pub fn queue(
        &mut self,
        input: &CudaView<'_, u8>,
        output: &mut CudaViewMut<'_, u8>,
        size: Option<&mut CudaViewMut<'_, u64>>,
    ) -> Result<()> {
        let Self { worst_case, stages, arena, stream, .. } = self;
        let WorstCase { element_type, shape, batches, bound, progress, room } =
            worst_case.as_mut().ok_or_else(not_prepared)?;
        check_array(input, *element_type, *shape)?;
        check_output(stream, output)?;
        if size.as_ref().is_some_and(|size| size.is_empty()) {
            return Err(CudaError::invalid("there is no word for the size"));
        }
        let available = output.len() as u64;
        if available < HEADER_LEN as u64 {
            return Err(CudaError::NoRoom { needed: compress_bound(*element_type, *shape), available });
        }
        *room = available;
        progress.restart(HEADER_LEN as u64)?;
        bound.queue(input)?;
        let slab = Slab { bytes: input.slice(..), first_element: 0 };
        for (first, batch) in batches.numbered() {
            stages.batch(arena, (batch, first), &slab, Some(&bound.step()), progress, output)?;
        }
        let end = StreamEnd::Queued(QueuedEnd {
            header: bound.header(),
            status: bound.status(),
            size: size.map_or(0, |size| size.device_ptr_mut(stream).0),
        });
        stages.records.finish(stream, progress, end, batches.chunks(), output)
    }

    /// Waits for the stream, and returns the size in bytes of what the last call of [`Self::queue`], or the last launch
    /// of a graph that captured one, made.
    ///
    /// # Errors
    /// [`CudaError::NoRoom`]; [`CudaError::Lossless`] if the bound resolves to lossless compression;
    /// [`CudaError::InvalidArgument`] if nothing was compressed; [`CudaError::Driver`].
    pub fn check(&self) -> Result<u64> {
        let WorstCase { progress, room, .. } = self.worst_case.as_ref().ok_or_else(not_prepared)?;
        self.stream.synchronize().doing("waiting for compression")?;
        let outcome = progress.queued_outcome()?.filter(|_| *room > 0);
        let (bytes, status) = outcome.ok_or_else(|| CudaError::invalid("nothing was compressed"))?;
        if status & STATUS_LOSSLESS != 0 {
            return Err(CudaError::Lossless("no quantization step serves this bound".into()));
        }
        match Progress::outcome_of(bytes, status.into()) {
            Outcome { fits: true, .. } => Ok(bytes),
            Outcome { fits: false, .. } => Err(CudaError::NoRoom { needed: bytes, available: *room }),
        }
    }
}
