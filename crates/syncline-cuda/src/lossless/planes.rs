//! Huffman coding of the byte planes of many chunks at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DeviceRepr};
use syncline_core::huffman::{self, IndexKind, MAX_SYMBOLS};

use crate::device::{Device, Frame, Pinned};
use crate::error::{DriverContext, Result};
use crate::huffman::Symbol;
use crate::huffman::decode::{BatchView, Decoding, Indexed, Limits, Parser, StreamLocation};
use crate::huffman::encode::{
    Batch, BatchCodebooks, BatchCodebooksBuilder, EncodeInput, Encoded, Encoder, Format, LaidOutStreams, NO_OFFSET,
    StreamPlan, StreamRange,
};

/// log2 of the number of symbols in a group.
pub(super) const GROUP_LOG2: u8 = 7;
/// Number of symbols in a group.
pub(super) const GROUP: u64 = 1 << GROUP_LOG2;

/// log2 of the approximate ratio between the largest and the smallest plane of a batch.
const SIZES_LOG2: u32 = 4;
/// Planes of all sizes form one batch if that takes at most this many symbols of memory, because each batch takes
/// several launches.
const FEW_SYMBOLS: u64 = 1 << 25;
/// Maximum number of [`BatchBuffers`]s that are kept, unless more are needed at once.
const MAX_BATCH_BUFFERS: usize = 6;

/// Encodes planes of symbols `S`.
#[derive(Debug)]
pub(super) struct PlaneEncoder<S> {
    format: Format,
    builder: BatchCodebooksBuilder<S>,
    encoder: Encoder<S>,
    /// Memory from earlier calls, because allocating it takes longer than encoding a small batch.
    batch_buffers: Vec<BatchBuffers>,
}

/// Memory for the codebooks and plans of streams up to some size.
#[derive(Debug)]
struct BatchBuffers {
    batch: Batch,
    codebooks: BatchCodebooks,
    encoded: Encoded,
    /// Copies of the plans in host memory.
    plans: Pinned<StreamPlan>,
    is_taken: bool,
}

impl BatchBuffers {
    /// Returns whether the memory suffices for `streams` streams of up to `most_groups` groups, and is not much larger
    /// than necessary.
    fn suits(&self, streams: u32, most_groups: u32) -> bool {
        let (own, most) = (self.batch.streams(), self.batch.most_groups());
        !self.is_taken
            && (streams..=streams + streams / 4).contains(&own)
            && (most_groups..=2 * most_groups).contains(&most)
    }
}

/// Planes that are laid out as Huffman streams but not yet written.
pub(super) struct LaidOut<'a> {
    /// Plan of each plane in the order of the request, available after [`PlaneEncoder::wait`].
    pub plans: Vec<StreamPlan>,
    parts: Vec<Part<'a>>,
}

/// Planes of about the same size, which form one batch.
struct Part<'a> {
    /// Numbers of the planes in the request.
    planes: Vec<usize>,
    /// Index of the [`BatchBuffers`] with their codebooks.
    buffers: usize,
    layout: LaidOutStreams<'a>,
}

impl<S: Symbol> PlaneEncoder<S> {
    /// Creates an encoder for symbols below `alphabet`.
    pub fn new(device: &Device, alphabet: u32) -> Result<Self> {
        let index = IndexKind::Symbol;
        let format = Format { symbol_bytes: S::BYTES, group_log2: GROUP_LOG2, alphabet, classes: false, index };
        Ok(Self {
            format,
            builder: BatchCodebooksBuilder::new(device, &format)?,
            encoder: Encoder::new(device, &format)?,
            batch_buffers: Vec::new(),
        })
    }

