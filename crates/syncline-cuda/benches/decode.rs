//! Times the Huffman decoders on GPU 0 against a device-to-device copy of the same run: `cargo bench -p syncline-cuda
//! --bench decode`.
//!
//! Medians of CUDA-event times after warm-up; each covers a whole launch: tables, zero-bit groups, symbols, checksums.
//! Outputs are filled with a pattern before and checked afterwards. Rates are in uncompressed bytes; the copy rate
//! counts the payload once. Arguments: parts of the names of the lines to run.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, DeviceRepr};
use syncline_core::huffman::{EncodeOptions, EncodeScratch, IndexKind, Stream, Symbol, encode};
use syncline_cuda::baselines::cusz_2020::CuSz2020;
use syncline_cuda::baselines::gap_array_2020::GapArray2020;
use syncline_cuda::baselines::gap_array_2022::GapArray2022;
use syncline_cuda::baselines::self_sync_2018::SelfSync2018;
use syncline_cuda::baselines::self_sync_2022::SelfSync2022;
use syncline_cuda::baselines::shared_memory_tuning_2022::BufferSize;
use syncline_cuda::cudarc;
use syncline_cuda::device::{Arena, Device};
use syncline_cuda::error::{DriverContext, Result};
use syncline_cuda::huffman::decode::{
    Batch, BatchStream, Decoding, Gap, Indexed, IndexedTuning, SelfSync, SelfSyncTuning, SubsequenceTuning, status_text,
};

#[path = "../tests/common/mod.rs"]
mod common;
mod timing;
use common::{Random, Spread, symbols};
use timing::{LARGE, Runs, SMALL};

const RUNS: Runs = Runs { warm_up: 2, counted: 11 };
/// Number of symbols in a stream.
const CHUNK: usize = 1 << 21;
/// Number of different streams. A batch repeats them, each copy with its own input and output.
const DISTINCT: usize = 2;

fn main() -> Result<()> {
    let Some(device) = timing::open()? else { return Ok(()) };
    let stream = device.context().default_stream();
    let copy = timing::copy_rate(&stream, RUNS)?;
    // `cargo bench` passes its own flag.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let bench = Bench { device: &device, stream, copy, wanted };
    let spread = |share| move |seed| symbols(Spread::Geometric(share), 1024, CHUNK, seed);
    bench.all_decoders("98 % zeros in clusters", clustered)?;
    bench.all_decoders("1.7 bits", spread(0.665))?;
    bench.all_decoders("2 bits", spread(0.59))?;
    bench.all_decoders("5.2 bits", spread(0.115))?;
    bench.all_decoders("6.2 bits", spread(0.058))?;
    bench.all_decoders("never synchronizing", |seed| symbols(Spread::Flat, 64, CHUNK, seed))?;
    bench.all_decoders("bytes, 2 bits", |seed| {
        symbols(Spread::Geometric(0.59), 256, CHUNK, seed).into_iter().map(|s| s as u8).collect::<Vec<u8>>()
    })?;
    bench.all_decoders("65,536 symbols, 16 bits", |seed| symbols(Spread::Flat, 65_536, CHUNK, seed))?;
    bench.indexed_variants("1.7 bits", spread(0.665))?;
    bench.indexed_variants("3 bits", spread(0.35))?;
    bench.indexed_variants("4 bits", spread(0.21))?;
    bench.indexed_variants("6.2 bits", spread(0.058))
}

/// Codes like those of a smooth field: 98 % are the middle symbol, the others are clustered.
fn clustered(seed: u64) -> Vec<u16> {
    let mut random = Random(seed);
    let active = symbols(Spread::Geometric(0.6), 1024, CHUNK, seed);
    let mut out = Vec::with_capacity(CHUNK);
    while out.len() < CHUNK {
        let room = CHUNK - out.len();
        out.extend(std::iter::repeat_n(512, room.min(4096 + random.below(30_000) as usize)));
        let room = CHUNK - out.len();
        let start = out.len();
        out.extend(&active[start..start + room.min(random.below(2000) as usize)]);
    }
    out
}

struct Bench<'d> {
    device: &'d Device,
    stream: Arc<CudaStream>,
    copy: f64,
    wanted: Vec<String>,
}

/// Streams of one kind, repeated in device memory.
struct Data<S> {
    symbols: Vec<Vec<S>>,
    input: CudaSlice<u8>,
    batch: Batch<S>,
    total: usize,
}

type Launch<'l, S> = &'l dyn Fn(&mut Arena, Decoding<'_, '_, S>) -> Result<()>;

