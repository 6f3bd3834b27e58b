//! Arrays in device memory to lossless streams of LZSS chunks.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut};
use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::{Bound, Resolved};
use syncline_core::container::{ALIGNMENT, HEADER_LEN, Header, table_and_trailer};
use syncline_core::geometry::Geometry;
use syncline_core::huffman::IndexKind;
use syncline_core::lzss::SymbolWidth;
use syncline_core::pipeline::{ChunkSummary, LosslessOptions, LosslessPipeline, LzssChoice, choose_lzss, lzss_sample};

use super::pieces::{Copies, Patches, Pieces};
use super::planes::{PlaneEncoder, WordEncoder};
use super::records::{BLOCKS, ChunkPlanes, PARAMETER_BYTES, PlaneList, Record};
use super::tiles::{NO_PLACE, Summary, Tiles};
use crate::container::assemble::Observer;
use crate::container::hash::{self, Gap, Hasher};
use crate::device::{Arena, Device, Frame};
use crate::error::{CudaError, DriverContext, Result};
use crate::geometry::{ChunkBatch, Slab};
use crate::huffman::encode::{self, StreamSpan};
use crate::lzss::{Batch, Encoder, Form, Found, Method, Plan, Span, WORD_PLANES};
use crate::pipeline::{ChunkRecords, Compressed, max_compressed_len};

/// Bytes of elements of a batch.
const BATCH_BYTES: u64 = 256 << 20;

/// Whether lossless streams of this kind are made and read here.
pub fn is_supported(pipeline: LosslessPipeline) -> bool {
    matches!(pipeline, LosslessPipeline::Lzss | LosslessPipeline::LzssHuffman)
}

/// Compresses arrays without loss on one stream of a device. Keeps its workspace from call to call.
#[derive(Debug)]
pub struct LosslessCompressor<'d> {
    device: &'d Device,
    stream: Arc<CudaStream>,
    arena: Arena,
    batch_bytes: u64,
    pieces: Pieces,
    hasher: Hasher,
    tiles: Option<(ElementType, Shape, Tiles)>,
    encoders: HashMap<(SymbolWidth, u8), Encoder>,
    bytes: Option<PlaneEncoder<u8>>,
    words: Option<WordEncoder<'d>>,
}

/// What all batches of a stream have in common.
#[derive(Clone, Copy)]
struct Job<'j> {
    header: &'j Header,
    geometry: &'j Geometry,
    options: &'j LosslessOptions,
    slab: &'j Slab<'j>,
}

/// Chunks of a batch that are coded alike.
struct Group<'a> {
    /// Their numbers in the batch.
    chunks: Vec<usize>,
    batch: Batch,
    found: Found<'a>,
    /// The first of them in the list of all plans.
    first_plan: usize,
    width: SymbolWidth,
}

impl<'d> LosslessCompressor<'d> {
    /// A compressor whose work goes to `stream`.
    ///
    /// # Errors
    /// Errors of [`Device::kernel`].
    pub fn new(device: &'d Device, stream: &Arc<CudaStream>) -> Result<Self> {
        Ok(Self {
            device,
            stream: stream.clone(),
            arena: Arena::new(stream.clone()),
            batch_bytes: BATCH_BYTES,
            pieces: Pieces::new(device)?,
            hasher: Hasher::new(device)?,
            tiles: None,
            encoders: HashMap::new(),
            bytes: None,
            words: None,
        })
    }

    /// Works in batches of about so many bytes of elements: less workspace, more launches.
    #[must_use]
    pub fn with_batch_bytes(self, bytes: u64) -> Self {
        Self { batch_bytes: bytes.max(1), ..self }
    }

    /// Bytes of device memory held between calls.
    pub fn workspace_bytes(&self) -> u64 {
        self.arena.capacity() as u64
    }

