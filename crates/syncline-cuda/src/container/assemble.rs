//! From the quantized chunks of a batch to their records: Huffman streams, layout, bytes, hashes.

use std::sync::Arc;

use cudarc::driver::{CudaStream, CudaView, CudaViewMut};
use syncline_core::container::{HEADER_LEN, RECORD_HEADER_LEN};
use syncline_core::huffman::IndexKind;
use syncline_core::predict::codes::{RADIUS, WIDE_RADIUS};

use super::prepared::{Prepared, TileSums};
use super::progress::{Progress, StreamEnd};
use super::records::{Contents, RecordWriter, Streams, TokenLists};
use crate::device::{Device, Frame};
use crate::error::Result;
use crate::geometry::ChunkBatch;
use crate::huffman::encode::{Batch, Beside, Books, BooksBuilder, Encoded, Encoder, Format, Layout, StreamSpan};
use crate::huffman::histogram::Symbol;
use crate::quantize::{ChunkSummary, parts_of_chunk};

const NARROW_ALPHABET: u32 = 2 * RADIUS;
const WIDE_ALPHABET: u32 = 1 << 16;
/// Bytes of a group of bitmap bytes, and its logarithm.
const BITMAP_GROUP_LOG2: u8 = 6;

/// Called with a kernel's name after each launch, or after some launches together: a bench records events there.
pub type Observer<'o> = dyn FnMut(&'static str) -> Result<()> + 'o;

/// Codebooks and encoder of one format, and their results for one batch.
#[derive(Debug)]
struct Coder<S> {
    format: Format,
    builder: BooksBuilder<S>,
    encoder: Encoder<S>,
    room: Option<Room>,
}

#[derive(Debug)]
struct Room {
    batch: Batch,
    books: Books,
    encoded: Encoded,
}

impl Room {
    fn new(stream: &Arc<CudaStream>, batch: Batch) -> Result<Self> {
        // Streams are written elsewhere.
        let (books, encoded) = (Books::new(stream, &batch)?, Encoded::new(stream, &batch, 0)?);
        Ok(Self { batch, books, encoded })
    }
}

impl<S: Symbol> Coder<S> {
    fn new(device: &Device, format: Format) -> Result<Self> {
        let builder = BooksBuilder::new(device, &format)?;
        Ok(Self { format, builder, encoder: Encoder::for_layout(device, &format)?, room: None })
    }

    /// Room for streams that a kernel will list; kept if it is as before.
    fn on_device(
        &mut self,
        stream: &Arc<CudaStream>,
        streams: u32,
        most_groups: u32,
        input_groups: u64,
    ) -> Result<&mut Room> {
        let same = |room: &Room| (room.batch.streams(), room.batch.most_groups()) == (streams, most_groups);
        let mut room = match self.room.take().filter(same) {
            Some(room) => room,
            None => Room::new(stream, Batch::on_device(stream, &self.format, streams, most_groups, input_groups)?)?,
        };
        room.batch.set_input_groups(input_groups);
        Ok(self.room.insert(room))
    }

