//! The device writes the CPU's records from the parts of these: tiles as encoding leaves them.

mod common;

use std::sync::Arc;

use common::streams::{Field, Options};
use common::tile_parts::{Codes, packed, strips_of, u32_at};
use common::{Random, Share, pick, unless_tiny};
use syncline_core::array::ElementType;
use syncline_core::bound::{Bound, Fill};
use syncline_core::container::{
    ChunkKind, HEADER_LEN, Header, Pieces, RECORD_HEADER_LEN, Sections, SparseList, TileSection, parse_record,
    read_bases, record_kind,
};
use syncline_core::geometry::Tile;
use syncline_core::quantize::mask::MaskKind;
use syncline_cuda::Device;
use syncline_cuda::container::progress::Progress;
use syncline_cuda::container::records::{RecordInput, RecordMaker};
use syncline_cuda::container::table::StreamEnd;
use syncline_cuda::cudarc::driver::{CudaStream, CudaViewMut, DeviceRepr};
use syncline_cuda::device::Arena;
use syncline_cuda::geometry::{ChunkBatch, DeviceGeometry, Slab};
use syncline_cuda::strips::{BITMAP_CODEBOOK_AT, CODEBOOK_ROOM, ChunkChoice, Encoded, TileFacts};

/// The tiles of a batch as encoding would leave them.
#[derive(Default)]
struct Arrays {
    choices: Vec<ChunkChoice>,
    codebooks: Vec<u8>,
    facts: Vec<TileFacts>,
    strip_bits: Vec<u16>,
    words: Vec<u32>,
}

impl Arrays {
    /// Adds the parts of a record.
    fn add(
        &mut self,
        header: &Header,
        tiles: &[Tile],
        record: &[u8],
        chunk: u64,
        strip_capacity: usize,
        chunk_words: usize,
    ) {
        let elements: usize = tiles.iter().map(Tile::len).sum();
        let start = self.words.len();
        self.words.resize(start + chunk_words, 0xDEAD_BEEF);
        let (kind, payload) = parse_record(record, chunk).unwrap();
        if kind == ChunkKind::Raw {
            // So many verbatim values take more than the elements.
            let fact = |tile: &Tile| TileFacts { info: 1 | (tile.len() as u32) << 12, ..TileFacts::default() };
            self.facts.extend(tiles.iter().map(fact));
            self.strip_bits.resize(self.strip_bits.len() + strip_capacity * tiles.len(), 0xFFFF);
            self.choices.push(ChunkChoice { classes: 1, ..ChunkChoice::default() });
            self.codebooks.resize(self.codebooks.len() + CODEBOOK_ROOM, 0);
            return;
        }
        assert_eq!(kind, ChunkKind::Quantized);
        let sections = Sections::parse(payload, "test").unwrap().0;
        let section = TileSection::parse(sections[0], tiles.len(), header.patterns.len(), "test").unwrap();
        let bases = read_bases::<u32>(sections[1], tiles.len(), "test").unwrap();
        let size = header.element_type.size();
        let verbatim = SparseList::parse(sections[2], size, elements as u64, "test").unwrap();
        let codes = Codes::parse(sections[4]);

        // Tiles took their words in any order.
        let mut random = Random(chunk);
        let mut order: Vec<usize> = (0..tiles.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, random.below(i as u64 + 1) as usize);
        }
        let mut strip = 0;
        let mut element = 0;
        let mut placed = vec![Vec::new(); tiles.len()];
        for (number, (tile, info)) in tiles.iter().zip(&section.tiles).enumerate() {
            let strips = &codes.strips[strip..strip + strips_of(tile, info)];
            strip += strips.len();
            let bits = strips.first().map_or(0..0, |first| first.start..strips[strips.len() - 1].end);
            let own = verbatim.within(element, element + tile.len() as u32);
            let before = number.checked_sub(1).map_or(0, |before| bases[before]);
            // The base of a tile without coded elements does not matter.
            let is_empty = bases[number] == before && (info.mask == MaskKind::All || random.below(2) == 0);
            let base = if is_empty { random.next() as i32 } else { bases[number] as i32 };
            let info = packed(info, is_empty, own.len());
            self.facts.push(TileFacts { word: 0, bits: bits.end - bits.start, base, info });
            self.strip_bits.extend(strips.iter().map(|bits| (bits.end - bits.start) as u16));
            self.strip_bits.resize(self.strip_bits.len() + strip_capacity - strips.len(), 0xFFFF);
            placed[number] = codes.bits(bits);
            if !own.is_empty() {
                let mut bitmap = vec![0; tile.len().div_ceil(32)];
                for (position, _) in own.map(|number| verbatim.value(number)) {
                    let place = position - element;
                    bitmap[place as usize / 32] |= 1 << (place % 32);
                }
                placed[number].extend(bitmap);
            }
            element += tile.len() as u32;
        }
        assert_eq!(strip, codes.strips.len());
        let first = self.facts.len() - tiles.len();
        let mut next = 0;
        for number in order {
            self.facts[first + number].word = next as u32;
            self.words[start + next..][..placed[number].len()].copy_from_slice(&placed[number]);
            next += placed[number].len();
        }

