//! The HDF5 filter.

use pyo3::prelude::*;
use syncline::Advanced;

use crate::errors::exception;

/// Returns the number that stands for advanced options among the parameters of the filter.
#[pyfunction]
pub fn hdf5_advanced(advanced: &str) -> PyResult<u32> {
    let advanced: Advanced = advanced.parse().map_err(exception)?;
    Ok(syncline_hdf5::advanced_number(advanced))
}

/// Returns the address of the filter's description (`H5Z_class2_t`), which HDF5 libraries of this process take.
#[pyfunction]
pub fn hdf5_filter() -> usize {
    syncline_hdf5::filter::class().addr()
}
