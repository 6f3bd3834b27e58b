//! `huffman`: measures every encoder and decoder of the Huffman stage, on the codes of fields and on bytes.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use serde::Serialize;

use syncline_bench::fields::Generator;
use syncline_bench::huffman::cuda::{Extent, Gpu, Results};
use syncline_bench::huffman::tables::{self, CURVE_SETS};
use syncline_bench::huffman::{BYTE_SETS, Row, Set, cpu};
use syncline_bench::nvcomp::Nvcomp;
use syncline_bench::table::Table;

use super::output::Where;

/// Arguments of `huffman`.
#[derive(Args)]
pub struct Arguments {
    /// Where to run
    #[arg(long, value_enum, default_value = "cpu")]
    device: Where,
    /// Sets: names of fields (their codes), text, geometric-1.4, geometric-5.9, never-flat, never-cycle [default: some
    /// of them, on a GPU all the papers']
    #[arg(long, value_delimiter = ',')]
    sets: Vec<String>,
    /// Multiplies each side of the generated fields [default: 0.25, on a GPU 1]
    #[arg(long, value_parser = super::generate::parse_scale)]
    scale: Option<f64>,
    /// Relative bound of the codes
    #[arg(long, default_value_t = 1e-3)]
    rel: f64,
    /// Bytes of the sets of bytes, on the CPU
    #[arg(long, default_value_t = 16 << 20)]
    bytes: usize,
    /// MiB of each set on a GPU: bytes have as many, smaller fields are measured as they are and repeated; beside them
    /// 10 MB of each
    #[arg(long, default_value_t = 256)]
    mebibytes: usize,
    /// On a GPU, nothing but 10 MB of each set
    #[arg(long)]
    only_small: bool,
    /// Threads of the CPU
    #[arg(long, value_delimiter = ',', default_value = "1")]
    threads: Vec<usize>,
    /// Runs to time
    #[arg(long, default_value_t = 11)]
    runs: usize,
    /// nvCOMP's library or its folder, to measure its codecs beside ours [default: where the loader finds it]
    #[arg(long, value_name = "PATH")]
    nvcomp: Option<PathBuf>,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV: the rows, then each table after an empty line
    #[arg(long)]
    csv: bool,
}

const CPU_SETS: [&str; 8] = ["nyx", "hurricane", "cesm", "hacc", "qmcpack", "text", "geometric-1.4", "never-cycle"];
const GPU_SETS: [&str; 13] = [
    "nyx",
    "rtm",
    "hurricane",
    "cesm",
    "hacc",
    "qmcpack",
    "exaalt",
    "gamess",
    "text",
    "geometric-1.4",
    "geometric-5.9",
    "never-flat",
    "never-cycle",
];
/// Number of bytes of a small input.
const SMALL: usize = 10_000_000;

/// Measures and prints the table.
///
/// # Errors
/// An unknown set, no GPU if one is requested, or decoded symbols that differ.
pub fn run(arguments: &Arguments) -> Result<()> {
    ensure!(arguments.threads.iter().all(|&t| t > 0), "--threads 0: give at least one");
    ensure!((1..=1 << 16).contains(&arguments.mebibytes), "--mebibytes is 1 to 65536");
    match arguments.device {
        Where::Cpu => on_cpu(arguments),
        Where::Cuda => on_gpu(arguments),
    }
}

fn on_cpu(arguments: &Arguments) -> Result<()> {
    let mut rows: Vec<Row> = Vec::new();
    for name in names(arguments, &CPU_SETS) {
        let set = load(&name, arguments.scale.unwrap_or(0.25), arguments.bytes, arguments.rel)?;
        for &threads in &arguments.threads {
            let new = cpu::measure(&set, threads, arguments.runs).with_context(|| format!("on {name}"))?;
            if !arguments.json && !arguments.csv {
                print(&new);
            }
            rows.extend(new);
        }
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else if arguments.csv {
        print_csv(&rows);
    }
    Ok(())
}

/// The report of a run on a GPU.
#[derive(Serialize)]
struct Report<'r> {
    device: String,
    /// Throughput of a device-to-device copy, in 10^9 bytes per second, counting each byte once.
    copy: f64,
    results: &'r Results,
    tables: &'r [Table],
}

