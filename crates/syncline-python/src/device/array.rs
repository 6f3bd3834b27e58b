//! Device memory that Python code gets.

#![allow(unsafe_code, reason = "DLPack hands out raw device pointers")]

use std::ffi::c_void;
use std::sync::Arc;

use dlpark::ffi::{DLDataType, DLDataTypeCode, DLDevice, DLManagedTensor, DLManagedTensorVersioned};
use dlpark::metadata::Dynamic;
use dlpark::python::{DlpackExporter, ExportRequest, export_dlpack};
use dlpark::{DlpackFlags, Managed, ManagedTensorBase};
use pyo3::exceptions::{PyAttributeError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use syncline::ElementType;
use syncline::gpu::{Compressor, DeviceBuffer, DeviceBytes};

use super::import::{DeviceInput, Owner};
use crate::errors::exception;

/// An array in the memory of a GPU, which other libraries take without a copy. Its contents are complete.
#[pyclass(frozen, module = "syncline._core")]
pub struct DeviceArray {
    memory: Arc<Memory>,
    bytes: DeviceBytes,
    element: ElementType,
    shape: Vec<i64>,
    ordinal: usize,
}

/// What the array lies in, and is freed with.
enum Memory {
    Ours(DeviceBuffer),
    Theirs(#[allow(dead_code, reason = "kept for its destructor")] Owner),
}

impl DeviceArray {
    /// Returns an array in memory of this library.
    pub fn of_buffer(buffer: DeviceBuffer, element: ElementType, shape: &[u64], ordinal: usize) -> Self {
        let (bytes, shape) = (buffer.bytes(), shape.iter().map(|&extent| extent as i64).collect());
        Self { memory: Arc::new(Memory::Ours(buffer)), bytes, element, shape, ordinal }
    }

    /// Returns an array at the start of memory of another library.
    pub fn of_input(input: DeviceInput, len: usize, element: ElementType, shape: &[u64]) -> Self {
        let bytes = DeviceBytes { pointer: input.bytes.pointer, len };
        let (ordinal, shape) = (input.ordinal, shape.iter().map(|&extent| extent as i64).collect());
        Self { memory: Arc::new(Memory::Theirs(input.into_owner())), bytes, element, shape, ordinal }
    }

    /// Returns where the array is.
    pub fn device_bytes(&self) -> DeviceBytes {
        self.bytes
    }

    fn managed<M: ManagedTensorBase>(&self) -> PyResult<Managed<M>> {
        let prepared = Dynamic::compact(&self.shape[..]).prepare_as::<M>();
        let prepared = prepared.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        let mut tensor = prepared.initialize(self.memory.clone());
        tensor.set_device(DlpackExporter::device(self));
        tensor.set_dtype(dlpack_type(self.element));
        tensor.set_data(self.bytes.pointer as *mut c_void);
        // SAFETY: device memory of as many elements in C order, which the reference to `memory` keeps.
        Ok(unsafe { tensor.finish() })
    }
}

fn dlpack_type(element: ElementType) -> DLDataType {
    let code = match element {
        ElementType::Bf16 => DLDataTypeCode::BFLOAT,
        ElementType::F16 | ElementType::F32 | ElementType::F64 => DLDataTypeCode::FLOAT,
        ElementType::U8 | ElementType::U16 | ElementType::U32 | ElementType::U64 => DLDataTypeCode::UINT,
        _ => DLDataTypeCode::INT,
    };
    DLDataType { code, bits: 8 * element.size() as u8, lanes: 1 }
}

impl DlpackExporter for DeviceArray {
    fn device(&self) -> DLDevice {
        DLDevice::cuda(self.ordinal as i32)
    }

    fn flags(&self) -> DlpackFlags {
        DlpackFlags::empty()
    }

    fn prepare_export(&self, _: Python<'_>, _: &ExportRequest<'_>) -> PyResult<()> {
        // The contents were complete before Python got the array, so that no stream has to wait.
        Ok(())
    }

    fn export_legacy(&self, _: Python<'_>) -> PyResult<Managed<DLManagedTensor>> {
        self.managed()
    }

    fn export_versioned(&self, _: Python<'_>) -> PyResult<Managed<DLManagedTensorVersioned>> {
        self.managed()
    }
}

#[pymethods]
impl DeviceArray {
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(u32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        export_dlpack(self, py, ExportRequest::parse(stream, max_version, dl_device, copy)?)
    }

    fn __dlpack_device__(&self) -> (u32, usize) {
        (2, self.ordinal)
    }

    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let kind = match dlpack_type(self.element).code {
            DLDataTypeCode::BFLOAT => {
                let message = "bfloat16 has no CUDA array interface: use DLPack";
                return Err(PyAttributeError::new_err(message));
            }
            DLDataTypeCode::FLOAT => 'f',
            DLDataTypeCode::UINT => 'u',
            _ => 'i',
        };
        let order = if self.element.size() == 1 { '|' } else { '<' };
        let interface = PyDict::new(py);
        interface.set_item("shape", PyTuple::new(py, &self.shape)?)?;
        interface.set_item("typestr", format!("{order}{kind}{}", self.element.size()))?;
        let pointer = if self.bytes.len == 0 { 0 } else { self.bytes.pointer };
        interface.set_item("data", (pointer, false))?;
        interface.set_item("strides", py.None())?;
        interface.set_item("stream", py.None())?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }

    /// The extents.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// The element type, as one of NumPy.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("syncline._array")?.call_method1("numpy_dtype", (self.element.to_string(),))
    }

    /// The number of bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes.len
    }

    /// The number of the GPU.
    #[getter]
    fn device(&self) -> usize {
        self.ordinal
    }

    /// Returns a copy of the elements in host memory.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let copied = py.detach(|| match &*self.memory {
            Memory::Ours(buffer) if buffer.bytes().len == self.bytes.len => buffer.to_vec(),
            // SAFETY: `memory` keeps the array, which other libraries do not write to while Python code copies it.
            _ => unsafe { Compressor::new(self.ordinal)?.copy_to_host(self.bytes, std::ptr::null_mut()) },
        });
        Ok(PyBytes::new(py, &copied.map_err(exception)?))
    }

    fn __len__(&self) -> PyResult<usize> {
        let first = self.shape.first().copied();
        first.map(|extent| extent as usize).ok_or_else(|| PyTypeError::new_err("len() of a 0-d array"))
    }

    fn __repr__(&self) -> String {
        let extents: Vec<String> = self.shape.iter().map(ToString::to_string).collect();
        format!("<syncline.cuda.DeviceArray: {} ({}) on cuda:{}>", self.element, extents.join(", "), self.ordinal)
    }
}
