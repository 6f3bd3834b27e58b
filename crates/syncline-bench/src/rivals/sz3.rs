use anyhow::Result;
use serde::Serialize;

use super::worker::Worker;
use super::{ArrayCodec, ArrayType, Rival, Timed};
use crate::fields::{Field, floats};

/// The Python script, included in the binary so that it runs from any folder.
const SCRIPT: &str = include_str!("../../rivals/sz3.py");

/// An algorithm of SZ3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Interpolation, or Lorenzo prediction where SZ3 estimates that to be better.
    Default,
    /// Interpolation alone.
    Interpolation,
    /// Lorenzo prediction and regression by block, as in SZ2.
    LorenzoRegression,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Self; 3] = [Self::Default, Self::Interpolation, Self::LorenzoRegression];

    /// Returns the name of the algorithm in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "SZ3 interpolation (default)",
            Self::Interpolation => "SZ3 interpolation alone",
            Self::LorenzoRegression => "SZ3 Lorenzo-regression",
        }
    }
}

/// SZ3 on one thread, through its Python package `pysz`.
pub struct Sz3 {
    algorithm: Algorithm,
    worker: Worker,
}

#[derive(Serialize)]
struct Request<'a> {
    operation: &'a str,
    algorithm: Algorithm,
    element: &'a str,
    extents: &'a [usize],
    bound: f64,
    bytes: usize,
}

impl Sz3 {
    /// Starts a worker process with this Python interpreter.
    ///
    /// # Errors
    /// There is no such interpreter, or it lacks `pysz`.
    pub fn start(python: &str, algorithm: Algorithm) -> Result<Self> {
        Ok(Self { algorithm, worker: Worker::start(python, SCRIPT, "SZ3", "pysz numpy")? })
    }

    fn call(&mut self, operation: &str, array: ArrayType, bound: f64, payload: &[u8]) -> Result<Timed<Vec<u8>>> {
        let ArrayType { element, extents } = array;
        let request = Request { operation, algorithm: self.algorithm, element, extents, bound, bytes: payload.len() };
        self.worker.call(&request, payload)
    }
}

impl ArrayCodec for Sz3 {
    fn compress_array(&mut self, array: ArrayType, bytes: &[u8], bound: f64) -> Result<Timed<Vec<u8>>> {
        self.call("compress", array, bound, bytes)
    }

    fn decompress_array(&mut self, array: ArrayType, stream: &[u8]) -> Result<Timed<Vec<u8>>> {
        self.call("decompress", array, 0.0, stream)
    }
}

impl Rival for Sz3 {
    fn name(&self) -> String {
        self.algorithm.name().into()
    }

    fn compress(&mut self, field: &Field, bound: f64, _threads: usize) -> Result<Timed<Vec<u8>>> {
        let array = ArrayType { element: "<f4", extents: &field.extents };
        self.call("compress", array, bound, bytemuck::cast_slice(&field.values))
    }

    fn decompress(&mut self, stream: &[u8], field: &Field, _threads: usize) -> Result<Timed<Vec<f32>>> {
        let array = ArrayType { element: "<f4", extents: &field.extents };
        let Timed { value, seconds } = self.call("decompress", array, 0.0, stream)?;
        Ok(Timed { value: floats(&value), seconds })
    }
}
