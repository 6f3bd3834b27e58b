//! The extension module `syncline._core`: bytes in, bytes out.
//!
//! Everything about NumPy (types, strides, byte order) is Python code in `python/syncline`; this module takes
//! C-contiguous little-endian memory with the name of an element type and a shape.

mod arguments;
mod buffers;
mod device;
mod errors;
mod estimate;
mod file;
mod hdf5;
mod numpy;
mod partial;
mod pieces;
mod progress;
mod quality;
mod source;
mod writer;

use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use syncline::{
    ArrayView, Bound as ErrorBound, DecompressOptions, ElementType, Fill, Header, Result, Shape, StreamFile, Summary,
    advice,
};

use arguments::{Choices, MemoryLimit, Threads};
use buffers::{Input, Output};

/// Returns the options of a decompression.
fn decompress_options(threads: Threads, device: &str, memory_limit: MemoryLimit) -> Result<DecompressOptions> {
    let options = DecompressOptions::new().with_threads(threads.0).with_backend(device.parse()?);
    Ok(match memory_limit.0 {
        Some(limit) => options.with_memory_limit(limit),
        None => options,
    })
}

/// Compresses the elements in `data`, a C-contiguous little-endian buffer.
#[pyfunction]
#[pyo3(signature = (data, dtype, shape, choices, progress = None))]
fn compress<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    dtype: &str,
    shape: Vec<u64>,
    choices: &Bound<'py, PyDict>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyBytes>, Advice)> {
    let (data, choices) = (Input::new(data)?, Choices::of(choices)?);
    let (stream, advice) = progress::run(py, data.bytes().len(), progress.as_ref(), None, |hook| {
        let array = ArrayView::from_bytes(data.bytes(), dtype.parse::<ElementType>()?, Shape::new(&shape)?)?;
        let options = choices.options()?.with_progress(hook.callback());
        let (stream, summary) = syncline::compress_with_summary(&array, &options)?;
        Ok((stream, advice_of(&array, options.fill(), &summary)))
    })?;
    // Unlike `PyBytes::new`, an error if there is no memory.
    let bytes = PyBytes::new_with(py, stream.len(), |bytes| {
        bytes.copy_from_slice(&stream);
        Ok(())
    })?;
    Ok((bytes, advice))
}

/// What Python warns of, if there is anything: the far values, the range of the others, and the absolute bound for
/// these; and each fill value with the element near it.
type Advice = (Option<(Vec<f64>, (f64, f64), f64)>, Vec<(f64, f64)>);

fn advice_of(array: &ArrayView, fill: Fill, summary: &Summary) -> Advice {
    let far = advice::far_values(array.bytes(), 0, summary).map(|found| (found.far, found.others, found.abs_bound));
    let near = advice::near_fills(fill, summary).into_iter().map(|found| (found.fill, found.nearest));
    (far, near.collect())
}

/// Decompresses a stream in memory into `out`, a writable C-contiguous buffer.
#[pyfunction]
#[pyo3(signature = (
    stream, out, *, threads = Threads(0), device = "auto", memory_limit = MemoryLimit(None), progress = None
))]
fn decompress_into(
    py: Python<'_>,
    stream: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    threads: Threads,
    device: &str,
    memory_limit: MemoryLimit,
    progress: Option<Py<PyAny>>,
) -> PyResult<()> {
    let stream = Input::new(stream)?;
    let mut out = Output::new(out)?;
    let bytes = out.bytes_mut();
    progress::run(py, bytes.len(), progress.as_ref(), None, |hook| {
        let options = decompress_options(threads, device, memory_limit)?.with_progress(hook.callback());
        decompress_part(&StreamFile::open(&stream)?, bytes, None, &options)
    })
}

