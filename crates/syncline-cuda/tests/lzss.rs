//! The LZSS stage against `syncline_core::lzss`: the same bytes out, the same bytes back, the same opinion of damaged tokens.

mod common;

use common::{Random, Spread, pick};
use cudarc::driver::CudaSlice;
use syncline_core::container::{ChunkKind, RecordBuilder, SectionWriter};
use syncline_core::lzss::{
    BlockCounts, EncodeScratch, Params, SLACK, SymbolWidth, TokenParts, Tokens, decode_block, encode,
};
use syncline_cuda::cudarc;
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::lzss::{
    Batch, DecodeBatch, DecodeSpan, Decoder, Encoded, Encoder, Form, Method, Plan, Span, status_text,
};

/// Bytes that take different paths.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Noise,
    /// Few different symbols of this many bytes, so that matches are many and short.
    Few(usize),
    /// Pieces of a dictionary, as in text.
    Pieces,
    Runs,
    /// Repetition at every distance up to a few hundred, the period changing.
    Periods,
    /// Quantisation codes.
    Codes,
    /// Columns of integers of four bytes.
    Integers,
    /// A smooth field of f32.
    Floats,
}

const KINDS: [Kind; 11] = [
    Kind::Noise,
    Kind::Few(1),
    Kind::Few(2),
    Kind::Few(4),
    Kind::Few(8),
    Kind::Pieces,
    Kind::Runs,
    Kind::Periods,
    Kind::Codes,
    Kind::Integers,
    Kind::Floats,
];

fn bytes(kind: Kind, length: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut out: Vec<u8> = Vec::with_capacity(length + 1024);
    while out.len() < length {
        match kind {
            Kind::Noise => out.extend(random.next().to_le_bytes()),
            Kind::Few(width) => {
                let value = [0, 0, 1, 0x0101_0101_0101_0102_u64][random.below(4) as usize];
                out.extend(&value.to_le_bytes()[..width]);
            }
            Kind::Pieces => {
                let dictionary: Vec<u8> = (0..700_u64).map(|i| (i * i / 7 % 61) as u8).collect();
                let at = random.below(500) as usize;
                out.extend(&dictionary[at..at + 1 + random.below(90) as usize]);
            }
            Kind::Runs => {
                let most = 1 << random.below(12);
                let length = 1 + random.below(most) as usize;
                out.extend(std::iter::repeat_n(random.below(3) as u8, length));
            }
            Kind::Periods => {
                let part: Vec<u8> = (0..1 + random.below(400)).map(|_| random.next() as u8).collect();
                let length = random.below(1500) as usize;
                out.extend(part.iter().cycle().take(length));
            }
            Kind::Codes => {
                let share = [0.98, 0.7, 0.2][random.below(3) as usize];
                let codes = common::symbols(Spread::Geometric(share), 1024, 2000, random.next());
                out.extend(codes.iter().flat_map(|code| code.to_le_bytes()));
            }
            Kind::Integers => {
                let value = (out.len() / 16) as u32 * 3 + random.below(5) as u32;
                out.extend(value.to_le_bytes());
            }
            Kind::Floats => {
                let x = out.len() as f32 / 4.0;
                out.extend(((x * 0.001).sin() * 100.0).round().to_le_bytes());
            }
        }
    }
    out.truncate(length);
    out
}

/// Chunks of one width and level on the device, and what core makes of them.
struct Case {
    params: Params,
    spans: Vec<Span>,
    chunks: Vec<Vec<u8>>,
    tokens: Vec<Tokens>,
}

impl Case {
    fn new(width: SymbolWidth, level: u8, chunks: Vec<Vec<u8>>) -> Self {
        let params = Params::new(width, level);
        let (mut spans, mut tokens, mut offset) = (Vec::new(), Vec::new(), 0);
        let mut scratch = EncodeScratch::default();
        for (i, chunk) in chunks.iter().enumerate() {
            let min_match = (params.min_match + [0, 1, 0, 4][i % 4]).min(16);
            spans.push(Span { offset, bytes: chunk.len() as u64, min_match, chunk: 3 + i as u64 });
            offset += chunk.len().next_multiple_of(16) as u64;
            let mut own = Tokens::default();
            encode(chunk, &Params { min_match, ..params }, &mut scratch, &mut own);
            tokens.push(own);
        }
        Self { params, spans, chunks, tokens }
    }

