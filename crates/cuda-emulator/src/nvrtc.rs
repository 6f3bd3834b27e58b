//! The functions of `libnvrtc.so` that the emulator exports. They call the real compiler, but return PTX in place of
//! machine code.
//!
//! The environment variable `CUDA_EMULATOR_NVRTC` names the library of the real compiler. As in [`crate::driver`],
//! callers must pass pointers that are valid as the documentation requires.

#![allow(unsafe_code)]
#![expect(clippy::missing_safety_doc, reason = "it is the same for all functions, as said above")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library;

type Program = *mut c_void;
type Code = c_int;

/// The environment variable that names the real library.
const VARIABLE: &str = "CUDA_EMULATOR_NVRTC";

/// The result code `NVRTC_ERROR_INVALID_INPUT`.
const INVALID_INPUT: Code = 3;

/// The result code `NVRTC_ERROR_INTERNAL_ERROR`.
const INTERNAL_ERROR: Code = 11;

/// The real NVRTC library.
#[derive(Debug)]
struct Compiler {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Code,
    architecture_count: unsafe extern "C" fn(*mut c_int) -> Code,
    architectures: unsafe extern "C" fn(*mut c_int) -> Code,
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
    ptx_size: unsafe extern "C" fn(Program, *mut usize) -> Code,
    ptx: unsafe extern "C" fn(Program, *mut c_char) -> Code,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> Code,
    log: unsafe extern "C" fn(Program, *mut c_char) -> Code,
    error_text: unsafe extern "C" fn(Code) -> *const c_char,
    // Keeps the library mapped, because the fields above point to its functions.
    _library: Library,
    // Keeps the libraries that NVRTC looks for by name when it compiles.
    _builtins: Vec<Library>,
}

impl Compiler {
    /// Loads the library in this file. Returns a message if that fails.
    fn load(file: &Path) -> Result<Self, String> {
        let failed = |error: libloading::Error| format!("{}: {error}", file.display());
        // The library's symbols stay local (`RTLD_LOCAL`, the default of libloading), because this crate exports the
        // same names. SAFETY: loading runs the initializers of a library that the user has named.
        let library = unsafe { Library::new(file) }.map_err(failed)?;
        macro_rules! function {
            ($symbol:literal) => {{
                // SAFETY: the field has the function's type in nvrtc.h; `library` is stored beside the pointers and
                // outlives them.
                *unsafe { library.get($symbol) }.map_err(failed)?
            }};
        }
        let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Code = function!(b"nvrtcVersion\0");
        if version as usize == nvrtcVersion as *const () as usize {
            return Err(format!("{VARIABLE} names the emulator itself, not the compiler"));
        }
        Ok(Self {
            version,
            architecture_count: function!(b"nvrtcGetNumSupportedArchs\0"),
            architectures: function!(b"nvrtcGetSupportedArchs\0"),
            create: function!(b"nvrtcCreateProgram\0"),
            compile: function!(b"nvrtcCompileProgram\0"),
            destroy: function!(b"nvrtcDestroyProgram\0"),
            ptx_size: function!(b"nvrtcGetPTXSize\0"),
            ptx: function!(b"nvrtcGetPTX\0"),
            log_size: function!(b"nvrtcGetProgramLogSize\0"),
            log: function!(b"nvrtcGetProgramLog\0"),
            error_text: function!(b"nvrtcGetErrorString\0"),
            _library: library,
            _builtins: builtins_beside(file),
        })
    }

    /// Returns the library that the environment names, which the first call loads. If that fails, the first call prints
    /// a message to standard error.
    fn from_environment() -> Option<&'static Self> {
        static COMPILER: OnceLock<Option<Compiler>> = OnceLock::new();
        let load = || {
            let file = std::env::var_os(VARIABLE).filter(|file| !file.is_empty()).map(PathBuf::from);
            let compiler = file.ok_or_else(|| format!("{VARIABLE} does not name the compiler"));
            let compiler = compiler.and_then(|file| Self::load(&file));
            compiler.inspect_err(|wrong| eprintln!("cuda-emulator: {wrong}")).ok()
        };
        COMPILER.get_or_init(load).as_ref()
    }
}

/// Loads the libraries of built-in functions in the folder of `library`. The compiler asks the loader for them by file
/// name only, which succeeds if they are loaded already.
fn builtins_beside(library: &Path) -> Vec<Library> {
    let files = library.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let is_wanted = |path: &PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("libnvrtc-builtins.so"))
    };
    let paths = files.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).filter(is_wanted);
    // If a library cannot be loaded, the compiler reports what is missing. SAFETY: loading runs the initializers of a
    // library in the folder of the compiler that the user has named.
    paths.filter_map(|path| unsafe { Library::new(path) }.ok()).collect()
}

/// Calls the real compiler and returns its result code, or an error code if it is missing or a panic occurs.
fn call_compiler(call: impl FnOnce(&Compiler) -> Code) -> Code {
    let call = || Compiler::from_environment().map_or(INTERNAL_ERROR, call);
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(INTERNAL_ERROR)
}

