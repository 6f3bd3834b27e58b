//! `huffman`: every encoder and decoder of the Huffman stage, on the codes of the fields and on bytes.

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};

use syncline_bench::fields::Generator;
use syncline_bench::huffman::{BYTE_SETS, Row, Set, cpu};

/// Arguments of `huffman`.
#[derive(Args)]
pub struct Arguments {
    /// Sets: names of fields (their codes), text, geometric-1.4, geometric-5.9, never-flat, never-cycle
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "nyx,hurricane,cesm,hacc,qmcpack,text,geometric-1.4,never-cycle"
    )]
    sets: Vec<String>,
    /// Multiplies each side of the generated fields
    #[arg(long, default_value_t = 0.25, value_parser = super::generate::parse_scale)]
    scale: f64,
    /// Relative bound of the codes
    #[arg(long, default_value_t = 1e-3)]
    rel: f64,
    /// Bytes of the sets of bytes
    #[arg(long, default_value_t = 16 << 20)]
    bytes: usize,
    /// Threads
    #[arg(long, value_delimiter = ',', default_value = "1")]
    threads: Vec<usize>,
    /// Runs to time
    #[arg(long, default_value_t = 11)]
    runs: usize,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV
    #[arg(long)]
    csv: bool,
}

/// Measures and prints the table.
///
/// # Errors
/// An unknown set, or a stage that does not give back what it was given.
pub fn run(arguments: &Arguments) -> Result<()> {
    ensure!(arguments.threads.iter().all(|&t| t > 0), "--threads 0: give at least one");
    let mut rows: Vec<Row> = Vec::new();
    for name in &arguments.sets {
        let set = load(name, arguments)?;
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

fn load(name: &str, arguments: &Arguments) -> Result<Set> {
    if let Ok(generator) = Generator::from_str(name, true) {
        return Ok(Set::of_field(generator, arguments.scale, arguments.rel));
    }
    match Set::of_bytes(name, arguments.bytes) {
        Some(set) => Ok(set),
        None => bail!("there is no set '{name}': use the name of a field or one of {}", BYTE_SETS.join(", ")),
    }
}

fn print(rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    println!("\n{}, {}", first.set, first.device);
    println!(
        "  {:<8}{:<12}{:<8}{:>12}{:>9}{:>14}{:>14}",
        "", "method", "index", "bits/symbol", "ratio", "GB/s median", "GB/s best"
    );
    for row in rows {
        let (direction, method, index) = (row.direction, &row.method, &row.index);
        println!(
            "  {direction:<8}{method:<12}{index:<8}{:>12.3}{:>9.2}{:>14.2}{:>14.2}",
            row.bits, row.ratio, row.median, row.best
        );
    }
}

fn print_csv(rows: &[Row]) {
    println!("set,device,direction,method,index,free_groups,bits,ratio,median,best,share_of_copy");
    for r in rows {
        let share = r.share_of_copy.map_or_else(String::new, |s| s.to_string());
        println!(
            "{},\"{}\",{},{},{},{},{},{},{},{},{share}",
            r.set, r.device, r.direction, r.method, r.index, r.free_groups, r.bits, r.ratio, r.median, r.best
        );
    }
}
