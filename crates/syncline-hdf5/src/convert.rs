//! Copies of files in which the floating-point datasets are compressed by the filter.

#![allow(unsafe_code, reason = "functions of a library that is found at run time")]

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, c_int, c_void};
use std::fs;
use std::path::Path;

use syncline::{ReadAt, WriteAt};

use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::file::File;
use crate::library::{Library, c_name};
use crate::links::{Address, Found, Target, join, walk};
use crate::object::{DATASET, DEFAULT, GROUP, Handle};
use crate::options::Options;
use crate::recompress::{Choice, Recompress};
use crate::references::{Contains, References, contained, is_variable};

/// `H5O_COPY_WITHOUT_ATTR_FLAG` and `H5O_COPY_MERGE_COMMITTED_DTYPE_FLAG`: attributes are copied when all objects
/// exist, and a type that datasets share stays one.
const COPY_OPTIONS: u32 = 0x10 | 0x40;

/// What became of a dataset that was compressed.
#[derive(Clone, Debug)]
pub struct Change {
    /// Path.
    pub path: String,
    /// Bytes that the chunks take now.
    pub after: u64,
    /// The bound that holds: an absolute error, or relative to each value for [`PwRel`](syncline::Bound::PwRel); 0 if
    /// lossless.
    pub holds: f64,
}

/// What a conversion did.
#[derive(Debug, Default)]
pub struct Conversion {
    /// The datasets that were compressed, in order.
    pub changes: Vec<Change>,
    /// Attributes and datasets with references of the kind that HDF5 1.12 added, which are null in the copy.
    pub lost_references: u64,
}

/// Copies a file. The datasets for whose paths there are choices are compressed, and all others are as they were.
/// `show` gets the path of each dataset before it is compressed, and the share of it that is done.
///
/// # Errors
/// [`Error::Failed`] for a damaged file, a filter that is not found, or a full disk; [`Error::Unsupported`] for what
/// cannot be copied. The output is then incomplete.
pub fn convert(
    library: &Library,
    from: &Path,
    to: &Path,
    choices: &HashMap<String, Choice>,
    options: &Options,
    show: &mut dyn FnMut(&str, u64, u64),
) -> Result<Conversion> {
    let source = File::open(library, from)?;
    let properties = file_properties(library, &source)?;
    let access = access_properties(library, &properties)?;
    let target = File::create_with(library, to, properties.id, access.id)?;
    let mut copy = Copy::new(&source, &target, choices, options)?;
    let mut paths = HashMap::new();
    walk(library, source.id(), "/", &mut paths, &mut |group, name, is_utf8, found| {
        copy.link(group, name, is_utf8, found, show)
    })?;
    copy.finish(&paths)?;
    let done = copy.done;
    target.close()?;
    copy_user_block(library, &properties, from, to)?;
    Ok(done)
}

/// Returns the properties with which a file was created. Those of the root group are stored with the group.
fn file_properties<'l>(library: &'l Library, source: &File<'l>) -> Result<Handle<'l>> {
    let root = library.object(source.id(), "/")?;
    // SAFETY: an open identifier; the result is closed by its owner only.
    let properties = unsafe { library.own_properties((library.f.file_creation)(source.id()))? };
    copy_orders(library, &root, &properties)?;
    Ok(properties)
}

/// Sets which orders of links and attributes are kept, as in a group. Its other properties must not be used for another
/// group: they contain places in its file.
fn copy_orders(library: &Library, group: &Handle<'_>, properties: &Handle<'_>) -> Result {
    let f = &library.f;
    // SAFETY: open identifiers, and places for the results; the property list is closed by its owner only.
    unsafe {
        let group = library.own_properties((f.group_creation)(group.id))?;
        let (mut links, mut attributes) = (0, 0);
        let is_set = (f.link_order)(group.id, &raw mut links) >= 0
            && (f.set_link_order)(properties.id, links) >= 0
            && (f.attribute_order)(group.id, &raw mut attributes) >= 0
            && (f.set_attribute_order)(properties.id, attributes) >= 0;
        if is_set { Ok(()) } else { Err(library.failed("the order of links cannot be set")) }
    }
}

