//! `syncline decompress`.

pub mod output;

use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use output::prepare;
use serde_json::json;
use syncline::{Backend, DecompressOptions, Execution, SequentialReader};

use crate::args::{DecompressArgs, Talk};
use crate::commands::datasets::{self, Destination};
use crate::commands::{archive, check_device, salvage};
use crate::format;
use crate::input::{Opened, shown};
use crate::json;
use crate::message::{Failure, Outcome, remark};
use crate::names::{self, is_dash};
use crate::output::Output;
use crate::places::Place;
use crate::progress::Bar;
use crate::region::{shape_of, whole};
use crate::removal::Removal;
use crate::stream::{OpenStream, decode_options};
use crate::tasks::{Batch, Done, Inputs, Task};

/// Runs the command.
pub fn run(args: &DecompressArgs, talk: Talk) -> Outcome {
    let inputs = Inputs::find(&args.inputs, names::is_stream, "streams (names in .syn)")?;
    let named = args.output.is_some() || args.files.stdout;
    if args.region.is_some() && !named && !inputs.paths().all(is_dash) {
        // The name without .syn is that of the whole array.
        return Err(Failure::usage("--region: name an output file for the region with -o"));
    }
    if let Some(path) = args.output.as_deref().filter(|path| names::is_npz(path)) {
        return archive::run(args, path, &inputs, talk);
    }
    if let Some(path) = args.output.as_deref()
        && let Some(place) = Destination::of(Place::of_output(path))
    {
        return datasets::run(args, place, &inputs, talk);
    }
    let tasks = inputs.tasks(args.output.as_deref(), &args.files, default_name)?;
    let mut batch = Batch::new(inputs.several);
    for task in &tasks {
        batch.take(if args.keep_going { salvage::decompress(args, task, talk) } else { one(args, task, talk) })?;
    }
    batch.finish(talk, |total| {
        let (before, after) = (format::bytes(total.compressed), format::bytes(total.uncompressed));
        total.line(&format!("{before} -> {after}"))
    })
}

/// Decompresses one file.
fn one(args: &DecompressArgs, task: &Task, talk: Talk) -> Outcome<Done> {
    let path = &task.output;
    json::check_stdout(args.json, is_dash(path))?;
    let removal = Removal::prepare(&args.files, [task.input.as_path()])?;
    // A requested GPU and a region need positions.
    if args.region.is_none()
        && !matches!(args.resources.device, Backend::Cuda(_))
        && let Opened::Pipe(pipe) = Opened::new(&task.input)?
    {
        return while_reading(args, task, pipe, talk);
    }
    let stream = OpenStream::open(&task.input, args.resources.limits.memory_limit)?;
    let (element_type, shape) = (stream.file.header().element_type, stream.file.header().shape);
    let region = args.region.as_ref().map(|region| region.within(shape)).transpose();
    let region = region.map_err(|text| Failure::usage(format!("{}: {text}", stream.name)))?;
    let shape = region.as_deref().map_or(shape, shape_of);
    let (mut output, header) = prepare(args, task, stream.file.header(), shape)?;
    let output_name = output.name();

    let bar = Bar::new("decompressing", element_type, talk.sums_up(&task.output));
    let options = decode_options(args.resources);
    output.write_all(&header).map_err(|error| Failure::io(&output_name, &error))?;
    let execution = match (&region, output.file()) {
        (None, Some(file)) => {
            let options = options.with_progress(bar.callback());
            let written = stream.file.decompress_to(file, header.len() as u64, &options);
            written.map_err(|error| Failure::between(&stream.name, &output_name, error))?
        }
        _ => in_order(&stream, &region.unwrap_or_else(|| whole(shape)), &options, &mut output, &bar)?,
    };
    output.commit(removal.is_wanted())?;
    let elapsed = bar.elapsed();
    bar.finish();
    check_device(args.resources, &execution, talk);

    removal.remove()?;

    let bytes = shape.len() * element_type.size() as u64;
    if !args.json && talk.sums_up(&task.output) {
        remark(format_args!(
            "{} -> {output_name}: {element_type} {shape}, {}, {}",
            stream.name,
            format::bytes(bytes),
            format::timing(bytes, elapsed)
        ));
        if talk.verbose {
            remark(format_args!("  on {execution}"));
        }
    }
    let json = args.json.then(|| {
        let device = json::execution(&execution);
        json::decompressed((&stream.name, &output_name), (element_type, shape), elapsed, device)
    });
    Ok(Done { uncompressed: bytes, compressed: stream.bytes, json })
}

/// Decompresses a stream from a pipe.
fn while_reading(args: &DecompressArgs, task: &Task, pipe: Box<dyn Read>, talk: Talk) -> Outcome<Done> {
    let name = shown(&task.input).to_string();
    let options = decode_options(args.resources);
    let reader = SequentialReader::new(pipe, options).map_err(|error| Failure::of(&name, error))?;
    let header = reader.header().clone();
    let (mut output, start) = prepare(args, task, &header, header.shape)?;
    let output_name = output.name();
    let bar = Bar::new("decompressing", header.element_type, talk.sums_up(&task.output));
    output.write_all(&start).map_err(|error| Failure::io(&output_name, &error))?;
    let total = header.shape.len();
    let size = header.element_type.size() as u64;
    let sink = Counted { output: &mut output, done: 0, show: |bytes: u64| bar.show(bytes / size, total) };
    let compressed = reader.copy_to(sink).map_err(|error| Failure::between(&name, &output_name, error))?;
    output.commit(false)?;
    let elapsed = bar.elapsed();
    bar.finish();
    let bytes = total * size;
    if !args.json && talk.sums_up(&task.output) {
        remark(format_args!(
            "{name} -> {output_name}: {} {}, {}, {}",
            header.element_type,
            header.shape,
            format::bytes(bytes),
            format::timing(bytes, elapsed)
        ));
        if talk.verbose {
            remark("  on the CPU: while the stream was read");
        }
    }
    let json = args.json.then(|| {
        let device = json!({ "gpus": [], "reason": "the stream was decompressed while it was read" });
        json::decompressed((&name, &output_name), (header.element_type, header.shape), elapsed, device)
    });
    Ok(Done { uncompressed: bytes, compressed, json })
}

/// An output that shows its progress.
struct Counted<'a, F> {
    output: &'a mut Output,
    done: u64,
    show: F,
}

impl<F: Fn(u64)> Write for Counted<'_, F> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.output.write(buffer)?;
        self.done += count as u64;
        (self.show)(self.done);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

fn default_name(input: &Path) -> Outcome<PathBuf> {
    names::array_name(input).ok_or_else(|| {
        Failure::usage(format!("{}: does not end in .{}: name an output with -o", input.display(), names::SUFFIX))
    })
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
