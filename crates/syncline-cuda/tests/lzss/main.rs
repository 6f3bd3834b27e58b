//! The LZSS stage equals `syncline_core::lzss`: the same encoded bytes, the same decoded bytes, and the same errors for
//! damaged tokens.

#[path = "../common/mod.rs"]
mod common;
mod damage;
mod encoders;
mod inputs;

use common::{Random, pick, unless_tiny};
use cudarc::driver::CudaSlice;
use encoders::{Case, NewEncoder, check_encoder, edge_chunks};
use inputs::{KINDS, Kind, bytes};
use syncline_core::container::{ChunkKind, RecordBuilder, SectionWriter};
use syncline_core::lzss::{BlockCounts, Params, SLACK, SymbolWidth, TokenParts, decode_block};
use syncline_cuda::cudarc;
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::lzss::{
    Batch, ChunkRange, ChunkSections, DecodeBatch, Decoder, Encoded, Encoder, Form, SectionPlan, status_text,
};

/// Returns the locations of the sections of consecutive chunks.
fn sections_of_chunks(case: &Case, plans: &[SectionPlan], places: &[u64]) -> Vec<ChunkSections> {
    let each = case.ranges.iter().zip(plans).zip(places);
    let sections = |((range, plan), &place): ((&ChunkRange, &SectionPlan), &u64)| {
        let mut at = place + u64::from(plan.section_bytes[0]).next_multiple_of(16);
        let mut next = |number: usize| {
            let part = (at, plan.section_bytes[number]);
            at += u64::from(part.1).next_multiple_of(16);
            part
        };
        ChunkSections {
            blocks: place + 8,
            flags: next(1),
            lengths: next(2),
            distances: next(3),
            literals: next(4),
            output: range.offset,
            bytes: range.bytes,
            min_match: range.min_match,
        }
    };
    each.map(sections).collect()
}

/// Returns the output and the statuses of the decoder.
fn decode_on(device: &Device, case: &Case, input: &CudaSlice<u8>, sections: &[ChunkSections]) -> (Vec<u8>, Vec<u32>) {
    let stream = device.context().default_stream();
    let (width, level) = (case.params.width, case.params.level);
    let decoder = Decoder::new(device, width, level).unwrap();
    let batch = DecodeBatch::new(&stream, width, level, sections).unwrap();
    // Filled with the pattern that the input has between chunks.
    let mut output = stream.clone_htod(&vec![0xEE_u8; case.input().len()]).unwrap();
    let mut status = stream.clone_htod(&vec![u32::MAX; sections.len()]).unwrap();
    let (mut output_view, mut status_view) = (output.as_view_mut(), status.as_view_mut());
    let mut arena = Arena::new(stream.clone());
    let mut frame = arena.frame().unwrap();
    decoder.launch(&mut frame, &input.as_view(), &batch, &mut output_view, &mut status_view).unwrap();
    (stream.clone_dtoh(&output).unwrap(), stream.clone_dtoh(&status).unwrap())
}

fn check_both(device: &Device, case: &Case, new: NewEncoder, what: &str) {
    let (encoded, plans, places) = check_encoder(device, case, new, what);
    let sections = sections_of_chunks(case, &plans, &places);
    let (output, status) = decode_on(device, case, encoded.bytes(), &sections);
    check_decoded(case, &output, &status, what);
}

fn check_decoded(case: &Case, output: &[u8], status: &[u32], what: &str) {
    let bad = status.iter().position(|&status| status != 0);
    assert_eq!(bad, None, "{what}: {:?}", bad.map(|bad| status_text(status[bad])));
    let input = case.input();
    if output != input {
        let at = (0..input.len()).find(|&i| output[i] != input[i]).unwrap();
        let chunk = case.ranges.iter().rposition(|range| range.offset <= at as u64).unwrap();
        panic!(
            "{what}, {:?} {}: byte {} of chunk {chunk} ({} bytes) comes back as {} instead of {}",
            case.params.width,
            case.params.level,
            at as u64 - case.ranges[chunk].offset,
            case.chunks[chunk].len(),
            output[at],
            input[at]
        );
    }
}

