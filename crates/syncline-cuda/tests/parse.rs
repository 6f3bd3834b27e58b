//! Huffman streams that the device parses and decodes, compared with the CPU: alphabets up to 65,536,
//! several codebooks, damage.

mod common;

use common::{Random, pick};
use cudarc::driver::DeviceRepr;
use syncline_core::huffman::{Decoder, EncodeOptions, EncodeScratch, IndexKind, Stream, Symbol, encode};
use syncline_cuda::cudarc;
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::huffman::decode::{Decoding, Indexed, Limits, Parser, StreamLocation, status_text};

/// Symbols between and after outputs that must not be written.
const GUARD: usize = 256;

/// A stream's symbols and classes, and the bytes that the device gets, which may be damaged.
#[derive(Clone)]
struct Case<S> {
    symbols: Vec<S>,
    classes: Vec<u8>,
    on_device: Vec<u8>,
}

impl<S: Symbol> Case<S> {
    fn new(symbols: Vec<S>, classes: Vec<u8>, options: &EncodeOptions) -> Self {
        let mut on_device = Vec::new();
        encode(&symbols, &classes, options, &mut EncodeScratch::default(), &mut on_device);
        Self { symbols, classes, on_device }
    }
}

/// Parses and decodes the cases as one batch on the device. Returns the status and the symbols of each.
fn decode<S: Symbol + DeviceRepr>(
    arena: &mut Arena,
    parser: &Parser<S>,
    decoder: &Indexed<S>,
    group: usize,
    cases: &[Case<S>],
) -> Vec<(u32, Vec<S>)> {
    let poison = S::truncate(0x5a5a);
    let stream = arena.stream().clone();
    let (mut input, mut classes, mut places, mut room) = (vec![0xa5_u8; 48], Vec::new(), Vec::new(), 0);
    for case in cases {
        places.push(StreamLocation {
            offset: input.len() as u64,
            out: room as u64,
            classes: classes.len() as u64,
            length: case.on_device.len() as u32,
            groups: (case.symbols.len() / group) as u32,
        });
        input.extend_from_slice(&case.on_device);
        // The last stream ends with the buffer.
        if places.len() < cases.len() {
            input.resize(input.len().next_multiple_of(16), 0xa5);
        }
        classes.extend_from_slice(&case.classes);
        classes.resize(room / group + case.symbols.len() / group + GUARD / group, 0);
        room += case.symbols.len() + GUARD;
    }
    classes.resize(room / group + 1, 0);
    let limits = Limits {
        output_symbols: room as u64,
        classes: classes.len() as u64,
        length: places.iter().map(|p| p.length).max().unwrap(),
        groups: places.iter().map(|p| p.groups).max().unwrap(),
    };
    let (input, classes) = (stream.clone_htod(&input).unwrap(), stream.clone_htod(&classes).unwrap());
    let places = stream.clone_htod(&places).unwrap();
    let mut output = stream.clone_htod(&vec![poison; room]).unwrap();
    let mut status = stream.clone_htod(&vec![0xffff_0000_u32; cases.len()]).unwrap();
    {
        let mut frame = arena.frame().unwrap();
        let batch =
            parser.launch(&mut frame, &input.as_view(), &places.as_view(), limits, &mut status.as_view_mut()).unwrap();
        let work = Decoding {
            input: &input.as_view(),
            classes: &classes.as_view(),
            batch: &batch,
            output: &mut output.as_view_mut(),
            status: &mut status.as_view_mut(),
        };
        decoder.launch(&mut frame, work).unwrap();
    }
    let (output, status) = (stream.clone_dtoh(&output).unwrap(), stream.clone_dtoh(&status).unwrap());
    let mut at = 0;
    let mut results = Vec::new();
    for (case, status) in cases.iter().zip(status) {
        let end = at + case.symbols.len();
        results.push((status, output[at..end].to_vec()));
        assert!(output[end..end + GUARD].iter().all(|&s| s == poison), "the device wrote behind the output");
        at = end + GUARD;
    }
    results
}

fn symbols<S: Symbol>(random: &mut Random, bins: u32, length: usize, narrow: u32) -> Vec<S> {
    let mut draw = || {
        let spread = if random.below(narrow.into()) == 0 { bins } else { 3.min(bins) };
        S::truncate((u64::from(bins / 2) + random.below(spread.into()) - u64::from(spread / 2)) as u16)
    };
    (0..length).map(|_| draw()).collect()
}