fn on_gpu(arguments: &Arguments) -> Result<()> {
    let mut gpu = Gpu::open(arguments.runs)?;
    let nvcomp = Nvcomp::find(arguments.nvcomp.as_deref())?;
    let plain = !arguments.json && !arguments.csv;
    if plain {
        println!(
            "{}\ndevice copy: {:.0} GB/s of payload (C); medians of {} runs",
            gpu.name(),
            gpu.copy_rate() / 1e9,
            arguments.runs
        );
    }
    let mut results = Results::default();
    let mut failed = 0;
    for name in names(arguments, &GPU_SETS) {
        // After a failure, the remaining sets are still measured.
        if let Err(error) = measure_set(&mut gpu, &name, arguments, nvcomp.as_ref(), &mut results, plain) {
            eprintln!("error: {error:#}");
            failed += 1;
        }
    }
    let curve = if arguments.only_small { &[][..] } else { &CURVE_SETS };
    for (i, &ratio) in curve.iter().enumerate() {
        let set = Set::geometric(&tables::curve_name(i), arguments.mebibytes << 19, ratio);
        gpu.measure(&set, Extent::Decoders, &mut results)?;
    }
    if !arguments.only_small {
        gpu.measure_codebooks(&mut results)?;
    }
    let tables = tables::all(&results);
    if arguments.json {
        let report = Report { device: gpu.name(), copy: gpu.copy_rate() / 1e9, results: &results, tables: &tables };
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else if arguments.csv {
        print_csv(&results.rows);
        tables.iter().for_each(|table| print!("\n{}", table.to_csv()));
    } else {
        tables.iter().for_each(|table| print!("\n{table}"));
    }
    ensure!(failed == 0, "{failed} sets were not measured, or not right");
    Ok(())
}

/// Measures a set at its own size, repeated if it is small, and the first 10 MB of it.
fn measure_set(
    gpu: &mut Gpu,
    name: &str,
    arguments: &Arguments,
    nvcomp: Option<&Nvcomp>,
    results: &mut Results,
    plain: bool,
) -> Result<()> {
    let bytes = arguments.mebibytes << 20;
    let set = load(name, arguments.scale.unwrap_or(1.0), bytes, arguments.rel)?;
    let repeated = set.repeated(bytes);
    let small = set.cut("10MB", SMALL);
    let mut all = Vec::new();
    if !arguments.only_small {
        all.push((&set, Extent::Everything));
        all.extend(repeated.as_ref().map(|set| (set, Extent::Everything)));
    }
    if set.bytes() > SMALL {
        all.push((&small, Extent::Fastest));
    }
    for (set, extent) in all {
        let before = results.rows.len();
        gpu.measure(set, extent, results)?;
        if let (Some(nvcomp), Extent::Everything) = (nvcomp, extent) {
            gpu.measure_nvcomp(nvcomp, set, results)?;
        }
        if plain {
            print(&results.rows[before..]);
        }
    }
    Ok(())
}

fn names(arguments: &Arguments, default: &[&str]) -> Vec<String> {
    match arguments.sets.as_slice() {
        [] => default.iter().map(|&name| name.to_owned()).collect(),
        given => given.to_vec(),
    }
}

fn load(name: &str, scale: f64, bytes: usize, relative: f64) -> Result<Set> {
    if let Ok(generator) = Generator::from_str(name, true) {
        return Ok(Set::of_field(generator, scale, relative));
    }
    match Set::of_bytes(name, bytes) {
        Some(set) => Ok(set),
        None => bail!("there is no set '{name}': use the name of a field or one of {}", BYTE_SETS.join(", ")),
    }
}

fn print(rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    println!("\n{}, {:.1} MiB, {}", first.set, first.bytes as f64 / f64::from(1 << 20), first.device);
    println!(
        "  {:<8}{:<32}{:<8}{:<6}{:>9}{:>8}{:>12}{:>20}{:>8}{:>14}{:>12}{:>20}",
        "",
        "method",
        "index",
        "free",
        "bits",
        "ratio",
        "GB/s",
        "slowest-fastest",
        "of C",
        "microseconds",
        "queued",
        "one after another"
    );
    let optional = |rate: Option<f64>| rate.map_or("-".into(), |rate| format!("{rate:.2}"));
    for row in rows {
        let free = if row.free_groups { "yes" } else { "no" };
        println!(
            "  {:<8}{:<32}{:<8}{free:<6}{:>9.3}{:>8.2}{:>12.2}{:>20}{:>8}{:>14.1}{:>12}{:>20}",
            row.direction,
            row.method,
            row.index,
            row.bits,
            row.ratio,
            row.median,
            format!("{:.2}-{:.2}", row.slowest, row.best),
            row.share_of_copy.map_or("-".into(), |share| format!("{share:.3}")),
            row.microseconds,
            optional(row.queued),
            optional(row.one_after_another),
        );
    }
}

fn print_csv(rows: &[Row]) {
    println!(
        "set,bytes,device,direction,method,index,free_groups,bits,ratio,median,best,slowest,microseconds,\
         share_of_copy,queued,one_after_another"
    );
    for r in rows {
        let optional = |number: Option<f64>| number.map_or_else(String::new, |number| number.to_string());
        let [share, queued, one_after_another] = [r.share_of_copy, r.queued, r.one_after_another].map(optional);
        println!(
            "{},{},\"{}\",{},\"{}\",{},{},{},{},{},{},{},{},{share},{queued},{one_after_another}",
            r.set,
            r.bytes,
            r.device,
            r.direction,
            r.method,
            r.index,
            r.free_groups,
            r.bits,
            r.ratio,
            r.median,
            r.best,
            r.slowest,
            r.microseconds
        );
    }
}
