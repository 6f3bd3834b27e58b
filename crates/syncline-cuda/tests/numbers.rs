//! Lossless chunks of numbers: the device writes the CPU's bytes, and decodes these to the same elements: every mode,
//! element type, and predictor, masks, parts of arrays, and damage.

mod common;
#[path = "common/stream.rs"]
mod stream;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::damage::{self, Tally};
use common::{Random, pick, unless_tiny};
use cudarc::driver::CudaStream;
use stream::{Whole, parallel, try_decompress};
use syncline_core::array::{ElementType, Shape};
use syncline_core::bound::Resolved;
use syncline_core::container::{ChunkKind, Header, RECORD_HEADER_LEN, SECTIONS};
use syncline_core::geometry::Geometry;
use syncline_core::huffman::IndexKind;
use syncline_core::pipeline::{Coder, CoderOptions, EncodeScratch, encode_chunk};
use syncline_cuda::cudarc;
use syncline_cuda::device::Device;
use syncline_cuda::error::CudaError;
use syncline_cuda::geometry::Slab;
use syncline_cuda::lossless::{LosslessCompressor, LosslessDecompressor};
use syncline_cuda::pipeline::StreamInfo;

const POISON: u8 = 0x5c;
const CODER: CoderOptions = CoderOptions { coder: Coder::Numbers, symbol: None, level: 3, interpolates: true };
/// Where the plan of a record of numbers starts: behind the header and the table of sections.
const PLAN_AT: usize = (RECORD_HEADER_LEN + 40).next_multiple_of(16);

fn device() -> Option<(&'static Device, Arc<CudaStream>)> {
    let device = common::device()?;
    Some((device, device.context().new_stream().unwrap()))
}

/// An array and its records, as the CPU writes them.
struct Numbers {
    name: String,
    header: Header,
    bytes: Vec<u8>,
    records: Vec<Vec<u8>>,
}

impl Numbers {
    /// Makes an array of elements with these bits, in chunks of so many tiles.
    fn new(name: &str, element: ElementType, extents: &[u64], tiles: u32, bits: impl Fn(u64) -> u64) -> Self {
        let shape = Shape::new(extents).unwrap();
        let bytes: Vec<u8> = (0..shape.len()).flat_map(|i| bits(i).to_le_bytes()[..element.size()].to_vec()).collect();
        let geometry = Geometry::with_chunk_tiles(shape, tiles).unwrap();
        let header = Header::new(element, shape, IndexKind::Symbol, &Resolved::lossless());
        let header = Header { chunk_tiles: geometry.tiles_per_chunk(), ..header };
        let records = parallel(geometry.chunks() as usize, |chunk| {
            let (mut record, mut scratch) = (Vec::new(), EncodeScratch::default());
            let source = Whole(&bytes);
            encode_chunk(&header, &geometry, chunk as u64, &source, &CODER, &mut scratch, &mut record).unwrap();
            record
        });
        Self { name: format!("{name} {element} {shape}"), header, bytes, records }
    }

    fn stream(&self, records: &[Vec<u8>]) -> Vec<u8> {
        stream::of_records(&self.header, records)
    }

    /// Returns the modes, the symbols, the predictors, and the masks of its chunks.
    fn plans(&self) -> impl Iterator<Item = [u8; 4]> {
        let is_numbers = |record: &&Vec<u8>| record[16] == ChunkKind::Numbers as u8;
        let plans = self.records.iter().filter(is_numbers).map(|record| &record[PLAN_AT..PLAN_AT + 5]);
        plans.map(|plan| [plan[0], plan[2], plan[3], plan[4]])
    }
}

