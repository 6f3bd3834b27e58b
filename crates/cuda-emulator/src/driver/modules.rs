//! Functions of the driver API for modules and their kernels and variables.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use super::contexts::current;
use super::counts::{LOADS, count};
use super::devices::SHARED_MEMORY_UNASKED;
use super::errors::{Code, Result, guard, put};
use super::handles::{Handle, Handles};
use super::objects::Function;
use super::{MEMORY, captures, lock};
use crate::machine::{Module, Shape};

static MODULES: Handles<Loaded> = Handles::new();
static FUNCTIONS: Handles<Function> = Handles::new();

/// A module loaded on a device.
struct Loaded {
    ordinal: c_int,
    shape: Shape,
    module: Arc<Module>,
    /// Handles of kernels by their names: each kernel has a single handle with one set of attributes.
    functions: Mutex<BTreeMap<String, Handle>>,
}

/// Returns the kernel of a handle, which must belong to the current device.
pub fn function(handle: Handle) -> Result<Arc<Function>> {
    let function = FUNCTIONS.get(handle)?;
    if function.ordinal == current()?.ordinal { Ok(function) } else { Err(Code::InvalidHandle) }
}

fn load(image: &[u8]) -> Result<Loaded> {
    count(&LOADS);
    let device = current()?;
    let is_ptx = |text: &&str| text.contains(".version") && text.contains(".target");
    let Some(text) = std::str::from_utf8(image).ok().filter(is_ptx) else {
        eprintln!("cuda-emulator: an image that is not PTX cannot be loaded");
        return Err(Code::InvalidImage);
    };
    let module = Module::load(text, &MEMORY).map_err(|wrong| {
        eprintln!("cuda-emulator: loading a module: {wrong}");
        Code::InvalidPtx
    })?;
    let (module, functions) = (Arc::new(module), Mutex::default());
    Ok(Loaded { ordinal: device.ordinal, shape: device.shape, module, functions })
}

/// Returns the handle of a kernel, which is created by the first call.
fn find(loaded: &Loaded, name: &str) -> Result<Handle> {
    let mut functions = lock(&loaded.functions);
    if let Some(&handle) = functions.get(name) {
        return Ok(handle);
    }
    let kernel = loaded.module.kernel(name).map_err(|wrong| {
        eprintln!("cuda-emulator: loading kernel {name}: {wrong}");
        Code::InvalidPtx
    })?;
    let kernel = kernel.ok_or(Code::NotFound)?;
    let unasked = SHARED_MEMORY_UNASKED.saturating_sub(kernel.static_shared_memory());
    let handle = FUNCTIONS.insert(Function {
        name: name.to_owned(),
        ordinal: loaded.ordinal,
        shape: loaded.shape,
        kernel,
        dynamic_limit: AtomicUsize::new(unasked),
        _module: loaded.module.clone(),
    });
    functions.insert(name.to_owned(), handle);
    Ok(handle)
}

/// Returns the C string at an address.
///
/// # Safety
/// `text` is null, which yields an error, or a C string.
unsafe fn text<'a>(text: *const c_char) -> Result<&'a CStr> {
    if text.is_null() {
        return Err(Code::InvalidValue);
    }
    // SAFETY: `text` is not null, and the caller guarantees that it is then a C string.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// Loads PTX that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadData(module: *mut Handle, image: *const c_char) -> i32 {
    guard(|| {
        captures::forbid()?;
        if module.is_null() {
            return Err(Code::InvalidValue);
        }
        // SAFETY: the caller passes null or PTX that ends with a zero byte. Images of other formats have zero bytes in
        // their headers.
        let image = unsafe { text(image) }?;
        // SAFETY: `module` was checked, and the caller passes a valid place.
        unsafe { put(module, MODULES.insert(load(image.to_bytes())?)) }
    })
}