    /// Compresses an array, given as little-endian bytes, into `output`, which has room for [`max_compressed_len`] bytes or as many as the stream turns out to have.
    ///
    /// # Errors
    /// [`CudaError::Unsupported`] for another pipeline than LZSS alone or before Huffman, [`CudaError::NoRoom`]; [`CudaError::InvalidArgument`] if lengths or alignment
    /// do not fit; [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn compress(
        &mut self,
        input: &CudaView<'_, u8>,
        element_type: ElementType,
        shape: Shape,
        index: IndexKind,
        options: &LosslessOptions,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<Compressed> {
        self.compress_observed(input, element_type, shape, index, options, output, &mut |_| Ok(()))
    }

    /// [`Self::compress`] that calls `observer` with a name after each launch, or after some launches together: a bench records events there.
    ///
    /// # Errors
    /// As [`Self::compress`], or what `observer` returns.
    #[expect(clippy::too_many_arguments, reason = "those of `compress`, and the observer")]
    pub fn compress_observed(
        &mut self,
        input: &CudaView<'_, u8>,
        element_type: ElementType,
        shape: Shape,
        index: IndexKind,
        options: &LosslessOptions,
        output: &mut CudaViewMut<'_, u8>,
        observer: &mut Observer<'_>,
    ) -> Result<Compressed> {
        let bytes = shape.len().saturating_mul(element_type.size() as u64);
        if input.len() as u64 != bytes {
            let problem = format!("{shape} of {element_type} has {bytes} bytes, not {}", input.len());
            return Err(CudaError::invalid(problem));
        }
        let (resolved, geometry) = (Resolved::lossless(), Geometry::new(shape));
        let header = Header::new(element_type, shape, index, &resolved);
        let available = output.len() as u64;
        if available < HEADER_LEN as u64 {
            return Err(CudaError::NoRoom { needed: max_compressed_len(element_type, shape), available });
        }
        let slab = Slab { bytes: input.slice(..), first_element: 0 };
        let job = Job { header: &header, geometry: &geometry, options, slab: &slab };
        let lengths = self.records(job, 0..geometry.chunks(), HEADER_LEN as u64, output, observer)?;
        let end = HEADER_LEN as u64 + lengths.iter().map(|&length| u64::from(length)).sum::<u64>();
        let table = table_and_trailer(&lengths);
        let needed = end + table.len() as u64;
        if needed > available {
            return Err(CudaError::NoRoom { needed, available });
        }
        let mut put = |at: u64, bytes: &[u8]| {
            let range = at as usize..at as usize + bytes.len();
            self.stream.memcpy_htod(bytes, &mut output.slice_mut(range)).doing("writing the chunk table")
        };
        put(0, &header.to_bytes())?;
        put(end, &table)?;
        self.stream.synchronize().doing("waiting for compression")?;
        observer("table")?;
        Ok(Compressed { bytes: needed, header, resolved })
    }

    /// Writes the records of some chunks to the start of `output`, one after another: no header and no table. `slab` has their elements.
    ///
    /// # Errors
    /// As [`Self::compress`].
    pub fn compress_chunks(
        &mut self,
        header: &Header,
        geometry: &Geometry,
        options: &LosslessOptions,
        chunks: Range<u64>,
        slab: &Slab<'_>,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<ChunkRecords> {
        let job = Job { header, geometry, options, slab };
        let lengths = self.records(job, chunks, 0, output, &mut |_| Ok(()))?;
        self.stream.synchronize().doing("waiting for compression")?;
        Ok(ChunkRecords { lengths, errors: ChunkSummary::default() })
    }

