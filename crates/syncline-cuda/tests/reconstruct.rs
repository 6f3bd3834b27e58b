//! Reconstruction equals the CPU's bit for bit for every type, rank, bound and shape, including masks, signs,
//! outliers and verbatim values.

mod common;
#[path = "common/stream.rs"]
mod stream;

use std::ops::Range;

use common::{Random, Share, pick};
use stream::{DeviceParsed, HostParsed, Making, compress, decompress, is_lossy, opened};
use syncline_core::array::ElementType;
use syncline_core::bound::{Bound, Fill};
use syncline_core::geometry::Geometry;
use syncline_core::huffman::IndexKind;
use syncline_cuda::container::parsed::sums_len;
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::huffman::decode::status_text;
use syncline_cuda::reconstruct::{Codes, Reconstruction, Reconstructor, Strategy, fuses};

const POISON: u8 = 0xa5;

/// The content of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Smooth with a little noise: uses every predictor and codewords of a few bits.
    Smooth,
    /// Mostly one value: constant tiles and zero-bit groups.
    Flat,
    /// Jumps that cause some outliers.
    Spikes,
    /// Strong noise: the wide radius and raw chunks.
    Noise,
    /// Areas of NaN and of a fill value, and some infinities.
    Holes,
    /// Rows of tiles with a single value each, and smooth ones between them.
    Layers,
    /// A single value.
    Still,
}

fn field(kind: Kind, extents: &[u64], seed: u64) -> Vec<f64> {
    let len: u64 = extents.iter().product();
    let nx = extents.last().copied().unwrap_or(1).max(1);
    let ny = if extents.len() > 1 { extents[extents.len() - 2].max(1) } else { 1 };
    let mut random = Random(seed);
    let mut out = Vec::with_capacity(len as usize);
    for i in 0..len {
        let (x, y, z) = ((i % nx) as f64, (i / nx % ny) as f64, (i / nx / ny) as f64);
        let smooth = (x * 0.11).sin() * 3.0 + (y * 0.07 + z * 0.13).cos() * 2.0 + (x * y * 0.002).sin();
        // Some regions have more noise than others, so that tiles differ in predictor and class.
        let noise = (random.unit() - 0.5) * 0.02 * ((i / 5000) % 5) as f64;
        out.push(match kind {
            Kind::Smooth => smooth + noise,
            Kind::Flat if (i / 3000) % 4 != 1 => 1.0,
            Kind::Flat => 1.0 + if random.below(40) == 0 { random.unit() } else { 0.0 },
            Kind::Spikes if random.below(300) == 0 => smooth + (random.unit() - 0.5) * 100.0,
            Kind::Spikes => smooth * 20.0 + noise,
            Kind::Noise => (random.unit() - 0.5) * 1000.0 * if i / 60_000 % 2 == 0 { 1.0 } else { 0.004 },
            Kind::Holes if (x as u64 / 13 + y as u64 / 9 + z as u64 / 5).is_multiple_of(4) => f64::NAN,
            Kind::Holes if (x as u64 / 19 + y as u64 / 11).is_multiple_of(5) => -9999.0,
            Kind::Holes if random.below(500) == 0 => f64::INFINITY,
            Kind::Holes => smooth - 0.5 + noise,
            Kind::Layers => match (y as u64 / 8 + 2 * (z as u64 / 8)) % 7 {
                0 => smooth + noise,
                band => [0.0, 0.0, 3.0, 3.0, -2.0, 0.0][band as usize - 1],
            },
            Kind::Still => 0.25,
        });
    }
    out
}

fn bytes_of(values: &[f64], element: ElementType) -> Vec<u8> {
    match element {
        ElementType::F32 => values.iter().flat_map(|&v| (v as f32).to_le_bytes()).collect(),
        _ => values.iter().flat_map(|&v| v.to_le_bytes()).collect(),
    }
}

/// Returns the raster numbers of the elements of some tiles.
fn tile_elements(geometry: &Geometry, tiles: Range<u64>) -> Vec<u64> {
    let [b, z, y] = geometry.strides();
    let mut elements = Vec::new();
    for tile in geometry.range(tiles) {
        let [ob, oz, oy, ox] = tile.origin;
        for i in 0..tile.len() as u64 {
            let (nx, ny) = (tile.extent[2] as u64, tile.extent[1] as u64);
            elements.push(ob * b + (oz + i / nx / ny) * z + (oy + i / nx % ny) * y + ox + i % nx);
        }
    }
    elements
}

