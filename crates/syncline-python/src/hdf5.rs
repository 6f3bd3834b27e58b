//! The HDF5 filter.

#[cfg(not(unix))]
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use syncline::Advanced;

use crate::errors::exception;

/// Returns the number that stands for advanced options among the parameters of the filter.
#[pyfunction]
pub fn hdf5_advanced(advanced: &str) -> PyResult<u32> {
    let advanced: Advanced = advanced.parse().map_err(exception)?;
    #[cfg(unix)]
    return Ok(syncline_hdf5::advanced_number(advanced));
    #[cfg(not(unix))]
    Err(PyOSError::new_err(format!("there is no HDF5 filter on this system, which would take '{advanced}'")))
}

/// Returns the address of the filter's description (`H5Z_class2_t`), which HDF5 libraries of this process take; `None`
/// on systems without the filter.
#[pyfunction]
pub fn hdf5_filter() -> Option<usize> {
    #[cfg(unix)]
    return Some(syncline_hdf5::filter::class().addr());
    #[cfg(not(unix))]
    None
}
