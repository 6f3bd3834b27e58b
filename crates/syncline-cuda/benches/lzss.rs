//! Times the LZSS stage on GPU 0 against a device-to-device copy of the same run: `cargo bench -p syncline-cuda --bench
//! lzss`.
//!
//! Reports medians of CUDA-event times after warm-up. Outputs are filled with a pattern before, and round trips are
//! compared. Throughputs are of uncompressed bytes; that of the copy counts each byte once. `SYNCLINE_BENCH_WHAT`
//! selects measurements: `stage` the stage alone, `streams` whole lossless streams of both coders, with the
//! microseconds of their steps (including those of the host); `files` excludes generated inputs. `SYNCLINE_BENCH_FILES`
//! names further inputs, separated by colons, whose last extension specifies the symbol: u16, i32, f32, f64, or bytes
//! for all others.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream};
use syncline_core::array::{ElementType, Shape};
use syncline_core::lzss::{EncodeScratch, Params, SymbolWidth, Tokens, encode};
use syncline_core::pipeline::{Coder, CoderOptions};
use syncline_cuda::baselines::gpulz_2023;
use syncline_cuda::cudarc;
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::error::{DriverContext, Result};
use syncline_cuda::lossless::{LosslessCompressor, LosslessDecompressor};
use syncline_cuda::lzss::{Batch, DecodeBatch, DecodeSpan, Decoder, Encoded, Encoder, Form, Span};
use syncline_cuda::pipeline::{StreamInfo, compress_bound};
use syncline_cuda::timing::{KernelTimes, Times};

#[path = "../tests/common/mod.rs"]
mod common;
mod timing;
use common::{Random, Spread, symbols};
use timing::{Runs, SMALL};

const RUNS: Runs = Runs { warm_up: 1, counted: 5 };
/// Bytes of an input, which repeats the generated or read bytes.
const LARGE: usize = 256 << 20;
/// Bytes of a large array that is compressed to a stream.
const STREAM: usize = 512 << 20;
/// Bytes of a chunk.
const CHUNK: usize = 4 << 20;

fn main() -> Result<()> {
    let Some(device) = timing::open()? else { return Ok(()) };
    let stream = device.context().default_stream();
    let copy = timing::copy_rate(&stream, RUNS)?;
    let kernels = KernelTimes::new(&stream);
    let bench = Bench { device: device.with_tracer(kernels.clone()), stream, kernels, copy };
    println!(
        "{} MiB in chunks of {} MiB; GB/s of uncompressed bytes (share of C); ratio of sections 2 to 6",
        LARGE >> 20,
        CHUNK >> 20
    );
    let levels = std::env::var("SYNCLINE_BENCH_LEVELS").unwrap_or_else(|_| "1 2 3 4 6".to_owned());
    let levels: Vec<u8> = levels.split(' ').filter_map(|level| level.parse().ok()).collect();
    let what = std::env::var("SYNCLINE_BENCH_WHAT").unwrap_or_else(|_| "streams stage".to_owned());
    for (name, width, part) in inputs() {
        if what.contains("files") && name.contains(' ') {
            continue;
        }
        println!("{name}, {} KiB repeated", part.len() >> 10);
        if what.contains("streams") {
            bench.streams(&part, width)?;
        }
        if !what.contains("stage") {
            continue;
        }
        for &level in &levels {
            bench.input(&part, width, level, LARGE)?;
        }
        bench.input(&part, width, 3, SMALL)?;
        // The symbol widths of the published grid other than that of the element.
        for other in [SymbolWidth::Two, SymbolWidth::Four].into_iter().filter(|&other| other != width) {
            bench.input(&part, other, if other == SymbolWidth::Two { 3 } else { 1 }, LARGE)?;
        }
    }
    Ok(())
}

fn inputs() -> Vec<(String, SymbolWidth, Vec<u8>)> {
    let codes = |share| -> Vec<u8> {
        symbols(Spread::Geometric(share), 1024, 2 << 20, 11).iter().flat_map(|code| code.to_le_bytes()).collect()
    };
    let mut all = vec![
        ("codes, 98 % one symbol".to_owned(), SymbolWidth::Two, codes(0.98)),
        ("codes, 1.7 bits".to_owned(), SymbolWidth::Two, codes(0.71)),
        ("codes, 5.2 bits".to_owned(), SymbolWidth::Two, codes(0.13)),
        ("integers, 1 to 50".to_owned(), SymbolWidth::Four, {
            let mut random = Random(3);
            (0..1 << 20).flat_map(|_| (1 + random.below(50) as u32).to_le_bytes()).collect()
        }),
    ];
    for file in std::env::var("SYNCLINE_BENCH_FILES").unwrap_or_default().split(':').filter(|file| !file.is_empty()) {
        let bytes = std::fs::read(file).unwrap_or_else(|error| panic!("{file}: {error}"));
        let width = match file.rsplit('.').next() {
            Some("u16" | "i16") => SymbolWidth::Two,
            Some("i32" | "f32" | "u32") => SymbolWidth::Four,
            Some("f64" | "i64") => SymbolWidth::Eight,
            _ => SymbolWidth::One,
        };
        let name = file.rsplit('/').next().unwrap_or(file).to_owned();
        all.push((name, width, bytes[..bytes.len() / CHUNK.min(bytes.len()) * CHUNK.min(bytes.len())].to_vec()));
    }
    all
}

