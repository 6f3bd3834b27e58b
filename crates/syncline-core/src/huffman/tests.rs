//! The stage as a whole: every decoder against the input, for every kind of data that has a way to go wrong.

use super::*;

/// Pseudo-random numbers (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }

    /// Geometric, two-sided, around `centre`: each step further is `keep / 1024` as likely.
    pub fn geometric(&mut self, centre: u16, keep: u64) -> u16 {
        let mut distance = 0;
        while self.below(1024) < keep && distance < 400 {
            distance += 1;
        }
        if self.below(2) == 0 { centre.wrapping_add(distance) } else { centre.wrapping_sub(distance) }
    }
}

/// Symbols of many shapes, a multiple of 128 each, all below 2^`bits`.
fn shapes(bits: u32) -> Vec<(&'static str, Vec<u16>)> {
    let mut r = Random(0x1234_5678_9abc_def1);
    let mask = ((1u32 << bits) - 1) as u16;
    let centre = (1 << (bits - 1)) as u16;
    let n = 128 * 40;
    let mut shapes = vec![
        ("empty", vec![]),
        ("one group", (0..128).map(|_| r.geometric(centre, 500)).collect()),
        ("single symbol", vec![3; n]),
        ("largest symbol", vec![mask; n]),
        ("two symbols", (0..n).map(|_| if r.below(9) == 0 { mask } else { 0 }).collect()),
        ("skewed", (0..n).map(|_| r.geometric(centre, 60)).collect()),
        ("2 bits", (0..n).map(|_| r.geometric(centre, 400)).collect()),
        ("5 bits", (0..n).map(|_| r.geometric(centre, 950)).collect()),
        ("two far clusters", (0..n).map(|_| r.geometric(if r.0 & 1 == 0 { 40 } else { mask - 40 }, 300)).collect()),
        ("flat", (0..n).map(|_| r.next() as u16).collect()),
        // Codewords of one length, 6 bits, which divides neither 32 nor 128: a wrong start stays wrong.
        ("never synchronising", (0..128 * 1500).map(|_| r.below(64) as u16).collect()),
        (
            "far outliers",
            (0..n).map(|i| if i % 97 == 0 { r.next() as u16 } else { r.geometric(centre, 200) }).collect(),
        ),
        (
            "clusters of free groups",
            (0..n).map(|i| if i / 512 % 3 == 0 { r.geometric(centre, 300) } else { centre }).collect(),
        ),
    ];
    // Fibonacci frequencies: the longest codes that there are.
    let mut fibonacci = Vec::new();
    let (mut a, mut b) = (1usize, 1usize);
    for symbol in 0..24 {
        fibonacci.extend(std::iter::repeat_n(symbol * 5, a));
        (a, b) = (b, a + b);
    }
    fibonacci.resize(fibonacci.len().next_multiple_of(128), 0);
    for i in (1..fibonacci.len()).rev() {
        fibonacci.swap(i, r.below(i as u64 + 1) as usize);
    }
    shapes.push(("fibonacci", fibonacci));
    let all: Vec<u16> = (0..=mask).chain((0..=mask).map(|i| i & (i >> 3))).collect();
    shapes.push(("every symbol", all));
    for (_, symbols) in &mut shapes {
        symbols.iter_mut().for_each(|s| *s &= mask);
    }
    shapes
}

fn typed<S: Symbol>(symbols: &[u16]) -> Vec<S> {
    symbols.iter().map(|&s| S::truncate(s)).collect()
}

/// Encodes, then decodes with everything that can; returns the stream and its summary.
fn round_trip<S: Symbol>(
    what: &str,
    symbols: &[S],
    classes: &[u8],
    options: &EncodeOptions,
) -> (Vec<u8>, EncodeSummary) {
    let mut out = vec![0xaa; 32];
    let summary = encode(symbols, classes, options, &mut EncodeScratch::default(), &mut out);
    let bytes = out.split_off(32);
    assert_eq!(out, [0xaa; 32]);
    assert_eq!(bytes.len() as u64, summary.stream_bytes);
    let stream = Stream::<S>::parse(&bytes, "test").unwrap();
    assert_eq!(stream.byte_len(), bytes.len());
    assert_eq!((stream.symbols(), stream.needs_classes()), (symbols.len(), summary.uses_classes()));
    for kind in [Decoder::Chunked].into_iter().chain(Decoder::ALL) {
        let Ok(decoder) = stream.decoder(kind, classes) else {
            assert!(matches!(kind, Decoder::Gap | Decoder::Indexed | Decoder::SelfSync), "{kind} reads everything");
            continue;
        };
        for threads in [1, 2, 5] {
            let mut back = vec![S::truncate(0x55); symbols.len()];
            decoder.decode(&mut back, threads).unwrap_or_else(|e| panic!("{what}, {kind}, {threads} threads: {e}"));
            assert!(back == symbols, "{what}, {kind}, {threads} threads, {options:?}");
        }
    }
    if stream.index_kind() == IndexKind::Symbol {
        ranges(&stream, classes, symbols);
    }
    (bytes, summary)
}

