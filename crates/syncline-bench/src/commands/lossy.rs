//! `lossy`: error-bounded compression of whole fields.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use syncline_bench::lossy::cuda::{Copies, Extent, Gpu};
use syncline_bench::lossy::{Results, Row, Set, cpu, tables};
use syncline_bench::table::Table;
use syncline_cuda::reconstruct::Way;

use super::output::{Output, Where};

/// Arguments of `lossy`.
#[derive(Args)]
pub struct Arguments {
    /// Where to run
    #[arg(long, value_enum, default_value = "cpu")]
    device: Where,
    /// Sets: names of fields, as nyx or hacc, or names with -f64 appended [default: nyx, rtm, hurricane, cesm, hacc,
    /// qmcpack, turbulence, rtm-f64, nyx-f64]
    #[arg(long, value_delimiter = ',')]
    sets: Vec<String>,
    /// Bounds relative to the range of values; steps are timed at 1e-3, or at the first
    #[arg(long, value_delimiter = ',', default_value = "1e-3", value_parser = parse_bound)]
    bounds: Vec<f64>,
    /// Approximate maximum MiB of each set [default: 32, on a GPU all]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    mebibytes: Option<u32>,
    /// Threads of the CPU [default: 1, and all]
    #[arg(long, value_delimiter = ',')]
    threads: Vec<usize>,
    /// Runs to time [default: 5, on a GPU 11]
    #[arg(long)]
    runs: Option<usize>,
    /// Strategy of reconstruction on the GPU, in place of the default; sets that do not support it fail
    #[arg(long, value_enum)]
    way: Option<AskedWay>,
    /// Compare the GPU's streams with the CPU's at every bound, not only at the first
    #[arg(long)]
    thorough: bool,
    #[command(flatten)]
    output: Output,
}

/// A strategy of reconstruction.
#[derive(Clone, Copy, clap::ValueEnum)]
enum AskedWay {
    /// Decoding and reconstruction in one kernel
    Fused,
    /// 3-D: decoding, then strips of whole rows
    Apart,
    /// Decoding of whole streams, then reconstruction
    Decoded,
}

impl From<AskedWay> for Way {
    fn from(asked: AskedWay) -> Self {
        match asked {
            AskedWay::Fused => Self::Fused,
            AskedWay::Apart => Self::Apart,
            AskedWay::Decoded => Self::Decoded,
        }
    }
}

fn parse_bound(text: &str) -> std::result::Result<f64, String> {
    let bound: f64 = text.parse().map_err(|error| format!("{error}"))?;
    (bound > 0.0 && bound < 1.0).then_some(bound).ok_or_else(|| "a share of the range, between 0 and 1".to_owned())
}

/// The report of a run.
#[derive(Serialize)]
struct Report<'r> {
    device: &'r str,
    copies: Option<Copies>,
    results: &'r Results,
    tables: &'r [Table],
}

/// Measures and prints the tables.
///
/// # Errors
/// Unknown set, no GPU if one was requested, violated bound, or streams that differ.
pub fn run(arguments: &Arguments) -> Result<()> {
    ensure!(arguments.threads.iter().all(|&threads| threads > 0), "--threads 0: give at least one");
    let on_gpu_only = arguments.way.is_some() && matches!(arguments.device, Where::Cpu);
    ensure!(!on_gpu_only, "--way is how a GPU reconstructs: add --device cuda");
    let names = match arguments.sets.as_slice() {
        [] => Set::DEFAULT.map(str::to_owned).to_vec(),
        given => given.to_vec(),
    };
    for name in names.iter().filter(|name| !Set::exists(name)) {
        // The error message lists the existing sets.
        Set::generate(name, None)?;
    }
    let start = Instant::now();
    let mut results = Results::default();
    let (device, copies, failed) = match arguments.device {
        Where::Cpu => ("cpu".to_owned(), None, on_cpu(arguments, &names, &mut results)?),
        Where::Cuda => {
            let mut gpu = Gpu::open(arguments.runs.unwrap_or(11), arguments.way.map(Way::from))?;
            if arguments.output.is_plain() {
                let Copies { device, to_device, from_device } = gpu.copies();
                println!(
                    "{}\ndevice copy: {device:.0} GB/s of payload (C); from the host {to_device:.1}, to the host \
                     {from_device:.1}; medians\n",
                    gpu.name()
                );
            }
            let failed = on_gpu(&mut gpu, arguments, &names, &mut results);
            (gpu.name(), Some(gpu.copies()), failed)
        }
    };
    let tables = tables::all(&results);
    let report = Report { device: &device, copies, results: &results, tables: &tables };
    arguments.output.write(&report, &tables::rows(&results.rows), &tables)?;
    eprintln!("{:.1} s", start.elapsed().as_secs_f64());
    ensure!(failed == 0, "{failed} measurements failed, or were not right");
    Ok(())
}

