//! NVRTC, CUDA's run-time compiler, loaded on first use.
//!
//! `cudarc` cannot load it: when built for CUDA 12, `cudarc` does not look for NVRTC 13 (`libnvrtc.so.13`, the only
//! name in NVIDIA's Python package), it takes the first library it finds even if the driver cannot run that library's
//! code, and it panics where this module has to report an error. Result codes are read as integers, because a newer
//! library may return codes that an enum lacks.

#![allow(unsafe_code)]

use std::error::Error;
use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use libloading::Library;

use crate::error::{CudaError, Result};

type Program = *mut c_void;
type Code = c_int;

/// Version of CUDA or of one of its components.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// One source file of a kernel, or a header that such files include by name.
#[derive(Debug, Clone, Copy)]
pub struct Source {
    /// File name.
    pub name: &'static str,
    /// File contents.
    pub text: &'static str,
}

// Kernels are looked up by source in every call that makes a decompressor, so that no text is read to find one.
impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && (std::ptr::eq(self.text, other.text) || self.text == other.text)
    }
}

impl Eq for Source {}

impl Hash for Source {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.name, self.text.len()).hash(state);
    }
}

/// The folders that [`Nvrtc::search_also`] added.
static ADDED_FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A loaded NVRTC library.
#[derive(Debug)]
pub struct Nvrtc {
    name: String,
    version: Version,
    architectures: Vec<u32>,
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> Code,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Code,
    destroy: unsafe extern "C" fn(*mut Program) -> Code,
    image_size: unsafe extern "C" fn(Program, *mut usize) -> Code,
    image: unsafe extern "C" fn(Program, *mut c_char) -> Code,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> Code,
    log: unsafe extern "C" fn(Program, *mut c_char) -> Code,
    error_text: unsafe extern "C" fn(Code) -> *const c_char,
    // Keeps the library mapped, because the fields above point to its functions.
    _library: Library,
    // Libraries of built-in functions that NVRTC looks for at its first compilation; not loaded if all kernels are in
    // the cache.
    builtins: OnceLock<Vec<Library>>,
}

