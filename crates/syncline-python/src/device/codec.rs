//! Compression and decompression of arrays in device memory.

#![allow(unsafe_code, reason = "arrays of other libraries are device memory at raw pointers")]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use syncline::gpu::{Compressor, DeviceBuffer, DeviceBytes, RawStream, ensure_not_captured};
use syncline::{ArrayView, Backend, CompressOptions, DecompressOptions, ElementType, Error, Result, Shape};

use super::array::DeviceArray;
use super::idle;
use super::import::{DeviceInput, cuda_device_of};
use super::options::CudaOptions;
use super::raw_stream;
use crate::buffers::Input;
use crate::errors::exception;
use crate::{header_fields, ranges_of};

/// Compresses and decompresses arrays in the memory of one GPU, with a workspace that it keeps.
///
/// What the GPU cannot do (lossless streams without an index, and bounds that resolve to lossless compression) is done
/// on the CPU if the call allows it: the bytes are those of the CPU in any case.
#[pyclass(frozen, module = "syncline._core")]
pub struct CudaCompressor {
    codec: Arc<Mutex<Compressor>>,
    ordinal: usize,
}

impl Drop for CudaCompressor {
    fn drop(&mut self) {
        idle::give_back(self.ordinal, self.codec.clone());
    }
}

#[pymethods]
impl CudaCompressor {
    /// Opens a GPU, for a call on a stream if that is given: a CUDA graph must not capture it.
    #[new]
    #[pyo3(signature = (ordinal, stream = None))]
    fn new(py: Python<'_>, ordinal: usize, stream: Option<usize>) -> PyResult<Self> {
        let codec = py.detach(|| {
            if let Some(number) = stream {
                // SAFETY: the caller's stream lives during the call, and belongs to the device.
                unsafe { ensure_not_captured(ordinal, raw_stream(number)) }?;
            }
            idle::take(ordinal)
        });
        Ok(Self { codec: codec.map_err(exception)?, ordinal })
    }

    /// Compresses an array on the device to new memory, or to the start of `out`, bytes on the device.
    #[pyo3(signature = (array, options, out = None, stream = None))]
    fn compress(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        options: &Bound<'_, CudaOptions>,
        out: Option<&Bound<'_, PyAny>>,
        stream: Option<usize>,
    ) -> PyResult<DeviceArray> {
        let input = self.take(array, stream)?;
        let CudaOptions { options, fallback } = options.get();
        let number = input.stream;
        let (bytes, element, shape) = (input.bytes, input.element, input.shape);
        let Some(out) = out else {
            let made = py.detach(|| {
                let mut codec = self.lock();
                // SAFETY: `input` keeps the array, which is ready on the stream, until this function returns.
                let made = unsafe { codec.compress_to_buffer(bytes, element, shape, options, raw_stream(number)) };
                match made {
                    Ok((made, _)) => Ok(made),
                    Err(error) if *fallback && unable(&error) => {
                        // SAFETY: as above.
                        let made = unsafe { on_host(&codec, bytes, element, shape, options, raw_stream(number)) }?;
                        codec.upload(&made)
                    }
                    Err(error) => Err(error),
                }
            });
            let made = made.map_err(exception)?;
            let len = made.bytes().len as u64;
            return Ok(DeviceArray::of_buffer(made, ElementType::U8, &[len], self.ordinal));
        };
        let output = self.take_output(out, Some(number))?;
        let room = output.bytes;
        let len = py.detach(|| {
            let mut codec = self.lock();
            // SAFETY: `input` and `output` keep both arrays, ready on the stream, until this function returns.
            let made = unsafe { codec.compress(bytes, element, shape, options, room, raw_stream(number)) };
            match made {
                Ok(summary) => Ok(summary.compressed_bytes as usize),
                Err(error) if *fallback && unable(&error) => {
                    // SAFETY: as above.
                    let made = unsafe { on_host(&codec, bytes, element, shape, options, raw_stream(number)) }?;
                    let needs = format!("the output has {} bytes, but the stream has {} bytes", room.len, made.len());
                    if made.len() > room.len {
                        return Err(Error::invalid(needs));
                    }
                    let room = DeviceBytes { len: made.len(), ..room };
                    // SAFETY: as above.
                    unsafe { codec.copy_from_host(&made, room, raw_stream(number)) }.map(|()| made.len())
                }
                Err(error) => Err(error),
            }
        });
        let len = len.map_err(exception)?;
        Ok(DeviceArray::of_input(output, len, ElementType::U8, &[len as u64]))
    }