    /// Builds the codebooks of the batch that there is room for, and lays out its streams.
    fn lay_out<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        symbols: &CudaView<'_, S>,
        classes: Option<&CudaView<'_, u8>>,
        observer: &mut Observer<'_>,
    ) -> Result<Option<Layout<'a>>> {
        let Some(Room { batch, books, encoded }) = &mut self.room else { return Ok(None) };
        self.builder.launch(&mut frame.nested(), symbols, classes, batch, books)?;
        observer("codebooks")?;
        self.encoder.lay_out(frame, symbols, classes, batch, books, encoded, observer).map(Some)
    }

    /// [`Self::lay_out`] in place of the symbols, where that can be.
    fn lay_out_in_place<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        symbols: &mut CudaViewMut<'_, S>,
        classes: Option<&CudaView<'_, u8>>,
        observer: &mut Observer<'_>,
    ) -> Result<Option<Layout<'a>>> {
        if !self.encoder.can_work_in_place() {
            return self.lay_out(frame, &symbols.as_view(), classes, observer);
        }
        let Some(Room { batch, books, encoded }) = &mut self.room else { return Ok(None) };
        self.builder.launch(&mut frame.nested(), &symbols.as_view(), classes, batch, books)?;
        observer("codebooks")?;
        self.encoder.lay_out_in_place(frame, symbols, classes, batch, books, encoded, observer).map(Some)
    }

    /// Builds codebooks for these streams and lays them out.
    fn lay_out_listed<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        symbols: &CudaView<'_, S>,
        streams: &[StreamSpan],
        observer: &mut Observer<'_>,
    ) -> Result<Option<Layout<'a>>> {
        self.room = None;
        if streams.is_empty() {
            return Ok(None);
        }
        let stream = frame.stream().clone();
        self.room = Some(Room::new(&stream, Batch::new(&stream, &self.format, streams)?)?);
        self.lay_out(frame, symbols, None, observer)
    }

    fn encoded(&mut self) -> Option<&mut Encoded> {
        self.room.as_mut().map(|room| &mut room.encoded)
    }

    /// Writes the streams beside the kernel before: what else of the records is written, or other streams.
    fn write(
        &mut self,
        stream: &Arc<CudaStream>,
        layout: Option<Layout<'_>>,
        output: &mut CudaViewMut<'_, u8>,
        beside: Beside,
        observer: &mut Observer<'_>,
    ) -> Result<()> {
        match (layout, &mut self.room) {
            (Some(mut layout), Some(Room { books, encoded, .. })) => {
                self.encoder.write_beside(stream, &mut layout, books, encoded, output, beside, observer)
            }
            _ => Ok(()),
        }
    }
}

/// What the host makes of the summaries of a batch: the streams that not every chunk has.
#[derive(Debug, Default)]
pub struct BatchPlan {
    /// Codes of the chunks that take the wide radius.
    pub wide: Vec<StreamSpan>,
    /// Bitmaps of masks, of the chunks that have any.
    pub masks: Vec<StreamSpan>,
    /// Bitmaps of signs.
    pub signs: Vec<StreamSpan>,
    /// Whether any chunk has outliers or verbatim values.
    pub lists: bool,
    /// Groups of codes of the chunk that has most.
    pub most_groups: u32,
}

impl BatchPlan {
    /// From the summary of each chunk of a batch.
    pub fn new(batch: &ChunkBatch, summaries: &[ChunkSummary]) -> Self {
        let mut plan = Self::default();
        let (mut mask_bytes, mut sign_bytes) = (0, 0);
        for (chunk, summary) in (0..batch.chunks()).zip(summaries) {
            if summary.radius != RADIUS {
                plan.wide.push(StreamSpan {
                    first_group: batch.first_slot(chunk),
                    groups: summary.groups,
                    free_symbol: WIDE_RADIUS as u16,
                });
            }
            plan.most_groups = plan.most_groups.max(summary.groups);
            plan.lists |= summary.outliers > 0 || summary.verbatim > 0;
            add_bitmaps(&mut plan.masks, &mut mask_bytes, summary.mask_bytes);
            add_bitmaps(&mut plan.signs, &mut sign_bytes, summary.sign_bytes);
        }
        plan
    }
}

/// Adds a stream of `bytes` bytes of bitmaps behind the `before` bytes of others, if there are any.
fn add_bitmaps(streams: &mut Vec<StreamSpan>, before: &mut u64, bytes: u32) {
    if bytes > 0 {
        let first_group = *before >> BITMAP_GROUP_LOG2;
        streams.push(StreamSpan { first_group, groups: bytes >> BITMAP_GROUP_LOG2, free_symbol: 0 });
        *before += u64::from(bytes);
    }
}

/// The codes of a batch.
#[derive(Debug)]
pub struct Codes<'v, 'a> {
    /// From each chunk's slots on. Those with the usual radius are gone afterwards: what they are encoded to takes
    /// their place, until it is written.
    pub codes: &'v mut CudaViewMut<'a, u16>,
    /// The class of each group, if the index is [`IndexKind::Symbol`].
    pub classes: Option<&'v CudaView<'v, u8>>,
}

