//! The decoders on streams that the CPU has written: data with edge cases, several streams per launch, damaged streams.

mod batch;
#[path = "../common/mod.rs"]
mod common;

use std::sync::OnceLock;

use batch::{AnyDecoder, Case, decode};
use common::{Random, Share, pick, unless_tiny};
use cudarc::driver::DeviceRepr;
use syncline_core::huffman::{Decoder, EncodeOptions, IndexKind, SUBSEQUENCE_BITS, Stream, Symbol};
use syncline_cuda::baselines::cusz_2020::CuSz2020;
use syncline_cuda::cudarc;
use syncline_cuda::device::Arena;
use syncline_cuda::huffman::decode::{Batch, BatchStream, Decoding, Gap, Indexed, status_text};

/// Returns symbols with many distributions, a multiple of 128 each, all below 2^`bits`.
fn shapes(bits: u32) -> Vec<(&'static str, Vec<u16>)> {
    let mut r = Random(7);
    let mask = ((1_u32 << bits) - 1) as u16;
    let center = 1_u16 << (bits - 1);
    let n = 128 * pick(300, unless_tiny(40, 12));
    let geometric = |share, n| common::symbols(common::Spread::Geometric(share), 1 << bits, n, 11);
    let mut shapes = vec![
        ("empty", vec![]),
        ("one group", geometric(0.4, 128)),
        ("33 groups", geometric(0.4, 128 * 33)),
        ("single symbol", vec![3; n]),
        ("largest symbol", vec![mask; n]),
        ("98 % one symbol", geometric(0.98, n)),
        ("2 bits", geometric(0.6, 128 * pick(5000, 70))),
        ("5 bits", geometric(0.13, n)),
    ];
    let clusters = |(i, s): (usize, u16)| if i / 512 % 3 == 0 { s } else { center };
    let many = 128 * pick(3000, unless_tiny(300, 90));
    shapes.push(("clusters of zero-bit groups", geometric(0.3, many).into_iter().enumerate().map(clusters).collect()));
    shapes.extend([
        ("two symbols", (0..n).map(|_| if r.below(9) == 0 { mask } else { 0 }).collect()),
        // One symbol in runs, the others with the longest codewords.
        ("runs", (0..many).map(|_| if r.below(70) == 0 { r.next() as u16 & mask } else { center }).collect()),
        ("flat", (0..n).map(|_| r.next() as u16).collect::<Vec<_>>()),
        // All codewords have 6 bits, which divides neither 32 nor 128: a wrong entry point stays wrong.
        ("never synchronizing", (0..many).map(|_| r.below(64) as u16).collect()),
    ]);
    // Fibonacci frequencies give the longest codewords.
    let mut fibonacci = Vec::new();
    let (mut a, mut b) = (1_usize, 1_usize);
    for symbol in 0..pick(24, unless_tiny(18, 15)) {
        fibonacci.extend(std::iter::repeat_n(symbol * 5, a));
        (a, b) = (b, a + b);
    }
    fibonacci.resize(fibonacci.len().next_multiple_of(128), 0);
    for i in (1..fibonacci.len()).rev() {
        fibonacci.swap(i, r.below(i as u64 + 1) as usize);
    }
    shapes.push(("fibonacci", fibonacci));
    let again = (0..=unless_tiny(mask, 127)).map(|i| i & (i >> 3));
    shapes.push(("every symbol", (0..=mask).chain(again).collect()));
    for (_, symbols) in &mut shapes {
        symbols.iter_mut().for_each(|s| *s &= mask);
    }
    shapes
}

/// Returns every distribution with every index, and one stream with classes.
fn cases<S: Symbol>(bits: u32, group_log2: u8) -> Vec<Case<S>> {
    let mut cases = Vec::new();
    for (what, symbols) in shapes(bits) {
        let symbols: Vec<S> = symbols.into_iter().map(S::truncate).collect();
        for index in IndexKind::ALL {
            let options = EncodeOptions { group_log2, index, zero_bit_symbol: None };
            cases.push(Case::new(what, symbols.clone(), vec![], &options));
        }
        let never =
            EncodeOptions { group_log2, index: IndexKind::Symbol, zero_bit_symbol: Some(((1_u32 << bits) - 2) as u16) };
        cases.push(Case::new(&format!("{what}, hardly a zero-bit group"), symbols, vec![], &never));
    }
    // Groups of very different distributions, one class for each.
    let groups = pick(2000, unless_tiny(200, 80)) >> (group_log2 - 6);
    let mut r = Random(3);
    let classes: Vec<u8> = (0..groups).map(|_| r.below(4) as u8).collect();
    let shares = [0.97, 0.6, 0.2, 0.03]
        .map(|share| common::symbols(common::Spread::Geometric(share), 1 << bits.min(10), groups << group_log2, 5));
    let symbols =
        (0..groups << group_log2).map(|i| S::truncate(shares[classes[i >> group_log2] as usize][i])).collect();
    let options = EncodeOptions { group_log2, index: IndexKind::Symbol, zero_bit_symbol: None };
    let case = Case::new("classes", symbols, classes, &options);
    assert!(Stream::<S>::parse(&case.bytes, "test").unwrap().needs_classes());
    cases.push(case);
    cases
}

