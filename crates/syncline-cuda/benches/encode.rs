//! Times the encoders on GPU 0 against a device-to-device copy of the same run: `cargo bench -p syncline-cuda --bench
//! encode`.
//!
//! Medians of CUDA-event times after warm-up, on data larger than the second-level cache; outputs are poisoned first
//! and compared with the CPU's streams after. Rates are of uncompressed symbols; the copy's is its payload (it moves
//! twice that).

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaSlice, CudaStream};
use syncline_core::huffman::{self, EncodeOptions, EncodeScratch, IndexKind};
use syncline_cuda::cudarc;
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::error::{DriverContext, Result};
use syncline_cuda::huffman::encode::{Batch, Books, BooksBuilder, Encoded, Encoder, Format, Method, Plan, StreamSpan};

#[path = "../tests/common/mod.rs"]
mod common;
mod timing;
use common::{Random, Spread, symbols};
use timing::{LARGE, Runs, SMALL};

const RUNS: Runs = Runs { warm_up: 3, counted: 11 };
/// Symbols generated on the host; inputs repeat them in streams of their own, which no kernel here can tell.
const PERIOD: usize = 4 << 20;
const FREE: u16 = 512;

fn main() -> Result<()> {
    let Some(device) = timing::open()? else { return Ok(()) };
    let stream = device.context().default_stream();
    let copy = timing::copy_rate(&stream, RUNS)?;
    let bench = Bench { device, stream, copy };
    // `small` alone, or with files of 16-bit codes of an alphabet of 1,024. Cargo adds an argument of its own.
    let mut named = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    if named.next().as_deref() == Some("small") {
        return bench.small(&named.collect::<Vec<_>>());
    }
    println!(
        "\nGB/s of 16-bit symbols (share of C), {} MiB in streams of 2^22 and groups of 128 unless said",
        LARGE >> 20
    );
    for (name, part) in inputs() {
        bench.input(name, &part)?;
    }
    Ok(())
}

/// Codes by their bits a symbol, over all symbols. The first are like a quiet field's: nearly all of one symbol, the
/// others in clusters.
fn inputs() -> Vec<(&'static str, Vec<u16>)> {
    let clustered = |share: f64, live: f64| {
        let mut random = Random(7);
        let mut part = symbols(Spread::Geometric(share), 1024, PERIOD, 11);
        let mut at = 0;
        while at < PERIOD {
            let quiet = (4096.0 * (1.0 - live) / live * 2.0 * random.unit()) as usize;
            let end = (at + quiet).min(PERIOD);
            part[at..end].fill(FREE);
            at = end + (8192.0 * random.unit()) as usize;
        }
        part
    };
    // Without the rarest: no codeword is longer than the limit.
    let geometric = |share| -> Vec<u16> {
        let part = symbols(Spread::Geometric(share), 1024, PERIOD, 11);
        part.into_iter().map(|symbol| symbol.clamp(FREE - 100, FREE + 100)).collect()
    };
    vec![
        ("98 % one symbol, clustered", clustered(0.8, 0.1)),
        ("98 % one symbol, spread evenly", geometric(0.98)),
        ("1.7 bits", geometric(0.71)),
        ("2 bits", geometric(0.6)),
        ("5.2 bits", geometric(0.13)),
        ("6.2 bits", geometric(0.07)),
    ]
}

struct Bench {
    device: Device,
    stream: Arc<CudaStream>,
    copy: f64,
}

/// A batch ready to be encoded, its codebooks built.
struct Prepared {
    format: Format,
    input: CudaSlice<u16>,
    batch: Batch,
    books: Books,
    builder: BooksBuilder<u16>,
    encoded: Encoded,
    arena: Arena,
}

impl Bench {
    fn line(&self, what: &str, bytes: usize, seconds: f64) {
        let rate = bytes as f64 / seconds;
        println!("  {what:64} {:6.0} ({:.2})  {:8.1} us", rate / 1e9, rate / self.copy, seconds * 1e6);
    }

    fn prepare(&self, format: Format, part: &[u16], bytes: usize, stream_symbols: usize) -> Result<Prepared> {
        let input = repeated(&self.stream, part, bytes)?;
        let groups = stream_symbols >> format.group_log2;
        let spans: Vec<_> = (0..input.len() / stream_symbols)
            .map(|i| StreamSpan { first_group: (i * groups) as u64, groups: groups as u32, free_symbol: FREE })
            .collect();
        self.prepare_spans(format, input, &spans)
    }

