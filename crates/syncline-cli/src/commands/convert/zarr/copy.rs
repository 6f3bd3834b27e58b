//! Copies of stores in which the floating-point arrays are compressed by the codec. All else is copied as it is.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use syncline::{Bound, ElementType};
use zarrs::array::ArrayMetadata;
use zarrs::filesystem::FilesystemStore;

use super::contents::Contents;
use super::folders::{entries, is_data, join, size_of};
use super::metadata::{self, Format};
use super::permitted::Permitted;
use super::recompress::Recompress;
use crate::args::ConvertArgs;
use crate::commands::convert::bounds::{Decision, decide, is_within};
use crate::commands::convert::changes::{Array, Change, Conversion};
use crate::conventions::{Attributes, description, scaling};
use crate::message::{Failure, Outcome};
use crate::output::{folder_of, permit, temporary_folder};
use crate::places::zarr::{MARKS, failed, is_node, node, put_in_place};

/// An array in a store.
type StoredArray = zarrs::array::Array<FilesystemStore>;

/// Copies the store to a folder that exists only when it is complete. `fill` are the values that mean missing data, if
/// not those that each array declares.
pub fn convert(args: &ConvertArgs, fill: Option<&[f64]>) -> Outcome<Conversion> {
    let from = args.input.as_path();
    let shown = from.display();
    if !fs::metadata(from).map_err(|error| Failure::io(&shown, &error))?.is_dir() {
        return Err(Failure::data(format!("{shown}: is a file, and a Zarr store is read from a folder: unpack it")));
    }
    if !is_node(from) {
        let marks = MARKS.join(", ");
        return Err(Failure::data(format!("{shown}: is no group or array of Zarr: it contains none of {marks}")));
    }
    let target = destination(args)?;
    let Contents { arrays, groups } = Contents::of(args)?;
    let decisions = decide(&args.bound, &args.except, &arrays, &groups)?;
    let decided = arrays.into_iter().zip(decisions).map(|both| (both.0.variable.path.clone(), both)).collect();
    let written = |error| Failure::io(args.output.display(), &error);
    let folder = temporary_folder(folder_of(&target)).map_err(written)?;
    let to = folder.path().join("a");
    let mut done = Copy::new(args, fill, &to, decided)?.run()?;
    done.bytes = [size_of(from, |_| true)?, size_of(&to, |_| true)?];
    put_in_place(&to, &target, &folder, args.force).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(args),
        _ => written(error),
    })?;
    Ok(done)
}

/// Returns the folder to write, which may be replaced if it exists.
fn destination(args: &ConvertArgs) -> Outcome<PathBuf> {
    let (input, output) = (&args.input, &args.output);
    let shown = output.display();
    let absolute = |path: &Path| fs::canonicalize(path).map_err(|error| Failure::io(path.display(), &error));
    let source = absolute(input)?;
    let target = match fs::symlink_metadata(output) {
        Ok(_) => absolute(output)?,
        Err(_) => {
            let name = output.file_name().ok_or_else(|| Failure::usage(format!("{shown}: names no folder")))?;
            absolute(folder_of(output))?.join(name)
        }
    };
    if target.starts_with(&source) || source.starts_with(&target) {
        return Err(Failure::usage(format!(
            "{shown}: is the input, or one is inside of the other: name another output"
        )));
    }
    if !target.exists() {
        return Ok(target);
    }
    if !args.force {
        return Err(exists(args));
    }
    let is_empty = fs::read_dir(&target).is_ok_and(|mut entries| entries.next().is_none());
    match is_empty || is_node(&target) {
        true => Ok(target),
        false => Err(Failure::usage(format!("{shown}: is no Zarr store, and is not replaced: name another output"))),
    }
}

fn exists(args: &ConvertArgs) -> Failure {
    let shown = args.output.display();
    Failure::usage(format!("{shown}: exists already: add --force to replace it, or name another output"))
}

/// A copy that is being made.
struct Copy<'a> {
    args: &'a ConvertArgs,
    fill: Option<&'a [f64]>,
    to: &'a Path,
    /// Arrays by their paths, and what becomes of each.
    decided: HashMap<String, (Array, Decision)>,
    source: Arc<FilesystemStore>,
    target: Arc<Permitted>,
    pool: rayon::ThreadPool,
    /// Metadata of the compressed arrays, by the name of its file.
    changed: BTreeMap<String, Value>,
    /// Groups, which may have consolidated metadata.
    groups: Vec<String>,
    done: Conversion,
}