    /// Decompresses a stream on the device or in host memory, or a region of its array, to new memory, or to `out`, an
    /// array on the device. A region comes with the shape of the result.
    #[pyo3(signature = (data, out = None, stream = None, fallback = true, region = None))]
    fn decompress(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        out: Option<&Bound<'_, PyAny>>,
        stream: Option<usize>,
        fallback: bool,
        region: Option<BoxOfArray>,
    ) -> PyResult<DeviceArray> {
        let source = self.source(py, data, stream)?;
        let (bytes, number) = source.place();
        // SAFETY: `source` keeps the stream, which is ready on the CUDA stream, until this function returns.
        let outline = py.detach(|| unsafe { self.lock().outline(bytes, raw_stream(number)) }).map_err(exception)?;
        let element = outline.header().element_type;
        let (region, shape) = match region {
            None => (None, outline.header().shape),
            Some((region, shape)) => (Some(ranges_of(region)), Shape::new(&shape).map_err(exception)?),
        };
        let len = (shape.len() as usize).saturating_mul(element.size());
        let decode = |to: DeviceBytes| {
            py.detach(|| {
                let mut codec = self.lock();
                let caller = raw_stream(number);
                let made = match &region {
                    // SAFETY: the stream and the output are kept, and ready, until this function returns.
                    None => unsafe { codec.decompress_outlined(&outline, bytes, to, caller) },
                    // SAFETY: as above.
                    Some(region) => unsafe { codec.decompress_region(&outline, bytes, region, to, caller) },
                };
                match made {
                    Err(error) if fallback && unable(&error) => {
                        // SAFETY: as above.
                        let stream = unsafe { codec.copy_to_host(bytes, raw_stream(number)) }?;
                        let options = DecompressOptions::new().with_backend(Backend::Cpu);
                        let array = match &region {
                            None => syncline::decompress(&stream, &options)?,
                            Some(region) => syncline::decompress_region(&stream, region, &options)?,
                        };
                        // SAFETY: as above.
                        unsafe { codec.copy_from_host(array.bytes(), to, raw_stream(number)) }
                    }
                    result => result,
                }
            })
        };
        let Some(out) = out else {
            let buffer = py.detach(|| self.lock().allocate(len)).map_err(exception)?;
            decode(buffer.bytes()).map_err(exception)?;
            return Ok(DeviceArray::of_buffer(buffer, element, shape.extents(), self.ordinal));
        };
        let output = self.take_output(out, Some(number))?;
        output.check_type(element, shape)?;
        decode(output.bytes).map_err(exception)?;
        Ok(DeviceArray::of_input(output, len, element, shape.extents()))
    }

