//! `syncline convert`: a copy of an HDF5 file or of a Zarr store whose floating-point arrays are compressed.

mod bounds;
mod changes;
mod of_hdf5;
mod zarr;

use std::time::Duration;

use serde_json::{Value, json};
use syncline::{Bound, ElementType, Fill, Shape};

use changes::{Array, Change, Conversion};

use super::compress::fill_of;
use super::{say, table};
use crate::args::{ConvertArgs, Talk};
use crate::message::{self, Failure, Outcome, remark};
use crate::places::{is_hdf5_name, is_in_store};
use crate::progress::Bar;
use crate::{format, json};

const HEADS: [&str; 7] = ["RATIO", "ARRAY", "BEFORE", "AFTER", "TYPE", "SHAPE", "DATASET"];

/// Runs the command.
pub fn run(args: &ConvertArgs, talk: Talk) -> Outcome {
    let fill = match fill_of(&args.fill)? {
        Fill::Auto => None,
        fill => Some(fill.values().to_vec()),
    };
    // Progress in bytes of an array would jump back with the next one.
    let bar = Bar::new("converting", ElementType::U8, !talk.quiet);
    let done = copy(args, fill)?;
    let elapsed = bar.elapsed();
    let again = done.changes.iter().filter_map(Change::remark);
    for remark in done.remarks.iter().cloned().chain(again).filter(|_| !talk.quiet) {
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
    match (is_in_store(&args.input), is_in_store(&args.output)) {
        (true, _) if is_hdf5_name(&args.output) => Err(Failure::usage(format!(
            "{output}: is the name of an HDF5 file, and a Zarr store becomes a Zarr store: name one, such as out.zarr"
        ))),
        (true, _) => zarr::convert(args, fill.as_deref()),
        (false, true) => Err(Failure::usage(format!(
            "{output}: is the name of a Zarr store, and {input} is none: name an HDF5 file, such as out.h5"
        ))),
        (false, false) => of_hdf5::convert(args, fill),
    }
}

/// Prints the table and a summary.
fn tell(args: &ConvertArgs, done: &Conversion, elapsed: Duration) -> Outcome {
    let rows: Vec<Vec<String>> = done.changes.iter().map(row).collect();
    say(&table(&HEADS, |column| column < 4, &rows))?;
    let array: u64 = done.changes.iter().filter(|change| change.result.is_ok()).map(|change| change.array.array).sum();
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

fn row(change: &Change) -> Vec<String> {
    let Array { variable, extents, array, before, .. } = &change.array;
    let what = match &change.result {
        Err(reason) => format!("copied: {reason}"),
        Ok((_, 0.0)) => format::resolved(Bound::Lossless, 0.0),
        Ok((bound, holds)) => format::resolved(*bound, *holds),
    };
    vec![
        format::number(format::ratio(*array, change.after)),
        format::bytes(*array),
        format::bytes(*before),
        format::bytes(change.after),
        variable.element.map_or("-", ElementType::name).to_string(),
        Shape::new(extents).map_or_else(|_| "-".into(), |shape| shape.to_string()),
        format!("{}: {what}", variable.path),
    ]
}

fn as_json(args: &ConvertArgs, done: &Conversion, seconds: f64) -> Value {
    let dataset = |change: &Change| {
        let Array { variable, extents, array, before, .. } = &change.array;
        let made = change.result.as_ref().ok();
        json!({
            "dataset": variable.path,
            "element_type": variable.element.map(ElementType::name),
            "shape": extents,
            "array_bytes": array,
            "bytes_before": before,
            "bytes_after": change.after,
            "bound": made.map(|&(bound, _)| json::bound(bound)),
            "resolved_bound": made.map_or(0.0, |&(_, holds)| holds),
            "compressed": made.is_some(),
            "reason": change.result.as_ref().err(),
        })
    };
    let [before, after] = done.bytes;
    json!({
        "input": args.input,
        "output": args.output,
        "bytes_before": before,
        "bytes_after": after,
        "ratio": before as f64 / after as f64,
        "seconds": seconds,
        "datasets": done.changes.iter().map(dataset).collect::<Vec<Value>>(),
        "other_datasets": done.others,
        "null_references": done.lost_references,
    })
}
