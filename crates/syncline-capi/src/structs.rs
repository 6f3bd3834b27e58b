//! Structs of the caller, whose first field is their size, so that later versions can add fields at the end.

#![allow(unsafe_code, reason = "structs of the caller are read and written through raw pointers")]

use crate::status::Failure;

/// A C struct that starts with `struct_size: usize`.
///
/// # Safety
/// The type is `repr(C)`, starts with a `usize` that is its size, has no padding that matters, and every bit pattern of
/// its bytes is a value.
pub unsafe trait Versioned: Copy {
    /// Name in C, for messages.
    const NAME: &str;
    /// Bytes of the struct in the first version of the library.
    const FIRST_VERSION: usize;

    /// Returns the struct with the default of each field.
    fn defaults() -> Self;
}

/// Checks the size that the caller says a struct has.
fn check_size<T: Versioned>(size: usize) -> Result<(), Failure> {
    if size >= T::FIRST_VERSION.min(size_of::<T>()) {
        return Ok(());
    }
    let hint = "initialize the struct with its function";
    Err(Failure::invalid(format!("struct_size of {} is {size}, too small for this library: {hint}", T::NAME)))
}

/// Writes the defaults to a struct of the caller and clears fields that this version does not know. Returns its size.
///
/// # Safety
/// `target` is null or points to `size` bytes that may be written.
pub unsafe fn init<T: Versioned>(target: *mut T, size: usize) -> Result<usize, Failure> {
    check_size::<T>(size)?;
    // SAFETY: that of this function.
    unsafe { write(target, size, T::defaults()) }
}

/// Writes a struct to memory of the caller: its fields as far as these have room, then zeros. Returns `size`.
///
/// # Safety
/// `target` is null or points to `size` bytes that may be written.
pub unsafe fn write<T: Versioned>(target: *mut T, size: usize, value: T) -> Result<usize, Failure> {
    check_size::<T>(size)?;
    if target.is_null() {
        return Err(Failure::invalid(format!("the pointer to {} is NULL", T::NAME)));
    }
    let known = size.min(size_of::<T>());
    // SAFETY: the caller passes `size` bytes, of which `known` are copied and the others are cleared; the bytes of the
    // struct are plain data. The first field is written last, with the size that the caller gave.
    unsafe {
        let target = target.cast::<u8>();
        std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), target, known);
        std::ptr::write_bytes(target.add(known), 0, size - known);
        target.cast::<usize>().write_unaligned(size);
    }
    Ok(size)
}

/// Reads a struct of the caller: the fields that it has, and defaults for the others. NULL gives the defaults. Fields
/// of a later version must be zero, since this version does not know what they ask for.
///
/// # Safety
/// `source` is null or points to as many readable bytes as its first field says.
pub unsafe fn read<T: Versioned>(source: *const T) -> Result<T, Failure> {
    let mut value = T::defaults();
    if source.is_null() {
        return Ok(value);
    }
    let source = source.cast::<u8>();
    // SAFETY: the struct starts with its size.
    let size = unsafe { source.cast::<usize>().read_unaligned() };
    check_size::<T>(size)?;
    let known = size.min(size_of::<T>());
    // SAFETY: the caller passes `size` bytes; every bit pattern is a value of the struct.
    let later = unsafe {
        std::ptr::copy_nonoverlapping(source, (&raw mut value).cast::<u8>(), known);
        std::slice::from_raw_parts(source.add(known), size - known)
    };
    if later.iter().any(|&byte| byte != 0) {
        return Err(Failure::invalid(format!("{} has fields of a newer version that are not zero", T::NAME)));
    }
    Ok(value)
}
