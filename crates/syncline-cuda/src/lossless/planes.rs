//! Huffman coding of many planes at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut, DeviceRepr};
use syncline_core::huffman::{self, IndexKind, MAX_SYMBOLS};

use crate::device::{Device, Frame, Pinned};
use crate::error::{DriverContext, Result};
use crate::huffman::Symbol;
use crate::huffman::decode::{BatchView, Decoding, Gap, Indexed, Limits, Parser, SelfSync, StreamLocation};
use crate::huffman::encode::{
    Batch, BatchCodebooks, BatchCodebooksBuilder, EncodeInput, Encoded, Encoder, Format, LaidOutStreams, NO_OFFSET,
    StreamPlan, StreamSpan, StreamTarget,
};

/// log2 of the symbols in a group.
pub(super) const GROUP_LOG2: u8 = 7;
/// Symbols in a group.
pub(super) const GROUP: u64 = 1 << GROUP_LOG2;

/// log2 of how much larger than another a plane of the same batch may be, about.
const SIZES_LOG2: u32 = 4;
/// Planes of all sizes are one batch where that takes no more room than so many symbols: each batch takes several
/// launches.
const FEW_SYMBOLS: u64 = 1 << 25;
/// Most rooms that are kept, if no more are needed at once.
const MOST_ROOMS: usize = 6;

/// Codes planes of symbols `S`.
#[derive(Debug)]
pub(super) struct PlaneEncoder<S> {
    format: Format,
    builder: BatchCodebooksBuilder<S>,
    encoder: Encoder<S>,
    /// What earlier calls have made: allocating takes longer than small batches.
    rooms: Vec<Room>,
}

/// Codecodebooks and plans for streams of up to some size.
#[derive(Debug)]
struct Room {
    batch: Batch,
    codebooks: BatchCodebooks,
    encoded: Encoded,
    /// The plans on the host.
    plans: Pinned<StreamPlan>,
    is_taken: bool,
}

impl Room {
    /// Whether it has room for so many streams and groups, and not too much.
    fn suits(&self, streams: u32, most_groups: u32) -> bool {
        let (own, most) = (self.batch.streams(), self.batch.most_groups());
        !self.is_taken
            && (streams..=streams + streams / 4).contains(&own)
            && (most_groups..=2 * most_groups).contains(&most)
    }
}

/// Planes that are laid out as Huffman streams but not yet written.
pub(super) struct LaidOut<'a> {
    /// What each plane comes to, in the order asked for, once it has been waited for.
    pub plans: Vec<StreamPlan>,
    parts: Vec<Part<'a>>,
}

/// Planes of about the same size.
struct Part<'a> {
    /// Their numbers.
    planes: Vec<usize>,
    /// The number of the room that has their codebooks.
    room: usize,
    layout: LaidOutStreams<'a>,
}

impl<S: Symbol> PlaneEncoder<S> {
    /// For symbols below `alphabet`.
    pub fn new(device: &Device, index: IndexKind, alphabet: u32) -> Result<Self> {
        let format = Format { symbol_bytes: S::BYTES, group_log2: GROUP_LOG2, alphabet, classes: false, index };
        Ok(Self {
            format,
            builder: BatchCodebooksBuilder::new(device, &format)?,
            encoder: Encoder::new(device, &format)?,
            rooms: Vec::new(),
        })
    }

    pub fn index(&self) -> IndexKind {
        self.format.index
    }