    /// Queues the kernels that lay out the Huffman streams of planes of these groups, whose symbols are in `input`.
    pub fn lay_out<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        input: &CudaView<'_, S>,
        planes: &[StreamRange],
    ) -> Result<LaidOut<'a>> {
        // The encoder gives each stream of a batch as much memory as the largest needs.
        let most_groups = planes.iter().map(|plane| plane.groups).max().unwrap_or(0);
        let are_few = (planes.len() as u64).saturating_mul(u64::from(most_groups) << GROUP_LOG2) <= FEW_SYMBOLS;
        let mut by_size: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (number, plane) in planes.iter().enumerate() {
            let size = if are_few { 0 } else { plane.groups.max(1).ilog2() / SIZES_LOG2 };
            by_size.entry(size).or_default().push(number);
        }
        let stream = frame.stream().clone();
        self.batch_buffers.iter_mut().for_each(|buffers| buffers.is_taken = false);
        let mut parts = Vec::new();
        for numbers in by_size.into_values() {
            let ranges: Vec<StreamRange> = numbers.iter().map(|&number| planes[number]).collect();
            let most_groups = ranges.iter().map(|range| range.groups).max().unwrap_or(0);
            let number = self.buffers(frame, ranges.len() as u32, most_groups)?;
            let BatchBuffers { batch, codebooks, encoded, plans, is_taken } = &mut self.batch_buffers[number];
            *is_taken = true;
            batch.list(&stream, &ranges)?;
            self.builder.launch(frame, input, None, batch, codebooks)?;
            let input = EncodeInput { symbols: input, classes: None, batch, codebooks };
            let layout = self.encoder.lay_out(frame, &input, encoded)?;
            plans.read(encoded.plans())?;
            parts.push(Part { planes: numbers, buffers: number, layout });
        }
        Ok(LaidOut { plans: vec![StreamPlan::default(); planes.len()], parts })
    }

    /// Waits for the plans of the planes.
    pub fn wait(&self, laid_out: &mut LaidOut<'_>) -> Result<()> {
        for part in &laid_out.parts {
            let plans = self.batch_buffers[part.buffers].plans.wait()?;
            StreamPlan::check(plans)?;
            part.planes.iter().zip(plans).for_each(|(&number, plan)| laid_out.plans[number] = *plan);
        }
        Ok(())
    }

    /// Returns the index of a [`BatchBuffers`] for this many streams and groups, allocated if there is none.
    fn buffers(&mut self, frame: &Frame<'_>, streams: u32, most_groups: u32) -> Result<usize> {
        if let Some(number) = self.batch_buffers.iter().position(|buffers| buffers.suits(streams, most_groups)) {
            return Ok(number);
        }
        let stream = frame.stream();
        let most_groups = most_groups.next_power_of_two().min((MAX_SYMBOLS >> GROUP_LOG2) as u32);
        let batch = Batch::on_device(stream, &self.format, streams.next_multiple_of(4), most_groups, 0)?;
        // The streams are written elsewhere, so no output is allocated here.
        let (codebooks, encoded) = (BatchCodebooks::new(stream, &batch)?, Encoded::new(stream, &batch, 0)?);
        let plans = Pinned::new(stream, batch.streams() as usize)?;
        let buffers = BatchBuffers { batch, codebooks, encoded, plans, is_taken: false };
        match self
            .batch_buffers
            .iter()
            .position(|buffers| !buffers.is_taken)
            .filter(|_| self.batch_buffers.len() >= MAX_BATCH_BUFFERS)
        {
            Some(number) => {
                self.batch_buffers[number] = buffers;
                Ok(number)
            }
            None => {
                self.batch_buffers.push(buffers);
                Ok(self.batch_buffers.len() - 1)
            }
        }
    }

    /// Writes each plane's stream to its offset in the output. Planes with [`NO_OFFSET`] are not written.
    pub fn write(
        &mut self,
        stream: &Arc<CudaStream>,
        laid_out: LaidOut<'_>,
        places: &[u64],
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        for mut part in laid_out.parts {
            let BatchBuffers { codebooks, encoded, .. } = &mut self.batch_buffers[part.buffers];
            let mut own: Vec<u64> = part.planes.iter().map(|&number| places[number]).collect();
            own.resize(encoded.offsets().len(), NO_OFFSET);
            stream.memcpy_htod(&own, encoded.offsets_mut()).doing("placing streams")?;
            self.encoder.write(stream, &mut part.layout, codebooks, encoded, output)?;
        }
        Ok(())
    }
}

/// Alphabet sizes of 16-bit symbols. Counting and sorting the symbols of the largest alphabet takes several times as
/// long as everything else; quantization codes and small residuals use the smaller ones.
const ALPHABETS: [u32; 3] = [1 << 10, 1 << 12, 1 << 16];

/// Encodes planes of 16-bit symbols, each with the smallest alphabet that contains its symbols.
#[derive(Debug)]
pub(super) struct WordEncoder {
    device: Device,
    /// One encoder per alphabet size, created on first use.
    encoders: [Option<PlaneEncoder<u16>>; ALPHABETS.len()],
}

