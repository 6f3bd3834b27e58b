use anyhow::Result;
use serde::Serialize;

use super::worker::Worker;
use super::{ArrayCodec, ArrayType, Timed};

const SCRIPT: &str = include_str!("../../rivals/zfp.py");

/// zfp on one thread, through its Python package `zfpy`.
pub struct Zfp(Worker);

#[derive(Serialize)]
struct Request<'a> {
    operation: &'a str,
    element: &'a str,
    extents: &'a [usize],
    bound: f64,
    bytes: usize,
}

impl Zfp {
    /// Starts a worker process with this Python interpreter.
    ///
    /// # Errors
    /// There is no such interpreter, or it lacks `zfpy`.
    pub fn start(python: &str) -> Result<Self> {
        Ok(Self(Worker::start(python, SCRIPT, "zfp", "zfpy numpy")?))
    }

    fn call(&mut self, operation: &str, array: ArrayType, bound: f64, payload: &[u8]) -> Result<Timed<Vec<u8>>> {
        let ArrayType { element, extents } = array;
        self.0.call(&Request { operation, element, extents, bound, bytes: payload.len() }, payload)
    }
}

impl ArrayCodec for Zfp {
    fn compress_array(&mut self, array: ArrayType, bytes: &[u8], bound: f64) -> Result<Timed<Vec<u8>>> {
        self.call("compress", array, bound, bytes)
    }

    fn decompress_array(&mut self, array: ArrayType, stream: &[u8]) -> Result<Timed<Vec<u8>>> {
        self.call("decompress", array, 0.0, stream)
    }
}