    /// Writes the records of some chunks from byte `start` of the output on; their lengths.
    fn records(
        &mut self,
        job: Job<'_>,
        chunks: Range<u64>,
        start: u64,
        output: &mut CudaViewMut<'_, u8>,
        observer: &mut Observer<'_>,
    ) -> Result<Vec<u32>> {
        if !is_supported(job.options.pipeline) {
            return Err(CudaError::Unsupported(format!(
                "pipeline {} is done on the CPU: the GPU has lzss and lzss+huffman",
                job.options.pipeline
            )));
        }
        job.options.validate(Bound::Lossless)?;
        if !output.device_ptr_mut(&self.stream).0.is_multiple_of(ALIGNMENT as u64) {
            return Err(CudaError::invalid("the output must start on a multiple of 16 bytes"));
        }
        if chunks.start > chunks.end || chunks.end > job.geometry.chunks() {
            return Err(CudaError::invalid(format!("chunks {chunks:?} of {}", job.geometry.chunks())));
        }
        self.prepare(job)?;
        let slot = self.tiles.as_ref().map_or(1, |(.., tiles)| tiles.slot_bytes()).max(1);
        let step = (self.batch_bytes / slot).clamp(1, 1 << 16);
        let samples = self.samples(job, &chunks)?;
        observer("samples")?;
        let next = AtomicUsize::new(0);
        // What the next batches' chunks are like is looked at while the device works on one.
        std::thread::scope(|scope| {
            let (made, choices) = channel();
            // Threads of our own: whoever waits for this may be one of a pool's, perhaps its only one.
            let threads = std::thread::available_parallelism().map_or(1, usize::from).min(samples.chunks.len());
            for _ in 0..threads {
                let (samples, next, made) = (&samples, &next, made.clone());
                scope.spawn(move || samples.choose(job, next, &made));
            }
            drop(made);
            let mut chosen = vec![None; samples.chunks.len()];
            let mut lengths = Vec::new();
            let mut at = start;
            for batch in batches_of(&chunks, step) {
                let own = (batch.start - chunks.start) as usize..(batch.end - chunks.start) as usize;
                while chosen[own.clone()].contains(&None) {
                    let (chunk, choice) =
                        choices.recv().map_err(|_| CudaError::invalid("nobody chose how chunks are coded"))?;
                    chosen[chunk] = Some(choice);
                }
                let choices: Vec<LzssChoice> = chosen[own].iter().copied().flatten().collect();
                observer("host: choice")?;
                let own = self.batch(job, batch, &choices, at, output, observer)?;
                at += own.iter().map(|&length| u64::from(length)).sum::<u64>();
                lengths.extend(own);
            }
            Ok(lengths)
        })
    }

    /// The samples of some chunks, if the slab has them.
    fn samples(&mut self, job: Job<'_>, chunks: &Range<u64>) -> Result<Samples> {
        let Some((.., tiles)) = &self.tiles else { return Err(CudaError::invalid("no stream was begun")) };
        for ends in [chunks.start..chunks.end.min(chunks.start + 1), chunks.end.max(chunks.start + 1) - 1..chunks.end] {
            let batch = ChunkBatch::new(job.geometry, 7, ends)?;
            job.slab.check(job.geometry, &batch, tiles.element_bytes() as u32)?;
        }
        Samples::take(&mut self.arena.frame()?, tiles, job, chunks.clone())
    }

    /// Makes what the stream needs and is not there from the one before.
    fn prepare(&mut self, job: Job<'_>) -> Result<()> {
        let Header { element_type, shape, index, .. } = *job.header;
        if self.tiles.as_ref().is_none_or(|(element, of, _)| (*element, *of) != (element_type, shape)) {
            self.tiles = Some((element_type, shape, Tiles::new(self.device, element_type, job.geometry)?));
        }
        if job.options.pipeline == LosslessPipeline::LzssHuffman {
            if self.bytes.as_ref().is_none_or(|encoder| encoder.index() != index) {
                self.bytes = Some(PlaneEncoder::new(self.device, index, 1 << 8)?);
            }
            if self.words.as_ref().is_none_or(|encoder| encoder.index() != index) {
                self.words = Some(WordEncoder::new(self.device, index));
            }
        }
        Ok(())
    }

