//! The functions that HDF5 looks for in a library of `HDF5_PLUGIN_PATH`. Every library that contains this crate exports
//! them, so that the C library is a plugin as well.

#![allow(unsafe_code, reason = "functions with the names that HDF5 looks for")]

use std::ffi::{c_int, c_void};

/// Tells HDF5 that this library is a filter plugin.
#[unsafe(no_mangle)]
pub extern "C" fn H5PLget_plugin_type() -> c_int {
    0
}

/// Returns the `H5Z_class2_t` of the filter.
#[unsafe(no_mangle)]
pub extern "C" fn H5PLget_plugin_info() -> *const c_void {
    crate::filter::class()
}
