//! Taking arrays of other libraries.

#![allow(unsafe_code, reason = "DLPack and the CUDA array interface hand out raw device pointers")]

use std::ffi::c_void;

use dlpark::DlpackFlags;
use dlpark::ffi::{DLDataType, DLDataTypeCode, DLDevice, DLDeviceType};
use dlpark::python::consumer::exchange::ExchangeApi;
use dlpark::python::{DlpackStream, ImportRequest, ImportedDlpack, StreamArg, consumer};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use syncline::gpu::{self, DeviceBytes};
use syncline::{ElementType, Shape};

use super::raw_stream;
use crate::errors::exception;

/// An array in device memory, C-contiguous, which stays alive as long as this object.
pub struct DeviceInput {
    pub bytes: DeviceBytes,
    pub element: ElementType,
    pub shape: Shape,
    pub ordinal: usize,
    /// Number of the stream after whose queued work the elements are ready.
    pub stream: usize,
    read_only: bool,
    owner: Owner,
}

/// What keeps the memory alive.
pub enum Owner {
    Dlpack(#[allow(dead_code, reason = "kept for its destructor")] ImportedDlpack),
    Object(#[allow(dead_code, reason = "kept for its destructor")] Py<PyAny>),
}

/// Returns the number of the GPU that an array is on, or None for an array in host memory, or what is no array.
#[pyfunction]
pub fn cuda_device_of(array: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    if let Some(method) = array.getattr_opt(intern!(array.py(), "__dlpack_device__"))? {
        let (kind, number): (u32, i32) = method.call0()?.extract()?;
        return Ok(on_device(DLDeviceType(kind)).then_some(number.max(0) as usize));
    }
    match array.getattr_opt(intern!(array.py(), "__cuda_array_interface__"))? {
        Some(interface) => gpu::device_of(interface_pointer(&interface)?.0).map(Some).map_err(exception),
        None => Ok(None),
    }
}

/// Returns the number of the current stream of an array's library on GPU number `ordinal`, if the library has the
/// exchange functions of DLPack in C and the array is on this GPU. No Python code of the library runs.
#[pyfunction]
pub fn cuda_current_stream(array: &Bound<'_, PyAny>, ordinal: usize) -> Option<usize> {
    let api = ExchangeApi::from_object(array.as_borrowed()).ok()??;
    let found = api.with_tensor_view_no_sync(array.as_borrowed(), |tensor, stream| (tensor.device, stream.addr()));
    // An array that the functions do not take may still have the methods of DLPack.
    let (device, stream) = found.ok()?;
    (on_device(device.device_type) && usize::try_from(device.device_id) == Ok(ordinal)).then_some(stream)
}

fn on_device(kind: DLDeviceType) -> bool {
    kind == DLDeviceType::CUDA || kind == DLDeviceType::CUDAMANAGED
}

impl DeviceInput {
    /// Takes an array. Without the number of a stream, it is ready on the legacy default stream, or on
    /// that which the array states.
    ///
    /// # Errors
    /// `TypeError` for arrays in host memory and for element types that streams do not have, `ValueError` for arrays
    /// that are not C-contiguous, and whatever the array's methods raise.
    pub fn new(array: &Bound<'_, PyAny>, stream: Option<usize>) -> PyResult<Self> {
        // An input may be a copy, if its library cannot share it. Some libraries cannot say whether they have copied.
        Self::take(array, stream, None)
    }

    /// Takes an array, with what DLPack calls `copy`.
    fn take(array: &Bound<'_, PyAny>, stream: Option<usize>, copy: Option<bool>) -> PyResult<Self> {
        let has = |name| array.hasattr(name);
        match has(intern!(array.py(), "__dlpack__"))? && has(intern!(array.py(), "__dlpack_device__"))? {
            true => Self::from_dlpack(array, stream.unwrap_or(0), copy),
            false => Self::from_interface(array, stream),
        }
    }

    /// Takes an array that is to be written to.
    ///
    /// # Errors
    /// `ValueError` if it is read-only, or a tensor of PyTorch with a gradient, which would not know of the change; and
    /// those of [`DeviceInput::new`].
    pub fn writable(array: &Bound<'_, PyAny>, stream: Option<usize>) -> PyResult<Self> {
        if let Some(has_gradient) = array.getattr_opt(intern!(array.py(), "requires_grad"))?
            && has_gradient.is_truthy()?
        {
            return Err(PyValueError::new_err("the output requires a gradient: pass its detach()"));
        }
        let input = Self::take(array, stream, Some(false))?;
        if input.read_only {
            return Err(PyValueError::new_err("the output is read-only"));
        }
        Ok(input)
    }

    /// Checks that the array can take another one's elements.
    ///
    /// # Errors
    /// `ValueError` if type or shape differ.
    pub fn check_type(&self, element: ElementType, shape: Shape) -> PyResult<()> {
        if self.element == element && self.shape == shape {
            return Ok(());
        }
        let text = format!("out has shape {} and type {}, not {shape} and {element}", self.shape, self.element);
        Err(PyValueError::new_err(text))
    }

    /// Returns what keeps the memory alive.
    pub fn into_owner(self) -> Owner {
        self.owner
    }

    fn from_dlpack(array: &Bound<'_, PyAny>, stream: usize, copy: Option<bool>) -> PyResult<Self> {
        let request = ImportRequest::new(array.as_borrowed())?;
        // Arrays in host memory refuse a stream with an error of their own.
        let device = request.device()?;
        if !on_device(device.device_type) {
            return Err(not_on_device());
        }
        let imported = request.import(Some(&Consumer(stream)), copy)?;
        let tensor = imported.validate().map_err(|error| PyValueError::new_err(error.to_string()))?;
        check_contiguous(tensor.shape(), tensor.strides())?;
        let element = element_of(tensor.dtype())?;
        let shape = shape_of(tensor.shape())?;
        let pointer = (tensor.data_ptr() as u64).wrapping_add(tensor.byte_offset());
        let bytes = DeviceBytes { pointer, len: tensor.num_bytes() };
        let read_only = imported.flags().contains(DlpackFlags::READ_ONLY);
        let ordinal = usize::try_from(device.device_id).unwrap_or(0);
        Ok(Self { bytes, element, shape, ordinal, stream, read_only, owner: Owner::Dlpack(imported) })
    }

    fn from_interface(array: &Bound<'_, PyAny>, stream: Option<usize>) -> PyResult<Self> {
        let interface =
            array.getattr_opt(intern!(array.py(), "__cuda_array_interface__"))?.ok_or_else(not_on_device)?;
        let interface = interface.cast::<PyDict>()?;
        let get = |name: &str| interface.get_item(name).map(|item| item.filter(|item| !item.is_none()));
        let need = |name: &str| {
            get(name)?.ok_or_else(|| PyValueError::new_err(format!("__cuda_array_interface__ has no entry {name:?}")))
        };
        if get("mask")?.is_some() {
            return Err(PyValueError::new_err("arrays with a mask cannot be compressed: fill them first"));
        }
        let (pointer, read_only) = interface_pointer(interface)?;
        let extents: Vec<i64> = need("shape")?.extract()?;
        let element = element_of_typestr(&need("typestr")?.extract::<String>()?)?;
        let size = element.size() as i64;
        if let Some(strides) = get("strides")? {
            let strides: Vec<i64> = strides.extract()?;
            let aligned = strides.iter().all(|stride| stride % size == 0);
            let strides: Vec<i64> = strides.iter().map(|stride| stride / size).collect();
            check_contiguous(&extents, aligned.then_some(&strides).or(Some(&Vec::new())).map(Vec::as_slice))?;
        }
        let shape = shape_of(&extents)?;
        let len = usize::try_from(shape.len().saturating_mul(size as u64)).unwrap_or(usize::MAX);
        let ordinal = if len == 0 { 0 } else { gpu::device_of(pointer).map_err(exception)? };
        let producer: Option<usize> = get("stream")?.map(|number| number.extract()).transpose()?;
        let stream = match (stream, producer) {
            (Some(stream), Some(producer)) => {
                // SAFETY: the caller's stream and the array's live during the call, and belong to its device.
                unsafe { gpu::order_streams(ordinal, raw_stream(stream), raw_stream(producer)) }.map_err(exception)?;
                stream
            }
            (stream, producer) => stream.or(producer).unwrap_or(0),
        };
        let (bytes, owner) = (DeviceBytes { pointer, len }, Owner::Object(array.clone().unbind()));
        Ok(Self { bytes, element, shape, ordinal, stream, read_only, owner })
    }
}

fn not_on_device() -> PyErr {
    PyTypeError::new_err("the array is not in the memory of a CUDA device")
}

/// Returns the address of a CUDA array interface, and whether its memory must not be written to.
fn interface_pointer(interface: &Bound<'_, PyAny>) -> PyResult<(u64, bool)> {
    let (pointer, read_only): (Option<u64>, bool) = interface.get_item("data")?.extract()?;
    Ok((pointer.unwrap_or(0), read_only))
}

/// The stream on which an imported array must be ready.
struct Consumer(usize);

// SAFETY: the number is that of a stream of the caller, or of a default stream, which lives during the call.
unsafe impl DlpackStream for Consumer {
    fn as_python_arg(&self, _: Python<'_>, _: DLDevice) -> PyResult<StreamArg> {
        Ok(consumer::stream::cuda(raw_stream(self.0)))
    }

    /// Lets a library with the exchange functions of DLPack in C hand over an array without running Python code.
    unsafe fn wait_for_producer(&self, device: DLDevice, producer: *mut c_void) -> PyResult<bool> {
        let consumer = raw_stream(self.0);
        if consumer != producer {
            let ordinal = usize::try_from(device.device_id).unwrap_or(0);
            // SAFETY: both streams live during the call, and belong to the device of the array.
            unsafe { gpu::order_streams(ordinal, consumer, producer) }.map_err(exception)?;
        }
        Ok(true)
    }
}

fn shape_of(extents: &[i64]) -> PyResult<Shape> {
    let extents: Result<Vec<u64>, _> = extents.iter().map(|&extent| u64::try_from(extent)).collect();
    let extents = extents.map_err(|_| PyValueError::new_err("the array has a negative extent"))?;
    Shape::new(&extents).map_err(exception)
}

/// Checks that elements lie one after the other in C order. Strides are in elements.
fn check_contiguous(shape: &[i64], strides: Option<&[i64]>) -> PyResult<()> {
    let Some(strides) = strides else { return Ok(()) };
    let mut next = 1_i64;
    let compact = shape.len() == strides.len()
        && shape.iter().zip(strides).rev().all(|(&extent, &stride)| {
            let fits = extent == 1 || stride == next;
            next = next.saturating_mul(extent);
            fits
        });
    match compact || shape.contains(&0) {
        true => Ok(()),
        false => Err(PyValueError::new_err(
            "the array on the device is not C-contiguous: make a contiguous copy first, such as with .contiguous() or \
             ascontiguousarray()",
        )),
    }
}

/// Returns the element type for one of DLPack.
fn element_of(dtype: DLDataType) -> PyResult<ElementType> {
    let name = match dtype.code {
        DLDataTypeCode::INT => "i",
        DLDataTypeCode::UINT => "u",
        DLDataTypeCode::FLOAT => "f",
        DLDataTypeCode::BFLOAT => "bf",
        _ => "type ",
    };
    let name = format!("{name}{}", dtype.bits);
    match name.parse() {
        Ok(element) if dtype.lanes == 1 => Ok(element),
        _ => Err(PyTypeError::new_err(format!("Syncline has no element type {name} (DLPack code {})", dtype.code.0))),
    }
}

/// Returns the element type for a type string of NumPy.
fn element_of_typestr(typestr: &str) -> PyResult<ElementType> {
    let (kind, bytes) = typestr.split_at_checked(2).unwrap_or((typestr, ""));
    let single = bytes == "1";
    match (kind.as_bytes(), bytes.parse::<u32>()) {
        ([order, kind @ (b'i' | b'u' | b'f')], Ok(bytes @ 1..=8)) if *order == b'<' || single => {
            let name = format!("{}{}", char::from(*kind), 8 * bytes);
            name.parse().map_err(exception)
        }
        _ => Err(PyTypeError::new_err(format!("Syncline has no element type {typestr:?}"))),
    }
}