    /// Writes the records of a batch, coded as `choices` say, from byte `at` of the output on; their lengths.
    fn batch(
        &mut self,
        job: Job<'_>,
        chunks: Range<u64>,
        choices: &[LzssChoice],
        at: u64,
        output: &mut CudaViewMut<'_, u8>,
        observer: &mut Observer<'_>,
    ) -> Result<Vec<u32>> {
        let Some((.., tiles)) = &self.tiles else { return Err(CudaError::invalid("no stream was begun")) };
        let stream = self.stream.clone();
        let batch = ChunkBatch::new(job.geometry, 7, chunks.clone())?;
        job.slab.check(job.geometry, &batch, tiles.element_bytes() as u32)?;
        let mut frame = self.arena.frame()?;
        let (slots, _in_order) = tiles.in_order(&mut frame, &batch, job.slab)?;
        observer("tile order")?;

        let chosen: Vec<u32> = choices.iter().map(|choice| choice.of_residuals.into()).collect();
        let mut predicted = None;
        let mut summaries = vec![Summary::default(); choices.len()];
        let mut residuals = None;
        if chosen.contains(&1) {
            let chosen = stream.clone_htod(&chosen).doing("listing chunks")?;
            let mut tiles_predicted = tiles.predict(&mut frame, &batch, slots, &chosen.as_view())?;
            let written = tiles.residuals(&mut frame, &batch, slots, &chosen.as_view(), &mut tiles_predicted)?;
            summaries = stream.clone_dtoh(&tiles_predicted.summaries).doing("reading sums over tiles")?;
            stream.synchronize().doing("reading sums over tiles")?;
            residuals = Some(written);
            predicted = Some(tiles_predicted);
            observer("prediction")?;
        }

        // Tokens of all chunks, by symbol width and input.
        let mut by_kind: BTreeMap<(bool, SymbolWidth), Vec<usize>> = BTreeMap::new();
        for (number, choice) in choices.iter().enumerate() {
            by_kind.entry((choice.of_residuals, choice.params.width)).or_default().push(number);
        }
        let mut device_plans = frame.slice::<Plan>(choices.len())?;
        let mut groups = Vec::new();
        let mut first_plan = 0;
        for ((of_residuals, width), numbers) in by_kind {
            let level = job.options.level;
            let encoder = match self.encoders.entry((width, level)) {
                std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(Encoder::new(self.device, width, level, Method::Linked)?)
                }
            };
            let span = |&number: &usize| {
                let elements = match of_residuals {
                    true => u64::from(summaries[number].live_elements),
                    false => tiles.elements_of(&batch, number as u32),
                };
                Span {
                    offset: number as u64 * slots.stride,
                    bytes: elements * tiles.element_bytes(),
                    min_match: choices[number].params.min_match,
                    chunk: chunks.start + number as u64,
                }
            };
            let spans: Vec<Span> = numbers.iter().map(span).collect();
            let lzss_batch = Batch::new(&stream, width, level, Form::Sections, &spans)?;
            let pointer =
                residuals.as_ref().filter(|_| of_residuals).map_or(slots.pointer, |view| view.device_ptr(&stream).0);
            let mut plans = device_plans.slice_mut(first_plan..first_plan + numbers.len());
            let found = encoder.find_at(&mut frame, pointer, &lzss_batch, &mut plans, observer)?;
            groups.push(Group { batch: lzss_batch, found, first_plan, width, chunks: numbers });
            first_plan += groups.last().map_or(0, |group| group.chunks.len());
        }
        let plans = stream.clone_dtoh(&device_plans).doing("reading the plans")?;
        stream.synchronize().doing("reading the plans")?;

