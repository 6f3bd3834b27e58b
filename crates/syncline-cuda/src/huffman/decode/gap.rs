//! Decoding with the gap index: as published in 2020 (launcher of `kernels/huffman/decode/gap.cu`), and by spans.

#![allow(unsafe_code)]

use cudarc::driver::{DeviceRepr, PushKernelArg};
use syncline_core::huffman::{Decoder, Symbol};

use super::classes::{Classes, Room};
use super::spans::{Entries, Spans, SpansTuning, Step};
use super::{Decoding, Preparation, SEQUENCE, SHAPES, Scratch, TABLE_BITS, constants};
use crate::device::{Device, Frame, Kernel, Source, Specialization, source};
use crate::error::{DriverContext, Result};

const SOURCE: Source = source!("huffman/decode/gap.cu");

/// How symbols are decoded and written once it is known where subsequences start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Writing {
    /// By warps, and through shared memory.
    Spans(SpansTuning),
    /// By blocks, with room in shared memory by compression ratio, as in 2022.
    Tuned(Room),
    /// One kernel, symbol by symbol straight to memory, as published in 2020.
    Published,
}

impl Default for Writing {
    fn default() -> Self {
        Self::Spans(SpansTuning::default())
    }
}

fn specialization(symbol_bytes: usize, group_log2: u32, entries: bool) -> Specialization {
    let mut constants = constants(symbol_bytes, group_log2, false);
    constants.extend([("SEQUENCE", SEQUENCE.into()), ("THREADS", SEQUENCE.into()), ("ENTRIES", entries.into())]);
    Specialization { source: SOURCE, constants }
}

/// What the compile check compiles.
pub(super) fn specializations() -> Vec<Specialization> {
    let of = |entries| SHAPES.map(|(bytes, group_log2)| specialization(bytes, group_log2, entries));
    [of(false), of(true)].concat()
}

/// The published kernel.
#[derive(Debug, Clone)]
pub(super) struct Published {
    kernel: Kernel,
    multiprocessors: u32,
}

impl Published {
    /// `known`: whether starts and counts are given, or read from the index and counted.
    pub fn new<S: Symbol>(device: &Device, group_log2: u32, known: bool) -> Result<Self> {
        let kernel = device.kernel(&specialization(S::BYTES, group_log2, known), "decode_gap")?;
        Ok(Self { kernel, multiprocessors: device.info().multiprocessors })
    }

    /// Decodes all sequences; `known` as the kernel was made for.
    pub fn launch<S: Symbol + DeviceRepr>(
        &self,
        frame: &mut Frame<'_>,
        work: &mut Decoding<'_, '_, S>,
        scratch: &mut Scratch<'_>,
        known: Option<&Entries<'_>>,
    ) -> Result<()> {
        let totals = work.batch.totals;
        if totals.sequences == 0 {
            return Ok(());
        }
        let resident = self.kernel.blocks_per_multiprocessor(SEQUENCE, 0)?.max(1);
        let blocks = (resident * self.multiprocessors).min(totals.sequences);
        let mut ticket = frame.zeros::<u32>(1)?;
        let mut states = frame.zeros::<u64>(totals.sequences as usize)?;
        let (tables, map) = (scratch.tables.as_view(), scratch.map.as_view());
        let known = known.map(|known| (known.entries.as_view(), known.counts.as_view()));
        let stream = frame.stream().clone();
        let mut launch = stream.launch_builder(self.kernel.function());
        launch.arg(work.input).arg(&work.batch.descriptors).arg(&totals.streams);
        launch.arg(&work.batch.books).arg(&tables).arg(&work.batch.symbols).arg(&map);
        match &known {
            Some((entries, counts)) => launch.arg(entries).arg(counts),
            None => launch.arg(&0_u64).arg(&0_u64),
        };
        launch.arg(&work.batch.sums).arg(&mut ticket).arg(&mut states);
        launch.arg(&mut scratch.sums).arg(&mut *work.status).arg(&mut *work.output);
        // SAFETY: parameters (const u8 *, const Stream *, u32, const Book *, const u32 *, const u16 *, const u32 *,
        // const u8 *, const u8 *, const Totals *, u32 *, u64 *, u32 *, u32 *, u8 *). Words and gaps are read within
        // what the descriptors say (`Decoding::check`), symbols written up to the live groups' number to groups within
        // the stream. `known` is null only for the kernel that does not use it. A block looks back only at blocks that
        // took their sequences before it, and so run.
        unsafe { launch.launch(Kernel::grid(blocks, SEQUENCE, 0)) }.doing("decoding")?;
        Ok(())
    }
}

