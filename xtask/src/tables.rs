//! `cargo xtask tables`: writes the tables of documents from records, so that no document has a figure that a command
//! did not write.
//!
//! A table lies between `<!-- table` and `<!-- end of table -->`. The opening comment says what is in it:
//!
//! ```text
//! <!-- table 2026-11-28-h200.csv
//! where: bound=1e-3; codec=syncline
//! rows: field; element as type
//! - MB = megabytes
//! - compress GB/s (of the copy) = GB/s of copy where what=compress; options=balanced
//! -->
//! ```
//!
//! The first line names files in `bench/records`. A line "- HEADER = FIGURE where CONDITIONS" is a column. A condition
//! may have alternatives, `bound=1e-2|1e-3`, and a value that ends in `*` is a prefix. Each cell is of the one record
//! that has the keys of its row and meets the conditions. [`Figure`] lists the figures.

mod figure;
mod spec;

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use figure::Figure;
use spec::{Column, Spec};

const OPENING: &str = "<!-- table ";
const CLOSING: &str = "<!-- end of table -->";
/// Folders with documents.
const FOLDERS: [&str; 3] = [".", "docs", "bench/notes"];

/// Arguments of `tables`.
#[derive(Args)]
pub struct Arguments {
    /// Write nothing, and fail if a table is not what its records say
    #[arg(long)]
    pub check: bool,
}

/// A record: a value for each column of its file.
type Record = HashMap<String, String>;

/// Writes the tables of all documents, or checks them.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut stale = Vec::new();
    for path in documents()? {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let new = rewritten(&text, &load).with_context(|| format!("in {}", path.display()))?;
        if new == text {
            continue;
        }
        if !arguments.check {
            fs::write(&path, new).with_context(|| format!("cannot write {}", path.display()))?;
        }
        stale.push(path.display().to_string());
    }
    ensure!(!arguments.check || stale.is_empty(), "run `cargo xtask tables` for {}", stale.join(", "));
    stale.iter().for_each(|path| println!("{path}"));
    Ok(())
}

/// Returns the Markdown files that may have tables.
fn documents() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        let folder = crate::root().join(folder);
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a file of `bench/records`.
fn load(name: &str) -> Result<Vec<Record>> {
    let path = crate::root().join("bench/records").join(name);
    let mut reader = csv::Reader::from_path(&path).with_context(|| format!("cannot read {}", path.display()))?;
    reader.deserialize().collect::<Result<_, _>>().with_context(|| format!("cannot read {}", path.display()))
}

/// Returns a document with its tables written anew.
fn rewritten(text: &str, load: &dyn Fn(&str) -> Result<Vec<Record>>) -> Result<String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(start) = rest.find(OPENING) {
        let end = rest[start..].find("-->").context("a table's opening comment has no end")? + start + 3;
        let comment = &rest[start + OPENING.len()..end - 3];
        let length = rest[end..].find(CLOSING).with_context(|| format!("no '{CLOSING}' after{comment}"))?;
        ensure!(!rest[end..end + length].contains(OPENING), "no '{CLOSING}' after{comment}");
        let table = table(comment, load).with_context(|| format!("the table of {comment}"))?;
        out += &rest[..end];
        out += &format!("\n\n{table}\n");
        rest = &rest[end + length..];
    }
    Ok(out + rest)
}

/// Returns the Markdown of a table.
fn table(comment: &str, load: &dyn Fn(&str) -> Result<Vec<Record>>) -> Result<String> {
    let spec = Spec::parse(comment)?;
    let mut records = Vec::new();
    for file in &spec.files {
        records.extend(load(file)?);
    }
    let known = |name: &String| records.iter().any(|record| record.contains_key(name));
    if let Some(unknown) = spec.columns_used().find(|name| !known(name)) {
        bail!("no record has a column '{unknown}'");
    }
    records.retain(|record| spec.conditions.iter().all(|condition| condition.holds(record)));
    let mut rows: Vec<Vec<&str>> = Vec::new();
    for record in &records {
        let keys: Vec<&str> = spec.keys.iter().map(|(key, _)| value(record, key)).collect();
        let has_cell = || spec.columns.iter().any(|column| column.matches(record));
        if !rows.contains(&keys) && has_cell() {
            rows.push(keys);
        }
    }
    ensure!(!rows.is_empty(), "no record is in it");
    let headers = spec.keys.iter().map(|(_, header)| header).chain(spec.columns.iter().map(|column| &column.header));
    let mut lines = vec![line(headers.map(String::as_str))];
    lines.push(format!("|{}", "---|".repeat(spec.keys.len() + spec.columns.len())));
    for keys in rows {
        let of_row =
            |record: &&Record| spec.keys.iter().zip(&keys).all(|((key, _), wanted)| value(record, key) == *wanted);
        let of_row: Vec<&Record> = records.iter().filter(of_row).collect();
        let cells = spec.columns.iter().map(|column| cell(column, &of_row, &records));
        let cells =
            cells.collect::<Result<Vec<String>>>().with_context(|| format!("in the row of {}", keys.join(", ")))?;
        lines.push(line(keys.iter().copied().chain(cells.iter().map(String::as_str))));
    }
    Ok(lines.join("\n") + "\n")
}

