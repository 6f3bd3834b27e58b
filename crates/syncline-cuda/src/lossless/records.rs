//! Where everything stands in the record of a chunk: reckoned on the host from what the device has counted.

use syncline_core::container::{ALIGNMENT, ChunkKind, RECORD_HEADER_LEN, SECTIONS, record_header};
use syncline_core::huffman::MAX_SYMBOLS;
use syncline_core::lzss::Params;

use super::planes::GROUP;
use super::transfer::Patches;
use crate::huffman::encode;
use crate::lzss::{PlaneStarts, SectionPlan};

/// Bytes of a record before its first section.
pub(super) const HEAD_BYTES: u64 = (RECORD_HEADER_LEN + SECTIONS * size_of::<u32>()).next_multiple_of(ALIGNMENT) as u64;
/// Bytes of a payload before its first section.
const PAYLOAD_HEAD_BYTES: u64 = ((SECTIONS * size_of::<u32>()) as u64).next_multiple_of(ALIGNMENT as u64);
/// Section with the parameters and the blocks; flags, lengths, distances and literals follow.
pub(super) const BLOCKS: usize = 2;
/// Bytes of the parameters in front of the blocks.
pub(super) const PARAMETER_BYTES: u64 = 8;
/// The first bit of the mask of coded planes, of the flags, lengths, distances and literals.
const FIRST_BITS: [u32; 4] = [0, 1, 2, 4];

/// A plane of tokens in device memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plane {
    /// Its first symbol among all that have as many bytes, a multiple of a group.
    pub start: u64,
    /// Its symbols.
    pub count: u64,
    /// Its number among the planes that might be Huffman-coded.
    pub stream: Option<usize>,
}

/// Planes of symbols of one width, one after another.
#[derive(Debug, Default)]
pub(super) struct PlaneList {
    /// Symbols of all, with what fills their groups.
    pub symbols: u64,
    /// Those that might be coded: first group, and groups.
    pub streams: Vec<(u64, u32)>,
}

impl PlaneList {
    fn add(&mut self, count: u64) -> Plane {
        let start = self.symbols;
        self.symbols += count.next_multiple_of(GROUP);
        let codes = count > 0 && count <= MAX_SYMBOLS as u64 - GROUP;
        let stream = codes.then(|| {
            self.streams.push((start / GROUP, count.div_ceil(GROUP) as u32));
            self.streams.len() - 1
        });
        Plane { start, count, stream }
    }
}

/// The planes of a chunk.
#[derive(Debug, Clone, Default)]
pub(super) struct ChunkPlanes {
    /// Flags, lengths, distances, literals in bytes.
    pub bytes: [Vec<Plane>; 4],
    /// Literals in symbols of two bytes, if they have more than one.
    pub words: Vec<Plane>,
}

impl ChunkPlanes {
    /// For the tokens that `plan` counts.
    pub fn new(plan: &SectionPlan, params: &Params, bytes: &mut PlaneList, words: &mut PlaneList) -> Self {
        let (matches, literals) = (u64::from(plan.matches), u64::from(plan.tokens - plan.matches));
        let width = params.width.bytes();
        let mut some = |planes: usize, count: u64| (0..planes).map(|_| bytes.add(count)).collect::<Vec<_>>();
        Self {
            bytes: [
                some(1, plan.section_bytes[1].into()),
                some(1, matches),
                some(params.distance_bytes(), matches),
                some(width, literals),
            ],
            words: (0..width / 2).map(|_| words.add(literals)).collect(),
        }
    }

    /// As the kernel takes them.
    pub fn starts(&self) -> PlaneStarts {
        let mut starts = PlaneStarts::default();
        let put =
            |to: &mut [u64], planes: &[Plane]| to.iter_mut().zip(planes).for_each(|(to, plane)| *to = plane.start);
        put(std::slice::from_mut(&mut starts.flags), &self.bytes[0]);
        put(std::slice::from_mut(&mut starts.lengths), &self.bytes[1]);
        put(&mut starts.distances, &self.bytes[2]);
        put(&mut starts.bytes, &self.bytes[3]);
        put(&mut starts.words, &self.words);
        starts
    }
}

