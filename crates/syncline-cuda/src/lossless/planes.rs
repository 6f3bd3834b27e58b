//! Huffman coding of many planes at once.

use std::collections::BTreeMap;

use cudarc::driver::{CudaView, CudaViewMut, DeviceRepr};
use syncline_core::huffman::{self, IndexKind};

use crate::device::{Device, Frame};
use crate::error::{DriverContext, Result};
use crate::huffman::decode::{BatchView, Decoding, Gap, Indexed, Limits, Parser, SelfSync, StreamPlace};
use crate::huffman::encode::{Batch, Books, BooksBuilder, Encoded, Encoder, Format, Layout, Method, Plan, StreamSpan};
use crate::huffman::histogram;

/// log2 of the symbols in a group.
pub(super) const GROUP_LOG2: u8 = 7;
/// Symbols in a group.
pub(super) const GROUP: u64 = 1 << GROUP_LOG2;

/// Codes planes of symbols `S`.
#[derive(Debug)]
pub(super) struct PlaneEncoder<S> {
    format: Format,
    builder: BooksBuilder<S>,
    encoder: Encoder<S>,
}

/// Planes that are laid out as Huffman streams but not yet written.
pub(super) struct LaidOut<'a> {
    /// What each plane comes to, in the order asked for.
    pub plans: Vec<Plan>,
    parts: Vec<Part<'a>>,
}

/// Planes of about the same size.
struct Part<'a> {
    /// Their numbers.
    planes: Vec<usize>,
    books: Books,
    encoded: Encoded,
    layout: Layout<'a>,
}

impl<S: histogram::Symbol> PlaneEncoder<S> {
    pub fn new(device: &Device, index: IndexKind) -> Result<Self> {
        let format = Format {
            symbol_bytes: S::BYTES,
            group_log2: GROUP_LOG2,
            alphabet: 1 << (8 * S::BYTES),
            classes: false,
            index,
        };
        Ok(Self {
            format,
            builder: BooksBuilder::new(device, &format)?,
            encoder: Encoder::new(device, &format, Method::Merged)?,
        })
    }

    pub fn index(&self) -> IndexKind {
        self.format.index
    }

    /// Lays out planes of these groups, whose symbols are in `input`. Waits for the device.
    pub fn lay_out<'a>(
        &self,
        frame: &mut Frame<'a>,
        input: &CudaView<'_, S>,
        planes: &[StreamSpan],
        launched: &mut dyn FnMut(&'static str) -> Result<()>,
    ) -> Result<LaidOut<'a>> {
        // The encoder gives each stream of a batch the room of the largest.
        let mut by_size: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (number, plane) in planes.iter().enumerate() {
            by_size.entry(plane.groups.max(1).ilog2() / 2).or_default().push(number);
        }
        let stream = frame.stream().clone();
        let mut parts = Vec::new();
        for numbers in by_size.into_values() {
            let spans: Vec<StreamSpan> = numbers.iter().map(|&number| planes[number]).collect();
            let batch = Batch::new(&stream, &self.format, &spans)?;
            let mut books = Books::new(&stream, &batch)?;
            // Streams are written elsewhere.
            let mut encoded = Encoded::new(&stream, &batch, 0)?;
            self.builder.launch(frame, input, None, &batch, &mut books)?;
            launched("codebooks")?;
            let layout = self.encoder.lay_out(frame, input, None, &batch, &books, &mut encoded, launched)?;
            parts.push(Part { planes: numbers, books, encoded, layout });
        }
        let mut plans = vec![Plan::default(); planes.len()];
        for part in &parts {
            for (&number, plan) in part.planes.iter().zip(part.encoded.read_plans(&stream)?) {
                plans[number] = plan;
            }
        }
        Ok(LaidOut { plans, parts })
    }

    /// Writes each plane's stream to its place in the output; [`NO_PLACE`](crate::huffman::encode::NO_PLACE): not at all.
    pub fn write(
        &self,
        frame: &Frame<'_>,
        laid_out: LaidOut<'_>,
        places: &[u64],
        output: &mut CudaViewMut<'_, u8>,
        launched: &mut dyn FnMut(&'static str) -> Result<()>,
    ) -> Result<()> {
        let stream = frame.stream().clone();
        for mut part in laid_out.parts {
            let mut own: Vec<u64> = part.planes.iter().map(|&number| places[number]).collect();
            own.push(0);
            stream.memcpy_htod(&own, part.encoded.places_mut()).doing("placing streams")?;
            self.encoder.write(&stream, &mut part.layout, &part.books, &mut part.encoded, output, launched)?;
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

    /// Decodes the streams at `places` of the input to `output`; `status` gets a word for each, 0 if its symbols are right.
    pub fn decode<'a>(
        &self,
        frame: &mut Frame<'a>,
        input: &CudaView<'_, u8>,
        places: &[StreamPlace],
        output: &mut CudaViewMut<'a, S>,
        status: &mut CudaViewMut<'a, u32>,
    ) -> Result<()> {
        let stream = frame.stream().clone();
        let most = |of: fn(&StreamPlace) -> u32| places.iter().map(of).max().unwrap_or(0);
        let groups = most(|place| place.groups);
        // Streams have one codebook, which parsing has seen to; what could be classes is never looked at, but has to be there.
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
        let places = stream.clone_htod(places).doing("listing streams")?;
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
