//! Times the encoders on GPU 0 against a device-to-device copy of the same run: `cargo bench -p syncline-cuda --bench
//! encode`.
//!
//! Reports medians of CUDA-event times after warm-up, on data larger than the L2 cache. Outputs are filled with a
//! pattern before, and compared with the CPU's streams afterwards. Throughputs are of uncompressed symbols; that of the
//! copy counts each byte once.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use syncline_core::huffman::{self, EncodeOptions, EncodeScratch, IndexKind};
use syncline_cuda::baselines::reduce_shuffle_merge_2021::{self, Method};
use syncline_cuda::cudarc;
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::error::{DriverContext, Result};
use syncline_cuda::huffman::encode::{
    Batch, BatchCodebooks, BatchCodebooksBuilder, EncodeInput, Encoded, Encoder, Format, StreamPlan, StreamSpan,
};
use syncline_cuda::timing::KernelTimes;

#[path = "../tests/common/mod.rs"]
mod common;
mod timing;
use common::{Random, Spread, symbols};
use timing::{LARGE, Runs, SMALL};

const RUNS: Runs = Runs { warm_up: 3, counted: 11 };
/// Symbols that are generated on the host; inputs repeat them in separate streams, which does not affect these kernels.
const PERIOD: usize = 4 << 20;
const FREE: u16 = 512;

fn main() -> Result<()> {
    let Some(device) = timing::open()? else { return Ok(()) };
    let stream = device.context().default_stream();
    let copy = timing::copy_rate(&stream, RUNS)?;
    let kernels = KernelTimes::new(&stream);
    let bench = Bench { device: device.with_tracer(kernels.clone()), stream, kernels, copy };
    println!(
        "\nGB/s of 16-bit symbols (share of C), {} MiB in streams of 2^22 and groups of 128 unless said",
        LARGE >> 20
    );
    for (name, part) in inputs() {
        bench.input(name, &part)?;
    }
    Ok(())
}

/// Returns symbols with several mean codeword lengths in bits. The first are like those of a quiet field: almost all
/// are the same symbol, and the others are in clusters.
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
    // Excludes the rarest symbols, so that no codeword is longer than the limit.
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
    kernels: Arc<KernelTimes>,
    copy: f64,
}

