//! Encodes bytes in device memory as tokens, and writes them to records.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaViewMut, DevicePtr};
use syncline_core::lzss::{Params, SymbolWidth};

use super::planes::{LaidOut, PlaneEncoder, WordEncoder, WordsLaidOut};
use super::records::{ChunkPlanes, PARAMETER_BYTES, PlaneList, TokenSections};
use crate::device::{Copies, Device, Frame, Patches, Pinned, Transfer, fetch};
use crate::error::{DriverContext, Result};
use crate::huffman::encode::{self, NO_OFFSET, StreamRange};
use crate::lzss::{Batch, ChunkRange, Encoder, Form, Found, NO_MATCHES, Planes, SectionPlan, WORD_PLANES};

/// The bytes of a chunk that become tokens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source {
    /// Base address, a multiple of 16.
    pub base: CUdeviceptr,
    /// Offset of the bytes from the base address, a multiple of 16.
    pub offset: u64,
    /// Number of bytes. The code that creates a source guarantees that they exist.
    pub bytes: u64,
    /// Parameters of the tokens. The level is the same for all sources.
    pub params: Params,
    /// Whether the tokens may contain matches.
    pub has_matches: bool,
    /// Whether planes of 16-bit symbols may be used instead of planes of bytes.
    pub has_words: bool,
    /// Number of the chunk in the array.
    pub chunk: u64,
}

/// Chunks with the same parameters of tokens.
struct Group<'a> {
    /// Indices of the chunks among the sources.
    sources: Vec<usize>,
    batch: Batch,
    found: Found<'a>,
    /// Index of the first chunk's plan in the list of all plans.
    first_plan: usize,
    encoder: (SymbolWidth, u8),
}

/// The tokens of some chunks, in device memory.
pub(crate) struct FoundTokens<'a> {
    groups: Vec<Group<'a>>,
    /// Plans of the chunks, grouped by parameters.
    device_plans: CudaViewMut<'a, SectionPlan>,
    /// Plans of the chunks in the order of the sources, as in all further fields.
    plans: Vec<SectionPlan>,
    params: Vec<Params>,
    has_words: Vec<bool>,
}

/// Tokens that are split into planes.
struct Split<'a> {
    planes: Vec<ChunkPlanes>,
    bytes: CudaViewMut<'a, u8>,
    words: CudaViewMut<'a, u16>,
    greatest: CudaViewMut<'a, u32>,
    byte_list: PlaneList,
    word_list: PlaneList,
}

/// Planes of tokens that are laid out as Huffman streams but not yet written.
pub(crate) struct LaidOutPlanes<'a> {
    planes: Vec<ChunkPlanes>,
    bytes: CudaViewMut<'a, u8>,
    words: CudaViewMut<'a, u16>,
    of_bytes: LaidOut<'a>,
    of_words: WordsLaidOut<'a>,
}

/// Returns the layout of each chunk's sections of tokens: as planes if `laid_out` is given.
pub(crate) fn sections(found: &FoundTokens<'_>, laid_out: Option<&LaidOutPlanes<'_>>) -> Vec<TokenSections> {
    let none: &[encode::StreamPlan] = &[];
    let plans = laid_out.map_or((none, none), |planes| (&planes.of_bytes.plans[..], &planes.of_words.plans[..]));
    let section = |(source, plan)| {
        let planes = laid_out.map(|planes| &planes.planes[source]);
        TokenSections::new(plan, planes, plans, found.has_words[source])
    };
    found.plans.iter().enumerate().map(section).collect()
}

/// The places of tokens in the output, and all bytes between them that the host knows.
#[derive(Debug)]
pub(crate) struct TokenPlaces {
    pub(super) patches: Patches,
    pub(super) copies: Copies,
    /// Offset of the first section of each source's tokens.
    section_places: Vec<u64>,
    byte_places: Vec<u64>,
    word_places: Vec<u64>,
}

impl TokenPlaces {
    /// Returns places with which no tokens are written.
    pub fn new(found: &FoundTokens<'_>, laid_out: Option<&LaidOutPlanes<'_>>) -> Self {
        let streams = |plans: Option<usize>| vec![NO_OFFSET; plans.unwrap_or(0)];
        Self {
            patches: Patches::default(),
            copies: Copies::default(),
            section_places: vec![NO_OFFSET; found.plans.len()],
            byte_places: streams(laid_out.map(|planes| planes.of_bytes.plans.len())),
            word_places: streams(laid_out.map(|planes| planes.of_words.plans.len())),
        }
    }

