//! Arguments that select the device and the form of the output, shared by several benches.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;

use syncline_bench::table::Table;

/// The device to measure on.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Where {
    /// The CPU
    Cpu,
    /// The first NVIDIA GPU
    Cuda,
}

/// The form of the output.
#[derive(Args)]
pub struct Output {
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV: the rows, then each table after an empty line
    #[arg(long)]
    csv: bool,
    /// Write JSON and CSV to files, too, whose names are this name with .json and .csv appended
    #[arg(long, value_name = "PATH")]
    save: Option<PathBuf>,
}

impl Output {
    /// Returns whether readable lines are printed during the run.
    pub fn is_plain(&self) -> bool {
        !self.json && !self.csv
    }

    /// Prints the report as JSON, rows and tables as CSV, or the tables as text, and writes the requested files.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, report: &impl Serialize, rows: &Table, tables: &[Table]) -> Result<()> {
        let json = || serde_json::to_string_pretty(report);
        let csv = || {
            let parts: Vec<String> = std::iter::once(rows).chain(tables).map(Table::to_csv).collect();
            parts.join("\n")
        };
        if let Some(path) = &self.save {
            let write = |extension: &str, text: String| {
                let mut file = path.clone().into_os_string();
                file.push(extension);
                fs::write(&file, text).with_context(|| format!("cannot write {}", PathBuf::from(file).display()))
            };
            write(".csv", csv())?;
            write(".json", json()? + "\n")?;
        }
        if self.json {
            println!("{}", json()?);
        } else if self.csv {
            print!("{}", csv());
        } else {
            tables.iter().for_each(|table| print!("\n{table}"));
        }
        Ok(())
    }
}