fn ranges<S: Symbol>(stream: &Stream<'_, S>, classes: &[u8], symbols: &[S]) {
    let decoder = stream.decoder(Decoder::Indexed, classes).unwrap();
    let len = stream.group_len();
    let mut checksum = Checksum::default();
    let mut first = 0;
    for batch in [1usize, 7, 0, 300, 64].into_iter().cycle().take(2000) {
        let range = first..(first + batch).min(stream.groups());
        first = range.end;
        let mut back = vec![S::truncate(0); range.len() * len];
        checksum.add(decoder.decode_groups(range.clone(), &mut back).unwrap());
        assert!(back == symbols[range.start * len..range.end * len]);
    }
    if first == stream.groups() {
        stream.verify(checksum).unwrap();
    }
}

fn all_options() -> impl Iterator<Item = EncodeOptions> {
    [6, 7].into_iter().flat_map(|group_log2| {
        IndexKind::ALL.into_iter().map(move |index| EncodeOptions { group_log2, index, free_symbol: None })
    })
}

#[test]
fn every_decoder_gives_the_symbols_back_u16() {
    for (what, symbols) in shapes(16) {
        for options in all_options() {
            round_trip(what, &symbols, &[], &options);
        }
    }
}

#[test]
fn every_decoder_gives_the_symbols_back_u8() {
    for (what, symbols) in shapes(8) {
        for options in all_options() {
            round_trip::<u8>(what, &typed(&symbols), &[], &options);
        }
    }
}

#[test]
fn given_free_symbol_is_used() {
    let mut symbols = vec![512u16; 128 * 10];
    symbols[200] = 3;
    for (free, live) in [(512, 1), (3, 10), (65535, 10)] {
        let options = EncodeOptions { free_symbol: Some(free), ..EncodeOptions::default() };
        let (_, summary) = round_trip("given free symbol", &symbols, &[], &options);
        assert_eq!((summary.free_symbol, summary.live_groups, summary.groups), (free, live, 10));
    }
}

#[test]
fn classes_are_used_where_they_pay() {
    let mut r = Random(77);
    let classes: Vec<u8> = (0..800).map(|g| (g / 100 % 4) as u8).collect();
    let symbols: Vec<u16> = classes
        .iter()
        .flat_map(|&class| (0..128).map(|_| r.geometric(512, [5, 300, 700, 950][class as usize])).collect::<Vec<_>>())
        .collect();
    for group_log2 in [7, 6] {
        let classes: Vec<u8> =
            if group_log2 == 7 { classes.clone() } else { classes.iter().flat_map(|&c| [c, c]).collect() };
        let options = EncodeOptions { group_log2, index: IndexKind::Symbol, free_symbol: Some(512) };
        let (with, summary) = round_trip("classes", &symbols, &classes, &options);
        assert_eq!(summary.codebooks, 4);
        let (without, single) = round_trip("no classes", &symbols, &[], &options);
        assert!(!single.uses_classes() && with.len() < without.len());
        // A class that is always the same, or an index that cannot carry classes: one codebook.
        let (same, _) = round_trip("one class", &symbols, &vec![2; classes.len()], &options);
        assert_eq!(same, without);
        let (_, gap) = round_trip("gap", &symbols, &classes, &EncodeOptions { index: IndexKind::Gap, ..options });
        assert!(!gap.uses_classes());
        // The wrong number of classes, or a class over 3.
        let stream = Stream::<u16>::parse(&with, "test").unwrap();
        assert!(stream.decoder(Decoder::Auto, &classes[1..]).is_err());
        assert!(stream.decoder(Decoder::Auto, &[]).is_err());
        assert!(stream.decoder(Decoder::Auto, &vec![4; classes.len()]).is_err());
        assert!(stream.decoder(Decoder::SelfSync, &classes).is_err());
        // Other classes than the encoder's: an error from the checksum, nothing worse.
        let swapped: Vec<u8> = classes.iter().map(|c| 3 - c).collect();
        let mut back = vec![0; symbols.len()];
        assert!(stream.decoder(Decoder::Auto, &swapped).unwrap().decode(&mut back, 1).is_err());
    }
}
