//! Links of groups, and the objects that they lead to.

#![allow(unsafe_code, reason = "functions of a library that is found at run time")]

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint};

use crate::error::{Error, Result};
use crate::functions::Id;
use crate::library::{Library, c_name};
use crate::object::{DEFAULT, GROUP, Handle};

/// Where a link leads.
pub enum Target {
    /// To an object, of which this is the address in the file.
    Object(Address),
    /// To a path in the same file, which may not exist.
    Path(CString),
    /// To a path in another file.
    File(CString, CString),
}

/// The address of an object in its file. References contain it.
pub type Address = u64;

/// A link of a group.
pub struct Link {
    pub target: Target,
    /// Whether the name is UTF-8, and not just ASCII.
    pub is_utf8: bool,
}

/// `H5L_info_t` and `H5L_info2_t`, which differ in the length of the address only.
#[repr(C)]
struct Info {
    kind: c_int,
    order_is_known: bool,
    order: i64,
    encoding: c_int,
    /// The address of the object, or the length of the target in bytes.
    address_or_length: [u64; 2],
    /// For later versions.
    more: [u64; 8],
}

impl Library {
    /// Returns what is known of a link. `path` is its path for messages.
    pub(crate) fn link(&self, group: Id, name: &str, path: &str) -> Result<Link> {
        let c = c_name(name)?;
        let mut info =
            Info { kind: 0, order_is_known: false, order: 0, encoding: 0, address_or_length: [0; 2], more: [0; 8] };
        // SAFETY: an open identifier, a name that ends with a zero byte, and room for the description.
        let status = unsafe { (self.f.link_info)(group, c.as_ptr(), (&raw mut info).cast(), DEFAULT) };
        self.check(status, format_args!("{path}: the link cannot be read"))?;
        let [first, _] = info.address_or_length;
        let target = match info.kind {
            0 => Target::Object(first),
            kind @ (1 | 64) => {
                let length = first as usize;
                // The last byte stays zero.
                let mut value = vec![0u8; length + 1];
                // SAFETY: as above, and room for `length` bytes.
                let status =
                    unsafe { (self.f.link_value)(group, c.as_ptr(), value.as_mut_ptr().cast(), length, DEFAULT) };
                self.check(status, format_args!("{path}: the link cannot be read"))?;
                if kind == 1 { Target::Path(text(&value)) } else { self.external(&value[..length], path)? }
            }
            kind => {
                return Err(Error::Unsupported(format!(
                    "{path}: a link of the user-defined kind {kind} cannot be copied: remove it"
                )));
            }
        };
        Ok(Link { target, is_utf8: info.encoding == 1 })
    }

    fn external(&self, value: &[u8], path: &str) -> Result<Target> {
        let mut flags: c_uint = 0;
        let (mut file, mut object): (*const c_char, *const c_char) = (std::ptr::null(), std::ptr::null());
        // SAFETY: the value of an external link; the results point into it and end with zero bytes.
        let parts = unsafe {
            let status = (self.f.link_external_parts)(
                value.as_ptr().cast(),
                value.len(),
                &raw mut flags,
                &raw mut file,
                &raw mut object,
            );
            (status >= 0).then(|| (CStr::from_ptr(file).to_owned(), CStr::from_ptr(object).to_owned()))
        };
        let (file, object) = parts.ok_or_else(|| self.failed(format_args!("{path}: the link cannot be read")))?;
        Ok(Target::File(file, object))
    }

    /// Returns the kind of an object, such as [`GROUP`].
    pub(crate) fn kind(&self, object: &Handle<'_>) -> c_int {
        // SAFETY: an open identifier.
        unsafe { (self.f.kind)(object.id) }
    }
}

fn text(bytes: &[u8]) -> CString {
    CStr::from_bytes_until_nul(bytes).unwrap_or_default().to_owned()
}

/// Returns the path of a member of a group.
pub fn join(group: &str, name: &str) -> String {
    if group == "/" { format!("/{name}") } else { format!("{group}/{name}") }
}

/// What [`walk`] meets.
pub enum Found<'a, 'l> {
    /// An object, by the first link to it. The parent is the group of the link.
    Object(&'a Handle<'l>, c_int),
    /// Another link to an object, whose first path is this.
    Again(&'a str),
    /// A link to a path, or into another file.
    Elsewhere(&'a Target),
}

/// A visitor of [`walk`]: gets the path of the group, the name of the link, whether it is UTF-8, and what was found.
pub type Visit<'v, 'l> = dyn FnMut(&str, &str, bool, Found<'_, 'l>) -> Result + 'v;

/// Visits all links below a group in order; groups before what is in them.
pub fn walk<'l>(
    library: &'l Library,
    group: Id,
    path: &str,
    paths: &mut HashMap<Address, String>,
    visit: &mut Visit<'_, 'l>,
) -> Result {
    for name in library.link_names(group, path)? {
        let below = join(path, &name);
        let link = library.link(group, &name, &below)?;
        let Target::Object(address) = link.target else {
            visit(path, &name, link.is_utf8, Found::Elsewhere(&link.target))?;
            continue;
        };
        if let Some(first) = paths.get(&address) {
            visit(path, &name, link.is_utf8, Found::Again(first))?;
            continue;
        }
        paths.insert(address, below.clone());
        let object = library.object(group, &name)?;
        let kind = library.kind(&object);
        visit(path, &name, link.is_utf8, Found::Object(&object, kind))?;
        if kind == GROUP {
            walk(library, object.id, &below, paths, visit)?;
        }
    }
    Ok(())
}
