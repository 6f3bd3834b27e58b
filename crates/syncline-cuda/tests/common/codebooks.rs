//! A suite of tests for builders of codebooks: the CPU's lengths and a simple canonical numbering.

use cudarc::driver::CudaView;
use syncline_core::huffman::lengths::{LengthScratch, code_lengths, code_lengths_limited};
use syncline_cuda::cudarc;
use syncline_cuda::device::{Arena, Device, Frame};
use syncline_cuda::error::Result;
use syncline_cuda::huffman::codebook::{DeviceCodebooks, unpack};

use super::common::{Random, Share, pick, unless_tiny};

/// A builder under test.
pub trait TestBuilder: Sized {
    /// Creates a builder for alphabets of this size.
    fn new(device: &Device, symbols: u32) -> Result<Self>;

    /// Builds a codebook from each part of `counts`.
    fn launch(&self, frame: &mut Frame<'_>, counts: &CudaView<'_, u64>, codebooks: &mut DeviceCodebooks) -> Result<()>;
}

/// Returns counts to test for an alphabet, with a name for messages.
pub fn cases(symbols: u32) -> Vec<(&'static str, Vec<u32>)> {
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
pub fn limited_cases(symbols: u32) -> Vec<(String, Vec<u32>)> {
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
#[allow(dead_code, reason = "one test uses it")]
pub fn limited_and_unlimited_bits(counts: &[u32]) -> (u64, u64) {
    let mut lengths = Vec::new();
    let bits = |lengths: &[u8]| counts.iter().zip(lengths).map(|(&c, &l)| u64::from(c) * u64::from(l)).sum();
    code_lengths(counts, &mut LengthScratch::default(), &mut lengths);
    let limited = bits(&lengths);
    code_lengths_limited(counts, 63, &mut LengthScratch::default(), &mut lengths);
    (limited, bits(&lengths))
}

/// Builds many codebooks at the same time; those whose length limit costs much are mixed with others.
pub fn check_batches<B: TestBuilder>(device: &Device, batches: &[(u32, usize)]) {
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
        let builder = B::new(device, symbols).unwrap();
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

/// Builds the codebook on the device and compares all results with the CPU's.
pub fn check<B: TestBuilder>(device: &Device, arena: &mut Arena, counts: &[u32], what: &str) {
    let stream = arena.stream().clone();
    let symbols = counts.len() as u32;
    let builder = B::new(device, symbols).unwrap();
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

pub fn codebooks_equal_the_cpus<B: TestBuilder>(device: &Device, alphabets: &[u32]) {
    let mut arena = Arena::new(device.context().default_stream());
    let mut share = Share::one_in(5);
    for &symbols in alphabets {
        for (what, counts) in cases(symbols) {
            if share.takes() {
                check::<B>(device, &mut arena, &counts, what);
            }
        }
    }
}

/// All subtrees are melded in a single round, for about as many symbols as one warp processes.
pub fn codebooks_of_equal_counts_equal_the_cpus<B: TestBuilder>(device: &Device) {
    let mut arena = Arena::new(device.context().default_stream());
    for used in [2, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 255, 256, 257, 1024] {
        for different in [1, 2] {
            let mut counts = vec![0; 1024];
            (0..used).for_each(|i| counts[i * 1024 / used] = 1 + (i % different) as u32);
            check::<B>(device, &mut arena, &counts, &format!("{used} symbols with {different} counts"));
        }
    }
}

pub fn check_limited<B: TestBuilder>(device: &Device, alphabets: &[u32], mut share: Share) {
    let mut arena = Arena::new(device.context().default_stream());
    for &symbols in alphabets {
        for (what, counts) in limited_cases(symbols) {
            if share.takes() {
                check::<B>(device, &mut arena, &counts, &what);
            }
        }
    }
}

pub fn random_codebooks_equal_the_cpus<B: TestBuilder>(device: &Device, alphabets: &[u32]) {
    let mut arena = Arena::new(device.context().default_stream());
    let mut random = Random(42);
    for round in 0..pick(150, 8) {
        let symbols = alphabets[random.below(alphabets.len() as u64) as usize];
        let (bits, density) = (1 + random.below(31), random.below(100));
        let counts: Vec<u32> = (0..symbols)
            .map(|_| if random.below(100) <= density { random.below(1 << bits) as u32 } else { 0 })
            .collect();
        check::<B>(device, &mut arena, &counts, &format!("round {round}"));
    }
}
