//! Times the stages on GPU 0 against a device-to-device copy of the same run: `cargo bench -p syncline-cuda`.
//!
//! Reports medians of CUDA-event times after warm-up, on data larger than the L2 cache. Outputs are filled with a
//! pattern before, and checked afterwards. Throughputs are of uncompressed symbols; that of the copy counts each byte
//! once.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use syncline_core::huffman::IndexKind;
use syncline_cuda::baselines::reduce_shuffle_merge_2021::histogram::Histogram;
use syncline_cuda::cudarc;
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::error::{DriverContext, Result};
use syncline_cuda::huffman::Symbol;
use syncline_cuda::huffman::codebook::{CodebookBuilder, DeviceCodebooks};
use syncline_cuda::huffman::encode::{Batch, BatchCodebooks, BatchCodebooksBuilder, Format, StreamSpan};

#[path = "../tests/common/mod.rs"]
mod common;
mod timing;
use common::{Spread, symbols};
use timing::{LARGE, Runs, SMALL};

const RUNS: Runs = Runs { warm_up: 3, counted: 15 };
/// Symbols that are generated on the host; inputs repeat them, which does not affect these kernels.
const PERIOD: usize = 8 << 20;

fn main() -> Result<()> {
    let Some(device) = timing::open()? else { return Ok(()) };
    let stream = device.context().default_stream();
    // Arguments select the measurements; without arguments, all are made. Cargo adds its own argument.
    let named: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let wanted = |name: &str| named.is_empty() || named.iter().any(|argument| argument == name);
    let alphabets: Vec<u32> = named.iter().filter_map(|argument| argument.parse().ok()).collect();
    if wanted("histograms") {
        histograms(&device, &stream, timing::copy_rate(&stream, RUNS)?)?;
    }
    if wanted("codebooks") {
        codebooks(&device, &stream, &alphabets)?;
    }
    if wanted("streams") {
        streams(&device, &stream)?;
    }
    Ok(())
}

/// Returns the median and the shortest seconds of `work` on the stream.
fn seconds(stream: &Arc<CudaStream>, work: impl FnMut() -> Result<()>) -> Result<(f64, f64)> {
    timing::seconds(stream, RUNS, work)
}

/// Allocates `bytes` bytes of device memory and fills them with repetitions of `part`.
fn repeated<S: Symbol + Copy>(stream: &Arc<CudaStream>, part: &[S], bytes: usize) -> Result<CudaSlice<S>> {
    let length = bytes / size_of::<S>();
    // SAFETY: symbols have no invalid bit patterns, and the loop writes all of them.
    let mut whole = unsafe { stream.alloc::<S>(length) }.doing("allocating")?;
    for start in (0..length).step_by(part.len()) {
        let end = length.min(start + part.len());
        stream.memcpy_htod(&part[..end - start], &mut whole.slice_mut(start..end)).doing("filling")?;
    }
    Ok(whole)
}

/// Times one histogram and checks its result against counts on the host.
fn histogram<S: Symbol + Copy + Into<u32>>(
    stream: &Arc<CudaStream>,
    histogram: &Histogram<S>,
    part: &[S],
    input: &CudaSlice<S>,
) -> Result<f64> {
    let poison = vec![u64::MAX; histogram.counts_len()];
    let mut counts = stream.clone_htod(&poison).doing("allocating")?;
    let (median, _) = seconds(stream, || histogram.launch(stream, &input.as_view(), &mut counts.as_view_mut()))?;
    let mut expected = vec![0_u64; histogram.counts_len()];
    let (whole, rest) = ((input.len() / part.len()) as u64, input.len() % part.len());
    for (i, &symbol) in part.iter().enumerate() {
        expected[(symbol.into() as usize).min(histogram.bins() as usize)] += whole + u64::from(i < rest);
    }
    assert!(stream.clone_dtoh(&counts).doing("reading")? == expected, "wrong counts");
    Ok((input.len() * size_of::<S>()) as f64 / median)
}

fn histograms(device: &Device, stream: &Arc<CudaStream>, copy: f64) -> Result<()> {
    println!("\nhistogram, GB/s (share of C)");
    let spreads = [
        ("98 % one symbol", Spread::Geometric(0.98)),
        ("80 % one symbol", Spread::Geometric(0.8)),
        ("50 % one symbol", Spread::Geometric(0.5)),
        ("20 % one symbol", Spread::Geometric(0.2)),
        ("5 % one symbol", Spread::Geometric(0.05)),
        ("one symbol", Spread::One),
        ("flat", Spread::Flat),
    ];
    let line = |what: String, rate: f64| println!("  {what:60} {:7.0} ({:.2})", rate / 1e9, rate / copy);
    for (name, spread) in spreads {
        let bytes: Vec<u8> = symbols(spread, 256, PERIOD, 1).into_iter().map(|symbol| symbol as u8).collect();
        let input = repeated(stream, &bytes, LARGE)?;
        line(format!("bytes, {name}"), histogram(stream, &Histogram::new(device, 256)?, &bytes, &input)?);
        drop(input);
        for bins in [1024, 4096, 16_384, 65_536] {
            let part = symbols(spread, bins, PERIOD, 1);
            let input = repeated(stream, &part, LARGE)?;
            let rate = histogram(stream, &Histogram::new(device, bins)?, &part, &input)?;
            line(format!("{bins} bins, {name}"), rate);
            if bins == 1024 {
                for copies in [1, 8] {
                    let rate = histogram(stream, &Histogram::with_copies(device, bins, copies)?, &part, &input)?;
                    line(format!("{bins} bins, {name}, {copies} copies"), rate);
                }
                let small = repeated(stream, &part, SMALL)?;
                let rate = histogram(stream, &Histogram::new(device, bins)?, &part, &small)?;
                line(format!("{bins} bins, {name}, 10 MiB"), rate);
            }
        }
    }
    Ok(())
}

