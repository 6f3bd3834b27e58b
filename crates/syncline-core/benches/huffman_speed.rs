//! Speed of the Huffman stage on one core: each step alone, on codes of about 1.1, 2 and 5 bits a symbol.
//!
//! `cargo bench -p syncline-core --bench huffman_speed -- [FILE.u16]` (a file of little-endian 16-bit codes is
//! measured as well)

use std::hint::black_box;
use std::time::Instant;

use syncline_core::huffman::codebook::Codebook;
use syncline_core::huffman::histogram::{self, HistogramScratch};
use syncline_core::huffman::lengths::{LengthScratch, code_lengths};
use syncline_core::huffman::{Decoder, EncodeOptions, EncodeScratch, IndexKind, Stream, encode};

/// Symbols of a measured chunk: 2 MiB of 16-bit codes.
const SYMBOLS: usize = 1 << 20;
const REPETITIONS: usize = 40;
/// Groups a batch of the pipeline has.
const BATCH: usize = 256;

fn main() {
    let ghz = clock_ghz();
    println!("about {ghz:.2} GHz; best of {REPETITIONS}; GB/s of 16-bit symbols");
    for keep in [0.1, 0.44, 0.92] {
        let symbols = geometric(keep);
        measure(&format!("geometric {keep}"), &symbols, ghz);
    }
    // Cargo passes options of its own, such as --bench.
    for path in std::env::args().skip(1).filter(|argument| !argument.starts_with("--")) {
        let bytes = std::fs::read(&path).expect("the file can be read");
        let all: Vec<u16> = bytes.as_chunks().0.iter().map(|&b| u16::from_le_bytes(b)).collect();
        let first = (all.len() / 2).min(all.len().saturating_sub(SYMBOLS));
        let len = (all.len() - first).min(SYMBOLS) / 128 * 128;
        measure(&path, &all[first..first + len], ghz);
    }
}

fn measure(name: &str, symbols: &[u16], ghz: f64) {
    let options = EncodeOptions { group_log2: 7, index: IndexKind::Symbol, zero_bit_symbol: Some(512) };
    let mut scratch = EncodeScratch::default();
    let mut out = Vec::new();
    let summary = encode(symbols, &[], &options, &mut scratch, &mut out);
    let bits = out.len() as f64 * 8.0 / symbols.len() as f64;
    println!(
        "\n{name}: {bits:.2} bits/symbol, {} of {} groups live, index {:.1} %",
        summary.live_groups,
        summary.groups,
        100.0 * f64::from(summary.index_bytes) / out.len() as f64
    );
    let report = |step: &str, mut work: Box<dyn FnMut() + '_>| {
        let seconds = (0..REPETITIONS)
            .map(|_| {
                let start = Instant::now();
                work();
                start.elapsed().as_secs_f64()
            })
            .fold(f64::INFINITY, f64::min);
        let n = symbols.len() as f64;
        println!("  {step:28} {:7.2} GB/s  {:6.3} cycles/symbol", 2.0 * n / seconds / 1e9, seconds * ghz * 1e9 / n);
    };

    let mut counters = HistogramScratch::default();
    let mut counts = [Vec::new()];
    report("histogram", Box::new(|| histogram::count(symbols, 128, |_| Some(0), 1023, &mut counters, &mut counts)));
    let mut lengths = Vec::new();
    let mut length_scratch = LengthScratch::default();
    histogram::count(symbols, 128, |_| Some(0), 1023, &mut HistogramScratch::default(), &mut counts);
    report(
        "codebook",
        Box::new(|| {
            code_lengths(&counts[0], &mut length_scratch, &mut lengths);
            black_box(Codebook::new(lengths.clone()));
        }),
    );
    report(
        "encode, all of it",
        Box::new(|| {
            out.clear();
            encode(symbols, &[], &options, &mut scratch, &mut out);
        }),
    );
    for index in IndexKind::ALL {
        let mut bytes = Vec::new();
        encode(symbols, &[], &EncodeOptions { index, ..options }, &mut EncodeScratch::default(), &mut bytes);
        let mut back = vec![0u16; symbols.len()];
        for kind in Decoder::ALL {
            let stream = Stream::<u16>::parse(&bytes, "example").expect("a good stream");
            let Ok(decoder) = stream.decoder(kind, &[]) else { continue };
            let own_index = matches!(
                (kind, index),
                (Decoder::Chunked | Decoder::SelfSync, IndexKind::None)
                    | (Decoder::Gap, IndexKind::Gap)
                    | (Decoder::Indexed, IndexKind::Symbol)
            );
            if own_index {
                report(&format!("decode {kind}"), Box::new(|| decoder.decode(&mut back, 1).expect("a good stream")));
                assert!(back == symbols);
            }
        }
    }
    let mut batch = vec![0u16; BATCH * 128];
    report(
        "indexed by batches, parsed",
        Box::new(|| {
            let stream = Stream::<u16>::parse(&out, "example").expect("a good stream");
            let decoder = stream.decoder(Decoder::Indexed, &[]).expect("an index");
            let mut checksum = syncline_core::huffman::Checksum::default();
            for first in (0..stream.groups()).step_by(BATCH) {
                let groups = first..(first + BATCH).min(stream.groups());
                let batch = &mut batch[..groups.len() * 128];
                checksum.add(decoder.decode_groups(groups, batch).expect("groups of the stream"));
            }
            stream.verify(checksum).expect("a good stream");
        }),
    );
    report(
        "parse and tables",
        Box::new(|| {
            let stream = Stream::<u16>::parse(&out, "example").expect("a good stream");
            black_box(stream.decoder(Decoder::Indexed, &[]).expect("an index"));
        }),
    );
}

/// Two-sided geometric codes around 512, as a predictor's residuals are: `keep` is the chance of each step away.
fn geometric(keep: f64) -> Vec<u16> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..SYMBOLS)
        .map(|_| {
            let distance = (uniform().max(1e-300).ln() / keep.ln()).min(500.0) as u16;
            if uniform() < 0.5 { 512 + distance } else { 512 - distance }
        })
        .collect()
}

/// Clock of the core, from a chain of multiplications and ors: three cycles and one.
fn clock_ghz() -> f64 {
    let steps = 5_000_000u64;
    let best = (0..20)
        .map(|_| {
            let start = Instant::now();
            let mut x = black_box(3u64);
            for _ in 0..steps {
                x = x.wrapping_mul(x | 1);
            }
            black_box(x);
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    4.0 * steps as f64 / best / 1e9
}
