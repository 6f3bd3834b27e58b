//! The HDF5 library of the system, found at run time as the CUDA driver is.

#![allow(unsafe_code, reason = "functions of a library that is found at run time")]

use std::ffi::{CStr, CString, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use crate::error::{Error, Result};
use crate::filter;
use crate::functions::{ErrorRecord, Functions, Id};

/// Names a library file.
const VARIABLE: &str = "SYNCLINE_HDF5_LIBRARY";

/// File names of the library: that of a development package first, then those of versions 2.1 to 1.10. Debian's names
/// contain `serial`.
#[cfg(not(any(target_os = "macos", windows)))]
const NAMES: [&str; 9] = [
    "libhdf5.so",
    "libhdf5_serial.so",
    "libhdf5.so.320",
    "libhdf5.so.310",
    "libhdf5_serial.so.310",
    "libhdf5.so.200",
    "libhdf5_serial.so.200",
    "libhdf5.so.103",
    "libhdf5_serial.so.103",
];
#[cfg(target_os = "macos")]
const NAMES: [&str; 4] =
    ["libhdf5.dylib", "/opt/homebrew/lib/libhdf5.dylib", "/usr/local/lib/libhdf5.dylib", "libhdf5.310.dylib"];
#[cfg(windows)]
const NAMES: [&str; 2] = ["hdf5.dll", "libhdf5.dll"];

/// An HDF5 library. It may have been built without support for threads, so that only one thread may use it.
pub struct Library {
    pub(crate) f: Functions,
    /// Never closed: HDF5 runs code at the end of the program.
    handle: ManuallyDrop<libloading::Library>,
    version: [c_uint; 3],
    one_thread: PhantomData<*const ()>,
}

impl Library {
    /// Loads the library that the environment variable `SYNCLINE_HDF5_LIBRARY` names, or that of the system, and
    /// registers the filter with it.
    ///
    /// # Errors
    /// [`Error::NoLibrary`] if there is none, or if it is older than version 1.10.
    pub fn find() -> Result<Self> {
        let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
        let names: Vec<std::ffi::OsString> = match &named {
            Some(name) => vec![name.clone()],
            None => NAMES.iter().map(Into::into).collect(),
        };
        let mut reasons = Vec::new();
        for name in &names {
            // SAFETY: loading an HDF5 library runs its initialization, which does nothing but prepare its own data.
            match unsafe { libloading::Library::new(name) } {
                Ok(handle) => return Self::of(handle).map_err(|text| unusable(&name.to_string_lossy(), &text)),
                Err(error) => reasons.push(error.to_string()),
            }
        }
        let tried: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
        Err(Error::NoLibrary(match named {
            Some(_) => format!("{VARIABLE}: {}: name a file such as libhdf5.so", reasons.join("; ")),
            None => format!(
                "no HDF5 library was found (tried {}): install one, such as the packages libhdf5-dev of Debian, \
                 hdf5-devel of Fedora, or hdf5 of conda and Homebrew, or name its file in {VARIABLE}",
                tried.join(", ")
            ),
        }))
    }

    fn of(handle: libloading::Library) -> std::result::Result<Self, String> {
        let handle = ManuallyDrop::new(handle);
        // SAFETY: the library has the functions of HDF5, as far as names tell, and is never closed.
        let f = unsafe { Functions::load(&handle) }
            .map_err(|name| format!("it has no function {name}, which HDF5 has since version 1.10.3"))?;
        let mut version = [0; 3];
        let [major, minor, release] = &mut version;
        // SAFETY: places for three numbers; `H5open` may be called at any time. Without a function, errors are not
        // printed. The class of the filter is a constant.
        let registered = unsafe {
            (f.version)(major, minor, release);
            (f.open)();
            (f.print_errors)(0, None, std::ptr::null_mut());
            (f.register_filter)(filter::class())
        };
        match (*major, *minor) {
            (0, _) | (1, ..10) => Err(format!("version {major}.{minor}.{release} is older than 1.10")),
            _ if registered < 0 => Err(format!("version {major}.{minor}.{release} does not take the filter")),
            _ => Ok(Self { f, handle, version, one_thread: PhantomData }),
        }
    }

    /// Returns the version, such as 1.14.5.
    pub fn version(&self) -> String {
        self.version.map(|number| number.to_string()).join(".")
    }

    /// Returns the value of one of the library's variables of identifiers.
    pub(crate) fn constant(&self, name: &str) -> Result<Id> {
        // SAFETY: HDF5 declares variables of type `hid_t` with the names that this crate uses; `H5open` has set them.
        let found = unsafe { self.handle.get::<*const Id>(name.as_bytes()).map(|variable| **variable) };
        found.map_err(|_| Error::Failed(format!("HDF5 {} has no {name}: use another version", self.version())))
    }

    /// Returns the error for a failed call, with what the library says about it.
    pub(crate) fn failed(&self, what: impl std::fmt::Display) -> Error {
        let mut texts: Vec<String> = Vec::new();
        // SAFETY: 0 is the default stack, 1 the direction from the outermost call inwards, and `texts` outlives the
        // call.
        unsafe {
            (self.f.walk_errors)(0, 1, note_error, (&raw mut texts).cast());
            (self.f.clear_errors)(0);
        }
        // The innermost records name the cause, and the outermost what was tried, which `what` says. A filter that is
        // not there is the cause of what happens when it is looked for.
        let filter = texts.iter().rev().find(|text| text.contains("required filter"));
        let advice = if filter.is_some() { ": name the folder of its plugin in HDF5_PLUGIN_PATH" } else { "" };
        let cause = filter.or(texts.last()).map(|text| format!(" (HDF5 {}: {text}){advice}", self.version()));
        Error::Failed(format!("{what}{}", cause.unwrap_or_default()))
    }

    /// Checks the result of a call that returns a status or a count.
    pub(crate) fn check(&self, status: c_int, what: impl std::fmt::Display) -> Result<c_int> {
        if status < 0 { Err(self.failed(what)) } else { Ok(status) }
    }
}

/// Adds the text of a record of the error stack to the list `texts`.
unsafe extern "C" fn note_error(_: c_uint, record: *const ErrorRecord, texts: *mut c_void) -> c_int {
    // SAFETY: HDF5 passes a record whose text ends with a zero byte, and the list that `failed` has passed.
    let (text, texts) = unsafe { ((*record).text, &mut *texts.cast::<Vec<String>>()) };
    if !text.is_null() {
        // SAFETY: as above.
        texts.push(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
    }
    0
}

fn unusable(name: &str, text: &str) -> Error {
    Error::NoLibrary(format!("{name}: {text}: name another HDF5 library in {VARIABLE}"))
}

/// Returns a name as HDF5 takes it.
pub(crate) fn c_name(name: &str) -> Result<CString> {
    CString::new(name).map_err(|_| Error::Missing(format!("{name:?}: names in HDF5 contain no zero byte")))
}