        // Planes, and what they come to.
        let level = job.options.level;
        let params_of = |number: usize| choices[number].params;
        let coded = job.options.pipeline == LosslessPipeline::LzssHuffman;
        let (mut byte_list, mut word_list) = (PlaneList::default(), PlaneList::default());
        let mut planes: Vec<ChunkPlanes> = vec![ChunkPlanes::default(); choices.len()];
        let mut laid_out = None;
        if coded {
            for group in &groups {
                for (i, &number) in group.chunks.iter().enumerate() {
                    let plan = &plans[group.first_plan + i];
                    planes[number] = ChunkPlanes::new(plan, &params_of(number), &mut byte_list, &mut word_list);
                }
            }
        }
        let mut bytes = frame.slice::<u8>(byte_list.symbols as usize)?;
        let mut words = frame.slice::<u16>(word_list.symbols as usize)?;
        if let (true, Some(byte_encoder), Some(word_encoder)) = (coded, &mut self.bytes, &mut self.words) {
            let mut greatest = frame.zeros::<u32>(choices.len() * WORD_PLANES)?;
            for group in &mut groups {
                let starts: Vec<_> = group.chunks.iter().map(|&number| planes[number].starts()).collect();
                let starts = stream.clone_htod(&starts).doing("placing planes")?;
                let end = group.first_plan + group.chunks.len();
                let own = device_plans.slice(group.first_plan..end);
                let encoder = &self.encoders[&(group.width, level)];
                let mut greatest = greatest.slice_mut(WORD_PLANES * group.first_plan..WORD_PLANES * end);
                let starts = &starts.as_view();
                let Group { batch, found, .. } = group;
                encoder.write_planes(&stream, batch, found, &own, starts, &mut bytes, &mut words, &mut greatest)?;
            }
            observer("planes")?;
            let greatest = stream.clone_dtoh(&greatest).doing("reading the greatest symbols")?;
            stream.synchronize().doing("reading the greatest symbols")?;
            let mut of_streams = vec![0; word_list.streams.len()];
            for group in &groups {
                for (&number, greatest) in
                    group.chunks.iter().zip(greatest[WORD_PLANES * group.first_plan..].chunks(WORD_PLANES))
                {
                    for (plane, &greatest) in planes[number].words.iter().zip(greatest) {
                        plane.stream.into_iter().for_each(|stream| of_streams[stream] = greatest);
                    }
                }
            }
            let spans = |list: &PlaneList| -> Vec<StreamSpan> {
                let span = |&(first_group, groups)| StreamSpan { first_group, groups, free_symbol: 0 };
                list.streams.iter().map(span).collect()
            };
            let of_bytes = byte_encoder.lay_out(&mut frame, &bytes.as_view(), &spans(&byte_list), observer)?;
            let spans = spans(&word_list);
            let of_words = word_encoder.lay_out(&mut frame, &words.as_view(), &spans, &of_streams, observer)?;
            laid_out = Some((of_bytes, of_words));
        }