fn on_gpu(device: &Device, stream: &Arc<CudaStream>, bytes: &[u8], batch_bytes: u64) -> Result<Vec<u8>, CudaError> {
    let info = StreamInfo::from_bytes(bytes)?;
    let input = stream.clone_htod(bytes).unwrap();
    let length = info.decompressed_len() as usize;
    let mut output = stream.clone_htod(&vec![POISON; length + 64]).unwrap();
    let decompressor = LosslessDecompressor::new(device, stream.clone(), &info)?;
    let mut decompressor = decompressor.with_batch_bytes(batch_bytes);
    let done = decompressor.decompress(&input.as_view(), &mut output.slice_mut(..length));
    let done = done.and_then(|()| decompressor.check());
    let mut made = stream.clone_dtoh(&output).unwrap();
    assert!(made[length..].iter().all(|&byte| byte == POISON), "nothing is written behind the output");
    made.truncate(length);
    done.map(|()| made)
}

/// Checks that the device writes the CPU's records, with all chunks in a batch and with one in each.
fn same_records(device: &Device, stream: &Arc<CudaStream>, numbers: &Numbers, options: &CoderOptions) {
    let Numbers { name, header, bytes, records } = numbers;
    let geometry = Geometry::with_chunk_tiles(header.shape, header.chunk_tiles).unwrap();
    let expected = records.concat();
    let input = stream.clone_htod(&[bytes.clone(), vec![POISON; 16]].concat()).unwrap();
    let slab = Slab { bytes: input.slice(..bytes.len()), first_element: 0 };
    for batch_bytes in unless_tiny(&[1u64 << 28, 1][..], &[1 << 28]) {
        let mut output = stream.clone_htod(&vec![POISON; expected.len() + 64]).unwrap();
        let mut compressor = LosslessCompressor::new(device, stream).unwrap().with_batch_bytes(*batch_bytes);
        let room = &mut output.slice_mut(..expected.len());
        let chunks = 0..geometry.chunks();
        let made = compressor.compress_chunks(header, &geometry, options, chunks, &slab, room);
        let made = made.unwrap_or_else(|error| panic!("{name}: {error}"));
        let lengths: Vec<u32> = records.iter().map(|record| record.len() as u32).collect();
        let written = stream.clone_dtoh(&output).unwrap();
        let wrong = written.iter().zip(&expected).position(|(a, b)| a != b);
        let plan = records.first().map(|record| &record[PLAN_AT.min(record.len())..(PLAN_AT + 16).min(record.len())]);
        assert_eq!(made.lengths, lengths, "{name}: differs at byte {wrong:?}, plan {plan:?}");
        assert!(wrong.is_none(), "{name}: differs at byte {wrong:?} of {}, plan {plan:?}", expected.len());
        assert!(written[expected.len()..].iter().all(|&byte| byte == POISON), "{name}: written behind the records");
    }
}

/// Checks that a stream is decompressed to the array, as a whole and in parts.
fn comes_back(device: &Device, stream: &Arc<CudaStream>, numbers: &Numbers) {
    let made = numbers.stream(&numbers.records);
    for batch_bytes in unless_tiny(&[1u64 << 28, 1][..], &[1 << 28]) {
        let back =
            on_gpu(device, stream, &made, *batch_bytes).unwrap_or_else(|error| panic!("{}: {error}", numbers.name));
        let wrong = back.iter().zip(&numbers.bytes).position(|(a, b)| a != b);
        assert!(back == numbers.bytes, "{}: differs at byte {wrong:?}", numbers.name);
    }
    let info = StreamInfo::from_bytes(&made).unwrap();
    let (geometry, size) = (info.geometry().clone(), numbers.header.element_type.size());
    let part = geometry.tiles() / 3..geometry.tiles().div_ceil(2);
    if part.is_empty() {
        return;
    }
    let range = info.bytes_of(info.chunks_of(part.clone()));
    let input = stream.clone_htod(&made[range.start as usize..range.end as usize]).unwrap();
    let mut expected = vec![POISON; numbers.bytes.len()];
    let mut output = stream.clone_htod(&expected).unwrap();
    let mut decompressor = LosslessDecompressor::new(device, stream.clone(), &info).unwrap();
    let room = &mut output.as_view_mut();
    decompressor.decompress_tiles(&input.as_view(), range.start, part.clone(), room, 0).unwrap();
    decompressor.check().unwrap();
    for tile in geometry.range(part.clone()) {
        let [b, z, y, x] = tile.origin;
        let [nz, ny, nx] = tile.extent.map(|extent| extent as u64);
        for (dz, dy) in (0..nz).flat_map(|dz| (0..ny).map(move |dy| (dz, dy))) {
            let first = geometry.element([b, z + dz, y + dy, x]) as usize * size;
            let row = first..first + nx as usize * size;
            expected[row.clone()].copy_from_slice(&numbers.bytes[row]);
        }
    }
    assert!(stream.clone_dtoh(&output).unwrap() == expected, "{}: tiles {part:?}", numbers.name);
}