struct Tester<'d> {
    device: &'d Device,
    arena: Arena,
}

impl<'d> Tester<'d> {
    fn new(device: &'d Device) -> Self {
        let stream = device.context().new_stream().unwrap();
        Self { device, arena: Arena::new(stream) }
    }

    /// Reconstructs tiles of a batch into a slab. Returns the slab and the statuses.
    fn run(
        &mut self,
        reconstructor: &Reconstructor,
        parsed: &DeviceParsed,
        first_chunk: u64,
        tiles: Range<u64>,
        slab: Range<u64>,
        element: usize,
    ) -> (Vec<u8>, Vec<u32>) {
        let stream = self.arena.stream().clone();
        let mut output = stream.clone_htod(&vec![POISON; (slab.end - slab.start) as usize * element + 16]).unwrap();
        let mut status = stream.clone_htod(&vec![0_u32; parsed.chunk_count as usize]).unwrap();
        let mut sums = stream.clone_htod(&vec![0_u32; sums_len(parsed.chunk_count as usize)]).unwrap();
        let (view, input, batch, decoded) =
            (parsed.view(), parsed.input.as_view(), parsed.batch.as_view(), parsed.codes.as_view());
        let codes = if reconstructor.way().decodes() { Codes::Streams(&batch) } else { Codes::Decoded(&decoded) };
        let mut frame = self.arena.frame().unwrap();
        let work = Reconstruction {
            input: &input,
            parsed: &view,
            codes,
            first_chunk,
            tiles,
            output: &mut output.as_view_mut(),
            first_element: slab.start,
            status: &mut status.as_view_mut(),
            sums: &mut sums.as_view_mut(),
        };
        reconstructor.launch(&mut frame, work).unwrap();
        let mut bytes = stream.clone_dtoh(&output).unwrap();
        let status = stream.clone_dtoh(&status).unwrap();
        assert!(stream.clone_dtoh(&sums).unwrap().iter().all(|&sum| sum == 0), "sums are as they were");
        assert!(bytes[bytes.len() - 16..].iter().all(|&b| b == POISON), "written behind the output");
        bytes.truncate(bytes.len() - 16);
        (bytes, status)
    }

    fn check(
        &mut self,
        kind: Kind,
        element: ElementType,
        extents: &[u64],
        bound: Bound,
        making: &Making,
        ways: &[Strategy],
    ) {
        let what = format!("{kind:?} {element} {extents:?} {bound:?} {making:?}");
        let bytes = bytes_of(&field(kind, extents, 7), element);
        let stream = compress(&bytes, element, extents, bound, making);
        assert!(is_lossy(&stream), "{what}: lossless");
        let expected = decompress(&stream);
        let (header, geometry) = opened(&stream);
        let size = element.size();
        let fuses = fuses(header.index, self.device.info().shared_memory_per_block);
        let there_is =
            |way: &&Strategy| (fuses || !way.decodes()) && (**way != Strategy::Apart || geometry.axes() == 3);
        for &way in ways.iter().filter(there_is) {
            let what = format!("{what} {way:?}");
            let reconstructor = Reconstructor::with_way(self.device, &header, &geometry, way).unwrap();
            assert_eq!(reconstructor.way(), way, "{what}");
            let fused = way.decodes();
            let parsed = HostParsed::new(&stream, 0..geometry.chunks(), !fused).upload(&self.arena.stream().clone());
            let (all, status) = self.run(&reconstructor, &parsed, 0, 0..u64::MAX, 0..geometry.elements(), size);
            for (chunk, &status) in status.iter().enumerate() {
                assert_eq!(status_text(status), None, "{what}: chunk {chunk}");
            }
            if all != expected {
                let at = (0..all.len()).find(|&i| all[i] != expected[i]).unwrap() / size;
                let wrong = (0..all.len() / size)
                    .filter(|i| all[i * size..(i + 1) * size] != expected[i * size..(i + 1) * size])
                    .count();
                let bits = |bytes: &[u8]| bytes[at * size..(at + 1) * size].to_vec();
                panic!(
                    "{what}: {wrong} elements of {} differ, the first {at}: {:x?} instead of {:x?}",
                    all.len() / size,
                    bits(&all),
                    bits(&expected)
                );
            }
            // A few tiles of some chunks, into a slab that just contains them; all other elements must remain
            // unchanged.
            let chunks = geometry.chunks();
            let some = chunks / 3..chunks.min(chunks / 3 + 2);
            let in_chunks = geometry.chunk_range(some.start).start..geometry.chunk_range(some.end - 1).end;
            let count = in_chunks.end - in_chunks.start;
            let tiles = in_chunks.start + count / 5..in_chunks.end - count / 7;
            let elements = tile_elements(&geometry, tiles.clone());
            let slab = elements.iter().copied().min().unwrap()..elements.iter().copied().max().unwrap() + 1;
            let parsed = HostParsed::new(&stream, some.clone(), !fused).upload(&self.arena.stream().clone());
            let (part, status) = self.run(&reconstructor, &parsed, some.start, tiles.clone(), slab.clone(), size);
            assert!(status.iter().all(|&s| s == 0), "{what}: {status:?}");
            let mut wanted = vec![POISON; part.len()];
            for element in elements {
                let (from, to) = (element as usize * size, (element - slab.start) as usize * size);
                wanted[to..to + size].copy_from_slice(&expected[from..from + size]);
            }
            assert!(part == wanted, "{what}: tiles {tiles:?} differ");
        }
    }
}

