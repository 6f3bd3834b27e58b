//! Codebooks equal the CPU's lengths and a simple canonical numbering.

mod common;

use common::{Random, Share, pick, unless_tiny};
use syncline_core::huffman::lengths::{LengthScratch, MAX_LENGTH, code_lengths, code_lengths_limited, limit_for};
use syncline_cuda::baselines::reduce_shuffle_merge_2021::histogram::Histogram;
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::huffman::codebook::{self, CodebookBuilder, DeviceCodebooks, unpack};

const ALPHABETS: [u32; 12] = [1, 2, 3, 31, 256, 257, 1000, 1024, 4096, 4097, 20_000, 65_536];

/// Returns counts to test for an alphabet, with a name for messages.
fn cases(symbols: u32) -> Vec<(&'static str, Vec<u32>)> {
    let mut random = Random(u64::from(symbols));
    let n = symbols as usize;
    let fill = |value: &mut dyn FnMut(usize) -> u64| (0..n).map(|i| value(i).min(u32::MAX.into()) as u32).collect();
    let middle = n as f64 / 2.0;
    let geometric = |base: f64| move |i: usize| (1e9 * base.powf((i as f64 - middle).abs())) as u64;
    let fibonacci = |i: usize| {
        let (mut a, mut b) = (1_u64, 1_u64);
        (0..i.min(90)).for_each(|_| (a, b) = (b, a + b));
        if a < 1 << 32 { a } else { 1 }
    };
    vec![
        ("flat", fill(&mut |_| 1)),
        ("rising", fill(&mut |i| i as u64)),
        ("nothing", fill(&mut |_| 0)),
        ("one symbol", fill(&mut |i| u64::from(i == n / 2) * 7)),
        ("two symbols", fill(&mut |i| u64::from(i == 0) + u64::from(i == n - 1) * 9)),
        ("small random", fill(&mut |_| random.below(4))),
        ("large random", fill(&mut |_| random.next() >> 32)),
        ("powers of two", fill(&mut |_| 1 << random.below(31))),
        ("two values", fill(&mut |_| [1, 1 << 20][random.below(2) as usize])),
        ("geometric, wide", fill(&mut geometric(0.99))),
        ("geometric, narrow", fill(&mut geometric(0.3))),
        ("power law", fill(&mut |i| 1_000_000_000 / (i as u64 + 1))),
        ("every hundredth", fill(&mut |i| u64::from(i % 100 == 0) * random.below(1000))),
        ("Fibonacci", fill(&mut |i| fibonacci(i))),
    ]
}

/// Returns counts with which the length limit costs much, or just not much, so that they are near the threshold of its
/// step (3): a steep part, and rare symbols below it.
fn limited_cases(symbols: u32) -> Vec<(String, Vec<u32>)> {
    let n = symbols as usize;
    let mut random = Random(7 + u64::from(symbols));
    let mut all = Vec::new();
    let mut add = |what: String, value: &mut dyn FnMut(usize) -> f64| {
        all.push((what, (0..n).map(|i| value(i).clamp(1.0, f64::from(u32::MAX)) as u32).collect()));
    };
    for power in [0.8, 1.0, 1.1, 1.15, 1.2, 1.22, 1.3, 1.5, 2.0, 3.0] {
        for largest in [2e6, 4e9] {
            add(format!("power {power} from {largest:e}"), &mut |i| largest / (i as f64 + 1.0).powf(power));
        }
    }
    for base in [0.3_f64, 0.6, 0.9, 0.99] {
        for total in [120.0 * n as f64, 4e9] {
            add(format!("geometric {base}, {total:e} in all"), &mut |i| total * (1.0 - base) * base.powi(i as i32));
        }
    }
    // The golden ratio gives trees of maximum depth; repetitions of each step fill the lowest level of the limit.
    for repeats in [1, 8, n.div_ceil(40), n.div_ceil(20)] {
        add(format!("Fibonacci, {repeats} of each"), &mut |i| 1.618_034_f64.powi((i / repeats) as i32 % 46));
    }
    // Much deeper than any limit, with leaves on every level: each tree of step (3) is different.
    for (steps, largest) in [(50.0, 1e5), (90.0, 4e9)] {
        let half_life = n as f64 / steps;
        let away = |i: usize| (i as f64 - n as f64 / 2.0).abs();
        add(format!("halving, {steps} times, from {largest:e}"), &mut |i| {
            1.0 + largest * 0.5_f64.powf(away(i) / half_life)
        });
    }
    for ratio in [2.0_f64, 1.4] {
        add(format!("random powers of {ratio}"), &mut |_| ratio.powi(random.below(30) as i32));
    }
    all
}

