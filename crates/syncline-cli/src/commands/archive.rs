//! `syncline decompress -o x.npz`: several streams become the members of one file.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

use serde_json::Value;

use crate::args::{DecompressArgs, Talk};
use crate::commands::check_device;
use crate::format;
use crate::json;
use crate::message::{Failure, Outcome, remark};
use crate::npy;
use crate::output::Output;
use crate::places::member_name;
use crate::places::npz::{self, Writer};
use crate::progress::Bar;
use crate::region::whole;
use crate::removal::Removal;
use crate::stream::{OpenStream, decode_options};
use crate::tasks::Inputs;

/// Decompresses all inputs to members of the file.
pub fn run(args: &DecompressArgs, path: &Path, inputs: &Inputs, talk: Talk) -> Outcome {
    for (is_given, option) in [(args.region.is_some(), "--region"), (args.keep_going, "--keep-going")] {
        if is_given {
            return Err(Failure::usage(format!("{option}: is not available for .npz outputs: write .npy with -o")));
        }
    }
    let paths: Vec<&Path> = inputs.paths().collect();
    let mut names = HashSet::new();
    for stream in &paths {
        if !names.insert(member_name(stream)) {
            return Err(Failure::usage(format!(
                "{}: two streams become the array {}: rename one",
                path.display(),
                member_name(stream)
            )));
        }
    }
    let removal = Removal::prepare(&args.files, paths.iter().copied())?;
    let output = Output::create(path, args.files.force, &paths)?;
    let file = output.file().ok_or_else(|| Failure::usage("an .npz file cannot go to a pipe: name a file with -o"))?;
    let failed = |error| Failure::io(path.display(), &error);
    let mut writer = Writer::new(file);
    let mut results = Vec::new();
    for stream in &paths {
        results.push(one(args, stream, &mut writer, path, talk)?);
    }
    writer.finish().map_err(failed)?;
    output.commit(removal.is_wanted())?;
    removal.remove()?;
    if args.json { json::print(&Value::Array(results)) } else { Ok(()) }
}

/// Decompresses a stream to a member.
fn one<W: Write + std::io::Seek>(
    args: &DecompressArgs,
    input: &Path,
    writer: &mut Writer<W>,
    output: &Path,
    talk: Talk,
) -> Outcome<Value> {
    let stream = OpenStream::open(input, args.resources.limits.memory_limit)?;
    let (element_type, shape) = (stream.file.header().element_type, stream.file.header().shape);
    let member = member_name(input);
    let header = npy::write_header(element_type, shape).ok_or_else(|| {
        Failure::usage(format!("{}: NumPy has no bfloat16: name a raw output with -o, such as x.bf16", stream.name))
    })?;
    let bytes = shape.len() * element_type.size() as u64;
    let failed = |error| Failure::io(output.display(), &error);
    writer.start(&member, bytes + header.len() as u64).map_err(failed)?;
    writer.write_all(&header).map_err(failed)?;
    let bar = Bar::new("decompressing", element_type, !talk.quiet);
    let options = decode_options(args.resources);
    let execution = stream.for_each_slab(&whole(shape), &options, |part, done| {
        bar.show(done, shape.len());
        writer.write_all(part).map_err(failed)
    })?;
    let elapsed = bar.elapsed();
    bar.finish();
    check_device(args.resources, &execution, talk);
    let output = npz::member_path(output, &member).display().to_string();
    if !args.json && !talk.quiet {
        let timing = format::timing(bytes, elapsed);
        let size = format::bytes(bytes);
        remark(format_args!("{} -> {output}: {element_type} {shape}, {size}, {timing}", stream.name));
    }
    let device = json::execution(&execution);
    Ok(json::decompressed((&stream.name, &output), (element_type, shape), elapsed, device))
}