    /// Queues laying out planes of these groups, whose symbols are in `input`.
    pub fn lay_out<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        input: &CudaView<'_, S>,
        planes: &[StreamSpan],
        launched: &mut dyn FnMut(&'static str) -> Result<()>,
    ) -> Result<LaidOut<'a>> {
        // The encoder gives each stream of a batch the room of the largest.
        let most_groups = planes.iter().map(|plane| plane.groups).max().unwrap_or(0);
        let are_few = (planes.len() as u64).saturating_mul(u64::from(most_groups) << GROUP_LOG2) <= FEW_SYMBOLS;
        let mut by_size: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (number, plane) in planes.iter().enumerate() {
            let size = if are_few { 0 } else { plane.groups.max(1).ilog2() / SIZES_LOG2 };
            by_size.entry(size).or_default().push(number);
        }
        let stream = frame.stream().clone();
        self.rooms.iter_mut().for_each(|room| room.is_taken = false);
        let mut parts = Vec::new();
        for numbers in by_size.into_values() {
            let spans: Vec<StreamSpan> = numbers.iter().map(|&number| planes[number]).collect();
            let most_groups = spans.iter().map(|span| span.groups).max().unwrap_or(0);
            let number = self.room(frame, spans.len() as u32, most_groups)?;
            let Room { batch, codebooks, encoded, plans, is_taken } = &mut self.rooms[number];
            *is_taken = true;
            batch.list(&stream, &spans, &[])?;
            self.builder.launch(frame, input, None, batch, codebooks)?;
            launched("codebooks")?;
            let input = EncodeInput { symbols: input, classes: None, batch, codebooks };
            let layout = self.encoder.lay_out(frame, &input, encoded, launched)?;
            plans.read(encoded.plans())?;
            parts.push(Part { planes: numbers, room: number, layout });
        }
        Ok(LaidOut { plans: vec![StreamPlan::default(); planes.len()], parts })
    }

    /// Waits for what planes come to.
    pub fn wait(&self, laid_out: &mut LaidOut<'_>) -> Result<()> {
        for part in &laid_out.parts {
            let plans = self.rooms[part.room].plans.wait()?;
            StreamPlan::check(plans)?;
            part.planes.iter().zip(plans).for_each(|(&number, plan)| laid_out.plans[number] = *plan);
        }
        Ok(())
    }

    /// The number of a room for so many streams and groups, made if there is none.
    fn room(&mut self, frame: &Frame<'_>, streams: u32, most_groups: u32) -> Result<usize> {
        if let Some(number) = self.rooms.iter().position(|room| room.suits(streams, most_groups)) {
            return Ok(number);
        }
        let stream = frame.stream();
        let most_groups = most_groups.next_power_of_two().min((MAX_SYMBOLS >> GROUP_LOG2) as u32);
        let batch = Batch::on_device(stream, &self.format, streams.next_multiple_of(4), most_groups, 0)?;
        // Streams are written elsewhere.
        let (codebooks, encoded) = (BatchCodebooks::new(stream, &batch)?, Encoded::new(stream, &batch, 0)?);
        let plans = Pinned::new(stream, batch.streams() as usize)?;
        let room = Room { batch, codebooks, encoded, plans, is_taken: false };
        match self.rooms.iter().position(|room| !room.is_taken).filter(|_| self.rooms.len() >= MOST_ROOMS) {
            Some(number) => {
                self.rooms[number] = room;
                Ok(number)
            }
            None => {
                self.rooms.push(room);
                Ok(self.rooms.len() - 1)
            }
        }
    }

    /// Writes each plane's stream to its place in the output; [`NO_OFFSET`]: not at all.
    pub fn write(
        &mut self,
        stream: &Arc<CudaStream>,
        laid_out: LaidOut<'_>,
        places: &[u64],
        output: &mut CudaViewMut<'_, u8>,
        launched: &mut dyn FnMut(&'static str) -> Result<()>,
    ) -> Result<()> {
        for mut part in laid_out.parts {
            let Room { codebooks, encoded, .. } = &mut self.rooms[part.room];
            let mut own: Vec<u64> = part.planes.iter().map(|&number| places[number]).collect();
            own.resize(encoded.offsets().len(), NO_OFFSET);
            stream.memcpy_htod(&own, encoded.offsets_mut()).doing("placing streams")?;
            let target = StreamTarget { output, overlap: None };
            self.encoder.write(stream, &mut part.layout, codebooks, encoded, target, launched)?;
        }
        Ok(())
    }
}

/// Alphabets of symbols of two bytes. Counting and sorting symbols of the largest takes several times as long as all
/// else: quantization codes and small residuals are spared it.
const ALPHABETS: [u32; 3] = [1 << 10, 1 << 12, 1 << 16];

/// Codes planes of symbols of two bytes, each by the smallest alphabet that has its symbols.
#[derive(Debug)]
pub(super) struct WordEncoder {
    device: Device,
    index: IndexKind,
    /// By alphabet, made when first needed.
    encoders: [Option<PlaneEncoder<u16>>; ALPHABETS.len()],
}