fn round_trips<S: Symbol + DeviceRepr>(bits: u32, group_log2: u8) {
    if common::device().is_some() {
        round_trips_of::<S>(&cases(bits, group_log2), group_log2, |_| true);
    }
}

/// Round trips of the decoders for which `wanted` returns true.
fn round_trips_of<S: Symbol + DeviceRepr>(cases: &[Case<S>], group_log2: u8, wanted: fn(&AnyDecoder<S>) -> bool) {
    let Some(device) = common::device() else { return };
    let mut arena = Arena::new(device.context().default_stream());
    let mut share = Share::one_in(17).if_tiny(67, 20);
    let decoders = AnyDecoder::<S>::all(device, group_log2.into()).into_iter().enumerate();
    for (number, (name, decoder)) in decoders.filter(|(_, (_, decoder))| wanted(decoder)) {
        // Decodes the streams that the decoder supports one by one, and then all streams with the same index as one
        // batch. Tiny runs take one stream in eleven for the batch, and only streams without an index for decoders that
        // need none.
        let indices = IndexKind::ALL
            .iter()
            .copied()
            .filter(|&index| unless_tiny(true, decoder.needs_index() || index == IndexKind::None));
        for index in indices {
            let readable: Vec<&Case<S>> = cases
                .iter()
                .filter(|case| {
                    let stream = Stream::<S>::parse(&case.bytes, "test").unwrap();
                    stream.index_kind() == index && decoder.reads(index, stream.codebooks().len())
                })
                .collect();
            let single = readable.iter().map(|case| vec![*case]).filter(|_| share.takes());
            let together = readable.iter().copied().skip(unless_tiny(0, number % 11)).step_by(unless_tiny(1, 11));
            for batch in single.chain([together.collect(), vec![]]) {
                for (case, (status, symbols)) in batch.iter().zip(decode(&mut arena, &decoder, &batch)) {
                    assert_eq!(status_text(status), None, "{name}: {}", case.what);
                    let wrong = symbols.iter().zip(&case.symbols).position(|(a, b)| a != b);
                    assert_eq!(wrong, None, "{name}: {} of {} in a batch of {}", case.what, symbols.len(), batch.len());
                }
            }
        }
    }
}

#[test]
fn bytes_in_groups_of_64() {
    round_trips::<u8>(8, 6);
}

#[test]
fn bytes_in_groups_of_128() {
    round_trips::<u8>(8, 7);
}

#[test]
fn ten_bits_in_groups_of_64() {
    round_trips::<u16>(10, 6);
}

#[test]
fn ten_bits_in_groups_of_128() {
    round_trips::<u16>(10, 7);
}

/// Distributes the cases over the tests, which are separated by decoder because they take longest.
fn sixteen_bits(group_log2: u8, wanted: fn(&AnyDecoder<u16>) -> bool) {
    static CASES: [OnceLock<Vec<Case<u16>>>; 2] = [OnceLock::new(), OnceLock::new()];
    if common::device().is_some() {
        let cases = CASES[usize::from(group_log2 == 7)].get_or_init(|| cases(16, group_log2));
        round_trips_of(cases, group_log2, wanted);
    }
}

#[test]
fn sixteen_bits_by_index_in_groups_of_64() {
    sixteen_bits(6, |decoder| decoder.reads(IndexKind::Symbol, 4));
}

#[test]
fn sixteen_bits_by_index_in_groups_of_128() {
    sixteen_bits(7, |decoder| decoder.reads(IndexKind::Symbol, 4));
}

#[test]
fn sixteen_bits_by_gaps_in_groups_of_64() {
    sixteen_bits(6, |decoder| decoder.needs_index() && decoder.reads(IndexKind::Gap, 1));
}

#[test]
fn sixteen_bits_by_gaps_in_groups_of_128() {
    sixteen_bits(7, |decoder| decoder.needs_index() && decoder.reads(IndexKind::Gap, 1));
}

#[test]
fn sixteen_bits_self_synchronizing_in_groups_of_64() {
    sixteen_bits(6, |decoder| !decoder.needs_index() && !decoder.reads(IndexKind::None, 4));
}