/// Loads PTX as [`cuModuleLoadData`] does. Options of the PTX compiler are ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut Handle,
    image: *const c_char,
    _count: u32,
    _options: *mut c_int,
    _values: *mut Handle,
) -> i32 {
    // SAFETY: the arguments are the caller's, with the same requirements.
    unsafe { cuModuleLoadData(module, image) }
}

/// Unloads a module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleUnload(module: Handle) -> i32 {
    guard(|| {
        let loaded = MODULES.remove(module)?;
        lock(&loaded.functions).values().try_for_each(|&handle| FUNCTIONS.remove(handle).map(|_| ()))
    })
}

/// Writes the handle of a kernel of a module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetFunction(place: *mut Handle, module: Handle, name: *const c_char) -> i32 {
    guard(|| {
        let loaded = MODULES.get(module)?;
        // SAFETY: the caller passes null or a C string.
        let name = unsafe { text(name) }?.to_str().map_err(|_| Code::NotFound)?;
        // SAFETY: the caller passes null or a valid place.
        unsafe { put(place, find(&loaded, name)?) }
    })
}

/// Writes the address and the length in bytes of a module's variable; each output may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuModuleGetGlobal_v2(
    address: *mut u64,
    bytes: *mut usize,
    module: Handle,
    name: *const c_char,
) -> i32 {
    guard(|| {
        let loaded = MODULES.get(module)?;
        // SAFETY: the caller passes null or a C string.
        let name = unsafe { text(name) }?.to_str().map_err(|_| Code::NotFound)?;
        let (start, length) = loaded.module.variable(name).ok_or(Code::NotFound)?;
        if !address.is_null() {
            // SAFETY: `address` is not null, and the caller then passes a valid place.
            unsafe { put(address, start) }?;
        }
        // SAFETY: `bytes` is not null, and the caller then passes a valid place.
        if bytes.is_null() { Ok(()) } else { unsafe { put(bytes, length) } }
    })
}

/// Writes an attribute of a kernel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncGetAttribute(value: *mut c_int, number: u32, handle: Handle) -> i32 {
    // SAFETY: the caller passes null or a valid place.
    guard(|| unsafe { put(value, function(handle)?.attribute(number)?) })
}

/// Sets an attribute of a kernel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuFuncSetAttribute(handle: Handle, number: u32, value: c_int) -> i32 {
    guard(|| function(handle)?.set_attribute(number, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_memory_counts_against_the_default_limit_of_dynamic_memory() {
        let text = ".version 8.0\n.target sm_90\n.visible .entry k()\n{\n.shared .align 4 .b8 room[1024];\n
            .reg .b32 %r<2>;\nmov.u32 %r0, room;\nld.shared.u32 %r1, [%r0];\nret;\n}\n";
        let context = super::super::devices::initialize().unwrap()[0].context;
        // SAFETY: the function takes a handle by value.
        assert_eq!(unsafe { super::super::contexts::cuCtxSetCurrent(context) }, 0);
        let kernel = find(&load(text.as_bytes()).unwrap(), "k").and_then(function).unwrap();
        assert_eq!((kernel.attribute(1), kernel.attribute(8)), (Ok(1 << 10), Ok(47 << 10)));
        assert_eq!(kernel.set_attribute(8, 226 << 10), Ok(()));
        assert_eq!((kernel.dynamic_limit(), kernel.set_attribute(8, 227 << 10)), (226 << 10, Err(Code::InvalidValue)));
    }

    #[test]
    fn other_images_are_refused() {
        let context = super::super::devices::initialize().unwrap()[0].context;
        // SAFETY: the handles, places and C strings are valid.
        unsafe {
            assert_eq!(super::super::contexts::cuCtxSetCurrent(context), 0);
            let mut module = 0;
            assert_eq!(cuModuleLoadData(&mut module, c"\x7fELF".as_ptr()), Code::InvalidImage as i32);
            assert_eq!(cuModuleLoadData(&mut module, std::ptr::null()), Code::InvalidValue as i32);
            assert_eq!(cuModuleUnload(module), Code::InvalidHandle as i32);
        }
    }
}