impl Nvrtc {
    /// Returns an NVRTC for a driver of CUDA version `driver` and a device of compute capability `capability` (`10 *
    /// major + minor`). The driver may reject code of a compiler with a newer major version, and each NVRTC supports a
    /// range of devices. If `SYNCLINE_NVRTC` names a library (a file or its folder), only that one is tried. Otherwise
    /// the library path, the usual folders of the toolkit, the packages of the active Python environment, and the
    /// folders of [`Self::search_also`] are searched.
    ///
    /// # Errors
    /// [`CudaError::NoCompiler`] if no suitable library is found, [`CudaError::ChosenCompiler`] if the one that
    /// `SYNCLINE_NVRTC` names is unsuitable. Both list the libraries that were found.
    pub fn find(driver: Version, capability: u32) -> Result<&'static Self> {
        let chosen = std::env::var_os("SYNCLINE_NVRTC").filter(|value| !value.is_empty()).map(PathBuf::from);
        Self::find_chosen(chosen.as_deref(), driver, capability)
    }

    /// Adds folders that [`Self::find`] searches after all others, in the order in which they were added. Programs that
    /// know where a package manager has installed NVRTC call this before they open a device. Relative paths are left
    /// out.
    pub fn search_also(folders: impl IntoIterator<Item = PathBuf>) {
        let mut added = ADDED_FOLDERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for folder in folders {
            if folder.is_absolute() && !added.contains(&folder) {
                added.push(folder);
            }
        }
    }

    fn find_chosen(chosen: Option<&Path>, driver: Version, capability: u32) -> Result<&'static Self> {
        // Libraries are loaded once per process and never unloaded.
        static LOADED: Mutex<Vec<&'static Nvrtc>> = Mutex::new(Vec::new());
        let mut loaded = LOADED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let suits = |nvrtc: &Nvrtc| nvrtc.version.major <= driver.major && nvrtc.architecture_for(capability).is_some();
        if let Some(nvrtc) = loaded.iter().find(|nvrtc| suits(nvrtc)) {
            return Ok(nvrtc);
        }
        let mut refused = Vec::new();
        for name in chosen.map_or_else(|| candidates(driver.major), |path| files_of(path, driver.major)) {
            match Self::load(&name) {
                Ok(nvrtc) if suits(&nvrtc) => {
                    let nvrtc: &'static Self = Box::leak(Box::new(nvrtc));
                    loaded.push(nvrtc);
                    return Ok(nvrtc);
                }
                Ok(nvrtc) => refused.push(format!("{name} is version {}", nvrtc.version)),
                Err(why) if chosen.is_some() => refused.push(why),
                // Most of the candidates do not exist.
                Err(_) => {}
            }
        }
        let wanted = format!("the driver takes up to version {}, the device is sm_{capability}", driver.major);
        let found = if refused.is_empty() { "none found".to_owned() } else { refused.join(", ") };
        let details = format!("{found}; {wanted}");
        Err(match chosen {
            Some(path) => CudaError::ChosenCompiler { path: path.display().to_string(), details },
            None => CudaError::NoCompiler { details },
        })
    }

    /// Loads the library with this file name or path. Returns an error message if it cannot be loaded or lacks a
    /// function (NVRTC before 11.2).
    fn load(name: &str) -> std::result::Result<Self, String> {
        let failed = |error: libloading::Error| failure(name, &error);
        // SAFETY: loading runs the library's initializers. The name is one that NVIDIA gives NVRTC, or the user has
        // chosen it.
        let library = unsafe { Library::new(name) }.map_err(failed)?;
        macro_rules! function {
            ($symbol:literal) => {{
                // SAFETY: the field has the function's type in nvrtc.h, which has not changed since 11.2. `library` is
                // stored beside the pointers and outlives them.
                *unsafe { library.get($symbol) }.map_err(failed)?
            }};
        }
        let version_of: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Code = function!(b"nvrtcVersion\0");
        let architecture_count: unsafe extern "C" fn(*mut c_int) -> Code = function!(b"nvrtcGetNumSupportedArchs\0");
        let architecture_list: unsafe extern "C" fn(*mut c_int) -> Code = function!(b"nvrtcGetSupportedArchs\0");
        let (mut major, mut minor, mut count) = (0, 0, 0);
        // SAFETY: both functions write integers to the given places, which are valid.
        let codes = unsafe { [version_of(&mut major, &mut minor), architecture_count(&mut count)] };
        let mut architectures = vec![0 as c_int; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the function writes as many integers as `architecture_count` returned, which is the buffer's length.
        let code = unsafe { architecture_list(architectures.as_mut_ptr()) };
        if codes != [0, 0] || code != 0 {
            return Err(format!("{name} does not answer"));
        }
        let positive = |value: c_int| u32::try_from(value).unwrap_or(0);
        Ok(Self {
            name: name.to_owned(),
            version: Version { major: positive(major), minor: positive(minor) },
            architectures: architectures.into_iter().map(positive).collect(),
            create: function!(b"nvrtcCreateProgram\0"),
            compile: function!(b"nvrtcCompileProgram\0"),
            destroy: function!(b"nvrtcDestroyProgram\0"),
            image_size: function!(b"nvrtcGetCUBINSize\0"),
            image: function!(b"nvrtcGetCUBIN\0"),
            log_size: function!(b"nvrtcGetProgramLogSize\0"),
            log: function!(b"nvrtcGetProgramLog\0"),
            error_text: function!(b"nvrtcGetErrorString\0"),
            _library: library,
            builtins: OnceLock::new(),
        })
    }

    /// Returns the library's file name or path.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the library's version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the architectures that the library compiles for, as `10 * major + minor`.
    pub fn architectures(&self) -> &[u32] {
        &self.architectures
    }

    /// Returns the newest supported architecture whose code runs on `capability`: same major version, and a minor
    /// version that is not greater.
    pub fn architecture_for(&self, capability: u32) -> Option<u32> {
        let runs = |&&known: &&u32| known <= capability && known / 10 == capability / 10;
        self.architectures.iter().filter(runs).max().copied()
    }

    /// Compiles `source` for `sm_<architecture>` into a cubin, with additional compiler options.
    ///
    /// # Errors
    /// [`CudaError::Compile`] with the compiler's log.
    pub fn compile(
        &self,
        (name, text_of_source): (&str, &str),
        headers: &[Source],
        options: &[String],
        architecture: u32,
    ) -> Result<Vec<u8>> {
        self.builtins.get_or_init(|| builtins_beside(Path::new(&self.name)));
        let failed =
            |log: String| CudaError::Compile { source_name: name.to_owned(), arch: format!("sm_{architecture}"), log };
        let text = |text: &str| CString::new(text).map_err(|_| failed("a zero byte in the source or an option".into()));
        let headers = headers.iter().map(|h| Ok((text(h.text)?, text(h.name)?))).collect::<Result<Vec<_>>>()?;
        let header_texts: Vec<_> = headers.iter().map(|header| header.0.as_ptr()).collect();
        let header_names: Vec<_> = headers.iter().map(|header| header.1.as_ptr()).collect();
        let (source_text, source_name) = (text(text_of_source)?, text(name)?);
        let mut options = options.iter().map(|option| text(option)).collect::<Result<Vec<_>>>()?;
        options.push(text(&format!("-arch=sm_{architecture}"))?);
        let option_texts: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();

        let mut handle = std::ptr::null_mut();
        // SAFETY: every pointer is a C string, or an array of such pointers, that outlives the program; the counts are
        // the lengths of the arrays.
        let code = unsafe {
            (self.create)(
                &mut handle,
                source_text.as_ptr(),
                source_name.as_ptr(),
                header_texts.len() as c_int,
                header_texts.as_ptr(),
                header_names.as_ptr(),
            )
        };
        if code != 0 {
            return Err(failed(self.error_text(code)));
        }
        let program = OpenProgram { nvrtc: self, handle };
        // SAFETY: `program` is a valid handle; the count is the length of the array.
        let code = unsafe { (self.compile)(program.handle, option_texts.len() as c_int, option_texts.as_ptr()) };
        if code != 0 {
            let log = program.bytes(self.log_size, self.log).unwrap_or_default();
            let log = String::from_utf8_lossy(&log).trim_end_matches(['\0', '\n']).to_owned();
            return Err(failed(if log.is_empty() { self.error_text(code) } else { log }));
        }
        program.bytes(self.image_size, self.image).map_err(|code| failed(self.error_text(code)))
    }

    fn error_text(&self, code: Code) -> String {
        // SAFETY: the library returns a static C string for every result code.
        unsafe { CStr::from_ptr((self.error_text)(code)) }.to_string_lossy().into_owned()
    }
}

