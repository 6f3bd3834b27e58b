//! Files that appear under their name only when they are complete.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::TempPath;

/// A file that gets its name when it is complete, so that nobody reads a part of it under that name.
///
/// Until then it has a random name in the same folder. That name is created exclusively: it follows no link, and is
/// never the name of another thread, process, or machine. A file that is dropped before it has its name is removed.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("field.syn");
/// use std::io::Write;
///
/// let mut file = syncline::AtomicFile::create(&path, true, None)?;
/// file.write_all(b"a stream")?;
/// assert!(!path.exists());
/// file.commit()?;
/// assert_eq!(std::fs::read(&path)?, b"a stream");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    named: CompleteFile,
}

/// A file that is complete and closed, but does not have its name yet.
#[derive(Debug)]
pub struct CompleteFile {
    temporary: TempPath,
    target: PathBuf,
    replace: bool,
    is_durable: bool,
}

impl AtomicFile {
    /// Creates a file that will be named `path`. If a symbolic link has that name, the file that it leads to is
    /// replaced.
    ///
    /// The file gets the permissions of the file that it replaces, or else of `model`, the file from which it is made,
    /// or else of any new file. Without `replace`, an existing file is an error, now or at the end.
    ///
    /// # Errors
    /// - `AlreadyExists` without `replace`;
    /// - `IsADirectory` or `InvalidInput` if the name is that of a folder, a pipe, or a device, and `NotFound` if it is
    ///   that of a link that leads nowhere;
    /// - errors of the file system, with their number.
    pub fn create(path: &Path, replace: bool, model: Option<&Metadata>) -> io::Result<Self> {
        let target = match fs::canonicalize(path) {
            Ok(target) => target,
            Err(_) if path.is_symlink() => {
                return Err(io::Error::new(io::ErrorKind::NotFound, "is a link that leads nowhere"));
            }
            Err(_) => path.to_owned(),
        };
        let replaced = fs::metadata(&target).ok();
        match &replaced {
            Some(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Some(metadata) if !metadata.is_file() => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "is a pipe or a device, not a file"));
            }
            Some(_) if !replace => return Err(io::ErrorKind::AlreadyExists.into()),
            _ => {}
        }
        let like = replaced.as_ref().or(model);
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Its own function for opening reports errors without the number of the operating system.
        let created = tempfile::Builder::new()
            .prefix(".syncline-")
            .suffix(".tmp")
            .make_in(folder, |temporary| new_file(like).open(temporary))?;
        let (file, temporary) = created.into_parts();
        if let Some(like) = like {
            keep_permissions(&file, like);
        }
        Ok(Self { file, named: CompleteFile { temporary, target, replace, is_durable: false } })
    }

    /// Returns the file. It can be written at any position, by several threads.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the name that the file has until it is complete.
    pub fn temporary(&self) -> &Path {
        &self.named.temporary
    }

    /// Closes the complete file. If `is_durable`, it is on the disk when this returns, and so is its name after
    /// [`CompleteFile::rename`].
    ///
    /// # Errors
    /// What the file system reports only now, such as a quota or a server that is out of space.
    pub fn close(self, is_durable: bool) -> io::Result<CompleteFile> {
        let Self { file, mut named } = self;
        if is_durable {
            file.sync_all()?;
        }
        close(file)?;
        named.is_durable = is_durable;
        Ok(named)
    }

    /// Gives the complete file its name, after its bytes are on the disk.
    ///
    /// # Errors
    /// As [`Self::close`] and [`CompleteFile::rename`].
    pub fn commit(self) -> io::Result<()> {
        self.close(true)?.rename()
    }
}

impl CompleteFile {
    /// Returns the name that the file has until it is renamed.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// `AlreadyExists` if nothing is to be replaced and another file got the name meanwhile; errors of the file system.
    pub fn rename(self) -> io::Result<()> {
        let Self { temporary, target, replace, is_durable } = self;
        let renamed = if replace { temporary.persist(&target) } else { temporary.persist_noclobber(&target) };
        renamed.map_err(|failed| failed.error)?;
        if is_durable { sync_folder_of(&target) } else { Ok(()) }
    }
}

impl Write for AtomicFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.file.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Returns how a file is created that only its owner can access if the file that it is made from is such a file.
fn new_file(like: Option<&Metadata>) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
        options.mode(like.map_or(0o666, |metadata| metadata.mode() & 0o777));
    }
    #[cfg(not(unix))]
    let _ = like;
    options
}

