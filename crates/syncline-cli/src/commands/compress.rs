//! `syncline compress`.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use syncline::{Backend, Bound, CompressOptions, ElementType, Fill, FillPattern, MAX_FILLS, Summary, compress_from};

use crate::args::{CompressArgs, FillChoice, Resources, Talk};
use crate::commands::{check_device, far_values, target};
use crate::format;
use crate::in_order::{InOrder, Pipe};
use crate::input::{ArrayInput, Input, Opened, shown};
use crate::json;
use crate::message::{self, Failure, Outcome, remark};
use crate::names::{self, is_dash};
use crate::npy::Differences;
use crate::output::Output;
use crate::places::{Place, stream_name};
use crate::progress::Bar;
use crate::removal::Removal;
use crate::tasks::{Batch, Done, Inputs, Task};

/// Runs the command.
pub fn run(args: &CompressArgs, talk: Talk) -> Outcome {
    let inputs =
        Inputs::find(&args.inputs, names::is_array, "arrays (.npy, .npz, or a name with a type such as x.f32)")?;
    let inputs = inputs.with_members()?;
    let is_part = |path: &Path| Place::of(path).is_part();
    if args.files.rm && inputs.paths().any(is_part) {
        return Err(Failure::usage("--rm: an array in a larger file cannot be removed alone: leave out --rm"));
    }
    let tasks = inputs.tasks(args.output.as_deref(), &args.files, |input| Ok(stream_name(input)))?;
    let options = options(args)?;
    warn_of_useless(args, &options, talk);
    let mut batch = Batch::new(inputs.several);
    for task in &tasks {
        batch.take(one(args, &options, task, talk))?;
    }
    batch.finish(talk, |total| {
        let ratio = format::number(format::ratio(total.uncompressed, total.compressed));
        let (before, after) = (format::bytes(total.uncompressed), format::bytes(total.compressed));
        total.line(&format!("{before} -> {after}, ratio {ratio}"))
    })
}

/// Warns of options without effect.
fn warn_of_useless(args: &CompressArgs, options: &CompressOptions, talk: Talk) {
    if talk.quiet {
        return;
    }
    let lossless = options.bound() == Bound::Lossless;
    let fill = args.fill.iter().any(|fill| matches!(fill, FillChoice::Value(_)));
    for (is_useless, text) in [
        (
            args.rewritable && matches!(options.bound(), Bound::Rel(_) | Bound::Psnr(_)),
            "--rewritable keeps only the bounds --abs and --pw-rel through later writes: others depend on the range of \
             the values, which a write may change",
        ),
        (lossless && fill, "--fill has no effect with --lossless, which keeps every value exactly"),
    ] {
        if is_useless {
            message::warn(text);
        }
    }
    // The environment speaks for all commands.
    if std::env::var_os("SYNCLINE_ADVANCED").is_none() {
        for (key, when) in options.advanced_without_effect() {
            message::warn(format_args!("--advanced {key} has no effect {when}"));
        }
    }
}

/// Returns the fill values of the command line.
pub fn fill_of(choices: &[FillChoice]) -> Outcome<Fill> {
    let values: Vec<f64> = choices
        .iter()
        .filter_map(|choice| if let FillChoice::Value(value) = choice { Some(*value) } else { None })
        .collect();
    match (choices, values.len()) {
        ([FillChoice::Auto], _) => Ok(Fill::Auto),
        ([FillChoice::None], _) => Ok(Fill::None),
        (_, count) if count < choices.len() => {
            Err(Failure::usage("--fill: none and auto stand alone: name numbers only, such as --fill -9999,1e20"))
        }
        _ => Fill::of(&values).map_err(|error| Failure::usage(format!("--fill: {error}"))),
    }
}

/// Returns the fill values of the command line. Without any, those that a dataset of a file declares, or else detected
/// ones.
pub fn fill_for(choices: &[FillChoice], path: &Path) -> Outcome<Fill> {
    let given = fill_of(choices)?;
    if given != Fill::Auto {
        return Ok(given);
    }
    let declared = Place::of(path).declared_fills()?;
    match declared.get(..declared.len().min(MAX_FILLS)) {
        None | Some([]) => Ok(Fill::Auto),
        Some(declared) => Fill::of(declared).map_err(|error| Failure::of(path.display(), error)),
    }
}

