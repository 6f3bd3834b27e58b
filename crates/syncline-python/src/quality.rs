//! What a stream consists of, and how far its array is from the original.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use syncline::quality::{Tolerance, compare};
use syncline::{ArrayView, Bound as ErrorBound, ElementType, Header, Shape, StreamFile};

use crate::arguments::{MemoryLimit, Threads};
use crate::buffers::Input;
use crate::errors::exception;
use crate::{decompress_options, header_fields, progress};

/// Returns the fields of the header and the counts and sizes of the parts of a stream. Every chunk is checked.
#[pyfunction]
pub fn inspect<'py>(py: Python<'py>, stream: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let stream = Input::new(stream)?;
    let description = progress::run(py, usize::MAX, None, None, |_| StreamFile::open(&stream)?.inspect())?;
    let file = StreamFile::open(&stream).map_err(exception)?;
    let fields = header_fields(py, file.header(), description.compressed_bytes)?;
    fields.set_item("version", description.version)?;
    fields.set_item("pipeline", description.pipeline.to_string())?;
    fields.set_item("index", description.index.to_string())?;
    fields.set_item("tile_size", description.tile_size.name())?;
    let totals = &description.totals;
    for (name, count) in [
        ("chunks", totals.chunks),
        ("raw_chunks", totals.raw_chunks),
        ("lzss_chunks", totals.lzss_chunks),
        ("tiles", totals.tiles),
        ("constant_tiles", totals.constant_tiles),
        ("masked_tiles", totals.masked_tiles),
        ("interpolated_tiles", totals.interpolated_tiles),
        ("verbatim", totals.verbatim),
        ("codeword_bytes", totals.codeword_bytes),
        ("codebook_bytes", totals.codebook_bytes),
        ("index_bytes", totals.index_bytes),
        ("side_bytes", totals.side_bytes),
    ] {
        fields.set_item(name, count)?;
    }
    Ok(fields)
}

/// Compares an array with what its stream decompresses to, under the bound of the stream.
#[pyfunction]
#[pyo3(signature = (data, dtype, shape, stream, *, threads = Threads(0), device = "auto"))]
pub fn verify<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    dtype: &str,
    shape: Vec<u64>,
    stream: &Bound<'py, PyAny>,
    threads: Threads,
    device: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let (data, stream) = (Input::new(data)?, Input::new(stream)?);
    let quality = progress::run(py, data.bytes().len(), None, None, |_| {
        let original = ArrayView::from_bytes(data.bytes(), dtype.parse::<ElementType>()?, Shape::new(&shape)?)?;
        let file = StreamFile::open(&stream)?;
        let options = decompress_options(threads, device, MemoryLimit(None))?;
        let decompressed = file.decompress(&options)?;
        compare(&original, &decompressed.view(), &file.header().patterns, tolerance(file.header()))
    })?;
    let fields = PyDict::new(py);
    fields.set_item("holds", quality.holds())?;
    fields.set_item("elements", quality.elements)?;
    fields.set_item("compared", quality.compared)?;
    fields.set_item("violations", quality.violations)?;
    fields.set_item("mismatches", quality.mismatches)?;
    fields.set_item("differing", quality.differing)?;
    fields.set_item("max_abs", quality.max_absolute.map(|peak| peak.value))?;
    fields.set_item("max_rel", quality.max_relative.map(|peak| peak.value))?;
    fields.set_item("bound_ratio", quality.bound_ratio())?;
    fields.set_item("range", quality.range)?;
    fields.set_item("rmse", quality.rmse)?;
    fields.set_item("nrmse", quality.nrmse)?;
    fields.set_item("psnr", quality.psnr)?;
    fields.set_item("ssim", quality.ssim)?;
    fields.set_item("correlation", quality.correlation)?;
    Ok(fields)
}

/// Returns the error that each element of a stream's array may have.
fn tolerance(header: &Header) -> Tolerance {
    match header.bound {
        _ if header.abs_bound == 0.0 => Tolerance::Exact,
        ErrorBound::PwRel(_) => Tolerance::PointwiseRelative(header.abs_bound),
        _ => Tolerance::Absolute(header.abs_bound),
    }
}
