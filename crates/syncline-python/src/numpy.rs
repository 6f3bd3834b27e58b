//! Arrays of NumPy, made without Python code in between.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use syncline::{ElementType, Header};

/// Returns an array of the type and shape of a header, whose elements are not set.
///
/// # Errors
/// `MemoryError`, or those of importing NumPy, or `ml_dtypes` for bfloat16.
pub fn empty<'py>(py: Python<'py>, header: &Header) -> PyResult<Bound<'py, PyAny>> {
    static EMPTY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let shape = PyTuple::new(py, header.shape.extents())?;
    EMPTY.import(py, "numpy", "empty")?.call1((shape, dtype(py, header.element_type)?))
}

/// Returns an object with the buffer of an array from [`empty`].
///
/// # Errors
/// Those of NumPy.
pub fn bytes_of<'py>(array: &Bound<'py, PyAny>, header: &Header) -> PyResult<Bound<'py, PyAny>> {
    // NumPy makes no buffer of types that are not its own, and none with a shape of arrays without axes.
    if header.element_type == ElementType::Bf16 || header.shape.extents().is_empty() {
        return array.call_method1("reshape", (-1,))?.call_method1("view", ("u1",));
    }
    Ok(array.clone())
}

/// Returns the little-endian type of NumPy for an element type.
fn dtype<'py>(py: Python<'py>, element_type: ElementType) -> PyResult<Bound<'py, PyAny>> {
    static TYPES: [PyOnceLock<Py<PyAny>>; ElementType::ALL.len()] =
        [const { PyOnceLock::new() }; ElementType::ALL.len()];
    static OF_NAME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || -> PyResult<Py<PyAny>> {
        Ok(OF_NAME.import(py, "syncline._types", "numpy_dtype")?.call1((element_type.to_string(),))?.unbind())
    };
    let number = ElementType::ALL.iter().position(|&other| other == element_type);
    match number {
        Some(number) => Ok(TYPES[number].get_or_try_init(py, make)?.bind(py).clone()),
        None => Ok(make()?.into_bound(py)),
    }
}