/// Warns if the type is not the one in the name of the input.
fn warn_of_type(args: &CompressArgs, task: &Task, talk: Talk) {
    if let (Some(given), Some(named)) = (args.dtype, names::type_of(&task.input))
        && given != named
        && !talk.quiet
    {
        let name = shown(&task.input);
        message::warn(format_args!("{name}: the name says {named}, but --dtype {given} is what is compressed"));
    }
}

/// Compresses one file.
fn one(args: &CompressArgs, options: &CompressOptions, task: &Task, talk: Talk) -> Outcome<Done> {
    json::check_stdout(args.json, is_dash(&task.output))?;
    task.make_folder()?;
    let removal = Removal::prepare(&args.files, [task.input.as_path()])?;
    let mut output = Output::create(&task.output, args.files.force, &[&task.input])?;
    let (input_name, output_name) = (shown(&task.input).to_string(), output.name());
    let source = open(args, task)?;
    warn_of_type(args, task, talk);
    if let Source::Whole(array, _) = &source
        && array.includes_header()?
        && !talk.quiet
    {
        message::warn(format_args!(
            "{}: begins as a .npy file, and its header is compressed as elements: leave out --dtype and --shape if it \
             is one",
            array.input
        ));
    }
    let bar = Bar::new("compressing", source.element_type(), talk.sums_up(&task.output));
    let mut options = options.clone().with_fill(fill_for(&args.fill, &task.input)?);
    let mut reached = None;
    if let Source::Whole(array, _) = &source
        && let Some(target) = args.bound.target(array.size())
        && !source.differences().is_exact()
    {
        let found = target::find(array, target, &options)?;
        options = options.with_bound(found.bound);
        reached = Some(target::Reached { target, found });
    }
    if source.differences().is_exact() {
        options = options.with_bound(Bound::Lossless);
    }
    let options = options.with_progress(bar.callback());
    let mut remarks = source.differences().said();
    let mut advice = Vec::new();
    let summary = match source {
        Source::InOrder(array) => array.compress(&mut output, &output_name, &options, args.range)?,
        Source::Whole(array, spooled) => {
            if spooled {
                remarks.push(
                    "  kept in memory or in a temporary file until all of it was read: --abs, --pw-rel, --lossless, \
                     or --rel with --range avoids that",
                );
            }
            let stamp = array.input.stamp();
            let summary = if args.range.is_some() {
                InOrder::of(&array).compress(&mut output, &output_name, &options, args.range)?
            } else {
                let mut sink = BufWriter::with_capacity(1 << 18, &mut output);
                compress_from(&array.input, array.offset, array.element_type, array.shape, &options, &mut sink)
                    .and_then(|summary| sink.flush().map(|()| summary).map_err(Into::into))
                    .inspect(|summary| advice = far_values::warnings(&array, options.fill(), summary))
                    .map_err(|error| Failure::between(&input_name, &output_name, error))?
            };
            array.input.check_unchanged(stamp)?;
            summary
        }
    };
    output.commit(removal.is_wanted())?;
    let elapsed = bar.elapsed();
    bar.finish();
    check_device(args.resources, &summary.execution, talk);
    removal.remove()?;

    if !talk.quiet {
        advice.iter().for_each(|text| message::warn(format_args!("{input_name}: {text}")));
    }
    if !args.json && talk.sums_up(&task.output) {
        describe(&summary, &input_name, &output_name, elapsed, talk).iter().for_each(remark);
        reached.iter().map(|reached| reached.line()).for_each(remark);
        remarks.iter().for_each(remark);
    }
    let json = args.json.then(|| {
        let value = json::summary(&summary, &input_name, &output_name, elapsed.as_secs_f64());
        reached.iter().fold(value, |value, reached| json::merged(value, reached.json()))
    });
    Ok(Done { uncompressed: summary.uncompressed_bytes, compressed: summary.compressed_bytes, json })
}

