//! Launchers of the encoders proper, and of the kernels that lay their segments out as streams.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceRepr};
use syncline_core::huffman::IndexKind;

use super::batch::{Batch, Encoded, Plan};
use super::books::{Books, BooksBuilder};
use super::format::{Format, Method};
use super::layout::{Beside, Layout};
use super::scratch::Scratch;
use super::shape::{LAYOUT_THREADS, MERGED_KERNEL, Shape, WRITE_THREADS, merged, shapes};
use super::small::Small;
use crate::device::{Device, Frame, Kernel, ProgrammaticDependentLaunch};
use crate::error::{CudaError, DriverContext, Result};
use crate::huffman::histogram::Symbol;

/// Large inputs have so many large segments a multiprocessor, a few times what it encodes at once; medium ones so many
/// medium segments.
const SEGMENTS_IN_LARGE: u64 = 64;
const SEGMENTS_IN_MEDIUM: u64 = 24;
/// So few streams have their places found by each warp that writes one: a kernel's chain of loads is then shorter.
const FEW_STREAMS: u32 = 64;
/// `Books` in huffman/encode/parts.cuh.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct BooksPointers([CUdeviceptr; 3]);

// SAFETY: three device addresses, as `Books` has.
unsafe impl DeviceRepr for BooksPointers {}

/// How streams are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writing {
    /// Each to its place.
    Placed,
    /// One after another, which gives the places.
    Placing,
    /// Each to its place, while the kernel before may still write elsewhere.
    Beside(Beside),
}

/// The kernels for segments of one length.
#[derive(Debug, Clone)]
struct Kernels {
    shape: Shape,
    segments: Kernel,
    layout: Kernel,
    gaps: Option<Kernel>,
    write: Kernel,
}

impl Kernels {
    fn new(device: &Device, format: &Format, shape: Shape) -> Result<Self> {
        let stream = shape.stream_specialization(format);
        let gaps = || device.kernel(&shape.gaps_specialization(format), "encode_gaps_of_symbols");
        let gaps = shape.reads_symbols_again(format).then(gaps).transpose()?;
        let segments = device.kernel(&shape.specialization(format), shape.kernel)?;
        segments.allow_shared_memory(shape.shared_memory)?;
        Ok(Self {
            shape,
            segments,
            layout: device.kernel(&stream, "encode_layout")?,
            gaps,
            write: device.kernel(&stream, "encode_write")?,
        })
    }
}

/// Encodes batches of streams.
#[derive(Debug)]
pub struct Encoder<S> {
    format: Format,
    /// For inputs of at least so many symbols, descending.
    kernels: [(u64, Kernels); 3],
    /// For batches that blocks which run at the same time have room for.
    at_once: Option<Small>,
    symbol: PhantomData<S>,
}

impl<S: Symbol> Encoder<S> {
    /// An encoder for batches of this format.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if the format contradicts itself; errors of [`Device::kernel`].
    pub fn new(device: &Device, format: &Format, method: Method) -> Result<Self> {
        format.check()?;
        if let Method::ReduceShuffleMerge { magnitude, reduction } = method
            && !((10..=12).contains(&magnitude) && (1..=4).contains(&reduction) && magnitude - reduction <= 10)
        {
            return Err(CudaError::invalid(format!(
                "no chunks of 2^{magnitude} symbols with 2^{reduction} merged by a thread"
            )));
        }
        let at_once = if method == Method::Merged { Small::new(device, format)? } else { None };
        Ok(Self { at_once, ..Self::with_shapes(device, format, shapes(format, method))? })
    }

    /// [`Method::Merged`] for who calls [`Self::lay_out`] and [`Self::write`], and has no use for the kernels of one
    /// launch.
    pub(crate) fn for_layout(device: &Device, format: &Format) -> Result<Self> {
        format.check()?;
        Self::with_shapes(device, format, shapes(format, Method::Merged))
    }

    /// [`Method::Merged`] with blocks of so many threads, so many of them to a multiprocessor, and segments of so many
    /// symbols, to measure all three.
    ///
    /// # Errors
    /// As [`Self::new`]; also unless there are whole warps, and 1,024 or more symbols, a power of two.
    pub fn with_merged_shape(
        device: &Device,
        format: &Format,
        threads: u32,
        blocks: u32,
        segment: u32,
    ) -> Result<Self> {
        format.check()?;
        let symbols = segment.is_power_of_two() && (1024..=1 << 16).contains(&segment);
        if !threads.is_multiple_of(32) || !(32..=1024).contains(&threads) || !(1..=32).contains(&blocks) || !symbols {
            return Err(CudaError::invalid("a block has whole warps, a segment at least 1,024 symbols"));
        }
        Self::with_shapes(device, format, [merged(format, threads, blocks, segment); 3])
    }