    fn prepare_spans(&self, format: Format, input: CudaSlice<u16>, spans: &[StreamSpan]) -> Result<Prepared> {
        let batch = Batch::new(&self.stream, &format, spans)?;
        let mut books = Books::new(&self.stream, &batch)?;
        let builder = BooksBuilder::new(&self.device, &format)?;
        let mut arena = Arena::new(self.stream.clone());
        builder.launch(&mut arena.frame()?, &input.as_view(), None, &batch, &mut books)?;
        let encoded = Encoded::new(&self.stream, &batch, batch.max_bytes())?;
        Ok(Prepared { format, input, batch, books, builder, encoded, arena })
    }

    /// As [`Self::prepare`], where the last stream has what is left.
    fn prepare_ragged(&self, format: Format, part: &[u16], bytes: usize, stream_symbols: usize) -> Result<Prepared> {
        let input = repeated(&self.stream, part, bytes)?;
        let (all, most) = (input.len() >> format.group_log2, stream_symbols >> format.group_log2);
        let span = |first: usize| StreamSpan {
            first_group: first as u64,
            groups: most.min(all - first) as u32,
            free_symbol: FREE,
        };
        let spans: Vec<_> = (0..all).step_by(most).map(span).collect();
        self.prepare_spans(format, input, &spans)
    }

    /// Poisons, times, and compares two streams with the CPU's.
    fn encoder(&self, what: &str, p: &mut Prepared, encoder: &Encoder<u16>) -> Result<()> {
        let poison = vec![0xA5_u8; p.encoded.bytes().len()];
        self.stream.memcpy_htod(&poison, p.encoded.bytes_mut()).doing("poisoning")?;
        let median = seconds(&self.stream, || p.encode(encoder))?;
        self.line(what, p.input.len() * 2, median);
        self.check(what, p)
    }

    fn check(&self, what: &str, p: &Prepared) -> Result<()> {
        let plans = p.encoded.read_plans(&self.stream)?;
        let places = self.stream.clone_dtoh(p.encoded.places()).doing("reading")?;
        let options =
            EncodeOptions { group_log2: p.format.group_log2, index: p.format.index, zero_bit_symbol: Some(FREE) };
        for i in [0, plans.len() - 1] {
            let symbols = |plan: &Plan| (plan.groups as usize) << p.format.group_log2;
            let first: usize = plans[..i].iter().map(symbols).sum();
            let own = self.stream.clone_dtoh(&p.input.slice(first..first + symbols(&plans[i]))).doing("reading")?;
            let mut expected = Vec::new();
            huffman::encode(&own, &[], &options, &mut EncodeScratch::default(), &mut expected);
            let place = places[i] as usize;
            let bytes = p.encoded.bytes().slice(place..place + plans[i].stream_bytes as usize);
            if self.stream.clone_dtoh(&bytes).doing("reading")? != expected {
                println!("  WRONG: {what}, stream {i}");
            }
        }
        Ok(())
    }