impl Arguments {
    /// Returns the bound at which steps are timed.
    fn bound_of_steps(&self) -> Option<f64> {
        self.bounds.iter().find(|&&bound| bound == 1e-3).or(self.bounds.first()).copied()
    }
}

/// Measures on the CPU. Returns the number of failures.
fn on_cpu(arguments: &Arguments, names: &[String], results: &mut Results) -> Result<usize> {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = match arguments.threads.as_slice() {
        [] if all == 1 => vec![1],
        [] => vec![1, all],
        given => given.to_vec(),
    };
    let mut failed = 0;
    for name in names {
        let set = Set::generate(name, Some(arguments.mebibytes.unwrap_or(32) as usize))?;
        for &bound in &arguments.bounds {
            for &threads in &threads {
                let row = cpu::measure(&set, bound, threads, arguments.runs.unwrap_or(5));
                match row.with_context(|| format!("on {name} at {bound:e}")) {
                    Ok(row) => {
                        results.rows.push(row);
                        show_last(arguments, results);
                    }
                    Err(error) => failed += complain(&error),
                }
            }
        }
    }
    Ok(failed)
}

/// Measures on a GPU. Returns the number of failures.
fn on_gpu(gpu: &mut Gpu, arguments: &Arguments, names: &[String], results: &mut Results) -> usize {
    let mut failed = 0;
    for name in names {
        let start = Instant::now();
        // After a failure, the remaining sets are still measured.
        let Ok(set) = Set::generate(name, arguments.mebibytes.map(|most| most as usize))
            .map_err(|error| failed += complain(&error))
        else {
            continue;
        };
        let generated = start.elapsed().as_secs_f64();
        let mut loaded = match gpu.load(&set).with_context(|| format!("on {name}")) {
            Ok(loaded) => loaded,
            Err(error) => {
                failed += complain(&error);
                continue;
            }
        };
        for (i, &bound) in arguments.bounds.iter().enumerate() {
            let extent =
                Extent { compare: i == 0 || arguments.thorough, steps: Some(bound) == arguments.bound_of_steps() };
            match gpu.measure(&mut loaded, bound, extent, results) {
                Ok(()) => show_last(arguments, results),
                Err(error) => failed += complain(&error),
            }
        }
        eprintln!("{name}: generated in {generated:.1} s, all in {:.1} s", start.elapsed().as_secs_f64());
    }
    failed
}

fn complain(error: &anyhow::Error) -> usize {
    eprintln!("error: {error:#}");
    1
}

/// Prints the last row at once in short form, because a run may be interrupted.
fn show_last(arguments: &Arguments, results: &Results) {
    let Some(row) = results.rows.last().filter(|_| arguments.output.is_plain()) else { return };
    let Row { set, shape, device, relative, ratio, psnr, error_over_bound, compress, decompress, .. } = row;
    println!(
        "{set} {shape}, {device}, {relative:e}: ratio {ratio:.2}, PSNR {psnr:.1}, error / bound {error_over_bound:.5}, \
         compress {:.2} GB/s, decompress {:.2} GB/s",
        compress.median, decompress.median
    );
}