#[test]
fn sixteen_bits_self_synchronizing_in_groups_of_128() {
    sixteen_bits(7, |decoder| !decoder.needs_index() && !decoder.reads(IndexKind::None, 4));
}

/// Runs of the most frequent symbol that are longer than a warp decodes at a time, between dense data and rare symbols
/// with the longest codewords, without zero-bit groups.
fn long_runs<S: Symbol + DeviceRepr>(bits: u32) {
    let length = 128 * unless_tiny(1500, 150);
    let (center, most) = (1_u16 << (bits - 1), ((1_u32 << bits) - 2) as u16);
    let dense = common::symbols(common::Spread::Geometric(0.15), 1 << (bits - 1), length, 2);
    let mut r = Random(9);
    let of = |i: usize| match i / 9000 % 3 {
        0 => center,
        1 => dense[i],
        _ if r.below(40) == 0 => r.below(u64::from(most)) as u16,
        _ => center,
    };
    let symbols: Vec<S> = (0..length).map(of).map(S::truncate).collect();
    // No group consists of the zero-bit symbol.
    let case = |index| {
        Case::new(
            "long runs",
            symbols.clone(),
            vec![],
            &EncodeOptions { group_log2: 7, index, zero_bit_symbol: Some(most) },
        )
    };
    round_trips_of(&[IndexKind::Gap, IndexKind::None].map(case), 7, |any| {
        any.reads(IndexKind::Gap, 1) && !any.reads(IndexKind::None, 4)
    });
}

#[test]
fn long_runs_of_one_symbol() {
    long_runs::<u8>(8);
    long_runs::<u16>(16);
}

/// All decoders on little data, for the slow sanitizer tools.
#[test]
fn small_streams() {
    let Some(device) = common::device() else { return };
    let mut arena = Arena::new(device.context().default_stream());
    let groups = 70;
    let mut symbols = common::symbols(common::Spread::Geometric(0.3), 1024, groups * 128, 1);
    symbols[128 * 9..128 * 20].fill(512);
    let flat = (0..groups * 128).map(|i| (i * 31 % 64) as u16).collect::<Vec<_>>();
    let classes: Vec<u8> = (0..groups).map(|i| (i % 4) as u8).collect();
    let by_class = (0..groups * 128)
        .map(|i| if i / 128 % 4 == 3 { symbols[i] } else { 7 + (i / 128 % 4) as u16 * (i as u16 % 3) });
    let by_class: Vec<u16> = by_class.collect();
    for index in IndexKind::ALL {
        let options = EncodeOptions { group_log2: 7, index, zero_bit_symbol: Some(512) };
        let cases = [
            Case::new("small", symbols.clone(), vec![], &options),
            Case::new("flat", flat.clone(), vec![], &options),
            Case::new("classes", by_class.clone(), classes.clone(), &options),
        ];
        for (name, decoder) in AnyDecoder::<u16>::all(device, 7) {
            let books = |case: &&Case<u16>| Stream::<u16>::parse(&case.bytes, "test").unwrap().codebooks().len();
            let readable: Vec<&Case<u16>> = cases.iter().filter(|case| decoder.reads(index, books(case))).collect();
            for (case, (status, symbols)) in readable.iter().zip(decode(&mut arena, &decoder, &readable)) {
                assert_eq!(status_text(status), None, "{name}: {}", case.what);
                assert!(symbols == case.symbols, "{name}: {}", case.what);
            }
        }
    }
}

/// Batches of several short streams, some of them without coded groups.
#[test]
fn batches_of_several_streams() {
    let Some(device) = common::device() else { return };
    let mut arena = Arena::new(device.context().default_stream());
    for index in IndexKind::ALL {
        let options = EncodeOptions { group_log2: 7, index, zero_bit_symbol: Some(512) };
        let case = |i: usize| {
            let length = 128 * [1, 300, 40, 7][i % 4];
            let spread = common::Spread::Geometric([0.3, 0.9][i % 2]);
            let mut symbols = common::symbols(spread, 1024, length, i as u64 + 1);
            // A third of each is zero-bit groups, and all of every fifth.
            let free = if i % 5 == 4 { length } else { length / 3 };
            symbols[..free].fill(512);
            Case::new("one of several", symbols, vec![], &options)
        };
        let cases: Vec<_> = (0..17).map(case).collect();
        for (name, decoder) in AnyDecoder::<u16>::all(device, 7) {
            if !decoder.reads(index, 1) {
                continue;
            }
            for count in [5, 16, 17] {
                let batch: Vec<&Case<u16>> = cases[..count].iter().collect();
                for (case, (status, symbols)) in batch.iter().zip(decode(&mut arena, &decoder, &batch)) {
                    assert_eq!(status_text(status), None, "{name}: {} of {count}", case.what);
                    assert!(symbols == case.symbols, "{name}: {} of {count}", case.what);
                }
            }
        }
    }
}

