//! Arrays in the memory of NVIDIA GPUs.
//!
//! Host arrays need none of this: `compress` and the other functions of the crate use GPUs through
//! [`Backend`](crate::Backend). A [`Compressor`] is for arrays that are on a GPU already, such as those of PyTorch,
//! CuPy or JAX. It takes raw device pointers and the caller's CUDA stream, and copies no elements to the host. A
//! [`QueuedCompressor`] and a [`Decompressor`] queue their work on the caller's stream without waiting, so that CUDA
//! graphs can capture it.
//!
//! Streams are the same bytes as those made on the CPU.
//!
//! Opening a GPU lets the device's default memory pool keep up to 1/32 of the device's memory when it is freed, because
//! mapping memory anew takes longer than compressing. Programs that set a higher threshold keep theirs.

mod compressor;
mod decompressor;
mod memory;
mod queued_compressor;
#[cfg(test)]
mod tests;

pub use compressor::{Compressor, Outline};
pub use decompressor::Decompressor;
pub use memory::{DeviceBuffer, device_of, ensure_not_captured, order_streams};
pub use queued_compressor::QueuedCompressor;

use std::ffi::c_void;
use std::fmt;
use std::path::PathBuf;

use syncline_core::error::Result;
use syncline_cuda::device::DeviceInfo as Info;

/// A GPU and the software that drives it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Number of the device, from 0.
    pub ordinal: usize,
    /// Product name, such as "NVIDIA H200".
    pub name: String,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Device memory in bytes.
    pub memory: u64,
    /// Number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// Newest CUDA version that the driver supports, major and minor.
    pub driver: (u32, u32),
    /// Version of the run-time compiler NVRTC in use, major and minor.
    pub nvrtc: (u32, u32),
    /// Compute capability that kernels are compiled for; not above the device's.
    pub target: (u32, u32),
    /// Folder of compiled kernels, if they are cached.
    pub kernel_cache: Option<PathBuf>,
    /// The reason why compiled kernels cannot be stored in that folder, if they cannot.
    pub kernel_cache_error: Option<String>,
    description: String,
}

impl DeviceInfo {
    fn new(info: &Info) -> Self {
        let capability = |number: u32| (number / 10, number % 10);
        Self {
            ordinal: info.ordinal,
            name: info.name.clone(),
            compute_capability: capability(info.capability),
            memory: info.memory,
            multiprocessors: info.multiprocessors,
            driver: (info.driver.major, info.driver.minor),
            nvrtc: (info.compiler.major, info.compiler.minor),
            target: capability(info.architecture),
            kernel_cache: info.cache.clone(),
            kernel_cache_error: info.cache_error(),
            description: info.to_string(),
        }
    }
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description)
    }
}

/// Returns the number of GPUs that the driver reports; 0 if there is a driver but no GPU.
///
/// # Errors
/// [`crate::Error::Gpu`] if there is no driver, or one that is too old.
pub fn device_count() -> Result<usize> {
    crate::gpu_backend::device_count()
}

/// Opens a GPU and describes it. It stays open for later calls.
///
/// # Errors
/// [`crate::Error::Gpu`] if there is no such GPU, or it cannot be used.
pub fn device(ordinal: usize) -> Result<DeviceInfo> {
    Ok(DeviceInfo::new(memory::open(ordinal)?.info()))
}

/// Adds folders in which the run-time compiler NVRTC is looked for, after the usual places.
///
/// Programs that know where a package manager has put it, such as the `lib` folders of NVIDIA's Python packages, call
/// this before the first use of a GPU. Relative paths are left out. A library named in `SYNCLINE_NVRTC` still takes
/// precedence.
pub fn search_nvrtc_in(folders: impl IntoIterator<Item = PathBuf>) {
    syncline_cuda::device::Nvrtc::search_also(folders);
}

/// Memory of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceBytes {
    /// Device address (`CUdeviceptr`) of the first byte.
    pub pointer: u64,
    /// Number of bytes.
    pub len: usize,
}

/// A CUDA stream of the caller (`CUstream`, which is the same as `cudaStream_t`); null is the legacy default stream.
pub type RawStream = *mut c_void;