    /// The chunks, each from a multiple of 16.
    fn input(&self) -> Vec<u8> {
        let mut input = Vec::new();
        for chunk in &self.chunks {
            input.extend_from_slice(chunk);
            input.resize(input.len().next_multiple_of(16), 0xEE);
        }
        input.resize(input.len().max(16), 0xEE);
        input
    }

    /// Sections 2 to 6 of a chunk.
    fn sections(&self, i: usize) -> [Vec<u8>; 5] {
        let (tokens, params) = (&self.tokens[i], &self.params);
        let mut first = vec![params.width.bytes() as u8, params.level, self.spans[i].min_match, 0, 0, 0, 0, 0];
        for block in &tokens.blocks {
            first.extend(block.tokens.to_le_bytes());
            first.extend(block.matches.to_le_bytes());
        }
        let flags = tokens.flags.iter().flat_map(|word| word.to_le_bytes()).collect();
        [first, flags, tokens.lengths.clone(), tokens.distances.clone(), tokens.literals.clone()]
    }
}

/// Encodes a case on the device and compares every chunk's sections.
fn check_encoder(device: &Device, case: &Case, method: Method, what: &str) -> (Encoded, Vec<Plan>, Vec<u64>) {
    let stream = device.context().default_stream();
    let (width, level) = (case.params.width, case.params.level);
    let input = stream.clone_htod(&case.input()).unwrap();
    let batch = Batch::new(&stream, width, level, Form::Sections, &case.spans).unwrap();
    let encoder = Encoder::new(device, width, level, method).unwrap();
    let mut encoded = Encoded::new(&stream, &batch, batch.max_bytes() + 64).unwrap();
    let poison = vec![0xA5_u8; encoded.bytes().len()];
    stream.memcpy_htod(&poison, encoded.bytes_mut()).unwrap();
    let mut arena = Arena::new(stream.clone());
    encoder.launch(&mut arena.frame().unwrap(), &input.as_view(), &batch, &mut encoded).unwrap();
    let plans = encoded.read_plans(&stream).unwrap();
    let places = stream.clone_dtoh(encoded.places()).unwrap();
    let out = stream.clone_dtoh(encoded.bytes()).unwrap();
    let mut at = 0;
    for (i, plan) in plans.iter().enumerate() {
        assert_eq!(places[i], at as u64, "{what}, chunk {i}: its place");
        for (number, section) in case.sections(i).iter().enumerate() {
            let what = format!(
                "{what}, {width:?} {level}, chunk {i} of {} bytes, section {}",
                case.chunks[i].len(),
                number + 2
            );
            assert_eq!(plan.section_bytes[number] as usize, section.len(), "{what}: its length");
            if out[at..at + section.len()] != *section {
                let differs = (0..section.len()).find(|&j| out[at + j] != section[j]);
                panic!("{what} differs from byte {differs:?} on");
            }
            at += section.len();
            assert!(out[at..at.next_multiple_of(16)].iter().all(|&byte| byte == 0), "{what}: zeros behind it");
            at = at.next_multiple_of(16);
        }
        assert_eq!(plan.tokens, case.tokens[i].blocks.iter().map(|block| block.tokens).sum::<u32>());
    }
    assert_eq!(places[plans.len()], at as u64);
    assert!(out[at..].iter().all(|&byte| byte == 0xA5), "{what}: written past the sections");
    (encoded, plans, places)
}

