//! The layout of the record of a chunk, computed on the host from counts of the device.

use syncline_core::container::{ALIGNMENT, ChunkKind, RECORD_HEADER_LEN, SECTIONS, record_header};
use syncline_core::huffman::MAX_SYMBOLS;
use syncline_core::lzss::Params;

use super::planes::GROUP;
use crate::device::Patches;
use crate::huffman::encode;
use crate::lzss::{PlaneStarts, SectionPlan};

/// Bytes of a record before its sections of tokens, the first ones that it has.
pub(super) const TOKENS_AT: u64 = (RECORD_HEADER_LEN + SECTIONS * size_of::<u32>()).next_multiple_of(ALIGNMENT) as u64;
/// Number of the section with the parameters and the blocks; flags, lengths, distances and literals follow.
pub(super) const BLOCKS: usize = 2;
/// Bytes of the parameters in front of the blocks.
pub(super) const PARAMETER_BYTES: u64 = 8;
/// First bit of the flags, lengths, distances and literals in the mask of Huffman-coded planes.
const FIRST_BITS: [u32; 4] = [0, 1, 2, 4];

/// A plane of tokens in device memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plane {
    /// Index of its first symbol among all planes with symbols of the same size, a multiple of a group.
    pub start: u64,
    /// Number of symbols.
    pub count: u64,
    /// Index among the planes that may be Huffman-coded.
    pub stream: Option<usize>,
}

/// Consecutive planes with symbols of one size.
#[derive(Debug, Clone, Default)]
pub(super) struct PlaneList {
    /// Number of symbols of all planes, padded to whole groups.
    pub symbols: u64,
    /// First group and number of groups of each plane that may be Huffman-coded.
    pub streams: Vec<(u64, u32)>,
}

impl PlaneList {
    pub fn add(&mut self, count: u64) -> Plane {
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
    /// Planes of bytes: of flags, lengths, distances and literals.
    pub bytes: [Vec<Plane>; 4],
    /// Planes of 16-bit symbols of the literals, if these are larger than one byte.
    pub words: Vec<Plane>,
}

impl ChunkPlanes {
    /// Plans the planes for the tokens that `plan` counts.
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

    /// Returns the starts of the planes as a kernel argument.
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

/// A plane and its place in a section.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlacedPlane {
    pub plane: Plane,
    /// Bytes of a symbol.
    pub symbol_bytes: u64,
    /// Offset in the section in bytes.
    pub at: u64,
    /// Stored bytes of the plane.
    pub bytes: u64,
    pub coded: bool,
}

/// Places the planes of a section one after another. Returns them with the mask of Huffman-coded planes and the
/// section's size in bytes.
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
    /// The planes of all sections but the first, if the tokens are stored as planes.
    planes: [Vec<PlacedPlane>; 4],
}

impl TokenSections {
    /// Lays out the sections of the tokens that `plan` counts. If planes are given, `plans` are the plans of their
    /// Huffman streams (of bytes, of 16-bit symbols). Planes of 16-bit symbols are used if they are shorter and the
    /// chunk `has_words`.
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

    /// Returns the offset of a section from the first one, in bytes. The number after the last section gives the offset
    /// at which another section would start.
    fn section_at(&self, section: usize) -> u64 {
        self.lengths[..section].iter().map(|bytes| bytes.next_multiple_of(ALIGNMENT as u64)).sum()
    }

    /// Returns the planes with their offsets from the first section, in bytes.
    pub(super) fn planes(&self) -> impl Iterator<Item = (&PlacedPlane, u64)> {
        let sections = self.planes.iter().enumerate();
        sections.flat_map(|(i, planes)| {
            let section = self.section_at(1 + i);
            planes.iter().map(move |plane| (plane, section + plane.at))
        })
    }

    /// Adds the bytes that the host knows to `patches`: parameters, and zeros between parts. The first section starts
    /// at byte `at` of the output.
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
}

/// Writes a table of sections.
pub(super) fn write_table(to: &mut [u8], lengths: &[u64; SECTIONS]) {
    for (bytes, length) in to.chunks_exact_mut(4).zip(lengths) {
        // `Record` has been checked to have fewer than 2^32 bytes.
        bytes.copy_from_slice(&(*length as u32).to_le_bytes());
    }
}

/// The layout of the record of a chunk of tokens.
#[derive(Debug)]
pub(super) struct Record {
    /// Size of the record in bytes.
    pub bytes: u64,
    pub tokens: TokenSections,
}

impl Record {
    /// Lays out a record of tokens.
    pub fn new(tokens: TokenSections) -> Self {
        Self { bytes: TOKENS_AT + tokens.section_at(5), tokens }
    }

    /// Adds the bytes of the record that the host knows, except tokens, to `patches`: the header without the hash, the
    /// table, and zeros between parts. The record is not raw, and starts at byte `at` of the output.
    pub fn patch(&self, at: u64, chunk: u64, patches: &mut Patches) {
        let mut head = [0; TOKENS_AT as usize];
        // The chunk's size has been checked, so the record has fewer than 2^32 bytes.
        head[..RECORD_HEADER_LEN].copy_from_slice(&record_header(ChunkKind::Lzss, chunk, self.bytes as u32));
        let mut lengths = [0; SECTIONS];
        lengths[BLOCKS..BLOCKS + 5].copy_from_slice(&self.tokens.lengths);
        write_table(&mut head[RECORD_HEADER_LEN..], &lengths);
        patches.add(at, &head);
    }
}

/// Returns the bytes of a raw record of so many bytes of elements.
pub(super) fn raw_bytes(element_bytes: u64) -> u64 {
    (RECORD_HEADER_LEN as u64 + element_bytes).next_multiple_of(ALIGNMENT as u64)
}

/// Adds the bytes of a raw record, except its elements, to `patches`: the header without the hash, and zeros behind the
/// elements. The record starts at byte `at` of the output.
pub(super) fn patch_raw(at: u64, chunk: u64, element_bytes: u64, patches: &mut Patches) {
    patches.add(at, &record_header(ChunkKind::Raw, chunk, raw_bytes(element_bytes) as u32));
    patches.align(at + RECORD_HEADER_LEN as u64 + element_bytes);
}
