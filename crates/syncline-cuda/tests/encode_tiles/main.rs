//! From elements to the bits of tiles on the device: choices, codebooks, facts of tiles, strips, and bits are those of
//! the CPU's records.

#[path = "../common/mod.rs"]
mod common;
mod fields;

use common::streams::{Field, Options};
use common::tile_parts::{Codes, packed, strips_of};
use syncline_core::bound::{Bound, ErrorSummary, Pipeline};
use syncline_core::container::{ChunkKind, Header, Sections, SparseList, TileSection, parse_record, read_bases};
use syncline_core::geometry::{Geometry, Tile};
use syncline_core::pipeline::{CoderOptions, EncodeScratch, encode_chunk};
use syncline_cuda::Device;
use syncline_cuda::device::Arena;
use syncline_cuda::geometry::{ChunkBatch, DeviceGeometry, Slab, element_range};
use syncline_cuda::strips::{BITMAP_CODEBOOK_AT, CODEBOOK_ROOM, ChunkChoice, Form, TileEncoder, TileFacts};

/// How often something was compared.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    chunks: usize,
    raw: usize,
    classes: usize,
    schemes: usize,
    interpolated: usize,
    lorenzo: usize,
    constant: usize,
    empty: usize,
    bitmaps: usize,
    verbatim: usize,
    /// Bit `code` is set if a chunk had this scheme.
    scheme_bits: u16,
    /// Tiles that a kernel of their own encoded.
    ordinary: usize,
    tiles: usize,
}

impl Seen {
    /// Returns the schemes of the chunks.
    fn scheme_codes(&self) -> impl Iterator<Item = u8> {
        let bits = self.scheme_bits;
        (1..=8).filter(move |code| bits >> code & 1 != 0)
    }

    fn add(&mut self, other: &Self) {
        self.chunks += other.chunks;
        self.raw += other.raw;
        self.classes += other.classes;
        self.schemes += other.schemes;
        self.interpolated += other.interpolated;
        self.lorenzo += other.lorenzo;
        self.constant += other.constant;
        self.empty += other.empty;
        self.bitmaps += other.bitmaps;
        self.verbatim += other.verbatim;
        self.scheme_bits |= other.scheme_bits;
        self.ordinary += other.ordinary;
        self.tiles += other.tiles;
    }
}

/// The tiles of a batch on the host.
struct Found {
    choices: Vec<ChunkChoice>,
    codebooks: Vec<u8>,
    facts: Vec<TileFacts>,
    strip_bits: Vec<u16>,
    words: Vec<u32>,
    taken: Vec<u32>,
    chunk_words: usize,
    strip_capacity: usize,
    summary: ErrorSummary,
    ordinary: usize,
}

/// Encodes the tiles of chunks on the device.
fn encode(device: &Device, field: &Field, header: &Header, coder: &CoderOptions, batch: &ChunkBatch) -> Found {
    let geometry = header.geometry().unwrap();
    let stream = device.context().default_stream();
    let mut arena = Arena::new(stream.clone());
    let mut frame = arena.frame().unwrap();
    // Only what the batch needs.
    let size = field.element.size() as u64;
    let range = element_range(&geometry, batch);
    let needed = &field.bytes[(range.start * size) as usize..(range.end * size) as usize];
    let elements = stream.clone_htod(&[needed, &[0; 16]].concat()).unwrap();
    let slab = Slab { bytes: elements.slice(..needed.len()), first_element: range.start };
    let form = Form {
        element_type: field.element,
        logarithm: header.pipeline == Pipeline::LogQuantized,
        measured: matches!(header.bound, Bound::Psnr(_)),
        interpolates: coder.interpolates,
    };
    let encoder = TileEncoder::new(device, &stream, form, &geometry).unwrap();
    let step = stream.clone_htod(&syncline_cuda::quantize::constants(header, true)).unwrap();
    let encoded = encoder.encode(&mut frame, &slab, batch, &step.as_view()).unwrap();
    let mut summary = ErrorSummary::default();
    if let Some((errors, counted)) = &encoded.errors {
        summary.squared_error = stream.clone_dtoh(errors).unwrap().iter().map(|&error| u128::from(error)).sum();
        summary.counted = stream.clone_dtoh(counted).unwrap().iter().map(|&count| u64::from(count)).sum();
    }
    Found {
        choices: stream.clone_dtoh(&encoded.choices).unwrap(),
        codebooks: stream.clone_dtoh(&encoded.codebooks).unwrap(),
        facts: stream.clone_dtoh(&encoded.facts).unwrap(),
        strip_bits: stream.clone_dtoh(&encoded.strip_bits).unwrap(),
        words: stream.clone_dtoh(&encoded.words).unwrap(),
        taken: stream.clone_dtoh(&encoded.taken).unwrap(),
        chunk_words: encoded.chunk_words as usize,
        strip_capacity: DeviceGeometry::new(&geometry).strip_capacity() as usize,
        summary,
        ordinary: encoded
            .listed
            .as_ref()
            .map_or(0, |listed| encoded.facts.len() - stream.clone_dtoh(&listed.slice(..1)).unwrap()[0] as usize),
    }
}

