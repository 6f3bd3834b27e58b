//! Measures building codebooks from counts on the GPU and on one core of the CPU, and compares the codeword lengths.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, ensure};
use serde::Serialize;
use syncline_core::huffman::codebook::Codebook;
use syncline_core::huffman::lengths::{LengthScratch, code_lengths};
use syncline_cuda::error::DriverContext;
use syncline_cuda::huffman::codebook::{CodebookBuilder, DeviceCodebooks, unpack};
use syncline_cuda::timing::{self, Times};

use super::{Gpu, Results};

const SYMBOLS: [u32; 7] = [256, 1024, 4096, 8192, 16_384, 32_768, 65_536];

/// The times of one codebook, in microseconds from counts to codewords.
#[derive(Clone, Debug, Serialize)]
pub struct CodebookTime {
    /// Number of symbols in the alphabet, all of which occur.
    pub symbols: u32,
    /// Distribution of the counts.
    pub counts: String,
    /// Median on the GPU, including the launch.
    pub gpu: f64,
    /// Slowest run on the GPU.
    pub gpu_slowest: f64,
    /// Time of finding lengths: sorting and melding (GenerateCL).
    pub lengths: f64,
    /// Time of the length limit.
    pub limit: f64,
    /// Time of codewords and decoding tables (GenerateCW).
    pub codewords: f64,
    /// Number of melding rounds.
    pub rounds: u32,
    /// Median on one core of the CPU.
    pub cpu: f64,
}

/// Function that returns the count of each symbol of an alphabet, at least one each.
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

impl Gpu {
    /// Times building codebooks of every size.
    ///
    /// # Errors
    /// An operation fails, or the lengths differ from those of the CPU.
    pub fn measure_codebooks(&mut self, results: &mut Results) -> Result<()> {
        for (spread, make) in SPREADS {
            for symbols in SYMBOLS {
                results.codebooks.push(self.measure_codebook(spread, &make(symbols))?);
            }
        }
        Ok(())
    }

    fn measure_codebook(&mut self, spread: &str, counts: &[u32]) -> Result<CodebookTime> {
        let symbols = counts.len() as u32;
        let wide: Vec<u64> = counts.iter().map(|&count| count.into()).collect();
        let device_counts = self.stream.clone_htod(&wide).doing("uploading counts")?;
        let builder = CodebookBuilder::new(&self.device, symbols)?;
        let mut codebook = DeviceCodebooks::new(&self.stream, symbols, 1)?;
        let arena = &mut self.arena;
        let times = timing::seconds(&self.stream, self.runs, || {
            builder.launch(&mut arena.frame()?, &device_counts.as_view(), &mut codebook)
        })?;
        let summary = codebook.read_summary(&self.stream)?;
        let codewords = self.stream.clone_dtoh(&codebook.codewords()).doing("reading codewords")?;
        let (cpu, expected) = on_cpu(counts, self.runs.counted);
        ensure!(
            codewords.iter().map(|&word| unpack(word).0).eq(expected.iter().map(|&length| u32::from(length))),
            "the lengths of {symbols} symbols, {spread}, are not the CPU's"
        );
        // The kernel's own clock only gives the shares of the phases.
        let all: f64 = summary.cycles.iter().map(|&cycles| f64::from(cycles)).sum();
        let share = |phase: usize| times.median() * 1e6 * f64::from(summary.cycles[phase]) / all.max(1.0);
        Ok(CodebookTime {
            symbols,
            counts: spread.to_owned(),
            gpu: times.median() * 1e6,
            gpu_slowest: times.longest() * 1e6,
            lengths: share(0) + share(1),
            limit: share(2),
            codewords: share(3),
            rounds: summary.rounds,
            cpu: cpu.median() * 1e6,
        })
    }
}

/// Times computing lengths and codewords on one core. Returns the times and the lengths.
fn on_cpu(counts: &[u32], runs: usize) -> (Times, Vec<u8>) {
    let mut scratch = LengthScratch::default();
    let mut lengths = Vec::new();
    let mut table = vec![0; counts.len()];
    let mut seconds = Vec::new();
    for run in 0..runs + 1 {
        let start = Instant::now();
        code_lengths(black_box(counts), &mut scratch, &mut lengths);
        if let Some(codebook) = Codebook::new(lengths.clone()) {
            codebook.fill_codewords(&mut table);
        }
        black_box(&table);
        if run > 0 {
            seconds.push(start.elapsed().as_secs_f64());
        }
    }
    (Times::new(seconds), lengths)
}