    fn with_shapes(device: &Device, format: &Format, [large, medium, small]: [Shape; 3]) -> Result<Self> {
        if format.symbol_bytes != S::BYTES {
            return Err(CudaError::invalid(format!("the format has symbols of {} bytes", format.symbol_bytes)));
        }
        let from = |shape: Shape, segments: u64| {
            segments * u64::from(shape.segment) * u64::from(device.info().multiprocessors)
        };
        let of_large = Kernels::new(device, format, large)?;
        let other = |shape: Shape| match shape == large {
            true => Ok(of_large.clone()),
            false => Kernels::new(device, format, shape),
        };
        let (of_medium, of_small) = (other(medium)?, other(small)?);
        let kernels =
            [(from(large, SEGMENTS_IN_LARGE), of_large), (from(medium, SEGMENTS_IN_MEDIUM), of_medium), (0, of_small)];
        Ok(Self { format: *format, kernels, at_once: None, symbol: PhantomData })
    }

    /// The kernels for an input of so many symbols.
    fn kernels_for(&self, symbols: u64) -> &Kernels {
        let [(from_large, large), (from_medium, medium), (_, small)] = &self.kernels;
        match symbols {
            _ if symbols >= *from_large => large,
            _ if symbols >= *from_medium => medium,
            _ => small,
        }
    }

    /// Encodes every stream of `batch` with its codebooks, all on the frame's stream. `classes` has one for each group
    /// of the input if the format has classes.
    ///
    /// What went wrong in a stream (a symbol without a codeword, no room) is in its [`Plan`](super::Plan).
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if lengths or formats do not fit together; [`CudaError::OutOfMemory`];
    /// [`CudaError::Driver`].
    pub fn launch(
        &self,
        frame: &mut Frame<'_>,
        input: &CudaView<'_, S>,
        classes: Option<&CudaView<'_, u8>>,
        batch: &Batch,
        books: &Books,
        encoded: &mut Encoded,
    ) -> Result<()> {
        self.launch_observed(frame, input, classes, batch, books, encoded, &mut |_| Ok(()))
    }

    /// [`Self::launch`] that calls `launched` with a kernel's name after each launch: a bench records events there.
    ///
    /// # Errors
    /// As [`Self::launch`], or what `launched` returns.
    #[expect(clippy::too_many_arguments, reason = "those of `launch`, and the observer")]
    pub fn launch_observed(
        &self,
        frame: &mut Frame<'_>,
        input: &CudaView<'_, S>,
        classes: Option<&CudaView<'_, u8>>,
        batch: &Batch,
        books: &Books,
        encoded: &mut Encoded,
        launched: &mut dyn FnMut(&'static str) -> Result<()>,
    ) -> Result<()> {
        let stream = frame.stream().clone();
        if let Some((small, plan)) = self.at_once.as_ref().and_then(|small| Some((small, small.plan(batch)?))) {
            check_input(&self.format, &stream, input, classes, batch, books)?;
            check_result(batch, encoded)?;
            return launched(small.launch(frame, input, books, encoded, plan)?);
        }
        let few = batch.streams <= FEW_STREAMS;
        let mut layout = self.lay_out_to(frame, input, None, classes, batch, books, encoded, !few, launched)?;
        let Encoded { bytes, places, plans, .. } = encoded;
        let mut output = bytes.as_view_mut();
        let writing = if few { Writing::Placing } else { Writing::Placed };
        self.launch_write(&stream, &mut layout, books, plans, places, &mut output, writing, launched)
    }

    /// [`BooksBuilder::launch`] and [`Self::launch`]: counts, makes codebooks, encodes; small batches in one launch.
    ///
    /// # Errors
    /// As both.
    #[expect(clippy::too_many_arguments, reason = "those of `launch`, and the builder")]
    pub fn launch_whole(
        &self,
        builder: &BooksBuilder<S>,
        frame: &mut Frame<'_>,
        input: &CudaView<'_, S>,
        classes: Option<&CudaView<'_, u8>>,
        batch: &Batch,
        books: &mut Books,
        encoded: &mut Encoded,
    ) -> Result<()> {
        if let Some(small) = &self.at_once
            && let Some((kernel, plan)) = small.plan_whole(batch)
        {
            check_input(&self.format, frame.stream(), input, classes, batch, books)?;
            check_result(batch, encoded)?;
            return small.launch_whole(kernel, frame, input, books, encoded, plan);
        }
        builder.launch(&mut frame.nested(), input, classes, batch, books)?;
        self.launch(frame, input, classes, batch, books, encoded)
    }

    /// The first part of [`Self::launch_observed`]: encodes the segments and makes the plan of every stream. Their
    /// places are those of streams one after another; work on the same stream of the device may change
    /// [`Encoded::places`] before [`Self::write`].
    ///
    /// # Errors
    /// As [`Self::launch_observed`].
    #[expect(clippy::too_many_arguments, reason = "those of `launch`, and the observer")]
    pub fn lay_out<'a>(
        &self,
        frame: &mut Frame<'a>,
        input: &CudaView<'_, S>,
        classes: Option<&CudaView<'_, u8>>,
        batch: &Batch,
        books: &Books,
        encoded: &mut Encoded,
        launched: &mut dyn FnMut(&'static str) -> Result<()>,
    ) -> Result<Layout<'a>> {
        self.lay_out_to(frame, input, None, classes, batch, books, encoded, true, launched)
    }