/// The phases of [`Summary::cycles`](syncline_cuda::huffman::codebook::Summary::cycles).
const PHASES: [&str; 4] = ["sort", "lengths", "limit", "codewords"];

/// Times building codebooks of these alphabets, or of all.
fn codebooks(device: &Device, stream: &Arc<CudaStream>, alphabets: &[u32]) -> Result<()> {
    println!("\ncodebook from counts on the device, microseconds: median (shortest)");
    let mut arena = Arena::new(stream.clone());
    for (name, spread) in [
        ("98 % one symbol", Some(Spread::Geometric(0.98))),
        ("5 % one symbol", Some(Spread::Geometric(0.05))),
        ("flat", Some(Spread::Flat)),
        ("inverse squares", None), // the limit's last step, which melds again and again
        ("halving every 2 %", None),
    ] {
        for bins in [256, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536] {
            if !alphabets.is_empty() && !alphabets.contains(&bins) {
                continue;
            }
            // One occurrence of each symbol, so that the whole alphabet is used.
            let mut counts = vec![1_u64; bins as usize];
            match spread {
                Some(spread) => {
                    symbols(spread, bins, PERIOD / 8, 2)
                        .into_iter()
                        .for_each(|symbol| counts[usize::from(symbol)] += 1);
                }
                None if name == "inverse squares" => {
                    (1..).zip(&mut counts).for_each(|(i, count)| *count += (1 << 32) / (i * i));
                }
                None => {
                    let half_life = f64::from(bins) / 50.0;
                    let away = |i: u32| f64::from(i.abs_diff(bins / 2));
                    let count = |i| (1e5 * 0.5_f64.powf(away(i) / half_life)) as u64;
                    (0..).zip(&mut counts).for_each(|(i, counted)| *counted += count(i));
                }
            }
            let counts = stream.clone_htod(&counts).doing("allocating")?;
            let builder = CodebookBuilder::new(device, bins)?;
            let mut codebook = DeviceCodebooks::new(stream, bins, 1)?;
            let (median, shortest) =
                seconds(stream, || builder.launch(&mut arena.frame()?, &counts.as_view(), &mut codebook))?;
            let summary = codebook.read_summary(stream)?;
            assert_eq!(summary.used, bins);
            println!(
                "  {bins:6} symbols, {name:16} {:7.1} ({:.1}), {} rounds, longest {}; thousand cycles: {}",
                median * 1e6,
                shortest * 1e6,
                summary.rounds,
                summary.longest,
                PHASES
                    .into_iter()
                    .zip(summary.cycles)
                    .map(|(phase, cycles)| format!("{phase} {}", cycles / 1000))
                    .collect::<Vec<_>>()
                    .join(", "),
            );
        }
    }
    Ok(())
}

/// Distributions of 16-bit codes as in fields: mixtures of two-sided geometric distributions, given by the shares of
/// the middle symbol.
const MIXTURES: [(&str, &[f64]); 4] = [
    ("98 % one symbol", &[0.98]),
    ("1.7 bits", &[0.71]),
    ("5.2 bits", &[0.13]),
    ("a steep peak and long tails", &[0.95, 0.95, 0.95, 0.8, 0.8, 0.4, 0.1, 0.02]),
];

/// Times counting and building codebooks of an encoder's streams; phases of the latter are measured by the kernel's own
/// clock.
fn streams(device: &Device, stream: &Arc<CudaStream>) -> Result<()> {
    println!("\ncounts and codebooks of streams of 2^20 symbols, microseconds: median (shortest)");
    let format = Format { symbol_bytes: 2, group_log2: 7, alphabet: 1024, classes: false, index: IndexKind::Symbol };
    let mut arena = Arena::new(stream.clone());
    for (name, shares) in MIXTURES {
        let mut part: Vec<u16> = Vec::with_capacity(PERIOD);
        for (seed, &share) in (3..).zip(shares) {
            part.extend(symbols(Spread::Geometric(share), 1024, (1 << 20) / shares.len(), seed));
        }
        for bytes in [SMALL, LARGE / 4] {
            let input = repeated(stream, &part, bytes)?;
            let groups = 1 << (20 - format.group_log2);
            let spans: Vec<_> = (0..input.len() as u64 >> 20)
                .map(|i| StreamSpan { first_group: i * groups, groups: groups as u32, free_symbol: 512 })
                .collect();
            let batch = Batch::new(stream, &format, &spans)?;
            let mut codebooks = BatchCodebooks::new(stream, &batch)?;
            let builder = BatchCodebooksBuilder::new(device, &format)?;
            let runs = Runs { warm_up: 3, counted: 41 };
            let (median, shortest) = timing::seconds(stream, runs, || {
                builder.launch(&mut arena.frame()?, &input.as_view(), None, &batch, &mut codebooks)
            })?;
            let summary = codebooks.codebooks().read_summary(stream)?;
            println!(
                "  {:4} streams, {name:28} {:7.1} ({:.1}), {} symbols, {} rounds, longest {}; hundred cycles: {}",
                spans.len(),
                median * 1e6,
                shortest * 1e6,
                summary.used,
                summary.rounds,
                summary.longest,
                PHASES
                    .into_iter()
                    .zip(summary.cycles)
                    .map(|(phase, cycles)| format!("{phase} {}", cycles / 100))
                    .collect::<Vec<_>>()
                    .join(", "),
            );
        }
    }
    Ok(())
}