const SHAPES: [&[u64]; 12] = [
    &[40, 48, 64],
    &[19, 33, 50],
    &[9, 17, 130],
    &[3, 20, 21, 22],
    &[2, 5, 70, 64],
    &[96, 256],
    &[133, 91],
    &[33, 1027],
    &[40_000],
    &[5001],
    &[1],
    &[70, 3],
];

fn all_shapes(element: ElementType, making: &Making, ways: &[Strategy]) {
    let Some(device) = common::device() else { return };
    let mut tester = Tester::new(device);
    let mut share = Share::one_in(3);
    for extents in SHAPES {
        let small = extents.iter().product::<u64>() < 1000;
        let making = Making { chunk_tiles: making.chunk_tiles.or(Some(29)), ..*making };
        let kinds = [
            (Kind::Smooth, Bound::Abs(1e-2)),
            (Kind::Holes, Bound::Abs(1e-3)),
            (Kind::Flat, Bound::Rel(1e-3)),
            (Kind::Spikes, Bound::Abs(2e-2)),
            (Kind::Noise, Bound::Abs(1e-2)),
        ];
        for (kind, bound) in &kinds[..if small { 2 } else { 5 }] {
            if share.takes() {
                tester.check(*kind, element, extents, *bound, &making, ways);
            }
        }
    }
}

/// A property that the other tests rely on, checked without a GPU: their fields give streams of the intended kinds.
#[test]
fn fields_are_what_they_are_meant_to_be() {
    let parsed = |kind, bound| {
        let bytes = bytes_of(&field(kind, SHAPES[1], 7), ElementType::F32);
        let making = Making { chunk_tiles: Some(29), ..Making::default() };
        let stream = compress(&bytes, ElementType::F32, SHAPES[1], bound, &making);
        let (_, geometry) = opened(&stream);
        assert!(is_lossy(&stream));
        HostParsed::new(&stream, 0..geometry.chunks(), true)
    };
    let metas = |parsed: &HostParsed, what: fn(u16) -> bool| parsed.metas.iter().any(|&m| m != 0xffff && what(m));
    let kinds = [parsed(Kind::Smooth, Bound::Abs(1e-2)), parsed(Kind::Flat, Bound::Rel(1e-3))];
    for predictor in 0..4 {
        let has =
            |parsed: &HostParsed| parsed.metas.iter().any(|&m| m != 0xffff && m & 1 == 0 && m >> 1 & 3 == predictor);
        assert!(kinds.iter().any(has), "no tile has predictor {predictor}");
    }
    let holes = parsed(Kind::Holes, Bound::Abs(1e-3));
    assert!(metas(&holes, |m| m >> 5 & 3 == 2) && metas(&holes, |m| m >> 7 & 3 == 1));
    assert!(holes.chunks.iter().any(|c| c.verbatim > 0));
    assert!(metas(&parsed(Kind::Flat, Bound::Rel(1e-3)), |m| m & 1 == 1));
    let spikes = parsed(Kind::Spikes, Bound::Abs(2e-2));
    assert!(spikes.chunks.iter().any(|c| c.outliers > 0 && c.radius == 512));
    let noise = parsed(Kind::Noise, Bound::Abs(1e-2));
    assert!(noise.chunks.iter().any(|c| c.kind == 2 && c.radius == 32768), "the wide radius");
    let loud = parsed(Kind::Noise, Bound::Abs(1e-4));
    assert!(loud.chunks.iter().any(|c| c.kind == 0), "raw chunks");
    assert!(metas(&parsed(Kind::Smooth, Bound::PwRel(1e-2)), |m| m >> 9 & 3 == 2));
    for bound in [Bound::Abs(1e-3), Bound::PwRel(1e-2)] {
        let layers = parsed(Kind::Layers, bound);
        assert!(metas(&layers, |m| m & 1 == 1) && metas(&layers, |m| m & 1 == 0));
        let mut values: Vec<i32> =
            layers.metas.iter().zip(&layers.bases).filter(|(m, _)| *m & 1 == 1).map(|(_, &base)| base).collect();
        values.sort_unstable();
        values.dedup();
        assert!(values.len() > 2, "constant tiles of several values: {values:?}");
    }
    assert!(!metas(&parsed(Kind::Still, Bound::Abs(1e-3)), |m| m & 1 == 0));
}