        // Where everything goes.
        let none: &[encode::Plan] = &[];
        let huffman = laid_out.as_ref().map_or((none, none), |(bytes, words)| (&bytes.plans[..], &words.plans[..]));
        let mut layout = Layout::new(choices.len(), byte_list.streams.len(), word_list.streams.len());
        for group in &groups {
            for (i, &number) in group.chunks.iter().enumerate() {
                let tile_count = batch.tiles_of(number as u32).len() as u32;
                let tile_sections = match choices[number].of_residuals {
                    true => summaries[number].section_bytes(tile_count),
                    false => [0; 2],
                };
                let elements = tiles.elements_of(&batch, number as u32) * tiles.element_bytes();
                let own = coded.then_some(&planes[number]);
                let record = Record::new(&plans[group.first_plan + i], own, huffman, tile_sections, elements);
                layout.records[number] = Some((record, elements));
            }
        }
        layout.place(at, output.len() as u64)?;
        let (output_pointer, _) = output.device_ptr_mut(&stream);
        let (byte_pointer, word_pointer) = (bytes.device_ptr(&stream).0, words.device_ptr(&stream).0);
        for group in &mut groups {
            let counts = group.found.counts.device_ptr(&stream).0;
            for (i, &number) in group.chunks.iter().enumerate() {
                let Some((record, elements)) = &layout.records[number] else { continue };
                let place = layout.places[number];
                let params = params_of(number);
                record.patch(place, chunks.start + number as u64, *elements, &params, &mut layout.patches);
                if record.is_raw {
                    let from = slots.pointer + number as u64 * slots.stride;
                    layout.copies.add(from, output_pointer + place + 32, *elements);
                    continue;
                }
                if choices[number].of_residuals {
                    layout.tile_places[number] = place + record.section_at(0);
                }
                let (first, blocks) = group.batch.blocks_of(i);
                let to = output_pointer + place + record.section_at(BLOCKS) + PARAMETER_BYTES;
                layout.copies.add(counts + 8 * u64::from(first), to, 8 * u64::from(blocks));
                layout.section_places[number] = place + record.section_at(BLOCKS);
                for (plane, offset) in record.planes() {
                    let (streams, pointer) = match plane.symbol_bytes {
                        1 => (&mut layout.byte_places, byte_pointer),
                        _ => (&mut layout.word_places, word_pointer),
                    };
                    match plane.plane.stream.filter(|_| plane.coded) {
                        Some(stream) => streams[stream] = place + offset,
                        None => {
                            let from = pointer + plane.plane.start * plane.symbol_bytes;
                            layout.copies.add(from, output_pointer + place + offset, plane.bytes);
                        }
                    }
                }
            }
        }
        observer("host: layout")?;

        // Writing.
        self.pieces.patch(&stream, &layout.patches, output)?;
        self.pieces.copy(&stream, &layout.copies)?;
        observer("patches and copies")?;
        if let Some(predicted) = &mut predicted {
            let places = stream.clone_htod(&layout.tile_places).doing("placing sections")?;
            tiles.sections(&stream, &batch, predicted, &places.as_view(), output)?;
            observer("tile sections")?;
        }
        match (laid_out, &mut self.bytes, &mut self.words) {
            (Some((of_bytes, of_words)), Some(byte_encoder), Some(word_encoder)) => {
                byte_encoder.write(&frame, of_bytes, &layout.byte_places, output, observer)?;
                word_encoder.write(&frame, of_words, &layout.word_places, output, observer)?;
            }
            _ => {
                for group in &mut groups {
                    let places: Vec<u64> = group.chunks.iter().map(|&number| layout.section_places[number]).collect();
                    let places = stream.clone_htod(&places).doing("placing sections")?;
                    let own = device_plans.slice(group.first_plan..group.first_plan + group.chunks.len());
                    let encoder = &self.encoders[&(group.width, level)];
                    let Group { batch, found, .. } = group;
                    encoder.write_sections(&stream, batch, found, &own, &places.as_view(), output)?;
                }
                observer("sections")?;
            }
        }
        layout.sign(&mut frame, &self.hasher, output)?;
        observer("hash")?;
        Ok(layout.lengths())
    }
}

/// Where the parts of a batch's records go.
struct Layout {
    /// Each chunk's record, and its elements' bytes.
    records: Vec<Option<(Record, u64)>>,
    places: Vec<u64>,
    patches: Patches,
    copies: Copies,
    /// Of sections 0; of sections 2; of Huffman streams.
    tile_places: Vec<u64>,
    section_places: Vec<u64>,
    byte_places: Vec<u64>,
    word_places: Vec<u64>,
}

impl Layout {
    fn new(chunks: usize, byte_streams: usize, word_streams: usize) -> Self {
        Self {
            records: (0..chunks).map(|_| None).collect(),
            places: Vec::new(),
            patches: Patches::default(),
            copies: Copies::default(),
            tile_places: vec![NO_PLACE; chunks],
            section_places: vec![NO_PLACE; chunks],
            byte_places: vec![encode::NO_PLACE; byte_streams],
            word_places: vec![encode::NO_PLACE; word_streams],
        }
    }