/// A plane in its section.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlacedPlane {
    pub plane: Plane,
    /// Bytes of a symbol.
    pub symbol_bytes: u64,
    /// Offset in the section.
    pub at: u64,
    /// Bytes there.
    pub bytes: u64,
    pub coded: bool,
}

/// Planes of a section, one after another.
fn place(planes: &[Plane], symbol_bytes: u64, plans: &[encode::StreamPlan]) -> (Vec<PlacedPlane>, u16, u64) {
    let (mut end, mut mask) = (0_u64, 0);
    let placed = planes.iter().enumerate().map(|(i, plane)| {
        let raw = plane.count * symbol_bytes;
        let coded = plane.stream.map(|stream| u64::from(plans[stream].stream_bytes)).filter(|&bytes| bytes < raw);
        let at = end.next_multiple_of(ALIGNMENT as u64);
        let bytes = coded.unwrap_or(raw);
        end = at + bytes;
        mask |= u16::from(coded.is_some()) << i;
        PlacedPlane { plane: *plane, symbol_bytes, at, bytes, coded: coded.is_some() }
    });
    (placed.collect(), mask, end)
}

/// Sections 2 to 6 of a chunk: blocks, flags, lengths, distances, literals.
#[derive(Debug)]
pub(crate) struct TokenSections {
    lengths: [u64; 5],
    literal_bytes: u8,
    coded: u16,
    /// The planes of all but the first, if they are in planes.
    planes: [Vec<PlacedPlane>; 4],
}

impl TokenSections {
    /// Of tokens as `plan` counts them, in planes if there are any, which come to `plans` (those of bytes, those of
    /// words). Those of words are taken if they are shorter and the chunk `has_words`.
    pub(super) fn new(
        plan: &SectionPlan,
        planes: Option<&ChunkPlanes>,
        plans: (&[encode::StreamPlan], &[encode::StreamPlan]),
        has_words: bool,
    ) -> Self {
        let mut sections = Self {
            lengths: plan.section_bytes.map(u64::from),
            literal_bytes: 0,
            coded: 0,
            planes: std::array::from_fn(|_| Vec::new()),
        };
        let Some(planes) = planes else { return sections };
        sections.literal_bytes = 1;
        for (i, own) in planes.bytes.iter().enumerate() {
            let (mut placed, mut mask, mut end) = place(own, 1, plans.0);
            if i == 3 && has_words && !planes.words.is_empty() {
                let wide = place(&planes.words, 2, plans.1);
                if wide.2 < end {
                    (placed, mask, end) = wide;
                    sections.literal_bytes = 2;
                }
            }
            sections.coded |= mask << FIRST_BITS[i];
            sections.lengths[1 + i] = end;
            sections.planes[i] = placed;
        }
        sections
    }

    /// Where a section starts, counted from the first; for the number after the last where another one would.
    fn section_at(&self, section: usize) -> u64 {
        self.lengths[..section].iter().map(|bytes| bytes.next_multiple_of(ALIGNMENT as u64)).sum()
    }

    /// The planes, and where each stands, counted from the first section.
    pub(super) fn planes(&self) -> impl Iterator<Item = (&PlacedPlane, u64)> {
        let sections = self.planes.iter().enumerate();
        sections.flat_map(|(i, planes)| {
            let section = self.section_at(1 + i);
            planes.iter().map(move |plane| (plane, section + plane.at))
        })
    }

    /// Everything that the host knows of the sections, the first of which starts at byte `at` of the output:
    /// parameters, zeros between parts.
    pub(super) fn patch(&self, at: u64, params: &Params, patches: &mut Patches) {
        let [low, high] = self.coded.to_le_bytes();
        let width = params.width.bytes() as u8;
        patches.add(at, &[width, params.level, params.min_match, self.literal_bytes, low, high, 0, 0]);
        for (section, &bytes) in self.lengths.iter().enumerate() {
            patches.align(at + self.section_at(section) + bytes);
        }
        for (i, planes) in self.planes.iter().enumerate() {
            let section = at + self.section_at(1 + i);
            for plane in &planes[..planes.len().saturating_sub(1)] {
                patches.align(section + plane.at + plane.bytes);
            }
        }
    }