/// Where the sections of chunks that follow each other are.
fn decode_spans(case: &Case, plans: &[Plan], places: &[u64]) -> Vec<DecodeSpan> {
    let each = case.spans.iter().zip(plans).zip(places);
    let span = |((span, plan), &place): ((&Span, &Plan), &u64)| {
        let mut at = place + u64::from(plan.section_bytes[0]).next_multiple_of(16);
        let mut next = |number: usize| {
            let part = (at, plan.section_bytes[number]);
            at += u64::from(part.1).next_multiple_of(16);
            part
        };
        DecodeSpan {
            blocks: place + 8,
            flags: next(1),
            lengths: next(2),
            distances: next(3),
            literals: next(4),
            output: span.offset,
            bytes: span.bytes,
            min_match: span.min_match,
        }
    };
    each.map(span).collect()
}

fn decode_on(device: &Device, case: &Case, input: &CudaSlice<u8>, spans: &[DecodeSpan]) -> (Vec<u8>, Vec<u32>) {
    let stream = device.context().default_stream();
    let (width, level) = (case.params.width, case.params.level);
    let decoder = Decoder::new(device, width, level).unwrap();
    let batch = DecodeBatch::new(&stream, width, level, spans).unwrap();
    // Poisoned as the input is between chunks.
    let mut output = stream.clone_htod(&vec![0xEE_u8; case.input().len()]).unwrap();
    let mut status = stream.clone_htod(&vec![u32::MAX; spans.len()]).unwrap();
    let mut arena = Arena::new(stream.clone());
    let (mut output_view, mut status_view) = (output.as_view_mut(), status.as_view_mut());
    let mut frame = arena.frame().unwrap();
    decoder.launch(&mut frame, &input.as_view(), &batch, &mut output_view, &mut status_view).unwrap();
    (stream.clone_dtoh(&output).unwrap(), stream.clone_dtoh(&status).unwrap())
}

fn check_both(device: &Device, case: &Case, method: Method, what: &str) {
    let (encoded, plans, places) = check_encoder(device, case, method, what);
    let spans = decode_spans(case, &plans, &places);
    let (output, status) = decode_on(device, case, encoded.bytes(), &spans);
    let bad = status.iter().position(|&status| status != 0);
    assert_eq!(bad, None, "{what}: {:?}", bad.map(|bad| status_text(status[bad])));
    let input = case.input();
    if output != input {
        let at = (0..input.len()).find(|&i| output[i] != input[i]).unwrap();
        let chunk = case.spans.iter().rposition(|span| span.offset <= at as u64).unwrap();
        panic!(
            "{what}, {:?} {}: byte {} of chunk {chunk} ({} bytes) comes back as {} instead of {}",
            case.params.width,
            case.params.level,
            at as u64 - case.spans[chunk].offset,
            case.chunks[chunk].len(),
            output[at],
            input[at]
        );
    }
}

/// Chunks of every kind whose lengths are at edges.
fn edge_chunks(block: usize, seed: u64) -> Vec<Vec<u8>> {
    let lengths =
        [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100, 255, 1000, 4097, block - 1, block, block + 1, 2 * block + 777];
    let each = |(i, &length): (usize, &usize)| bytes(KINDS[(i + seed as usize) % KINDS.len()], length, seed + i as u64);
    lengths.iter().enumerate().step_by(pick(1, 3)).map(each).collect()
}

