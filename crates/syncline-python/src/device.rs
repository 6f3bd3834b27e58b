//! Arrays in the memory of NVIDIA GPUs, exchanged with other libraries by DLPack and the CUDA array interface.
//!
//! Python code resolves stream objects to handles. Here, streams are numbers as in DLPack: 0 and 1 are the legacy
//! default stream, 2 is the default stream of the thread, and everything else is a `CUstream`.

mod array;
mod codec;
mod decompressor;
mod idle;
mod import;
mod options;
mod queued_compressor;

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use syncline::gpu::{self, RawStream};

use crate::errors::exception;

/// Returns the handle for a stream's number.
fn raw_stream(number: usize) -> RawStream {
    std::ptr::without_provenance_mut(if number == 1 { 0 } else { number })
}

/// Returns the number of GPUs.
#[pyfunction]
fn cuda_device_count(py: Python<'_>) -> PyResult<usize> {
    py.detach(gpu::device_count).map_err(exception)
}

/// Opens a GPU and describes it.
#[pyfunction]
fn cuda_device_info<'py>(py: Python<'py>, ordinal: usize) -> PyResult<Bound<'py, PyDict>> {
    let info = py.detach(|| gpu::device(ordinal)).map_err(exception)?;
    let fields = PyDict::new(py);
    fields.set_item("ordinal", info.ordinal)?;
    fields.set_item("name", &info.name)?;
    fields.set_item("compute_capability", info.compute_capability)?;
    fields.set_item("memory", info.memory)?;
    fields.set_item("driver", info.driver)?;
    fields.set_item("nvrtc", info.nvrtc)?;
    Ok(fields)
}

/// Adds folders in which the run-time compiler is looked for.
#[pyfunction]
fn search_nvrtc_in(folders: Vec<PathBuf>) {
    gpu::search_nvrtc_in(folders);
}

/// Adds the classes and functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<array::DeviceArray>()?;
    module.add_class::<codec::CudaCompressor>()?;
    module.add_class::<options::CudaOptions>()?;
    module.add_class::<decompressor::CudaDecompressor>()?;
    module.add_class::<queued_compressor::CudaQueuedCompressor>()?;
    module.add_function(wrap_pyfunction!(cuda_device_count, module)?)?;
    module.add_function(wrap_pyfunction!(cuda_device_info, module)?)?;
    module.add_function(wrap_pyfunction!(import::cuda_device_of, module)?)?;
    module.add_function(wrap_pyfunction!(import::cuda_current_stream, module)?)?;
    module.add_function(wrap_pyfunction!(search_nvrtc_in, module)?)
}