/// Bytes on the device are changed after parsing: the result must be a status, or the correct symbols, and no writes
/// outside of the output.
#[test]
fn damage_is_reported() {
    let Some(device) = common::device() else { return };
    let mut arena = Arena::new(device.context().default_stream());
    let mut r = Random(99);
    let mut share = Share::one_in(31);
    for group_log2 in [6, 7_u8] {
        let mut cases = cases::<u16>(10, group_log2);
        cases.retain(|case| !case.symbols.is_empty());
        for (name, decoder) in AnyDecoder::<u16>::all(device, group_log2.into()) {
            for case in &mut cases {
                let stream = Stream::<u16>::parse(&case.bytes, "test").unwrap();
                if !decoder.reads(stream.index_kind(), stream.codebooks().len()) {
                    continue;
                }
                let untrusted = 40 + stream.codebook_bytes();
                for round in 0..6 {
                    if !share.takes() {
                        continue;
                    }
                    case.on_device.clone_from(&case.bytes);
                    let damaged = &mut case.on_device[untrusted..];
                    match round {
                        0 => damaged.fill(0xff),
                        1 => damaged.fill(0),
                        2 => damaged.iter_mut().for_each(|byte| *byte = r.next() as u8),
                        // Removes the tail of the stream.
                        3 => {
                            let cut = r.below(damaged.len() as u64) as usize;
                            damaged[cut..].fill(0);
                        }
                        _ => damaged[r.below(damaged.len() as u64) as usize] ^= 1 << r.below(8),
                    }
                    let case = &*case;
                    let (status, symbols) = decode(&mut arena, &decoder, &[case]).pop().unwrap();
                    let right = symbols == case.symbols;
                    assert!(status != 0 || right, "{name}: {}, damage {round}, not noticed", case.what);
                }
            }
        }
    }
}

/// The device and the CPU use the same subsequence length.
#[test]
fn subsequences_are_the_formats() {
    assert_eq!(SUBSEQUENCE_BITS, 128);
}

#[test]
fn wrong_arguments_are_refused() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    let mut arena = Arena::new(stream.clone());
    assert!(Indexed::<u16>::new(device, 5).is_err() && CuSz2020::<u8>::new(device, 8).is_err());
    let options = EncodeOptions { index: IndexKind::Symbol, ..EncodeOptions::default() };
    let case = Case::new("small", common::symbols(common::Spread::Flat, 256, 1280, 1), vec![], &options);
    let parsed = Stream::<u16>::parse(&case.bytes, "test").unwrap();
    let place = BatchStream { stream: &parsed, input_offset: 0, output_offset: 0, classes_offset: 0 };
    assert!(Batch::new(&stream, &[BatchStream { input_offset: 8, ..place }]).is_err(), "misaligned");
    assert!(Batch::new(&stream, &[place, BatchStream { output_offset: 64, ..place }]).is_err(), "overlapping");
    let batch = Batch::new(&stream, &[place]).unwrap();
    assert_eq!((batch.streams(), batch.output_len(), batch.classes_len()), (1, 1280, 0));
    let mut attempt = |decoder: AnyDecoder<u16>, input: usize, output: usize, statuses: usize| {
        let mut bytes = case.bytes.clone();
        bytes.truncate(input);
        let (bytes, classes) = (stream.clone_htod(&bytes).unwrap(), stream.alloc_zeros::<u8>(1).unwrap());
        let mut symbols = stream.alloc_zeros::<u16>(output).unwrap();
        let mut status = stream.alloc_zeros::<u32>(statuses).unwrap();
        let work = Decoding {
            input: &bytes.as_view(),
            classes: &classes.as_view(),
            batch: &batch.as_view(),
            output: &mut symbols.as_view_mut(),
            status: &mut status.as_view_mut(),
        };
        decoder.launch(&mut arena, work)
    };
    let indexed = || AnyDecoder::Indexed(Indexed::<u16>::new(device, 7).unwrap());
    let whole = case.bytes.len();
    assert!(attempt(indexed(), whole, 1280, 1).is_ok());
    assert!(attempt(indexed(), whole - 1, 1280, 1).is_err());
    assert!(attempt(indexed(), whole, 1279, 1).is_err());
    assert!(attempt(indexed(), whole, 1280, 2).is_err());
    assert!(attempt(AnyDecoder::Indexed(Indexed::new(device, 6).unwrap()), whole, 1280, 1).is_err());
    assert!(attempt(AnyDecoder::Gap(Gap::new(device, 7).unwrap()), whole, 1280, 1).is_err());
    assert_eq!(Decoder::ALL.len(), 5, "a new decoder wants a case here");
}
