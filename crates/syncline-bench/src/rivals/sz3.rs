use anyhow::Result;
use serde::Serialize;

use super::worker::Worker;
use super::{Rival, Timed};
use crate::fields::{Field, floats};

/// The script, kept in this binary so that it runs from anywhere.
const SCRIPT: &str = include_str!("../../rivals/sz3.py");

/// Which of SZ3's algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Interpolation, or Lorenzo where SZ3 finds it better.
    Default,
    /// Lorenzo and regression by block, as in SZ2.
    LorenzoRegression,
}

impl Algorithm {
    /// Name in tables.
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
    /// Starts a worker with this Python.
    ///
    /// # Errors
    /// There is no such Python, or it has no `pysz`.
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