struct Bench {
    device: Device,
    stream: Arc<CudaStream>,
    kernels: Arc<KernelTimes>,
    copy: f64,
}

impl Bench {
    fn input(&self, part: &[u8], width: SymbolWidth, level: u8, length: usize) -> Result<()> {
        let input = self.repeated(part, length)?;
        let params = Params::new(width, level);
        let span = |offset: usize| Span {
            offset: offset as u64,
            bytes: CHUNK.min(length - offset) as u64,
            min_match: params.min_match,
            chunk: (offset / CHUNK) as u64,
        };
        let spans: Vec<_> = (0..length).step_by(CHUNK).map(span).collect();
        let batch = Batch::new(&self.stream, width, level, Form::Sections, &spans)?;
        let mut encoded = Encoded::new(&self.stream, &batch, batch.max_bytes())?;
        let mut arena = Arena::new(self.stream.clone());

        // The published kernel compares with the whole window, which takes too long for long windows.
        let published = if level <= 4 {
            let encoder = gpulz_2023::encoder(&self.device, width, level)?;
            let runs = Runs { warm_up: 0, counted: 1 };
            Some(self.seconds(runs, || encoder.launch(&mut arena.frame()?, &input.as_view(), &batch, &mut encoded))?)
        } else {
            None
        };
        let encoder = Encoder::new(&self.device, width, level)?;
        let poison = vec![0xA5_u8; encoded.bytes().len()];
        self.stream.memcpy_htod(&poison, encoded.bytes_mut()).doing("poisoning")?;
        let seconds =
            self.seconds(RUNS, || encoder.launch(&mut arena.frame()?, &input.as_view(), &batch, &mut encoded))?;
        let parts = self.parts(&encoder, &mut arena, &input, &batch, &mut encoded)?;
        self.compare_first_chunk(&params, &part[..CHUNK.min(part.len())], &encoded)?;

        let plans = encoded.read_plans(&self.stream)?;
        let places = self.stream.clone_dtoh(encoded.places()).doing("reading places")?;
        let decoder = Decoder::new(&self.device, width, level)?;
        let spans: Vec<_> = spans
            .iter()
            .zip(&plans)
            .zip(&places)
            .map(|((span, plan), &place)| {
                let mut at = place + u64::from(plan.section_bytes[0]).next_multiple_of(16);
                let mut next = |number: usize| {
                    let part = (at, plan.section_bytes[number]);
                    at += u64::from(part.1).next_multiple_of(16);
                    part
                };
                let (flags, lengths, distances, literals) = (next(1), next(2), next(3), next(4));
                let Span { offset: output, bytes, min_match, .. } = *span;
                DecodeSpan { blocks: place + 8, flags, lengths, distances, literals, output, bytes, min_match }
            })
            .collect();
        let decode_batch = DecodeBatch::new(&self.stream, width, level, &spans)?;
        let mut output = self.stream.clone_htod(&vec![0xA5_u8; length]).doing("poisoning")?;
        let mut status = self.stream.alloc_zeros::<u32>(spans.len()).doing("allocating")?;
        let decoding = self.seconds(RUNS, || {
            let (mut output, mut status) = (output.as_view_mut(), status.as_view_mut());
            decoder.launch(&mut arena.frame()?, &encoded.bytes().as_view(), &decode_batch, &mut output, &mut status)
        })?;
        let status = self.stream.clone_dtoh(&status).doing("reading the status")?;
        assert!(status.iter().all(|&status| status == 0), "{status:?}");
        self.compare(part, &output)?;

        let compressed: u64 = plans.iter().map(|plan| u64::from(plan.bytes)).sum();
        let rate = |seconds: f64| length as f64 / seconds / 1e9;
        println!(
            "  {:3} MiB S {} level {level} (W {:5}): ratio {:6.2}  compress {:6.1} ({:.2})  decompress {:6.1} ({:.2})  \
             published {}  [{parts}]",
            length >> 20,
            width.bytes(),
            params.window(),
            length as f64 / compressed as f64,
            rate(seconds),
            rate(seconds) * 1e9 / self.copy,
            rate(decoding),
            rate(decoding) * 1e9 / self.copy,
            published.map_or_else(|| "-".to_owned(), |seconds| format!("{:.1}", rate(seconds))),
        );
        Ok(())
    }