fn levels(width: SymbolWidth, levels: std::ops::RangeInclusive<u8>) {
    let Some(device) = common::device() else { return };
    for level in levels {
        let block = Params::new(width, level).block_bytes();
        let kinds = KINDS.iter().skip(pick(0, usize::from(level) % 4)).step_by(pick(1, 4));
        let kinds = kinds.map(|&kind| bytes(kind, block + block / 2 + 5, u64::from(level)));
        check_both(device, &Case::new(width, level, kinds.collect()), Method::Linked, "kinds");
        check_both(device, &Case::new(width, level, edge_chunks(block, level.into())), Method::Linked, "edges");
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

#[test]
fn long_windows() {
    SymbolWidth::ALL.into_iter().for_each(|width| levels(width, 5..=9));
}

#[test]
fn published_form_writes_the_same() {
    let Some(device) = common::device() else { return };
    for (width, level) in
        [(SymbolWidth::One, 4), (SymbolWidth::Two, 3), (SymbolWidth::Four, 1), (SymbolWidth::Eight, 2)]
    {
        let kinds = KINDS.iter().skip(pick(0, usize::from(level) % 3)).step_by(pick(1, 3));
        let kinds = kinds.map(|&kind| bytes(kind, 20_000, 77));
        check_encoder(device, &Case::new(width, level, kinds.collect()), Method::Published, "published");
        check_encoder(device, &Case::new(width, level, edge_chunks(1 << 14, 5)), Method::Published, "published");
    }
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
        check_both(device, &Case::new(width, level, chunks.collect()), Method::Linked, "many blocks");
    }
}

#[test]
fn records_are_core_s() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    for (width, level) in
        [(SymbolWidth::One, 4), (SymbolWidth::Two, 3), (SymbolWidth::Four, 1), (SymbolWidth::Eight, 6)]
    {
        let mut chunks = edge_chunks(1 << 14, 6);
        chunks.push(bytes(Kind::Codes, pick(1_000_000, 50_000), 8));
        let case = Case::new(width, level, chunks);
        let mut expected = Vec::new();
        for (i, span) in case.spans.iter().enumerate() {
            let record = RecordBuilder::begin(&mut expected, ChunkKind::Lzss, span.chunk);
            let mut sections = SectionWriter::begin(&mut expected);
            sections.skip();
            sections.skip();
            case.sections(i).iter().for_each(|section| {
                sections.section(&mut expected, |out| out.extend_from_slice(section));
            });
            record.finish(&mut expected);
        }
        let input = stream.clone_htod(&case.input()).unwrap();
        let batch = Batch::new(&stream, width, level, Form::Records, &case.spans).unwrap();
        let encoder = Encoder::new(device, width, level, Method::Linked).unwrap();
        let mut encoded = Encoded::new(&stream, &batch, batch.max_bytes()).unwrap();
        let poison = vec![0xA5_u8; encoded.bytes().len()];
        stream.memcpy_htod(&poison, encoded.bytes_mut()).unwrap();
        let mut arena = Arena::new(stream.clone());
        encoder.launch(&mut arena.frame().unwrap(), &input.as_view(), &batch, &mut encoded).unwrap();
        encoded.read_plans(&stream).unwrap();
        let places = stream.clone_dtoh(encoded.places()).unwrap();
        let lengths = stream.clone_dtoh(encoded.lengths()).unwrap();
        let records = stream.clone_dtoh(&encoded.bytes().slice(..expected.len())).unwrap();
        assert_eq!(places[case.spans.len()], expected.len() as u64);
        for (i, &place) in places[..case.spans.len()].iter().enumerate() {
            let range = place as usize..place as usize + lengths[i] as usize;
            assert!(records[range.clone()] == expected[range], "{width:?} {level}, record {i}");
        }
    }
}

/// One small chunk of each path, for the sanitizers: they slow the device down by a hundred.
#[test]
fn small_of_every_path() {
    let Some(device) = common::device() else { return };
    for (width, level) in
        [(SymbolWidth::One, 4), (SymbolWidth::Two, 3), (SymbolWidth::Four, 1), (SymbolWidth::Eight, 6)]
    {
        let kinds = KINDS.iter().skip(pick(0, usize::from(level) % 4)).step_by(pick(1, 4));
        let chunks = kinds.map(|&kind| bytes(kind, 17_003, 4)).chain([vec![], vec![1]]);
        check_both(device, &Case::new(width, level, chunks.collect()), Method::Linked, "small");
    }
    check_encoder(
        device,
        &Case::new(SymbolWidth::Two, 2, vec![bytes(Kind::Codes, 17_003, 4)]),
        Method::Published,
        "small",
    );
}