/// Planes of two bytes that are laid out: of each alphabet the numbers of the planes, and what they come to.
pub(super) struct WordsLaidOut<'a> {
    /// What each plane comes to, in the order asked for.
    pub plans: Vec<StreamPlan>,
    by_alphabet: [(Vec<usize>, Option<LaidOut<'a>>); ALPHABETS.len()],
}

impl WordEncoder {
    pub fn new(device: &Device, index: IndexKind) -> Self {
        Self { device: device.clone(), index, encoders: [None, None, None] }
    }

    pub fn index(&self) -> IndexKind {
        self.index
    }

    /// As [`PlaneEncoder::lay_out`]; `greatest` has the greatest symbol of each plane.
    pub fn lay_out<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        input: &CudaView<'_, u16>,
        planes: &[StreamSpan],
        greatest: &[u32],
        launched: &mut dyn FnMut(&'static str) -> Result<()>,
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
                none => none.insert(PlaneEncoder::new(&self.device, self.index, ALPHABETS[i])?),
            };
            let spans: Vec<StreamSpan> = numbers.iter().map(|&number| planes[number]).collect();
            *own = Some(encoder.lay_out(frame, input, &spans, launched)?);
        }
        Ok(laid_out)
    }

    /// As [`PlaneEncoder::wait`].
    pub fn wait(&self, laid_out: &mut WordsLaidOut<'_>) -> Result<()> {
        for ((numbers, own), encoder) in laid_out.by_alphabet.iter_mut().zip(&self.encoders) {
            if let (Some(own), Some(encoder)) = (own, encoder) {
                encoder.wait(own)?;
                numbers.iter().zip(&own.plans).for_each(|(&number, plan)| laid_out.plans[number] = *plan);
            }
        }
        Ok(())
    }

    /// As [`PlaneEncoder::write`].
    pub fn write(
        &mut self,
        stream: &Arc<CudaStream>,
        laid_out: WordsLaidOut<'_>,
        places: &[u64],
        output: &mut CudaViewMut<'_, u8>,
        launched: &mut dyn FnMut(&'static str) -> Result<()>,
    ) -> Result<()> {
        for ((numbers, own), encoder) in laid_out.by_alphabet.into_iter().zip(&mut self.encoders) {
            if let (Some(own), Some(encoder)) = (own, encoder) {
                let places: Vec<u64> = numbers.iter().map(|&number| places[number]).collect();
                encoder.write(stream, own, &places, output, launched)?;
            }
        }
        Ok(())
    }
}

/// Decodes planes of symbols `S`.
#[derive(Debug)]
pub(super) struct PlaneDecoder<S> {
    index: IndexKind,
    parser: Parser<S>,
    kind: Kind<S>,
}

#[derive(Debug)]
enum Kind<S> {
    Indexed(Indexed<S>),
    Gap(Gap<S>),
    SelfSync(SelfSync<S>),
}

impl<S: huffman::Symbol + DeviceRepr> PlaneDecoder<S> {
    pub fn new(device: &Device, index: IndexKind) -> Result<Self> {
        let group_log2 = GROUP_LOG2.into();
        Ok(Self {
            index,
            parser: Parser::new(device, group_log2, Some(index))?,
            kind: match index {
                IndexKind::Symbol => Kind::Indexed(Indexed::new(device, group_log2)?),
                IndexKind::Gap => Kind::Gap(Gap::new(device, group_log2)?),
                IndexKind::None => Kind::SelfSync(SelfSync::new(device, group_log2)?),
            },
        })
    }

    /// Decodes the streams at `places` of the input to `output`; `status` gets a word for each, 0 if its symbols are
    /// right.
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
        // Streams have one codebook, which parsing has seen to; what could be classes is never looked at, but has to be
        // there.
        let classes = match self.index {
            IndexKind::Symbol => frame.zeros::<u8>(groups as usize)?,
            _ => frame.slice::<u8>(0)?,
        };
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
        match &self.kind {
            Kind::Indexed(decoder) => decoder.launch(frame, work),
            Kind::Gap(decoder) => decoder.launch(frame, work),
            Kind::SelfSync(decoder) => decoder.launch(frame, work),
        }
    }
}
