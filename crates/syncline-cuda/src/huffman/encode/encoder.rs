//! Launchers of the kernels that encode segments, lay out streams, and write them.

#![allow(unsafe_code, reason = "kernel launches, and a kernel parameter passed by value")]

use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut};

use super::batch::{Batch, Encoded};
use super::codebooks::{BatchCodebooks, check_input};
use super::format::Format;
use super::laid_out::{LaidOutStreams, Overlap, StreamTarget};
use super::scratch::Scratch;
use super::segments::{
    self, LAYOUT_THREADS, SEGMENTS_ENCODE, SegmentKernel, SegmentKernels, StreamKernels, WRITE_THREADS,
};
use super::structs::{CodebookArrays, StreamPlan};
use crate::device::{Device, Frame, Grid};
use crate::device_kernels::launch;
use crate::error::{CudaError, DriverContext, Result};
use crate::huffman::Symbol;

/// Minimum number of segments per multiprocessor for which long and medium segments are used: a few times what a
/// multiprocessor encodes at once.
const LONG_SEGMENTS: u64 = 64;
const MEDIUM_SEGMENTS: u64 = 24;

impl CodebookArrays {
    fn new(codebooks: &BatchCodebooks, stream: &Arc<CudaStream>) -> Self {
        Self {
            summaries: codebooks.summaries.device_ptr(stream).0,
            used: codebooks.used.device_ptr(stream).0,
            bytes: codebooks.bytes.device_ptr(stream).0,
        }
    }
}

/// The symbols of a batch and the codebooks to encode them with.
#[derive(Debug, Clone, Copy)]
pub struct EncodeInput<'a, S> {
    /// The symbols of all streams.
    pub symbols: &'a CudaView<'a, S>,
    /// The class of each group of the input, if the format has classes.
    pub classes: Option<&'a CudaView<'a, u8>>,
    /// The streams.
    pub batch: &'a Batch,
    /// The codebooks of the streams.
    pub codebooks: &'a BatchCodebooks,
}

/// The compiled kernels for one length of segments.
#[derive(Debug, Clone)]
struct Kernels {
    description: SegmentKernel,
    segments: SegmentKernels,
    streams: StreamKernels,
}

impl Kernels {
    fn new(device: &Device, format: &Format, description: SegmentKernel) -> Result<Self> {
        let segments = device.kernel(&description.specialization(format), description.name)?;
        segments.allow_shared_memory(description.shared_memory)?;
        let streams = StreamKernels::load(device, description.segment, format)?;
        Ok(Self { description, segments: SegmentKernels { segments_encode: segments }, streams })
    }
}

/// Encodes batches of streams.
#[derive(Debug)]
pub struct Encoder<S> {
    format: Format,
    /// The kernels, with the minimum number of symbols of the input for each, in descending order.
    kernels: [(u64, Kernels); 3],
    symbol: PhantomData<S>,
}

impl<S: Symbol> Encoder<S> {
    /// Compiles the kernels for batches of this format.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the format is inconsistent; errors of [`Device::kernel`].
    pub fn new(device: &Device, format: &Format) -> Result<Self> {
        format.check()?;
        Self::with_kernels(device, format, segments::kernels(format))
    }

    /// Compiles the kernels with segments of `symbols` symbols for inputs of every size.
    ///
    /// # Errors
    /// The errors of [`Self::new`]; [`CudaError::InvalidArgument`] also unless `symbols` is a power of two from 1,024
    /// to 65,536.
    pub fn with_segment_symbols(device: &Device, format: &Format, symbols: u32) -> Result<Self> {
        format.check()?;
        if !symbols.is_power_of_two() || !(1024..=1 << 16).contains(&symbols) {
            return Err(CudaError::invalid("a segment must have a power of two from 1,024 to 65,536 symbols"));
        }
        Self::with_kernels(device, format, [SegmentKernel::new(format, symbols); 3])
    }

