//! One module per command.

pub mod archive;
pub mod compare;
pub mod compress;
pub mod convert;
pub mod datasets;
pub mod decompress;
pub mod demo;
pub mod estimate;
pub mod far_values;
pub mod info;
pub mod inspect;
pub mod list;
pub mod manual;
pub mod report;
pub mod salvage;
pub mod target;
pub mod test;
pub mod verify;

use syncline::{Backend, Execution};

use crate::args::{Resources, Talk};
use crate::format::printable;
use crate::message::{self, Outcome};

/// Prints lines on stdout.
pub fn say(lines: &[String]) -> Outcome {
    let text: String = lines.iter().map(|line| printable(line) + "\n").collect();
    message::print(text.as_bytes())
}

/// Warns if a GPU was requested and the CPU did the work.
pub fn check_device(resources: Resources, execution: &Execution, talk: Talk) {
    if matches!(resources.device, Backend::Cuda(_)) && !execution.on_gpu() && !talk.quiet {
        message::warn(format_args!("--device {}: the work was done on {execution}", resources.device));
    }
}

/// Returns the lines of a table. The columns in `numbers` are aligned to the right.
pub fn table(heads: &[&str], numbers: impl Fn(usize) -> bool, rows: &[Vec<String>]) -> Vec<String> {
    let heads: Vec<String> = heads.iter().map(ToString::to_string).collect();
    let all = || std::iter::once(&heads).chain(rows);
    let width = |column: usize| all().filter_map(|row| Some(row.get(column)?.chars().count())).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let cell = |(column, (text, width)): (usize, (&String, &usize))| match numbers(column) {
        true => format!("{text:>width$}"),
        false => format!("{text:<width$}"),
    };
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(cell);
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    all().map(line).collect()
}

/// Returns lines of two columns.
pub fn aligned(rows: &[(&str, String)]) -> Vec<String> {
    let width = rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    rows.iter().map(|(label, text)| format!("{label:<width$}  {text}").trim_end().to_string()).collect()
}