fn line<'t>(cells: impl Iterator<Item = &'t str>) -> String {
    format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
}

/// Returns the value of a column, which is empty if the record has none.
fn value<'r>(record: &'r Record, column: &str) -> &'r str {
    record.get(column).map_or("", String::as_str)
}

/// Returns the cell of a column in a row with these records, of all that the table takes.
fn cell(column: &Column, of_row: &[&Record], all: &[Record]) -> Result<String> {
    let found: Vec<&Record> = of_row.iter().copied().filter(|record| column.matches(record)).collect();
    match &column.figure {
        Figure::MeanOver(compared, codec) => return figure::mean_over(*compared, codec, &found, all),
        Figure::BestRatio => return figure::best_ratio(&found),
        _ => {}
    }
    match found.as_slice() {
        [] => Ok(String::new()),
        [one] => column.figure.of(one).with_context(|| format!("'{}'", column.header)),
        [first, others @ ..] => {
            // A figure that does not depend on what distinguishes the records, such as the size of a field.
            let text = column.figure.of(first)?;
            let all = others.iter().map(|other| column.figure.of(other)).collect::<Result<Vec<_>>>()?;
            ensure!(all.iter().all(|other| *other == text), "{} records for '{}'", found.len(), column.header);
            Ok(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: &str = "\
field,bound,codec,options,what,bytes,stream_bytes,seconds,shortest,longest,of_copy
nyx,1e-3,syncline,balanced,compress,2000000000,1000000,0.01,0.005,0.02,0.1
nyx,1e-3,syncline,balanced,decompress,2000000000,1000000,0.004,0.004,0.004,0.25
nyx,1e-3,SZ3,a,compress,2000000000,2000000,1,1,1,
nyx,1e-3,SZ3,b,compress,2000000000,500000,2,2,2,
rtm,1e-3,syncline,balanced,compress,1000000,250000,0.5,0.5,0.5,
rtm,1e-3,SZ3,a,compress,1000000,500000,0.5,0.5,0.5,
";

    fn records(_: &str) -> Result<Vec<Record>> {
        Ok(csv::Reader::from_reader(RECORDS.as_bytes()).into_deserialize().collect::<Result<_, _>>()?)
    }

    fn table_of(spec: &str) -> Result<Vec<String>> {
        table(spec, &records).map(|text| text.lines().map(str::to_owned).collect())
    }

    #[test]
    fn cells_have_figures_of_the_record_that_meets_the_conditions() {
        let lines = table_of(
            "x.csv\nwhere: codec=syncline\nrows: field as name\n- MB = megabytes\n- ratio = ratio\n\
             - in = GB/s of copy where what=compress\n- out = GB/s where what=decompress\n",
        );
        assert_eq!(
            lines.unwrap(),
            [
                "| name | MB | ratio | in | out |",
                "|---|---|---|---|---|",
                "| nyx | 2000 | 2000 | 200 (0.10) | 500 |",
                "| rtm | 1 | 4.00 | 0.002 |  |",
            ]
        );
    }

    #[test]
    fn mean_is_over_the_best_ratio_of_the_others() {
        let lines =
            table_of("x.csv\nwhere: what=compress\nrows: bound\n- x = mean ratio over SZ3 where codec=syncline\n");
        // 0.5 and 2 times the best of SZ3, of which one is at least as high.
        assert_eq!(lines.unwrap()[2], "| 1e-3 | 1.000 (1 of 2) |");
        // 100 times and once the speed.
        let lines =
            table_of("x.csv\nwhere: what=compress\nrows: bound\n- x = mean MB/s over SZ3 where codec=syncline\n");
        assert_eq!(lines.unwrap()[2], "| 1e-3 | 10.000 (2 of 2) |");
    }

    #[test]
    fn ambiguous_and_unknown_cells_are_errors() {
        assert!(table_of("x.csv\nrows: field\n- s = seconds\n").is_err());
        assert!(table_of("x.csv\nrows: planet\n- s = seconds\n").is_err());
        assert!(table_of("x.csv\nwhere: field=mars\nrows: field\n- s = seconds\n").is_err());
        assert!(table_of("x.csv\nrows: field\n- s = furlongs\n").is_err());
        assert!(table_of("x.csv\nrows: field\n").is_err());
    }

    #[test]
    fn documents_keep_what_is_around_their_tables() {
        let spec = "<!-- table x.csv\nrows: field\n- MB = megabytes\n-->";
        let text = format!("before\n{spec}\nold\n<!-- end of table -->\nafter\n");
        let new = rewritten(&text, &records).unwrap();
        let table = "| field | MB |\n|---|---|\n| nyx | 2000 |\n| rtm | 1 |\n";
        assert_eq!(new, format!("before\n{spec}\n\n{table}\n<!-- end of table -->\nafter\n"));
        assert_eq!(rewritten(&new, &records).unwrap(), new);
        assert!(rewritten(spec, &records).is_err());
    }
}
