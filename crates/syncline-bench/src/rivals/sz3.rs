use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::{Rival, Timed};
use crate::fields::{Field, floats};

/// The worker, kept in this binary so that it runs from anywhere.
const WORKER: &str = include_str!("../../rivals/sz3.py");

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

/// SZ3 on one thread, through its Python package `pysz` in a process of its own: the Rust build then needs neither C++
/// nor libclang. The worker times the calls itself.
pub struct Sz3 {
    algorithm: Algorithm,
    worker: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
}

#[derive(Serialize)]
struct Request<'a> {
    operation: &'a str,
    algorithm: Algorithm,
    extents: &'a [usize],
    bound: f64,
    bytes: usize,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Reply {
    Done { seconds: f64, bytes: usize },
    Failed { error: String },
}

impl Sz3 {
    /// Starts a worker with this Python.
    ///
    /// # Errors
    /// There is no such Python, or it has no `pysz`.
    pub fn start(python: &str, algorithm: Algorithm) -> Result<Self> {
        let mut worker = Command::new(python)
            .args(["-c", WORKER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start '{python}'; name a Python 3 with --python"))?;
        let requests = worker.stdin.take().context("worker without standard input")?;
        let replies = BufReader::new(worker.stdout.take().context("worker without standard output")?);
        let mut rival = Self { algorithm, worker, requests, replies };
        let mut greeting = String::new();
        rival.replies.read_line(&mut greeting)?;
        ensure!(greeting == "ready\n", "'{python}' has no pysz; pip install pysz numpy, or name another with --python");
        Ok(rival)
    }

    fn call(&mut self, operation: &str, extents: &[usize], bound: f64, payload: &[u8]) -> Result<Timed<Vec<u8>>> {
        let request = Request { operation, algorithm: self.algorithm, extents, bound, bytes: payload.len() };
        writeln!(self.requests, "{}", serde_json::to_string(&request)?)?;
        self.requests.write_all(payload)?;
        self.requests.flush()?;
        let mut line = String::new();
        self.replies.read_line(&mut line)?;
        match serde_json::from_str(&line).with_context(|| format!("SZ3 worker ended at {operation}"))? {
            Reply::Failed { error } => bail!("SZ3 {operation}: {error}"),
            Reply::Done { seconds, bytes } => {
                let mut value = vec![0; bytes];
                self.replies.read_exact(&mut value)?;
                Ok(Timed { value, seconds })
            }
        }
    }
}

impl Drop for Sz3 {
    fn drop(&mut self) {
        // Nobody is left to tell if it has ended already.
        let _ = self.worker.kill();
        let _ = self.worker.wait();
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
