//! `--rm`: an input is removed only while its name still leads to the file that was read.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use crate::args::Files;
use crate::message::{Failure, Outcome};
use crate::names::is_dash;

/// The inputs to remove after the output is complete.
#[derive(Debug)]
#[must_use]
pub struct Removal(Vec<(PathBuf, Identity)>);

/// What tells a file from another one of the same name, and from itself after a change.
#[derive(Debug, PartialEq)]
struct Identity {
    #[cfg(unix)]
    place: (u64, u64),
    #[cfg(unix)]
    changed: (i64, i64),
    length: u64,
    modified: Option<std::time::SystemTime>,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt;
        Self {
            #[cfg(unix)]
            place: (metadata.dev(), metadata.ino()),
            #[cfg(unix)]
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            length: metadata.len(),
            modified: metadata.modified().ok(),
        }
    }
}

impl Removal {
    /// Looks at the inputs before they are opened, if the options say that they are removed afterwards.
    pub fn prepare<'a>(options: &Files, inputs: impl IntoIterator<Item = &'a Path>) -> Outcome<Self> {
        let mut files = Vec::new();
        for path in inputs.into_iter().filter(|path| options.rm && !is_dash(path)) {
            let metadata = fs::metadata(path).map_err(|error| Failure::io(path.display(), &error))?;
            if !metadata.is_file() {
                let text = "--rm: the input is no file that could be removed: leave out --rm";
                return Err(Failure::usage(format!("{}: {text}", path.display())));
            }
            files.push((path.to_owned(), Identity::of(&metadata)));
        }
        Ok(Self(files))
    }

    /// Returns whether anything is to be removed, so that the output will be the only copy.
    pub fn is_wanted(&self) -> bool {
        !self.0.is_empty()
    }

    /// Removes the files. One that was changed, or whose name another file got meanwhile, stays, and is an error.
    pub fn remove(self) -> Outcome {
        for (path, before) in self.0 {
            let failed = |error| Failure::io(path.display(), &error);
            if Identity::of(&fs::metadata(&path).map_err(failed)?) != before {
                return Err(Failure::data(format!(
                    "{}: was changed or replaced while it was read, and is kept: the output has the contents from \
                     before: check which one is wanted",
                    path.display()
                )));
            }
            fs::remove_file(&path).map_err(failed)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removal_after(change: impl FnOnce(&Path)) -> (Outcome, bool) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, b"abc").unwrap();
        let options = Files { output_dir: None, stdout: false, force: false, rm: true, keep: false };
        let removal = Removal::prepare(&options, [path.as_path()]).unwrap();
        change(&path);
        (removal.remove(), path.exists())
    }

    #[test]
    fn file_is_removed_only_if_it_is_the_one_from_before() {
        let (removed, exists) = removal_after(|path| assert_eq!(fs::read(path).unwrap(), b"abc"));
        assert!(removed.is_ok() && !exists);
        let times = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
        let changes: [fn(&Path, std::time::SystemTime); 4] = [
            |path, _| fs::write(path, b"abcd").unwrap(),
            // As large and as old as before.
            |path, time| {
                fs::write(path, b"abd").unwrap();
                fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
            },
            |path, time| {
                let new = path.with_extension("new");
                fs::write(&new, b"abc").unwrap();
                fs::File::options().write(true).open(&new).unwrap().set_modified(time).unwrap();
                fs::rename(new, path).unwrap();
            },
            |path, _| {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
            },
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let (removed, exists) = removal_after(|path| change(path, times(path)));
            assert!(matches!(removed, Err(Failure::Data(_))) && exists, "change {number}");
        }
        assert!(removal_after(|path| fs::remove_file(path).unwrap()).0.is_err());
    }
}