/// In tiny runs, tests kinds at every other level and edges at the others.
fn levels(width: SymbolWidth, levels: std::ops::RangeInclusive<u8>) {
    let Some(device) = common::device() else { return };
    for level in levels {
        let block = Params::new(width, level).block_bytes();
        let kinds = KINDS.iter().skip(pick(0, usize::from(level) % 4)).step_by(pick(1, unless_tiny(4, KINDS.len())));
        let length = block + unless_tiny(block / 2, 200) + 5;
        let kinds = kinds.map(|&kind| bytes(kind, length, u64::from(level)));
        if unless_tiny(true, level / 2 % 2 == 0) {
            check_both(device, &Case::new(width, level, kinds.collect()), Encoder::new, "kinds");
        }
        if unless_tiny(true, level / 2 % 2 == 1) {
            check_both(device, &Case::new(width, level, edge_chunks(block, level.into())), Encoder::new, "edges");
        }
    }
}

#[test]
fn symbols_of_1_byte() {
    levels(SymbolWidth::One, 1..=4);
}

#[test]
fn symbols_of_2_bytes() {
    levels(SymbolWidth::Two, 1..=4);
}

#[test]
fn symbols_of_4_bytes() {
    levels(SymbolWidth::Four, 1..=4);
}

#[test]
fn symbols_of_8_bytes() {
    levels(SymbolWidth::Eight, 1..=4);
}

// In tiny runs, each test has its own level.

#[test]
fn long_windows_of_1_byte() {
    levels(SymbolWidth::One, unless_tiny(5..=9, 9..=9));
}

#[test]
fn long_windows_of_2_bytes() {
    levels(SymbolWidth::Two, unless_tiny(5..=9, 5..=5));
}

#[test]
fn long_windows_of_4_bytes() {
    levels(SymbolWidth::Four, unless_tiny(5..=9, 7..=7));
}

#[test]
fn long_windows_of_8_bytes() {
    levels(SymbolWidth::Eight, unless_tiny(5..=9, 6..=6));
}

#[test]
fn many_blocks() {
    let Some(device) = common::device() else { return };
    let lengths = pick([6_000_001, 3_000_000, 1 << 20, 5 << 20], [90_001, 70_000, 1 << 15, 60_000]);
    let kinds = [Kind::Codes, Kind::Runs, Kind::Noise, Kind::Pieces];
    for (width, level) in
        [(SymbolWidth::Two, 3), (SymbolWidth::Four, 1), (SymbolWidth::One, 2), (SymbolWidth::Eight, 5)]
    {
        let chunks = kinds.iter().zip(lengths).map(|(&kind, length)| bytes(kind, length, 9));
        check_both(device, &Case::new(width, level, chunks.collect()), Encoder::new, "many blocks");
    }
}

#[test]
fn records_equal_those_of_core() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    for (width, level) in
        [(SymbolWidth::One, 4), (SymbolWidth::Two, 3), (SymbolWidth::Four, 1), (SymbolWidth::Eight, 6)]
    {
        let mut chunks = edge_chunks(1 << 14, 6);
        chunks.push(bytes(Kind::Codes, pick(1_000_000, 50_000), 8));
        let case = Case::new(width, level, chunks);
        let mut expected = Vec::new();
        for (i, range) in case.ranges.iter().enumerate() {
            let record = RecordBuilder::begin(&mut expected, ChunkKind::Lzss, range.chunk);
            let mut sections = SectionWriter::begin(&mut expected);
            sections.skip();
            sections.skip();
            case.sections(i).iter().for_each(|section| {
                sections.section(&mut expected, |out| out.extend_from_slice(section));
            });
            record.finish(&mut expected);
        }
        let input = stream.clone_htod(&case.input()).unwrap();
        let batch = Batch::new(&stream, width, level, Form::Records, &case.ranges).unwrap();
        let encoder = Encoder::new(device, width, level).unwrap();
        let mut encoded = Encoded::new(&stream, &batch, batch.max_bytes()).unwrap();
        let poison = vec![0xA5_u8; encoded.bytes().len()];
        stream.memcpy_htod(&poison, encoded.bytes_mut()).unwrap();
        let mut arena = Arena::new(stream.clone());
        encoder.launch(&mut arena.frame().unwrap(), &input.as_view(), &batch, &mut encoded).unwrap();
        encoded.read_plans(&stream).unwrap();
        let places = stream.clone_dtoh(encoded.places()).unwrap();
        let lengths = stream.clone_dtoh(encoded.lengths()).unwrap();
        let records = stream.clone_dtoh(&encoded.bytes().slice(..expected.len())).unwrap();
        assert_eq!(places[case.ranges.len()], expected.len() as u64);
        for (i, &place) in places[..case.ranges.len()].iter().enumerate() {
            let range = place as usize..place as usize + lengths[i] as usize;
            assert!(records[range.clone()] == expected[range], "{width:?} {level}, record {i}");
        }
    }
}

