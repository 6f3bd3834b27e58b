//! The files that a command works on, one after the other.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use walkdir::WalkDir;

use crate::args::{Files, Talk};
use crate::format::{self, counted};
use crate::json;
use crate::message::{Failure, Outcome, remark};
use crate::names::{self, is_dash};
use crate::places::{Place, npz};

/// The files named on a command line, with those in the folders that it names.
#[derive(Debug)]
pub struct Inputs {
    /// The files, each with its place below the folder in which it was found.
    files: Vec<(PathBuf, Option<PathBuf>)>,
    /// Whether a problem with one file leaves the others to do.
    pub several: bool,
}

impl Inputs {
    /// Finds the files in all folders that `wanted` accepts, in the order of their names. `what` names them.
    pub fn find(paths: &[PathBuf], wanted: fn(&Path) -> bool, what: &str) -> Outcome<Self> {
        let mut files = Vec::new();
        let mut folders = false;
        for path in paths {
            if is_dash(path) || !path.is_dir() || matches!(Place::of(path), Place::Zarr { .. }) {
                files.push((path.clone(), None));
                continue;
            }
            folders = true;
            let found = files.len();
            for entry in WalkDir::new(path).sort_by_file_name() {
                let entry = entry.map_err(|error| Failure::data(format!("{error}: check the access rights")))?;
                if entry.path().is_file() && wanted(entry.path()) {
                    let below = entry.path().strip_prefix(path).ok().map(Path::to_owned);
                    files.push((entry.path().to_owned(), below));
                }
            }
            if files.len() == found {
                return Err(Failure::data(format!("{}: the folder has no {what}: name the files", path.display())));
            }
        }
        Ok(Self { several: folders || files.len() > 1, files })
    }

    /// Replaces each `.npz` file by its members.
    pub fn with_members(self) -> Outcome<Self> {
        let mut files = Vec::new();
        for (path, below) in self.files {
            if !names::is_npz(&path) || !path.is_file() {
                files.push((path, below));
                continue;
            }
            for member in npz::members(&path)? {
                files.push((npz::member_path(&path, &member), below.clone()));
            }
        }
        Ok(Self { several: self.several || files.len() > 1, files })
    }

    /// Returns the paths of the files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// Returns each file with its output: `output`, or the name that `default` gives, in the folder of the options.
    pub fn tasks(
        &self,
        output: Option<&Path>,
        options: &Files,
        default: impl Fn(&Path) -> Outcome<PathBuf>,
    ) -> Outcome<Vec<Task>> {
        let dash = PathBuf::from("-");
        // What these names lead to may have no name, or be the file that a shell has just created.
        let standard = |path: &Path| ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|&name| path == name);
        let to_stdout = options.stdout || output.is_some_and(standard);
        let output = if to_stdout { Some(dash.as_path()) } else { output };
        if self.several && output.is_some() {
            return Err(Failure::usage(
                "one output cannot hold several inputs: leave out -o and -c, or use --output-dir for their folder",
            ));
        }
        let mut seen: HashMap<PathBuf, PathBuf> = HashMap::new();
        let mut tasks = Vec::new();
        for (input, below) in &self.files {
            let path = match (output, &options.output_dir) {
                (Some(path), _) => path.to_owned(),
                (None, _) if is_dash(input) => dash.clone(),
                (None, Some(folder)) => {
                    let name = default(input)?;
                    let place = below.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
                    folder.join(place).join(name.file_name().unwrap_or_default())
                }
                (None, None) => default(input)?,
            };
            if options.rm && (is_dash(&path) || path.exists() && !path.is_file()) {
                return Err(Failure::usage("--rm: the output is no file that could replace the input: leave out --rm"));
            }
            if !is_dash(&path)
                && let Some(other) = seen.insert(path.clone(), input.clone())
            {
                return Err(Failure::usage(format!(
                    "{} and {} have the same output {}: use one --output-dir for each",
                    other.display(),
                    input.display(),
                    path.display()
                )));
            }
            tasks.push(Task { input: input.clone(), output: path, in_folder: options.output_dir.is_some() });
        }
        Ok(tasks)
    }
}

/// An input and its output.
#[derive(Debug)]
pub struct Task {
    /// The input, or `-`.
    pub input: PathBuf,
    /// The output, or `-`.
    pub output: PathBuf,
    /// Whether missing folders of the output are created.
    in_folder: bool,
}

impl Task {
    /// Creates the folder of the output if it was named as a folder.
    pub fn make_folder(&self) -> Outcome {
        match self.output.parent() {
            Some(folder) if self.in_folder => {
                fs::create_dir_all(folder).map_err(|error| Failure::io(folder.display(), &error))
            }
            _ => Ok(()),
        }
    }
}

/// What became of one file.
#[derive(Debug, Default)]
pub struct Done {
    /// Bytes of the array.
    pub uncompressed: u64,
    /// Bytes of the stream.
    pub compressed: u64,
    /// The result as JSON, if that was asked for.
    pub json: Option<Value>,
}

/// Works on several files. A problem with one is reported, and the others are done.
#[derive(Debug)]
pub struct Batch {
    several: bool,
    started: Instant,
    done: Vec<Done>,
    failed: u64,
    /// Whether all problems are with the command line.
    usage: bool,
}

impl Batch {
    /// Starts the work.
    pub fn new(several: bool) -> Self {
        Self { several, started: Instant::now(), done: Vec::new(), failed: 0, usage: true }
    }

    /// Takes the result of one file. The problem of a single file is returned.
    pub fn take(&mut self, result: Outcome<Done>) -> Outcome {
        match result {
            Ok(done) => self.done.push(done),
            Err(failure) if self.several => {
                self.usage &= matches!(failure, Failure::Usage(_));
                failure.report();
                self.failed += 1;
            }
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    /// Prints JSON, or the total with `total`.
    pub fn finish(self, talk: Talk, total: impl FnOnce(&Total) -> String) -> Outcome {
        let values: Vec<Value> = self.done.iter().filter_map(|done| done.json.clone()).collect();
        let said = match (values.len(), self.several) {
            (0, _) => {
                if self.several && !talk.quiet {
                    let sum = |bytes: fn(&Done) -> u64| self.done.iter().map(bytes).sum();
                    remark(total(&Total {
                        files: self.done.len() as u64,
                        failed: self.failed,
                        uncompressed: sum(|done| done.uncompressed),
                        compressed: sum(|done| done.compressed),
                        elapsed: self.started.elapsed(),
                    }));
                }
                Ok(())
            }
            (1, false) => json::print(&values[0]),
            _ => json::print(&Value::Array(values)),
        };
        match self.failed {
            0 => said,
            _ => Err(Failure::Silent(if self.usage { 2 } else { 1 })),
        }
    }
}

/// Sums over several files.
#[derive(Debug)]
pub struct Total {
    files: u64,
    failed: u64,
    /// Bytes of the arrays.
    pub uncompressed: u64,
    /// Bytes of the streams.
    pub compressed: u64,
    elapsed: Duration,
}

impl Total {
    /// Returns the line for the total, with what is particular to the command, and the time.
    pub fn line(&self, sizes: &str) -> String {
        format!("{}, {}", self.untimed(sizes), format::timing(self.uncompressed, self.elapsed))
    }

    /// Returns the line for the total, with what is particular to the command.
    pub fn untimed(&self, sizes: &str) -> String {
        let failed = if self.failed > 0 { format!(", {} failed", self.failed) } else { String::new() };
        format!("{}{failed}: {sizes}", counted(self.files, "file"))
    }
}
