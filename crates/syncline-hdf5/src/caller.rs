//! The functions of the HDF5 library that calls the filter.
//!
//! A process may contain several HDF5 libraries (the Python packages h5py and netCDF4 each bring one), and identifiers
//! of one mean nothing to another. The calling library is the one that contains the return address of the callback.

#![allow(unsafe_code, reason = "functions of a library that is found at run time")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};

use crate::functions::{FilterAt, FilterById, Id, TypeFunctions};

/// Functions of one HDF5 library, named as there.
#[derive(Clone, Copy)]
pub struct Library {
    pub get_filter_by_id: FilterById,
    pub filter_count: unsafe extern "C" fn(Id) -> c_int,
    pub get_filter: FilterAt,
    pub modify_filter: unsafe extern "C" fn(Id, c_int, c_uint, usize, *const c_uint) -> c_int,
    pub get_chunk: unsafe extern "C" fn(Id, c_int, *mut u64) -> c_int,
    pub types: TypeFunctions,
    pub fill_value_defined: unsafe extern "C" fn(Id, *mut c_int) -> c_int,
    pub get_fill_value: unsafe extern "C" fn(Id, Id, *mut c_void) -> c_int,
    errors: Option<Errors>,
}

/// What adding a message to the error stack takes. It is optional: without it, errors have no text.
#[derive(Clone, Copy)]
struct Errors {
    push: unsafe extern "C" fn(Id, *const c_char, *const c_char, c_uint, Id, Id, Id, *const c_char, ...) -> c_int,
    class: Id,
    major: Id,
    minor: Id,
}

impl Library {
    /// Returns the functions of the library that contains the address `caller`, or of the program if that is null;
    /// `None` if it has not all of them.
    ///
    /// # Safety
    /// `caller` is null or a code address of this process.
    pub unsafe fn of(caller: *const c_void) -> Option<Self> {
        static KNOWN: Mutex<Vec<(usize, Library)>> = Mutex::new(Vec::new());
        // SAFETY: a struct of pointers, for which zeros are null.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: `dladdr` looks the address up and reads nothing there.
        let found = !caller.is_null() && unsafe { libc::dladdr(caller, &raw mut info) } != 0;
        let base = if found { info.dli_fbase as usize } else { 0 };
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, library)) = known.iter().find(|(other, _)| *other == base) {
            return Some(*library);
        }
        // With RTLD_NOLOAD no library is loaded. A program that is linked statically is opened without a name.
        let mut handle = std::ptr::null_mut();
        if found {
            // SAFETY: the name comes from `dladdr` and ends with a zero byte.
            handle = unsafe { libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        }
        if handle.is_null() {
            // SAFETY: without a name, the result stands for the program and its libraries.
            handle = unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_LAZY) };
        }
        // SAFETY: an open handle, which stays open as long as the functions are kept: it is never closed.
        let library = unsafe { Self::load(handle) }?;
        known.push((base, library));
        Some(library)
    }

    /// Looks the functions up.
    ///
    /// # Safety
    /// `handle` is an open handle of an HDF5 library that is never closed.
    #[allow(clippy::missing_transmute_annotations, reason = "the fields have the types of the functions")]
    unsafe fn load(handle: *mut c_void) -> Option<Self> {
        macro_rules! function {
            ($name:literal) => {{
                // SAFETY: an open handle, and a name that ends with a zero byte.
                let symbol = unsafe { libc::dlsym(handle, $name.as_ptr()) };
                if symbol.is_null() {
                    return None;
                }
                // SAFETY: HDF5 declares the function with this name and signature since version 1.10.
                unsafe { std::mem::transmute::<*mut c_void, _>(symbol) }
            }};
        }
        Some(Self {
            get_filter_by_id: function!(c"H5Pget_filter_by_id2"),
            filter_count: function!(c"H5Pget_nfilters"),
            get_filter: function!(c"H5Pget_filter2"),
            modify_filter: function!(c"H5Pmodify_filter"),
            get_chunk: function!(c"H5Pget_chunk"),
            types: TypeFunctions {
                class: function!(c"H5Tget_class"),
                size: function!(c"H5Tget_size"),
                sign: function!(c"H5Tget_sign"),
                order: function!(c"H5Tget_order"),
                fields: function!(c"H5Tget_fields"),
            },
            fill_value_defined: function!(c"H5Pfill_value_defined"),
            get_fill_value: function!(c"H5Pget_fill_value"),
            // SAFETY: an open handle that is never closed.
            errors: unsafe { Errors::load(handle) },
        })
    }

    /// Adds a message to the error stack of the library.
    pub fn push_error(&self, message: &CStr) {
        let Some(errors) = self.errors else { return };
        let (file, function) = (c"syncline".as_ptr(), c"set_local".as_ptr());
        // SAFETY: strings that end with a zero byte; the format takes one string. 0 is the default error stack.
        unsafe {
            (errors.push)(
                0,
                file,
                function,
                0,
                errors.class,
                errors.major,
                errors.minor,
                c"%s".as_ptr(),
                message.as_ptr(),
            )
        };
    }
}

impl Errors {
    /// Looks the function and the identifiers of error classes up.
    ///
    /// # Safety
    /// `handle` is an open handle of an HDF5 library that is never closed.
    #[allow(clippy::missing_transmute_annotations, reason = "the fields have the types of the functions")]
    unsafe fn load(handle: *mut c_void) -> Option<Self> {
        let symbol = |name: &CStr| {
            // SAFETY: an open handle, and a name that ends with a zero byte.
            let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
            (!symbol.is_null()).then_some(symbol)
        };
        let id = |name: &CStr| {
            // SAFETY: HDF5 declares variables of type `hid_t` with these names, set before it calls any filter.
            symbol(name).map(|variable| unsafe { variable.cast::<Id>().read() })
        };
        Some(Self {
            // SAFETY: HDF5 declares the function with this signature.
            push: unsafe { std::mem::transmute::<*mut c_void, _>(symbol(c"H5Epush2")?) },
            class: id(c"H5E_ERR_CLS_g")?,
            major: id(c"H5E_PLINE_g")?,
            minor: id(c"H5E_BADTYPE_g")?,
        })
    }
}
