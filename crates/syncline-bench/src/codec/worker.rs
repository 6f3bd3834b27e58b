//! Codecs that run in a Python process, so that the Rust build needs neither their C++ code nor libclang.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use syncline::ElementType;

use super::{Codec, Timed};
use crate::array::Array;
use crate::clock::Clock;

/// The Python script, included in the program so that it runs from any folder.
const SCRIPT: &str = include_str!("../../rivals/worker.py");

/// A process that runs one codec, and times its calls itself.
struct Worker {
    name: String,
    process: Child,
    requests: ChildStdin,
    replies: BufReader<ChildStdout>,
}

#[derive(Serialize)]
struct Request<'a> {
    operation: &'a str,
    element: String,
    /// Our name of the element type.
    name: String,
    extents: &'a [u64],
    bound: Option<f64>,
    processor: bool,
    bytes: usize,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Reply {
    Done { seconds: f64, bytes: usize },
    Failed { error: String },
}

/// Starts a process for each codec, given as its name and options in records, and the script's function and option.
/// Returns a message for each that is missing.
pub(super) fn start_all(python: &str, codecs: &[(&str, &str, &str, &str)]) -> (Vec<Codec>, Vec<String>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for &(name, options, function, option) in codecs {
        match Worker::start(python, function, option) {
            Ok(worker) => found.push(worker.into_codec(name, options)),
            Err(error) => missing.push(format!("{name} {options}: {error:#}")),
        }
    }
    (found, missing)
}

/// Returns NumPy's name of an element type.
fn numpy_name(element: ElementType) -> String {
    let kind = match element {
        _ if element.is_float() => 'f',
        _ if element.is_signed_integer() => 'i',
        _ => 'u',
    };
    format!("<{kind}{}", element.size())
}

impl Worker {
    fn start(python: &str, function: &str, option: &str) -> Result<Self> {
        let mut process = Command::new(python)
            .args(["-c", SCRIPT, function, option])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start '{python}'; name a Python 3 with --python"))?;
        let requests = process.stdin.take().context("worker without standard input")?;
        let replies = BufReader::new(process.stdout.take().context("worker without standard output")?);
        let mut worker = Self { name: function.to_owned(), process, requests, replies };
        let mut greeting = String::new();
        worker.replies.read_line(&mut greeting)?;
        ensure!(
            greeting == "ready\n",
            "'{python}' lacks a package: pip install pysz zfpy blosc2 zipnn numpy, or name another with --python"
        );
        Ok(worker)
    }

    fn into_codec(self, name: &str, options: &str) -> Codec {
        let worker = Rc::new(RefCell::new(self));
        let other = worker.clone();
        Codec::other(
            name,
            options,
            move |array, bound, clock| worker.borrow_mut().call("compress", array, bound, &array.bytes, clock),
            move |array, stream, clock| other.borrow_mut().call("decompress", array, None, stream, clock),
        )
    }

    fn call(
        &mut self,
        operation: &str,
        array: &Array,
        bound: Option<f64>,
        payload: &[u8],
        clock: Clock,
    ) -> Result<Timed> {
        let (element, extents) = (numpy_name(array.element), array.extents.as_slice());
        let processor = clock == Clock::Processor;
        let name = array.element.to_string();
        let request = Request { operation, element, name, extents, bound, processor, bytes: payload.len() };
        writeln!(self.requests, "{}", serde_json::to_string(&request)?)?;
        self.requests.write_all(payload)?;
        self.requests.flush()?;
        let mut line = String::new();
        self.replies.read_line(&mut line)?;
        match serde_json::from_str(&line).with_context(|| format!("the worker of {} has ended", self.name))? {
            Reply::Failed { error } => bail!("{}: {error}", self.name),
            Reply::Done { seconds, bytes: length } => {
                let mut bytes = vec![0; length];
                self.replies.read_exact(&mut bytes)?;
                Ok(Timed { bytes, seconds })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_that_does_not_exist_is_reported() {
        let (found, missing) = start_all("no-such-python", &[("zfp", "", "zfp", "")]);
        assert!(found.is_empty() && missing.len() == 1 && missing[0].contains("cannot start 'no-such-python'"));
    }

    #[test]
    fn numpy_names_have_kind_and_size() {
        let names = [ElementType::F64, ElementType::I32, ElementType::U8].map(numpy_name);
        assert_eq!(names, ["<f8", "<i4", "<u1"]);
    }
}
