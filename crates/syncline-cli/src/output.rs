//! Outputs: written under a temporary name, and renamed when they are complete.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
#[cfg(feature = "zarr")]
use std::sync::{RwLock, RwLockReadGuard};
use std::time::SystemTime;

use syncline::AtomicFile;

use crate::message::{Failure, Outcome};
use crate::names::is_dash;

use crate::started::stdout_is_closed;

/// The temporary files that exist now. The thread that ends the program holds the lock while it removes them and until
/// the end, so that no file is created, renamed, or forgotten meanwhile.
static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn temporary() -> MutexGuard<'static, Vec<PathBuf>> {
    // The list stays usable after a panic.
    TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Names of stdout besides `-`.
const STDOUT: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Permits to write into temporary folders. The thread that ends the program takes them all and keeps them, so that
/// nothing appears in a folder while it is removed.
#[cfg(feature = "zarr")]
static PERMITS: RwLock<()> = RwLock::new(());

/// Returns the folder that a file or a folder is in.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns a permit to write into a temporary folder, or to rename one. At the end of the program, there are none: the
/// thread waits for its end.
#[cfg(feature = "zarr")]
pub fn permit() -> RwLockReadGuard<'static, ()> {
    PERMITS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Removes unfinished outputs. No output can be created or finished afterwards; for use at the end of the program.
pub fn remove_unfinished() {
    #[cfg(feature = "zarr")]
    std::mem::forget(PERMITS.write().unwrap_or_else(PoisonError::into_inner));
    let names = temporary();
    for name in names.iter() {
        // There is nobody left to report an error to.
        let _ = fs::remove_file(name).or_else(|_| fs::remove_dir_all(name));
    }
    std::mem::forget(names);
}

/// Creates a folder that is renamed when it is complete, and removed at the end of the program otherwise.
#[cfg(feature = "zarr")]
pub fn temporary_folder(parent: &Path) -> io::Result<tempfile::TempDir> {
    let mut names = temporary();
    let folder = tempfile::Builder::new().prefix(".syncline-").suffix(".tmp").tempdir_in(parent)?;
    names.push(folder.path().to_path_buf());
    Ok(folder)
}

/// The destination of an output.
#[derive(Debug)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// A pipe or device, which is written directly.
    Device(File, PathBuf),
    /// A file, which gets its name at the end.
    File(PendingFile),
}

/// A file that gets its name at the end.
#[derive(Debug)]
pub struct PendingFile {
    file: AtomicFile,
    /// The name as the user wrote it.
    name: PathBuf,
    /// Whether a file that exists is replaced.
    replaces: bool,
    /// The time of modification of the input.
    modified: Option<SystemTime>,
}

impl Output {
    /// Prepares to write `path` (`-` for stdout). `inputs` are refused as outputs.
    pub fn create(path: &Path, force: bool, inputs: &[&Path]) -> Outcome<Self> {
        let is_stdout = is_dash(path) || STDOUT.iter().any(|name| path == Path::new(name));
        if is_stdout && stdout_is_closed() {
            return Err(Failure::data("stdout: is closed: redirect it, or name another output with -o"));
        }
        if is_dash(path) {
            if io::stdout().is_terminal() {
                return Err(Failure::usage("stdout is a terminal: name an output with -o, or redirect"));
            }
            return Ok(Self::Stdout);
        }
        let shown = path.display();
        // Links to pipes, such as those of a shell's >(...), lead to no name.
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
            let file = OpenOptions::new().write(true).open(path);
            return Ok(Self::Device(file.map_err(|error| Failure::io(shown, &error))?, path.to_owned()));
        }
        let replaced = fs::metadata(path).is_ok();
        if replaced && inputs.iter().any(|input| is_same(input, path)) {
            return Err(Failure::usage(format!("{shown}: is the input: name another output with -o")));
        }
        let model = match inputs {
            [input] => fs::metadata(input).ok().filter(Metadata::is_file),
            _ => None,
        };
        PendingFile::create(path, force, replaced, model.as_ref()).map(Self::File)
    }

    /// Returns whether this is stdout, which then carries only the output.
    pub fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout)
    }

    /// Returns the name for messages.
    pub fn name(&self) -> String {
        match self {
            Self::Stdout => "stdout".into(),
            Self::Device(_, name) => name.display().to_string(),
            Self::File(file) => file.name.display().to_string(),
        }
    }

    /// Returns the file, if it can be written at positions.
    pub fn file(&self) -> Option<&File> {
        match self {
            Self::File(pending) => Some(pending.file.file()),
            _ => None,
        }
    }

    /// Returns the name that the file has until it is complete.
    pub fn temporary(&self) -> Option<&Path> {
        match self {
            Self::File(pending) => Some(pending.file.temporary()),
            _ => None,
        }
    }

    /// Gives the complete file its name. Until then nothing exists under that name.
    ///
    /// With `is_only_copy`, as when the input is removed next, the file is on the disk when this returns. So is one
    /// that replaces another, because a crash could leave neither. Others are written back as the system likes.
    pub fn commit(mut self, is_only_copy: bool) -> Outcome {
        let name = self.name();
        let written = self.flush().map_err(|error| Failure::io(&name, &error));
        written.and_then(|()| match self {
            Self::Stdout => close_stdout().map_err(|error| Failure::io(&name, &error)),
            Self::Device(file, _) => close(file).map_err(|error| Failure::io(&name, &error)),
            Self::File(pending) => pending.commit(is_only_copy),
        })
    }
}

