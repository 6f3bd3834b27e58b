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

    /// Returns a symbol from a two-sided geometric distribution around `center`: each step away is `keep / 1024` times
    /// as likely.
    pub fn geometric(&mut self, center: u16, keep: u64) -> u16 {
        let mut distance = 0;
        while self.below(1024) < keep && distance < 400 {
            distance += 1;
        }
        if self.below(2) == 0 { center.wrapping_add(distance) } else { center.wrapping_sub(distance) }
    }
}

/// Returns symbols of many distributions, a multiple of 128 each, all below 2^`bits`.
fn shapes(bits: u32) -> Vec<(&'static str, Vec<u16>)> {
    let mut r = Random(0x1234_5678_9abc_def1);
    let mask = ((1u32 << bits) - 1) as u16;
    let center = (1 << (bits - 1)) as u16;
    let n = 128 * 40;
    let mut shapes = vec![
        ("empty", vec![]),
        ("one group", (0..128).map(|_| r.geometric(center, 500)).collect()),
        ("single symbol", vec![3; n]),
        ("largest symbol", vec![mask; n]),
        ("two symbols", (0..n).map(|_| if r.below(9) == 0 { mask } else { 0 }).collect()),
        ("skewed", (0..n).map(|_| r.geometric(center, 60)).collect()),
        ("2 bits", (0..n).map(|_| r.geometric(center, 400)).collect()),
        ("5 bits", (0..n).map(|_| r.geometric(center, 950)).collect()),
        ("two far clusters", (0..n).map(|_| r.geometric(if r.0 & 1 == 0 { 40 } else { mask - 40 }, 300)).collect()),
        ("flat", (0..n).map(|_| r.next() as u16).collect()),
        // Codewords of one length, 6 bits, which does not divide a seventh of them all: a wrong start stays wrong.
        ("never synchronizing", (0..128 * 1501).map(|_| r.below(64) as u16).collect()),
        (
            "far outliers",
            (0..n).map(|i| if i % 97 == 0 { r.next() as u16 } else { r.geometric(center, 200) }).collect(),
        ),
        (
            "clusters of zero-bit groups",
            (0..n).map(|i| if i / 512 % 3 == 0 { r.geometric(center, 300) } else { center }).collect(),
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

/// Encodes, then decodes with every applicable decoder. Returns the stream and its summary.
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
    if classes.is_empty() {
        let scratch = &mut EncodeScratch::default();
        assert!(plan(symbols, options, bytes.len(), scratch).is_none(), "{what}: no shorter than it is");
        let plan = plan(symbols, options, bytes.len() + 1, scratch).expect("a plan of its length");
        let mut planned = Vec::new();
        write_plan(symbols, plan, scratch, &mut planned);
        assert!(planned == bytes, "{what}, {options:?}");
        if summary.coded_groups == 0 {
            let plan = plan_zero_bit_groups::<S>(summary.groups as usize, summary.zero_bit_symbol, options, scratch);
            planned.clear();
            write_plan::<S>(&[], plan, scratch, &mut planned);
            assert!(planned == bytes, "{what}, {options:?}, without symbols");
        }
    }
    let stream = Stream::<S>::parse(&bytes, "test").unwrap();
    assert_eq!(stream.byte_len(), bytes.len());
    assert_eq!((stream.symbols(), stream.needs_classes()), (symbols.len(), summary.uses_classes()));
    for kind in [Decoder::Chunked].into_iter().chain(Decoder::ALL) {
        let Ok(decoder) = stream.decoder(kind, classes) else {
            assert!(matches!(kind, Decoder::Indexed | Decoder::SelfSync), "{kind} reads everything");
            continue;
        };
        for threads in [1, 2, 7] {
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
        IndexKind::ALL.into_iter().map(move |index| EncodeOptions { group_log2, index, zero_bit_symbol: None })
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

/// Streams are long enough that every thread has its part, regardless of the number of threads.
#[test]
fn long_streams_in_parallel() {
    let mut r = Random(271_828);
    for keep in [20, 400, 900] {
        let symbols: Vec<u16> = (0..1 << 18).map(|_| r.geometric(512, keep)).collect();
        for index in IndexKind::ALL {
            round_trip("long", &symbols, &[], &EncodeOptions { index, ..EncodeOptions::default() });
            round_trip::<u8>("long bytes", &typed(&symbols), &[], &EncodeOptions { index, ..EncodeOptions::default() });
        }
    }
}

/// Damages long streams so that self-synchronization gives contradictory counts.
#[test]
fn damaged_long_streams() {
    let mut r = Random(31_415);
    let symbols: Vec<u16> = (0..1 << 17).map(|_| r.geometric(512, 500)).collect();
    for index in IndexKind::ALL {
        let mut bytes = Vec::new();
        encode(
            &symbols,
            &[],
            &EncodeOptions { index, ..EncodeOptions::default() },
            &mut EncodeScratch::default(),
            &mut bytes,
        );
        let codewords = bytes.len() / 3..bytes.len() - 16;
        for _ in 0..60 {
            let mut damaged = bytes.clone();
            for _ in 0..1 + r.below(20) {
                damaged[codewords.start + r.below(codewords.len() as u64) as usize] = r.next() as u8;
            }
            let stream = Stream::<u16>::parse(&damaged, "test").unwrap();
            for kind in Decoder::ALL {
                let Ok(decoder) = stream.decoder(kind, &[]) else { continue };
                for threads in [1, 7] {
                    let mut back = vec![0; symbols.len()];
                    assert!(decoder.decode(&mut back, threads).is_err() || back == symbols);
                }
            }
        }
    }
}

#[test]
fn given_zero_bit_symbol_is_used() {
    let mut symbols = vec![512u16; 128 * 10];
    symbols[200] = 3;
    for (zero_bit, coded) in [(512, 1), (3, 10), (65535, 10)] {
        let options = EncodeOptions { zero_bit_symbol: Some(zero_bit), ..EncodeOptions::default() };
        let (_, summary) = round_trip("given zero-bit symbol", &symbols, &[], &options);
        assert_eq!((summary.zero_bit_symbol, summary.coded_groups, summary.groups), (zero_bit, coded, 10));
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
        let options = EncodeOptions { group_log2, index: IndexKind::Symbol, zero_bit_symbol: Some(512) };
        let (with, summary) = round_trip("classes", &symbols, &classes, &options);
        assert_eq!(summary.codebooks, 4);
        let (without, single) = round_trip("no classes", &symbols, &[], &options);
        assert!(!single.uses_classes() && with.len() < without.len());
        // A class that is always the same, or an index that cannot carry classes: one codebook.
        let (same, _) = round_trip("one class", &symbols, &vec![2; classes.len()], &options);
        assert_eq!(same, without);
        let none = EncodeOptions { index: IndexKind::None, ..options };
        let (_, no_index) = round_trip("no index", &symbols, &classes, &none);
        assert!(!no_index.uses_classes());
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

#[test]
fn index_is_at_most_8_percent() {
    let mut r = Random(5);
    for keep in [0, 1, 4, 16, 60, 150, 300, 500, 700, 900, 980, 1010] {
        // Evenly spread, and with calm regions as real fields have them.
        for calm in [0, 3] {
            let symbols: Vec<u16> =
                (0..1 << 18).map(|i| r.geometric(512, if i >> 12 & 3 < calm { keep / 8 } else { keep })).collect();
            let options = EncodeOptions { group_log2: 7, index: IndexKind::Symbol, zero_bit_symbol: Some(512) };
            let mut out = Vec::new();
            let summary = encode(&symbols, &[], &options, &mut EncodeScratch::default(), &mut out);
            let share = f64::from(summary.index_bytes) / summary.stream_bytes as f64;
            assert!(share <= 0.08, "keep {keep}, calm {calm}: {:.1} %", 100.0 * share);
        }
    }
}

/// Streams of every index kind, layout and class use, small enough to damage in every way.
fn small_streams() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut r = Random(99);
    let mut streams = Vec::new();
    for (keep, groups) in [(100, 6), (700, 6), (1020, 3)] {
        for index in IndexKind::ALL {
            let classes: Vec<u8> = (0..groups as u8).map(|g| g % 4).collect();
            let symbols: Vec<u16> = (0..128 * groups)
                .map(|i| {
                    if i / 128 % 3 == 1 {
                        512
                    } else {
                        r.geometric(512, if i / 128 % 4 == 0 { keep / 50 } else { keep })
                    }
                })
                .collect();
            let mut out = Vec::new();
            let options = EncodeOptions { group_log2: 7, index, zero_bit_symbol: Some(512) };
            encode(&symbols, &classes, &options, &mut EncodeScratch::default(), &mut out);
            streams.push((out, classes));
        }
    }
    streams
}

/// Parses and decodes whatever `bytes` is with every decoder; returns what was decoded without an error.
fn try_everything<S: Symbol>(bytes: &[u8], classes: &[u8]) -> Vec<Vec<S>> {
    let Ok(stream) = Stream::<S>::parse(bytes, "test") else { return Vec::new() };
    // As a caller does: it knows how many symbols there must be.
    if stream.symbols() > 128 * 10 {
        return Vec::new();
    }
    let mut decoded = Vec::new();
    for kind in Decoder::ALL {
        let Ok(decoder) = stream.decoder(kind, classes) else { continue };
        for threads in [1, 3] {
            let mut out = vec![S::truncate(0); stream.symbols()];
            if decoder.decode(&mut out, threads).is_ok() {
                decoded.push(out);
            }
        }
    }
    decoded
}

#[test]
fn every_flipped_bit_and_every_truncation() {
    let (mut flips, mut missed) = (0, 0);
    for (bytes, classes) in small_streams() {
        let stream = Stream::<u16>::parse(&bytes, "test").unwrap();
        assert_eq!(stream.byte_len(), bytes.len());
        let right = try_everything::<u16>(&bytes, &classes);
        assert!(right.len() >= 2);
        for len in 0..bytes.len() {
            assert!(matches!(Stream::<u16>::parse(&bytes[..len], "test"), Err(Error::Truncated { .. })));
        }
        assert!(Stream::<u8>::parse(&bytes, "test").is_err());
        let mut damaged = bytes.clone();
        for bit in 0..bytes.len() * 8 {
            damaged[bit / 8] ^= 1 << (bit % 8);
            flips += right.len();
            for decoded in try_everything::<u16>(&damaged, &classes) {
                // The zero-bit symbol is not covered by the checksum of this stage, but by that of the container. Two
                // sums over few, small symbols cannot detect all changes.
                let zero_bit_symbol = (12..14).contains(&(bit / 8));
                missed += usize::from(decoded != right[0] && !zero_bit_symbol);
            }
            damaged[bit / 8] ^= 1 << (bit % 8);
        }
    }
    assert!(missed * 1000 <= flips, "{missed} of {flips} go unnoticed");
}

/// The first of two groups of the same symbol takes a codeword of the second, and this one of the next group, which it
/// may not: the symbols, and so their checksum, are right.
#[test]
fn groups_that_end_elsewhere_than_the_index_says_are_refused() {
    refuses_moved_groups::<u8>(&[(1, 8), (2, 3), (3, 1)], 8);
    // Most codewords are too long for tables of several symbols.
    let many: Vec<(u16, usize)> = std::iter::once((0, 4)).chain((1..4095).map(|symbol| (symbol, 3))).collect();
    refuses_moved_groups::<u16>(&many, 4);
}

/// `groups` are symbols, each with the number of groups in a row that consist of it. Groups `moved` and the one after
/// it are of the same symbol.
fn refuses_moved_groups<S: Symbol>(groups: &[(u16, usize)], moved: usize) {
    let symbols: Vec<u16> = groups.iter().flat_map(|&(symbol, count)| vec![symbol; 128 * count]).collect();
    let (symbols, mut bytes) = (typed::<S>(&symbols), Vec::new());
    let zero_bit_symbol = Some(S::truncate(u16::MAX).into());
    let options = EncodeOptions { index: IndexKind::Symbol, group_log2: 7, zero_bit_symbol };
    encode(&symbols, &[], &options, &mut EncodeScratch::default(), &mut bytes);
    let stream = Stream::<S>::parse(&bytes, "test").unwrap();
    assert_eq!(stream.coded_groups(), stream.groups());
    let (mut starts, mut index) = (stream.starts.clone(), Vec::new());
    starts[moved + 1] += (starts[moved + 1] - starts[moved]) / 128;
    index::write_starts(&starts, &mut index);
    assert_eq!(index.len(), stream.index_bytes());
    let at = (stream::HEADER_BYTES + stream.codebook_bytes()).next_multiple_of(8);
    let damaged = [&bytes[..at], &index, &bytes[at + index.len()..]].concat();
    let decode = |bytes: &[u8], threads| {
        let stream = Stream::<S>::parse(bytes, "test").unwrap();
        let mut out = vec![S::truncate(0); symbols.len()];
        stream.decoder(Decoder::Indexed, &[]).unwrap().decode(&mut out, threads).map(|()| out)
    };
    for threads in [1, 3] {
        assert_eq!(decode(&bytes, threads).unwrap(), symbols);
        assert!(matches!(decode(&damaged, threads), Err(Error::Corrupt { .. })));
    }
}

#[test]
fn random_damage_is_never_a_panic() {
    let mut r = Random(4242);
    let streams = small_streams();
    for round in 0..20_000 {
        let (bytes, classes) = &streams[round % streams.len()];
        let mut damaged = bytes.clone();
        // Mostly the header, codebooks and index, where a change does most.
        for _ in 0..1 + r.below(4) {
            let at = if r.below(3) > 0 { r.below(64) } else { r.below(bytes.len() as u64) };
            damaged[at as usize] = r.next() as u8;
        }
        try_everything::<u16>(&damaged, classes);
        damaged[9] = 1;
        try_everything::<u8>(&damaged, classes);
    }
}

#[test]
fn hostile_headers() {
    let (bytes, _) = &small_streams()[2];
    let huge = u32::MAX.to_le_bytes();
    for at in [0, 4, 24, 28, 32, 36, 40] {
        let mut damaged = bytes.clone();
        damaged[at..at + 4].copy_from_slice(&huge);
        assert!(Stream::<u16>::parse(&damaged, "test").is_err(), "field at {at}");
    }
    for (at, value) in [(8, 5), (8, 8), (9, 1), (9, 3), (10, 3), (11, 0), (11, 5), (14, 21), (14, 0), (15, 0), (15, 3)]
    {
        let mut damaged = bytes.clone();
        damaged[at] = value;
        assert!(Stream::<u16>::parse(&damaged, "test").is_err(), "{value} at {at}");
    }
    assert!(matches!(Stream::<u16>::parse(&[], "here"), Err(Error::Truncated { place, .. }) if place.contains("here")));
}

#[test]
fn arguments_are_checked() {
    let symbols = vec![1u16; 256];
    let mut out = Vec::new();
    encode(&symbols, &[], &EncodeOptions::default(), &mut EncodeScratch::default(), &mut out);
    let stream = Stream::<u16>::parse(&out, "test").unwrap();
    let decoder = stream.decoder(Decoder::Auto, &[]).unwrap();
    assert!(decoder.decode(&mut [0; 255], 1).is_err());
    assert!(decoder.decode_groups(1..3, &mut [0; 256]).is_err());
    assert!(decoder.decode_groups(0..1, &mut [0; 127]).is_err());
    #[expect(clippy::reversed_empty_ranges)]
    let backwards = decoder.decode_groups(2..1, &mut []);
    assert!(backwards.is_err());
    assert!(stream.decoder(Decoder::Chunked, &[]).unwrap().decode_groups(0..1, &mut [0; 128]).is_err());
    for name in ["auto", "chunked", "self-sync", "indexed"] {
        assert_eq!(name.parse::<Decoder>().unwrap().to_string(), name);
    }
    for kind in IndexKind::ALL {
        assert_eq!(
            (kind.to_string().parse::<IndexKind>().unwrap(), IndexKind::from_code(kind as u8)),
            (kind, Some(kind))
        );
    }
    assert!("fast".parse::<Decoder>().unwrap_err().to_string().contains("self-sync"));
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(60))]

    #[test]
    fn any_groups_of_symbols_round_trip(
        groups in proptest::collection::vec((0u8..4, 0u64..1024, proptest::prelude::any::<u16>()), 0..60),
        seed in 1u64..u64::MAX,
        wide in proptest::prelude::any::<bool>(),
        group_log2 in 6u8..=7,
        index in proptest::sample::select(&IndexKind::ALL[..]),
    ) {
        let mut r = Random(seed);
        let mut symbols = Vec::new();
        for &(_, keep, center) in &groups {
            // A third of the groups around one center, so that some are alike.
            let center = if keep % 3 == 0 { 700 } else { center };
            symbols.extend((0..1 << group_log2).map(|_| r.geometric(center, if keep > 900 { 0 } else { keep })));
        }
        let classes: Vec<u8> = groups.iter().map(|g| g.0).collect();
        let options = EncodeOptions { group_log2, index, zero_bit_symbol: None };
        if wide {
            round_trip("anything", &symbols, &classes, &options);
        } else {
            round_trip::<u8>("anything", &typed(&symbols), &classes, &options);
        }
    }
}