/// Laid-out planes of 16-bit symbols: for each alphabet size, the numbers of the planes and their layout.
pub(super) struct WordsLaidOut<'a> {
    /// Plan of each plane in the order of the request.
    pub plans: Vec<StreamPlan>,
    by_alphabet: [(Vec<usize>, Option<LaidOut<'a>>); ALPHABETS.len()],
}

impl WordEncoder {
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), encoders: [None, None, None] }
    }

    /// Lays out planes as [`PlaneEncoder::lay_out`] does; `greatest` is the largest symbol of each plane.
    pub fn lay_out<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        input: &CudaView<'_, u16>,
        planes: &[StreamRange],
        greatest: &[u32],
    ) -> Result<WordsLaidOut<'a>> {
        let mut laid_out = WordsLaidOut {
            plans: vec![StreamPlan::default(); planes.len()],
            by_alphabet: [(Vec::new(), None), (Vec::new(), None), (Vec::new(), None)],
        };
        for (number, &greatest) in greatest.iter().enumerate() {
            let own = ALPHABETS.iter().position(|&alphabet| greatest < alphabet).unwrap_or(ALPHABETS.len() - 1);
            laid_out.by_alphabet[own].0.push(number);
        }
        for (i, (numbers, own)) in laid_out.by_alphabet.iter_mut().enumerate() {
            if numbers.is_empty() {
                continue;
            }
            let encoder = match &mut self.encoders[i] {
                Some(encoder) => encoder,
                none => none.insert(PlaneEncoder::new(&self.device, ALPHABETS[i])?),
            };
            let ranges: Vec<StreamRange> = numbers.iter().map(|&number| planes[number]).collect();
            *own = Some(encoder.lay_out(frame, input, &ranges)?);
        }
        Ok(laid_out)
    }

    /// Waits for the plans of the planes, as [`PlaneEncoder::wait`] does.
    pub fn wait(&self, laid_out: &mut WordsLaidOut<'_>) -> Result<()> {
        for ((numbers, own), encoder) in laid_out.by_alphabet.iter_mut().zip(&self.encoders) {
            if let (Some(own), Some(encoder)) = (own, encoder) {
                encoder.wait(own)?;
                numbers.iter().zip(&own.plans).for_each(|(&number, plan)| laid_out.plans[number] = *plan);
            }
        }
        Ok(())
    }

    /// Writes the streams, as [`PlaneEncoder::write`] does.
    pub fn write(
        &mut self,
        stream: &Arc<CudaStream>,
        laid_out: WordsLaidOut<'_>,
        places: &[u64],
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        for ((numbers, own), encoder) in laid_out.by_alphabet.into_iter().zip(&mut self.encoders) {
            if let (Some(own), Some(encoder)) = (own, encoder) {
                let places: Vec<u64> = numbers.iter().map(|&number| places[number]).collect();
                encoder.write(stream, own, &places, output)?;
            }
        }
        Ok(())
    }
}

/// Decodes planes of symbols `S`.
#[derive(Debug)]
pub(super) struct PlaneDecoder<S> {
    parser: Parser<S>,
    decoder: Indexed<S>,
}

impl<S: huffman::Symbol + DeviceRepr> PlaneDecoder<S> {
    pub fn new(device: &Device) -> Result<Self> {
        let group_log2 = GROUP_LOG2.into();
        Ok(Self { parser: Parser::new(device, group_log2)?, decoder: Indexed::new(device, group_log2)? })
    }

    /// Decodes the streams at `places` of the input to `output`. `status` receives one word per stream, 0 if its
    /// symbols are correct.
    pub fn decode(
        &self,
        frame: &mut Frame<'_>,
        input: &CudaView<'_, u8>,
        places: &[StreamLocation],
        output: &mut CudaViewMut<'_, S>,
        status: &mut CudaViewMut<'_, u32>,
    ) -> Result<()> {
        let most = |of: fn(&StreamLocation) -> u32| places.iter().map(of).max().unwrap_or(0);
        let groups = most(|place| place.groups);
        // Parsing has ensured that streams have one codebook. Classes are then not read, but the array must not be
        // missing.
        let classes = frame.zeros::<u8>(groups as usize)?;
        let limits = Limits {
            output_symbols: output.len() as u64,
            classes: classes.len() as u64,
            length: most(|place| place.length),
            groups,
        };
        let places = frame.upload(places)?;
        let batch: BatchView<'_, S> = self.parser.launch(frame, input, &places.as_view(), limits, status)?;
        let work = Decoding {
            input: &input.slice(..),
            classes: &classes.as_view(),
            batch: &batch,
            output: &mut output.slice_mut(..),
            status: &mut status.slice_mut(..),
        };
        self.decoder.launch(frame, work)
    }
}
