//! The work on NVIDIA GPUs: arrays pass through page-locked memory in pieces, over several streams of each device, so
//! that reading, copying to the device, its work, copying back and writing go on side by side.
//!
//! A *lane* is a thread with a stream of its own on some device. Batches are dealt to the lanes in turn, and what they
//! make is written in order.

mod buffers;
mod compress;
mod decompress;
mod load;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::process;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use syncline_core::error::{Error, Result};
use syncline_cuda::{CudaError, Device, HEADERS};

use crate::devices::CudaDevices;

use buffers::Buffers;
use compress::KeptLanes;

pub(crate) use compress::Compression;
pub(crate) use decompress::{Decompression, Engine, Former};
pub(crate) use plan::{LayerBatch, Place, layer_batches};

/// Page-locked buffers that take turns: one is filled while the other is copied.
const BUFFERS: usize = 2;

/// Bytes of elements that a device works on at a time.
pub(crate) const BATCH_BYTES: u64 = 128 << 20;

/// How large the pieces of the work are. Bytes written and read do not depend on it.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// Bytes of elements that a lane works on at a time.
    batch: u64,
    /// Bytes of page-locked memory that a lane uses in each direction at a time, and that are copied meanwhile.
    piece: usize,
    /// Lanes of a device.
    lanes: usize,
    /// Bytes of a device's memory to use at most.
    device_memory: u64,
}

impl Default for Sizes {
    /// Batches that a device works on for less than a millisecond, and copies in some: little is waited for at either
    /// end. One lane reads, one computes, one writes.
    fn default() -> Self {
        Self { batch: BATCH_BYTES, piece: 16 << 20, lanes: 3, device_memory: u64::MAX }
    }
}

impl Sizes {
    /// Bytes of each page-locked buffer of `lanes` lanes, so that all stay below a quarter of the memory limit: what is
    /// read and written beside them counts, too.
    fn piece_bytes(&self, lanes: usize, limit: Option<u64>) -> Result<usize> {
        const SMALLEST: u64 = 64 << 10;
        let buffers = (2 * BUFFERS * lanes) as u64;
        let Some(limit) = limit else { return Ok(self.piece) };
        match limit / 4 / buffers / SMALLEST * SMALLEST {
            0 => Err(Error::MemoryLimit { what: "copying to the GPU".into(), needed: SMALLEST * buffers * 4, limit }),
            room => Ok((room as usize).min(self.piece)),
        }
    }
}

/// An open GPU, the page-locked memory for copies to and from it, and what is kept for small arrays.
struct Gpu {
    device: Device,
    buffers: Buffers,
    kept: KeptLanes,
}

/// Open GPUs.
pub(crate) struct Gpus(Vec<&'static Gpu>);

impl Gpus {
    /// Makes sure that there are such GPUs, without opening them.
    pub(crate) fn check(devices: CudaDevices) -> Result<()> {
        ordinals(devices).map(|_| ())
    }

    /// Opens GPUs. One that was opened before in this process stays open, with the kernels loaded and the host memory
    /// locked so far.
    pub(crate) fn open(devices: CudaDevices) -> Result<Self> {
        ordinals(devices)?.into_iter().map(open_gpu).collect::<Result<_>>().map(Self)
    }

    /// As they are reported.
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |gpu: &&Gpu| format!("cuda:{} ({})", gpu.device.info().ordinal, gpu.device.info().name);
        self.0.iter().map(name).collect()
    }
}

/// Opens GPU number `ordinal`, once in this process: it is never closed.
fn open_gpu(ordinal: usize) -> Result<&'static Gpu> {
    device_count()?;
    static OPEN: Mutex<BTreeMap<usize, &'static Gpu>> = Mutex::new(BTreeMap::new());
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(gpu) = open.get(&ordinal) {
        return Ok(gpu);
    }
    let device = Device::open(ordinal, &HEADERS).map_err(failure)?;
    let gpu: &Gpu = Box::leak(Box::new(Gpu { device, buffers: Buffers::default(), kept: KeptLanes::default() }));
    open.insert(ordinal, gpu);
    Ok(gpu)
}

/// Returns the number of GPUs that the driver reports.
///
/// # Errors
/// [`Error::Gpu`] without a usable driver, and in a process that was forked from one that has used CUDA: the driver
/// does not work there.
pub(crate) fn device_count() -> Result<usize> {
    static PROCESS: OnceLock<u32> = OnceLock::new();
    if *PROCESS.get_or_init(process::id) != process::id() {
        let message = "CUDA does not work in a process that was forked after its first use: start the process anew \
                       (`spawn`), or use the CPU";
        return Err(Error::Gpu { message: message.into(), source: None });
    }
    Device::count().map_err(failure)
}

fn ordinals(devices: CudaDevices) -> Result<Vec<usize>> {
    let count = device_count()?;
    match devices {
        CudaDevices::One(ordinal) if ordinal < count => Ok(vec![ordinal]),
        CudaDevices::All if count > 0 => Ok((0..count).collect()),
        CudaDevices::One(ordinal) => Err(failure(CudaError::NoDevice { ordinal, count })),
        CudaDevices::All => Err(failure(CudaError::NoDevice { ordinal: 0, count })),
    }
}

/// What a thread returns; if it panics, so does this.
fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The library's error for the device layer's.
pub(crate) fn failure(error: CudaError) -> Error {
    match error {
        CudaError::Core(error) => Arc::try_unwrap(error).unwrap_or_else(Error::gpu_source),
        other => Error::gpu_source(other),
    }
}

/// The same for what `cudarc` itself returns.
fn driver(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Gpu { message: format!("CUDA driver: {error:?}"), source: Some(Box::new(error)) }
}
