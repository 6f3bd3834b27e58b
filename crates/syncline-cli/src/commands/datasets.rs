//! `syncline decompress -o x.h5:/group/data` and `-o x.zarr/group/data`: streams become arrays of a file or store.

use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::Value;
use syncline::{ElementType, Header, Shape};
use walkdir::WalkDir;

use crate::args::{DecompressArgs, Talk};
use crate::commands::check_device;
use crate::commands::verify::fills;
use crate::message::{Failure, Outcome, remark};
use crate::places::{Place, member_name, zarr};
use crate::progress::Bar;
use crate::region::whole;
use crate::removal::Removal;
use crate::report::numbers;
use crate::stream::{OpenStream, decode_options};
use crate::tasks::Inputs;
use crate::{format, json};

/// Where arrays are written: a file or store, and the name of the array in it, if it is given.
pub struct Destination {
    is_store: bool,
    container: PathBuf,
    name: Option<String>,
}

impl Destination {
    /// Returns the destination that a place is, if it is in an HDF5 file or a Zarr store.
    pub fn of(place: Place) -> Option<Self> {
        match place {
            Place::Hdf5 { file, dataset } => Some(Self { is_store: false, container: file, name: dataset }),
            Place::Zarr { store, array } => {
                Some(Self { is_store: true, container: store, name: Some(array).filter(|name| !name.is_empty()) })
            }
            _ => None,
        }
    }
}

/// A file or store that is being written.
trait Container {
    /// An array that is being written.
    type Array;

    /// Starts an array.
    fn create(&self, name: &str, element: ElementType, shape: Shape, fill: Option<f64>) -> Outcome<Self::Array>;

    /// Writes a region of little-endian elements.
    fn write(&self, array: &Self::Array, region: &[Range<u64>], bytes: &[u8]) -> Outcome;

    /// Completes an array.
    fn finish(&self, array: Self::Array) -> Outcome;

    /// Returns the name of an array for messages.
    fn shown(&self, name: &str) -> String;
}

/// Decompresses all inputs to arrays of the file or store, which may exist.
pub fn run(args: &DecompressArgs, place: Destination, inputs: &Inputs, talk: Talk) -> Outcome {
    for (is_given, option) in [(args.region.is_some(), "--region"), (args.keep_going, "--keep-going")] {
        if is_given {
            return Err(Failure::usage(format!("{option}: is not available for datasets: write .npy with -o")));
        }
    }
    let streams: Vec<&Path> = inputs.paths().collect();
    let shown = place.container.display();
    let names: Vec<String> = match &place.name {
        Some(name) if streams.len() == 1 => vec![name.clone()],
        Some(_) => {
            let text = format!("one dataset cannot hold several inputs: name the file or store only, as -o {shown}");
            return Err(Failure::usage(text));
        }
        None => streams.iter().map(|stream| member_name(stream)).collect(),
    };
    let mut different = HashSet::new();
    if let Some(name) = names.iter().find(|name| !different.insert(name.as_str())) {
        return Err(Failure::usage(format!("{shown}: two streams become the dataset {name}: rename one")));
    }
    let tasks: Vec<(&Path, &str)> = streams.iter().copied().zip(names.iter().map(String::as_str)).collect();
    let removal = Removal::prepare(&args.files, streams.iter().copied())?;
    let results =
        if place.is_store { to_store(args, &place, &tasks, talk) } else { to_file(args, &place, &tasks, talk) }?;
    if removal.is_wanted() && place.is_store {
        names.iter().try_for_each(|name| sync_folder(&place.container.join(name)))?;
    }
    removal.remove()?;
    match (args.json, results.as_slice()) {
        (false, _) => Ok(()),
        (true, [only]) => json::print(only),
        (true, _) => json::print(&Value::Array(results)),
    }
}

/// Waits until all files below a folder are on the disk.
fn sync_folder(folder: &Path) -> Outcome {
    for entry in WalkDir::new(folder) {
        let entry = entry.map_err(|error| Failure::data(format!("{error}: check the access rights")))?;
        if entry.file_type().is_file() {
            let synced = std::fs::File::open(entry.path()).and_then(|file| file.sync_all());
            synced.map_err(|error| Failure::io(entry.path().display(), &error))?;
        }
    }
    Ok(())
}

/// Returns the first number that stands for missing data in a stream.
fn fill_of(header: &Header) -> Option<f64> {
    let size = header.element_type.size();
    let bytes: Vec<u8> = fills(header).iter().flat_map(|bits| bits.to_le_bytes()[..size].to_vec()).collect();
    numbers(&bytes, header.element_type).into_iter().find(|fill| !fill.is_nan())
}