/// Gives a file permissions that the umask does not reduce.
#[cfg(unix)]
fn keep_permissions(file: &File, like: &Metadata) {
    use std::os::unix::fs::PermissionsExt;
    // A file system without permissions refuses this.
    let _ = file.set_permissions(fs::Permissions::from_mode(like.permissions().mode() & 0o777));
}

/// On other systems the folder decides.
#[cfg(not(unix))]
fn keep_permissions(_: &File, _: &Metadata) {}

/// Closes a file and reports what only closing shows, as on network file systems.
#[cfg(unix)]
fn close(file: File) -> io::Result<()> {
    match nix::unistd::close(file) {
        // The file is closed, and nothing is known to be lost.
        Ok(()) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(unix))]
fn close(file: File) -> io::Result<()> {
    drop(file);
    Ok(())
}

/// Waits until the names in the folder of a file are on the disk.
#[cfg(unix)]
fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A folder in which files can be created may still not be opened for reading.
    let Ok(folder) = File::open(folder) else { return Ok(()) };
    match folder.sync_all() {
        // File systems without such a call.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        result => result,
    }
}

/// Other systems have no such call.
#[cfg(not(unix))]
fn sync_folder_of(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn names_in(folder: &Path) -> HashSet<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn file_has_its_name_only_when_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let mut file = AtomicFile::create(&path, false, None).unwrap();
        file.write_all(b"abc").unwrap();
        assert!(!path.exists());
        file.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"abc");

        let mut dropped = AtomicFile::create(&path, true, None).unwrap();
        dropped.write_all(b"defg").unwrap();
        drop(dropped);
        drop(AtomicFile::create(&path, true, None).unwrap().close(true).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"abc");
        assert_eq!(names_in(folder.path()), HashSet::from(["x".into()]));
    }

    #[test]
    fn file_created_meanwhile_stays_without_replace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let file = AtomicFile::create(&path, false, None).unwrap();
        fs::write(&path, b"theirs").unwrap();
        assert_eq!(file.commit().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        assert_eq!(names_in(folder.path()), HashSet::from(["x".into()]));
        let refused = AtomicFile::create(&path, false, None).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn temporary_names_of_one_file_differ() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let files: Vec<_> = (0..8).map(|_| AtomicFile::create(&path, true, None).unwrap()).collect();
        assert_eq!(names_in(folder.path()).len(), 8);
        assert!(files.iter().all(|file| file.temporary().parent() == Some(folder.path())));
    }

    #[cfg(unix)]
    #[test]
    fn permissions_are_those_of_the_replaced_file_or_the_model() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (path, model) = (folder.path().join("x"), folder.path().join("model"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        fs::write(&model, b"").unwrap();
        fs::set_permissions(&model, fs::Permissions::from_mode(0o606)).unwrap();
        let like = fs::metadata(&model).unwrap();
        AtomicFile::create(&path, true, Some(&like)).unwrap().commit().unwrap();
        assert_eq!(mode(&path), 0o606);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let file = AtomicFile::create(&path, true, Some(&like)).unwrap();
        assert_eq!(mode(file.temporary()), 0o640, "also before it is complete");
        file.commit().unwrap();
        assert_eq!(mode(&path), 0o640);
    }

    #[cfg(unix)]
    #[test]
    fn names_of_links_folders_and_devices_are_not_replaced() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("x"), folder.path().join("link"));
        symlink(&path, &link).unwrap();
        let refused = |path: &Path| AtomicFile::create(path, true, None).unwrap_err();
        assert_eq!(refused(&link).to_string(), "is a link that leads nowhere");
        fs::write(&path, b"old").unwrap();
        let mut file = AtomicFile::create(&link, true, None).unwrap();
        file.write_all(b"new").unwrap();
        file.commit().unwrap();
        assert!(link.is_symlink() && !path.is_symlink(), "the file that the link leads to is replaced");
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(refused(folder.path()).kind(), io::ErrorKind::IsADirectory);
        assert_eq!(refused(Path::new("/dev/null")).kind(), io::ErrorKind::InvalidInput);
        let missing = refused(&folder.path().join("none/x"));
        assert!(missing.raw_os_error().is_some(), "the number of the error is kept: {missing:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn failed_write_back_is_an_error_before_the_rename() {
        // Only at the end does this device report an error, as a file system does for writes that it delays.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let mut file = AtomicFile::create(&path, true, None).unwrap();
        file.file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert!(file.commit().is_err());
        assert_eq!(names_in(folder.path()).len(), 0);
    }
}
