//! `syncline compress`.

use std::io::{BufWriter, Write};
use std::time::Duration;

use syncline::{CompressOptions, FillPattern, Summary, compress_from};

use crate::args::{CompressArgs, Resources, Talk};
use crate::commands::{check_device, remark};
use crate::format;
use crate::input::{ArrayInput, is_dash};
use crate::json;
use crate::message::{self, Failure, Outcome};
use crate::names;
use crate::output::Output;
use crate::progress::Bar;

/// Runs the command.
pub fn run(args: &CompressArgs, talk: Talk) -> Outcome {
    let path = args.output.clone().unwrap_or_else(|| match is_dash(&args.input) {
        true => args.input.clone(),
        false => names::stream_name(&args.input),
    });
    json::check_stdout(args.json, is_dash(&path))?;
    let mut output = Output::create(&path, args.force, &[&args.input])?;
    let array = ArrayInput::open(&args.input, args.dtype, args.shape, args.resources.memory_limit)?;
    if array.includes_header()? && !talk.quiet {
        message::warn(format_args!(
            "{}: begins as a .npy file, and its header is compressed as elements: leave out --dtype and --shape if it \
             is one",
            array.input
        ));
    }
    let (input_name, output_name) = (array.input.to_string(), output.name());

    let bar = Bar::new("compressing", array.element_type, talk);
    let mut options = with_resources(CompressOptions::new(args.bound.bound()), args.resources)
        .with_fill(args.fill)
        .with_index(args.index)
        .with_symbol(args.symbol.0)
        .with_level(args.level)
        .with_progress(bar.callback());
    if let Some(coder) = args.coder {
        options = options.with_coder(coder);
    }
    let mut sink = BufWriter::with_capacity(1 << 18, &mut output);
    let summary = compress_from(&array.input, array.offset, array.element_type, array.shape, &options, &mut sink)
        .and_then(|summary| sink.flush().map(|()| summary).map_err(Into::into))
        .map_err(|error| Failure::between(&input_name, &output_name, error))?;
    drop(sink);
    output.commit()?;
    let elapsed = bar.elapsed();
    bar.finish();
    check_device(args.resources, &summary.execution, talk);

    if args.json {
        json::print(&json::summary(&summary, &input_name, &output_name, elapsed.as_secs_f64()))?;
    } else if !talk.quiet {
        describe(&summary, &input_name, &output_name, elapsed, talk).iter().for_each(remark);
    }
    Ok(())
}

/// Returns compression options with the processor, threads, and memory of the command line.
pub fn with_resources(options: CompressOptions, resources: Resources) -> CompressOptions {
    let options = options.with_backend(resources.device).with_threads(resources.threads);
    match resources.memory_limit {
        Some(limit) => options.with_memory_limit(limit),
        None => options,
    }
}

fn describe(summary: &Summary, input: &str, output: &str, elapsed: Duration, talk: Talk) -> Vec<String> {
    let mut lines = vec![format!(
        "{input} -> {output}: {} -> {}, ratio {}, {}",
        format::bytes(summary.uncompressed_bytes),
        format::bytes(summary.compressed_bytes),
        format::number(summary.ratio()),
        format::resolved(summary.bound, summary.abs_bound),
    )];
    lines.extend(summary.fills.iter().map(fill_line));
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
        let speed = format::speed(summary.uncompressed_bytes, elapsed);
        lines.push(format!("  {:.3} s, {speed}", elapsed.as_secs_f64()));
    }
    lines
}

fn fill_line(fill: &FillPattern) -> String {
    let elements = format::counted(fill.count, "element");
    format!("  {} in {elements}: kept exactly, not counted in the range", format::number(fill.value))
}
