//! Syncline's stages on an NVIDIA GPU, writing the same bytes as `syncline-core`.
//!
//! Building needs no CUDA, and neither does starting: the driver and NVRTC (the run-time compiler) are looked for when
//! a [`Device`] is opened, and their absence is a [`CudaError`] that names what to install. Kernels are CUDA C++
//! sources in `kernels/`, compiled for the device at hand on first use and cached on disk.
//!
//! Everything takes device buffers and the caller's stream; scratch memory comes from an [`Arena`] that the caller
//! keeps.

#[cfg(feature = "baselines")]
pub mod baselines;
pub mod container;
pub mod device;
mod device_struct;
pub mod error;
pub mod geometry;
pub mod huffman;
pub mod lossless;
pub mod lzss;
pub mod lzss_codes;
pub mod observer;
pub mod pipeline;
pub mod quantize;
pub mod reconstruct;
pub mod timing;
mod workers;

pub use cudarc;
pub use device::{Arena, Device, DeviceInfo};
pub use error::{CudaError, Result};
