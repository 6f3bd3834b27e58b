//! Building codebooks from counts on the GPU and on one core of the CPU.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, ensure};
use syncline_core::huffman::codebook::Codebook;
use syncline_core::huffman::lengths::{LengthScratch, code_lengths};
use syncline_cuda::device::{Arena, Frame};
use syncline_cuda::error::DriverContext;
use syncline_cuda::huffman::codebook::{CodebookBuilder, DeviceCodebooks, unpack};
use syncline_cuda::timing::{self, Times};
use syncline_papers::codebook::{BlockBuilder, fits};

use crate::gpu::Gpu;
use crate::record::Record;

const SYMBOLS: [u32; 7] = [256, 1024, 4096, 8192, 16_384, 32_768, 65_536];

/// Returns the count of each symbol of an alphabet, at least one each.
type Counts = fn(u32) -> Vec<u32>;

const SPREADS: [(&str, Counts); 3] =
    [("alike", |symbols| vec![1000; symbols as usize]), ("96 % one symbol", steep), ("halving every 2 %", wide)];

/// Returns counts with 96 % of the occurrences at the middle symbol (after one for each symbol), falling to a fiftieth
/// with each step.
fn steep(symbols: u32) -> Vec<u32> {
    (0..symbols).map(|i| (4.9e7 * 0.02_f64.powi(i.abs_diff(symbols / 2) as i32)) as u32 + 1).collect()
}

/// Returns counts that fall to a half with each fiftieth of the alphabet from its middle.
fn wide(symbols: u32) -> Vec<u32> {
    let half_life = f64::from(symbols) / 50.0;
    (0..symbols).map(|i| (1e5 * 0.5_f64.powf(f64::from(i.abs_diff(symbols / 2)) / half_life)) as u32 + 1).collect()
}

/// Times building codebooks of every size.
///
/// # Errors
/// An operation fails, or the lengths differ from those of the CPU.
pub fn measure(gpu: &Gpu) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for (spread, counts) in SPREADS {
        for symbols in SYMBOLS {
            records.extend(of_counts(gpu, spread, &counts(symbols))?);
        }
    }
    Ok(records)
}

fn of_counts(gpu: &Gpu, spread: &str, counts: &[u32]) -> Result<Vec<Record>> {
    let symbols = counts.len() as u32;
    let wide: Vec<u64> = counts.iter().map(|&count| count.into()).collect();
    let device_counts = gpu.stream.clone_htod(&wide).doing("uploading counts")?;
    let mut codebook = DeviceCodebooks::new(&gpu.stream, symbols, 1)?;
    let mut arena = Arena::new(gpu.stream.clone());
    let (cpu, expected) = on_cpu(counts, gpu.runs.counted);
    let record = |device: &str, codec: &str, times: &Times| {
        let record = Record {
            bench: "papers".into(),
            device: device.into(),
            field: spread.into(),
            shape: symbols.to_string(),
            codec: codec.into(),
            ..Record::default()
        };
        record.timed("codebook", times, None)
    };
    let mut records = Vec::new();
    let mut measure =
        |codec: &str, launch: &dyn Fn(&mut Frame<'_>, &mut DeviceCodebooks) -> syncline_cuda::Result<()>| {
            let times = timing::seconds(&gpu.stream, gpu.runs, || launch(&mut arena.frame()?, &mut codebook))?;
            let codewords = gpu.stream.clone_dtoh(&codebook.codewords()).doing("reading codewords")?;
            ensure!(
                codewords.iter().map(|&word| unpack(word).0).eq(expected.iter().map(|&length| u32::from(length))),
                "{codec}: the lengths of {symbols} symbols, {spread}, are not the CPU's"
            );
            records.push(record(&gpu.device.info().name, codec, &times));
            Ok(())
        };
    let builder = CodebookBuilder::new(&gpu.device, symbols)?;
    measure("syncline", &|frame, codebook| builder.launch(frame, &device_counts.as_view(), codebook))?;
    if fits(symbols, gpu.device.info().shared_memory_per_block) {
        let builder = BlockBuilder::new(&gpu.device, symbols)?;
        measure("one block", &|frame, codebook| builder.launch(frame, &device_counts.as_view(), codebook))?;
    }
    records.push(record("cpu, 1 thread", "syncline", &cpu));
    Ok(records)
}

/// Times computing lengths and codewords on one core. Returns the times and the lengths.
fn on_cpu(counts: &[u32], runs: usize) -> (Times, Vec<u8>) {
    let (mut scratch, mut lengths) = (LengthScratch::default(), Vec::new());
    let mut table = vec![0; counts.len()];
    let mut seconds = Vec::new();
    for run in 0..=runs {
        let start = Instant::now();
        code_lengths(black_box(counts), &mut scratch, &mut lengths);
        if let Some(codebook) = Codebook::new(lengths.clone()) {
            codebook.fill_codewords(&mut table);
        }
        black_box(&table);
        seconds.extend((run > 0).then(|| start.elapsed().as_secs_f64()));
    }
    (Times::new(seconds), lengths)
}