    fn input(&self, name: &str, part: &[u16]) -> Result<()> {
        let format =
            Format { symbol_bytes: 2, group_log2: 7, alphabet: 1024, classes: false, index: IndexKind::Symbol };
        let mut large = self.prepare(format, part, LARGE, 1 << 22)?;
        let plans = large.encoded_plans(self, Method::Merged)?;
        let bits: u64 = plans.iter().map(|plan| u64::from(plan.codeword_bits)).sum();
        let live: u64 = plans.iter().map(|plan| u64::from(plan.live_groups)).sum();
        let groups: u64 = plans.iter().map(|plan| u64::from(plan.groups)).sum();
        println!(
            " {name}: {:.3} bits a symbol, {:.3} a live one, {:.1} % of the groups live",
            bits as f64 / large.input.len() as f64,
            bits as f64 / (live * 128) as f64,
            100.0 * live as f64 / groups as f64
        );
        for method in Method::ALL {
            self.encoder(method.name(), &mut large, &Encoder::new(&self.device, &format, method)?)?;
        }
        for (magnitude, reduction) in [(10, 2), (10, 4), (12, 3)] {
            let encoder = Encoder::new(&self.device, &format, Method::ReduceShuffleMerge { magnitude, reduction })?;
            self.encoder(&format!("reduce-shuffle-merge, M = {magnitude}, r = {reduction}"), &mut large, &encoder)?;
        }
        let shapes = [(256, 5, 16_384), (128, 8, 16_384), (256, 4, 4096), (256, 4, 8192), (256, 4, 32_768)];
        for (threads, blocks, segment) in shapes {
            let encoder = Encoder::with_merged_shape(&self.device, &format, threads, blocks, segment)?;
            let what = format!("merged, {threads} threads, {blocks} blocks, segments of {segment}");
            self.encoder(&what, &mut large, &encoder)?;
        }
        let encoder = Encoder::new(&self.device, &format, Method::Merged)?;
        self.parts(&mut large, &encoder)?;
        self.whole_path("histogram, codebooks, merged", &mut large, &encoder)?;
        drop(large);
        for (what, group_log2, index, bytes, stream_symbols) in [
            ("groups of 64", 6, IndexKind::Symbol, LARGE, 1 << 22),
            ("no index", 7, IndexKind::None, LARGE, 1 << 22),
            ("gap index", 7, IndexKind::Gap, LARGE, 1 << 22),
            ("streams of 2^20", 7, IndexKind::Symbol, LARGE, 1 << 20),
            ("10 MiB, streams of 2^20", 7, IndexKind::Symbol, SMALL, 1 << 20),
        ] {
            let format = Format { group_log2, index, ..format };
            let mut prepared = self.prepare(format, part, bytes, stream_symbols)?;
            let encoder = Encoder::new(&self.device, &format, Method::Merged)?;
            self.encoder(&format!("merged, {what}"), &mut prepared, &encoder)?;
            self.whole_path(&format!("histogram, codebooks, merged, {what}"), &mut prepared, &encoder)?;
        }
        Ok(())
    }

    /// Small batches: in one launch, which is what an encoder does with them, and as larger ones are encoded.
    fn small(&self, files: &[String]) -> Result<()> {
        let format =
            Format { symbol_bytes: 2, group_log2: 7, alphabet: 1024, classes: false, index: IndexKind::Symbol };
        let read = |name: &String| {
            let bytes = std::fs::read(name).unwrap_or_else(|error| panic!("{name}: {error}"));
            let codes = bytes.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect::<Vec<_>>();
            (name.clone(), codes)
        };
        let made = inputs().into_iter().map(|(name, part)| (name.to_owned(), part));
        let inputs: Vec<_> = if files.is_empty() { made.collect() } else { files.iter().map(read).collect() };
        let at_once = Encoder::new(&self.device, &format, Method::Merged)?;
        let in_turn = Encoder::with_merged_shape(&self.device, &format, 256, 4, 2048)?;
        println!(
            "\nsmall batches, microseconds, medians (shortest): in one launch, as larger ones; with counts and codebooks all in one launch, in three, in five; these alone"
        );
        for (name, part) in inputs {
            let shapes: &[(usize, usize)] = if files.is_empty() {
                &[
                    (1 << 20, 20),
                    (4 << 20, 20),
                    (10 << 20, 19),
                    (10 << 20, 20),
                    (10 << 20, 21),
                    (13 << 20, 20),
                    (18 << 20, 20),
                    (24 << 20, 20),
                ]
            } else {
                &[(10_000_000, 19)]
            };
            for &(bytes, stream_log2) in shapes {
                let mut p = self.prepare_ragged(format, &part, bytes, 1 << stream_log2)?;
                let runs = Runs { warm_up: 5, counted: 41 };
                let mut times = Vec::new();
                for encoder in [&at_once, &in_turn] {
                    let poison = vec![0xA5_u8; p.encoded.bytes().len()];
                    self.stream.memcpy_htod(&poison, p.encoded.bytes_mut()).doing("poisoning")?;
                    times.push(timing::seconds(&self.stream, runs, || p.encode(encoder))?);
                    self.check(&name, &p)?;
                }
                times.push(timing::seconds(&self.stream, runs, || {
                    at_once.launch_whole(
                        &p.builder,
                        &mut p.arena.frame()?,
                        &p.input.as_view(),
                        None,
                        &p.batch,
                        &mut p.books,
                        &mut p.encoded,
                    )
                })?);
                self.check(&name, &p)?;
                for encoder in [&at_once, &in_turn] {
                    times.push(timing::seconds(&self.stream, runs, || {
                        p.build_codebooks()?;
                        p.encode(encoder)
                    })?);
                }
                times.push(timing::seconds(&self.stream, runs, || p.build_codebooks())?);
                let times: Vec<_> = times
                    .into_iter()
                    .map(|(median, shortest)| format!("{:6.1} ({:.1})", median * 1e6, shortest * 1e6))
                    .collect();
                println!("  {:32} {:5.1} MB, 2^{stream_log2}: {}", name, bytes as f64 / 1e6, times.join(", "));
            }
        }
        Ok(())
    }

