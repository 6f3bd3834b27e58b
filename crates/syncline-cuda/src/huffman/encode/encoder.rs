//! Launchers of the kernels that encode segments, lay out streams, and write them.

#![allow(unsafe_code, reason = "kernel launches, and a kernel parameter passed by value")]

use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut};

use super::batch::{Batch, Encoded};
use super::codebooks::{BatchCodebooks, check_input};
use super::format::Format;
use super::laid_out::LaidOutStreams;
use super::scratch::Scratch;
use super::segments::{self, LAYOUT_THREADS, SegmentKernel, SegmentKernels, StreamKernels, WRITE_THREADS};
use super::structs::{CodebookArrays, StreamPlan};
use crate::device::{Device, Frame, Grid};
use crate::device_kernels::launch;
use crate::error::{CudaError, Result};
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
        self.write_streams(stream, laid_out, codebooks, (plans, offsets), &mut bytes.as_view_mut())
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
        let stream = frame.stream().clone();
        let &EncodeInput { symbols, classes, batch, codebooks } = input;
        check_input(&self.format, &stream, symbols, classes, batch, codebooks)?;
        check_result(batch, encoded)?;
        let kernels = self.kernels_for(batch.symbols);
        let kernel = kernels.description;
        let segments = (batch.most_groups * self.format.group()).div_ceil(kernel.segment).max(1);
        let mut scratch = Scratch::new(frame, &self.format, batch, segments, &kernel)?;
        let slots = scratch.slots.device_ptr_mut(&stream).0;
        let slots_in_stream = u64::from(segments) * u64::from(kernel.segment * self.format.longest() / 32);
        let addresses = scratch.addresses(&stream);
        let codebook_arrays = CodebookArrays::new(codebooks, &stream);

        let codewords = codebooks.codebooks.codewords();
        let Scratch { sums, group_bits, .. } = &mut scratch;
        let Encoded { plans, offsets, blocks_done, .. } = encoded;
        let blocks = batch.streams * segments.div_ceil(kernel.segments_in_block);
        let grid = Grid::new(blocks, kernel.threads).shared_memory(kernel.shared_memory).early(true);
        let (symbols, _reads) = symbols.device_ptr(&stream);
        let classes = classes.map(|classes| -> &dyn DevicePtr<u8> { classes });
        // SAFETY: `check_input` has checked that streams lie within the input and the classes. `Scratch::new` has
        // allocated the arrays for all segments of all streams. A codeword has at most LONGEST bits, and symbols are
        // reduced modulo ALPHABET, the size of each codebook. The kernel waits before it reads.
        unsafe {
            launch!(kernels.segments.segments_encode on &stream, grid; symbols, &batch.inputs, &codewords,
                &codebooks.used, classes, segments, slots, sums, group_bits)
        }?;

        let grid = Grid::new(batch.streams, LAYOUT_THREADS).early(true);
        // SAFETY: block i accesses the i-th stream's part of each array; there is one plan for each stream and one
        // offset more, as `check_result` has checked. The counter is 0, because each launch resets it. The kernel waits
        // for the segments before it reads their results.
        unsafe {
            launch!(kernels.streams.streams_lay_out on &stream, grid; &batch.inputs, codebook_arrays, addresses,
                segments, &codebooks.status, plans, offsets, blocks_done)
        }?;

        let inputs = batch.inputs.device_ptr(&stream).0;
        Ok(LaidOutStreams { scratch, slots_in_stream, inputs, segments, kernel, streams: batch.streams })
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
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        let Encoded { offsets, plans, .. } = encoded;
        self.write_streams(stream, laid_out, codebooks, (plans, offsets), output)
    }

    fn write_streams(
        &self,
        stream: &Arc<CudaStream>,
        laid_out: &mut LaidOutStreams<'_>,
        codebooks: &BatchCodebooks,
        (plans, offsets): (&mut CudaSlice<StreamPlan>, &CudaSlice<u64>),
        output: &mut CudaViewMut<'_, u8>,
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
        let output_bytes = output.len() as u64;
        // One additional block for the header, the codebooks and the padding.
        let blocks_in_stream = laid_out.segments.div_ceil(WRITE_THREADS / 32) + 1;
        let codebook_arrays = CodebookArrays::new(codebooks, stream);
        let slots = laid_out.scratch.slots.device_ptr_mut(stream).0;
        let grid = Grid::new(laid_out.streams * blocks_in_stream, WRITE_THREADS).early(true);
        let LaidOutStreams { slots_in_stream, inputs, segments, .. } = *laid_out;
        // SAFETY: a stream is written only if it lies within `output_bytes`. The kernel waits at its start.
        unsafe {
            launch!(kernels.streams.streams_write on stream, grid; plans, codebook_arrays, addresses, slots,
                slots_in_stream, inputs, segments, offsets, output, output_bytes, blocks_in_stream)
        }
    }
}

/// Checks the sizes that the kernels that write plans rely on.
fn check_result(batch: &Batch, encoded: &Encoded) -> Result<()> {
    let streams = batch.streams as usize;
    let is_match = encoded.plans.len() == streams && encoded.offsets.len() == streams + 1;
    if is_match { Ok(()) } else { Err(CudaError::invalid("the result was allocated for another batch")) }
}