/// The kernels for a way of writing.
#[derive(Debug, Clone)]
pub(super) enum Writer {
    Spans(Box<Spans>),
    /// Where starts are not given, spans count.
    Tuned(Box<(Spans, Classes)>),
    Published(Published),
}

impl Writer {
    /// `known`: whether starts and counts are given.
    pub fn new<S: Symbol>(device: &Device, group_log2: u32, known: bool, writing: Writing) -> Result<Self> {
        Ok(match writing {
            Writing::Spans(tuning) => Self::Spans(Box::new(Spans::new::<S>(device, group_log2, tuning)?)),
            Writing::Tuned(room) => {
                let counting = Spans::new::<S>(device, group_log2, SpansTuning::default())?;
                Self::Tuned(Box::new((counting, Classes::new::<S>(device, group_log2, room)?)))
            }
            Writing::Published => Self::Published(Published::new::<S>(device, group_log2, known)?),
        })
    }

    /// Whether codewords are counted by tables.
    pub fn counts(&self) -> bool {
        !matches!(self, Self::Published(_))
    }

    /// Whether free groups are filled and checksums compared too.
    pub fn finishes(&self) -> bool {
        matches!(self, Self::Spans(_))
    }

    /// Decodes what starts as `found` says, or as the gap index does.
    pub fn write<S: Symbol + DeviceRepr>(
        &self,
        frame: &mut Frame<'_>,
        work: &mut Decoding<'_, '_, S>,
        scratch: &mut Scratch<'_>,
        found: Option<&Entries<'_>>,
        step: Step<'_>,
    ) -> Result<()> {
        let spans = match self {
            Self::Spans(spans) => spans,
            Self::Tuned(tuned) => &tuned.0,
            Self::Published(published) => {
                published.launch(frame, work, scratch, found)?;
                return step("decoding and writing");
            }
        };
        let counted;
        let found = match found {
            Some(found) => found,
            None => {
                let mut entries = Entries::new(frame, &work.batch.totals)?;
                spans.count(frame, work, scratch, &mut entries)?;
                step("output index")?;
                counted = entries;
                &counted
            }
        };
        match self {
            Self::Tuned(tuned) => tuned.1.write(frame, work, scratch, found, step),
            _ => spans.write(frame, work, scratch, found, step),
        }
    }
}

/// Decodes streams with the gap index.
#[derive(Debug, Clone)]
pub struct Gap<S> {
    preparation: Preparation<S>,
    writer: Writer,
    group_log2: u32,
}

impl<S: Symbol + DeviceRepr> Gap<S> {
    /// A decoder for streams with groups of `2^group_log2` symbols.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`](crate::CudaError::InvalidArgument) unless `group_log2` is 6 or 7; errors of
    /// [`Device::kernel`].
    pub fn new(device: &Device, group_log2: u32) -> Result<Self> {
        Self::with_writing(device, group_log2, Writing::default())
    }

    /// [`Self::new`] with another way of writing, to measure what it is worth.
    ///
    /// # Errors
    /// As [`Self::new`]; also for no room at all.
    pub fn with_writing(device: &Device, group_log2: u32, writing: Writing) -> Result<Self> {
        let preparation = Preparation::new(device, group_log2, TABLE_BITS)?;
        Ok(Self { preparation, writer: Writer::new::<S>(device, group_log2, false, writing)?, group_log2 })
    }

    /// Decodes the batch on the frame's stream, without waiting for it.
    ///
    /// # Errors
    /// As [`Indexed::launch`](super::Indexed::launch).
    pub fn launch(&self, frame: &mut Frame<'_>, work: Decoding<'_, '_, S>) -> Result<()> {
        self.launch_observed(frame, work, &mut |_| Ok(()))
    }

    /// [`Self::launch`] that calls `step` with the name of each step as soon as it is queued: a bench records events
    /// there.
    ///
    /// # Errors
    /// As [`Self::launch`], or what `step` returns.
    pub fn launch_observed(
        &self,
        frame: &mut Frame<'_>,
        mut work: Decoding<'_, '_, S>,
        step: &mut dyn FnMut(&'static str) -> Result<()>,
    ) -> Result<()> {
        work.check(frame, Decoder::Gap, self.group_log2)?;
        let mut scratch =
            self.preparation.before(frame, &mut work, self.writer.counts(), !self.writer.finishes(), 0)?;
        step("tables")?;
        self.writer.write(frame, &mut work, &mut scratch, None, step)?;
        if !self.writer.finishes() {
            self.preparation.after(frame, &mut work, &scratch)?;
        }
        step("checksums")
    }
}