/// Returns an option for the real compiler. Real architectures are replaced by virtual ones, because NVRTC only returns
/// PTX for those.
fn rewritten(option: &CStr) -> CString {
    let names = ["-arch=sm_", "--gpu-architecture=sm_"];
    let rest = option.to_str().ok().and_then(|text| names.iter().find_map(|name| text.strip_prefix(name)));
    let other = rest.and_then(|architecture| CString::new(format!("-arch=compute_{architecture}")).ok());
    other.unwrap_or_else(|| option.to_owned())
}

/// Writes the compiler's version.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> Code {
    // SAFETY: the arguments are the caller's, with the same requirements.
    call_compiler(|compiler| unsafe { (compiler.version)(major, minor) })
}

/// Writes the number of architectures that the compiler supports.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetNumSupportedArchs(count: *mut c_int) -> Code {
    // SAFETY: the argument is the caller's, with the same requirements.
    call_compiler(|compiler| unsafe { (compiler.architecture_count)(count) })
}

/// Writes the architectures that the compiler supports.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetSupportedArchs(architectures: *mut c_int) -> Code {
    // SAFETY: the argument is the caller's, with the same requirements.
    call_compiler(|compiler| unsafe { (compiler.architectures)(architectures) })
}

/// Creates a program from a source.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcCreateProgram(
    program: *mut Program,
    source: *const c_char,
    name: *const c_char,
    headers: c_int,
    header_texts: *const *const c_char,
    header_names: *const *const c_char,
) -> Code {
    // SAFETY: the arguments are the caller's, with the same requirements.
    call_compiler(|compiler| unsafe { (compiler.create)(program, source, name, headers, header_texts, header_names) })
}

/// Compiles a program to PTX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcCompileProgram(program: Program, count: c_int, options: *const *const c_char) -> Code {
    call_compiler(|compiler| {
        let given = match usize::try_from(count) {
            Ok(0) => &[],
            // SAFETY: the caller passes `count` options.
            Ok(count) if !options.is_null() => unsafe { std::slice::from_raw_parts(options, count) },
            _ => return INVALID_INPUT,
        };
        if given.iter().any(|option| option.is_null()) {
            return INVALID_INPUT;
        }
        // SAFETY: the caller passes a C string as each option.
        let texts: Vec<_> = given.iter().map(|&option| rewritten(unsafe { CStr::from_ptr(option) })).collect();
        let pointers: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
        // SAFETY: the program is the caller's; there are `count` C strings, which live until the call returns.
        unsafe { (compiler.compile)(program, count, pointers.as_ptr()) }
    })
}

/// Destroys a program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcDestroyProgram(program: *mut Program) -> Code {
    // SAFETY: the argument is the caller's, with the same requirements.
    call_compiler(|compiler| unsafe { (compiler.destroy)(program) })
}

/// Writes the length of the compiled PTX in bytes, including the zero byte at its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetCUBINSize(program: Program, bytes: *mut usize) -> Code {
    // SAFETY: the arguments are the caller's, with the same requirements.
    call_compiler(|compiler| unsafe { (compiler.ptx_size)(program, bytes) })
}

/// Copies the compiled PTX and a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetCUBIN(program: Program, image: *mut c_char) -> Code {
    // SAFETY: the arguments are the caller's, with the same requirements.
    call_compiler(|compiler| unsafe { (compiler.ptx)(program, image) })
}

/// Writes the length of the compiler's log in bytes, including the zero byte at its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetProgramLogSize(program: Program, bytes: *mut usize) -> Code {
    // SAFETY: the arguments are the caller's, with the same requirements.
    call_compiler(|compiler| unsafe { (compiler.log_size)(program, bytes) })
}

/// Copies the compiler's log.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetProgramLog(program: Program, log: *mut c_char) -> Code {
    // SAFETY: the arguments are the caller's, with the same requirements.
    call_compiler(|compiler| unsafe { (compiler.log)(program, log) })
}

/// Returns the description of a result code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvrtcGetErrorString(code: Code) -> *const c_char {
    let missing = c"CUDA_EMULATOR_NVRTC does not name a compiler".as_ptr();
    // SAFETY: the function accepts any code.
    let text = || Compiler::from_environment().map_or(missing, |compiler| unsafe { (compiler.error_text)(code) });
    catch_unwind(text).unwrap_or(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_become_virtual() {
        assert_eq!(rewritten(c"-arch=sm_90").as_c_str(), c"-arch=compute_90");
        assert_eq!(rewritten(c"--gpu-architecture=sm_100a").as_c_str(), c"-arch=compute_100a");
        for other in [c"-arch=compute_75", c"-DARCH=sm_90", c"--fmad=false", c"\xff"] {
            assert_eq!(rewritten(other).as_c_str(), other);
        }
    }

    #[test]
    fn files_that_are_no_compiler_are_refused() {
        assert!(Compiler::load(Path::new("/there/is/no/such/file.so")).is_err());
        assert!(builtins_beside(Path::new("/there/is/no/such/file.so")).is_empty());
    }
}