    /// Times each kernel of an encoder on its own.
    fn parts(&self, p: &mut Prepared, encoder: &Encoder<u16>) -> Result<()> {
        let mut times: Vec<(&str, Vec<f64>)> = Vec::new();
        for run in 0..RUNS.warm_up + RUNS.counted {
            let mut last = event(&self.stream)?;
            let mut i = 0;
            encoder.launch_observed(
                &mut p.arena.frame()?,
                &p.input.as_view(),
                None,
                &p.batch,
                &p.books,
                &mut p.encoded,
                &mut |kernel| {
                    let now = event(&self.stream)?;
                    let elapsed = f64::from(last.elapsed_ms(&now).doing("reading an event")?) / 1e3;
                    if times.len() <= i {
                        times.push((kernel, Vec::new()));
                    }
                    if run >= RUNS.warm_up {
                        times[i].1.push(elapsed);
                    }
                    i += 1;
                    last = event(&self.stream)?;
                    Ok(())
                },
            )?;
        }
        for (kernel, mut all) in times {
            all.sort_by(f64::total_cmp);
            self.line(&format!("  kernel {kernel} alone"), p.input.len() * 2, all[all.len() / 2]);
        }
        Ok(())
    }

    fn whole_path(&self, what: &str, p: &mut Prepared, encoder: &Encoder<u16>) -> Result<()> {
        let poison = vec![0x5A_u8; p.encoded.bytes().len()];
        self.stream.memcpy_htod(&poison, p.encoded.bytes_mut()).doing("poisoning")?;
        let books = seconds(&self.stream, || p.build_codebooks())?;
        let both = seconds(&self.stream, || {
            p.build_codebooks()?;
            p.encode(encoder)
        })?;
        self.line("  histogram and codebooks alone", p.input.len() * 2, books);
        self.line(what, p.input.len() * 2, both);
        self.check(what, p)
    }
}

impl Prepared {
    /// Counts, and makes codebooks.
    fn build_codebooks(&mut self) -> Result<()> {
        self.builder.launch(&mut self.arena.frame()?, &self.input.as_view(), None, &self.batch, &mut self.books)
    }

    fn encode(&mut self, encoder: &Encoder<u16>) -> Result<()> {
        encoder.launch(
            &mut self.arena.frame()?,
            &self.input.as_view(),
            None,
            &self.batch,
            &self.books,
            &mut self.encoded,
        )
    }

    fn encoded_plans(&mut self, bench: &Bench, method: Method) -> Result<Vec<Plan>> {
        self.encode(&Encoder::new(&bench.device, &self.format, method)?)?;
        self.encoded.read_plans(&bench.stream)
    }
}

fn event(stream: &Arc<CudaStream>) -> Result<cudarc::driver::CudaEvent> {
    stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).doing("recording an event")
}

/// Median seconds of `work` on the stream.
fn seconds(stream: &Arc<CudaStream>, work: impl FnMut() -> Result<()>) -> Result<f64> {
    timing::seconds(stream, RUNS, work).map(|(median, _)| median)
}

/// `bytes` of device memory filled by repeating `part`.
fn repeated(stream: &Arc<CudaStream>, part: &[u16], bytes: usize) -> Result<CudaSlice<u16>> {
    let length = bytes / size_of::<u16>();
    // SAFETY: symbols have no invalid bit patterns, and the loop writes all of them.
    let mut whole = unsafe { stream.alloc::<u16>(length) }.doing("allocating")?;
    for start in (0..length).step_by(part.len()) {
        let end = length.min(start + part.len());
        stream.memcpy_htod(&part[..end - start], &mut whole.slice_mut(start..end)).doing("filling")?;
    }
    Ok(whole)
}
