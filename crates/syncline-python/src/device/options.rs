//! Choices for arrays on a GPU, read once.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use syncline::CompressOptions;

use crate::arguments::Choices;
use crate::errors::exception;

/// Options of compressions on a GPU, which many calls share.
#[pyclass(frozen, module = "syncline._core")]
pub struct CudaOptions {
    pub options: CompressOptions,
    /// Whether the CPU does what the GPU cannot do.
    pub fallback: bool,
}

#[pymethods]
impl CudaOptions {
    #[new]
    fn new(choices: &Bound<'_, PyDict>, fallback: bool) -> PyResult<Self> {
        Ok(Self { options: Choices::of(choices)?.options().map_err(exception)?, fallback })
    }

    /// Whether the CPU does what the GPU cannot do.
    #[getter]
    fn fallback(&self) -> bool {
        self.fallback
    }
}
