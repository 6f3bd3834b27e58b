//! Copies of HDF5 files.

use std::collections::HashMap;
use std::fs;

use serde_json::{Value, json};
use syncline_hdf5::{Choice, Contents, Options};

use super::bounds::{Decision, decide};
use super::changes::{Array, Change, Conversion};
use crate::args::ConvertArgs;
use crate::conventions::{self, Attributes, Variable};
use crate::format;
use crate::message::{Failure, Outcome};
use crate::output::Output;
use crate::places::hdf5::{find_library, of};

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
        arrays.into_iter().zip(decisions).partition(|(array, decision)| is_listed(array, decision));
    let change = |(array, decision): (Array, Decision)| match (made.get(array.variable.path.as_str()), decision) {
        (Some(made), Decision::Compress(bound)) => Change { array, after: made.after, result: Ok((bound, made.holds)) },
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

/// Returns whether an array is listed: a floating-point one, or another that is compressed.
fn is_listed(array: &Array, decision: &Decision) -> bool {
    array.is_floating || matches!(decision, Decision::Compress(_))
}

/// Returns how a dataset is compressed, if it is.
fn choice((array, decision): (&Array, &Decision)) -> Option<(String, Choice)> {
    let &Decision::Compress(bound) = decision else { return None };
    let attributes = array.variable.attributes.clone();
    let scaling = conventions::scaling(&attributes);
    let describe = Box::new(move |holds| as_hdf5(conventions::description(bound, holds, &attributes)));
    Some((array.variable.path.clone(), Choice { bound, scaling, describe }))
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
