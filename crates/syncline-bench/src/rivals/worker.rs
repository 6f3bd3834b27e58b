use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::Timed;

/// What reads requests and writes replies, in front of the script of a codec.
const SERVE: &str = include_str!("../../rivals/worker.py");

/// A process that runs a codec with a Python package, so that the Rust build needs neither the codec's C++ code nor
/// libclang. The process times the calls itself.
pub(super) struct Worker {
    name: &'static str,
    process: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Reply {
    Done { seconds: f64, bytes: usize },
    Failed { error: String },
}

impl Worker {
    /// Starts a script with this Python interpreter, for the codec `name` of the packages `packages`.
    pub fn start(python: &str, script: &str, name: &'static str, packages: &str) -> Result<Self> {
        let mut process = Command::new(python)
            .args(["-c", &format!("{SERVE}\n\n{script}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start '{python}'; name a Python 3 with --python"))?;
        let requests = process.stdin.take().context("worker without standard input")?;
        let replies = BufReader::new(process.stdout.take().context("worker without standard output")?);
        let mut worker = Self { name, process, requests, replies };
        let mut greeting = String::new();
        worker.replies.read_line(&mut greeting)?;
        ensure!(
            greeting == "ready\n",
            "'{python}' lacks what it takes; pip install {packages}, or name another with --python"
        );
        Ok(worker)
    }

    /// Sends a request that states the number of bytes of `payload`, and returns the answer.
    pub fn call(&mut self, request: &impl Serialize, payload: &[u8]) -> Result<Timed<Vec<u8>>> {
        writeln!(self.requests, "{}", serde_json::to_string(request)?)?;
        self.requests.write_all(payload)?;
        self.requests.flush()?;
        let mut line = String::new();
        self.replies.read_line(&mut line)?;
        match serde_json::from_str(&line).with_context(|| format!("the worker of {} has ended", self.name))? {
            Reply::Failed { error } => bail!("{}: {error}", self.name),
            Reply::Done { seconds, bytes } => {
                let mut value = vec![0; bytes];
                self.replies.read_exact(&mut value)?;
                Ok(Timed { value, seconds })
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Drop cannot report an error; the process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