#[test]
fn f32_of_every_shape() {
    all_shapes(ElementType::F32, &Making::default(), &Strategy::ALL);
}

#[test]
fn f64_of_every_shape() {
    all_shapes(ElementType::F64, &Making::default(), &Strategy::ALL);
}

#[test]
fn groups_of_64() {
    all_shapes(ElementType::F32, &Making { group_log2: 6, ..Making::default() }, &Strategy::ALL);
}

#[test]
fn chunks_as_large_as_the_shape_suggests() {
    let Some(device) = common::device() else { return };
    let mut tester = Tester::new(device);
    let mut share = Share::one_in(2);
    let shapes = [&[64, 128, 160][..], &[100, 90, 77], &[1000, 1300], &[1_200_000]];
    for extents in pick(shapes, [&[32, 40, 48], &[25, 27, 31], &[150, 120], &[550_000]]) {
        for kind in [Kind::Smooth, Kind::Spikes, Kind::Noise] {
            if share.takes() {
                tester.check(
                    kind,
                    ElementType::F32,
                    extents,
                    Bound::Rel(1e-4),
                    &Making::default(),
                    &[Strategy::Fused, Strategy::Apart],
                );
            }
        }
    }
}

/// Strips of whole rows with a single value are written separately from the others: several rows of tiles per strip,
/// one row, and segments of a row; all strips, some, and none.
#[test]
fn strips_of_one_value() {
    let Some(device) = common::device() else { return };
    let mut tester = Tester::new(device);
    let mut share = Share::one_in(2);
    for extents in [&[20, 57, 61][..], &[17, 41, 235], &[9, 33, 701], &[2, 12, 40, 13]] {
        for element in [ElementType::F32, ElementType::F64] {
            for (kind, bound) in
                [(Kind::Layers, Bound::Abs(1e-3)), (Kind::Layers, Bound::PwRel(1e-2)), (Kind::Still, Bound::Abs(1e-3))]
            {
                if share.takes() {
                    let making = Making { chunk_tiles: Some(37), ..Making::default() };
                    tester.check(kind, element, extents, bound, &making, &[Strategy::Fused, Strategy::Apart]);
                }
            }
        }
    }
    // More strips than run concurrently, so that some start after others have ended.
    let extents = pick([192, 1024, 61], [16, 48, 61]);
    tester.check(Kind::Still, ElementType::F32, &extents, Bound::Abs(1e-3), &Making::default(), &[Strategy::Apart]);
}

#[test]
fn codes_in_memory_give_the_same_elements() {
    let Some(device) = common::device() else { return };
    let mut tester = Tester::new(device);
    for extents in [&[19, 33, 50][..], &[133, 91], &[5001]] {
        let making = Making { chunk_tiles: Some(13), ..Making::default() };
        tester.check(Kind::Smooth, ElementType::F32, extents, Bound::Abs(1e-2), &making, &[Strategy::Decoded]);
    }
}

fn logarithms(element: ElementType) {
    let Some(device) = common::device() else { return };
    let mut tester = Tester::new(device);
    let making = Making { chunk_tiles: Some(17), ..Making::default() };
    let mut share = Share::one_in(2);
    for extents in [&[19, 33, 50][..], &[40, 48, 64], &[133, 91], &[5001]] {
        for kind in [Kind::Smooth, Kind::Holes, Kind::Flat] {
            if share.takes() {
                tester.check(kind, element, extents, Bound::PwRel(1e-2), &making, &Strategy::ALL);
            }
        }
    }
}

#[test]
fn logarithms_of_f32() {
    logarithms(ElementType::F32);
}

#[test]
fn logarithms_of_f64() {
    logarithms(ElementType::F64);
}