        let classes: u8 = if section.classes { 4 } else { 1 };
        let (of_codes, rest) = codes.codebooks(section.classes);
        let mut codebooks = vec![0xEE; CODEBOOK_ROOM];
        codebooks[..of_codes.len()].copy_from_slice(of_codes);
        codebooks[BITMAP_CODEBOOK_AT..][..rest.len()].copy_from_slice(rest);
        self.codebooks.extend(codebooks);
        self.choices.push(ChunkChoice {
            scheme: section.scheme,
            listed: 3,
            predictors: section.predictors,
            classes,
            codebook_bytes: of_codes.len() as u32,
            // A codebook that no tile needs is left out.
            bitmap_codebook_bytes: if rest.is_empty() { 77 } else { rest.len() as u32 },
            ..ChunkChoice::default()
        });
    }
}

fn upload<T: DeviceRepr>(stream: &Arc<CudaStream>, from: &[T], to: &mut CudaViewMut<'_, T>) {
    assert!(from.len() <= to.len());
    stream.memcpy_htod(from, to).unwrap();
}

/// Kinds of the chunks, and parts that some have.
#[derive(Debug, Default)]
struct Seen {
    raw: usize,
    bitmaps: usize,
    verbatim: usize,
    classes: usize,
    interpolated: usize,
    /// Records with checksums of pieces.
    in_pieces: usize,
}