/// Core's decoder on what the device has been given: the bytes, or that it is wrong.
fn decode_with_core(bytes: &[u8], span: &DecodeSpan, params: &Params) -> Option<Vec<u8>> {
    let width = params.width.bytes();
    let padded = (span.bytes as usize).next_multiple_of(width);
    let mut out = vec![0; padded + SLACK];
    let part = |(at, length): (u64, u32)| [&bytes[at as usize..at as usize + length as usize], &[0; SLACK]].concat();
    let (flags, lengths, distances, literals) =
        (part(span.flags), part(span.lengths), part(span.distances), part(span.literals));
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut flag, mut matched, mut literal) = (0, 0, 0);
    let mut blocks = Vec::new();
    for i in 0..padded.div_ceil(params.block_bytes()) {
        let at = span.blocks as usize + i * 8;
        let counts = BlockCounts { tokens: word(at), matches: word(at + 4) };
        let symbols = (padded - i * params.block_bytes()).min(params.block_bytes()) / width;
        if counts.matches > counts.tokens || counts.tokens as usize > symbols {
            return None;
        }
        blocks.push(counts);
        flag += (counts.tokens as usize).div_ceil(64) * 8;
        matched += counts.matches as usize;
        literal += (counts.tokens - counts.matches) as usize * width;
    }
    let totals = [flag, matched, matched * params.distance_bytes(), literal];
    if totals != [span.flags.1, span.lengths.1, span.distances.1, span.literals.1].map(|length| length as usize) {
        return None;
    }
    let flags: Vec<u64> =
        flags[..flag].chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    (flag, matched, literal) = (0, 0, 0);
    for (i, counts) in blocks.iter().enumerate() {
        let (tokens, matches) = (counts.tokens as usize, counts.matches as usize);
        let words = tokens.div_ceil(64);
        let parts = TokenParts {
            tokens,
            matches,
            flags: &flags[flag..flag + words],
            literals: &literals[literal..],
            lengths: &lengths[matched..],
            distances: &distances[matched * params.distance_bytes()..],
        };
        let start = i * params.block_bytes();
        decode_block(&parts, params, &mut out, start, padded.min(start + params.block_bytes())).ok()?;
        flag += words;
        matched += matches;
        literal += (tokens - matches) * width;
    }
    out.truncate(span.bytes as usize);
    Some(out)
}

#[test]
fn damage_is_found_where_core_finds_it() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    let mut random = Random(2);
    let count = pick(60, 16);
    for (width, level) in [
        (SymbolWidth::One, 3),
        (SymbolWidth::Two, 3),
        (SymbolWidth::Four, 1),
        (SymbolWidth::Eight, 4),
        (SymbolWidth::Two, 7),
    ] {
        let kinds = KINDS.iter().cycle().take(count).enumerate();
        let case = Case::new(width, level, kinds.map(|(i, &kind)| bytes(kind, 1 + i * (48_000 / count), 31)).collect());
        let (encoded, plans, places) = check_encoder(device, &case, Method::Linked, "to be damaged");
        let bytes = stream.clone_dtoh(encoded.bytes()).unwrap();
        let (mut wrong, mut changed) = (0, 0);
        for round in 0..6 {
            let mut damaged = bytes.clone();
            let mut spans = decode_spans(&case, &plans, &places);
            for (i, span) in spans.iter_mut().enumerate() {
                // One chunk in eight stays whole. Flips anywhere behind the parameters, in any section alike; or a section's length that lies.
                match random.below(8) {
                    0 => {}
                    1 => {
                        let part =
                            [&mut span.flags.1, &mut span.lengths.1, &mut span.distances.1, &mut span.literals.1];
                        let length = &mut *part.into_iter().nth(random.below(4) as usize).unwrap();
                        *length = length.saturating_sub(1 + random.below(9) as u32);
                    }
                    _ => {
                        let blocks = (span.blocks, plans[i].section_bytes[0] - 8);
                        let parts = [blocks, span.flags, span.lengths, span.distances, span.literals];
                        for _ in 0..1 + round % 3 {
                            let (at, length) = parts[random.below(5) as usize];
                            if length > 0 {
                                let low_bits = if random.below(2) == 0 { 8 } else { 2 };
                                damaged[(at + random.below(length.into())) as usize] ^= 1 << random.below(low_bits);
                            }
                        }
                    }
                }
                if round == 5 {
                    span.min_match = 1 + random.below(16) as u8;
                }
            }
            let input = stream.clone_htod(&damaged).unwrap();
            let (output, status) = decode_on(device, &case, &input, &spans);
            for (i, span) in spans.iter().enumerate() {
                let params = Params { min_match: span.min_match, ..case.params };
                let expected = decode_with_core(&damaged, span, &params);
                let what = format!("{width:?} {level}, round {round}, chunk {i}");
                assert_eq!(status[i] == 0, expected.is_some(), "{what}: {:?}", status_text(status[i]));
                wrong += usize::from(expected.is_none());
                let at = span.output as usize;
                if let Some(expected) = expected {
                    assert!(output[at..at + expected.len()] == expected, "{what}: other bytes than core's");
                    changed += usize::from(expected != case.chunks[i]);
                }
                let end = at + span.bytes as usize;
                assert!(
                    output[end..end.next_multiple_of(16)].iter().all(|&byte| byte == 0xEE),
                    "{what}: written past it"
                );
            }
        }
        assert!(
            wrong > count * 5 / 6 && changed > count / 12,
            "{wrong} chunks found wrong, {changed} decoded to other bytes"
        );
    }
}

