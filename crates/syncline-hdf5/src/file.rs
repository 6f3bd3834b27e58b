//! HDF5 files.

#![allow(unsafe_code, reason = "functions of a library that is found at run time")]

use std::collections::HashMap;
use std::ffi::CString;
use std::fs;
use std::path::Path;

use syncline::{ElementType, ReadAt, Shape};

use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::functions::Id;
use crate::library::{Library, c_name};
use crate::links::{Found, walk};
use crate::object::{DATASET, DEFAULT, Handle};

/// `H5F_ACC_RDONLY`, `H5F_ACC_RDWR`, and `H5F_ACC_TRUNC`.
const READ: u32 = 0;
const CHANGE: u32 = 1;
const REPLACE: u32 = 2;

/// The first bytes of a file, or those at 512, 1024, 2048, and so on after a user block.
const SIGNATURE: [u8; 8] = *b"\x89HDF\r\n\x1a\n";

/// Returns whether a file is an HDF5 file, by its signature.
pub fn has_signature(path: &Path) -> bool {
    let Ok(file) = fs::File::open(path) else { return false };
    let length = file.metadata().map_or(0, |metadata| if metadata.is_file() { metadata.len() } else { 0 });
    let mut starts = std::iter::once(0).chain((9..u64::BITS).map(|power| 1 << power)).take_while(|&at| at < length);
    starts.any(|at| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, at).is_ok() && bytes == SIGNATURE
    })
}

/// Returns what a file is that is no HDF5 file but may have its name, and what to do.
fn other_format(path: &Path) -> Option<&'static str> {
    let mut bytes = [0; 4];
    fs::File::open(path).ok()?.read_exact_at(&mut bytes, 0).ok()?;
    match bytes {
        [b'C', b'D', b'F', 1 | 2 | 5] => Some(
            "is a netCDF-3 file, and only netCDF-4 files are HDF5 files: convert it first, as by nccopy -k nc4 IN OUT",
        ),
        [0x0e, 0x03, 0x13, 0x01] => {
            Some("is an HDF4 file, which is another format than HDF5: convert it first, as by h4toh5 IN OUT")
        }
        _ => None,
    }
}

/// An open file.
pub struct File<'l> {
    pub(crate) handle: Handle<'l>,
    name: String,
}

impl<'l> File<'l> {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// [`Error::Failed`] if it does not exist or is no HDF5 file.
    pub fn open(library: &'l Library, path: &Path) -> Result<Self> {
        Self::with(library, path, |f, name| {
            // SAFETY: a name that ends with a zero byte.
            unsafe { (f.file_open)(name, READ, DEFAULT) }
        })
    }

    /// Opens a file for writing.
    ///
    /// # Errors
    /// [`Error::Failed`] if it does not exist, is no HDF5 file, or may not be written.
    pub fn change(library: &'l Library, path: &Path) -> Result<Self> {
        Self::with(library, path, |f, name| {
            // SAFETY: a name that ends with a zero byte.
            unsafe { (f.file_open)(name, CHANGE, DEFAULT) }
        })
    }

    /// Creates a file, or replaces one, with properties of its creation and of access to it.
    ///
    /// # Errors
    /// [`Error::Failed`] if it cannot be created.
    pub(crate) fn create_with(library: &'l Library, path: &Path, creation: Id, access: Id) -> Result<Self> {
        Self::with(library, path, |f, name| {
            // SAFETY: a name that ends with a zero byte, and property lists or 0.
            unsafe { (f.file_create)(name, REPLACE, creation, access) }
        })
    }

    /// Creates an empty file, or replaces one.
    ///
    /// # Errors
    /// [`Error::Failed`] if it cannot be created.
    pub fn create(library: &'l Library, path: &Path) -> Result<Self> {
        Self::create_with(library, path, DEFAULT, DEFAULT)
    }

