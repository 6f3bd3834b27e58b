//! `cpu`: compares codecs on one machine, in one run.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use syncline_bench::fields::{Field, Generator, floats};
use syncline_bench::measure::{Measurement, Task, measure};
use syncline_bench::rivals;

/// Arguments of `cpu`.
#[derive(Args)]
pub struct Arguments {
    /// Relative bounds
    #[arg(long, value_delimiter = ',', default_value = "1e-3")]
    rel: Vec<f64>,
    /// Thread counts, for codecs that use threads; the others run on one
    #[arg(long, value_delimiter = ',', default_value = "1")]
    threads: Vec<usize>,
    /// Number of timed runs in each direction
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Generated fields
    #[arg(long, value_enum, value_delimiter = ',', default_value = "turbulence")]
    fields: Vec<Generator>,
    /// Multiplies each side of the generated fields
    #[arg(long, default_value_t = 1.0, value_parser = super::generate::parse_scale)]
    scale: f64,
    /// Folder with real fields and their MANIFEST.tsv, as `cargo xtask data` makes it
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Which of its fields; those that are missing are skipped
    #[arg(long, value_delimiter = ',', default_value = "etopo5,mri_mean_f32,marchenko_R_f32")]
    real: Vec<String>,
    /// Only codecs whose name contains one of these
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Python 3 with numpy and pysz, which SZ3 runs in
    #[arg(long, default_value = "python3")]
    python: String,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV
    #[arg(long)]
    csv: bool,
}

/// Measures every codec on every field and prints the table.
///
/// # Errors
/// A codec fails, a file cannot be read, or there is nothing to measure.
pub fn run(arguments: &Arguments) -> Result<()> {
    let (mut codecs, missing) = rivals::available(&arguments.python);
    codecs.retain(|c| is_wanted(&c.name(), &arguments.only));
    missing.iter().filter(|line| is_wanted(line, &arguments.only)).for_each(|line| eprintln!("left out: {line}"));
    ensure!(!codecs.is_empty(), "no codec is left to measure");

    let mut rows = Vec::new();
    for source in sources(arguments)? {
        let field = source.load(arguments.scale)?;
        for codec in &mut codecs {
            let bounds = if codec.is_lossless() { &arguments.rel[..1] } else { &arguments.rel[..] };
            let threads = if codec.is_parallel() { &arguments.threads[..] } else { &[1] };
            for &relative in bounds {
                for &threads in threads {
                    let task = Task { relative, threads, runs: arguments.runs };
                    let row = measure(codec.as_mut(), &field, task)
                        .with_context(|| format!("{} on {}", codec.name(), field.name))?;
                    if !arguments.json && !arguments.csv {
                        print_row(&row, rows.last());
                    }
                    rows.push(row);
                }
            }
        }
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else if arguments.csv {
        print_csv(&rows);
    }
    Ok(())
}

fn is_wanted(name: &str, only: &[String]) -> bool {
    let name = name.to_lowercase();
    only.is_empty() || only.iter().any(|part| name.contains(&part.to_lowercase()))
}

/// The source of a field. Fields are loaded one at a time, because they are large.
enum Source {
    Generated(Generator),
    File { name: String, path: PathBuf, extents: Vec<usize> },
}

impl Source {
    fn load(&self, scale: f64) -> Result<Field> {
        match self {
            Self::Generated(generator) => Ok(generator.generate(scale)),
            Self::File { name, path, extents } => {
                let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
                let values = floats(&bytes);
                let count: usize = extents.iter().product();
                ensure!(values.len() == count, "{} holds {} values, not {count}", path.display(), values.len());
                let lorenzo_rank = if extents.len() == 1 { 1 } else { 3 };
                Ok(Field { name: name.clone(), values, extents: extents.clone(), lorenzo_rank })
            }
        }
    }
}

fn sources(arguments: &Arguments) -> Result<Vec<Source>> {
    let mut sources: Vec<_> = arguments.fields.iter().map(|&g| Source::Generated(g)).collect();
    if let Some(folder) = &arguments.data {
        sources.extend(real_fields(folder, &arguments.real)?);
    }
    Ok(sources)
}

/// Returns the 32-bit fields with these names (without the type) from a folder's manifest, in the requested order.
fn real_fields(folder: &Path, names: &[String]) -> Result<Vec<Source>> {
    let path = folder.join("MANIFEST.tsv");
    let manifest = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}; run `cargo xtask data` to make it", path.display()))?;
    let mut sources = Vec::new();
    for name in names {
        let file = format!("{name}.f32");
        let row = manifest.lines().map(|l| l.split('\t').collect::<Vec<_>>()).find(|row| row[0] == file);
        let Some(row) = row else {
            bail!("{file} is not in {}", path.display());
        };
        let dims = row.get(2).context("the manifest has no column of dimensions")?;
        let extents = dims.split('x').map(str::parse).collect::<Result<Vec<usize>, _>>()?;
        let path = folder.join(&file);
        if path.exists() {
            sources.push(Source::File { name: name.clone(), path, extents });
        } else {
            eprintln!("left out: {} is missing", path.display());
        }
    }
    Ok(sources)
}

fn print_row(row: &Measurement, previous: Option<&Measurement>) {
    if previous.is_none_or(|p| p.field != row.field) {
        println!("\n{} {}", row.field, row.shape);
        println!(
            "  {:<30}{:>8}{:>8}{:>9}{:>20}{:>20}{:>13}",
            "codec", "rel", "threads", "ratio", "compress MB/s", "decompress MB/s", "error/bound"
        );
        println!("  {:<55}{:>20}{:>20}", "", "best (median)", "best (median)");
    }
    let speed = |best: f64, median: f64| format!("{best:.0} ({median:.0})");
    println!(
        "  {:<30}{:>8}{:>8}{:>9.2}{:>20}{:>20}{:>13.7}",
        row.codec,
        row.relative.map_or("-".into(), |r| format!("{r:.0e}")),
        row.threads,
        row.ratio,
        speed(row.compress_best, row.compress_median),
        speed(row.decompress_best, row.decompress_median),
        row.error_over_bound,
    );
}

fn print_csv(rows: &[Measurement]) {
    println!(
        "field,shape,codec,relative,threads,ratio,compress_best,compress_median,decompress_best,decompress_median,\
         error_over_bound"
    );
    for r in rows {
        let relative = r.relative.map_or_else(String::new, |v| v.to_string());
        println!(
            "{},{},{},{relative},{},{},{},{},{},{},{}",
            r.field,
            r.shape,
            r.codec,
            r.threads,
            r.ratio,
            r.compress_best,
            r.compress_median,
            r.decompress_best,
            r.decompress_median,
            r.error_over_bound
        );
    }
}
