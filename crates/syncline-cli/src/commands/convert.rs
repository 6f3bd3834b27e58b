//! `syncline convert`: a copy of an HDF5 file or of a Zarr store whose floating-point arrays are compressed.

use std::time::Duration;

use serde_json::{Value, json};
use syncline::{Bound, ElementType, Fill, Shape};

use super::compress::fill_of;
use super::{remark, say, table};
use crate::args::{ConvertArgs, Talk};
use crate::message::{self, Failure, Outcome};
use crate::progress::Bar;
use crate::{format, hdf5, json, zarr};

const HEADS: [&str; 7] = ["RATIO", "ARRAY", "BEFORE", "AFTER", "TYPE", "SHAPE", "DATASET"];

/// What became of a floating-point array.
pub struct Change {
    /// Path.
    pub path: String,
    /// Element type; `None` for one that Syncline does not have.
    pub element: Option<ElementType>,
    /// Extents, slowest axis first.
    pub extents: Vec<u64>,
    /// Bytes of the elements.
    pub array: u64,
    /// Bytes that the chunks took.
    pub before: u64,
    /// Bytes that the chunks take now.
    pub after: u64,
    /// The bound that holds: an absolute error, or relative to each value for [`Bound::PwRel`]; 0 if lossless.
    pub holds: f64,
    /// Why it was not compressed, if it was not.
    pub kept: Option<String>,
}

/// What a conversion did.
#[derive(Default)]
pub struct Conversion {
    /// Bytes of the input and of the output.
    pub bytes: [u64; 2],
    /// Floating-point arrays, in order.
    pub changes: Vec<Change>,
    /// The number of other arrays, which are as they were.
    pub others: u64,
    /// Attributes and datasets with references that are null in the copy.
    pub lost_references: u64,
    /// What else is not as it was.
    pub remarks: Vec<String>,
}

/// Runs the command.
pub fn run(args: &ConvertArgs, talk: Talk) -> Outcome {
    let fill = match fill_of(&args.fill)? {
        Fill::Auto => None,
        fill => Some(fill.values().to_vec()),
    };
    // Progress in bytes of an array would jump back with the next one.
    let bar = Bar::new("converting", ElementType::U8, talk);
    let done = copy(args, fill)?;
    let elapsed = bar.elapsed();
    for remark in done.remarks.iter().filter(|_| !talk.quiet) {
        message::warn(format_args!("{}: {remark}", args.output.display()));
    }
    if args.json {
        return json::print(&as_json(args, &done, elapsed.as_secs_f64()));
    }
    if talk.quiet { Ok(()) } else { tell(args, &done, elapsed) }
}

/// Copies a file or a store, by the names.
fn copy(args: &ConvertArgs, fill: Option<Vec<f64>>) -> Outcome<Conversion> {
    let (input, output) = (args.input.display(), args.output.display());
    match (is_store(&args.input), is_store(&args.output)) {
        (true, _) if hdf5::is_file(&args.output) => Err(Failure::usage(format!(
            "{output}: is the name of an HDF5 file, and a Zarr store becomes a Zarr store: name one, such as out.zarr"
        ))),
        (true, _) => zarr::convert(args, fill.as_deref()),
        (false, true) => Err(Failure::usage(format!(
            "{output}: is the name of a Zarr store, and {input} is none: name an HDF5 file, such as out.h5"
        ))),
        (false, false) => of_hdf5::convert(args, fill),
    }
}

/// Returns whether a name is that of a Zarr store, or of a group in one.
fn is_store(path: &std::path::Path) -> bool {
    zarr::array_in(path).is_some() || zarr::is_node(path)
}

/// Prints the table and a summary.
fn tell(args: &ConvertArgs, done: &Conversion, elapsed: Duration) -> Outcome {
    let bound = args.bound.bound();
    let rows: Vec<Vec<String>> = done.changes.iter().map(|change| row(change, bound)).collect();
    say(&table(&HEADS, |column| column < 4, &rows))?;
    let array: u64 = done.changes.iter().filter(|change| change.kept.is_none()).map(|change| change.array).sum();
    let [before, after] = done.bytes;
    remark(format_args!(
        "{} -> {}: {} -> {}, ratio {}, {}",
        args.input.display(),
        args.output.display(),
        format::bytes(before),
        format::bytes(after),
        format::number(format::ratio(before, after)),
        format::timing(array, elapsed)
    ));
    if done.others > 0 {
        remark(format_args!("  {} of other types: copied as they were", format::counted(done.others, "dataset")));
    }
    Ok(())
}