/// Decompresses a stream to an array.
fn one<C: Container>(args: &DecompressArgs, input: &Path, container: &C, name: &str, talk: Talk) -> Outcome<Value> {
    let stream = OpenStream::open(input, args.resources.limits.memory_limit)?;
    let header = stream.file.header();
    let (element_type, shape, output) = (header.element_type, header.shape, container.shown(name));
    let array = container.create(name, element_type, shape, fill_of(header))?;
    let bar = Bar::new("decompressing", element_type, !talk.quiet);
    let options = decode_options(args.resources);
    let execution = stream.for_each_part(&whole(shape), &options, |region, bytes, done| {
        bar.show(done, shape.len());
        // An array without axes has one element, and no region.
        container.write(&array, if shape.rank() == 0 { &[] } else { region }, bytes)
    })?;
    container.finish(array)?;
    let elapsed = bar.elapsed();
    bar.finish();
    check_device(args.resources, &execution, talk);
    let bytes = shape.len() * element_type.size() as u64;
    if !args.json && !talk.quiet {
        let (size, timing) = (format::bytes(bytes), format::timing(bytes, elapsed));
        remark(format_args!("{} -> {output}: {element_type} {shape}, {size}, {timing}", stream.name));
    }
    let device = json::execution(&execution);
    Ok(json::decompressed((&stream.name, &output), (element_type, shape), elapsed, device))
}

/// Decompresses streams to datasets of an HDF5 file.
fn to_file(args: &DecompressArgs, place: &Destination, tasks: &[(&Path, &str)], talk: Talk) -> Outcome<Vec<Value>> {
    use syncline_hdf5::{Dataset, File};

    use crate::output::Output;
    use crate::places::hdf5::{find_library, of};

    struct Target<'a, 'l>(&'a File<'l>, &'a Path, bool);

    impl<'l> Container for Target<'_, 'l> {
        type Array = Dataset<'l>;

        fn create(&self, name: &str, element: ElementType, shape: Shape, fill: Option<f64>) -> Outcome<Self::Array> {
            let Self(file, path, replace) = self;
            let failed = |error| of(path.display(), error);
            if !replace && file.contains(name).map_err(failed)? {
                return Err(Failure::usage(format!(
                    "{}: exists already: add --force to replace it, or name another with -o",
                    self.shown(name)
                )));
            }
            file.create_dataset(name, element, &shape, fill).map_err(failed)
        }

        fn write(&self, array: &Self::Array, region: &[Range<u64>], bytes: &[u8]) -> Outcome {
            array.write(region, bytes).map_err(|error| of(self.1.display(), error))
        }

        fn finish(&self, _: Self::Array) -> Outcome {
            Ok(())
        }

        fn shown(&self, name: &str) -> String {
            format!("{}:/{}", self.1.display(), name.trim_start_matches('/'))
        }
    }

    let file = &place.container;
    let library = find_library()?;
    let exists = file.exists();
    let inputs: Vec<&Path> = tasks.iter().map(|(stream, _)| *stream).collect();
    // A file that exists is extended, and only datasets are replaced.
    let output = Output::create(file, args.files.force || exists, &inputs)?;
    let temporary = output.temporary().map(Path::to_owned);
    let temporary = temporary.ok_or_else(|| Failure::usage("datasets need a file: name one with -o"))?;
    let failed = |error| of(file.display(), error);
    let target = if exists {
        std::fs::copy(file, &temporary).map_err(|error| Failure::io(file.display(), &error))?;
        File::change(&library, &temporary)
    } else {
        File::create(&library, &temporary)
    };
    let target = target.map_err(failed)?;
    let mut results = Vec::new();
    for (stream, name) in tasks {
        results.push(one(args, stream, &Target(&target, file, args.files.force), name, talk)?);
    }
    target.close().map_err(failed)?;
    output.commit(args.files.rm)?;
    Ok(results)
}

/// Decompresses streams to arrays of a Zarr store.
#[cfg(feature = "zarr")]
fn to_store(args: &DecompressArgs, place: &Destination, tasks: &[(&Path, &str)], talk: Talk) -> Outcome<Vec<Value>> {
    struct Target<'a>(&'a Path, bool);

    impl Container for Target<'_> {
        type Array = zarr::NewArray;

        fn create(&self, name: &str, element: ElementType, shape: Shape, fill: Option<f64>) -> Outcome<Self::Array> {
            zarr::create(self.0, name, element, shape, fill, self.1)
        }

        fn write(&self, array: &Self::Array, region: &[Range<u64>], bytes: &[u8]) -> Outcome {
            array.write(region, bytes)
        }

        fn finish(&self, array: Self::Array) -> Outcome {
            array.commit()
        }

        fn shown(&self, name: &str) -> String {
            format!("{}/{name}", self.0.display())
        }
    }

    let target = Target(&place.container, args.files.force);
    tasks.iter().map(|(stream, name)| one(args, stream, &target, name, talk)).collect()
}

/// Fails.
#[cfg(not(feature = "zarr"))]
fn to_store(_: &DecompressArgs, place: &Destination, _: &[(&Path, &str)], _: Talk) -> Outcome<Vec<Value>> {
    Err(zarr::unavailable(&place.container))
}