    fn lengths(&self) -> Vec<u32> {
        // A record is no longer than its chunk raw, which has at most 2^25 bytes.
        self.records.iter().map(|record| record.as_ref().map_or(0, |(record, _)| record.bytes as u32)).collect()
    }

    /// Places the records one after another from `at` on, if there is room.
    fn place(&mut self, at: u64, room: u64) -> Result<()> {
        let mut end = at;
        for length in self.lengths() {
            self.places.push(end);
            end += u64::from(length);
        }
        if end > room {
            return Err(CudaError::NoRoom { needed: end, available: room });
        }
        Ok(())
    }

    /// Writes the records' hashes.
    fn sign(&self, frame: &mut Frame<'_>, hasher: &Hasher, output: &mut CudaViewMut<'_, u8>) -> Result<()> {
        let stream = frame.stream().clone();
        let lengths = self.lengths();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let starts: CudaSlice<u64> = stream.clone_htod(&self.places).doing("listing records")?;
        let lengths: CudaSlice<u32> = stream.clone_htod(&lengths).doing("listing records")?;
        let (starts, lengths) = (starts.as_view(), lengths.as_view());
        hasher.sign(frame, output, &hash::Pieces { starts: &starts, lengths: &lengths, longest, gap: Gap::RECORD })
    }
}

/// Chunks in batches of up to `most`: smaller ones first, so that the device has work soon after the first are chosen for.
fn batches_of(chunks: &Range<u64>, most: u64) -> Vec<Range<u64>> {
    let (mut batches, mut first) = (Vec::new(), chunks.start);
    let mut step = (most / 4).max(1);
    while first < chunks.end {
        let end = chunks.end.min(first + step);
        batches.push(first..end);
        (first, step) = (end, most.min(2 * step));
    }
    batches
}

/// The samples of chunks, on the host.
struct Samples {
    bytes: Vec<u8>,
    /// Of each chunk its number of elements, its runs of tiles, and where their bytes are.
    chunks: Vec<(u64, Vec<Range<u64>>, Range<usize>)>,
}

impl Samples {
    /// Takes the samples of chunks, all at once: a small part of what the chunks have.
    fn take(frame: &mut Frame<'_>, tiles: &Tiles, job: Job<'_>, chunks: Range<u64>) -> Result<Self> {
        let (size, level) = (tiles.element_bytes(), job.options.level);
        let mut end = 0;
        let chunk = |chunk| {
            let runs = lzss_sample(job.geometry, chunk, size as usize, level);
            let bytes = runs.iter().map(|run| tiles.elements_in(run) * size).sum::<u64>() as usize;
            end += bytes;
            (tiles.elements_in(&job.geometry.chunk_range(chunk)), runs, end - bytes..end)
        };
        let chunks: Vec<_> = chunks.map(chunk).collect();
        let runs: Vec<Range<u64>> = chunks.iter().flat_map(|(_, runs, _)| runs.iter().cloned()).collect();
        let stream = frame.stream().clone();
        let sample = tiles.sample(frame, &runs, job.slab)?;
        let bytes = stream.clone_dtoh(&sample).doing("reading samples")?;
        stream.synchronize().doing("reading samples")?;
        Ok(Self { bytes, chunks })
    }

    /// Chooses how chunks are coded, each time the `next` that nobody has chosen for; `made` takes what was chosen for which. Ends early if nobody listens any more.
    fn choose(&self, job: Job<'_>, next: &AtomicUsize, made: &Sender<(usize, LzssChoice)>) {
        let element = job.header.element_type;
        loop {
            let chunk = next.fetch_add(1, Ordering::Relaxed);
            let Some((elements, runs, bytes)) = self.chunks.get(chunk) else { return };
            let sample = &self.bytes[bytes.clone()];
            let choice = choose_lzss(element, job.geometry, runs, *elements, job.options, sample);
            if made.send((chunk, choice)).is_err() {
                return;
            }
        }
    }
}