/// Returns the bits of all codewords, and those without a length limit.
fn limited_and_unlimited_bits(counts: &[u32]) -> (u64, u64) {
    let mut lengths = Vec::new();
    let bits = |lengths: &[u8]| counts.iter().zip(lengths).map(|(&c, &l)| u64::from(c) * u64::from(l)).sum();
    code_lengths(counts, &mut LengthScratch::default(), &mut lengths);
    let limited = bits(&lengths);
    code_lengths_limited(counts, 63, &mut LengthScratch::default(), &mut lengths);
    (limited, bits(&lengths))
}

/// Builds many codebooks at the same time; those whose length limit costs much are mixed with others.
fn check_batches(batches: &[(u32, usize)]) {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    let mut arena = Arena::new(stream.clone());
    for &(symbols, books) in batches {
        let cases: Vec<_> = limited_cases(symbols).into_iter().map(|(_, counts)| counts).collect();
        // The number of codebooks determines how blocks are distributed: for racecheck most of them have few symbols.
        let little: Vec<u32> = (0..symbols).map(|symbol| u32::from(symbol % 97 == 1)).collect();
        let rare = |(book, counts)| if book % unless_tiny(1, 24) == 0 { counts } else { &little };
        let counts: Vec<&[u32]> =
            cases.iter().rev().cycle().take(books).enumerate().map(rare).map(Vec::as_slice).collect();
        let all: Vec<u64> = counts.iter().flat_map(|counts| counts.iter().map(|&count| u64::from(count))).collect();
        let on_device = stream.clone_htod(&all).unwrap();
        let builder = CodebookBuilder::new(device, symbols).unwrap();
        let mut codebooks = DeviceCodebooks::new(&stream, symbols, books as u32).unwrap();
        builder.launch(&mut arena.frame().unwrap(), &on_device.as_view(), &mut codebooks).unwrap();
        let codewords = stream.clone_dtoh(&codebooks.codewords()).unwrap();
        let mut lengths = Vec::new();
        for (book, (counts, found)) in counts.iter().zip(codewords.chunks_exact(symbols as usize)).enumerate() {
            code_lengths(counts, &mut LengthScratch::default(), &mut lengths);
            lengths.resize(counts.len(), 0);
            let same = found.iter().map(|&codeword| unpack(codeword).0 as u8).eq(lengths.iter().copied());
            assert!(same, "{symbols} symbols, book {book}: lengths differ");
        }
    }
}

// Few and many codebooks, for each distribution of blocks.

#[test]
fn few_small_codebooks_equal_the_cpus() {
    check_batches(&[(3, 20), (1000, 9), (1024, 5), (1024, pick(40, 10))]);
}

#[test]
fn many_small_codebooks_equal_the_cpus() {
    check_batches(&[(256, pick(300, 140)), (1024, pick(150, 135))]);
}

#[test]
fn batches_of_large_codebooks_equal_the_cpus() {
    check_batches(&[(2000, 3), (2000, pick(60, unless_tiny(30, 20))), (65_536, pick(3, 1))]);
}

