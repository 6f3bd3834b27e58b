//! Identifiers of HDF5, which are closed when they are dropped.

#![allow(unsafe_code, reason = "functions of a library that is found at run time")]

use std::ffi::{c_int, c_void};

use crate::error::Result;
use crate::functions::{EachName, Id};
use crate::library::{Library, c_name};

/// The default property list.
pub const DEFAULT: Id = 0;

/// Kinds of objects: `H5I_type_t`.
pub const GROUP: c_int = 2;
pub const DATASET: c_int = 5;

/// An identifier of the library.
pub struct Handle<'l> {
    pub library: &'l Library,
    pub id: Id,
    close: unsafe extern "C" fn(Id) -> c_int,
}

impl<'l> Handle<'l> {
    /// Takes the identifier that a function has returned. A negative one is an error, about `what`.
    ///
    /// # Safety
    /// Nothing else closes the identifier, and `close` is the function for its kind.
    pub unsafe fn new(
        library: &'l Library,
        id: Id,
        close: unsafe extern "C" fn(Id) -> c_int,
        what: impl std::fmt::Display,
    ) -> Result<Self> {
        if id < 0 { Err(library.failed(what)) } else { Ok(Self { library, id, close }) }
    }

    /// Closes the identifier and tells whether that succeeded; a file is then complete.
    pub fn close(self, what: impl std::fmt::Display) -> Result {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: an open identifier, which is not used afterwards.
        let status = unsafe { (this.close)(this.id) };
        this.library.check(status, what).map(drop)
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        // SAFETY: an open identifier, which is not used afterwards.
        unsafe { (self.close)(self.id) };
    }
}

/// Calls `visit` with the names that `each` visits: in the order of creation if that is known, else by name.
fn names(
    library: &Library,
    id: Id,
    each: unsafe extern "C" fn(Id, c_int, c_int, *mut u64, EachName, *mut c_void) -> c_int,
    what: impl std::fmt::Display,
) -> Result<Vec<String>> {
    const BY_NAME: c_int = 0;
    const BY_CREATION: c_int = 1;
    for index in [BY_CREATION, BY_NAME] {
        let (mut names, mut start) = (Vec::<String>::new(), 0);
        // SAFETY: an open identifier; 0 is ascending order; `note_name` gets the list, which outlives the call.
        let status = unsafe { each(id, index, 0, &raw mut start, note_name, (&raw mut names).cast()) };
        if status >= 0 {
            return Ok(names);
        }
    }
    Err(library.failed(what))
}

/// Adds a name to the list `names`.
unsafe extern "C" fn note_name(_: Id, name: *const std::ffi::c_char, _: *const c_void, names: *mut c_void) -> c_int {
    // SAFETY: HDF5 passes a name that ends with a zero byte, and the list that `names` has passed.
    let (name, names) = unsafe { (std::ffi::CStr::from_ptr(name), &mut *names.cast::<Vec<String>>()) };
    match name.to_str() {
        Ok(name) => {
            names.push(name.to_owned());
            0
        }
        Err(_) => -1,
    }
}

impl Library {
    /// Opens an object by its path.
    pub(crate) fn object(&self, parent: Id, path: &str) -> Result<Handle<'_>> {
        let name = c_name(path)?;
        // SAFETY: an open identifier, and a name that ends with a zero byte; the result is closed by its owner only.
        unsafe {
            let id = (self.f.object_open)(parent, name.as_ptr(), DEFAULT);
            Handle::new(self, id, self.f.object_close, format_args!("{path}: cannot be opened"))
        }
    }

    /// Returns the names of the links of a group.
    pub(crate) fn link_names(&self, group: Id, path: &str) -> Result<Vec<String>> {
        names(self, group, self.f.each_link, format_args!("{path}: its links cannot be listed"))
    }

    /// Returns the names of the attributes of an object.
    pub(crate) fn attribute_names(&self, object: Id, path: &str) -> Result<Vec<String>> {
        names(self, object, self.f.each_attribute, format_args!("{path}: its attributes cannot be listed"))
    }

    /// Returns a new property list of a class, such as `LINK_CREATE`.
    pub(crate) fn properties(&self, class: &str) -> Result<Handle<'_>> {
        let class = self.constant(&format!("H5P_CLS_{class}_ID_g"))?;
        // SAFETY: an identifier of a class; the result is closed by its owner only.
        unsafe {
            let id = (self.f.properties)(class);
            Handle::new(self, id, self.f.properties_close, "a property list cannot be created")
        }
    }

    /// Takes a new identifier of a property list.
    ///
    /// # Safety
    /// Nothing else closes it.
    pub(crate) unsafe fn own_properties(&self, id: Id) -> Result<Handle<'_>> {
        // SAFETY: that of this function.
        unsafe { Handle::new(self, id, self.f.properties_close, "a property list cannot be read") }
    }

    /// Takes a new identifier of a type.
    ///
    /// # Safety
    /// Nothing else closes it.
    pub(crate) unsafe fn own_type(&self, id: Id) -> Result<Handle<'_>> {
        // SAFETY: that of this function.
        unsafe { Handle::new(self, id, self.f.type_close, "a type cannot be read") }
    }

    /// Takes a new identifier of a dataspace.
    ///
    /// # Safety
    /// Nothing else closes it.
    pub(crate) unsafe fn own_space(&self, id: Id) -> Result<Handle<'_>> {
        // SAFETY: that of this function.
        unsafe { Handle::new(self, id, self.f.space_close, "a shape cannot be read") }
    }
}