/// Bitmaps of masks and signs, each chunk's from where the plan says.
#[derive(Debug, Default)]
pub struct Bitmaps<'a> {
    /// Masks.
    pub masks: Option<CudaView<'a, u8>>,
    /// Signs.
    pub signs: Option<CudaView<'a, u8>>,
}

/// Codes of a batch as LZSS tokens.
pub(crate) struct TokenCodes<'t> {
    /// What records are made of where there are tokens.
    pub lists: &'t TokenLists<'t>,
    /// Writes the tokens of those chunks that have a place in the output.
    pub write: &'t mut TokenWriter<'t>,
}

/// Takes the place of each chunk's section of codes, if these are tokens.
pub(crate) type TokenWriter<'t> =
    dyn FnMut(&[Option<u64>], &mut CudaViewMut<'_, u8>, &mut Observer<'_>) -> Result<()> + 't;

/// Makes records of quantized chunks.
#[derive(Debug)]
pub struct Assembler<'d> {
    device: &'d Device,
    format: Format,
    narrow: Coder<u16>,
    /// Made when first needed: kernels for them take a while to compile.
    wide: Option<Coder<u16>>,
    masks: Option<Coder<u8>>,
    signs: Option<Coder<u8>>,
    records: RecordWriter,
    end: StreamEnd,
    /// Parts that quantizing sums a chunk's tiles up in.
    sums_of_chunk: u32,
}

/// The codes of a batch, laid out but not yet written.
pub struct Begun<'a> {
    prepared: Prepared<'a>,
    narrow: Option<Layout<'a>>,
}

impl<'d> Assembler<'d> {
    /// For streams with this index and these groups, of elements of 4 or 8 bytes.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`](crate::CudaError::InvalidArgument) for other elements or groups; errors of
    /// [`Device::kernel`].
    pub fn new(device: &'d Device, index: IndexKind, group_log2: u8, element_bytes: u32) -> Result<Self> {
        let classes = index == IndexKind::Symbol;
        let format = Format { symbol_bytes: 2, group_log2, alphabet: NARROW_ALPHABET, classes, index };
        Ok(Self {
            device,
            format,
            narrow: Coder::new(device, format)?,
            wide: None,
            masks: None,
            signs: None,
            records: RecordWriter::new(device, element_bytes, group_log2)?,
            end: StreamEnd::new(device)?,
            sums_of_chunk: parts_of_chunk(device),
        })
    }

    /// Whether it is for streams with this index, these groups and elements.
    pub fn is_for(&self, index: IndexKind, group_log2: u8, element_bytes: u32) -> bool {
        (self.format.index, self.format.group_log2, self.records.element_bytes()) == (index, group_log2, element_bytes)
    }

    /// Bytes of device memory held from batch to batch.
    pub fn device_bytes(&self) -> u64 {
        let coders =
            [Some(&self.narrow), self.wide.as_ref()].into_iter().flatten().filter_map(|coder| coder.room.as_ref());
        let bitmaps = [&self.masks, &self.signs].into_iter().flatten().filter_map(|coder| coder.room.as_ref());
        coders.chain(bitmaps).map(|room| room.books.device_bytes()).sum()
    }

