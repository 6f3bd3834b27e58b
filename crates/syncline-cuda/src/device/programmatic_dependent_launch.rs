//! Launches that may begin before the previous kernel on the stream has ended.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Arc;

use cudarc::driver::sys::{
    CUdeviceptr, CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue, CUlaunchConfig, cuLaunchKernelEx,
};
use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, LaunchConfig, SyncOnDrop};

use super::Kernel;
use crate::error::{DriverContext, Result};

/// A launch of a kernel that itself waits for the previous one (`grid_dependency_wait` in device/sync.cuh), so that its
/// blocks can start and clear their shared memory while the previous kernel still runs. On devices that do not support
/// this (before sm_90), the kernel starts like any other.
#[must_use]
pub struct ProgrammaticDependentLaunch<'a> {
    kernel: &'a Kernel,
    stream: &'a Arc<CudaStream>,
    /// Consecutive arguments, each aligned to a 64-bit word, and the index of each argument's first word.
    words: Vec<u64>,
    arguments: Vec<usize>,
    used: Vec<SyncOnDrop<'a>>,
    early: bool,
    cooperative: bool,
}

impl<'a> ProgrammaticDependentLaunch<'a> {
    /// Prepares a launch of `kernel` on `stream` without arguments.
    pub fn new(kernel: &'a Kernel, stream: &'a Arc<CudaStream>) -> Self {
        let (words, arguments, used) = (Vec::with_capacity(32), Vec::with_capacity(10), Vec::with_capacity(10));
        Self { kernel, stream, words, arguments, used, early: true, cooperative: false }
    }

    /// Sets whether the kernel may begin before the previous one has ended.
    pub fn early(self, early: bool) -> Self {
        Self { early, ..self }
    }

    /// Sets whether the launch is cooperative: all blocks run concurrently, or the launch fails.
    pub fn cooperative(self, cooperative: bool) -> Self {
        Self { cooperative, ..self }
    }

    /// Adds an argument that is passed by value.
    pub fn value<T: DeviceRepr + Copy>(mut self, value: T) -> Self {
        const { assert!(align_of::<T>() <= align_of::<u64>()) };
        let first = self.words.len();
        self.arguments.push(first);
        self.words.resize(first + size_of::<T>().div_ceil(size_of::<u64>()), 0);
        // SAFETY: the words from `first` on have room for the value and are aligned for it, as asserted above.
        unsafe { self.words[first..].as_mut_ptr().cast::<T>().write(value) };
        self
    }

    /// Adds the address of memory that the kernel reads.
    pub fn reads<T>(self, memory: &'a impl DevicePtr<T>) -> Self {
        let (pointer, used) = memory.device_ptr(self.stream);
        self.memory(pointer, used)
    }

    /// Adds the address of memory that the kernel writes.
    pub fn writes<T>(self, memory: &'a mut impl DevicePtrMut<T>) -> Self {
        let (pointer, used) = memory.device_ptr_mut(self.stream);
        self.memory(pointer, used)
    }

    fn memory(mut self, pointer: CUdeviceptr, used: SyncOnDrop<'a>) -> Self {
        self.used.push(used);
        self.value(pointer)
    }

    /// Launches the kernel.
    ///
    /// # Errors
    /// [`CudaError::Driver`](crate::CudaError::Driver).
    ///
    /// # Safety
    /// The arguments match the kernel's parameters, and the kernel's accesses through them are valid. The kernel waits
    /// for the previous one before it accesses memory that another kernel may be using.
    pub unsafe fn launch(mut self, grid: LaunchConfig) -> Result<()> {
        let doing = || format!("launching kernel {}", self.kernel.name());
        self.stream.context().bind_to_thread().doing("making the device's context current")?;
        let mut parameters: Vec<*mut c_void> =
            self.arguments.iter().map(|&first| self.words[first..].as_mut_ptr().cast()).collect();
        // SAFETY: the union contains only plain numbers, for which all zeros is valid.
        let none: CUlaunchAttributeValue = unsafe { MaybeUninit::zeroed().assume_init() };
        let (mut early, mut cooperative) = (none, none);
        early.programmaticStreamSerializationAllowed = 1;
        cooperative.cooperative = 1;
        let attribute = |id, value| CUlaunchAttribute { id, pad: [0; 4], value };
        let mut attributes = Vec::with_capacity(2);
        if self.early && self.kernel.waits_for_previous() {
            let id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
            attributes.push(attribute(id, early));
        }
        if self.cooperative {
            attributes.push(attribute(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, cooperative));
        }
        let config = CUlaunchConfig {
            gridDimX: grid.grid_dim.0,
            gridDimY: grid.grid_dim.1,
            gridDimZ: grid.grid_dim.2,
            blockDimX: grid.block_dim.0,
            blockDimY: grid.block_dim.1,
            blockDimZ: grid.block_dim.2,
            sharedMemBytes: grid.shared_mem_bytes,
            hStream: self.stream.cu_stream(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        let function = self.kernel.function().cu_function();
        self.kernel.traced(self.stream, || {
            // SAFETY: configuration, attributes and parameters live until the call returns, and the driver has copied
            // them by then. The caller guarantees that the kernel's accesses are valid.
            unsafe { cuLaunchKernelEx(&raw const config, function, parameters.as_mut_ptr(), std::ptr::null_mut()) }
                .result()
                .doing(&doing())
        })
    }
}