/// Makes the stream of `field` in batches of `batch_chunks` chunks from the parts of the CPU's stream, and compares it
/// with this.
fn check(device: &Device, field: &Field, options: &Options, batch_chunks: u64) -> Seen {
    let header = field.header(options, &field.resolve(options));
    // Several chunks even for small arrays.
    let chunk_tiles = pick(header.chunk_tiles, header.chunk_tiles.min(35));
    let header = Header { chunk_tiles, ..header };
    let geometry = header.geometry().unwrap();
    let device_geometry = DeviceGeometry::new(&geometry);
    let expected = field.stream_with(&header).0;
    let lengths = record_lengths(&expected, geometry.chunks() as usize);
    let starts: Vec<usize> =
        lengths.iter().scan(HEADER_LEN, |at, length| Some(std::mem::replace(at, *at + *length as usize))).collect();
    let mut seen = Seen::default();
    for (&start, &length) in starts.iter().zip(&lengths) {
        let record = &expected[start..][..length as usize];
        let kind = record_kind(record.first_chunk().unwrap()).unwrap();
        let has_pieces = Pieces::of_record(kind, record, record.len(), "test").unwrap().is_some();
        seen.in_pieces += usize::from(has_pieces);
    }

    let stream = device.context().default_stream();
    let mut arena = Arena::new(stream.clone());
    let elements = stream.clone_htod(&[field.bytes.as_slice(), &[0; 16]].concat()).unwrap();
    let slab = Slab { bytes: elements.slice(..field.bytes.len()), first_element: 0 };
    let maker = RecordMaker::new(device).unwrap();
    let size = field.element.size() as u32;
    let mut progress = Progress::new(&stream, geometry.chunks()).unwrap();
    // Twice with the same memory, to detect state that a batch leaves behind.
    for poison in [0xA5_u8, 0x5A] {
        let mut output = stream.clone_htod(&vec![poison; expected.len() + 64]).unwrap();
        progress.start(HEADER_LEN as u64).unwrap();
        let mut first = 0;
        while first < geometry.chunks() {
            let chunks = first..(first + batch_chunks).min(geometry.chunks());
            let batch = ChunkBatch::new(&geometry, chunks.clone()).unwrap();
            let mut frame = arena.frame().unwrap();
            let mut encoded = Encoded::new(&mut frame, &device_geometry, &batch, size, false).unwrap();
            let (strip_capacity, words) = (device_geometry.strip_capacity() as usize, encoded.chunk_words as usize);
            let mut arrays = Arrays::default();
            for chunk in chunks {
                let tiles: Vec<Tile> = geometry.chunk(chunk).collect();
                let record = &expected[starts[chunk as usize]..][..lengths[chunk as usize] as usize];
                arrays.add(&header, &tiles, record, chunk, strip_capacity, words);
            }
            seen.raw += arrays.choices.iter().filter(|choice| choice.codebook_bytes == 0).count();
            seen.classes += arrays.choices.iter().filter(|choice| choice.classes > 1).count();
            seen.bitmaps += arrays.facts.iter().filter(|tile| tile.mask() == 2 || tile.sign() == 2).count();
            seen.verbatim += arrays.facts.iter().filter(|tile| tile.bits > 0 && tile.verbatim() > 0).count();
            seen.interpolated += arrays.facts.iter().filter(|tile| tile.bits > 0 && tile.predictor() == 3).count();
            upload(&stream, &arrays.choices, &mut encoded.choices);
            upload(&stream, &arrays.codebooks, &mut encoded.codebooks);
            upload(&stream, &arrays.facts, &mut encoded.facts);
            upload(&stream, &arrays.strip_bits, &mut encoded.strip_bits);
            upload(&stream, &arrays.words, &mut encoded.words);
            let input = RecordInput {
                geometry: &device_geometry,
                batch: &batch,
                encoded: &mut encoded,
                slab: &slab,
                element_bytes: size,
            };
            maker.write(&mut frame, input, (&mut progress, first), &mut output.as_view_mut()).unwrap();
            first += batch_chunks;
        }
        let bytes = header.to_bytes();
        let mut view = output.as_view_mut();
        maker.finish(&stream, &mut progress, StreamEnd::Known(&bytes), geometry.chunks(), &mut view).unwrap();
        let outcome = progress.outcome().unwrap();
        let what = format!("{}, {options:?}, batches of {batch_chunks}", field.name);
        assert!(outcome.fits, "{what}");
        let found = stream.clone_dtoh(&output).unwrap();
        assert_eq!(outcome.bytes, expected.len() as u64, "{what}");
        let differs = found.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{what}: first difference; records at {starts:?}");
        assert!(found[expected.len()..].iter().all(|&byte| byte == poison), "{what}: written past the end");
    }
    seen
}

/// Returns the lengths of the records of a stream.
fn record_lengths(stream: &[u8], chunks: usize) -> Vec<u32> {
    let mut lengths = Vec::new();
    let mut at = HEADER_LEN;
    for _ in 0..chunks {
        lengths.push(u32_at(stream, at + 4));
        at += lengths[lengths.len() - 1] as usize;
        assert!(lengths[lengths.len() - 1] as usize >= RECORD_HEADER_LEN);
    }
    lengths
}