    /// Times whole lossless streams of both coders, from array to stream and back.
    fn streams(&self, part: &[u8], width: SymbolWidth) -> Result<()> {
        let element = match width {
            SymbolWidth::One => ElementType::U8,
            SymbolWidth::Two => ElementType::U16,
            SymbolWidth::Four => ElementType::I32,
            SymbolWidth::Eight => ElementType::I64,
        };
        for length in [STREAM, SMALL] {
            let input = self.repeated(part, length)?;
            let shape = Shape::new(&[(length / width.bytes()) as u64])?;
            let room = compress_bound(element, shape) as usize;
            let mut output = self.stream.clone_htod(&vec![0xA5_u8; room]).doing("poisoning")?;
            for pipeline in [Coder::Lzss, Coder::LzssHuffman] {
                let options = CoderOptions { coder: pipeline, ..CoderOptions::default() };
                let mut compressor = LosslessCompressor::new(&self.device, &self.stream)?;
                let mut bytes = 0;
                let mut compress = || {
                    let (input, mut output) = (input.as_view(), output.as_view_mut());
                    let made = compressor.compress(&input, element, shape, &options, &mut output)?;
                    bytes = made.bytes as usize;
                    Ok(())
                };
                let compressing = self.seconds(RUNS, &mut compress)?;
                let compress_kernels = self.kernels.measure(RUNS, &mut compress)?;

                let stream = output.slice(..bytes);
                let info = StreamInfo::from_device(&self.stream, &stream)?;
                let mut back = self.stream.clone_htod(&vec![0xA5_u8; length]).doing("poisoning")?;
                let mut decompressor = LosslessDecompressor::new(&self.device, self.stream.clone(), &info)?;
                let mut decompress = || decompressor.decompress(&stream, &mut back.as_view_mut());
                let decompressing = self.seconds(RUNS, &mut decompress)?;
                let decompress_kernels = self.kernels.measure(RUNS, &mut decompress)?;
                decompressor.check()?;
                self.compare(part, &back)?;
                let rate = |seconds: f64| length as f64 / seconds / 1e9;
                println!(
                    "  {:3} MiB {pipeline}: ratio {:6.2}  in {:6.1}  out {:6.1}\n    [{}]\n    [{}]",
                    length >> 20,
                    length as f64 / bytes as f64,
                    rate(compressing),
                    rate(decompressing),
                    by_kernel(&compress_kernels),
                    by_kernel(&decompress_kernels),
                );
            }
        }
        Ok(())
    }

    fn seconds(&self, runs: Runs, work: impl FnMut() -> Result<()>) -> Result<f64> {
        Ok(timing::seconds(&self.stream, runs, work)?.0)
    }

    /// Returns the microseconds of each kernel of one call.
    fn parts(
        &self,
        encoder: &Encoder,
        arena: &mut Arena,
        input: &CudaSlice<u8>,
        batch: &Batch,
        encoded: &mut Encoded,
    ) -> Result<String> {
        let runs = Runs { warm_up: 0, counted: 1 };
        let launch = || encoder.launch(&mut arena.frame()?, &input.as_view(), batch, encoded);
        Ok(by_kernel(&self.kernels.measure(runs, launch)?))
    }

    fn repeated(&self, part: &[u8], length: usize) -> Result<CudaSlice<u8>> {
        // SAFETY: bytes have no invalid bit patterns, and the loop writes all of them.
        let mut whole = unsafe { self.stream.alloc::<u8>(length) }.doing("allocating")?;
        for start in (0..length).step_by(part.len()) {
            let end = length.min(start + part.len());
            self.stream.memcpy_htod(&part[..end - start], &mut whole.slice_mut(start..end)).doing("filling")?;
        }
        Ok(whole)
    }

    /// Compares the first chunk's tokens with those of core.
    fn compare_first_chunk(&self, params: &Params, part: &[u8], encoded: &Encoded) -> Result<()> {
        let chunk: Vec<u8> = part.iter().copied().cycle().take(CHUNK).collect();
        let mut tokens = Tokens::default();
        encode(&chunk, params, &mut EncodeScratch::default(), &mut tokens);
        let plan = encoded.read_plans(&self.stream)?[0];
        let bytes = self.stream.clone_dtoh(&encoded.bytes().slice(..plan.bytes as usize)).doing("reading back")?;
        let literals = plan.section_bytes[4] as usize;
        let end = bytes.len() - (literals.next_multiple_of(16) - literals);
        assert!(bytes[end - literals..end] == tokens.literals, "literals differ from core's");
        assert_eq!(plan.matches as usize, tokens.lengths.len(), "matches differ from core's");
        Ok(())
    }

    fn compare(&self, part: &[u8], output: &CudaSlice<u8>) -> Result<()> {
        let output = self.stream.clone_dtoh(output).doing("reading back")?;
        let same = output.chunks(part.len()).all(|piece| piece == &part[..piece.len()]);
        assert!(same, "the round trip changed the data");
        Ok(())
    }
}

/// Returns the microseconds of each kernel.
fn by_kernel(kernels: &[(&'static str, Times)]) -> String {
    let part = |(name, times): &(&'static str, Times)| {
        format!("{} {:.0}", name.trim_start_matches("lzss_"), times.median() * 1e6)
    };
    kernels.iter().map(part).collect::<Vec<_>>().join(", ")
}