    /// Compiles the given kernels for large, medium and small inputs.
    #[doc(hidden)]
    pub fn with_kernels(device: &Device, format: &Format, kernels: [SegmentKernel; 3]) -> Result<Self> {
        format.check_symbol::<S>()?;
        let [large, medium, small] = kernels;
        let least_symbols = |kernel: SegmentKernel, segments: u64| {
            segments * u64::from(kernel.segment) * u64::from(device.info().multiprocessors)
        };
        let large_kernels = Kernels::new(device, format, large)?;
        let other = |kernel: SegmentKernel| match kernel == large {
            true => Ok(large_kernels.clone()),
            false => Kernels::new(device, format, kernel),
        };
        let (medium_kernels, small_kernels) = (other(medium)?, other(small)?);
        let kernels = [
            (least_symbols(large, LONG_SEGMENTS), large_kernels),
            (least_symbols(medium, MEDIUM_SEGMENTS), medium_kernels),
            (0, small_kernels),
        ];
        Ok(Self { format: *format, kernels, symbol: PhantomData })
    }

    /// Returns the kernels for an input of `symbols` symbols.
    fn kernels_for(&self, symbols: u64) -> &Kernels {
        let [(from_large, large), (from_medium, medium), (_, small)] = &self.kernels;
        match symbols {
            _ if symbols >= *from_large => large,
            _ if symbols >= *from_medium => medium,
            _ => small,
        }
    }

    /// Encodes every stream of a batch, all on the frame's stream. An error of a single stream (a symbol without a
    /// codeword, or too little space) is reported in its [`StreamPlan`](super::StreamPlan).
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if lengths or formats do not match; [`CudaError::OutOfMemory`];
    /// [`CudaError::Driver`].
    pub fn launch(&self, frame: &mut Frame<'_>, input: &EncodeInput<'_, S>, encoded: &mut Encoded) -> Result<()> {
        let stream = frame.stream().clone();
        let mut laid_out = self.lay_out(frame, input, encoded)?;
        self.finish(&stream, &mut laid_out, input.codebooks, encoded)
    }

    /// Writes laid-out streams to the bytes of the result, one after another.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the arguments belong to different batches; [`CudaError::Driver`].
    #[doc(hidden)]
    pub fn finish(
        &self,
        stream: &Arc<CudaStream>,
        laid_out: &mut LaidOutStreams<'_>,
        codebooks: &BatchCodebooks,
        encoded: &mut Encoded,
    ) -> Result<()> {
        let Encoded { bytes, plans, offsets, .. } = encoded;
        let target = StreamTarget { output: &mut bytes.as_view_mut(), overlap: None };
        self.write_streams(stream, laid_out, codebooks, (plans, offsets), target)
    }