    /// Places the sections of a source's tokens from byte `at` of the output on. `output` is the address of the output.
    pub fn place(
        &mut self,
        stream: &Arc<CudaStream>,
        (source, sections): (usize, &TokenSections),
        found: &mut FoundTokens<'_>,
        laid_out: Option<&LaidOutPlanes<'_>>,
        output: CUdeviceptr,
        at: u64,
    ) {
        sections.patch(at, &found.params[source], &mut self.patches);
        self.section_places[source] = at;
        let group = found.groups.iter_mut().find_map(|group| {
            let own = group.sources.iter().position(|&of_group| of_group == source)?;
            Some((group, own))
        });
        if let Some((group, own)) = group {
            let (first, blocks) = group.batch.blocks_of(own);
            let counts = group.found.counts.device_ptr(stream).0 + 8 * u64::from(first);
            self.copies.add(counts, output + at + PARAMETER_BYTES, 8 * u64::from(blocks));
        }
        let Some(laid_out) = laid_out else { return };
        for (plane, offset) in sections.planes() {
            let (streams, pointer) = match plane.symbol_bytes {
                1 => (&mut self.byte_places, laid_out.bytes.device_ptr(stream).0),
                _ => (&mut self.word_places, laid_out.words.device_ptr(stream).0),
            };
            match plane.plane.stream.filter(|_| plane.coded) {
                Some(stream) => streams[stream] = at + offset,
                None => {
                    let from = pointer + plane.plane.start * plane.symbol_bytes;
                    self.copies.add(from, output + at + offset, plane.bytes);
                }
            }
        }
    }
}

/// Encodes many chunks as tokens at once, and writes them.
#[derive(Debug)]
pub(crate) struct TokenEncoder {
    device: Device,
    transfer: Transfer,
    /// Created on first use, because their kernels take a while to compile.
    encoders: HashMap<(SymbolWidth, u8), Encoder>,
    bytes: Option<PlaneEncoder<u8>>,
    words: Option<WordEncoder>,
    /// The largest symbols of planes in host memory.
    greatest: Option<Pinned<u32>>,
}

impl TokenEncoder {
    pub fn new(device: &Device) -> Result<Self> {
        let transfer = Transfer::new(device)?;
        Ok(Self {
            device: device.clone(),
            transfer,
            encoders: HashMap::new(),
            bytes: None,
            words: None,
            greatest: None,
        })
    }