/// Returns the bits of a floating-point element.
fn float(element: ElementType, value: f64) -> u64 {
    if element == ElementType::F32 { u64::from((value as f32).to_bits()) } else { value.to_bits() }
}

/// Returns arrays of an element type that are coded in different ways.
fn arrays(element: ElementType) -> Vec<Numbers> {
    let shapes = unless_tiny([&[9001u64][..], &[90, 150], &[20, 33, 30]], [&[3333], &[40, 66], &[9, 17, 16]]);
    let all = u64::MAX >> (64 - 8 * element.size());
    let mut found = Vec::new();
    let mut add = |name: &str, bits: &dyn Fn(u64) -> u64| {
        for extents in shapes {
            found.push(Numbers::new(name, element, extents, 3, bits));
        }
    };
    add("ramps", &|i| i / 3 + Random(i).below(2));
    add("waves", &|i| (((i % 66) as f64 * 0.1).sin() * 30.0 + (i as f64 * 0.003).cos() * 40.0 + 90.0) as u64);
    add("few values", &|i| Random(i / 5).below(2));
    add("noise", &|i| Random(i).next());
    add("trailing zeros", &|i| (Random(i).next() << (i % 3 * 2)) & 0x7FFF_F0F0);
    add("a pattern", &|i| if i % 100 < 30 { all } else { 1000 + Random(i).below(7) });
    add("tiles of a pattern", &|i| if i / 700 % 2 == 0 { all } else { 77 });
    match element {
        ElementType::F32 | ElementType::F64 => {
            add("hundredths", &|i| float(element, ((i as f64 * 0.01).sin() * 5e3).round() / 100.0));
            add("hundredths and others", &|i| {
                let value = ((i as f64 * 0.01).sin() * 5e3).round() / 100.0;
                float(element, if i % 41 == 7 { value + 1e-5 } else { value })
            });
            add("steps", &|i| float(element, ((i as f64 * 0.02).sin() * 900.0).round() * 3.28 + 0.5));
            add("steps and units", &|i| {
                float(element, ((i as f64 * 0.02).sin() * 900.0).round() * 0.001).wrapping_add(Random(i).below(3))
            });
            add("hundredths and NaN", &|i| {
                float(element, if i / 50 % 3 == 0 { f64::NAN } else { (i % 977) as f64 / 100.0 })
            });
        }
        _ if element.is_integer() => add("multiples", &|i| 7 + 12 * (i / 9 + Random(i).below(3))),
        _ => {}
    }
    found
}

#[test]
fn numbers_of_every_type_and_mode_come_back() {
    let Some((device, stream)) = device() else { return };
    let (mut seen, mut number) = ([const { BTreeSet::new() }; 4], 0);
    for element in ElementType::ALL {
        for array in arrays(element) {
            for plan in array.plans() {
                seen.iter_mut().zip(plan).for_each(|(seen, value): (&mut BTreeSet<u8>, _)| {
                    seen.insert(value);
                });
            }
            number += 1;
            if unless_tiny(true, number % 5 == 0) {
                comes_back(device, &stream, &array);
            }
            if unless_tiny(true, number % 5 < 2) {
                same_records(device, &stream, &array, &CODER);
            }
        }
    }
    let [modes, tuples, predictors, masks] = seen;
    assert!(modes.len() == 4 && tuples.len() == 4 && masks.len() == 2, "{modes:?} {tuples:?} {masks:?}");
    assert!(predictors.len() >= 6, "{predictors:?}");
}