    /// Bytes of a payload that has these sections and no others.
    pub fn payload_bytes(&self) -> u64 {
        PAYLOAD_HEAD_BYTES + self.section_at(4) + self.lengths[4]
    }

    /// The table of such a payload at byte `at` of the output; returns where the sections start.
    pub(super) fn patch_table(&self, at: u64, patches: &mut Patches) -> u64 {
        let mut lengths = [0; SECTIONS];
        lengths[BLOCKS..BLOCKS + 5].copy_from_slice(&self.lengths);
        let mut head = [0; PAYLOAD_HEAD_BYTES as usize];
        write_table(&mut head, &lengths);
        patches.add(at, &head);
        at + PAYLOAD_HEAD_BYTES
    }
}

/// Writes a table of sections.
fn write_table(to: &mut [u8], lengths: &[u64; SECTIONS]) {
    for (bytes, length) in to.chunks_exact_mut(4).zip(lengths) {
        // Checked when the chunk's bytes were: below 2^32.
        bytes.copy_from_slice(&(*length as u32).to_le_bytes());
    }
}

/// The record of a chunk.
#[derive(Debug)]
pub(super) struct Record {
    /// Bytes.
    pub bytes: u64,
    /// Whether it has the elements as they are.
    pub is_raw: bool,
    tile_sections: [u64; 2],
    pub tokens: TokenSections,
}

impl Record {
    /// A record of tokens; `tile_sections` are the bytes of sections 0 and 1, `element_bytes` those of a raw chunk.
    pub fn new(tokens: TokenSections, tile_sections: [u32; 2], element_bytes: u64) -> Self {
        let mut record = Self { bytes: 0, is_raw: false, tile_sections: tile_sections.map(u64::from), tokens };
        record.bytes = record.tokens_at() + record.tokens.section_at(5);
        let raw_bytes = (RECORD_HEADER_LEN as u64 + element_bytes).next_multiple_of(ALIGNMENT as u64);
        if record.bytes >= raw_bytes {
            (record.bytes, record.is_raw) = (raw_bytes, true);
        }
        record
    }

    /// Where section 2 starts in the record.
    pub fn tokens_at(&self) -> u64 {
        HEAD_BYTES + self.tile_sections.iter().map(|bytes| bytes.next_multiple_of(ALIGNMENT as u64)).sum::<u64>()
    }

    /// Everything that the host knows of the record, which starts at byte `at` of the output, but for the tokens:
    /// header without hash, table, zeros between parts.
    pub fn patch(&self, at: u64, chunk: u64, element_bytes: u64, patches: &mut Patches) {
        let kind = if self.is_raw { ChunkKind::Raw } else { ChunkKind::Lzss };
        let mut head = [0; HEAD_BYTES as usize];
        // Checked when the chunk's bytes were: below 2^32.
        head[..RECORD_HEADER_LEN].copy_from_slice(&record_header(kind, chunk, self.bytes as u32));
        if self.is_raw {
            patches.add(at, &head[..RECORD_HEADER_LEN]);
            patches.align(at + RECORD_HEADER_LEN as u64 + element_bytes);
            return;
        }
        let mut lengths = [0; SECTIONS];
        lengths[..BLOCKS].copy_from_slice(&self.tile_sections);
        lengths[BLOCKS..BLOCKS + 5].copy_from_slice(&self.tokens.lengths);
        write_table(&mut head[RECORD_HEADER_LEN..], &lengths);
        patches.add(at, &head);
        let bases_at = patches.align(at + HEAD_BYTES + self.tile_sections[0]);
        patches.align(bases_at + self.tile_sections[1]);
    }
}
