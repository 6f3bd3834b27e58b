//! `.npz` files: zip archives of `.npy` files, which `numpy.savez` writes.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::format::counted;
use crate::message::{Failure, Outcome};

/// Sizes from which on an entry needs the fields of Zip64.
const LARGE: u64 = u32::MAX as u64 - (1 << 16);

/// Returns the name of a member.
pub fn member_path(file: &Path, member: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(":");
    name.push(member);
    name.into()
}

/// Returns the names of the arrays in a file, in order.
pub fn members(path: &Path) -> Outcome<Vec<String>> {
    let archive = open(path)?;
    let names = archive.file_names().filter_map(|name| Some(name.ok()?.strip_suffix(".npy")?.to_string()));
    let names: Vec<String> = names.collect();
    match names.is_empty() {
        true => Err(Failure::data(format!("{}: has no arrays: name a file that numpy.savez wrote", path.display()))),
        false => Ok(names),
    }
}

/// Copies an array of a file, or the only one without a name, to a temporary file.
pub fn extract(path: &Path, member: Option<&str>) -> Outcome<File> {
    let member = match (member, members(path)?.as_slice()) {
        (Some(member), _) => member.to_string(),
        (None, [only]) => only.clone(),
        (None, names) => {
            let (first, all) = (member_path(path, &names[0]), names.join(", "));
            return Err(Failure::usage(format!(
                "{}: has {} arrays ({all}): name one, such as {}",
                path.display(),
                names.len(),
                first.display()
            )));
        }
    };
    let name = member_path(path, &member);
    let mut archive = open(path)?;
    let mut entry = archive.by_name(&format!("{member}.npy")).map_err(|error| failure(&name, error))?;
    let size = entry.size();
    let mut file = tempfile::tempfile().map_err(|error| Failure::io("a temporary file", &error))?;
    // More than the size that the archive states is damage.
    let copied = io::copy(&mut entry.by_ref().take(size.saturating_add(1)), &mut file);
    let copied = copied.map_err(|error| match error.raw_os_error() {
        Some(_) => Failure::io("a temporary file", &error),
        None => damaged(&name, &error),
    })?;
    if copied != size {
        return Err(damaged(&name, format_args!("it has another size than {}", counted(size, "byte"))));
    }
    file.rewind().map_err(|error| Failure::io("a temporary file", &error))?;
    Ok(file)
}

fn open(path: &Path) -> Outcome<ZipArchive<File>> {
    let file = File::open(path).map_err(|error| Failure::io(path.display(), &error))?;
    ZipArchive::new(file).map_err(|error| failure(path, error))
}

fn failure(path: &Path, error: ZipError) -> Failure {
    match error {
        ZipError::Io(error) if error.raw_os_error().is_some() => Failure::io(path.display(), &error),
        ZipError::FileNotFound => {
            Failure::data(format!("{}: there is no such array in the file: check its name", path.display()))
        }
        other => damaged(path, other),
    }
}

fn damaged(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::data(format!("{}: the .npz file is damaged: {why}: copy or save it again", path.display()))
}

/// Writes arrays as the members of a file.
pub struct Writer<W: Write + Seek>(ZipWriter<Sink<W>>, Rc<Cell<Option<io::Error>>>);

impl<W: Write + Seek> Writer<W> {
    /// Starts a file.
    pub fn new(sink: W) -> Self {
        let failure = Rc::default();
        Self(ZipWriter::new(Sink { sink, at: 0, end: 0, failure: Rc::clone(&failure), has_failed: false }), failure)
    }

    /// Starts a member of about this many bytes. What is written next are its header and its elements.
    pub fn start(&mut self, member: &str, bytes: u64) -> io::Result<()> {
        let options =
            SimpleFileOptions::default().compression_method(CompressionMethod::Stored).large_file(bytes >= LARGE);
        self.0.start_file(format!("{member}.npy"), options)?;
        self.check()
    }

    /// Writes the end of the file.
    pub fn finish(self) -> io::Result<()> {
        let Self(writer, failure) = self;
        writer.finish()?;
        failure.take().map_or(Ok(()), Err)
    }

    /// Returns the error of the file, if there was one.
    fn check(&self) -> io::Result<()> {
        self.1.take().map_or(Ok(()), Err)
    }
}

impl<W: Write + Seek> Write for Writer<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.0.write(buffer)?;
        self.check().map(|()| written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()?;
        self.check()
    }
}

/// A file that writes nothing more after its first error, which it keeps. [`ZipWriter`] writes the end of an archive
/// when it is dropped, and prints errors of that by itself.
struct Sink<W> {
    sink: W,
    /// The position, and the end, of what was written or would have been.
    at: u64,
    end: u64,
    failure: Rc<Cell<Option<io::Error>>>,
    has_failed: bool,
}

impl<W> Sink<W> {
    /// Does something with the file unless it has failed.
    fn attempt(&mut self, act: impl FnOnce(&mut W) -> io::Result<()>) {
        if !self.has_failed
            && let Err(error) = act(&mut self.sink)
        {
            self.has_failed = true;
            self.failure.set(Some(error));
        }
    }
}

impl<W: Write> Write for Sink<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.attempt(|sink| sink.write_all(buffer));
        self.at += buffer.len() as u64;
        self.end = self.end.max(self.at);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt(Write::flush);
        Ok(())
    }
}

impl<W: Seek> Seek for Sink<W> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.end.checked_add_signed(by),
        };
        self.at = target.ok_or(io::ErrorKind::InvalidInput)?;
        let at = self.at;
        self.attempt(|sink| sink.seek(SeekFrom::Start(at)).map(drop));
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_member_follows_a_colon() {
        assert_eq!(member_path(Path::new("a/x.npz"), "t"), Path::new("a/x.npz:t"));
    }
}
