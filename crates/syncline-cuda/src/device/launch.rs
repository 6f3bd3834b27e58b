//! Ordinary launches.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::{CudaStream, LaunchArgs, LaunchConfig, PushKernelArg};

use super::Kernel;
use crate::error::{DriverContext, Result};

/// A launch of a kernel that starts after all earlier work on the stream has ended.
#[must_use]
pub struct Launch<'a> {
    kernel: &'a Kernel,
    stream: &'a Arc<CudaStream>,
    arguments: LaunchArgs<'a>,
}

impl<'a> Launch<'a> {
    pub(super) fn new(kernel: &'a Kernel, stream: &'a Arc<CudaStream>) -> Self {
        Self { kernel, stream, arguments: stream.launch_builder(kernel.function()) }
    }

    /// Adds an argument.
    pub fn arg<T>(&mut self, argument: T) -> &mut Self
    where
        LaunchArgs<'a>: PushKernelArg<T>,
    {
        self.arguments.arg(argument);
        self
    }

    /// Launches the kernel.
    ///
    /// # Errors
    /// [`CudaError::Driver`](crate::CudaError::Driver).
    ///
    /// # Safety
    /// The arguments match the kernel's parameters, and the kernel's accesses through them are valid.
    pub unsafe fn launch(&mut self, grid: LaunchConfig) -> Result<()> {
        let Self { kernel, stream, arguments } = self;
        kernel.traced(stream, || {
            // SAFETY: guaranteed by the caller.
            unsafe { arguments.launch(grid) }.doing(&format!("launching kernel {}", kernel.name())).map(drop)
        })
    }

    /// Launches the kernel so that all blocks run concurrently, or the launch fails.
    ///
    /// # Errors
    /// The errors of [`Self::launch`].
    ///
    /// # Safety
    /// As for [`Self::launch`].
    pub unsafe fn launch_cooperative(&mut self, grid: LaunchConfig) -> Result<()> {
        let Self { kernel, stream, arguments } = self;
        kernel.traced(stream, || {
            // SAFETY: guaranteed by the caller.
            unsafe { arguments.launch_cooperative(grid) }
                .doing(&format!("launching kernel {}", kernel.name()))
                .map(drop)
        })
    }
}