    /// Returns the fields of the header of a stream on the device.
    #[pyo3(signature = (data, stream = None))]
    fn header<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
        stream: Option<usize>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let source = self.source(py, data, stream)?;
        let (bytes, number) = source.place();
        // SAFETY: `source` keeps the stream, which is ready on the CUDA stream, until this function returns.
        let outline = py.detach(|| unsafe { self.lock().outline(bytes, raw_stream(number)) }).map_err(exception)?;
        header_fields(py, outline.header(), bytes.len as u64)
    }

    /// Copies an array in host memory, C-contiguous and little-endian, to the device.
    fn upload(&self, py: Python<'_>, data: &Bound<'_, PyAny>, dtype: &str, shape: Vec<u64>) -> PyResult<DeviceArray> {
        let data = Input::new(data)?;
        let element = dtype.parse::<ElementType>().map_err(exception)?;
        let whole = Shape::new(&shape).map_err(exception)?;
        ArrayView::from_bytes(data.bytes(), element, whole).map_err(exception)?;
        let buffer = py.detach(|| self.lock().upload(data.bytes())).map_err(exception)?;
        Ok(DeviceArray::of_buffer(buffer, element, &shape, self.ordinal))
    }

    /// Copies an array on the device, C-contiguous, to host memory. Returns its bytes, type, and shape.
    #[pyo3(signature = (array, stream = None))]
    fn download<'py>(
        &self,
        py: Python<'py>,
        array: &Bound<'py, PyAny>,
        stream: Option<usize>,
    ) -> PyResult<(Bound<'py, PyBytes>, String, Vec<u64>)> {
        let input = self.take(array, stream)?;
        let (bytes, number) = (input.bytes, input.stream);
        // SAFETY: `input` keeps the array, which is ready on the stream, until this function returns.
        let copied = py.detach(|| unsafe { self.lock().copy_to_host(bytes, raw_stream(number)) }).map_err(exception)?;
        let bytes = PyBytes::new(py, &copied);
        Ok((bytes, input.element.to_string(), input.shape.extents().to_vec()))
    }
}

/// A region, as a start and an end for each axis, and the shape of the result.
type BoxOfArray = (Vec<(u64, u64)>, Vec<u64>);

/// A stream on the device.
enum Source {
    Theirs(Box<DeviceInput>),
    Copy(DeviceBuffer),
}

impl Source {
    /// Returns where the stream is, and the number of the CUDA stream on which it is ready.
    fn place(&self) -> (DeviceBytes, usize) {
        match self {
            Self::Theirs(input) => (input.bytes, input.stream),
            Self::Copy(buffer) => (buffer.bytes(), 0),
        }
    }
}

impl CudaCompressor {
    /// Takes turns. Called only while the thread is detached from the interpreter, so that no thread waits for this
    /// lock while another one with the lock waits for the interpreter.
    fn lock(&self) -> MutexGuard<'_, Compressor> {
        self.codec.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, array: &Bound<'_, PyAny>, stream: Option<usize>) -> PyResult<DeviceInput> {
        let input = DeviceInput::new(array, stream)?;
        self.check(&input)?;
        Ok(input)
    }

    fn take_output(&self, array: &Bound<'_, PyAny>, stream: Option<usize>) -> PyResult<DeviceInput> {
        let output = DeviceInput::writable(array, stream)?;
        self.check(&output)?;
        Ok(output)
    }

    fn check(&self, array: &DeviceInput) -> PyResult<()> {
        if array.ordinal != self.ordinal && array.bytes.len > 0 {
            let message = format!("the array is on cuda:{}, not on cuda:{}", array.ordinal, self.ordinal);
            return Err(PyValueError::new_err(message));
        }
        Ok(())
    }

    /// Takes a stream on the device, or copies one there.
    fn source(&self, py: Python<'_>, data: &Bound<'_, PyAny>, stream: Option<usize>) -> PyResult<Source> {
        if cuda_device_of(data)?.is_some() {
            return Ok(Source::Theirs(Box::new(self.take(data, stream)?)));
        }
        let data = Input::new(data)?;
        py.detach(|| self.lock().upload(data.bytes())).map(Source::Copy).map_err(exception)
    }
}

/// Returns whether the CPU may be able to do what failed on the GPU.
fn unable(error: &Error) -> bool {
    matches!(error, Error::Gpu { .. })
}

/// Compresses an array on the device with the CPU.
///
/// # Safety
/// That of [`Compressor::copy_to_host`].
unsafe fn on_host(
    codec: &Compressor,
    array: DeviceBytes,
    element: ElementType,
    shape: Shape,
    options: &CompressOptions,
    stream: RawStream,
) -> Result<Vec<u8>> {
    // SAFETY: that of this function.
    let elements = unsafe { codec.copy_to_host(array, stream) }?;
    let options = options.clone().with_backend(Backend::Cpu);
    syncline::compress(&ArrayView::from_bytes(&elements, element, shape)?, &options)
}