    /// Encodes the segments and plans the layout of every stream. [`Encoded::offsets`] places the streams one after
    /// another; later work on the same CUDA stream may change them before [`Self::write`].
    ///
    /// # Errors
    /// The errors of [`Self::launch`].
    #[doc(hidden)]
    pub fn lay_out<'a>(
        &self,
        frame: &mut Frame<'a>,
        input: &EncodeInput<'_, S>,
        encoded: &mut Encoded,
    ) -> Result<LaidOutStreams<'a>> {
        self.lay_out_at(frame, input, None, encoded)
    }

    /// Returns whether segments can replace their symbols, because no codeword is longer than a symbol.
    pub(crate) fn can_encode_in_place(&self) -> bool {
        self.format.longest() == 8 * self.format.symbol_bytes
            && self.kernels.iter().all(|(_, kernels)| kernels.description.name == SEGMENTS_ENCODE)
    }

    /// Lays out streams as [`Self::lay_out`] does, and replaces the symbols by the encoded segments. Symbols and batch
    /// must stay allocated until the streams are written. The offsets are not computed; a later kernel sets them.
    ///
    /// # Errors
    /// The errors of [`Self::lay_out`]; [`CudaError::InvalidArgument`] unless [`Self::can_encode_in_place`].
    pub(crate) fn lay_out_in_place<'a>(
        &self,
        frame: &mut Frame<'a>,
        symbols: &mut CudaViewMut<'_, S>,
        classes: Option<&CudaView<'_, u8>>,
        (batch, codebooks): (&Batch, &BatchCodebooks),
        encoded: &mut Encoded,
    ) -> Result<LaidOutStreams<'a>> {
        if !self.can_encode_in_place() {
            return Err(CudaError::invalid("streams of this format cannot replace their symbols"));
        }
        let (address, _) = symbols.device_ptr_mut(frame.stream());
        let input = EncodeInput { symbols: &symbols.as_view(), classes, batch, codebooks };
        self.lay_out_at(frame, &input, Some(address), encoded)
    }

    fn lay_out_at<'a>(
        &self,
        frame: &mut Frame<'a>,
        input: &EncodeInput<'_, S>,
        in_place: Option<CUdeviceptr>,
        encoded: &mut Encoded,
    ) -> Result<LaidOutStreams<'a>> {
        let stream = frame.stream().clone();
        let &EncodeInput { symbols, classes, batch, codebooks } = input;
        check_input(&self.format, &stream, symbols, classes, batch, codebooks)?;
        check_result(batch, encoded)?;
        let kernels = self.kernels_for(batch.symbols);
        let kernel = kernels.description;
        let segments = (batch.most_groups * self.format.group()).div_ceil(kernel.segment).max(1);
        let mut scratch = Scratch::new(frame, &self.format, batch, segments, &kernel, in_place)?;
        let slots = scratch.slots.address(&stream);
        let slots_in_stream = match in_place {
            Some(_) => 0,
            None => u64::from(segments) * u64::from(kernel.segment * self.format.longest() / 32),
        };
        let addresses = scratch.addresses(&stream);
        let codebook_arrays = CodebookArrays::new(codebooks, &stream);

        let codewords = codebooks.codebooks.codewords();
        let Scratch { sums, group_bits, .. } = &mut scratch;
        let Encoded { plans, offsets, blocks_done, done, needs_clearing, .. } = encoded;
        // If almost all segments are resident at once, the layout kernel starts early and waits for the segments of
        // each stream. With more segments that would gain little.
        let counts_segments = in_place.is_some() && batch.symbols < self.kernels[0].0;
        if counts_segments && std::mem::replace(needs_clearing, true) {
            stream.memset_zeros(done).doing("clearing the counters of finished segments")?;
        }
        let segments_done = if counts_segments { done.device_ptr_mut(&stream).0 } else { 0 };
        let blocks = batch.streams * segments.div_ceil(kernel.segments_in_block);
        let grid = Grid::new(blocks, kernel.threads).shared_memory(kernel.shared_memory).early(true);
        let (symbols, _reads) = symbols.device_ptr(&stream);
        let classes = classes.map(|classes| -> &dyn DevicePtr<u8> { classes });
        // SAFETY: `check_input` has checked that streams lie within the input and the classes. `Scratch::new` has
        // allocated the arrays for all segments of all streams. A codeword has at most LONGEST bits, and symbols are
        // reduced modulo ALPHABET, the size of each codebook. The kernel waits before it reads. In place, a segment is
        // written after the symbols that have been read, because no codeword is longer than a symbol.
        unsafe {
            launch!(kernels.segments.segments_encode on &stream, grid; symbols, &batch.spans, &codewords,
                &codebooks.used, classes, segments, slots, sums, group_bits, segments_done)
        }?;

        let streams_done =
            if counts_segments { segments_done + u64::from(batch.streams) * size_of::<u32>() as u64 } else { 0 };
        let blocks_done: Option<&mut dyn DevicePtrMut<u32>> = if in_place.is_none() { Some(blocks_done) } else { None };
        let grid = Grid::new(batch.streams, LAYOUT_THREADS).early(true);
        // SAFETY: block i accesses the i-th stream's part of each array; there is one plan for each stream and one
        // offset more, as `check_result` has checked. The counters are 0, because each launch, or the kernel that waits
        // for them, resets them. The kernel waits for the segments before it reads their results.
        unsafe {
            launch!(kernels.streams.streams_lay_out on &stream, grid; &batch.spans, codebook_arrays, addresses,
                segments, &codebooks.status, plans, offsets, blocks_done, segments_done, streams_done)
        }?;

        let spans = batch.spans.device_ptr(&stream).0;
        Ok(LaidOutStreams {
            scratch,
            slots_in_stream,
            spans,
            segments,
            kernel,
            streams: batch.streams,
            streams_done,
            group: self.format.group(),
        })
    }

    /// Writes each stream to its offset in the output. Streams with [`NO_OFFSET`](super::NO_OFFSET), and streams that
    /// do not fit, are not written, and the status of their plan says so.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the arguments belong to different batches; [`CudaError::Driver`].
    pub(crate) fn write(
        &self,
        stream: &Arc<CudaStream>,
        laid_out: &mut LaidOutStreams<'_>,
        codebooks: &BatchCodebooks,
        encoded: &mut Encoded,
        target: StreamTarget<'_, '_>,
    ) -> Result<()> {
        let Encoded { offsets, plans, .. } = encoded;
        self.write_streams(stream, laid_out, codebooks, (plans, offsets), target)
    }

    fn write_streams(
        &self,
        stream: &Arc<CudaStream>,
        laid_out: &mut LaidOutStreams<'_>,
        codebooks: &BatchCodebooks,
        (plans, offsets): (&mut CudaSlice<StreamPlan>, &CudaSlice<u64>),
        target: StreamTarget<'_, '_>,
    ) -> Result<()> {
        let mut kernels = self.kernels.iter().map(|(_, kernels)| kernels);
        let kernels = kernels.find(|kernels| kernels.description == laid_out.kernel).filter(|_| {
            codebooks.streams == laid_out.streams
                && codebooks.format == self.format
                && plans.len() == laid_out.streams as usize
                && offsets.len() == laid_out.streams as usize + 1
        });
        let kernels = kernels.ok_or_else(|| CudaError::invalid("the streams were laid out for another batch"))?;
        let addresses = laid_out.scratch.addresses(stream);
        let StreamTarget { output, overlap } = target;
        let output_bytes = output.len() as u64;
        let Overlap { laid_out: signal, unwritten, most_groups } =
            overlap.unwrap_or(Overlap { laid_out: (0, 0), unwritten: 0, most_groups: u32::MAX });
        let segments = most_groups.div_ceil(laid_out.kernel.segment / self.format.group()).min(laid_out.segments);
        // One additional block for the header, the codebooks and the padding.
        let blocks_in_stream = segments.div_ceil(WRITE_THREADS / 32) + 1;
        let codebook_arrays = CodebookArrays::new(codebooks, stream);
        let slots = laid_out.scratch.slots.address(stream);
        let grid = Grid::new(laid_out.streams * blocks_in_stream, WRITE_THREADS).early(true);
        let LaidOutStreams { slots_in_stream, spans, segments, .. } = *laid_out;
        // SAFETY: a stream is written only if it lies within `output_bytes`. The kernel waits at its start, or for the
        // signal that the caller guarantees.
        unsafe {
            launch!(kernels.streams.streams_write on stream, grid; plans, codebook_arrays, addresses, slots,
                slots_in_stream, spans, segments, offsets, output, output_bytes, signal.0, signal.1, unwritten,
                blocks_in_stream)
        }
    }
}

/// Checks the sizes that the kernels that write plans rely on.
fn check_result(batch: &Batch, encoded: &Encoded) -> Result<()> {
    let streams = batch.streams as usize;
    let is_match = encoded.plans.len() == streams && encoded.offsets.len() == streams + 1;
    if is_match { Ok(()) } else { Err(CudaError::invalid("the result was allocated for another batch")) }
}
