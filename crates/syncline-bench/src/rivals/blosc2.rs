use anyhow::Result;
use serde::Serialize;

use super::Timed;
use super::worker::Worker;
use crate::clock::Clock;

/// The Python script, included in the binary so that it runs from any folder.
const SCRIPT: &str = include_str!("../../rivals/blosc2.py");

/// The codec that Blosc2 applies after shuffling, which groups the bytes of all elements by their position in the
/// element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Name of the setting in tables.
    pub name: &'static str,
    codec: &'static str,
    level: u32,
}

/// Blosc2's fast codec, and the default codec of its Python package, both at the middle level.
pub const SETTINGS: [Setting; 2] = [
    Setting { name: "blosc2, shuffle, lz4 5", codec: "LZ4", level: 5 },
    Setting { name: "blosc2, shuffle, zstd 1", codec: "ZSTD", level: 1 },
];

/// Blosc2 on one thread, through its Python package.
pub struct Blosc2 {
    worker: Worker,
}

#[derive(Serialize)]
struct Request {
    operation: &'static str,
    codec: &'static str,
    level: u32,
    typesize: usize,
    processor: bool,
    bytes: usize,
}

impl Blosc2 {
    /// Starts a worker process with this Python interpreter.
    ///
    /// # Errors
    /// There is no such interpreter, or it lacks `blosc2`.
    pub fn start(python: &str) -> Result<Self> {
        Ok(Self { worker: Worker::start(python, SCRIPT, "blosc2", "blosc2")? })
    }

    /// Compresses elements of `typesize` bytes.
    ///
    /// # Errors
    /// The worker process fails.
    pub fn compress(
        &mut self,
        setting: Setting,
        typesize: usize,
        bytes: &[u8],
        clock: Clock,
    ) -> Result<Timed<Vec<u8>>> {
        self.call("compress", setting, typesize, bytes, clock)
    }

    /// Decompresses a stream.
    ///
    /// # Errors
    /// The worker process fails.
    pub fn decompress(
        &mut self,
        setting: Setting,
        typesize: usize,
        stream: &[u8],
        clock: Clock,
    ) -> Result<Timed<Vec<u8>>> {
        self.call("decompress", setting, typesize, stream, clock)
    }

    fn call(
        &mut self,
        operation: &'static str,
        setting: Setting,
        typesize: usize,
        payload: &[u8],
        clock: Clock,
    ) -> Result<Timed<Vec<u8>>> {
        let Setting { codec, level, .. } = setting;
        let processor = clock == Clock::Processor;
        self.worker.call(&Request { operation, codec, level, typesize, processor, bytes: payload.len() }, payload)
    }
}
