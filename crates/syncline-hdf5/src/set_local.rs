//! The callback that HDF5 calls when a dataset is created: it completes the parameters of the filter.

#![allow(unsafe_code, reason = "a callback of HDF5, and calls of HDF5")]

use std::ffi::{CString, c_int, c_void};
use std::panic::catch_unwind;

use syncline::{Bound, ElementType, Error, MAX_RANK};

use crate::caller::Library;
use crate::element::{BIG_ENDIAN, ENUM, LITTLE_ENDIAN, value_of};
use crate::functions::{Id, filter_values};
use crate::parameters::{ID, Parameters};
use crate::pipeline::check_filters;

/// `H5D_FILL_VALUE_USER_DEFINED`.
pub const USER_DEFINED: c_int = 2;

/// Completes the parameters for a type and a chunk shape. Passes its return address on, which is in the calling HDF5
/// library.
#[cfg(all(target_arch = "x86_64", not(windows)))]
#[unsafe(naked)]
pub unsafe extern "C" fn set_local(_creation: Id, _element: Id, _space: Id) -> c_int {
    // The fourth argument is in rcx; the return address is on top of the stack.
    core::arch::naked_asm!("mov rcx, [rsp]", "jmp {inner}", inner = sym set_local_from)
}

/// Completes the parameters for a type and a chunk shape. Passes its return address on, which is in the calling HDF5
/// library.
#[cfg(all(target_arch = "x86_64", windows))]
#[unsafe(naked)]
pub unsafe extern "C" fn set_local(_creation: Id, _element: Id, _space: Id) -> c_int {
    // The fourth argument is in r9; the return address is on top of the stack, before room for four arguments.
    core::arch::naked_asm!("mov r9, [rsp]", "jmp {inner}", inner = sym set_local_from)
}

/// Completes the parameters for a type and a chunk shape. Passes its return address on, which is in the calling HDF5
/// library.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub unsafe extern "C" fn set_local(_creation: Id, _element: Id, _space: Id) -> c_int {
    // The fourth argument is in x3; the return address is in x30.
    core::arch::naked_asm!("mov x3, x30", "b {inner}", inner = sym set_local_from)
}

/// Completes the parameters for a type and a chunk shape, with the HDF5 library that the program is linked to.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub unsafe extern "C" fn set_local(creation: Id, element: Id, space: Id) -> c_int {
    // SAFETY: HDF5 passes its identifiers.
    unsafe { set_local_from(creation, element, space, std::ptr::null()) }
}

/// Returns a positive number, or a negative one after an error, whose message is on the error stack of HDF5.
///
/// # Safety
/// Identifiers of the HDF5 library that contains the address `caller`.
unsafe extern "C" fn set_local_from(creation: Id, element: Id, _space: Id, caller: *const c_void) -> c_int {
    let work = || {
        // SAFETY: `caller` is the return address of the callback, or null.
        let library = unsafe { Library::of(caller) }?;
        // SAFETY: identifiers of this library.
        match unsafe { complete(&library, creation, element) } {
            Ok(()) => Some(()),
            Err(error) => {
                if let Ok(text) = CString::new(format!("Syncline: {error}")) {
                    library.push_error(&text);
                }
                None
            }
        }
    };
    catch_unwind(work).ok().flatten().map_or(-1, |()| 1)
}

/// Completes the parameters of the filter in a property list for the creation of a dataset.
///
/// # Safety
/// `creation` and `element` are identifiers of `library`.
unsafe fn complete(library: &Library, creation: Id, element: Id) -> Result<(), Error> {
    let failed = |what: &str| Error::InvalidArgument(format!("HDF5 cannot tell {what}"));
    // SAFETY: an identifier of the library.
    let (flags, values) = unsafe { filter_values(library.get_filter_by_id, creation, ID) }
        .ok_or_else(|| failed("the parameters of the filter"))?;
    let mut parameters = Parameters::from_user(&values)?;
    // SAFETY: an identifier of the library.
    let traits = unsafe { library.types.traits(element) };
    let kind = traits.element().ok_or_else(|| {
        Error::InvalidArgument(
            "the filter compresses integers and floating-point numbers of 1 to 8 bytes, not strings, compound, or \
             other types: remove the filter from this dataset"
                .into(),
        )
    })?;
    if kind.size() > 1 && ![LITTLE_ENDIAN, BIG_ENDIAN].contains(&traits.order) {
        return Err(Error::InvalidArgument("the byte order of the type is neither little- nor big-endian".into()));
    }
    let is_big_endian = traits.order == BIG_ENDIAN && kind.size() > 1;
    if traits.class == ENUM {
        // The numbers of an enumeration, such as the Booleans of h5py, are names.
        parameters.set_lossless();
    }
    if parameters.wants_fill_of_dataset() {
        // SAFETY: as above.
        if let Some(value) = unsafe { fill_value(library, creation, element, kind, is_big_endian) } {
            parameters.set_fill(value);
        }
    }
    let is_lossless = parameters.compress_options(Some(kind))?.bound() == Bound::Lossless;
    // SAFETY: as above.
    let has_checksum = unsafe { check_filters(library, creation, is_lossless) }?;

    let mut extents = [0u64; MAX_RANK];
    // SAFETY: an identifier of the library, and room for as many extents as the second argument says.
    let rank = unsafe { (library.get_chunk)(creation, MAX_RANK as c_int, extents.as_mut_ptr()) };
    let extents = usize::try_from(rank).ok().filter(|&rank| rank > 0).and_then(|rank| extents.get(..rank));
    let extents = extents.ok_or_else(|| failed("the shape of a chunk"))?;
    let values = parameters.with_chunk(kind, is_big_endian, has_checksum, extents);
    // SAFETY: an identifier of the library and as many numbers as the count says.
    let status = unsafe { (library.modify_filter)(creation, ID, flags, values.len(), values.as_ptr()) };
    if status < 0 { Err(failed("whether it keeps the parameters of the filter")) } else { Ok(()) }
}

/// Returns the fill value that the dataset declares, if it does.
///
/// # Safety
/// `creation` and `element` are identifiers of `library`.
unsafe fn fill_value(
    library: &Library,
    creation: Id,
    element: Id,
    kind: ElementType,
    is_big_endian: bool,
) -> Option<f64> {
    let (mut state, mut bytes) = (0, [0u8; 8]);
    // SAFETY: identifiers of the library, and room for an element of at most 8 bytes.
    let is_known = unsafe {
        (library.fill_value_defined)(creation, &raw mut state) >= 0
            && state == USER_DEFINED
            && (library.get_fill_value)(creation, element, bytes.as_mut_ptr().cast()) >= 0
    };
    if !is_known {
        return None;
    }
    value_of(kind, &bytes[..kind.size()], is_big_endian)
}
