//! An NVIDIA driver and compiler that run kernels on the CPU: slow, but where there is no GPU better than not at all.
//!
//! The library exports the functions of `libcuda.so` (and of `libnvrtc.so`, with the true one behind it for everything
//! but the last step) that Syncline uses. Kernels come as PTX, which is interpreted.

pub mod driver;
pub mod machine;
pub mod memory;
pub mod nvrtc;
pub mod ptx;
