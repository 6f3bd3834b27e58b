//! `ratio`: compares the sizes of streams with those of other compressors at the same absolute bound.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::output::Output;
use syncline_bench::ablation;
use syncline_bench::lossy::{Set, Values};
use syncline_bench::ratio::{Other, Row, measure, rows_table, tables};

/// Arguments of `ratio`.
#[derive(Args)]
pub struct Arguments {
    /// Bounds relative to the range of the values
    #[arg(long, value_delimiter = ',', default_value = "1e-2,1e-3,1e-4,1e-5")]
    bounds: Vec<f64>,
    /// Folder with real fields and their MANIFEST.tsv, as `cargo xtask data` makes it
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Only real fields whose name contains one of these
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Generated sets, such as nyx or rtm-f64
    #[arg(long, value_delimiter = ',', default_values_t = Set::DEFAULT.map(str::to_owned))]
    sets: Vec<String>,
    /// MiB of a generated set
    #[arg(long, default_value_t = 32)]
    mebibytes: usize,
    /// Compare streams of Syncline without some of its parts, instead of other compressors
    #[arg(long)]
    ablation: bool,
    /// Python 3 with numpy, pysz, and zfpy, which SZ3 and zfp run in
    #[arg(long, default_value = "python3")]
    python: String,
    #[command(flatten)]
    output: Output,
}

/// Measures every field at every bound and prints the tables.
///
/// # Errors
/// A codec fails, a bound is exceeded, a file cannot be read, or there is nothing to measure.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.ablation {
        let line = |row: &ablation::Row| format!("{} {:.3}", row.variant, row.share);
        let rows = measure_all(arguments, ablation::measure, line)?;
        return arguments.output.write(&rows, &ablation::rows_table(&rows), &[ablation::summary(&rows)]);
    }
    let (mut others, missing) = Other::available(&arguments.python);
    missing.iter().for_each(|line| eprintln!("left out: {line}"));
    let line = |row: &Row| format!("{} {:.2}", row.codec, row.ratio);
    let rows = measure_all(arguments, |set, relative| measure(set, relative, &mut others), line)?;
    arguments.output.write(&rows, &rows_table(&rows), &tables(&rows, &others))
}

/// Returns what `measure` returns for every field at every bound. Prints them while it runs.
fn measure_all<R>(
    arguments: &Arguments,
    mut measure: impl FnMut(&Set, f64) -> Result<Vec<R>>,
    line: impl Fn(&R) -> String,
) -> Result<Vec<R>> {
    let mut rows = Vec::new();
    let mut measure_set = |set: &Set| -> Result<()> {
        for &relative in &arguments.bounds {
            let new = measure(set, relative).with_context(|| format!("{} at {relative:e}", set.name))?;
            if arguments.output.is_plain() {
                let lines: Vec<_> = new.iter().map(&line).collect();
                println!("{} {} {relative:e}: {}", set.name, set.shape_text(), lines.join(", "));
            }
            rows.extend(new);
        }
        Ok(())
    };
    if let Some(folder) = &arguments.data {
        for file in real_fields(folder, &arguments.only)? {
            measure_set(&file.load()?)?;
        }
    }
    for name in &arguments.sets {
        measure_set(&Set::generate(name, Some(arguments.mebibytes))?)?;
    }
    ensure!(!rows.is_empty(), "there is nothing to measure: name sets or a folder with data");
    Ok(rows)
}

/// A real field on disk.
struct File {
    name: String,
    path: PathBuf,
    extents: Vec<u64>,
    is_double: bool,
}

impl File {
    fn load(&self) -> Result<Set> {
        let bytes = std::fs::read(&self.path).with_context(|| format!("cannot read {}", self.path.display()))?;
        let (values, count) = if self.is_double {
            let values: Vec<f64> = bytes.as_chunks().0.iter().map(|&value| f64::from_le_bytes(value)).collect();
            (Values::F64(values), bytes.len() / 8)
        } else {
            let values: Vec<f32> = bytes.as_chunks().0.iter().map(|&value| f32::from_le_bytes(value)).collect();
            (Values::F32(values), bytes.len() / 4)
        };
        let expected: u64 = self.extents.iter().product();
        ensure!(count as u64 == expected, "{} holds {count} values, not {expected}", self.path.display());
        Ok(Set { name: self.name.clone(), values, extents: self.extents.clone() })
    }
}

/// Returns the fields of `f32` and `f64` in a folder's manifest whose files exist.
fn real_fields(folder: &Path, only: &[String]) -> Result<Vec<File>> {
    let path = folder.join("MANIFEST.tsv");
    let manifest = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}; run `cargo xtask data` to make it", path.display()))?;
    let mut files = Vec::new();
    for line in manifest.lines() {
        let row: Vec<&str> = line.split('\t').collect();
        let [file, element @ ("f32" | "f64"), dims, ..] = row[..] else { continue };
        if !only.is_empty() && !only.iter().any(|part| file.contains(part)) {
            continue;
        }
        let extents = dims.split('x').map(str::parse).collect::<Result<Vec<u64>, _>>();
        let extents = extents.with_context(|| format!("the extents {dims} of {file}"))?;
        let (name, path) = (file.trim_end_matches(".f32").to_owned(), folder.join(file));
        if path.exists() {
            files.push(File { name, path, extents, is_double: element == "f64" });
        } else {
            eprintln!("left out: {} is missing", path.display());
        }
    }
    Ok(files)
}