impl Bench<'_> {
    fn wants(&self, line: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|part| line.contains(part.as_str()))
    }

    fn all_decoders<S: Symbol + DeviceRepr>(&self, name: &str, make: impl Fn(u64) -> Vec<S>) -> Result<()> {
        let parts: Vec<Vec<S>> = (0..DISTINCT as u64).map(|i| make(i + 1)).collect();
        let d = self.device;
        for (log2, bytes, size) in [(7, LARGE, ""), (6, LARGE, ", K = 64"), (7, SMALL, ", 10 MiB")] {
            let indexed = Indexed::<S>::new(d, u32::from(log2))?;
            self.run(&format!("{name}, indexed{size}"), &parts, log2, IndexKind::Symbol, bytes, &|a, w| {
                indexed.launch(&mut a.frame()?, w)
            })?;
        }
        let tuning = SubsequenceTuning::default();
        for (what, tuning) in [
            ("gap", tuning),
            ("gap, room for 1,024", SubsequenceTuning { room: Some(1024), ..tuning }),
            ("gap, 768 threads", SubsequenceTuning { threads: 768, ..tuning }),
        ] {
            let gap = Gap::<S>::with_tuning(d, 7, tuning)?;
            let launch: Launch<'_, S> = &|a, w| gap.launch(&mut a.frame()?, w);
            self.run(&format!("{name}, {what}"), &parts, 7, IndexKind::Gap, LARGE, launch)?;
        }
        for (what, tuning) in [
            ("self-sync", SelfSyncTuning::default()),
            ("self-sync, 4 rounds", SelfSyncTuning { rounds: 4, ..SelfSyncTuning::default() }),
        ] {
            let self_sync = SelfSync::<S>::with_tuning(d, 7, tuning)?;
            let launch: Launch<'_, S> = &|a, w| self_sync.launch(&mut a.frame()?, w);
            self.run(&format!("{name}, {what}"), &parts, 7, IndexKind::None, LARGE, launch)?;
        }
        let gap = Gap::<S>::new(d, 7)?;
        let launch: Launch<'_, S> = &|a, w| gap.launch(&mut a.frame()?, w);
        self.run(&format!("{name}, gap, 10 MiB"), &parts, 7, IndexKind::Gap, SMALL, launch)?;
        let self_sync = SelfSync::<S>::new(d, 7)?;
        let launch: Launch<'_, S> = &|a, w| self_sync.launch(&mut a.frame()?, w);
        self.run(&format!("{name}, self-sync, 10 MiB"), &parts, 7, IndexKind::None, SMALL, launch)?;
        self.baselines(name, &parts)
    }

    fn baselines<S: Symbol + DeviceRepr>(&self, name: &str, parts: &[Vec<S>]) -> Result<()> {
        let d = self.device;
        let by_class = BufferSize::Classes { blocks: 1 };
        let cusz = CuSz2020::<S>::new(d, 7)?;
        self.run(&format!("{name}, cusz_2020"), parts, 7, IndexKind::Symbol, LARGE, &|a, w| {
            cusz.launch(&mut a.frame()?, w)
        })?;
        let gap = GapArray2020::<S>::new(d, 7)?;
        self.run(&format!("{name}, gap_array_2020"), parts, 7, IndexKind::Gap, LARGE, &|a, w| {
            gap.launch(&mut a.frame()?, w)
        })?;
        let gap = GapArray2022::<S>::new(d, 7, by_class)?;
        self.run(&format!("{name}, gap_array_2022"), parts, 7, IndexKind::Gap, LARGE, &|a, w| {
            gap.launch(&mut a.frame()?, w)
        })?;
        let self_sync = SelfSync2018::<S>::new(d, 7)?;
        self.run(&format!("{name}, self_sync_2018"), parts, 7, IndexKind::None, LARGE, &|a, w| {
            self_sync.launch(&mut a.frame()?, w)
        })?;
        let self_sync = SelfSync2022::<S>::new(d, 7, by_class)?;
        self.run(&format!("{name}, self_sync_2022"), parts, 7, IndexKind::None, LARGE, &|a, w| {
            self_sync.launch(&mut a.frame()?, w)
        })
    }

    fn indexed_variants<S: Symbol + DeviceRepr>(&self, name: &str, make: impl Fn(u64) -> Vec<S>) -> Result<()> {
        let parts: Vec<Vec<S>> = (0..DISTINCT as u64).map(|i| make(i + 1)).collect();
        for pairs in [false, true] {
            for (waves, row, staged_percent) in [(1, 128, 130), (1, 64, 130), (1, 64, 115), (2, 64, 130), (8, 64, 130)]
            {
                let tuning = IndexedTuning {
                    waves,
                    staged_percent,
                    row_bytes: Some(row),
                    pairs: Some(pairs),
                    ..IndexedTuning::default()
                };
                let indexed = Indexed::<S>::with_tuning(self.device, 7, tuning)?;
                let line = format!("{name}, variant, pairs {pairs}, {waves} waves, {staged_percent} %, {row} bytes");
                self.run(&line, &parts, 7, IndexKind::Symbol, LARGE, &|a, w| indexed.launch(&mut a.frame()?, w))?;
            }
        }
        Ok(())
    }

    fn run<S: Symbol + DeviceRepr>(
        &self,
        line: &str,
        parts: &[Vec<S>],
        group_log2: u8,
        index: IndexKind,
        bytes: usize,
        launch: Launch<'_, S>,
    ) -> Result<()> {
        if !self.wants(line) {
            return Ok(());
        }
        let data = self.data(parts, EncodeOptions { group_log2, index, zero_bit_symbol: None }, bytes)?;
        let stream = &self.stream;
        let mut arena = Arena::new(stream.clone());
        // SAFETY: symbols have no invalid bit patterns; all are poisoned below.
        let mut output = unsafe { stream.alloc::<S>(data.total) }.doing("allocating")?;
        let poison = vec![S::truncate(0x5a5a); CHUNK];
        for start in (0..data.total).step_by(CHUNK) {
            stream.memcpy_htod(&poison, &mut output.slice_mut(start..start + CHUNK)).doing("poisoning")?;
        }
        let mut status = stream.alloc_zeros::<u32>(data.batch.streams()).doing("allocating")?;
        let no_classes = stream.alloc_zeros::<u8>(1).doing("allocating")?;
        let mut decode = || {
            let decoding = Decoding {
                input: &data.input.as_view(),
                classes: &no_classes.as_view(),
                batch: &data.batch.as_view(),
                output: &mut output.as_view_mut(),
                status: &mut status.as_view_mut(),
            };
            launch(&mut arena, decoding)
        };
        let median = seconds(stream, &mut decode)?;
        for (i, part) in data.symbols.iter().cycle().take(data.total / CHUNK).enumerate() {
            let decoded = stream.clone_dtoh(&output.slice(i * CHUNK..(i + 1) * CHUNK)).doing("reading")?;
            assert!(decoded == *part, "{line}: wrong symbols in stream {i}");
        }
        let bad = stream.clone_dtoh(&status).doing("reading")?.into_iter().find_map(status_text);
        assert_eq!(bad, None, "{line}");
        let rate = (data.total * S::BYTES) as f64 / median;
        let bits = data.input.len() as f64 * 8.0 / data.total as f64;
        println!("  {line:60} {bits:6.2} bits {:7.0} GB/s ({:.2} C)", rate / 1e9, rate / self.copy);
        Ok(())
    }

    fn data<S: Symbol + DeviceRepr>(&self, parts: &[Vec<S>], options: EncodeOptions, bytes: usize) -> Result<Data<S>> {
        let mut scratch = EncodeScratch::default();
        let encoded: Vec<Vec<u8>> = parts
            .iter()
            .map(|part| {
                let mut bytes = Vec::new();
                encode(part, &[], &options, &mut scratch, &mut bytes);
                bytes
            })
            .collect();
        let parsed: Vec<_> =
            encoded.iter().map(|bytes| Stream::<S>::parse(bytes, "bench").expect("a stream just made")).collect();
        let chunks = (bytes / S::BYTES).div_ceil(CHUNK);
        let length: usize = (0..chunks).map(|i| encoded[i % parts.len()].len().next_multiple_of(16)).sum();
        let mut input = self.stream.alloc_zeros::<u8>(length).doing("allocating")?;
        let mut places = Vec::new();
        let mut at = 0;
        for i in 0..chunks {
            let bytes = &encoded[i % parts.len()];
            self.stream.memcpy_htod(bytes, &mut input.slice_mut(at..at + bytes.len())).doing("filling")?;
            places.push(BatchStream {
                stream: &parsed[i % parts.len()],
                input_offset: at as u64,
                output_offset: (i * CHUNK) as u64,
                classes_offset: 0,
            });
            at += bytes.len().next_multiple_of(16);
        }
        let batch = Batch::new(&self.stream, &places)?;
        Ok(Data { symbols: parts.to_vec(), input, batch, total: chunks * CHUNK })
    }
}

/// Returns the median seconds of `work` on the stream.
fn seconds(stream: &Arc<CudaStream>, work: impl FnMut() -> Result<()>) -> Result<f64> {
    timing::seconds(stream, RUNS, work).map(|(median, _)| median)
}
