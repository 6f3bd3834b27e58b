//! `syncline decompress -o x.h5:/group/data`: streams become datasets of an HDF5 file.

use std::path::Path;

use crate::args::{DecompressArgs, Talk};
use crate::message::{Failure, Outcome};
use crate::tasks::Inputs;

/// Decompresses all inputs to datasets of the file.
#[cfg(unix)]
pub fn run(args: &DecompressArgs, path: &Path, inputs: &Inputs, talk: Talk) -> Outcome {
    unix::run(args, path, inputs, talk)
}

/// Fails.
#[cfg(not(unix))]
pub fn run(_: &DecompressArgs, path: &Path, _: &Inputs, _: Talk) -> Outcome {
    Err(Failure::data(format!("{}: HDF5 files can be written on Unix systems only: write a .npy file", path.display())))
}

#[cfg(unix)]
mod unix {
    use std::collections::HashSet;
    use std::fs;

    use serde_json::{Value, json};
    use syncline_hdf5::File;

    use super::*;
    use crate::commands::verify::fills;
    use crate::commands::{check_device, remark};
    use crate::format;
    use crate::hdf5::{dataset_in, find_library, of};
    use crate::json;
    use crate::npz;
    use crate::output::Output;
    use crate::progress::Bar;
    use crate::region::whole;
    use crate::report::numbers;
    use crate::stream::{OpenStream, decode_options};

    /// Decompresses all inputs to datasets of the file, which may exist.
    pub fn run(args: &DecompressArgs, path: &Path, inputs: &Inputs, talk: Talk) -> Outcome {
        for (is_given, option) in [(args.region.is_some(), "--region"), (args.keep_going, "--keep-going")] {
            if is_given {
                return Err(Failure::usage(format!("{option}: is not available for datasets: write .npy with -o")));
            }
        }
        let streams: Vec<&Path> = inputs.paths().collect();
        let (file, names) = match dataset_in(path) {
            Some((file, name)) if streams.len() == 1 => (file, vec![name]),
            Some((file, _)) => {
                let file = file.display();
                let text = format!("one dataset cannot hold several inputs: name the file only, as -o {file}");
                return Err(Failure::usage(text));
            }
            None => (path.to_owned(), streams.iter().map(|stream| format!("/{}", npz::member_name(stream))).collect()),
        };
        let mut different = HashSet::new();
        if let Some(name) = names.iter().find(|name| !different.insert(name.as_str())) {
            return Err(Failure::usage(format!(
                "{}: two streams become the dataset {name}: rename one",
                file.display()
            )));
        }
        let library = find_library()?;
        let exists = file.exists();
        // A file that exists is extended, and only datasets are replaced.
        let output = Output::create(&file, args.files.force || exists, &streams)?;
        let temporary = output.temporary().map(Path::to_owned);
        let temporary = temporary.ok_or_else(|| Failure::usage("datasets need a file: name one with -o"))?;
        let target = if exists {
            fs::copy(&file, &temporary).map_err(|error| Failure::io(file.display(), &error))?;
            File::change(&library, &temporary)
        } else {
            File::create(&library, &temporary)
        };
        let target = target.map_err(|error| of(file.display(), error))?;
        let mut results = Vec::new();
        for (stream, name) in streams.iter().zip(&names) {
            results.push(one(args, stream, &target, &file, name, talk)?);
        }
        target.close().map_err(|error| of(file.display(), error))?;
        output.commit()?;
        if args.files.rm {
            for path in streams {
                fs::remove_file(path).map_err(|error| Failure::io(path.display(), &error))?;
            }
        }
        match (args.json, results.as_slice()) {
            (false, _) => Ok(()),
            (true, [only]) => json::print(only),
            (true, _) => json::print(&Value::Array(results)),
        }
    }

    /// Decompresses a stream to a dataset.
    fn one(
        args: &DecompressArgs,
        input: &Path,
        file: &File<'_>,
        path: &Path,
        name: &str,
        talk: Talk,
    ) -> Outcome<Value> {
        let output = format!("{}:{name}", path.display());
        let failed = |error| of(path.display(), error);
        if !args.files.force && file.contains(name).map_err(failed)? {
            return Err(Failure::usage(format!(
                "{output}: exists already: add --force to replace it, or name another with -o"
            )));
        }
        let stream = OpenStream::open(input, args.resources.limits.memory_limit)?;
        let header = stream.file.header();
        let (element_type, shape) = (header.element_type, header.shape);
        let size = element_type.size();
        let fills: Vec<u8> = fills(header).iter().flat_map(|bits| bits.to_le_bytes()[..size].to_vec()).collect();
        let fill = numbers(&fills, element_type).into_iter().find(|fill| !fill.is_nan());
        let dataset = file.create_dataset(name, element_type, &shape, fill).map_err(failed)?;
        let bar = Bar::new("decompressing", element_type, talk);
        let options = decode_options(args.resources).with_decoder(args.decoder);
        let execution = stream.for_each_part(&whole(shape), &options, |region, bytes, done| {
            bar.show(done, shape.len());
            // An array without axes has one element, and no region.
            dataset.write(if shape.rank() == 0 { &[] } else { region }, bytes).map_err(failed)
        })?;
        let elapsed = bar.elapsed();
        bar.finish();
        check_device(args.resources, &execution, talk);
        let bytes = shape.len() * element_type.size() as u64;
        if !args.json && !talk.quiet {
            let (size, timing) = (format::bytes(bytes), format::timing(bytes, elapsed));
            remark(format_args!("{} -> {output}: {element_type} {shape}, {size}, {timing}", stream.name));
        }
        Ok(json!({
            "input": stream.name,
            "output": output,
            "element_type": element_type.name(),
            "shape": shape.extents(),
            "bytes": bytes,
            "seconds": elapsed.as_secs_f64(),
            "device": json::execution(&execution),
        }))
    }
}
