//! `lzss`: measures the LZSS stage over the paper's grid, compares lossless coders with general-purpose compressors,
//! and measures quantization codes with and without LZSS.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;
use syncline::{Coder, SymbolWidth};

use syncline_bench::clock::Clock;
use syncline_bench::lossy::Rate;
use syncline_bench::lzss::codecs::{Codec, Method};
use syncline_bench::lzss::cuda::{self, Gpu};
use syncline_bench::lzss::{CHUNKS, LEVELS, Results, Row, Set, WIDTHS, cpu, lossy, tables};
use syncline_bench::nvcomp::Nvcomp;
use syncline_bench::table::Table;

use super::output::{Output, Where};

/// Arguments of `lzss`.
#[derive(Args)]
pub struct Arguments {
    /// Sets: the paper's (hurr-quant, hacc-quant, nyx-quant, tpch-int32, tpch-string, rtm-float32), rtm-quant,
    /// cesm-quant, a column as tpch-discount, or raw arrays whose names end in their element type, as x.i32 (anything
    /// else is bytes) [default: the paper's]
    sets: Vec<String>,
    /// Where to run; on the CPU, one thread
    #[arg(long, value_enum, default_value = "cpu")]
    device: Where,
    /// What to measure [default: all; on a GPU all but the choice]
    #[arg(long, value_enum, value_delimiter = ',')]
    parts: Vec<Part>,
    /// Bytes of the grid's chunks (C)
    #[arg(long, value_delimiter = ',', default_values_t = CHUNKS)]
    chunks: Vec<usize>,
    /// Levels of the grid (1 to 4: windows of 32, 64, 128, 255 symbols)
    #[arg(long, value_delimiter = ',', default_values_t = LEVELS, value_parser = clap::value_parser!(u8).range(1..=9))]
    levels: Vec<u8>,
    /// Bytes of the grid's symbols (S)
    #[arg(long, value_delimiter = ',', default_values_t = WIDTHS.map(SymbolWidth::bytes))]
    widths: Vec<usize>,
    /// Level of the pipelines beside other codecs
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    level: u8,
    /// Approximate maximum MiB of each generated set; on a GPU sets are repeated until they have as many [default: 8,
    /// on a GPU 256]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1 << 14))]
    mebibytes: Option<u32>,
    /// Runs to time
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Take the time that processors worked for this program, which others do not add to, instead of elapsed time
    /// (pipelines and other codecs, on the CPU)
    #[arg(long)]
    processor_time: bool,
    /// Keep what codecs decompress, so that they always write to new memory, instead of what was used before (on the
    /// CPU)
    #[arg(long)]
    new_memory: bool,
    /// Python 3 with the package blosc2, to measure that beside ours on the CPU
    #[arg(long, default_value = "python3")]
    python: String,
    /// nvCOMP's library or its folder, to measure its codecs beside ours [default: where the loader finds it]
    #[arg(long, value_name = "PATH")]
    nvcomp: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// What to measure.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The stage over chunk size, window and symbol width
    Grid,
    /// Pipelines and general compressors
    Codecs,
    /// Symbol width, chosen and fixed, and every level
    Choice,
    /// Quantization codes with and without LZSS before Huffman coding
    Lossy,
}

/// The report of a run.
#[derive(Serialize)]
struct Report<'r> {
    device: &'r str,
    /// Throughput of a device-to-device copy, in 10^9 bytes per second, counting each byte once; on a GPU only.
    copy: Option<f64>,
    results: &'r Results,
    tables: &'r [Table],
}

/// Measures and prints the tables.
///
/// # Errors
/// An unknown set or a file that cannot be read, no GPU if one is requested, or a codec that fails or returns other
/// bytes.
pub fn run(arguments: &Arguments) -> Result<()> {
    let widths = arguments.symbol_widths()?;
    ensure!(arguments.chunks.iter().all(|chunk| CHUNKS.contains(chunk)), "--chunks are of {CHUNKS:?}");
    let start = Instant::now();
    let mut results = Results::default();
    let (device, copy, failed) = match arguments.device {
        Where::Cpu => (cpu::DEVICE.to_owned(), None, on_cpu(arguments, &widths, &mut results)),
        Where::Cuda => {
            let mut gpu = Gpu::open(arguments.runs)?;
            let nvcomp = Nvcomp::find(arguments.nvcomp.as_deref())?;
            if arguments.output.is_plain() {
                println!(
                    "{}\ndevice copy: {:.0} GB/s of payload (C); medians of {} runs",
                    gpu.name(),
                    gpu.copy_rate() / 1e9,
                    arguments.runs
                );
            }
            let failed = on_gpu(&mut gpu, nvcomp.as_ref(), arguments, &widths, &mut results)?;
            (gpu.name(), Some(gpu.copy_rate() / 1e9), failed)
        }
    };
    let tables = tables::all(&results);
    let report = Report { device: &device, copy, results: &results, tables: &tables };
    arguments.output.write(&report, &tables::rows(&results.rows), &tables)?;
    eprintln!("{:.1} s", start.elapsed().as_secs_f64());
    ensure!(failed == 0, "{failed} measurements failed, or were not right");
    Ok(())
}