#[test]
fn too_little_room_is_noticed() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    let case = Case::new(SymbolWidth::Two, 3, vec![bytes(Kind::Noise, 50_000, 1), bytes(Kind::Noise, 50_000, 2)]);
    let input = stream.clone_htod(&case.input()).unwrap();
    let batch = Batch::new(&stream, SymbolWidth::Two, 3, Form::Sections, &case.spans).unwrap();
    let encoder = Encoder::new(device, SymbolWidth::Two, 3, Method::Linked).unwrap();
    let mut encoded = Encoded::new(&stream, &batch, 60_000).unwrap();
    encoder.launch(&mut Arena::new(stream.clone()).frame().unwrap(), &input.as_view(), &batch, &mut encoded).unwrap();
    assert!(encoded.read_plans(&stream).unwrap_err().to_string().contains("chunk 1"));
}

#[test]
fn wrong_arguments_are_refused() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    assert!(Encoder::new(device, SymbolWidth::Two, 0, Method::Linked).is_err());
    assert!(Decoder::new(device, SymbolWidth::Two, 10).is_err());
    let span = Span { offset: 0, bytes: 100, min_match: 2, chunk: 0 };
    let batch = |span| Batch::new(&stream, SymbolWidth::Two, 3, Form::Sections, &[span]);
    assert!(batch(Span { offset: 8, ..span }).is_err());
    assert!(batch(Span { bytes: 1 << 26, ..span }).is_err());
    assert!(batch(Span { min_match: 17, ..span }).is_err());
    assert!(batch(Span { min_match: 1, ..span }).unwrap_err().to_string().contains("at least"));
    assert!(Batch::new(&stream, SymbolWidth::Two, 3, Form::Sections, &[]).is_err());
    let batch = batch(span).unwrap();
    let mut encoded = Encoded::new(&stream, &batch, 4096).unwrap();
    let input = stream.clone_htod(&[0_u8; 112]).unwrap();
    let mut arena = Arena::new(stream.clone());
    let mut launch = |level, view: &cudarc::driver::CudaView<'_, u8>| {
        let encoder = Encoder::new(device, SymbolWidth::Two, level, Method::Linked).unwrap();
        encoder.launch(&mut arena.frame().unwrap(), view, &batch, &mut encoded)
    };
    assert!(launch(3, &input.as_view()).is_ok());
    assert!(launch(2, &input.as_view()).is_err());
    assert!(launch(3, &input.slice(..99)).is_err());
    assert!(launch(3, &input.slice(1..)).is_err());
}