/// Returns many kinds of streams with an index.
fn cases<S: Symbol>(group: usize) -> Vec<Case<S>> {
    let mut random = Random(7 + group as u64);
    let bits = 8 * S::BYTES as u32;
    let options = |free: u16| EncodeOptions {
        index: IndexKind::Symbol,
        zero_bit_symbol: Some(free),
        group_log2: group.ilog2() as u8,
    };
    let most = 1_u32 << bits;
    let mut all = Vec::new();
    for (bins, groups, narrow) in [
        (2, 1, 1),
        (5, 3, 2),
        (40, 33, 1),
        (most.min(1024), pick(200, 50), 4),
        (most, 40, 1),
        (most, pick(700, 100), 1),
        (most, pick(300, 60), 900),
    ] {
        let symbols = symbols::<S>(&mut random, bins, groups * group, narrow);
        all.push(Case::new(symbols, vec![], &options((bins / 2) as u16 & (most - 1) as u16)));
    }
    // One symbol only; nothing at all; every symbol once, so that all codewords have one length; no zero-bit groups.
    all.push(Case::new(vec![S::truncate(77); 5 * group], vec![], &options(3)));
    all.push(Case::new(vec![S::truncate(3); 5 * group], vec![], &options(3)));
    all.push(Case::new(vec![], vec![], &options(0)));
    all.push(Case::new((0..most).map(|i| S::truncate(i as u16)).collect(), vec![], &options(0)));
    let plain = EncodeOptions { zero_bit_symbol: None, ..options(0) };
    all.push(Case::new(symbols(&mut random, most.min(300), 70 * group, 2), vec![], &plain));
    // Four codebooks.
    let mut classes = Vec::new();
    let mut four = Vec::new();
    for i in 0..pick(900_u32, 120) {
        let class = i % 4;
        classes.push(class as u8);
        let bins = [2, 8, 64, most.min(900)][class as usize];
        four.extend(self::symbols::<S>(&mut random, bins, group, 1));
    }
    all.push(Case::new(four, classes, &options(1)));
    all
}

fn round_trips<S: Symbol + DeviceRepr>(device: &Device) {
    let mut arena = Arena::new(device.context().default_stream());
    for group_log2 in [6, 7] {
        let (parser, decoder) = (Parser::new(device, group_log2).unwrap(), Indexed::new(device, group_log2).unwrap());
        let cases = cases::<S>(1 << group_log2);
        let four = Stream::<S>::parse(&cases.last().unwrap().on_device, "test").unwrap();
        assert_eq!(four.codebooks().len(), 4, "a case has several codebooks");
        let results = decode(&mut arena, &parser, &decoder, 1 << group_log2, &cases);
        for (i, (case, (status, symbols))) in cases.iter().zip(results).enumerate() {
            let what = format!("case {i}, {} bytes, K 2^{group_log2}", S::BYTES);
            assert_eq!(status_text(status), None, "{what}");
            assert!(symbols == case.symbols, "{what}");
        }
    }
}

#[test]
fn streams_of_bytes_round_trip() {
    if let Some(device) = common::device() {
        round_trips::<u8>(device);
    }
}

#[test]
fn streams_of_words_round_trip() {
    if let Some(device) = common::device() {
        round_trips::<u16>(device);
    }
}

/// Returns what the CPU decodes, or `None` if it reports an error.
fn on_cpu(case: &Case<u16>) -> Option<Vec<u16>> {
    let stream = Stream::<u16>::parse(&case.on_device, "test").ok()?;
    let mut symbols = vec![0; stream.symbols()];
    stream.decoder(Decoder::Auto, &case.classes).ok()?.decode(&mut symbols, 1).ok()?;
    Some(symbols)
}

/// Every truncation, and flips of single bits: each gives a status or the right symbols.
#[test]
fn damaged_streams_are_detected_or_decode_correctly() {
    let Some(device) = common::device() else { return };
    let mut arena = Arena::new(device.context().default_stream());
    let mut random = Random(99);
    let decoder = Indexed::<u16>::new(device, 6).unwrap();
    let parser = Parser::new(device, 6).unwrap();
    for good in cases::<u16>(64).into_iter().filter(|c| c.on_device.len() < 3000) {
        let length = good.on_device.len();
        let mut damaged = Vec::new();
        for _ in 0..pick(60, 6) {
            let mut case = good.clone();
            case.on_device.truncate(random.below(length as u64) as usize);
            damaged.push(case);
        }
        for i in 0..pick(200, 20) {
            let mut case = good.clone();
            // The header and the codebooks are damaged more often than the rest.
            let byte = random.below(if i % 2 == 0 { length.min(90) as u64 } else { length as u64 }) as usize;
            case.on_device[byte] ^= 1 << random.below(8);
            damaged.push(case);
        }
        for (case, (status, symbols)) in damaged.iter().zip(decode(&mut arena, &parser, &decoder, 64, &damaged)) {
            if status == 0 && symbols != case.symbols {
                // For example with another zero-bit symbol, which no checksum covers.
                assert_eq!(on_cpu(case), Some(symbols), "wrong symbols without a status");
            }
            if case.on_device.len() < length {
                assert_ne!(status, 0, "cut to {} of {length}", case.on_device.len());
            }
        }
    }
}

