//! The callback that HDF5 calls when a dataset is created: it completes the parameters of the filter.

#![allow(unsafe_code, reason = "a callback of HDF5, and calls of HDF5")]

use std::ffi::{CString, c_int, c_uint, c_void};
use std::panic::catch_unwind;

use syncline::{ElementType, Error, MAX_RANK};

use super::library::{Id, Library};
use super::options::{ID, Parameters};

/// Classes of types in HDF5.
const INTEGER: c_int = 0;
const FLOAT: c_int = 1;
const ENUM: c_int = 8;

/// `H5T_ORDER_LE` and `H5T_ORDER_BE`.
const ORDERS: [c_int; 2] = [0, 1];

/// `H5D_FILL_VALUE_USER_DEFINED`.
const USER_DEFINED: c_int = 2;

/// Completes the parameters for a type and a chunk shape. Passes its return address on, which is in the calling HDF5
/// library.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub unsafe extern "C" fn set_local(_creation: Id, _element: Id, _space: Id) -> c_int {
    // The fourth argument is in rcx; the return address is on top of the stack.
    core::arch::naked_asm!("mov rcx, [rsp]", "jmp {inner}", inner = sym set_local_from)
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
    let mut values = [0u32; 128];
    let (mut flags, mut count, mut config): (c_uint, usize, c_uint) = (0, values.len(), 0);
    let no_name = std::ptr::null_mut();
    // SAFETY: an identifier of the library, and room for as many numbers as `count` says.
    let status = unsafe {
        (library.get_filter_by_id)(
            creation,
            ID,
            &raw mut flags,
            &raw mut count,
            values.as_mut_ptr(),
            0,
            no_name,
            &raw mut config,
        )
    };
    if status < 0 {
        return Err(failed("the parameters of the filter"));
    }
    let mut parameters = Parameters::from_user(&values[..count.min(values.len())])?;
    // SAFETY: an identifier of the library.
    let order = unsafe { (library.get_order)(element) };
    // SAFETY: as above.
    let kind = unsafe { element_type(library, element) }?;
    if kind.size() > 1 && !ORDERS.contains(&order) {
        return Err(Error::InvalidArgument("the byte order of the type is neither little- nor big-endian".into()));
    }
    let is_big_endian = order == ORDERS[1] && kind.size() > 1;
    if parameters.wants_fill_of_dataset() && kind.is_lossy_capable() {
        // SAFETY: as above.
        if let Some(value) = unsafe { fill_value(library, creation, element, kind, is_big_endian) } {
            parameters.set_fill(value);
        }
    }
    parameters.compress_options(Some(kind))?;

    let mut extents = [0u64; MAX_RANK];
    // SAFETY: an identifier of the library, and room for as many extents as the second argument says.
    let rank = unsafe { (library.get_chunk)(creation, MAX_RANK as c_int, extents.as_mut_ptr()) };
    let extents = usize::try_from(rank).ok().filter(|&rank| rank > 0).and_then(|rank| extents.get(..rank));
    let extents = extents.ok_or_else(|| failed("the shape of a chunk"))?;
    let values = parameters.with_chunk(kind, is_big_endian, extents);
    // SAFETY: an identifier of the library and as many numbers as the count says.
    let status = unsafe { (library.modify_filter)(creation, ID, flags, values.len(), values.as_ptr()) };
    if status < 0 { Err(failed("whether it keeps the parameters of the filter")) } else { Ok(()) }
}

/// Returns the element type of the stream for a type of HDF5.
///
/// # Safety
/// `element` is an identifier of `library`.
unsafe fn element_type(library: &Library, element: Id) -> Result<ElementType, Error> {
    // SAFETY: that of this function.
    let (class, size) = unsafe { ((library.get_class)(element), (library.get_size)(element)) };
    // SAFETY: as above; enumerations have no sign, which does not matter for lossless chunks.
    let is_signed = class == INTEGER && unsafe { (library.get_sign)(element) } != 0;
    let kind = match (class, size, is_signed) {
        (INTEGER | ENUM, 1, false) => Some(ElementType::U8),
        (INTEGER | ENUM, 2, false) => Some(ElementType::U16),
        (INTEGER | ENUM, 4, false) => Some(ElementType::U32),
        (INTEGER | ENUM, 8, false) => Some(ElementType::U64),
        (INTEGER, 1, true) => Some(ElementType::I8),
        (INTEGER, 2, true) => Some(ElementType::I16),
        (INTEGER, 4, true) => Some(ElementType::I32),
        (INTEGER, 8, true) => Some(ElementType::I64),
        (FLOAT, 4, _) => Some(ElementType::F32),
        (FLOAT, 8, _) => Some(ElementType::F64),
        (FLOAT, 2, _) => {
            let [mut sign, mut exponent_at, mut exponent, mut mantissa_at, mut mantissa] = [0usize; 5];
            // SAFETY: an identifier of the library, and places for the results.
            unsafe {
                (library.get_fields)(
                    element,
                    &raw mut sign,
                    &raw mut exponent_at,
                    &raw mut exponent,
                    &raw mut mantissa_at,
                    &raw mut mantissa,
                )
            };
            match (exponent, mantissa) {
                (5, 10) => Some(ElementType::F16),
                (8, 7) => Some(ElementType::Bf16),
                _ => None,
            }
        }
        _ => None,
    };
    kind.ok_or_else(|| {
        Error::InvalidArgument(
            "the filter compresses integers and floating-point numbers of 1 to 8 bytes, not strings, compound, or \
             other types: remove the filter from this dataset"
                .into(),
        )
    })
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
    let bytes = &mut bytes[..kind.size()];
    if is_big_endian {
        bytes.reverse();
    }
    match kind {
        ElementType::F32 => bytes.try_into().ok().map(|bytes| f64::from(f32::from_le_bytes(bytes))),
        ElementType::F64 => bytes.try_into().ok().map(f64::from_le_bytes),
        _ => None,
    }
}