#[test]
fn records_of_every_shape_are_the_cpus() {
    let Some(device) = common::device() else { return };
    let mut share = Share::all().if_tiny(3, 0);
    let mut seen = Seen::default();
    for element in [ElementType::F32, ElementType::F64] {
        let (cube, line) = pick((&[100, 100, 100], &[1_500_000]), (&[30, 30, 30], unless_tiny(&[100_000], &[20_000])));
        for extents in [&[][..], &[1], &[5000], &[33, 70], &[9, 17, 30], &[3, 9, 8, 17], cube, line] {
            let field = Field::smooth(element, extents, 0.01);

            if share.takes() {
                let own = check(device, &field, &Options::new(Bound::Abs(1e-3)), 2);
                seen.classes += own.classes;
                seen.interpolated += own.interpolated;
            }
        }
    }
    assert!(seen.interpolated > 0, "{seen:?}");
}

#[test]
fn checksums_of_pieces_are_the_cpus() {
    let Some(device) = common::device() else { return };
    let extents: [&[u64]; 2] = pick([&[700_000], &[80, 90, 100]], [&[36_500], &[33, 31, 30]]);
    for (element, extents) in [ElementType::F32, ElementType::F64].into_iter().zip(extents) {
        let noisy = Field::smooth(element, extents, 2.0)
            .with("spikes", |i| (i % 1009 == 5).then_some(f64::INFINITY * if i % 2 == 0 { 1.0 } else { -1.0 }));

        let seen = check(device, &noisy, &Options::new(Bound::Abs(1e-4)), 2);
        assert!(seen.in_pieces > 0, "{seen:?}");
    }
}

#[test]
fn raw_records_and_lists_are_the_cpus() {
    let Some(device) = common::device() else { return };
    for element in [ElementType::F32, ElementType::F64] {
        // Values that no integer stands for, so that chunks are raw. The last chunk is smooth.
        let (extents, smooth_from) =
            pick((&[100, 100, 170], 1_200_000), unless_tiny((&[30, 30, 50], 35_000), (&[20, 20, 50], 15_000)));
        let infinite = Field::smooth(element, extents, 1.0)
            .with("infinite", |i| (i < smooth_from && i % 8 > 0).then_some(f64::INFINITY));

        let options = Options { fill: Fill::None, ..Options::new(Bound::Abs(1e-3)) };
        assert!(check(device, &infinite, &options, 2).raw > 0);

        let spikes = Field::smooth(element, &[pick(1_400_000, unless_tiny(90_000, 20_000))], 0.001)
            .with("spikes", |i| (i % 1009 == 5).then_some(1e2 * (i % 7) as f64))
            .with("infinite", |i| (i % 5003 == 1).then_some(f64::INFINITY));
        assert!(check(device, &spikes, &Options::new(Bound::Abs(1e-3)), 1).verbatim > 0);
    }
}

#[test]
fn masks_and_signs_are_the_cpus() {
    let Some(device) = common::device() else { return };
    let scale = pick(20, 1);
    for element in [ElementType::F32, ElementType::F64] {
        let field = Field::smooth(element, pick(&[90, 110, 70], &[20, 40, 45]), 0.01)
            .with("NaN", |i| (i / 70 % 11 < 2 && i % 3 == 0).then_some(f64::NAN))
            .with("fill", |i| (i > 15_000 * scale && i < 21_000 * scale).then_some(-9999.0));
        let given = Options { fill: Fill::Value(-9999.0), ..Options::new(Bound::PwRel(1e-3)) };
        for (options, batch) in [(Options::new(Bound::Rel(1e-3)), 2), (Options::new(Bound::PwRel(1e-2)), 1), (given, 2)]
        {
            assert!(check(device, &field, &options, batch).bitmaps > 0);
        }
    }
}