    /// Room for what quantizing leaves of a batch for its records. `streams` is the number of chunks of the largest
    /// batch, so that what is allocated for one serves them all.
    ///
    /// # Errors
    /// [`CudaError`](crate::CudaError)
    pub fn prepare<'a>(&mut self, frame: &mut Frame<'a>, batch: &ChunkBatch, streams: u32) -> Result<Prepared<'a>> {
        let stream = frame.stream().clone();
        let groups = batch.first_slot(batch.chunks());
        let room = self.narrow.on_device(&stream, streams.max(batch.chunks()).max(1), batch.slots(), groups)?;
        let element_bytes = self.records.element_bytes();
        Prepared::new(frame, batch.chunks(), self.sums_of_chunk, &mut room.batch, element_bytes)
    }

    /// Takes what quantizing would leave from the host, for chunks that were quantized elsewhere: their summaries,
    /// those of raw chunks cleared, what their tiles come to, and their smallest codes, but for 0, and largest.
    ///
    /// # Errors
    /// [`CudaError`](crate::CudaError)
    pub fn upload(
        &mut self,
        stream: &Arc<CudaStream>,
        prepared: &mut Prepared<'_>,
        batch: &ChunkBatch,
        summaries: &[ChunkSummary],
        sums: &[TileSums],
        extremes: &[[u16; 2]],
    ) -> Result<()> {
        let span = |(chunk, summary): (u32, &ChunkSummary)| StreamSpan {
            first_group: batch.first_slot(chunk),
            groups: if summary.radius == RADIUS { summary.groups } else { 0 },
            free_symbol: RADIUS as u16,
        };
        let spans: Vec<_> = (0..).zip(summaries).map(span).collect();
        if let Some(room) = &mut self.narrow.room {
            room.batch.list(stream, &spans, extremes)?;
        }
        prepared.upload(stream, sums)
    }

    /// Builds the codebooks of all chunks that will not take the wide radius, and lays out their codes: needs nothing
    /// that the host has yet to learn.
    ///
    /// # Errors
    /// [`CudaError`](crate::CudaError)
    pub fn begin<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        prepared: Prepared<'a>,
        codes: Codes<'_, '_>,
        observer: &mut Observer<'_>,
    ) -> Result<Begun<'a>> {
        let Codes { codes, classes } = codes;
        Ok(Begun { prepared, narrow: self.narrow.lay_out_in_place(frame, codes, classes, observer)? })
    }

    /// Writes the records of a batch with these summaries that was begun with `codes`, whose memory is used for what
    /// hashing takes at last. `first` is the number of its first chunk in `progress`.
    ///
    /// # Errors
    /// [`CudaError`](crate::CudaError)
    #[expect(clippy::too_many_arguments, reason = "the batch in its parts, and where they go")]
    pub fn finish<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        begun: Begun<'a>,
        plan: &BatchPlan,
        summaries: &CudaView<'_, ChunkSummary>,
        codes: &mut CudaViewMut<'_, u16>,
        bitmaps: &Bitmaps<'_>,
        contents: &Contents<'_>,
        progress: &mut Progress,
        first: u64,
        output: &mut CudaViewMut<'_, u8>,
        observer: &mut Observer<'_>,
    ) -> Result<()> {
        self.finish_with(
            frame, begun, plan, summaries, codes, bitmaps, contents, None, progress, first, output, observer,
        )
    }

    /// Bytes of the Huffman stream of each chunk's codes with the usual radius, of a batch that was begun. Waits for
    /// the stream.
    pub(crate) fn code_lengths(&mut self, stream: &Arc<CudaStream>) -> Result<Vec<u32>> {
        let Some(narrow) = self.narrow.encoded() else { return Ok(Vec::new()) };
        Ok(narrow.read_plans(stream)?.iter().map(|plan| plan.stream_bytes).collect())
    }

    /// [`Self::finish`], with codes as LZSS tokens where that makes the record shorter.
    #[expect(clippy::too_many_arguments, reason = "the batch in its parts, and where they go")]
    pub(crate) fn finish_with<'a>(
        &mut self,
        frame: &mut Frame<'a>,
        begun: Begun<'a>,
        plan: &BatchPlan,
        summaries: &CudaView<'_, ChunkSummary>,
        codes: &mut CudaViewMut<'_, u16>,
        bitmaps: &Bitmaps<'_>,
        contents: &Contents<'_>,
        tokens: Option<TokenCodes<'_>>,
        progress: &mut Progress,
        first: u64,
        output: &mut CudaViewMut<'_, u8>,
        observer: &mut Observer<'_>,
    ) -> Result<()> {
        let stream = frame.stream().clone();
        let wide_format = Format { alphabet: WIDE_ALPHABET, classes: false, ..self.format };
        let bitmap_format = Format {
            symbol_bytes: 1,
            group_log2: BITMAP_GROUP_LOG2,
            alphabet: 256,
            classes: false,
            index: IndexKind::None,
        };
        let wide =
            listed(self.device, &mut self.wide, wide_format, frame, Some(&codes.as_view()), &plan.wide, observer)?;
        let masks_view = bitmaps.masks.as_ref();
        let masks = listed(self.device, &mut self.masks, bitmap_format, frame, masks_view, &plan.masks, observer)?;
        let signs_view = bitmaps.signs.as_ref();
        let signs = listed(self.device, &mut self.signs, bitmap_format, frame, signs_view, &plan.signs, observer)?;

        let room = output.len() as u64;
        let Begun { mut prepared, narrow } = begun;
        let Some(encoded) = self.narrow.encoded() else { return Ok(()) };
        let mut streams = Streams {
            narrow: encoded,
            done: narrow.as_ref().map_or(0, Layout::streams_done),
            spans: narrow.as_ref().map_or(0, Layout::spans),
            groups_of_block: narrow.as_ref().map_or(1, Layout::groups_of_block),
            wide: self.wide.as_mut().and_then(Coder::encoded),
            masks: self.masks.as_mut().and_then(Coder::encoded),
            signs: self.signs.as_mut().and_then(Coder::encoded),
        };
        let (lists, write_tokens) = tokens.map_or((None, None), |tokens| (Some(tokens.lists), Some(tokens.write)));
        let any = plan.lists;
        let mut layout = self.records.lay_out(
            frame,
            contents,
            &prepared,
            summaries,
            &mut streams,
            lists,
            any,
            progress,
            first,
            room,
        )?;
        observer("record_layout")?;
        let token_places = write_tokens.is_some().then(|| layout.read_token_places(&stream)).transpose()?;
        // Codes and the rest of the records side by side: these are a few blocks of many steps, and begin first.
        let laid_out = progress.laid_out();
        self.records.write(&stream, contents, &mut layout, lists, laid_out, output)?;
        let unwritten = layout.unwritten(&stream);
        self.narrow.write(
            &stream,
            narrow,
            output,
            Beside { laid_out, unwritten, most_groups: plan.most_groups },
            observer,
        )?;
        let beside = Beside { laid_out, unwritten: 0, most_groups: u32::MAX };
        for (coder, layout) in [(&mut self.masks, masks), (&mut self.signs, signs)] {
            if let Some(coder) = coder {
                coder.write(&stream, layout, output, beside, observer)?;
            }
        }
        if let Some(coder) = &mut self.wide {
            coder.write(&stream, wide, output, beside, observer)?;
        }
        if let (Some(write), Some(places)) = (write_tokens, &token_places) {
            write(places, output, observer)?;
        }
        observer("record_write")?;
        let chunk_bytes = contents.most_chunk_elements() * u64::from(self.records.element_bytes());
        let longest = (RECORD_HEADER_LEN as u64 + chunk_bytes).next_multiple_of(16);
        self.records.sign(frame, &mut prepared, &mut layout, progress, longest as u32, output, codes)?;
        observer("container_hash")
    }

    /// Writes the header in front of the records, the chunk table and the trailer behind them, beside the hashing of
    /// the last batch on `stream`.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`](crate::CudaError::InvalidArgument) if there are other chunks;
    /// [`CudaError::Driver`](crate::CudaError::Driver).
    pub fn finish_stream(
        &self,
        stream: &Arc<CudaStream>,
        progress: &mut Progress,
        header: &[u8; HEADER_LEN],
        chunks: u64,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        self.end.finish(stream, progress, header, chunks, output)
    }
}

/// Lays out streams that only some batches have.
fn listed<'a, S: Symbol>(
    device: &Device,
    coder: &mut Option<Coder<S>>,
    format: Format,
    frame: &mut Frame<'a>,
    symbols: Option<&CudaView<'_, S>>,
    streams: &[StreamSpan],
    observer: &mut Observer<'_>,
) -> Result<Option<Layout<'a>>> {
    let Some(symbols) = symbols.filter(|_| !streams.is_empty()) else {
        // What an earlier batch left there is not this one's.
        if let Some(coder) = coder {
            coder.room = None;
        }
        return Ok(None);
    };
    let coder = match coder {
        Some(coder) => coder,
        None => coder.insert(Coder::new(device, format)?),
    };
    coder.lay_out_listed(frame, symbols, streams, observer)
}