/// An NVRTC program, destroyed when it goes out of scope.
struct OpenProgram<'a> {
    nvrtc: &'a Nvrtc,
    handle: Program,
}

impl OpenProgram<'_> {
    /// Returns the bytes that a pair of NVRTC functions yields: `size_of` returns their number, and `read` copies them.
    fn bytes(
        &self,
        size_of: unsafe extern "C" fn(Program, *mut usize) -> Code,
        read: unsafe extern "C" fn(Program, *mut c_char) -> Code,
    ) -> std::result::Result<Vec<u8>, Code> {
        let mut size = 0;
        // SAFETY: `self.handle` is a valid program.
        let code = unsafe { size_of(self.handle, &mut size) };
        if code != 0 {
            return Err(code);
        }
        let mut bytes = vec![0_u8; size];
        // SAFETY: `read` writes as many bytes as `size_of` returned, which is the buffer's length.
        let code = unsafe { read(self.handle, bytes.as_mut_ptr().cast()) };
        if code == 0 { Ok(bytes) } else { Err(code) }
    }
}

impl Drop for OpenProgram<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is a valid program and is not used again.
        unsafe { (self.nvrtc.destroy)(&mut self.handle) };
    }
}

/// Loads the libraries of built-in functions in the folder of `library`. When NVRTC compiles, it asks the loader for
/// them by file name only, which succeeds if they are loaded already. NVIDIA's Python package of version 13 installs
/// both where the loader does not search.
fn builtins_beside(library: &Path) -> Vec<Library> {
    let folder = library.parent().filter(|folder| !folder.as_os_str().is_empty());
    let files = folder.and_then(|folder| std::fs::read_dir(folder).ok());
    let is_wanted = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        ["libnvrtc-builtins.so", "nvrtc-builtins64_"].iter().any(|start| name.starts_with(start))
    };
    let paths = files.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).filter(is_wanted);
    // If a library cannot be loaded, NVRTC reports what is missing. SAFETY: loading runs the library's initializers. It
    // has the name of NVIDIA's library and lies in the folder of the chosen NVRTC.
    paths.filter_map(|path| unsafe { Library::new(path) }.ok()).collect()
}

