//! Syncline's stages on an NVIDIA GPU, writing the same bytes as `syncline-core`.
//!
//! Neither building nor starting a program needs CUDA: the driver and NVRTC (the run-time compiler) are loaded when a
//! [`Device`] is opened, and if one is missing, the [`CudaError`] names what to install. Kernels are CUDA C++ sources
//! in `kernels/`, compiled for the device on first use and cached on disk.
//!
//! All stages take device buffers and the caller's stream; scratch memory comes from an [`Arena`] that the caller
//! keeps.

pub mod blocks;
pub mod container;
pub mod decode;
pub mod device;
#[doc(hidden)]
pub mod device_kernels;
#[doc(hidden)]
pub mod device_struct;
pub mod error;
pub mod geometry;
pub mod huffman;
pub mod kernels;
pub mod lossless;
pub mod lzss;
pub mod pipeline;
pub mod predict;
pub mod quantize;
pub mod strips;
pub mod timing;
mod workers;

pub use cudarc;
pub use device::{Arena, Device, DeviceInfo};
pub use error::{CudaError, Result};
pub use kernels::HEADERS;