#[test]
fn empty_and_tiny_arrays_come_back() {
    let Some((device, stream)) = device() else { return };
    for element in [ElementType::U8, ElementType::Bf16, ElementType::F32, ElementType::I64] {
        for extents in [&[0u64][..], &[1], &[2, 2], &[3, 1, 5], &[1100]] {
            let array = Numbers::new("tiny", element, extents, 1, |i| 5 + i);
            comes_back(device, &stream, &array);
            same_records(device, &stream, &array, &CODER);
        }
    }
}

/// One array for each mode of numbers, with masks, verbatim values, and rests.
#[test]
fn arrays_of_each_mode_are_written_as_on_the_cpu() {
    let Some((device, stream)) = device() else { return };
    let mut modes = BTreeSet::new();
    for (element, names) in [
        (ElementType::F32, &["hundredths and others", "hundredths and NaN", "steps and units"][..]),
        (ElementType::I32, &["multiples", "few values", "tiles of a pattern"]),
        (ElementType::U8, &["trailing zeros"]),
    ] {
        let of = |name: &str| arrays(element).into_iter().find(|array| array.name.starts_with(name)).unwrap();
        for array in names.iter().map(|name| of(&format!("{name} {element}"))) {
            modes.extend(array.plans().map(|plan| plan[0]));
            same_records(device, &stream, &array, &CODER);
        }
    }
    assert!(modes.into_iter().eq(0..4), "every mode is chosen");
}

/// NaN of any payload, infinities, zeros of both signs, subnormals, and extremes, beside others that numbers suit.
#[test]
fn special_values_are_written_as_on_the_cpu() {
    let Some((device, stream)) = device() else { return };
    for element in [ElementType::F32, ElementType::F64, ElementType::F16, ElementType::I64, ElementType::I8] {
        let bits = 8 * element.size() as u32;
        let top = 1u64 << (bits - 1);
        let special = [0, top, top - 1, u64::MAX, 1, top + 1, u64::MAX << 1, 0x7FF8_0000_0000_0001 >> (64 - bits)];
        for (number, share) in [(1, 3u64), (2, 40), (3, 1)] {
            let name = format!("special {share}");
            let array = Numbers::new(&name, element, &[unless_tiny(3000, 1500)], 2, |i| match element {
                _ if Random(i + 7).below(share) == 0 => special[Random(i).below(8) as usize],
                ElementType::F32 | ElementType::F64 => float(element, (i % 977) as f64 / 100.0),
                _ => i / 3 * number,
            });
            same_records(device, &stream, &array, &CODER);
        }
    }
}

/// Every mode and predictor, whatever an encoder would take: the plan of a record is replaced.
#[test]
fn plans_that_no_encoder_writes_are_read() {
    let Some((device, stream)) = device() else { return };
    for (element, extents) in [(ElementType::F32, &[9u64, 17, 16][..]), (ElementType::F64, &[40, 66])] {
        let units =
            |i| float(element, ((i as f64 * 0.02).sin() * 900.0).round() * 0.001).wrapping_add(Random(i).below(3));
        let array = Numbers::new("units", element, extents, 99, units);
        let plan = array.plans().next().expect("numbers");
        assert_eq!(plan[0], 3, "with rests");
        for (mode, operations) in [(3, 0), (3, 1), (3, 2), (4, 0)] {
            for predictor in (1..=8).step_by(unless_tiny(1, 3)) {
                let mut records = array.records.clone();
                for record in &mut records {
                    (record[PLAN_AT], record[PLAN_AT + 1], record[PLAN_AT + 3]) = (mode, operations, predictor);
                    damage::repair_checksum(record);
                }
                let made = array.stream(&records);
                let found = on_gpu(device, &stream, &made, 1 << 28).unwrap();
                assert!(found == try_decompress(&made).unwrap(), "{element}, {mode}, {operations}, {predictor}");
            }
        }
    }
}