/// A small chunk for each code path, for the sanitizers, which slow the device down by a factor of a hundred.
#[test]
fn small_of_every_path() {
    let Some(device) = common::device() else { return };
    for (width, level) in
        [(SymbolWidth::One, 4), (SymbolWidth::Two, 3), (SymbolWidth::Four, 1), (SymbolWidth::Eight, 6)]
    {
        let kinds = KINDS.iter().skip(pick(0, usize::from(level) % 4)).step_by(pick(1, 4));
        let chunks = kinds.map(|&kind| bytes(kind, 17_003, 4)).chain([vec![], vec![1]]);
        check_both(device, &Case::new(width, level, chunks.collect()), Encoder::new, "small");
    }
}

#[test]
fn too_little_room_is_noticed() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    let case = Case::new(SymbolWidth::Two, 3, vec![bytes(Kind::Noise, 50_000, 1), bytes(Kind::Noise, 50_000, 2)]);
    let input = stream.clone_htod(&case.input()).unwrap();
    let batch = Batch::new(&stream, SymbolWidth::Two, 3, Form::Sections, &case.ranges).unwrap();
    let encoder = Encoder::new(device, SymbolWidth::Two, 3).unwrap();
    let mut encoded = Encoded::new(&stream, &batch, 60_000).unwrap();
    encoder.launch(&mut Arena::new(stream.clone()).frame().unwrap(), &input.as_view(), &batch, &mut encoded).unwrap();
    assert!(encoded.read_plans(&stream).unwrap_err().to_string().contains("chunk 1"));
}

#[test]
fn wrong_arguments_are_refused() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    assert!(Encoder::new(device, SymbolWidth::Two, 0).is_err());
    assert!(Decoder::new(device, SymbolWidth::Two, 10).is_err());
    let range = ChunkRange { offset: 0, bytes: 100, min_match: 2, chunk: 0 };
    let batch = |range| Batch::new(&stream, SymbolWidth::Two, 3, Form::Sections, &[range]);
    assert!(batch(ChunkRange { offset: 8, ..range }).is_err());
    assert!(batch(ChunkRange { bytes: 1 << 26, ..range }).is_err());
    assert!(batch(ChunkRange { min_match: 17, ..range }).is_err());
    assert!(batch(ChunkRange { min_match: 1, ..range }).unwrap_err().to_string().contains("at least"));
    assert!(Batch::new(&stream, SymbolWidth::Two, 3, Form::Sections, &[]).is_err());
    let batch = batch(range).unwrap();
    let mut encoded = Encoded::new(&stream, &batch, 4096).unwrap();
    let input = stream.clone_htod(&[0_u8; 112]).unwrap();
    let mut arena = Arena::new(stream.clone());
    let mut launch = |level, view: &cudarc::driver::CudaView<'_, u8>| {
        let encoder = Encoder::new(device, SymbolWidth::Two, level).unwrap();
        encoder.launch(&mut arena.frame().unwrap(), view, &batch, &mut encoded)
    };
    assert!(launch(3, &input.as_view()).is_ok());
    assert!(launch(2, &input.as_view()).is_err());
    assert!(launch(3, &input.slice(..99)).is_err());
    assert!(launch(3, &input.slice(1..)).is_err());
}