    /// Whether [`Self::lay_out_in_place`] can be: no codeword is longer than a symbol, and nobody asks for the symbols
    /// again.
    pub(crate) fn can_work_in_place(&self) -> bool {
        self.format.longest() == 8 * self.format.symbol_bytes
            && self.format.index != IndexKind::Gap
            && self.kernels.iter().all(|(_, kernels)| kernels.shape.kernel == MERGED_KERNEL)
    }

    /// [`Self::lay_out`] that encodes the segments to the memory that the symbols are in, which must stay until the
    /// streams are written, and so must the batch. Their places are not found: whoever has work behind this one sets
    /// them.
    ///
    /// # Errors
    /// As [`Self::lay_out`]; [`CudaError::InvalidArgument`] unless [`Self::can_work_in_place`].
    #[expect(clippy::too_many_arguments, reason = "those of `launch`, and the observer")]
    pub(crate) fn lay_out_in_place<'a>(
        &self,
        frame: &mut Frame<'a>,
        input: &mut CudaViewMut<'_, S>,
        classes: Option<&CudaView<'_, u8>>,
        batch: &Batch,
        books: &Books,
        encoded: &mut Encoded,
        launched: &mut dyn FnMut(&'static str) -> Result<()>,
    ) -> Result<Layout<'a>> {
        if !self.can_work_in_place() {
            return Err(CudaError::invalid("these streams cannot take the place of their symbols"));
        }
        let (pointer, _) = input.device_ptr_mut(frame.stream());
        self.lay_out_to(frame, &input.as_view(), Some(pointer), classes, batch, books, encoded, false, launched)
    }

    #[expect(clippy::too_many_arguments, reason = "those of `launch`, and the observer")]
    fn lay_out_to<'a>(
        &self,
        frame: &mut Frame<'a>,
        input: &CudaView<'_, S>,
        in_place: Option<CUdeviceptr>,
        classes: Option<&CudaView<'_, u8>>,
        batch: &Batch,
        books: &Books,
        encoded: &mut Encoded,
        places_too: bool,
        launched: &mut dyn FnMut(&'static str) -> Result<()>,
    ) -> Result<Layout<'a>> {
        let stream = frame.stream().clone();
        check_input(&self.format, &stream, input, classes, batch, books)?;
        check_result(batch, encoded)?;
        let kernels = self.kernels_for(batch.symbols);
        let shape = kernels.shape;
        let segments = (batch.most_groups * self.format.group()).div_ceil(shape.segment).max(1);
        let mut scratch = Scratch::new(frame, &self.format, batch, segments, &shape, in_place)?;
        let slots = scratch.slots.pointer(&stream);
        let slots_in_stream = match in_place {
            Some(_) => 0,
            None => u64::from(segments) * u64::from(shape.segment * self.format.longest() / 32),
        };
        let pointers = scratch.pointers(&stream);
        let book_pointers = books_pointers(books, &stream);

        let codewords = books.codebooks.codewords();
        let launch = ProgrammaticDependentLaunch::new(&kernels.segments, &stream)
            .reads(input)
            .reads(&batch.spans)
            .reads(&codewords);
        let launch = launch.reads(&books.used);
        let launch = match classes {
            Some(classes) => launch.reads(classes),
            None => launch.value(0_u64),
        };
        let Scratch { sums, group_bits, notes, .. } = &mut scratch;
        let launch = launch.value(segments).value(slots).writes(sums).writes(group_bits);
        let Encoded { plans, places, blocks_done, done, counting, .. } = encoded;
        // Where the device has room for almost all segments at once, what comes behind them looks itself whether they
        // are done. With more of them it would not be sooner by much.
        let counted = in_place.is_some() && batch.symbols < self.kernels[0].0;
        if counted && std::mem::replace(counting, true) {
            stream.memset_zeros(done).doing("clearing counters")?;
        }
        let segments_done = if counted { done.device_ptr_mut(&stream).0 } else { 0 };
        let launch = match kernels.segments.name() == MERGED_KERNEL {
            true => launch.writes(notes).value(segments_done),
            false => launch,
        };
        let blocks = batch.streams * segments.div_ceil(shape.segments_in_block);
        // SAFETY: every encoder's parameters are (const u8 *, const Span *, const u32 *, const u32 *, const u8 *, u32,
        // u32 *, SegmentSums *, u16 *), and of ours two u32 *. Spans lie within the input and the classes, checked; the
        // arrays have the places of all segments of all streams (`Scratch::new`), a segment's codewords have at most
        // LONGEST bits each, and symbols are taken modulo ALPHABET, the size of each codebook. They wait before they
        // read. Segments in place of their symbols are written behind what has been read of them.
        unsafe { launch.launch(Kernel::grid(blocks, shape.threads, shape.shared_memory)) }?;
        launched(kernels.segments.name())?;

        let launch =
            ProgrammaticDependentLaunch::new(&kernels.layout, &stream).reads(&batch.spans).value(book_pointers);
        let launch = launch.value(pointers).value(segments).reads(&books.status);
        let launch = launch.writes(plans).writes(places);
        let launch = if places_too { launch.writes(blocks_done) } else { launch.value(0_u64) };
        let streams_done = if counted { segments_done + u64::from(batch.streams) * size_of::<u32>() as u64 } else { 0 };
        let launch = launch.value(segments_done).value(streams_done);
        // SAFETY: the kernel's parameters are (const Span *, Books, Scratch, u32, const u32 *, Plan *, u64 *, u32 *,
        // u32 *, u32 *); a block has its stream's part of each array; there are one plan a stream and one place more,
        // checked above; the counters, if they are given, are 0, as each launch leaves them or what it is for does. It
        // waits for what encodes, and reads nothing before but what was there before that one.
        unsafe { launch.launch(Kernel::grid(batch.streams, LAYOUT_THREADS, 0)) }?;
        launched(kernels.layout.name())?;

        if let Some(gaps) = &kernels.gaps {
            let launch =
                ProgrammaticDependentLaunch::new(gaps, &stream).reads(input).reads(&batch.spans).reads(&codewords);
            let launch = launch.value(segments).value(pointers);
            let blocks = batch.streams * segments.div_ceil(WRITE_THREADS / 32);
            // SAFETY: the kernel's parameters are (const u8 *, const Span *, const u32 *, u32, Scratch); a gap lies
            // within its stream's codewords, or at their end, for which `Scratch::new` has room. It waits at its start.
            unsafe { launch.launch(Kernel::grid(blocks, WRITE_THREADS, 0)) }?;
            launched(gaps.name())?;
        }
        let spans = batch.spans.device_ptr(&stream).0;
        Ok(Layout {
            scratch,
            slots_in_stream,
            spans,
            segments,
            shape,
            streams: batch.streams,
            streams_done,
            group: self.format.group(),
        })
    }

    /// The second part: writes each stream to its place in `output`. A stream whose place is
    /// [`NO_PLACE`](super::NO_PLACE) is left out, and so is one that does not fit, which its plan's status says of
    /// both.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if these are of different batches; [`CudaError::Driver`].
    pub fn write(
        &self,
        stream: &Arc<CudaStream>,
        layout: &mut Layout<'_>,
        books: &Books,
        encoded: &mut Encoded,
        output: &mut CudaViewMut<'_, u8>,
        launched: &mut dyn FnMut(&'static str) -> Result<()>,
    ) -> Result<()> {
        let Encoded { places, plans, .. } = encoded;
        self.launch_write(stream, layout, books, plans, places, output, Writing::Placed, launched)
    }

    /// [`Self::write`] beside the kernel before on the stream, which writes elsewhere, as soon as the places are there.
    #[expect(clippy::too_many_arguments, reason = "those of `write`, and what to wait for")]
    pub(crate) fn write_beside(
        &self,
        stream: &Arc<CudaStream>,
        layout: &mut Layout<'_>,
        books: &Books,
        encoded: &mut Encoded,
        output: &mut CudaViewMut<'_, u8>,
        beside: Beside,
        launched: &mut dyn FnMut(&'static str) -> Result<()>,
    ) -> Result<()> {
        let Encoded { places, plans, .. } = encoded;
        let writing = Writing::Beside(beside);
        self.launch_write(stream, layout, books, plans, places, output, writing, launched)
    }

    #[expect(clippy::too_many_arguments, reason = "parts of what `write` takes, borrowed one by one")]
    fn launch_write(
        &self,
        stream: &Arc<CudaStream>,
        layout: &mut Layout<'_>,
        books: &Books,
        plans: &mut CudaSlice<Plan>,
        places: &mut CudaSlice<u64>,
        output: &mut CudaViewMut<'_, u8>,
        writing: Writing,
        launched: &mut dyn FnMut(&'static str) -> Result<()>,
    ) -> Result<()> {
        let kernels = self.kernels.iter().map(|(_, kernels)| kernels).find(|kernels| kernels.shape == layout.shape);
        let kernels = kernels.filter(|_| {
            books.streams == layout.streams
                && books.format == self.format
                && plans.len() == layout.streams as usize
                && places.len() == layout.streams as usize + 1
        });
        let kernels = kernels.ok_or_else(|| CudaError::invalid("the streams were laid out for another batch"))?;
        let pointers = layout.scratch.pointers(stream);
        let book_pointers = books_pointers(books, stream);
        let room = output.len() as u64;
        // The plan's status was final before the streams were written; what does not fit is noted in it.
        let launch =
            ProgrammaticDependentLaunch::new(&kernels.write, stream).writes(plans).value(book_pointers).value(pointers);
        let launch =
            launch.value(layout.scratch.slots.pointer(stream)).value(layout.slots_in_stream).value(layout.spans);
        let launch = launch.value(layout.segments).writes(places).value(u32::from(writing == Writing::Placing));
        let launch = launch.reads(&layout.scratch.notes).writes(output).value(room);
        let Beside { laid_out, unwritten, most_groups } = match writing {
            Writing::Beside(beside) => beside,
            _ => Beside { laid_out: (0, 0), unwritten: 0, most_groups: u32::MAX },
        };
        let segments = most_groups.div_ceil(layout.shape.segment / self.format.group()).min(layout.segments);
        // One more for what is in no segment.
        let blocks_in_stream = segments.div_ceil(WRITE_THREADS / 32) + 1;
        let launch = launch.value(laid_out.0).value(laid_out.1).value(unwritten).value(blocks_in_stream);
        let blocks = layout.streams * blocks_in_stream;
        // SAFETY: the kernel's parameters are (Plan *, Books, Scratch, const u32 *, u64, const Span *, u32, u64 *, u32,
        // const u32 *, u8 *, u64, const u64 *, u64, u32 *, u32); a stream is written only where `room` bytes hold all
        // of it; notes are those that the encoder has made, if the kernel reads them. It waits at its start, or for the
        // word that its caller vouches for.
        unsafe { launch.launch(Kernel::grid(blocks, WRITE_THREADS, 0)) }?;
        launched(kernels.write.name())
    }
}

pub(super) fn books_pointers(books: &Books, stream: &Arc<CudaStream>) -> BooksPointers {
    BooksPointers([
        books.summaries.device_ptr(stream).0,
        books.used.device_ptr(stream).0,
        books.bytes.device_ptr(stream).0,
    ])
}

/// What every kernel that makes plans relies on.
fn check_result(batch: &Batch, encoded: &Encoded) -> Result<()> {
    let streams = batch.streams as usize;
    let own = encoded.plans.len() == streams && encoded.places.len() == streams + 1;
    if own { Ok(()) } else { Err(CudaError::invalid("the result was made for another batch")) }
}

/// What every kernel over the input relies on.
pub(super) fn check_input<S: Symbol>(
    format: &Format,
    stream: &Arc<CudaStream>,
    input: &CudaView<'_, S>,
    classes: Option<&CudaView<'_, u8>>,
    batch: &Batch,
    books: &Books,
) -> Result<()> {
    let groups = batch.input_groups;
    let problems = [
        (batch.format != *format || books.format != *format, "batch and codebooks must have the encoder's format"),
        (books.streams != batch.streams, "the codebooks were made for another batch"),
        ((input.len() as u64) < groups << format.group_log2, "the streams go past the end of the input"),
        (!input.device_ptr(stream).0.is_multiple_of(16), "the input must start on a multiple of 16 bytes"),
        (classes.is_some() != format.classes, "classes must be given if and only if the format has them"),
        (
            classes.is_some_and(|classes| (classes.len() as u64) < groups),
            "there must be a class for each group of the input",
        ),
    ];
    match problems.iter().find(|problem| problem.0) {
        Some(&(_, problem)) => Err(CudaError::invalid(problem)),
        None => Ok(()),
    }
}