impl Arguments {
    fn symbol_widths(&self) -> Result<Vec<SymbolWidth>> {
        let width = |&bytes: &usize| match SymbolWidth::from_bytes(bytes) {
            Some(width) => Ok(width),
            None => bail!("--widths {bytes}: symbols have 1, 2, 4 or 8 bytes"),
        };
        self.widths.iter().map(width).collect()
    }

    fn method(&self) -> Method {
        let clock = if self.processor_time { Clock::Processor } else { Clock::Elapsed };
        Method { runs: self.runs, clock, keeps: self.new_memory }
    }

    fn has(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    fn set_names(&self) -> Vec<String> {
        if self.sets.is_empty() { Set::PAPER.map(str::to_owned).to_vec() } else { self.sets.clone() }
    }

    fn mebibytes(&self) -> usize {
        self.mebibytes.map_or(if self.device == Where::Cpu { 8 } else { 256 }, |mebibytes| mebibytes as usize)
    }

    /// Returns every point of the grid.
    fn grid(&self, widths: &[SymbolWidth]) -> Vec<(usize, u8, SymbolWidth)> {
        let of_chunk = |&chunk: &usize| {
            let levels = self.levels.iter().flat_map(|&level| widths.iter().map(move |&width| (level, width)));
            levels.map(move |(level, width)| (chunk, level, width)).collect::<Vec<_>>()
        };
        self.chunks.iter().flat_map(of_chunk).collect()
    }
}

/// Measures on the CPU. Returns the number of failures.
fn on_cpu(arguments: &Arguments, widths: &[SymbolWidth], results: &mut Results) -> usize {
    let mut failed = 0;
    let only_lossy = arguments.parts == [Part::Lossy];
    for name in if only_lossy { Vec::new() } else { arguments.set_names() } {
        // After a failure, the remaining sets are still measured.
        match Set::load(&name, arguments.mebibytes()) {
            Ok(set) => failed += set_on_cpu(arguments, widths, &set, results),
            Err(error) => failed += complain(&error),
        }
    }
    if arguments.has(Part::Lossy) && (arguments.sets.is_empty() || !arguments.parts.is_empty()) {
        for field in lossy::FIELDS {
            match lossy::measure(field, arguments.mebibytes(), &[1, 2, 3, 4, 5, 6, 7, 8, 9], arguments.runs) {
                Ok(rows) => results.lossy.extend(rows),
                Err(error) => failed += complain(&error),
            }
        }
    }
    failed
}

fn set_on_cpu(arguments: &Arguments, widths: &[SymbolWidth], set: &Set, results: &mut Results) -> usize {
    let mut failed = 0;
    let mut keep = |row: Result<Row>| match row {
        Ok(row) => {
            show(arguments, &row);
            results.rows.push(row);
        }
        Err(error) => failed += complain(&error),
    };
    let runs = arguments.runs;
    let method = arguments.method();
    if arguments.has(Part::Grid) {
        for (chunk, level, width) in arguments.grid(widths) {
            keep(cpu::measure(set, chunk, level, width, runs));
        }
    }
    if arguments.has(Part::Codecs) {
        let ours = Coder::ALL.map(|pipeline| Codec::ours(set.element, pipeline, arguments.level, None));
        // Also measures the fastest level.
        let fastest = Some(1).filter(|&level| level != arguments.level);
        let fastest = fastest.map(|level| Codec::ours(set.element, Coder::LzssHuffman, level, None));
        let mut all: Vec<Codec> = ours.into_iter().chain(fastest).chain(Codec::rivals(set.element)).collect();
        match Codec::blosc2(&arguments.python, set.element) {
            Ok(codecs) => all.extend(codecs),
            Err(error) => eprintln!("left out: blosc2: {error:#}"),
        }
        Codec::measure_alternating(&all, set, method).into_iter().for_each(&mut keep);
    }
    if arguments.has(Part::Choice) {
        for pipeline in [Coder::Lzss, Coder::LzssHuffman] {
            // Levels that were measured with the other codecs are not measured again.
            let has = |level: u8| level == arguments.level || level == 1 && pipeline == Coder::LzssHuffman;
            let levels = (1..=9).filter(|&level| !has(level) || !arguments.has(Part::Codecs));
            levels.for_each(|level| keep(Codec::ours(set.element, pipeline, level, None).measure(set, method)));
            for width in SymbolWidth::ALL {
                keep(Codec::ours(set.element, pipeline, arguments.level, Some(width)).measure(set, method));
            }
        }
    }
    failed
}

/// Measures on a GPU. Returns the number of failures.
fn on_gpu(
    gpu: &mut Gpu,
    nvcomp: Option<&Nvcomp>,
    arguments: &Arguments,
    widths: &[SymbolWidth],
    results: &mut Results,
) -> Result<usize> {
    let start = Instant::now();
    let grid = arguments.grid(widths);
    if arguments.has(Part::Grid) {
        let mut kinds: Vec<_> = grid.iter().map(|&(_, level, width)| (width, level)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        cuda::compile(&kinds, arguments.chunks.iter().any(|&chunk| is_published(chunk)))?;
        eprintln!("kernels compiled in {:.1} s", start.elapsed().as_secs_f64());
    }
    let mut failed = 0;
    let only_lossy = arguments.parts == [Part::Lossy];
    for name in if only_lossy { Vec::new() } else { arguments.set_names() } {
        let start = Instant::now();
        let set = match Set::load(&name, arguments.mebibytes()) {
            Ok(set) => set,
            Err(error) => {
                failed += complain(&error);
                continue;
            }
        };
        let generated = start.elapsed().as_secs_f64();
        let loaded = gpu.load(&set, arguments.mebibytes())?;
        let mut keep = |rows: Result<Vec<Row>>| match rows {
            Ok(rows) => {
                rows.iter().for_each(|row| show(arguments, row));
                results.rows.extend(rows);
            }
            Err(error) => failed += complain(&error),
        };
        if arguments.has(Part::Grid) {
            for &(chunk, level, width) in &grid {
                // Comparing with all positions of a long window would take too long.
                let published = is_published(chunk) && LEVELS.contains(&level);
                keep(gpu.measure(&loaded, chunk, level, width, published));
            }
        }
        if arguments.has(Part::Codecs) {
            keep(gpu.measure_pipelines(&loaded, arguments.level));
        }
        if let (Some(nvcomp), true) = (nvcomp, arguments.has(Part::Codecs)) {
            keep(gpu.measure_nvcomp(nvcomp, &loaded));
        }
        eprintln!("{name}: generated in {generated:.1} s, all in {:.1} s", start.elapsed().as_secs_f64());
    }
    if arguments.has(Part::Lossy) && (arguments.sets.is_empty() || !arguments.parts.is_empty()) {
        for field in lossy::FIELDS {
            match gpu.measure_lossy(field, arguments.mebibytes()) {
                Ok(rows) => results.lossy.extend(rows),
                Err(error) => failed += complain(&error),
            }
        }
    }
    Ok(failed)
}

/// Returns whether the kernels as published are measured with this chunk size: only with the format's own.
fn is_published(chunk: usize) -> bool {
    Some(&chunk) == CHUNKS.last()
}

fn complain(error: &anyhow::Error) -> usize {
    eprintln!("error: {error:#}");
    1
}

/// Prints a row at once in short form, because a run may be interrupted.
fn show(arguments: &Arguments, row: &Row) {
    if !arguments.output.is_plain() {
        return;
    }
    let Row { set, codec, ratio, compress, decompress, .. } = row;
    let place = match (row.chunk, row.window(), row.symbol) {
        (Some(chunk), Some(window), Some(symbol)) => format!(" C {chunk} W {window} S {symbol}"),
        (_, Some(window), Some(symbol)) => format!(" W {window} S {symbol}"),
        (_, Some(window), None) => format!(" W {window}"),
        _ => String::new(),
    };
    let speed = |rate: &Rate| format!("{:.3} GB/s (best {:.3})", rate.median, rate.best);
    let back = decompress.as_ref().map_or_else(String::new, |rate| format!(", decompress {}", speed(rate)));
    println!("{set}: {codec}{place}: ratio {ratio:.3}, compress {}{back}", speed(compress));
}