/// Builds the codebook on the device and compares all results with the CPU's.
fn check(device: &Device, arena: &mut Arena, counts: &[u32], what: &str) {
    let stream = arena.stream().clone();
    let symbols = counts.len() as u32;
    let builder = CodebookBuilder::new(device, symbols).unwrap();
    let mut codebook = DeviceCodebooks::new(&stream, symbols, 1).unwrap();
    let on_device = stream.clone_htod(&counts.iter().map(|&count| u64::from(count)).collect::<Vec<_>>()).unwrap();
    builder.launch(&mut arena.frame().unwrap(), &on_device.as_view(), &mut codebook).unwrap();
    let summary = codebook.read_summary(&stream).unwrap();
    let codewords = stream.clone_dtoh(&codebook.codewords()).unwrap();
    let by_codeword = stream.clone_dtoh(&codebook.symbols_by_codeword()).unwrap();

    let mut lengths = Vec::new();
    code_lengths(counts, &mut LengthScratch::default(), &mut lengths);
    lengths.resize(counts.len(), 0);
    let found: Vec<u8> = codewords.iter().map(|&codeword| unpack(codeword).0 as u8).collect();
    assert!(found == lengths, "{what}, {symbols} symbols: lengths differ");

    let longest = u32::from(lengths.iter().copied().max().unwrap_or(0));
    assert_eq!((summary.longest, summary.counts_clamped), (longest, false), "{what}, {symbols} symbols");
    let (mut code, mut index) = (0_u32, 0_usize);
    for length in 1..=longest {
        code <<= 1;
        assert_eq!(summary.first[length as usize], code, "{what}, {symbols} symbols, length {length}");
        assert_eq!(summary.entry[length as usize] as usize, index, "{what}, {symbols} symbols, length {length}");
        for symbol in (0..counts.len()).filter(|&symbol| u32::from(lengths[symbol]) == length) {
            assert_eq!(unpack(codewords[symbol]), (length, code), "{what}, {symbols} symbols, symbol {symbol}");
            assert_eq!(usize::from(by_codeword[index]), symbol, "{what}, {symbols} symbols, entry {index}");
            code += 1;
            index += 1;
        }
    }
    assert_eq!(summary.used as usize, index, "{what}, {symbols} symbols");
    assert!((0..counts.len()).all(|symbol| lengths[symbol] > 0 || codewords[symbol] == 0), "{what}, {symbols} symbols");
}

#[test]
fn codebooks_equal_the_cpus() {
    let Some(device) = common::device() else { return };
    let mut arena = Arena::new(device.context().default_stream());
    let mut share = Share::one_in(5);
    for symbols in ALPHABETS {
        for (what, counts) in cases(symbols) {
            if share.takes() {
                check(device, &mut arena, &counts, what);
            }
        }
    }
}

/// All subtrees are melded in a single round, for about as many symbols as one warp processes.
#[test]
fn codebooks_of_equal_counts_equal_the_cpus() {
    let Some(device) = common::device() else { return };
    let mut arena = Arena::new(device.context().default_stream());
    for used in [2, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 255, 256, 257, 1024] {
        for different in [1, 2] {
            let mut counts = vec![0; 1024];
            (0..used).for_each(|i| counts[i * 1024 / used] = 1 + (i % different) as u32);
            check(device, &mut arena, &counts, &format!("{used} symbols with {different} counts"));
        }
    }
}

fn check_limited(alphabets: &[u32], mut share: Share) {
    let Some(device) = common::device() else { return };
    let mut arena = Arena::new(device.context().default_stream());
    for &symbols in alphabets {
        for (what, counts) in limited_cases(symbols) {
            if share.takes() {
                check(device, &mut arena, &counts, &what);
            }
        }
    }
}

#[test]
fn limited_codebooks_equal_the_cpus() {
    check_limited(&ALPHABETS[..8], Share::one_in(11));
}

// In tiny runs, tests cases on both sides of the threshold of step (3), of 36 per alphabet.

#[test]
fn limited_codebooks_of_4096_and_4097_equal_the_cpus() {
    check_limited(&ALPHABETS[8..10], Share::one_in(11).if_tiny(37, 15));
}

#[test]
fn limited_codebooks_of_20_000_equal_the_cpus() {
    check_limited(&ALPHABETS[10..11], Share::one_in(11).if_tiny(36, 17));
}

#[test]
fn limited_codebooks_of_65_536_equal_the_cpus() {
    check_limited(&ALPHABETS[11..], Share::one_in(11).if_tiny(36, 25));
}

/// The tests above rely on this: some optimal codes exceed the threshold of the limit and go through step (3), others
/// do not.
#[test]
fn limited_cases_are_on_both_sides_of_the_last_step() {
    for symbols in [256, 1024, 4096, 65_536] {
        let bits: Vec<_> =
            limited_cases(symbols).iter().map(|(_, counts)| limited_and_unlimited_bits(counts)).collect();
        let beyond = bits.iter().filter(|&&(limited, unlimited)| limited > unlimited + unlimited / 2048).count();
        let within = bits
            .iter()
            .filter(|&&(limited, unlimited)| (unlimited + 1..=unlimited + unlimited / 2048).contains(&limited))
            .count();
        assert!(beyond >= 3 && within >= 2, "{symbols} symbols: {beyond} beyond, {within} within");
    }
}

