//! The HDF5 filter.

use pyo3::prelude::*;

/// Returns the address of the filter's description (`H5Z_class2_t`), which HDF5 libraries of this process take; `None`
/// on systems without the filter.
#[pyfunction]
pub fn hdf5_filter() -> Option<usize> {
    #[cfg(unix)]
    return Some(syncline_hdf5::filter::class().addr());
    #[cfg(not(unix))]
    None
}
