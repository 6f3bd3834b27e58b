//! `syncline convert`: a copy of an HDF5 file or of a Zarr store whose floating-point arrays are compressed.

pub mod bounds;

use std::time::Duration;

use serde_json::{Value, json};
use syncline::{Bound, ElementType, Fill, Shape};

use super::compress::fill_of;
use super::{remark, say, table};
use crate::args::{ConvertArgs, Talk};
use crate::conventions::{Variable, was_lossy};
use crate::message::{self, Failure, Outcome};
use crate::progress::Bar;
use crate::{format, hdf5, json, zarr};

const HEADS: [&str; 7] = ["RATIO", "ARRAY", "BEFORE", "AFTER", "TYPE", "SHAPE", "DATASET"];

/// An array of the input.
pub struct Array {
    /// What the conventions look at.
    pub variable: Variable,
    /// Whether elements are floating-point numbers, of a type that Syncline has or another.
    pub is_floating: bool,
    /// Extents, slowest axis first.
    pub extents: Vec<u64>,
    /// Bytes of the elements.
    pub array: u64,
    /// Bytes that the elements take in the input.
    pub before: u64,
    /// Whether the elements are in other arrays or files.
    pub is_elsewhere: bool,
}

/// What became of a floating-point array.
pub struct Change {
    /// The array.
    pub array: Array,
    /// Bytes that the chunks take now.
    pub after: u64,
    /// What was done: the bound that was asked for, and the one that holds, which is an absolute error, or relative to
    /// each value for [`Bound::PwRel`], and 0 if lossless. Or the reason why it was copied.
    pub result: Result<(Bound, f64), String>,
}

impl Change {
    /// Returns what else is to be known, if the array was compressed with a bound before.
    pub fn remark(&self) -> Option<String> {
        let is_lossy = self.result.as_ref().is_ok_and(|&(_, holds)| holds > 0.0);
        let again = is_lossy && was_lossy(&self.array.variable.attributes);
        let path = &self.array.variable.path;
        again.then(|| format!("{path}: was compressed with an error bound before: the errors of both add up"))
    }
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
    match (is_store(&args.input), is_store(&args.output)) {
        (true, _) if hdf5::is_name(&args.output) => Err(Failure::usage(format!(
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

#[cfg(unix)]
mod of_hdf5 {
    use std::collections::HashMap;
    use std::fs;

    use syncline_hdf5::{Choice, Contents, Options};

    use super::bounds::{Decision, decide};
    use super::*;
    use crate::conventions::{self, Attributes};
    use crate::hdf5::{find_library, of};
    use crate::output::Output;

    /// Copies an HDF5 file.
    pub fn convert(args: &ConvertArgs, fill: Option<Vec<f64>>) -> Outcome<Conversion> {
        let (input, output) = (&args.input, &args.output);
        let before = fs::metadata(input).map_err(|error| Failure::io(input.display(), &error))?.len();
        let failed = |error| of(input.display(), error);
        let library = find_library()?;
        let contents = Contents::of(&library, input, &conventions::names()).map_err(failed)?;
        let groups: Vec<_> = contents.groups.iter().map(|(path, values)| (path.clone(), as_json(values))).collect();
        let arrays: Vec<Array> = contents.variables.into_iter().map(array).collect();
        let decisions = decide(&args.bound, &args.except, &arrays, &groups)?;
        let choices = arrays.iter().zip(&decisions).filter_map(choice).collect();
        let options = Options {
            fill,
            effort: args.effort.effort(),
            advanced: args.advanced.advanced()?,
            rewritable: args.rewritable,
            threads: args.limits.threads,
            memory_limit: args.limits.memory_limit,
        };
        let file = Output::create(output, args.force, &[input.as_path()])?;
        let temporary = file.temporary().ok_or_else(|| Failure::usage("convert writes a file: name one as OUT"))?;
        let done = syncline_hdf5::convert(&library, input, temporary, &choices, &options, &mut |_, _, _| {});
        let done = done.map_err(failed)?;
        file.commit(false)?;
        let after = fs::metadata(output).map_err(|error| Failure::io(output.display(), &error))?.len();
        let lost = format::counted(done.lost_references, "attribute or dataset");
        let remark = format!("{lost} with references of the type H5T_STD_REF, which are null in the copy");
        let made: HashMap<&str, _> = done.changes.iter().map(|change| (change.path.as_str(), change)).collect();
        let (floating, others): (Vec<_>, Vec<_>) =
            arrays.into_iter().zip(decisions).partition(|(array, _)| array.is_floating);
        let change = |(array, decision): (Array, Decision)| match (made.get(array.variable.path.as_str()), decision) {
            (Some(made), Decision::Compress(bound)) => {
                Change { array, after: made.after, result: Ok((bound, made.holds)) }
            }
            (_, Decision::Compress(_)) => {
                Change { after: array.before, array, result: Err("the file was changed meanwhile".into()) }
            }
            (_, Decision::Keep(reason)) => Change { after: array.before, array, result: Err(reason) },
        };
        Ok(Conversion {
            bytes: [before, after],
            changes: floating.into_iter().map(change).collect(),
            others: others.len() as u64,
            lost_references: done.lost_references,
            remarks: if done.lost_references > 0 { vec![remark] } else { Vec::new() },
        })
    }

    fn array(found: syncline_hdf5::Variable) -> Array {
        let attributes = as_json(&found.attributes);
        let variable = Variable { path: found.path, element: found.element, is_coordinate: found.is_scale, attributes };
        Array {
            variable,
            is_floating: found.is_floating,
            extents: found.extents,
            array: found.array,
            before: found.stored,
            is_elsewhere: found.is_elsewhere,
        }
    }

    /// Returns how a dataset is compressed, if it is. Integers are copied.
    fn choice((array, decision): (&Array, &Decision)) -> Option<(String, Choice)> {
        let &Decision::Compress(bound) = decision else { return None };
        let attributes = array.variable.attributes.clone();
        let scaling = conventions::scaling(&attributes);
        let describe = Box::new(move |holds| as_hdf5(conventions::description(bound, holds, &attributes)));
        array.is_floating.then(|| (array.variable.path.clone(), Choice { bound, scaling, describe }))
    }

    fn as_json(attributes: &syncline_hdf5::Attributes) -> Attributes {
        let value = |value: &syncline_hdf5::Value| match value {
            syncline_hdf5::Value::Text(text) => json!(text),
            syncline_hdf5::Value::Numbers(numbers) => json!(numbers),
        };
        attributes.iter().map(|(name, of)| (name.clone(), value(of))).collect()
    }

    fn as_hdf5(attributes: Attributes) -> syncline_hdf5::Attributes {
        let value = |value: Value| match value {
            Value::String(text) => syncline_hdf5::Value::Text(text),
            number => syncline_hdf5::Value::Numbers(number.as_f64().into_iter().collect()),
        };
        attributes.into_iter().map(|(name, of)| (name, value(of))).collect()
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