/// Returns the system's error message for a library, with the library's name; only messages of Linux contain the name
/// already.
fn failure(name: &str, error: &libloading::Error) -> String {
    let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    if why.contains(name) { why } else { format!("{name}: {why}") }
}

/// Returns the possible file names of NVRTC, newest version first. `newest` is the newest major version that the driver
/// supports.
fn file_names(newest: u32) -> Vec<String> {
    let majors = (12..=newest).rev();
    let mut names: Vec<String> = if cfg!(windows) {
        majors.map(|major| format!("nvrtc64_{major}0_0.dll")).collect()
    } else {
        majors.map(|major| format!("libnvrtc.so.{major}")).collect()
    };
    // The unversioned name, which the toolkit installs for linking.
    names.push(format!("{}nvrtc{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX));
    names
}

/// Returns `chosen` if it is a file; if it is a folder, returns the files in it that may be NVRTC.
fn files_of(chosen: &Path, newest: u32) -> Vec<String> {
    let paths = match chosen.is_dir() {
        true => file_names(newest).iter().map(|name| chosen.join(name)).filter(|path| path.exists()).collect(),
        false => vec![chosen.to_path_buf()],
    };
    paths.iter().map(|path| path.to_string_lossy().into_owned()).collect()
}

/// Returns the names and paths to try in order, if `SYNCLINE_NVRTC` names none.
fn candidates(newest: u32) -> Vec<String> {
    candidates_by(newest, |variable| std::env::var_os(variable))
}

/// Returns the names and paths to try for these values of environment variables. Only absolute paths count: an empty or
/// a relative one would make the current folder a place of libraries that are loaded.
fn candidates_by(newest: u32, value: impl Fn(&str) -> Option<OsString>) -> Vec<String> {
    let names = file_names(newest);
    let mut all = names.clone();
    let named = |variables: [&'static str; 2]| {
        variables.map(&value).into_iter().flatten().map(PathBuf::from).filter(|folder| folder.is_absolute())
    };
    let toolkit = named(["CUDA_HOME", "CUDA_PATH"]).chain([PathBuf::from("/usr/local/cuda")]);
    let of_toolkit = toolkit.flat_map(|folder| ["lib64", "lib", "bin", "bin/x64"].map(|part| folder.join(part)));
    let of_packages = named(["VIRTUAL_ENV", "CONDA_PREFIX"]).flat_map(|environment| packages_in(&environment));
    let added = ADDED_FOLDERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    for folder in of_toolkit.chain(of_packages).chain(added).filter(|folder| folder.is_dir()) {
        all.extend(names.iter().map(|name| folder.join(name).to_string_lossy().into_owned()));
    }
    all
}

/// Returns the library folders of NVIDIA's packages in a Python environment, such as
/// `lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib`, and the environment's own library folder, where conda installs
/// NVRTC.
fn packages_in(environment: &Path) -> Vec<PathBuf> {
    let entries = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path()))
    };
    let lib = environment.join(if cfg!(windows) { "Lib" } else { "lib" });
    let versions = if cfg!(windows) { vec![lib.clone()] } else { entries(lib.clone()).collect() };
    let packages = versions.into_iter().flat_map(|folder| entries(folder.join("site-packages").join("nvidia")));
    let folders = packages.flat_map(|package| ["lib", "bin"].map(|part| package.join(part)));
    let mut all: Vec<PathBuf> = folders.collect();
    all.sort();
    all.push(lib);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_version_first() {
        let names = candidates(13);
        let position = |end: &str| names.iter().position(|name| name.ends_with(end));
        if cfg!(target_os = "linux") {
            assert!(position("libnvrtc.so.13").unwrap() < position("libnvrtc.so.12").unwrap());
            assert!(position("libnvrtc.so.12").unwrap() < position("libnvrtc.so").unwrap());
        }
        assert!(candidates(12).iter().all(|name| !name.ends_with(".13")));
    }

    #[test]
    fn only_absolute_folders_of_the_environment_are_searched() {
        let folder = std::env::temp_dir().join(format!("syncline-nvrtc-places-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("lib")).unwrap();
        let below = |value: &Path| {
            let names = candidates_by(12, |_| Some(value.as_os_str().to_owned()));
            names.iter().filter(|name| Path::new(name).starts_with(value.join("lib"))).count()
        };
        assert_ne!(below(&folder), 0);
        // The same folder, as a path from the current one.
        let up: PathBuf = std::env::current_dir().unwrap().ancestors().skip(1).map(|_| "..").collect();
        let relative = up.join(folder.strip_prefix("/").unwrap_or(&folder));
        assert!(relative.join("lib").is_dir() || cfg!(windows));
        assert_eq!(below(&relative), 0);
        let names = candidates_by(12, |_| Some("".into()));
        assert!(names.iter().all(|name| Path::new(name).is_absolute() || !name.contains('/')), "{names:?}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn packages_of_a_python_environment_are_found() {
        let environment = std::env::temp_dir().join(format!("syncline-nvrtc-{}", std::process::id()));
        let python = environment.join(if cfg!(windows) { "Lib" } else { "lib/python3.12" });
        let library = python.join("site-packages").join("nvidia").join("cuda_nvrtc").join("lib");
        std::fs::create_dir_all(&library).unwrap();
        let found = packages_in(&environment);
        assert!(found.contains(&library), "{found:?}");
        std::fs::remove_dir_all(&environment).unwrap();
        assert_eq!(packages_in(&environment).len(), 1);
    }

    #[test]
    fn added_folders_come_last() {
        let folder = std::env::temp_dir().join(format!("syncline-nvrtc-added-{}", std::process::id()));
        let is_last = || candidates(12).last().is_some_and(|name| Path::new(name).starts_with(&folder));
        Nvrtc::search_also([folder.clone()]);
        assert!(!is_last(), "a folder that does not exist is left out");
        std::fs::create_dir_all(&folder).unwrap();
        assert!(is_last());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn absence_names_what_to_install() {
        // No NVRTC compiles for this capability, so every installed library is unsuitable.
        let error = Nvrtc::find_chosen(None, Version { major: 12, minor: 0 }, 1).unwrap_err();
        assert!(matches!(error, CudaError::NoCompiler { .. }));
        assert!(error.to_string().contains("nvidia-cuda-nvrtc-cu12"), "{error}");
        assert!(Nvrtc::load("libnvrtc-not-there.so").is_err());
    }

    #[test]
    fn named_compiler_that_does_not_load_is_an_error() {
        let folder = std::env::temp_dir().join(format!("syncline-nvrtc-chosen-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let message = |chosen: &Path| {
            let error = Nvrtc::find_chosen(Some(chosen), Version { major: 12, minor: 0 }, 1).unwrap_err();
            let CudaError::ChosenCompiler { path, details } = &error else { panic!("{error}") };
            assert_eq!(*path, chosen.display().to_string());
            assert!(error.to_string().contains("SYNCLINE_NVRTC names"), "{error}");
            details.clone()
        };
        assert!(message(&folder).contains("none found"));
        let absent = folder.join("libnvrtc-not-there.so");
        assert!(message(&absent).contains("libnvrtc-not-there.so"));
        let file = folder.join(file_names(12).remove(0));
        std::fs::write(&file, b"no library").unwrap();
        for chosen in [&folder, &file] {
            let details = message(chosen);
            assert!(!details.contains("none found") && details.contains("; the driver takes"), "{details}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