impl<'a> Copy<'a> {
    fn new(
        args: &'a ConvertArgs,
        fill: Option<&'a [f64]>,
        to: &'a Path,
        decided: HashMap<String, (Array, Decision)>,
    ) -> Outcome<Self> {
        fs::create_dir(to).map_err(|error| Failure::io(args.output.display(), &error))?;
        let open = |path: &Path| {
            let store = FilesystemStore::new(path);
            store.map_err(|error| failed(&path.display().to_string())(&error))
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(args.limits.threads).build();
        let pool = pool.map_err(|error| Failure::data(format!("threads cannot be started: {error}: use -T 1")))?;
        let (source, target) = (Arc::new(open(&args.input)?), Arc::new(Permitted(open(to)?)));
        let (changed, groups, done) = (BTreeMap::new(), Vec::new(), Conversion::default());
        Ok(Self { args, fill, to, decided, source, target, pool, changed, groups, done })
    }

    fn run(mut self) -> Outcome<Conversion> {
        self.folder("")?;
        for group in std::mem::take(&mut self.groups) {
            self.renew(&group)?;
        }
        Ok(self.done)
    }

    /// Copies what is in a folder: an array, or a group.
    fn folder(&mut self, name: &str) -> Outcome {
        match metadata::of_array(&self.args.input.join(name)) {
            Ok(Some((format, metadata))) => self.array(name, format, &metadata),
            Ok(None) => self.group(name),
            Err(_) if is_within(name, &self.args.except) => self.files(name, None),
            Err(failure) => Err(failure),
        }
    }

    fn group(&mut self, name: &str) -> Outcome {
        self.groups.push(name.to_owned());
        for entry in entries(&self.args.input.join(name))? {
            let within = join(name, &entry);
            match self.args.input.join(&within).is_dir() {
                true => {
                    self.create_folder(&within)?;
                    self.folder(&within)?;
                }
                false => self.copy_file(&within)?,
            }
        }
        Ok(())
    }

    /// Copies what is in the folder of an array, except for chunks that are compressed.
    fn files(&self, name: &str, compressed: Option<&StoredArray>) -> Outcome {
        for entry in entries(&self.args.input.join(name))? {
            let within = join(name, &entry);
            if self.args.input.join(&within).is_dir() {
                if compressed.is_none() {
                    self.create_folder(&within)?;
                }
                self.files(&within, compressed)?;
            } else if !compressed.is_some_and(|array| is_chunk(array, &within)) {
                self.copy_file(&within)?;
            }
        }
        Ok(())
    }

    fn array(&mut self, name: &str, format: Format, metadata: &Value) -> Outcome {
        let Some((array, decision)) = self.decided.remove(&node(name)) else { return self.files(name, None) };
        let is_listed = array.is_floating || matches!(decision, Decision::Compress(_));
        let Some(element) = array.variable.element.filter(|_| is_listed) else {
            self.done.others += 1;
            return self.files(name, None);
        };
        let change = match decision {
            Decision::Compress(bound) => {
                let (after, holds) = self.compress(name, (format, metadata), element, bound, &array)?;
                Change { array, after, result: Ok((bound, holds)) }
            }
            Decision::Keep(reason) => {
                self.files(name, None)?;
                Change { after: array.before, array, result: Err(reason) }
            }
        };
        self.done.changes.push(change);
        Ok(())
    }

    /// Writes the compressed array. Returns the bytes that it takes, and the bound that holds.
    fn compress(
        &mut self,
        name: &str,
        (format, metadata): (Format, &Value),
        element: ElementType,
        bound: Bound,
        array: &Array,
    ) -> Outcome<(u64, f64)> {
        let shown = format!("{}{}", self.args.input.display(), node(name));
        let stored = zarrs::array::Array::open(Arc::clone(&self.source), &node(name)).map_err(|error| {
            let except = node(name);
            Failure::data(format!("{shown}: {error}: check the store, or leave the array as it is: --except {except}"))
        })?;
        self.files(name, Some(&stored))?;
        let work = Recompress::new(stored, element, self.args, &self.pool, shown)?;
        let (settings, holds) = work.settings(bound, scaling(&array.variable.attributes), self.fill)?;
        let mut changed = metadata::compressed(format, metadata, &settings);
        let new = description(bound, holds, &array.variable.attributes);
        let of_format_2 = self.describe(name, format, &mut changed, new)?;
        let file = join(name, format.file());
        self.write(&file, &changed)?;
        let written = |error: &dyn std::fmt::Display| failed(&self.args.output.display().to_string())(error);
        let metadata = ArrayMetadata::try_from(changed.to_string().as_str()).map_err(|error| written(&error))?;
        let copy = zarrs::array::Array::new_with_metadata(Arc::clone(&self.target), &node(name), metadata);
        let copy = copy.map_err(|error| written(&error))?;
        work.write(copy)?;
        self.changed.insert(file, changed);
        self.changed.extend(of_format_2);
        Ok((size_of(&self.to.join(name), is_data)?, holds))
    }

    /// Adds attributes to an array: to its metadata, or to a file of format 2, which is returned with its name.
    fn describe(
        &self,
        name: &str,
        format: Format,
        metadata: &mut Value,
        new: Attributes,
    ) -> Outcome<Option<(String, Value)>> {
        let add = |attributes: &mut Value, new: Attributes| {
            for (name, value) in new {
                attributes[name] = value;
            }
        };
        if new.is_empty() {
            return Ok(None);
        }
        if format == Format::Three {
            add(&mut metadata["attributes"], new);
            return Ok(None);
        }
        let file = join(name, ".zattrs");
        let mut attributes = metadata::read(&self.to.join(&file))?.unwrap_or_else(|| json!({}));
        add(&mut attributes, new);
        self.write(&file, &attributes)?;
        Ok(Some((file, attributes)))
    }

    /// Renews the consolidated metadata of a group. What cannot be read, as it is no JSON, is left out in format 2.
    fn renew(&mut self, group: &str) -> Outcome {
        let at = if group.is_empty() { String::new() } else { format!("{group}/") };
        for name in ["zarr.json", ".zmetadata"] {
            let file = format!("{at}{name}");
            match metadata::read(&self.to.join(&file)) {
                Ok(Some(mut metadata)) => {
                    if metadata::renew(&mut metadata, &at, &self.changed) {
                        self.write(&file, &metadata)?;
                    }
                }
                Ok(None) => {}
                Err(_) if name == ".zmetadata" => {
                    fs::remove_file(self.to.join(&file)).map_err(|error| Failure::io(&file, &error))?;
                    self.done.remarks.push(format!("{file}: is no JSON: left out, consolidate the metadata again"));
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    fn create_folder(&self, folder: &str) -> Outcome {
        let _permit = permit();
        fs::create_dir(self.to.join(folder)).map_err(|error| Failure::io(self.args.output.display(), &error))
    }

    fn write(&self, file: &str, metadata: &Value) -> Outcome {
        let _permit = permit();
        let written = fs::write(self.to.join(file), format!("{metadata:#}"));
        written.map_err(|error| Failure::io(self.args.output.display(), &error))
    }

    /// Copies a file, and creates its folder if that is missing.
    fn copy_file(&self, name: &str) -> Outcome {
        let from = self.args.input.join(name);
        if !from.is_file() {
            return Err(Failure::data(format!("{}: is neither a file nor a folder: remove it", from.display())));
        }
        let _permit = permit();
        let to = self.to.join(name);
        let folder = to.parent().unwrap_or(self.to);
        fs::create_dir_all(folder).map_err(|error| Failure::io(self.args.output.display(), &error))?;
        fs::copy(&from, to).map_err(|error| Failure::io(from.display(), &error))?;
        Ok(())
    }
}

/// Returns whether a file has a chunk of an array: its name is that of the chunk whose indices are the numbers in it.
fn is_chunk(array: &StoredArray, file: &str) -> bool {
    let folder = array.path().as_str().trim_start_matches('/');
    let within = file.strip_prefix(folder).unwrap_or(file);
    let numbers = within.split(|character: char| !character.is_ascii_digit()).filter(|number| !number.is_empty());
    let Ok(indices) = numbers.map(str::parse).collect::<Result<Vec<u64>, _>>() else { return false };
    indices.len() == array.shape().len() && array.chunk_key(&indices).as_str() == file
}
