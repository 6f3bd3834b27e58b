//! Errors of the GPU backend. Each message says what to do about the error.

use std::sync::Arc;

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;

/// Any error from opening or using a device.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CudaError {
    /// The CUDA driver library is not installed on this machine.
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
    /// The driver is installed but sees no GPU with the requested ordinal.
    #[error("no CUDA device {ordinal}: this machine has {count} (CUDA_VISIBLE_DEVICES can hide some)")]
    NoDevice {
        /// Requested device ordinal.
        ordinal: usize,
        /// Number of devices that the driver sees.
        count: usize,
    },
    /// No run-time compiler is installed on this machine, or none that supports both the driver and the device.
    #[error(
        "no usable NVRTC, CUDA's run-time compiler ({details}): install the CUDA toolkit or `pip install \
         nvidia-cuda-nvrtc-cu12` \
         in an active environment of Python, or name the library in SYNCLINE_NVRTC"
    )]
    NoCompiler {
        /// The libraries that were tried and why each was rejected.
        details: String,
    },
    /// The run-time compiler that `SYNCLINE_NVRTC` names cannot be used. No other compiler is tried in its place.
    #[error(
        "SYNCLINE_NVRTC names {path}: no usable NVRTC ({details}): name another, or unset it to have the machine's \
         looked for"
    )]
    ChosenCompiler {
        /// Path of the library, or of the folder that contains it.
        path: String,
        /// Why the library cannot be used.
        details: String,
    },
    /// A kernel failed to compile.
    #[error("kernel source {source_name} does not compile for {arch}:\n{log}")]
    Compile {
        /// File name of the source.
        source_name: String,
        /// Architecture that the kernel was compiled for, such as `sm_90`.
        arch: String,
        /// The compiler's log.
        log: String,
    },
    /// A call of the CUDA driver failed.
    #[error("CUDA driver: {what}: {cause}")]
    Driver {
        /// The operation that failed.
        what: String,
        /// The driver's error message.
        cause: String,
    },
    /// An allocation of device memory failed because too little is free.
    #[error("cannot allocate {bytes} bytes of device memory: free some, or work in smaller pieces")]
    OutOfMemory {
        /// Requested bytes.
        bytes: u64,
    },
    /// The compressed stream would be lossless. Use [`LosslessCompressor`](crate::lossless::LosslessCompressor),
    /// because [`Compressor`](crate::pipeline::Compressor) only writes lossy streams.
    #[error("{0}: this compressor does not write lossless streams, use `LosslessCompressor` or the CPU")]
    Lossless(String),
    /// The compressed stream does not fit the output buffer.
    #[error(
        "the stream has {needed} bytes, but the output has room for {available}: provide the maximum size of a stream"
    )]
    NoRoom {
        /// Size of the stream in bytes.
        needed: u64,
        /// Size of the output buffer in bytes.
        available: u64,
    },
    /// The input is damaged or not a Syncline stream, or the array or the options cannot be compressed.
    #[error("{0}")]
    Core(Arc<syncline_core::error::Error>),
    /// The operation is only implemented on the CPU.
    #[error("{0}")]
    Unsupported(String),
    /// An argument is invalid; the text says what to change.
    #[error("{0}")]
    InvalidArgument(String),
}

/// A [`Result`](std::result::Result) whose error is a [`CudaError`].
pub type Result<T> = std::result::Result<T, CudaError>;

impl From<syncline_core::error::Error> for CudaError {
    fn from(error: syncline_core::error::Error) -> Self {
        Self::Core(Arc::new(error))
    }
}

impl CudaError {
    /// Returns a [`CudaError::InvalidArgument`] with this text.
    pub fn invalid(what: impl Into<String>) -> Self {
        Self::InvalidArgument(what.into())
    }
}

/// Adds the failed operation to errors of the driver.
pub trait DriverContext<T> {
    /// Converts a driver error to [`CudaError::Driver`]; `what` names the failed operation.
    ///
    /// # Errors
    /// [`CudaError::Driver`] if `self` is an error.
    fn doing(self, what: &str) -> Result<T>;

    /// Converts the error of an allocation of `bytes` of device memory. It becomes [`CudaError::OutOfMemory`] only if
    /// the driver reports that memory is exhausted, because any driver call may return the error of an earlier kernel.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`] or [`CudaError::Driver`] if `self` is an error.
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

    /// Tests only this error, because other driver errors need a driver (`tests/device.rs`).
    #[test]
    fn memory_that_is_not_there_is_named() {
        let result: std::result::Result<(), _> = Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
        assert!(matches!(result.allocating(7), Err(CudaError::OutOfMemory { bytes: 7 })));
        assert_eq!(Ok::<_, DriverError>(3).allocating(7).unwrap(), 3);
    }
}