/// An array to compress.
enum Source {
    /// With positions. The flag tells whether a pipe was read for that, whose range --range could have told.
    Whole(Box<ArrayInput>, bool),
    /// Compressed while it is read.
    InOrder(Box<InOrder<'static>>),
}

impl Source {
    fn differences(&self) -> Differences {
        match self {
            Self::Whole(array, _) => array.differences,
            Self::InOrder(array) => array.differences,
        }
    }

    fn element_type(&self) -> ElementType {
        match self {
            Self::Whole(array, _) => array.element_type,
            Self::InOrder(array) => array.element_type,
        }
    }
}

/// Opens the array of a task. Pipes are read to the end only if the bound or the processor requires it.
fn open(args: &CompressArgs, task: &Task) -> Outcome<Source> {
    let path = &task.input;
    let limit = args.resources.limits.memory_limit;
    let of = |input| ArrayInput::of(input, path, args.dtype, args.shape);
    let needs_range = matches!(args.bound.bound(), Bound::Rel(_) | Bound::Psnr(_)) && args.range.is_none();
    let pipe = match Opened::new(path)? {
        Opened::File(file) => {
            return of(Input::File(file, path.clone())).map(|array| Source::Whole(Box::new(array), false));
        }
        Opened::Pipe(pipe) => Pipe::open(pipe, path, args.dtype, args.shape)?,
    };
    match pipe {
        Pipe::Array(array) if needs_range || matches!(args.resources.device, Backend::Cuda(_)) => {
            array.spooled(path, limit).map(|array| Source::Whole(Box::new(array), needs_range))
        }
        Pipe::Array(array) => Ok(Source::InOrder(array)),
        Pipe::Bytes(bytes) => {
            // Their number is the shape, which is in the header of the stream.
            of(Input::spooled(bytes, path, limit, u64::MAX)?).map(|array| Source::Whole(Box::new(array), false))
        }
    }
}

/// Returns the options of the command line.
fn options(args: &CompressArgs) -> Outcome<CompressOptions> {
    let options = with_resources(CompressOptions::new(args.bound.bound()), args.resources)
        .with_fill(fill_of(&args.fill)?)
        .with_advanced(args.advanced.advanced()?)
        .with_rewritable(args.rewritable);
    Ok(match args.effort.effort() {
        Some(effort) => options.with_effort(effort),
        None => options,
    })
}

/// Returns compression options with the processor, threads, and memory of the command line.
pub fn with_resources(options: CompressOptions, resources: Resources) -> CompressOptions {
    let options = options.with_backend(resources.device).with_threads(resources.limits.threads);
    match resources.limits.memory_limit {
        Some(limit) => options.with_memory_limit(limit),
        None => options,
    }
}

fn describe(summary: &Summary, input: &str, output: &str, elapsed: Duration, talk: Talk) -> Vec<String> {
    let mut lines = vec![format!(
        "{input} -> {output}: {} -> {}, ratio {}, {}, {}",
        format::bytes(summary.uncompressed_bytes),
        format::bytes(summary.compressed_bytes),
        format::number(summary.ratio()),
        format::resolved(summary.bound, summary.abs_bound),
        format::timing(summary.uncompressed_bytes, elapsed),
    )];
    // Those of an array that was compressed while it was read are not counted.
    lines.extend(summary.fills.iter().filter(|fill| fill.count > 0).map(fill_line));
    if talk.verbose {
        lines.push(format!("  {} {}, bound {}", summary.element_type, summary.shape, format::bound(summary.bound)));
        if let Some((low, high)) = summary.range {
            lines.push(format!(
                "  range {} to {}, step {}",
                format::number(low),
                format::number(high),
                format::number(summary.step)
            ));
        }
        lines.push(format!("  on {}", summary.execution));
    }
    lines
}

fn fill_line(fill: &FillPattern) -> String {
    let elements = format::counted(fill.count, "element");
    format!("  {} in {elements}: kept exactly, not counted in the range", format::number(fill.value))
}
