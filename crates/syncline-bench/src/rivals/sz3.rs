use anyhow::Result;
use serde::Serialize;

use super::worker::Worker;
use super::{Rival, Timed};
use crate::fields::{Field, floats};

/// The Python script, included in the binary so that it runs from any folder.
const SCRIPT: &str = include_str!("../../rivals/sz3.py");

/// An algorithm of SZ3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Interpolation, or Lorenzo prediction where SZ3 estimates that to be better.
    Default,
    /// Lorenzo prediction and regression by block, as in SZ2.
    LorenzoRegression,
}

impl Algorithm {
    /// Returns the name of the algorithm in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "SZ3 interpolation (default)",
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

    fn call(&mut self, operation: &str, extents: &[usize], bound: f64, payload: &[u8]) -> Result<Timed<Vec<u8>>> {
        let request = Request { operation, algorithm: self.algorithm, extents, bound, bytes: payload.len() };
        self.worker.call(&request, payload)
    }
}

impl Rival for Sz3 {
    fn name(&self) -> String {
        self.algorithm.name().into()
    }

    fn compress(&mut self, field: &Field, bound: f64, _threads: usize) -> Result<Timed<Vec<u8>>> {
        self.call("compress", &field.extents, bound, bytemuck::cast_slice(&field.values))
    }

    fn decompress(&mut self, stream: &[u8], field: &Field, _threads: usize) -> Result<Timed<Vec<f32>>> {
        let Timed { value, seconds } = self.call("decompress", &field.extents, 0.0, stream)?;
        Ok(Timed { value: floats(&value), seconds })
    }
}
