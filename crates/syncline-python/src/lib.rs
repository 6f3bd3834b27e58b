//! The extension module `syncline._core`: bytes in, bytes out.
//!
//! Everything about NumPy (types, strides, byte order) is Python code in `python/syncline`; this module takes
//! C-contiguous little-endian memory with the name of an element type and a shape.

mod buffers;
mod device;
mod errors;
mod estimate;
mod file;
mod hdf5;
mod partial;
mod progress;
mod quality;
mod writer;

use std::ops::Range;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use syncline::{
    ArrayView, Bound as ErrorBound, CompressOptions, DecompressOptions, ElementType, Fill, Header, Result, Shape,
    StreamFile,
};

use buffers::{Input, Output};

/// What callers can choose for compression, by keyword.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Choices {
    mode: String,
    value: f64,
    fill: Vec<f64>,
    detect_fill: bool,
    coder: Option<String>,
    level: Option<u8>,
    effort: Option<String>,
    tile: Option<String>,
    index: String,
    threads: usize,
    device: String,
    memory_limit: Option<u64>,
}

impl Choices {
    fn options(&self) -> Result<CompressOptions> {
        let bound = match self.mode.as_str() {
            "abs" => ErrorBound::Abs(self.value),
            "rel" => ErrorBound::Rel(self.value),
            "psnr" => ErrorBound::Psnr(self.value),
            "pw_rel" => ErrorBound::PwRel(self.value),
            _ => ErrorBound::Lossless,
        };
        let fill = if self.detect_fill { Fill::Auto } else { Fill::of(&self.fill)? };
        let mut options = CompressOptions::new(bound)
            .with_fill(fill)
            .with_index(self.index.parse()?)
            .with_threads(self.threads)
            .with_backend(self.device.parse()?);
        if let Some(coder) = &self.coder {
            options = options.with_coder(coder.parse()?);
        }
        if let Some(level) = self.level {
            options = options.with_level(level);
        }
        if let Some(effort) = &self.effort {
            options = options.with_effort(effort.parse()?);
        }
        options = match self.tile.as_deref() {
            None => options,
            Some("auto") => options.with_tile_size(None),
            Some(size) => options.with_tile_size(Some(size.parse()?)),
        };
        if let Some(limit) = self.memory_limit {
            options = options.with_memory_limit(limit);
        }
        Ok(options)
    }
}

/// Returns the options of a decompression.
fn decompress_options(threads: usize, device: &str, memory_limit: Option<u64>) -> Result<DecompressOptions> {
    let options = DecompressOptions::new().with_threads(threads).with_backend(device.parse()?);
    Ok(match memory_limit {
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
    choices: Choices,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let data = Input::new(data)?;
    let stream = progress::run(py, progress.as_ref(), |hook| {
        let array = ArrayView::from_bytes(data.bytes(), dtype.parse::<ElementType>()?, Shape::new(&shape)?)?;
        syncline::compress(&array, &choices.options()?.with_progress(hook.callback()))
    })?;
    Ok(PyBytes::new(py, &stream))
}

/// Decompresses a region of a stream in memory, or all of it, into `out`, a writable C-contiguous buffer.
#[pyfunction]
#[pyo3(signature = (stream, out, region = None, *, threads = 0, device = "auto", memory_limit = None, progress = None))]
#[allow(clippy::too_many_arguments, reason = "keyword arguments of a Python function")]
fn decompress_into(
    py: Python<'_>,
    stream: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    region: Option<Vec<(u64, u64)>>,
    threads: usize,
    device: &str,
    memory_limit: Option<u64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<()> {
    let stream = Input::new(stream)?;
    let mut out = Output::new(out)?;
    let bytes = out.bytes_mut();
    progress::run(py, progress.as_ref(), |hook| {
        let options = decompress_options(threads, device, memory_limit)?.with_progress(hook.callback());
        decompress_part(&StreamFile::open(stream.bytes())?, bytes, region, &options)
    })
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
    let file = StreamFile::open(stream.bytes()).map_err(errors::exception)?;
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
    fields.set_item("range", header.range)?;
    fields.set_item("fills", fills)?;
    fields.set_item("compressed_bytes", bytes)?;
    Ok(fields)
}

/// Returns the number of bytes that a stream of such an array has at most.
#[pyfunction]
fn max_compressed_len(dtype: &str, shape: Vec<u64>) -> PyResult<u64> {
    let shape = Shape::new(&shape).map_err(errors::exception)?;
    let dtype = dtype.parse::<ElementType>().map_err(errors::exception)?;
    Ok(syncline::max_compressed_len(dtype, shape))
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
    module.add_function(wrap_pyfunction!(hdf5::hdf5_filter, module)?)?;
    module.add_function(wrap_pyfunction!(quality::inspect, module)?)?;
    module.add_function(wrap_pyfunction!(quality::verify, module)?)?;
    module.add_function(wrap_pyfunction!(compress, module)?)?;
    module.add_function(wrap_pyfunction!(decompress_into, module)?)?;
    module.add_function(wrap_pyfunction!(header, module)?)?;
    module.add_function(wrap_pyfunction!(max_compressed_len, module)?)
}
