//! The functions of the HDF5 library that calls the filter.
//!
//! A process may contain several HDF5 libraries (the Python packages h5py and netCDF4 each bring one), and identifiers
//! of one mean nothing to another. The calling library is the one that contains the return address of the callback.

#![allow(unsafe_code, reason = "functions of a library that is found at run time")]

#[cfg(unix)]
use std::ffi::OsStr;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
#[cfg(unix)]
use std::os::unix::ffi::OsStrExt;
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
        // SAFETY: as promised by the caller.
        let (base, handle) = unsafe { module_of(caller) };
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, library)) = known.iter().find(|(other, _)| *other == base) {
            return Some(*library);
        }
        // Never closed, since its functions are kept.
        let handle = ManuallyDrop::new(handle()?);
        // SAFETY: an HDF5 library, as far as names tell, that is never closed.
        let library = unsafe { Self::load(&handle) }?;
        known.push((base, library));
        Some(library)
    }

    /// Looks the functions up.
    ///
    /// # Safety
    /// An HDF5 library that is never closed.
    unsafe fn load(handle: &libloading::Library) -> Option<Self> {
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: HDF5 declares the function with this name and signature since version 1.10.
                unsafe { *handle.get($name).ok()? }
            };
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
            // SAFETY: a library that is never closed.
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
    /// An HDF5 library that is never closed.
    unsafe fn load(handle: &libloading::Library) -> Option<Self> {
        // SAFETY: HDF5 declares variables of type `hid_t` with these names, set before it calls any filter.
        let id = |name: &CStr| unsafe { handle.get::<*const Id>(name).ok().map(|variable| **variable) };
        Some(Self {
            // SAFETY: HDF5 declares the function with this signature.
            push: unsafe { *handle.get(c"H5Epush2").ok()? },
            class: id(c"H5E_ERR_CLS_g")?,
            major: id(c"H5E_PLINE_g")?,
            minor: id(c"H5E_BADTYPE_g")?,
        })
    }
}

/// Returns where the module that contains an address is in memory, 0 for the program itself, and a function that opens
/// it without loading anything.
///
/// # Safety
/// `address` is null or a code address of this process.
#[cfg(unix)]
unsafe fn module_of(address: *const c_void) -> (usize, impl FnOnce() -> Option<libloading::Library>) {
    use libloading::os::unix::{Library, RTLD_LAZY};

    // SAFETY: a struct of pointers, for which zeros are null.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `dladdr` looks the address up and reads nothing there.
    let found = !address.is_null() && unsafe { libc::dladdr(address, &raw mut info) } != 0;
    let open = move || {
        if found {
            // SAFETY: the name comes from `dladdr` and ends with a zero byte.
            let name = OsStr::from_bytes(unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes());
            // SAFETY: with RTLD_NOLOAD no library is loaded, so that no code runs.
            if let Ok(library) = unsafe { Library::open(Some(name), RTLD_LAZY | libc::RTLD_NOLOAD) } {
                return Some(library.into());
            }
        }
        // Stands for the program, which may contain HDF5, and its libraries.
        Some(Library::this().into())
    };
    (if found { info.dli_fbase as usize } else { 0 }, open)
}

/// Returns where the module that contains an address is in memory, 0 for the program itself, and a function that opens
/// it without loading anything.
///
/// # Safety
/// `address` is null or a code address of this process.
#[cfg(windows)]
unsafe fn module_of(address: *const c_void) -> (usize, impl FnOnce() -> Option<libloading::Library>) {
    use libloading::os::windows::Library;

    /// The name is an address in the module, which then stays loaded.
    const FROM_ADDRESS: u32 = 4;
    const PIN: u32 = 1;

    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GetModuleHandleExW(flags: u32, name: *const u16, module: *mut isize) -> i32;
    }

    let mut module = 0;
    let found = !address.is_null()
        // SAFETY: the function looks the address up and reads nothing there.
        && unsafe { GetModuleHandleExW(FROM_ADDRESS | PIN, address.cast(), &raw mut module) } != 0;
    let open = move || match found {
        // SAFETY: a handle of a module that stays loaded.
        true => Some(unsafe { Library::from_raw(module) }.into()),
        false => Library::this().ok().map(Into::into),
    };
    (if found { module as usize } else { 0 }, open)
}
