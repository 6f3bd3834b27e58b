//! What can go wrong on a GPU, and what to do about it.

use std::sync::Arc;

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

/// Anything that can go wrong while a device is opened or used.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// The driver's library is not on this machine.
    #[error("no CUDA driver on this machine (libcuda was not found): install an NVIDIA driver, version 525 or newer")]
    NoDriver,
    /// The driver is older than CUDA 12.
    #[error(
        "the CUDA driver supports CUDA {major}.{minor}, 12.0 is needed: install an NVIDIA driver, version 525 or newer"
    )]
    DriverTooOld {
        /// Major version of CUDA that the driver supports.
        major: u32,
        /// Minor version of CUDA that the driver supports.
        minor: u32,
    },
    /// The driver is there, but no such GPU.
    #[error("no CUDA device {ordinal}: this machine has {count} (CUDA_VISIBLE_DEVICES can hide some)")]
    NoDevice {
        /// The device asked for.
        ordinal: usize,
        /// Devices that the driver sees.
        count: usize,
    },
    /// The run-time compiler is not on this machine, or none that suits the driver and the device.
    #[error(
        "no usable NVRTC, CUDA's run-time compiler ({details}): install the CUDA toolkit or `pip install \
         nvidia-cuda-nvrtc-cu12` \
         in an active environment of Python, or name the library in SYNCLINE_NVRTC"
    )]
    NoCompiler {
        /// What was looked for and why it did not do.
        details: String,
    },
    /// The run-time compiler that `SYNCLINE_NVRTC` names cannot be used. No other is taken in its place.
    #[error(
        "SYNCLINE_NVRTC names {path}: no usable NVRTC ({details}): name another, or unset it to have the machine's \
         looked for"
    )]
    ChosenCompiler {
        /// The library, or the folder of it.
        path: String,
        /// What is wrong with it.
        details: String,
    },
    /// A kernel did not compile.
    #[error("kernel source {source_name} does not compile for {arch}:\n{log}")]
    Compile {
        /// File name of the source.
        source_name: String,
        /// Architecture it was compiled for, as `sm_90`.
        arch: String,
        /// What the compiler said.
        log: String,
    },
    /// The driver refused or failed a call.
    #[error("CUDA driver: {what}: {cause}")]
    Driver {
        /// What was being done.
        what: String,
        /// The driver's answer, as text.
        cause: String,
    },
    /// The device has no memory left for a request.
    #[error("{bytes} bytes of device memory are not to be had: free some, or work in smaller pieces")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: u64,
    },
    /// The stream would be lossless, which [`LosslessCompressor`](crate::lossless::LosslessCompressor) makes and
    /// [`Compressor`](crate::pipeline::Compressor) does not.
    #[error("{0}: this compressor makes no lossless streams, use `LosslessCompressor` or the CPU")]
    Lossless(String),
    /// The stream is longer than the memory given for it.
    #[error(
        "the stream has {needed} bytes, there is room for {available}: give as many as the most that a stream can have"
    )]
    NoRoom {
        /// Bytes of the stream.
        needed: u64,
        /// Bytes that were given.
        available: u64,
    },
    /// A stream that is damaged or is none, or an array or options that cannot be compressed.
    #[error("{0}")]
    Core(Arc<syncline_core::error::Error>),
    /// Something that only the CPU does.
    #[error("{0}")]
    Unsupported(String),
    /// The caller asked for something that cannot be done; the text says what to change.
    #[error("{0}")]
    InvalidArgument(String),
}

/// Result with [`CudaError`].
pub type Result<T> = std::result::Result<T, CudaError>;

impl From<syncline_core::error::Error> for CudaError {
    fn from(error: syncline_core::error::Error) -> Self {
        Self::Core(Arc::new(error))
    }
}

impl CudaError {
    /// A [`CudaError::InvalidArgument`].
    pub fn invalid(what: impl Into<String>) -> Self {
        Self::InvalidArgument(what.into())
    }
}

/// Says what was being done when the driver failed.
pub trait DriverContext<T> {
    /// Turns a driver's error into [`CudaError::Driver`], with what was being done.
    ///
    /// # Errors
    /// That, if there was one.
    fn doing(self, what: &str) -> Result<T>;

    /// The same of what allocates `bytes` in device memory: [`CudaError::OutOfMemory`] only if that is what the driver
    /// says, since any call may return what an earlier kernel did wrong.
    ///
    /// # Errors
    /// That, or [`CudaError::Driver`].
    fn allocating(self, bytes: u64) -> Result<T>;
}

impl<T> DriverContext<T> for std::result::Result<T, DriverError> {
    fn doing(self, what: &str) -> Result<T> {
        self.map_err(|error| CudaError::Driver { what: what.to_owned(), cause: format!("{error:?}") })
    }

    fn allocating(self, bytes: u64) -> Result<T> {
        match self {
            Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => Err(CudaError::OutOfMemory { bytes }),
            other => other.doing("allocating device memory"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other errors are seen in tests/device.rs: it takes a driver to name them.
    #[test]
    fn memory_that_is_not_there_is_named() {
        let result: std::result::Result<(), _> = Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
        assert!(matches!(result.allocating(7), Err(CudaError::OutOfMemory { bytes: 7 })));
        assert_eq!(Ok::<_, DriverError>(3).allocating(7).unwrap(), 3);
    }
}