fn row(change: &Change, bound: Bound) -> Vec<String> {
    let what = match &change.kept {
        Some(kept) => format!("copied: {kept}"),
        None if change.holds == 0.0 => format::resolved(Bound::Lossless, 0.0),
        None => format::resolved(bound, change.holds),
    };
    vec![
        format::number(format::ratio(change.array, change.after)),
        format::bytes(change.array),
        format::bytes(change.before),
        format::bytes(change.after),
        change.element.map_or("-", ElementType::name).to_string(),
        Shape::new(&change.extents).map_or_else(|_| "-".into(), |shape| shape.to_string()),
        format!("{}: {what}", change.path),
    ]
}

fn as_json(args: &ConvertArgs, done: &Conversion, seconds: f64) -> Value {
    let dataset = |change: &Change| {
        json!({
            "dataset": change.path,
            "element_type": change.element.map(ElementType::name),
            "shape": change.extents,
            "array_bytes": change.array,
            "bytes_before": change.before,
            "bytes_after": change.after,
            "resolved_bound": change.holds,
            "compressed": change.kept.is_none(),
            "reason": change.kept,
        })
    };
    let [before, after] = done.bytes;
    json!({
        "input": args.input,
        "output": args.output,
        "bound": json::bound(args.bound.bound()),
        "bytes_before": before,
        "bytes_after": after,
        "ratio": before as f64 / after as f64,
        "seconds": seconds,
        "datasets": done.changes.iter().map(dataset).collect::<Vec<Value>>(),
        "other_datasets": done.others,
        "null_references": done.lost_references,
    })
}

#[cfg(unix)]
mod of_hdf5 {
    use std::fs;

    use syncline_hdf5::{Kept, Options, SMALLEST};

    use super::*;
    use crate::hdf5::{find_library, of};
    use crate::output::Output;

    /// Copies an HDF5 file.
    pub fn convert(args: &ConvertArgs, fill: Option<Vec<f64>>) -> Outcome<Conversion> {
        let (input, output) = (&args.input, &args.output);
        let before = fs::metadata(input).map_err(|error| Failure::io(input.display(), &error))?.len();
        let options = Options {
            bound: args.bound.bound(),
            fill,
            coder: args.coder,
            level: args.short_level.0.or(args.level),
            effort: args.effort,
            except: args.except.clone(),
            threads: args.limits.threads,
            memory_limit: args.limits.memory_limit,
        };
        let library = find_library()?;
        let file = Output::create(output, args.force, &[input.as_path()])?;
        let temporary = file.temporary().ok_or_else(|| Failure::usage("convert writes a file: name one as OUT"))?;
        let done = syncline_hdf5::convert(&library, input, temporary, &options, &mut |_, _, _| {});
        let done = done.map_err(|error| of(input.display(), error))?;
        file.commit(false)?;
        let after = fs::metadata(output).map_err(|error| Failure::io(output.display(), &error))?.len();
        let lost = format::counted(done.lost_references, "attribute or dataset");
        let remark = format!("{lost} with references of the type H5T_STD_REF, which are null in the copy");
        Ok(Conversion {
            bytes: [before, after],
            changes: done.changes.into_iter().map(change).collect(),
            others: done.others,
            lost_references: done.lost_references,
            remarks: if done.lost_references > 0 { vec![remark] } else { Vec::new() },
        })
    }

    fn change(change: syncline_hdf5::Change) -> Change {
        let syncline_hdf5::Change { path, element, extents, array, before, after, holds, kept } = change;
        Change { path, element, extents, array, before, after, holds, kept: kept.map(reason) }
    }

    fn reason(kept: Kept) -> String {
        match kept {
            Kept::Named => "named by --except".into(),
            Kept::Scale => "a dimension scale".into(),
            Kept::Small => format!("fewer than {} elements", format::grouped(SMALLEST)),
            Kept::Type => "its type cannot be compressed".into(),
            Kept::Elsewhere => "its elements are in other datasets or files".into(),
        }
    }
}

#[cfg(not(unix))]
mod of_hdf5 {
    use super::*;

    /// Fails.
    pub fn convert(_: &ConvertArgs, _: Option<Vec<f64>>) -> Outcome<Conversion> {
        Err(Failure::data("HDF5 files are converted on Unix systems only: use h5repack with the filter"))
    }
}
