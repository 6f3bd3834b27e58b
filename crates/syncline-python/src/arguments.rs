//! Arguments of Python functions, with errors that name them.

use std::fmt::Display;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use syncline::{Bound as ErrorBound, CompressOptions, Fill, Result};

/// A number of threads; 0 stands for one per core.
#[derive(Clone, Copy)]
pub struct Threads(pub usize);

/// A limit in bytes, if there is one.
#[derive(Clone, Copy)]
pub struct MemoryLimit(pub Option<u64>);

impl<'a, 'py> FromPyObject<'a, 'py> for Threads {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        whole_number(object, "threads", "a whole number, or 0 for one per core").map(Self)
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for MemoryLimit {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if object.is_none() {
            return Ok(Self(None));
        }
        whole_number(object, "memory_limit", "a number of bytes, or None").map(|bytes| Self(Some(bytes)))
    }
}

/// Returns a number that is not negative.
fn whole_number<'py, N>(object: Borrowed<'_, 'py, PyAny>, name: &str, what: impl Display) -> PyResult<N>
where
    N: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    object.extract::<N>().map_err(|error| {
        let text = format!("{name} must be {what}, not {}", shown(&object));
        // A number of the right type is out of range.
        if error.is_instance_of::<PyOverflowError>(object.py()) {
            PyValueError::new_err(text)
        } else {
            PyTypeError::new_err(text)
        }
    })
}

/// Returns how Python shows an object.
fn shown(object: &Bound<'_, PyAny>) -> String {
    object.repr().map_or_else(|_| "this object".into(), |text| text.to_string())
}

/// What callers can choose for compression, by keyword.
pub struct Choices {
    mode: String,
    value: f64,
    fill: Vec<f64>,
    detect_fill: bool,
    effort: String,
    advanced: String,
    rewritable: bool,
    threads: Threads,
    device: String,
    memory_limit: MemoryLimit,
}

impl Choices {
    /// Reads the choices that `core_choices` of Python makes.
    ///
    /// # Errors
    /// `TypeError` or `ValueError` with the name of the keyword.
    pub fn of(choices: &Bound<'_, PyDict>) -> PyResult<Self> {
        let item = |name: &str| {
            let missing = || PyTypeError::new_err(format!("the choices lack {name}"));
            choices.get_item(name)?.ok_or_else(missing)
        };
        let text = |name: &str| -> PyResult<String> {
            let value = item(name)?;
            let text = value.cast::<PyString>();
            let text =
                text.map_err(|_| PyTypeError::new_err(format!("{name} must be a string, not {}", shown(&value))))?;
            text.extract()
        };
        let flag = |name: &str| -> PyResult<bool> {
            let value = item(name)?;
            value
                .extract()
                .map_err(|_| PyTypeError::new_err(format!("{name} must be True or False, not {}", shown(&value))))
        };
        Ok(Self {
            mode: text("mode")?,
            value: item("value")?.extract()?,
            fill: item("fill")?.extract()?,
            detect_fill: flag("detect_fill")?,
            effort: text("effort")?,
            advanced: text("advanced")?,
            rewritable: flag("rewritable")?,
            threads: item("threads")?.extract()?,
            device: text("device")?,
            memory_limit: item("memory_limit")?.extract()?,
        })
    }

    /// Returns the options of the library.
    ///
    /// # Errors
    /// An unknown name, or a number that is out of range.
    pub fn options(&self) -> Result<CompressOptions> {
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
            .with_effort(self.effort.parse()?)
            .with_advanced(self.advanced.parse()?)
            .with_rewritable(self.rewritable)
            .with_threads(self.threads.0)
            .with_backend(self.device.parse()?);
        if let Some(limit) = self.memory_limit.0 {
            options = options.with_memory_limit(limit);
        }
        Ok(options)
    }
}