/// Decompresses a stream in memory to a new NumPy array: the shortest way for small arrays.
#[pyfunction]
#[pyo3(signature = (stream, threads, device, memory_limit, progress))]
fn decompress<'py>(
    py: Python<'py>,
    stream: &Bound<'py, PyAny>,
    threads: Threads,
    device: &str,
    memory_limit: MemoryLimit,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let stream = Input::new(stream)?;
    let file = StreamFile::open(&stream).map_err(errors::exception)?;
    let array = numpy::empty(py, file.header())?;
    let mut out = Output::new(&numpy::bytes_of(&array, file.header())?)?;
    let bytes = out.bytes_mut();
    progress::run(py, bytes.len(), progress.as_ref(), None, |hook| {
        let options = decompress_options(threads, device, memory_limit)?.with_progress(hook.callback());
        file.decompress_into(bytes, &options)
    })?;
    Ok(array)
}

/// Decompresses a region, or the whole array, into `out`.
fn decompress_part<S: syncline::ReadAt>(
    stream: &StreamFile<S>,
    out: &mut [u8],
    region: Option<Vec<(u64, u64)>>,
    options: &DecompressOptions,
) -> Result<()> {
    match region {
        None => stream.decompress_into(out, options).map(drop),
        Some(region) => stream.decompress_region_into(&ranges_of(region), out, options).map(drop),
    }
}

/// Returns a region that Python states as pairs of a start and an end.
fn ranges_of(region: Vec<(u64, u64)>) -> Vec<Range<u64>> {
    region.into_iter().map(|(start, end)| start..end).collect()
}

/// Returns the fields of a stream's header.
#[pyfunction]
fn header<'py>(py: Python<'py>, stream: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let stream = Input::new(stream)?;
    let file = StreamFile::open(&stream).map_err(errors::exception)?;
    header_fields(py, file.header(), stream.bytes().len() as u64)
}

/// Returns the fields of a header as a dictionary.
fn header_fields<'py>(py: Python<'py>, header: &Header, bytes: u64) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    let (mode, value) = match header.bound {
        ErrorBound::Abs(value) => ("abs", value),
        ErrorBound::Rel(value) => ("rel", value),
        ErrorBound::Psnr(value) => ("psnr", value),
        ErrorBound::PwRel(value) => ("pw_rel", value),
        _ => ("lossless", 0.0),
    };
    let fills: Vec<f64> = header.patterns.iter().map(|&bits| header.element_type.number_of_bits(bits)).collect();
    fields.set_item("dtype", header.element_type.to_string())?;
    fields.set_item("shape", header.shape.extents())?;
    fields.set_item("mode", mode)?;
    fields.set_item("value", value)?;
    fields.set_item("abs_bound", header.abs_bound)?;
    fields.set_item("step", header.step)?;
    fields.set_item("range", header.value_range())?;
    fields.set_item("fills", fills)?;
    fields.set_item("compressed_bytes", bytes)?;
    Ok(fields)
}

/// Returns the number of bytes that a stream of such an array has at most.
#[pyfunction]
fn compress_bound(dtype: &str, shape: Vec<u64>) -> PyResult<u64> {
    let shape = Shape::new(&shape).map_err(errors::exception)?;
    let dtype = dtype.parse::<ElementType>().map_err(errors::exception)?;
    Ok(syncline::compress_bound(dtype, shape))
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    errors::register(module)?;
    device::register(module)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<file::File>()?;
    module.add_class::<partial::PartialStream>()?;
    module.add_class::<writer::Writer>()?;
    module.add_function(wrap_pyfunction!(estimate::estimate, module)?)?;
    module.add_function(wrap_pyfunction!(hdf5::hdf5_advanced, module)?)?;
    module.add_function(wrap_pyfunction!(hdf5::hdf5_filter, module)?)?;
    module.add_function(wrap_pyfunction!(quality::inspect, module)?)?;
    module.add_function(wrap_pyfunction!(quality::verify, module)?)?;
    module.add_function(wrap_pyfunction!(writer::save, module)?)?;
    module.add_function(wrap_pyfunction!(compress, module)?)?;
    module.add_function(wrap_pyfunction!(decompress, module)?)?;
    module.add_function(wrap_pyfunction!(decompress_into, module)?)?;
    module.add_function(wrap_pyfunction!(header, module)?)?;
    module.add_function(wrap_pyfunction!(pieces::resolve_piece, module)?)?;
    module.add_function(wrap_pyfunction!(compress_bound, module)?)
}