#[test]
fn a_fill_value_that_is_given() {
    let Some(device) = common::device() else { return };
    let mut tester = Tester::new(device);
    let making = Making { fill: Fill::Value(-9999.0), chunk_tiles: Some(31), ..Making::default() };
    tester.check(Kind::Holes, ElementType::F32, &[24, 30, 44], Bound::Abs(1e-2), &making, &Strategy::ALL);
}

/// Damage to codewords, index and bitmaps is detected, or at least nothing is written outside of the output and the
/// status word reports it.
#[test]
fn damage_is_reported() {
    let Some(device) = common::device() else { return };
    let mut tester = Tester::new(device);
    let extents = pick([40, 48, 64], [16, 32, 40]);
    let rounds = pick(30, 6);
    let making = Making { chunk_tiles: Some(pick(60, 15)), ..Making::default() };
    if !fuses(IndexKind::Symbol, device.info().shared_memory_per_block) {
        // The codes are decoded, and damage is detected, before reconstruction.
        return;
    }
    for kind in [Kind::Smooth, Kind::Flat] {
        let bytes = bytes_of(&field(kind, &extents, 3), ElementType::F32);
        let stream = compress(&bytes, ElementType::F32, &extents, Bound::Abs(1e-2), &making);
        let (header, geometry) = opened(&stream);
        let reconstructor = Reconstructor::new(device, &header, &geometry).unwrap();
        let clean = HostParsed::new(&stream, 0..geometry.chunks(), false);
        let mut random = Random(11);
        let mut found = 0;
        for _ in 0..rounds {
            // A bit in the second half of a record, which is mostly codewords and sometimes the index.
            let mut parsed = clean.upload(&tester.arena.stream().clone());
            let mut damaged = clean.input.clone();
            for _ in 0..3 {
                let at = damaged.len() / 8 + random.below(damaged.len() as u64 * 3 / 4) as usize;
                damaged[at] ^= 1 << random.below(8);
            }
            parsed.input = tester.arena.stream().clone_htod(&damaged).unwrap();
            let (_, status) = tester.run(&reconstructor, &parsed, 0, 0..u64::MAX, 0..geometry.elements(), 4);
            found += usize::from(status.iter().any(|&s| s != 0));
        }
        assert!(found > rounds / 3, "{kind:?}: {found} of {rounds} found");
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let Some(device) = common::device() else { return };
    let tester = Tester::new(device);
    let extents = [20, 20, 20];
    let bytes = bytes_of(&field(Kind::Smooth, &extents, 3), ElementType::F32);
    let stream = compress(&bytes, ElementType::F32, &extents, Bound::Abs(1e-2), &Making::default());
    let (header, geometry) = opened(&stream);
    let parsed = HostParsed::new(&stream, 0..1, true).upload(&tester.arena.stream().clone());
    let reconstructor = Reconstructor::new(device, &header, &geometry).unwrap();
    let mut arena = Arena::new(tester.arena.stream().clone());
    let mut attempt = |bytes: usize, first_chunk: u64, first_element: u64, fused: bool| {
        let stream = tester.arena.stream();
        let mut output = stream.clone_htod(&vec![POISON; bytes]).unwrap();
        let mut status = stream.clone_htod(&[0_u32]).unwrap();
        let mut sums = stream.clone_htod(&vec![0_u32; sums_len(1)]).unwrap();
        let (view, input, batch, decoded) =
            (parsed.view(), parsed.input.as_view(), parsed.batch.as_view(), parsed.codes.as_view());
        let work = Reconstruction {
            input: &input,
            parsed: &view,
            codes: if fused { Codes::Streams(&batch) } else { Codes::Decoded(&decoded) },
            first_chunk,
            tiles: 0..u64::MAX,
            output: &mut output.as_view_mut(),
            first_element,
            status: &mut status.as_view_mut(),
            sums: &mut sums.as_view_mut(),
        };
        reconstructor.launch(&mut arena.frame().unwrap(), work)
    };
    let fused = reconstructor.way().decodes();
    attempt(32_000, 0, 0, fused).unwrap();
    assert!(attempt(31_999, 0, 0, fused).is_err(), "too short");
    assert!(attempt(32_000, 0, 1, fused).is_err(), "starts behind the first element");
    assert!(attempt(32_000, 1, 0, fused).is_err(), "no such chunk");
    assert!(attempt(32_000, 0, 0, !fused).is_err(), "codes of the other kind");
    let mut lossless = header.clone();
    lossless.pipeline = syncline_core::bound::Pipeline::Lossless;
    assert!(Reconstructor::new(device, &lossless, &geometry).is_err());
}