    /// Finds the tokens of at least one chunk. Waits for the device.
    pub fn find<'a>(&mut self, frame: &mut Frame<'a>, sources: &[Source]) -> Result<FoundTokens<'a>> {
        let stream = frame.stream().clone();
        let mut by_kind: BTreeMap<(CUdeviceptr, SymbolWidth, u8), Vec<usize>> = BTreeMap::new();
        for (number, source) in sources.iter().enumerate() {
            let kind = (source.base, source.params.width, source.params.level);
            by_kind.entry(kind).or_default().push(number);
        }
        let mut device_plans = frame.slice::<SectionPlan>(sources.len())?;
        let mut groups: Vec<Group<'a>> = Vec::new();
        let mut first_plan = 0;
        for ((base, width, level), numbers) in by_kind {
            let encoder = match self.encoders.entry((width, level)) {
                std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(Encoder::new(&self.device, width, level)?)
                }
            };
            let range = |&number: &usize| {
                let Source { offset, bytes, params, chunk, has_matches, .. } = sources[number];
                ChunkRange { offset, bytes, min_match: if has_matches { params.min_match } else { NO_MATCHES }, chunk }
            };
            let ranges: Vec<ChunkRange> = numbers.iter().map(range).collect();
            let batch = Batch::new(&stream, width, level, Form::Sections, &ranges)?;
            let mut plans = device_plans.slice_mut(first_plan..first_plan + numbers.len());
            let found = encoder.find_at(frame, base, &batch, &mut plans)?;
            let end = first_plan + numbers.len();
            groups.push(Group { batch, found, first_plan, encoder: (width, level), sources: numbers });
            first_plan = end;
        }
        let by_group = fetch(&stream, &device_plans, "reading the plans")?;
        let mut plans = vec![SectionPlan::default(); sources.len()];
        let order = groups.iter().flat_map(|group| &group.sources);
        order.zip(by_group).for_each(|(&source, plan)| plans[source] = plan);
        let (params, has_words) = sources.iter().map(|source| (source.params, source.has_words)).unzip();
        Ok(FoundTokens { groups, device_plans, plans, params, has_words })
    }

    /// Splits tokens into planes.
    fn split<'a>(&mut self, frame: &mut Frame<'a>, found: &mut FoundTokens<'a>) -> Result<Split<'a>> {
        let stream = frame.stream().clone();
        let (mut byte_list, mut word_list) = (PlaneList::default(), PlaneList::default());
        let of_chunk = |(plan, params)| ChunkPlanes::new(plan, params, &mut byte_list, &mut word_list);
        let planes: Vec<ChunkPlanes> = found.plans.iter().zip(&found.params).map(of_chunk).collect();
        let mut bytes = frame.slice::<u8>(byte_list.symbols as usize)?;
        let mut words = frame.slice::<u16>(word_list.symbols as usize)?;
        let mut greatest = frame.zeros::<u32>(found.plans.len() * WORD_PLANES)?;
        for group in &mut found.groups {
            let starts: Vec<_> = group.sources.iter().map(|&source| planes[source].starts()).collect();
            let starts = frame.upload(&starts)?;
            let end = group.first_plan + group.sources.len();
            let own = found.device_plans.slice(group.first_plan..end);
            let encoder = &self.encoders[&group.encoder];
            let greatest = greatest.slice_mut(WORD_PLANES * group.first_plan..WORD_PLANES * end);
            let starts = &starts.as_view();
            let Group { batch, found, .. } = group;
            let planes = Planes { bytes: &mut bytes, words: &mut words, greatest };
            encoder.write_planes(&stream, batch, found, &own, starts, planes)?;
        }
        Ok(Split { planes, bytes, words, greatest, byte_list, word_list })
    }

    /// Splits tokens into planes, and lays these out as Huffman streams with this index. Waits for the device.
    pub fn lay_out<'a>(&mut self, frame: &mut Frame<'a>, found: &mut FoundTokens<'a>) -> Result<LaidOutPlanes<'a>> {
        let stream = frame.stream().clone();
        let Split { planes, bytes, words, greatest, byte_list, word_list } = self.split(frame, found)?;
        let on_host = match self.greatest.take().filter(|on_host| on_host.len() >= greatest.len()) {
            Some(on_host) => self.greatest.insert(on_host.on(&stream)?),
            None => self.greatest.insert(Pinned::new(&stream, greatest.len().next_power_of_two())?),
        };
        on_host.read(&greatest)?;
        let ranges = |list: &PlaneList| -> Vec<StreamRange> {
            let range = |&(first_group, groups)| StreamRange { first_group, groups, free_symbol: 0 };
            list.streams.iter().map(range).collect()
        };
        let byte_encoder = match &mut self.bytes {
            Some(encoder) => encoder,
            none => none.insert(PlaneEncoder::new(&self.device, 1 << 8)?),
        };
        let mut of_bytes = byte_encoder.lay_out(frame, &bytes.as_view(), &ranges(&byte_list))?;
        // The planes of bytes keep the device busy until the largest symbols of the other planes are known.
        let mut of_streams = vec![0; word_list.streams.len()];
        let order = found.groups.iter().flat_map(|group| &group.sources);
        for (&source, greatest) in order.zip(on_host.wait()?.chunks(WORD_PLANES)) {
            for (plane, &greatest) in planes[source].words.iter().zip(greatest) {
                plane.stream.into_iter().for_each(|stream| of_streams[stream] = greatest);
            }
        }
        let word_encoder = self.words.get_or_insert_with(|| WordEncoder::new(&self.device));
        let mut of_words = word_encoder.lay_out(frame, &words.as_view(), &ranges(&word_list), &of_streams)?;
        byte_encoder.wait(&mut of_bytes)?;
        word_encoder.wait(&mut of_words)?;
        Ok(LaidOutPlanes { planes, bytes, words, of_bytes, of_words })
    }

    /// Writes everything that has a place: patches and copies, then the tokens, either as they are or as planes.
    pub fn write(
        &mut self,
        stream: &Arc<CudaStream>,
        found: &mut FoundTokens<'_>,
        laid_out: Option<LaidOutPlanes<'_>>,
        places: &TokenPlaces,
        output: &mut CudaViewMut<'_, u8>,
    ) -> Result<()> {
        self.transfer.patch(stream, &places.patches, output)?;
        self.transfer.copy(stream, &places.copies)?;
        if let Some(LaidOutPlanes { of_bytes, of_words, .. }) = laid_out {
            if let (Some(bytes), Some(words)) = (&mut self.bytes, &mut self.words) {
                bytes.write(stream, of_bytes, &places.byte_places, output)?;
                words.write(stream, of_words, &places.word_places, output)?;
            }
            return Ok(());
        }
        for group in &mut found.groups {
            let own: Vec<u64> = group.sources.iter().map(|&source| places.section_places[source]).collect();
            let own = stream.clone_htod(&own).doing("placing sections")?;
            let plans = found.device_plans.slice(group.first_plan..group.first_plan + group.sources.len());
            let encoder = &self.encoders[&group.encoder];
            let Group { batch, found, .. } = group;
            encoder.write_sections(stream, batch, found, &plans, &own.as_view(), output)?;
        }
        Ok(())
    }
}