/// Returns the properties for writing a copy. That of a file in the format of version 1.8 or newer may have what the
/// older format has not, such as large attributes.
fn access_properties<'l>(library: &'l Library, creation: &Handle<'l>) -> Result<Handle<'l>> {
    /// `H5F_LIBVER_V18` and `H5F_LIBVER_V110`.
    const BOUNDS: [c_int; 2] = [1, 2];
    let access = library.properties("FILE_ACCESS")?;
    let [mut super_block, mut free, mut table, mut header] = [0; 4];
    // SAFETY: open identifiers, and places for the results.
    unsafe {
        let f = &library.f;
        (f.format_version)(creation.id, &raw mut super_block, &raw mut free, &raw mut table, &raw mut header);
        if super_block >= 2 {
            let status = (f.set_format_versions)(access.id, BOUNDS[0], BOUNDS[1]);
            library.check(status, "the version of the format cannot be set")?;
        }
    }
    Ok(access)
}

/// Copies the bytes before the contents of HDF5, which other programs may need.
fn copy_user_block(library: &Library, properties: &Handle<'_>, from: &Path, to: &Path) -> Result {
    let mut length = 0;
    // SAFETY: an open identifier, and room for the length.
    unsafe { (library.f.user_block)(properties.id, &raw mut length) };
    if length == 0 {
        return Ok(());
    }
    let copied = fs::File::open(from).and_then(|from| {
        let mut bytes = vec![0; length as usize];
        from.read_exact_at(&mut bytes, 0)?;
        fs::OpenOptions::new().write(true).open(to)?.write_all_at(&bytes, 0)
    });
    copied.map_err(|error| Error::Failed(format!("the user block cannot be copied: {error}")))
}

/// Tells HDF5 not to search the whole copy for a type: it may crash (1.10 to 2.2 do).
/// The types that have been copied are known by their paths.
unsafe extern "C" fn stop_searching(_: *mut c_void) -> c_int {
    const STOP: c_int = 1;
    STOP
}

/// A copy that is being made.
struct Copy<'a, 'l> {
    library: &'l Library,
    source: &'a File<'l>,
    target: &'a File<'l>,
    choices: &'a HashMap<String, Choice>,
    options: &'a Options,
    /// Properties of links with names in ASCII and in UTF-8.
    links: [Handle<'l>; 2],
    copying: Handle<'l>,
    /// The paths of all objects, and of datasets that have no elements yet.
    objects: Vec<String>,
    to_fill: HashSet<String>,
    done: Conversion,
}

impl<'a, 'l> Copy<'a, 'l> {
    fn new(
        source: &'a File<'l>,
        target: &'a File<'l>,
        choices: &'a HashMap<String, Choice>,
        options: &'a Options,
    ) -> Result<Self> {
        let library = source.library();
        let links = [library.properties("LINK_CREATE")?, library.properties("LINK_CREATE")?];
        let copying = library.properties("OBJECT_COPY")?;
        // SAFETY: open identifiers; 1 stands for UTF-8.
        unsafe {
            library.check((library.f.set_name_encoding)(links[1].id, 1), "a property cannot be set")?;
            library.check((library.f.set_copy_options)(copying.id, COPY_OPTIONS), "a property cannot be set")?;
            let status = (library.f.set_type_search)(copying.id, stop_searching, std::ptr::null_mut());
            library.check(status, "a property cannot be set")?;
        }
        Ok(Self {
            library,
            source,
            target,
            choices,
            options,
            links,
            copying,
            objects: vec!["/".into()],
            to_fill: HashSet::new(),
            done: Conversion::default(),
        })
    }

    /// Copies a link, and what it leads to if this is met for the first time.
    fn link(
        &mut self,
        group: &str,
        name: &str,
        is_utf8: bool,
        found: Found<'_, 'l>,
        show: &mut dyn FnMut(&str, u64, u64),
    ) -> Result {
        let path = join(group, name);
        let (f, to, links) = (&self.library.f, self.target.id(), self.links[usize::from(is_utf8)].id);
        let c = c_name(&path)?;
        let what = format!("{path}: cannot be created");
        match found {
            Found::Again(first) => {
                let first = c_name(first)?;
                // SAFETY: open identifiers and names that end with a zero byte.
                let status = unsafe { (f.link_hard)(to, first.as_ptr(), to, c.as_ptr(), links, DEFAULT) };
                self.library.check(status, what)?;
            }
            Found::Elsewhere(Target::Path(value)) => {
                // SAFETY: as above.
                let status = unsafe { (f.link_soft)(value.as_ptr(), to, c.as_ptr(), links, DEFAULT) };
                self.library.check(status, what)?;
            }
            Found::Elsewhere(Target::File(file, object)) => {
                // SAFETY: as above.
                let status =
                    unsafe { (f.link_external)(file.as_ptr(), object.as_ptr(), to, c.as_ptr(), links, DEFAULT) };
                self.library.check(status, what)?;
            }
            Found::Elsewhere(Target::Object(_)) => {}
            Found::Object(object, kind) => {
                match kind {
                    GROUP => self.group(object, &c, links, what)?,
                    DATASET => self.dataset(object, &path, &c, links, show)?,
                    _ => {
                        self.object(&c, links)?;
                        // SAFETY: an open identifier and a name that ends with a zero byte.
                        unsafe { (f.add_type_path)(self.copying.id, c.as_ptr()) };
                    }
                }
                self.objects.push(path);
            }
        }
        Ok(())
    }

