//! `syncline convert`: a copy of an HDF5 file whose floating-point datasets are compressed.

use crate::args::{ConvertArgs, Talk};
use crate::message::Outcome;

/// Runs the command.
#[cfg(unix)]
pub fn run(args: &ConvertArgs, talk: Talk) -> Outcome {
    unix::run(args, talk)
}

/// Fails.
#[cfg(not(unix))]
pub fn run(_: &ConvertArgs, _: Talk) -> Outcome {
    Err(crate::message::Failure::data("convert works on Unix systems only: use h5repack with the filter"))
}

#[cfg(unix)]
mod unix {
    use std::fs;

    use serde_json::{Value, json};
    use syncline::{Bound, ElementType, Fill, Shape};
    use syncline_hdf5::{Change, Conversion, Kept, Options, SMALLEST, convert};

    use super::*;
    use crate::commands::compress::fill_of;
    use crate::commands::{remark, say, table};
    use crate::format;
    use crate::hdf5::{find_library, of};
    use crate::json;
    use crate::message::{self, Failure};
    use crate::output::Output;
    use crate::progress::Bar;

    const HEADS: [&str; 7] = ["RATIO", "ARRAY", "BEFORE", "AFTER", "TYPE", "SHAPE", "DATASET"];

    /// Converts the file.
    pub fn run(args: &ConvertArgs, talk: Talk) -> Outcome {
        let (input, output) = (&args.input, &args.output);
        let before = fs::metadata(input).map_err(|error| Failure::io(input.display(), &error))?.len();
        let options = Options {
            bound: args.bound.bound(),
            fill: match fill_of(&args.fill)? {
                Fill::Auto => None,
                fill => Some(fill.values().to_vec()),
            },
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
        // Progress in bytes of a dataset would jump back with the next one.
        let bar = Bar::new("converting", ElementType::U8, talk);
        let done = convert(&library, input, temporary, &options, &mut |_, _, _| {});
        let done = done.map_err(|error| of(input.display(), error))?;
        let elapsed = bar.elapsed();
        file.commit()?;
        let after = fs::metadata(output).map_err(|error| Failure::io(output.display(), &error))?.len();
        if done.lost_references > 0 && !talk.quiet {
            message::warn(format_args!(
                "{}: {} with references of the type H5T_STD_REF, which are null in the copy",
                output.display(),
                format::counted(done.lost_references, "attribute or dataset")
            ));
        }
        if args.json {
            return json::print(&as_json(args, &done, before, after, elapsed.as_secs_f64()));
        }
        if talk.quiet {
            return Ok(());
        }
        let rows: Vec<Vec<String>> = done.changes.iter().map(|change| row(change, options.bound)).collect();
        say(&table(&HEADS, |column| column < 4, &rows))?;
        let compressed = done.changes.iter().filter(|change| change.kept.is_none());
        let array: u64 = compressed.map(|change| change.array).sum();
        remark(format_args!(
            "{} -> {}: {} -> {}, ratio {}, {}",
            input.display(),
            output.display(),
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

    fn shape(change: &Change) -> String {
        Shape::new(&change.extents).map_or_else(|_| "-".into(), |shape| shape.to_string())
    }

    fn row(change: &Change, bound: Bound) -> Vec<String> {
        let what = match change.kept {
            Some(kept) => format!("copied: {}", reason(kept)),
            None if change.holds == 0.0 => format::resolved(Bound::Lossless, 0.0),
            None => format::resolved(bound, change.holds),
        };
        vec![
            format::number(format::ratio(change.array, change.after)),
            format::bytes(change.array),
            format::bytes(change.before),
            format::bytes(change.after),
            change.element.map_or("-", ElementType::name).to_string(),
            shape(change),
            format!("{}: {what}", change.path),
        ]
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

    fn as_json(args: &ConvertArgs, done: &Conversion, before: u64, after: u64, seconds: f64) -> Value {
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
                "reason": change.kept.map(reason),
            })
        };
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
}