impl Found {
    /// Compares chunk `index` of the batch, whose tiles follow `first` others, with the CPU's record.
    fn compare(&self, index: usize, first: usize, header: &Header, tiles: &[Tile], record: &[u8], what: &str) -> Seen {
        let mut seen = Seen { chunks: 1, ..Seen::default() };
        let (kind, payload) = parse_record(record, tiles[0].number / u64::from(header.chunk_tiles)).unwrap();
        if kind == ChunkKind::Raw {
            return Seen { raw: 1, ..seen };
        }
        let sections = Sections::parse(payload, "test").unwrap().0;
        let section = TileSection::parse(sections[0], tiles.len(), header.patterns.len(), "test").unwrap();
        let bases = read_bases::<u32>(sections[1], tiles.len(), "test").unwrap();
        let elements: u64 = tiles.iter().map(|tile| tile.len() as u64).sum();
        let verbatim = SparseList::parse(sections[2], header.element_type.size(), elements, "test").unwrap();
        let codes = Codes::parse(sections[4]);
        let choice = self.choices[index];
        assert_eq!((choice.scheme, choice.predictors), (section.scheme, section.predictors), "{what}");
        assert_eq!(choice.classes > 1, section.classes, "{what}: classes");
        let (of_codes, of_bitmaps) = codes.codebooks(section.classes);
        let codebooks = &self.codebooks[index * CODEBOOK_ROOM..][..CODEBOOK_ROOM];
        assert!(of_codes == &codebooks[..choice.codebook_bytes as usize], "{what}: codebooks");
        if !of_bitmaps.is_empty() {
            let found = &codebooks[BITMAP_CODEBOOK_AT..][..choice.bitmap_codebook_bytes as usize];
            assert!(of_bitmaps == found, "{what}: codebook of bitmaps");
        }
        seen.classes += usize::from(section.classes);
        seen.schemes += usize::from(section.scheme != 0);
        seen.scheme_bits |= 1 << section.scheme;
        assert!(self.taken[index] as usize <= self.chunk_words, "{what}: room");
        let words = &self.words[index * self.chunk_words..][..self.chunk_words];
        let (mut strip, mut element) = (0, 0);
        for (number, (tile, info)) in tiles.iter().zip(&section.tiles).enumerate() {
            let what = format!("{what}, tile {number}");
            let facts = self.facts[first + number];
            let strips = &codes.strips[strip..strip + strips_of(tile, info)];
            strip += strips.len();
            let own = verbatim.within(element, element + tile.len() as u32);
            assert_eq!(facts.info & !(1 << 11), packed(info, false, own.len()), "{what}: {facts:?}, {info:?}");
            let base = bases[number] as i32;
            assert_eq!(facts.base, if facts.empty() { 0 } else { base }, "{what}: base");
            let own_bits = &self.strip_bits[(first + number) * self.strip_capacity..][..strips.len()];
            let lengths: Vec<u16> = strips.iter().map(|bits| (bits.end - bits.start) as u16).collect();
            assert_eq!(own_bits, lengths, "{what}: bits of strips");
            let bits = strips.first().map_or(0..0, |first| first.start..strips[strips.len() - 1].end);
            assert_eq!(facts.bits, bits.end - bits.start, "{what}: bits");
            let mut expected = codes.bits(bits);
            if !own.is_empty() {
                let mut bitmap = vec![0; tile.len().div_ceil(32)];
                for (position, _) in own.clone().map(|number| verbatim.value(number)) {
                    let place = position - element;
                    bitmap[place as usize / 32] |= 1 << (place % 32);
                }
                expected.extend(bitmap);
            }
            assert!(words[facts.word as usize..][..expected.len()] == expected, "{what}: words");
            element += tile.len() as u32;
            seen.interpolated += usize::from(!facts.constant() && facts.predictor() == 3);
            seen.lorenzo += usize::from(!facts.constant() && facts.predictor() < 3);
            seen.constant += usize::from(facts.constant());
            seen.empty += usize::from(facts.empty());
            seen.bitmaps += usize::from(facts.mask() == 2 || facts.sign() == 2);
            seen.verbatim += usize::from(facts.verbatim() > 0);
        }
        seen
    }
}