/// Damage that no checksum detects: flipped bits in every part, wrong lengths and counts, truncated records.
#[test]
fn damage_is_found_where_the_cpu_finds_it() {
    let Some((device, stream)) = device() else { return };
    let mut tally = Tally::default();
    let mutants = damage::mutants(pick(400, unless_tiny(60, 16)));
    for (number, element) in
        [ElementType::F32, ElementType::U16, ElementType::I64, ElementType::U8].into_iter().enumerate()
    {
        for array in arrays(element).into_iter().skip(number % 2).step_by(unless_tiny(2, 7)) {
            let mut random = Random(number as u64 + 77);
            for mutant in 0..mutants {
                let mut damaged = array.records.clone();
                let own = random.below(damaged.len() as u64) as usize;
                damage::damage_record(&mut damaged[own], &mut random);
                let made = array.stream(&damaged);
                let found = on_gpu(device, &stream, &made, 1 << 28);
                tally.add(try_decompress(&made), found, &format!("{}, mutant {mutant}", array.name));
            }
        }
    }
    assert!(tally.refused > mutants && tally.read > mutants / 16, "{tally:?}");
}

#[test]
fn checksums_come_before_all_but_whether_there_is_a_record() {
    let Some((device, stream)) = device() else { return };
    let array = arrays(ElementType::U16).into_iter().find(|array| array.records.len() > 1).unwrap();
    // The marker, the kind, and the last byte of a record.
    let [marker, kind] = [0, 16];
    let last = |record: &[u8]| record.len() - 1;
    let changed = |record: &[u8], at: usize, is_sealed: bool| {
        let mut changed = record.to_vec();
        changed[at] ^= 0x40;
        if is_sealed {
            damage::repair_checksum(&mut changed);
        }
        changed
    };
    let [a, b] = [&array.records[0], &array.records[1]];
    let cases = [
        ([changed(a, kind, false), b.clone()], "chunk 0", "its checksum does not match"),
        ([changed(a, kind, true), b.clone()], "chunk 0", "its kind does not fit"),
        ([changed(a, marker, false), b.clone()], "chunk 0", "there is no chunk record"),
        ([changed(a, last(a), false), changed(b, kind, true)], "chunk 0", "its checksum does not match"),
        ([changed(a, kind, true), changed(b, last(b), false)], "chunk 0", "its kind does not fit"),
        ([a.clone(), changed(b, last(b), false)], "chunk 1", "its checksum does not match"),
    ];
    for (number, (records, place, problem)) in cases.into_iter().enumerate() {
        let records = [&records, &array.records[2..]].concat();
        for batch_bytes in [1 << 28, 1] {
            let error = on_gpu(device, &stream, &array.stream(&records), batch_bytes).unwrap_err().to_string();
            assert!(error.contains(place) && error.contains(problem), "case {number}: {error}");
        }
    }
}

#[test]
fn sections_behind_those_of_numbers_are_refused() {
    let Some((device, stream)) = device() else { return };
    let array = &arrays(ElementType::F32)[0];
    let verdict = |section: usize, bytes: &[u8]| {
        let records = [&[damage::with_section(&array.records[0], section, bytes)], &array.records[1..]].concat();
        let made = array.stream(&records);
        (try_decompress(&made).is_ok(), on_gpu(device, &stream, &made, 1 << 28).is_ok())
    };
    assert_eq!(array.plans().count(), array.records.len(), "all are numbers");
    assert_eq!(verdict(SECTIONS - 1, &[]), (true, true));
    assert_eq!(verdict(SECTIONS - 1, &[0; 4]), (false, false));
}

#[test]
fn damaged_indexes_are_found_where_the_cpu_finds_them() {
    let Some((device, stream)) = device() else { return };
    let mut tally = Tally::default();
    let array = arrays(ElementType::U16).into_iter().find(|array| array.name.starts_with("a pattern")).unwrap();
    for mutant in damage::index_mutants(&array.records[0]) {
        let records = [&[mutant], &array.records[1..]].concat();
        let made = array.stream(&records);
        tally.add(try_decompress(&made), on_gpu(device, &stream, &made, 1 << 28), &array.name);
    }
    assert!(tally.refused >= 14 && tally.read == 0, "{tally:?}");
}
