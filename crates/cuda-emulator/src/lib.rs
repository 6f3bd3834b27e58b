//! An emulated NVIDIA driver and compiler: runs CUDA kernels on the CPU, to test them without a GPU.
//!
//! The library exports functions of `libcuda.so` and of `libnvrtc.so`. Calls of NVRTC go to the real compiler, which
//! compiles to PTX instead of machine code; the emulator interprets the PTX. See `README.md` for what it supports and
//! what it finds.

pub mod driver;
pub mod machine;
pub mod memory;
pub mod nvrtc;
pub mod ptx;