/// A batch that is ready to be encoded, with codebooks.
struct Prepared {
    format: Format,
    input: CudaSlice<u16>,
    batch: Batch,
    codebooks: BatchCodebooks,
    builder: BatchCodebooksBuilder<u16>,
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
        let mut codebooks = BatchCodebooks::new(&self.stream, &batch)?;
        let builder = BatchCodebooksBuilder::new(&self.device, &format)?;
        let mut arena = Arena::new(self.stream.clone());
        builder.launch(&mut arena.frame()?, &input.as_view(), None, &batch, &mut codebooks)?;
        let encoded = Encoded::new(&self.stream, &batch, batch.max_bytes())?;
        Ok(Prepared { format, input, batch, codebooks, builder, encoded, arena })
    }

    /// Fills the output with a pattern, times the encoder, and compares two streams with the CPU's.
    fn encoder(&self, what: &str, p: &mut Prepared, encoder: &Encoder<u16>) -> Result<()> {
        let poison = vec![0xA5_u8; p.encoded.bytes().len()];
        self.stream.memcpy_htod(&poison, p.encoded.bytes_mut()).doing("poisoning")?;
        let median = seconds(&self.stream, || p.encode(encoder))?;
        self.line(what, p.input.len() * 2, median);
        self.check(what, p)
    }

    fn check(&self, what: &str, p: &Prepared) -> Result<()> {
        let plans = p.encoded.read_plans(&self.stream)?;
        let places = self.stream.clone_dtoh(p.encoded.offsets()).doing("reading")?;
        let options =
            EncodeOptions { group_log2: p.format.group_log2, index: p.format.index, zero_bit_symbol: Some(FREE) };
        for i in [0, plans.len() - 1] {
            let symbols = |plan: &StreamPlan| (plan.groups as usize) << p.format.group_log2;
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
        let plans = large.encoded_plans(self)?;
        let bits: u64 = plans.iter().map(|plan| u64::from(plan.codeword_bits)).sum();
        let live: u64 = plans.iter().map(|plan| u64::from(plan.live_groups)).sum();
        let groups: u64 = plans.iter().map(|plan| u64::from(plan.groups)).sum();
        println!(
            " {name}: {:.3} bits a symbol, {:.3} a live one, {:.1} % of the groups live",
            bits as f64 / large.input.len() as f64,
            bits as f64 / (live * 128) as f64,
            100.0 * live as f64 / groups as f64
        );
        self.encoder("Syncline's encoder", &mut large, &Encoder::new(&self.device, &format)?)?;
        for method in Method::ALL {
            self.encoder(
                method.name(),
                &mut large,
                &reduce_shuffle_merge_2021::encoder(&self.device, &format, method)?,
            )?;
        }
        for (magnitude, reduction) in [(10, 2), (10, 4), (12, 3)] {
            let encoder = reduce_shuffle_merge_2021::encoder(
                &self.device,
                &format,
                Method::ReduceShuffleMerge { magnitude, reduction },
            )?;
            self.encoder(&format!("reduce-shuffle-merge, M = {magnitude}, r = {reduction}"), &mut large, &encoder)?;
        }
        for segment in [4096, 8192, 16_384, 32_768] {
            let encoder = Encoder::with_segment_symbols(&self.device, &format, segment)?;
            self.encoder(&format!("segments of {segment} symbols"), &mut large, &encoder)?;
        }
        let encoder = Encoder::new(&self.device, &format)?;
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
            let encoder = Encoder::new(&self.device, &format)?;
            self.encoder(&format!("merged, {what}"), &mut prepared, &encoder)?;
            self.whole_path(&format!("histogram, codebooks, merged, {what}"), &mut prepared, &encoder)?;
        }
        Ok(())
    }

    /// Times each kernel of an encoder separately.
    fn parts(&self, p: &mut Prepared, encoder: &Encoder<u16>) -> Result<()> {
        for (kernel, times) in self.kernels.measure(RUNS, || p.encode(encoder))? {
            self.line(&format!("  {kernel} alone"), p.input.len() * 2, times.median());
        }
        Ok(())
    }

    fn whole_path(&self, what: &str, p: &mut Prepared, encoder: &Encoder<u16>) -> Result<()> {
        let poison = vec![0x5A_u8; p.encoded.bytes().len()];
        self.stream.memcpy_htod(&poison, p.encoded.bytes_mut()).doing("poisoning")?;
        let codebooks = seconds(&self.stream, || p.build_codebooks())?;
        let both = seconds(&self.stream, || {
            p.build_codebooks()?;
            p.encode(encoder)
        })?;
        self.line("  histogram and codebooks alone", p.input.len() * 2, codebooks);
        self.line(what, p.input.len() * 2, both);
        self.check(what, p)
    }
}

impl Prepared {
    /// Counts symbols and builds codebooks.
    fn build_codebooks(&mut self) -> Result<()> {
        self.builder.launch(&mut self.arena.frame()?, &self.input.as_view(), None, &self.batch, &mut self.codebooks)
    }

    fn encode(&mut self, encoder: &Encoder<u16>) -> Result<()> {
        let symbols = &self.input.as_view();
        let input = EncodeInput { symbols, classes: None, batch: &self.batch, codebooks: &self.codebooks };
        encoder.launch(&mut self.arena.frame()?, &input, &mut self.encoded)
    }

    fn encoded_plans(&mut self, bench: &Bench) -> Result<Vec<StreamPlan>> {
        self.encode(&Encoder::new(&bench.device, &self.format)?)?;
        self.encoded.read_plans(&bench.stream)
    }
}

/// Returns the median seconds of `work` on the stream.
fn seconds(stream: &Arc<CudaStream>, work: impl FnMut() -> Result<()>) -> Result<f64> {
    timing::seconds(stream, RUNS, work).map(|(median, _)| median)
}

/// Allocates `bytes` bytes of device memory and fills them with repetitions of `part`.
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