    fn group(&self, group: &Handle<'_>, path: &CStr, links: i64, what: String) -> Result {
        let f = &self.library.f;
        let creation = self.library.properties("GROUP_CREATE")?;
        copy_orders(self.library, group, &creation)?;
        // SAFETY: open identifiers and a name that ends with a zero byte; the result is closed by its owner only.
        unsafe {
            let id = (f.group_create)(self.target.id(), path.as_ptr(), links, creation.id, DEFAULT);
            Handle::new(self.library, id, f.object_close, what).map(drop)
        }
    }

    /// Copies an object without its attributes, and without decompressing it.
    fn object(&self, path: &CStr, links: i64) -> Result {
        let (from, to) = (self.source.id(), self.target.id());
        // SAFETY: open identifiers and names that end with zero bytes.
        let status =
            unsafe { (self.library.f.object_copy)(from, path.as_ptr(), to, path.as_ptr(), self.copying.id, links) };
        self.library.check(status, format_args!("{}: cannot be copied", path.to_string_lossy())).map(drop)
    }

    fn dataset(
        &mut self,
        object: &Handle<'_>,
        path: &str,
        c: &CStr,
        links: i64,
        show: &mut dyn FnMut(&str, u64, u64),
    ) -> Result {
        let f = &self.library.f;
        // SAFETY: an open identifier; the results are closed by their owners only.
        let (kind, space, creation) = unsafe {
            (
                self.library.own_type((f.dataset_type)(object.id))?,
                self.library.own_space((f.dataset_space)(object.id))?,
                self.library.own_properties((f.dataset_creation)(object.id))?,
            )
        };
        let Some(choice) = self.choices.get(path) else {
            return self.other(path, c, links, [&kind, &space, &creation]);
        };
        let source = Dataset::open(self.library, self.source.id(), path)?;
        let work = Recompress { choice, options: self.options, source: &source, path, links, creation };
        let (after, holds) = work.run(self.target.id(), c, &mut |done, total| show(path, done, total))?;
        self.done.changes.push(Change { path: path.to_owned(), after, holds });
        Ok(())
    }

    /// Copies a dataset that is not compressed. HDF5 itself makes references null, and fill values of variable length
    /// unreadable.
    fn other(&mut self, path: &str, c: &CStr, links: i64, [kind, space, creation]: [&Handle<'_>; 3]) -> Result {
        let f = &self.library.f;
        let contains = contained(self.library, kind.id)?;
        if contains == Contains::Others {
            self.done.lost_references += 1;
            return self.object(c, links);
        }
        if contains == Contains::Nothing && !is_variable(self.library, kind.id)? {
            return self.object(c, links);
        }
        self.to_fill.insert(path.to_owned());
        // SAFETY: open identifiers and a name that ends with a zero byte; the results are closed by their owners only.
        // A type that is committed to the file is copied.
        unsafe {
            let kind = self.library.own_type((f.type_copy)(kind.id))?;
            let (to, name) = (self.target.id(), c.as_ptr());
            let id = (f.dataset_create)(to, name, kind.id, space.id, links, creation.id, DEFAULT);
            Handle::new(self.library, id, f.object_close, format_args!("{path}: cannot be created")).map(drop)
        }
    }

    /// Copies the attributes of all objects, and references, when all objects exist.
    fn finish(&mut self, paths: &HashMap<Address, String>) -> Result {
        let references = References { library: self.library, paths, from: self.source.id(), to: self.target.id() };
        let changes: HashMap<&str, f64> =
            self.done.changes.iter().map(|change| (change.path.as_str(), change.holds)).collect();
        for path in &self.objects {
            let from = self.library.object(self.source.id(), path)?;
            let to = self.library.object(self.target.id(), path)?;
            let described = changes.get(path.as_str()).zip(self.choices.get(path));
            let new = described.map(|(&holds, choice)| (choice.describe)(holds)).unwrap_or_default();
            self.done.lost_references += references.copy_attributes(from.id, to.id, path, &new)?;
            if self.to_fill.contains(path) {
                references.copy_values(from.id, to.id, path)?;
            }
        }
        Ok(())
    }
}