impl Write for Output {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout => io::stdout().write(buffer),
            Self::Device(file, _) => file.write(buffer),
            Self::File(pending) => pending.file.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout => io::stdout().flush(),
            Self::Device(file, _) => file.flush(),
            Self::File(pending) => pending.file.flush(),
        }
    }
}

impl PendingFile {
    /// A new file gets the permissions of the file `model`, from which it is made. Its time of modification is that of
    /// the model, too, as other compressors do it.
    fn create(path: &Path, force: bool, replaces: bool, model: Option<&Metadata>) -> Outcome<Self> {
        let mut names = temporary();
        let file = AtomicFile::create(path, force, model).map_err(|error| not_created(path, &error))?;
        names.push(file.temporary().to_path_buf());
        #[cfg(unix)]
        crate::aborted::remember(file.temporary());
        let modified = model.and_then(|metadata| metadata.modified().ok());
        Ok(Self { file, name: path.to_owned(), replaces, modified })
    }

    fn commit(self, is_only_copy: bool) -> Outcome {
        let Self { file, name, replaces, modified } = self;
        if let Some(time) = modified {
            // A file system without such times ignores this.
            let _ = file.file().set_modified(time);
        }
        let complete = file.close(is_only_copy || replaces).map_err(|error| not_kept(&name, &error))?;
        let mut names = temporary();
        names.retain(|listed| *listed != *complete.temporary());
        complete.rename().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Failure::usage(format!(
                "{}: was created by another program meanwhile: add --force to replace it",
                name.display()
            )),
            _ => Failure::io(name.display(), &error),
        })
    }
}

/// Returns whether two names lead to the same file.
fn is_same(a: &Path, b: &Path) -> bool {
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

/// Closes stdout as far as its file system can tell: on network file systems, that shows whether all was written.
fn close_stdout() -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        close(File::from(io::stdout().as_fd().try_clone_to_owned()?))?;
    }
    Ok(())
}

/// Closes a file and reports what only closing shows.
fn close(file: File) -> io::Result<()> {
    #[cfg(unix)]
    nix::unistd::close(file)?;
    #[cfg(not(unix))]
    drop(file);
    Ok(())
}

fn not_created(path: &Path, error: &io::Error) -> Failure {
    let (name, folder) = (path.display(), folder_of(path).display());
    match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::usage(format!("{name}: exists already: add --force to replace it, or name another with -o"))
        }
        io::ErrorKind::IsADirectory => Failure::usage(format!("{name}: is a directory: name a file in it with -o")),
        io::ErrorKind::NotFound if path.is_symlink() => {
            Failure::usage(format!("{name}: is a link that leads nowhere: remove it, or name another output with -o"))
        }
        io::ErrorKind::NotFound => Failure::data(format!("{name}: the folder {folder} does not exist: create it")),
        io::ErrorKind::NotADirectory => Failure::data(format!("{name}: {folder} is not a folder: name another output")),
        _ => Failure::io(name, error),
    }
}

/// The failure of a file that could not be written to the end.
fn not_kept(path: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::StorageFull => Failure::io(path.display(), error),
        _ => Failure::data(format!("{}: could not be written to the end: {error}: check the device", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_has_no_name_before_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let entries = || fs::read_dir(folder.path()).unwrap().count();
        let mut output = Output::create(&path, false, &[]).unwrap();
        output.write_all(b"abc").unwrap();
        assert!(!path.exists());
        output.commit(false).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"abc");
        assert_eq!(entries(), 1);

        #[cfg(unix)]
        {
            let link = folder.path().join("link");
            std::os::unix::fs::symlink(&path, &link).unwrap();
            let mut output = Output::create(&link, true, &[]).unwrap();
            assert_eq!(output.name(), link.display().to_string(), "as the user calls it");
            output.write_all(b"abc").unwrap();
            output.commit(false).unwrap();
            assert!(link.is_symlink() && !path.is_symlink(), "what the link points to is replaced");
            fs::remove_file(link).unwrap();
        }

        assert!(matches!(Output::create(&path, false, &[]), Err(Failure::Usage(_))));
        assert!(matches!(Output::create(&path, true, &[&path]), Err(Failure::Usage(_))), "the input");
        drop(Output::create(&path, true, &[]).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"abc", "an abandoned output changes nothing");
        assert_eq!(entries(), 1);

        let late = folder.path().join("late");
        let output = Output::create(&late, false, &[]).unwrap();
        fs::write(&late, b"theirs").unwrap();
        assert!(matches!(output.commit(false), Err(Failure::Usage(_))));
        assert_eq!(fs::read(&late).unwrap(), b"theirs");
        assert_eq!(entries(), 2);
    }
}