    fn with(
        library: &'l Library,
        path: &Path,
        open: impl Fn(&crate::functions::Functions, *const std::ffi::c_char) -> Id,
    ) -> Result<Self> {
        let name = path.display().to_string();
        let c = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| Error::Missing(format!("{name}: no such file")))?;
        let id = open(&library.f, c.as_ptr());
        if let (true, Some(text)) = (id < 0, other_format(path)) {
            return Err(Error::Unsupported(text.into()));
        }
        // SAFETY: a new identifier, which nothing else closes.
        let handle = unsafe { Handle::new(library, id, library.f.file_close, "cannot be opened as an HDF5 file") }?;
        Ok(Self { handle, name })
    }

    pub(crate) fn library(&self) -> &'l Library {
        self.handle.library
    }

    pub(crate) fn id(&self) -> Id {
        self.handle.id
    }

    /// Returns the paths of all datasets, each by its first link.
    ///
    /// # Errors
    /// [`Error::Failed`] if the file is damaged.
    pub fn datasets(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        walk(self.library(), self.id(), "/", &mut HashMap::new(), &mut |group, name, _, what| {
            if let Found::Object(_, DATASET) = what {
                found.push(crate::links::join(group, name));
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Returns whether there is a link at a path, of which groups on the way may be missing.
    ///
    /// # Errors
    /// [`Error::Missing`] for a name that HDF5 does not allow.
    pub fn contains(&self, path: &str) -> Result<bool> {
        let mut end = 0;
        let path = path.trim_end_matches('/');
        loop {
            let start = end + path[end..].bytes().take_while(|&byte| byte == b'/').count();
            if start >= path.len() {
                return Ok(true);
            }
            end = path[start..].find('/').map_or(path.len(), |length| start + length);
            let name = c_name(&path[..end])?;
            // SAFETY: an open identifier and a name that ends with a zero byte.
            if unsafe { (self.library().f.link_exists)(self.id(), name.as_ptr(), DEFAULT) } <= 0 {
                return Ok(false);
            }
        }
    }

    /// Opens a dataset.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is none at this path, with the paths of those that there are;
    /// [`Error::Unsupported`] for a type or shape that Syncline does not have.
    pub fn dataset(&self, path: &str) -> Result<Dataset<'l>> {
        let object = if self.contains(path)? { self.library().object(self.id(), path).ok() } else { None };
        let object = object.filter(|object| self.library().kind(object) == DATASET);
        let Some(object) = object else { return Err(self.missing(path)?) };
        drop(object);
        Dataset::open(self.library(), self.id(), path)
    }

    /// Returns the error for a dataset that does not exist.
    fn missing(&self, path: &str) -> Result<Error> {
        const MOST: usize = 20;
        let there = self.datasets()?;
        let list = there.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
        Ok(Error::Missing(match there.len() {
            0 => "the file has no datasets: name another file".to_string(),
            count if count > MOST => {
                format!("there is no dataset {path}: name one of {list}, and {} others", count - MOST)
            }
            _ => format!("there is no dataset {path}: name one of {list}"),
        }))
    }

    /// Creates a dataset with all its groups, or replaces one. `fill` is the value of elements that are not written.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a type that HDF5 does not have; [`Error::Failed`] if something else is at the path.
    pub fn create_dataset(
        &self,
        path: &str,
        element: ElementType,
        shape: &Shape,
        fill: Option<f64>,
    ) -> Result<Dataset<'l>> {
        if self.contains(path)? {
            let name = c_name(path)?;
            // SAFETY: an open identifier and a name that ends with a zero byte.
            let status = unsafe { (self.library().f.link_delete)(self.id(), name.as_ptr(), DEFAULT) };
            self.library().check(status, format_args!("{path}: cannot be replaced"))?;
        }
        Dataset::create(self.library(), self.id(), path, element, shape, fill)
    }

    /// Closes the file. Everything is then written.
    ///
    /// # Errors
    /// [`Error::Failed`], for instance on a full disk.
    pub fn close(self) -> Result {
        self.handle.close(format_args!("{}: cannot be completed", self.name))
    }
}
