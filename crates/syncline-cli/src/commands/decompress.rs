//! `syncline decompress`.

use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use syncline::{DecompressOptions, Execution, Pipeline};

use crate::args::{DecompressArgs, Talk};
use crate::commands::{check_device, remark};
use crate::format;
use crate::input::is_dash;
use crate::json;
use crate::message::{Failure, Outcome};
use crate::names;
use crate::npy;
use crate::output::Output;
use crate::progress::Bar;
use crate::region::{shape_of, whole};
use crate::stream::{OpenStream, decode_options};

/// Runs the command.
pub fn run(args: &DecompressArgs, talk: Talk) -> Outcome {
    let path = output_path(args)?;
    json::check_stdout(args.json, is_dash(&path))?;
    let stream = OpenStream::open(&args.input, args.resources.memory_limit)?;
    let (element_type, shape) = (stream.file.header().element_type, stream.file.header().shape);
    let region = args.region.as_ref().map(|region| region.within(shape)).transpose();
    let region = region.map_err(|text| Failure::usage(format!("{}: {text}", stream.name)))?;
    let shape = region.as_deref().map_or(shape, shape_of);
    let header = match names::is_npy(&path) {
        true => npy::write_header(element_type, shape)
            .ok_or_else(|| Failure::usage("NumPy has no bfloat16: name a raw output with -o, such as x.bf16"))?,
        false => Vec::new(),
    };
    if args.output.is_none() && stream.file.header().pipeline != Pipeline::Lossless && path.exists() {
        return Err(Failure::usage(format!(
            "{}: exists already and may be the original of this lossy stream: name another output with -o, or name \
             this one with -o and --force",
            path.display()
        )));
    }
    let mut output = Output::create(&path, args.force, &[&args.input])?;
    let output_name = output.name();

    let bar = Bar::new("decompressing", element_type, talk);
    let options = decode_options(args.resources).with_decoder(args.decoder);
    output.write_all(&header).map_err(|error| Failure::io(&output_name, &error))?;
    let execution = match (&region, output.file()) {
        (None, Some(file)) => {
            let options = options.with_progress(bar.callback());
            let written = stream.file.decompress_to(file, header.len() as u64, &options);
            written.map_err(|error| Failure::between(&stream.name, &output_name, error))?
        }
        _ => in_order(&stream, &region.unwrap_or_else(|| whole(shape)), &options, &mut output, &bar)?,
    };
    output.commit()?;
    let elapsed = bar.elapsed();
    bar.finish();
    check_device(args.resources, &execution, talk);

    let bytes = shape.len() * element_type.size() as u64;
    if args.json {
        json::print(&json!({
            "input": stream.name,
            "output": output_name,
            "element_type": element_type.name(),
            "shape": shape.extents(),
            "bytes": bytes,
            "seconds": elapsed.as_secs_f64(),
            "device": json::execution(&execution),
        }))?;
    } else if !talk.quiet {
        remark(format_args!("{} -> {output_name}: {element_type} {shape}, {}", stream.name, format::bytes(bytes)));
        if talk.verbose {
            remark(format_args!("  on {execution}"));
            remark(timing(bytes, elapsed));
        }
    }
    Ok(())
}

fn timing(bytes: u64, elapsed: Duration) -> String {
    format!("  {:.3} s, {}", elapsed.as_secs_f64(), format::speed(bytes, elapsed))
}

fn output_path(args: &DecompressArgs) -> Outcome<PathBuf> {
    match &args.output {
        Some(path) => Ok(path.clone()),
        None if is_dash(&args.input) => Ok(args.input.clone()),
        // The name without .syn is that of the whole array.
        None if args.region.is_some() => Err(Failure::usage("--region: name an output file for the region with -o")),
        None => names::array_name(&args.input).ok_or_else(|| {
            Failure::usage(format!(
                "{}: does not end in .{}: name an output with -o",
                args.input.display(),
                names::SUFFIX
            ))
        }),
    }
}

/// Writes the elements of a region one after the other.
fn in_order(
    stream: &OpenStream,
    region: &[Range<u64>],
    options: &DecompressOptions,
    output: &mut Output,
    bar: &Bar,
) -> Outcome<Execution> {
    let total = shape_of(region).len();
    stream.for_each_slab(region, options, |bytes, done| {
        output.write_all(bytes).map_err(|error| Failure::io(output.name(), &error))?;
        bar.show(done, total);
        Ok(())
    })
}