#[test]
fn random_codebooks_equal_the_cpus() {
    let Some(device) = common::device() else { return };
    let mut arena = Arena::new(device.context().default_stream());
    let mut random = Random(42);
    for round in 0..pick(150, 8) {
        let symbols = ALPHABETS[4 + random.below(ALPHABETS.len() as u64 - 4) as usize];
        let (bits, density) = (1 + random.below(31), random.below(100));
        let counts: Vec<u32> = (0..symbols)
            .map(|_| if random.below(100) <= density { random.below(1 << bits) as u32 } else { 0 })
            .collect();
        check(device, &mut arena, &counts, &format!("round {round}"));
    }
}

/// The histogram's result is passed on the device; and counts beyond 32 bits, which no stream of the CPU has, still
/// give a complete code.
#[test]
fn histogram_feeds_the_codebook() {
    let Some(device) = common::device() else { return };
    let stream = device.context().default_stream();
    let mut arena = Arena::new(stream.clone());
    let input = common::symbols(common::Spread::Geometric(0.4), 1024, pick(2_000_000, 50_000), 9);
    let on_device = stream.clone_htod(&input).unwrap();
    let histogram = Histogram::<u16>::new(device, 1024).unwrap();
    let builder = CodebookBuilder::new(device, 1024).unwrap();
    let mut codebook = DeviceCodebooks::new(&stream, 1024, 1).unwrap();
    {
        let mut frame = arena.frame().unwrap();
        let mut counts = frame.slice::<u64>(histogram.counts_len()).unwrap();
        histogram.launch(&stream, &on_device.as_view(), &mut counts).unwrap();
        builder.launch(&mut frame, &counts.as_view(), &mut codebook).unwrap();
    }
    let mut counts = vec![0_u32; 1024];
    input.iter().for_each(|&symbol| counts[usize::from(symbol)] += 1);
    let mut lengths = Vec::new();
    code_lengths(&counts, &mut LengthScratch::default(), &mut lengths);
    lengths.resize(1024, 0);
    let codewords = stream.clone_dtoh(&codebook.codewords()).unwrap();
    assert!(codewords.iter().map(|&codeword| unpack(codeword).0 as u8).eq(lengths));

    let large: Vec<u64> = (0..1024_u64).map(|i| if i % 3 == 0 { u64::MAX } else { i << 35 }).collect();
    // Limited with a loss, so that the sums of the last step are as large as possible.
    let steep: Vec<u64> = (0..1024_u64).map(|i| (codebook::LARGEST_COUNT >> (i / 4).min(63)).max(1)).collect();
    for (counts, clamped) in [(large, true), (steep, false)] {
        let on_device = stream.clone_htod(&counts).unwrap();
        builder.launch(&mut arena.frame().unwrap(), &on_device.as_view(), &mut codebook).unwrap();
        let summary = codebook.read_summary(&stream).unwrap();
        assert_eq!((summary.counts_clamped, summary.used), (clamped, 1024));
        let codewords = stream.clone_dtoh(&codebook.codewords()).unwrap();
        let kraft: u64 = codewords.iter().map(|&codeword| 1 << (32 - unpack(codeword).0)).sum();
        assert_eq!(kraft, 1 << 32, "the code is complete");
    }
}

#[test]
fn limits_are_the_cpus() {
    assert_eq!(codebook::MAX_LENGTH, limit_for(codebook::LARGE_ALPHABET as usize));
    assert_eq!(codebook::MAX_LENGTH_LARGE, limit_for(codebook::LARGE_ALPHABET as usize + 1));
    assert_eq!(codebook::MAX_LENGTH_LARGE, MAX_LENGTH);
}

#[test]
fn wrong_arguments_are_refused() {
    let Some(device) = common::device() else { return };
    assert!(CodebookBuilder::new(device, 0).is_err());
    assert!(CodebookBuilder::new(device, 65_537).is_err());
    let stream = device.context().default_stream();
    let mut arena = Arena::new(stream.clone());
    let mut frame = arena.frame().unwrap();
    let builder = CodebookBuilder::new(device, 256).unwrap();
    let counts = stream.alloc_zeros::<u64>(256).unwrap();
    let mut small = DeviceCodebooks::new(&stream, 255, 1).unwrap();
    assert!(builder.launch(&mut frame, &counts.as_view(), &mut small).is_err());
    let mut codebook = DeviceCodebooks::new(&stream, 256, 1).unwrap();
    assert!(builder.launch(&mut frame, &counts.slice(..255), &mut codebook).is_err());
}
