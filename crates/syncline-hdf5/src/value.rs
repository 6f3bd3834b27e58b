//! Values of attributes: text and numbers.

#![allow(unsafe_code, reason = "functions of a library that is found at run time, and data that it allocates")]

use std::ffi::{CStr, c_char};

use crate::element::{FLOAT, INTEGER, STRING};
use crate::error::Result;
use crate::functions::Id;
use crate::library::{Library, c_name};
use crate::object::{DEFAULT, Handle};

/// Bytes of an attribute above which its value is not looked at.
const MOST: usize = 1 << 20;

/// `H5S_SCALAR`.
const SCALAR: std::ffi::c_int = 0;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text. Several strings are separated by blanks.
    Text(String),
    /// Numbers of any type.
    Numbers(Vec<f64>),
}

impl Value {
    /// Reads an attribute of an object; `None` if there is none of this name with such a value.
    pub(crate) fn read(library: &Library, object: Id, name: &str) -> Result<Option<Self>> {
        let f = &library.f;
        let c = c_name(name)?;
        // SAFETY: open identifiers and a name that ends with a zero byte; the results are closed by their owners only.
        let (attribute, kind, space) = unsafe {
            if (f.attribute_exists)(object, c.as_ptr()) <= 0 {
                return Ok(None);
            }
            let id = (f.attribute_open)(object, c.as_ptr(), DEFAULT);
            let attribute = Handle::new(library, id, f.attribute_close, "an attribute cannot be opened")?;
            let kind = library.own_type((f.attribute_type)(attribute.id))?;
            let space = library.own_space((f.attribute_space)(attribute.id))?;
            (attribute, kind, space)
        };
        // SAFETY: open identifiers.
        let (class, size, count, is_variable) = unsafe {
            let count = usize::try_from((f.space_points)(space.id)).unwrap_or(0);
            ((f.type_class)(kind.id), (f.type_size)(kind.id), count, (f.type_is_variable_string)(kind.id) > 0)
        };
        if count == 0 || count.saturating_mul(size.max(8)) > MOST {
            return Ok(None);
        }
        let what = format_args!("the attribute {name} cannot be read");
        match class {
            INTEGER | FLOAT => {
                let mut numbers = vec![0f64; count];
                // SAFETY: open identifiers, and room for the numbers, to which HDF5 converts those of the file.
                let status = unsafe {
                    let native = library.constant("H5T_NATIVE_DOUBLE_g")?;
                    (f.attribute_read)(attribute.id, native, numbers.as_mut_ptr().cast())
                };
                library.check(status, what)?;
                Ok(Some(Self::Numbers(numbers)))
            }
            STRING if is_variable => {
                let mut strings: Vec<*const c_char> = vec![std::ptr::null(); count];
                // SAFETY: open identifiers, and room for the pointers to strings that end with a zero byte or are null.
                // HDF5 allocates them, and frees them when they have been copied.
                let text = unsafe {
                    let status = (f.attribute_read)(attribute.id, kind.id, strings.as_mut_ptr().cast());
                    library.check(status, what)?;
                    let text = |&string: &*const c_char| match string.is_null() {
                        true => String::new(),
                        false => CStr::from_ptr(string).to_string_lossy().into_owned(),
                    };
                    let texts: Vec<String> = strings.iter().map(text).collect();
                    (f.free_variable)(kind.id, space.id, DEFAULT, strings.as_mut_ptr().cast());
                    texts.join(" ")
                };
                Ok(Some(Self::Text(text)))
            }
            STRING => {
                let mut bytes = vec![0u8; count * size];
                // SAFETY: open identifiers, and room for the strings, whose type in memory is that in the file.
                let status = unsafe { (f.attribute_read)(attribute.id, kind.id, bytes.as_mut_ptr().cast()) };
                library.check(status, what)?;
                let text = |bytes: &[u8]| {
                    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
                    String::from_utf8_lossy(&bytes[..end]).into_owned()
                };
                Ok(Some(Self::Text(bytes.chunks(size.max(1)).map(text).collect::<Vec<_>>().join(" "))))
            }
            _ => Ok(None),
        }
    }

    /// Writes an attribute that an object does not have yet: text as netCDF does, and numbers as binary64.
    pub(crate) fn write(&self, library: &Library, object: Id, path: &str, name: &str) -> Result {
        let f = &library.f;
        let c = c_name(name)?;
        let what = || format!("{path}: the attribute {name} cannot be written");
        // SAFETY: open identifiers, a name that ends with a zero byte, and as many bytes as type and dataspace have;
        // the results are closed by their owners only.
        unsafe {
            let (kind, space, data) = match self {
                Self::Text(text) => {
                    let kind = library.own_type((f.type_copy)(library.constant("H5T_C_S1_g")?))?;
                    library.check((f.type_set_size)(kind.id, text.len().max(1)), what())?;
                    // An empty string points to no byte that may be read.
                    let data = if text.is_empty() { c"".as_ptr().cast() } else { text.as_ptr() };
                    (kind, library.own_space((f.space_of_kind)(SCALAR))?, data)
                }
                Self::Numbers(numbers) => {
                    let kind = library.own_type((f.type_copy)(library.constant("H5T_NATIVE_DOUBLE_g")?))?;
                    let count = numbers.len() as u64;
                    let space = match numbers.as_slice() {
                        [_] => (f.space_of_kind)(SCALAR),
                        _ => (f.space_simple)(1, &raw const count, std::ptr::null()),
                    };
                    (kind, library.own_space(space)?, numbers.as_ptr().cast::<u8>())
                }
            };
            let id = (f.attribute_create)(object, c.as_ptr(), kind.id, space.id, DEFAULT, DEFAULT);
            let attribute = Handle::new(library, id, f.attribute_close, what())?;
            library.check((f.attribute_write)(attribute.id, kind.id, data.cast()), what()).map(drop)
        }
    }
}