/// Writes a codebook with its lengths cut into runs at random, some with numbers in longer encodings than necessary.
fn cut_into_runs(lengths: &[u8], random: &mut Random, book: &mut Vec<u8>) {
    const LONG_RUN: usize = 8;
    book.extend_from_slice(&(lengths.len() as u32).to_le_bytes());
    for run in lengths.chunk_by(|a, b| a == b) {
        let mut left = run.len();
        while left > 0 {
            let take = 1 + random.below(left as u64) as usize;
            left -= take;
            if take < LONG_RUN {
                book.push(run[0] | (take as u8 - 1) << 5);
                continue;
            }
            book.push(run[0] | 7 << 5);
            let (mut number, mut padding) = (take - LONG_RUN, random.below(2));
            let mut bytes = 1;
            while number >= 0x80 || (padding > 0 && bytes < 3) {
                book.push(number as u8 | 0x80);
                number >>= 7;
                padding -= padding.min(1);
                bytes += 1;
            }
            book.push(number as u8);
        }
    }
}

/// Replaces the bytes of the stream's codebooks.
fn with_books(good: &Case<u16>, book: &[u8]) -> Case<u16> {
    let word = |at: usize| u32::from_le_bytes(good.on_device[at..at + 4].try_into().unwrap()) as usize;
    let (book_bytes, index_bytes) = (word(28), word(32));
    let index_at = (40 + book_bytes).next_multiple_of(8);
    let words_at = (index_at + index_bytes).next_multiple_of(16);
    let mut bytes = good.on_device[..40].to_vec();
    bytes[28..32].copy_from_slice(&(book.len() as u32).to_le_bytes());
    bytes.extend_from_slice(book);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend_from_slice(&good.on_device[index_at..index_at + index_bytes]);
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    bytes.extend_from_slice(&good.on_device[words_at..]);
    Case { on_device: bytes, ..good.clone() }
}

/// The CPU and the device agree on codebooks with runs that no encoder writes, for all of a stream's codebooks.
fn check_runs(device: &Device, good: &Case<u16>, decoder: &Indexed<u16>) {
    let mut arena = Arena::new(device.context().default_stream());
    let parser = Parser::<u16>::new(device, 6).unwrap();
    let stream = Stream::<u16>::parse(&good.on_device, "test").unwrap();
    let mut random = Random(5);
    let count = pick(3000, 300);
    let mut cases = Vec::new();
    for _ in 0..count {
        let mut book = Vec::new();
        for codebook in stream.codebooks() {
            cut_into_runs(codebook.lengths(), &mut random, &mut book);
        }
        for _ in 0..random.below(3) {
            let at = random.below(book.len() as u64) as usize;
            match random.below(3) {
                0 => book[at] ^= 1 << random.below(8),
                1 => book.insert(at, random.next() as u8),
                _ => {
                    book.remove(at);
                }
            }
        }
        cases.push(with_books(good, &book));
    }
    let results = decode(&mut arena, &parser, decoder, 64, &cases);
    let mut rights = 0;
    for (case, (status, symbols)) in cases.iter().zip(results) {
        const BOOK: u32 = 32;
        let whole = Stream::<u16>::parse(&case.on_device, "test").is_ok();
        assert_eq!(status & BOOK != 0, !whole, "the CPU finds it {}", if whole { "right" } else { "wrong" });
        if status == 0 {
            assert_eq!(on_cpu(case), Some(symbols), "other symbols than the CPU's");
        }
        rights += usize::from(whole);
    }
    assert!(rights > count / 30 && rights < count * 29 / 30, "{rights} of {count} are right");
}

#[test]
fn runs_are_accepted_exactly_if_the_cpu_accepts_them() {
    let Some(device) = common::device() else { return };
    let options = EncodeOptions { index: IndexKind::Symbol, zero_bit_symbol: None, group_log2: 6 };
    let decoder = Indexed::new(device, 6).unwrap();
    let one = Case::new((0..64 * 3).map(|i| i % 7).collect(), vec![], &options);
    check_runs(device, &one, &decoder);
    // Alphabets whose size starts with bytes that could also start runs: 1,000, 897, one that does not exist, and one
    // of some hundred bytes.
    let mut random = Random(23);
    let mut draw = |class: u32| match class {
        0 => [3, 999][random.below(2) as usize],
        1 => 896 - random.below(90) as u16,
        _ => (random.below(700) * random.below(700) / 700) as u16,
    };
    let classes: Vec<u8> = (0..pick(200_u32, 40)).map(|i| [0, 1, 3][i as usize % 3]).collect();
    let symbols = classes.iter().flat_map(|&class| (0..64).map(|_| draw(class.into())).collect::<Vec<u16>>()).collect();
    let four = Case::new(symbols, classes, &options);
    assert_eq!(Stream::<u16>::parse(&four.on_device, "test").unwrap().codebooks().len(), 4, "several codebooks");
    check_runs(device, &four, &decoder);
}