/// Encodes a field in batches of `batch_chunks` chunks, and compares all tiles with the CPU's.
fn check_with(device: &Device, field: &Field, header: &Header, coder: &CoderOptions, batch_chunks: u64) -> Seen {
    let geometry: Geometry = header.geometry().unwrap();
    let what = format!("{}, {:?}, {:?}, batches of {batch_chunks}", field.name, header.bound, geometry.tile_size());
    let mut seen = Seen::default();
    let mut scratch = EncodeScratch::default();
    let mut summaries = [ErrorSummary::default(); 2];
    let mut start = 0;
    while start < geometry.chunks() {
        let chunks = start..(start + batch_chunks).min(geometry.chunks());
        let batch = ChunkBatch::new(&geometry, chunks.clone()).unwrap();
        let found = encode(device, field, header, coder, &batch);
        let mut first = 0;
        for (index, chunk) in chunks.enumerate() {
            let tiles: Vec<Tile> = geometry.chunk(chunk).collect();
            let mut record = Vec::new();
            let source = common::streams::Bytes(&field.bytes);
            let own = encode_chunk(header, &geometry, chunk, &source, coder, &mut scratch, &mut record).unwrap();
            summaries[1].squared_error += own.squared_error;
            summaries[1].counted += own.counted;
            seen.add(&found.compare(index, first, header, &tiles, &record, &format!("{what}, chunk {chunk}")));
            first += tiles.len();
        }
        seen.ordinary += found.ordinary;
        seen.tiles += found.facts.len();
        summaries[0].squared_error += found.summary.squared_error;
        summaries[0].counted += found.summary.counted;
        start += batch_chunks;
    }
    if seen.raw == 0 {
        let [found, expected] = summaries.map(|summary| (summary.squared_error, summary.counted));
        assert_eq!(found, expected, "{what}: squared errors");
    }
    seen
}

/// As [`check_with`], by options, in chunks of at most `chunk_tiles` tiles.
fn check(device: &Device, field: &Field, options: &Options, chunk_tiles: u32, batch_chunks: u64) -> Seen {
    let header = field.header(options, &field.resolve(options));
    let header = Header { chunk_tiles: header.chunk_tiles.min(chunk_tiles), ..header };
    assert_ne!(header.pipeline, Pipeline::Lossless, "{}", field.name);
    let coder = CoderOptions { interpolates: !options.rewritable, ..CoderOptions::default() };
    check_with(device, field, &header, &coder, batch_chunks)
}
