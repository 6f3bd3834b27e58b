//! The HDF5 filter plugin: a dynamically loaded filter that links no HDF5 library.

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
    syncline_hdf5::filter::class()
}
