//! Launches that may begin while the kernel before them on the stream ends.

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

/// A launch of a kernel that itself waits for the one before it (`grid_dependency_wait` in device/sync.cuh), so that
/// its blocks may be dealt out, and clear their shared memory, while the one before still runs. Where the device knows
/// nothing of that (before sm_90), it starts as any other.
#[must_use]
pub struct ProgrammaticDependentLaunch<'a> {
    kernel: &'a Kernel,
    stream: &'a Arc<CudaStream>,
    /// The arguments one after another, each from a word on, and the first word of each.
    words: Vec<u64>,
    arguments: Vec<usize>,
    used: Vec<SyncOnDrop<'a>>,
    early: bool,
    cooperative: bool,
}

impl<'a> ProgrammaticDependentLaunch<'a> {
    /// A launch on `stream`, without arguments so far.
    pub fn new(kernel: &'a Kernel, stream: &'a Arc<CudaStream>) -> Self {
        let (words, arguments, used) = (Vec::with_capacity(32), Vec::with_capacity(10), Vec::with_capacity(10));
        Self { kernel, stream, words, arguments, used, early: true, cooperative: false }
    }

    /// Whether it may begin early at all.
    pub fn early(self, early: bool) -> Self {
        Self { early, ..self }
    }

    /// Whether it is cooperative: all blocks run at the same time, or the launch fails.
    pub fn cooperative(self, cooperative: bool) -> Self {
        Self { cooperative, ..self }
    }

    /// Adds an argument that is passed by value.
    pub fn value<T: DeviceRepr + Copy>(mut self, value: T) -> Self {
        const { assert!(align_of::<T>() <= align_of::<u64>()) };
        let first = self.words.len();
        self.arguments.push(first);
        self.words.resize(first + size_of::<T>().div_ceil(size_of::<u64>()), 0);
        // SAFETY: the words from the first on have room for it and are aligned for it, as asserted.
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

    /// Launches it.
    ///
    /// # Errors
    /// [`CudaError::Driver`](crate::CudaError::Driver).
    ///
    /// # Safety
    /// As for any launch: the arguments are the kernel's parameters, and what it does with them is in order. And before
    /// it touches memory that another kernel may be at work on, it waits for the one before.
    pub unsafe fn launch(mut self, grid: LaunchConfig) -> Result<()> {
        let doing = || format!("launching kernel {}", self.kernel.name());
        self.stream.context().bind_to_thread().doing("making the device's context current")?;
        let mut parameters: Vec<*mut c_void> =
            self.arguments.iter().map(|&first| self.words[first..].as_mut_ptr().cast()).collect();
        // SAFETY: a union of plain numbers, of which all zeros is one.
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
        // SAFETY: configuration, attributes and parameters live until the call returns, which has copied them; the
        // caller vouches for the kernel's side.
        unsafe { cuLaunchKernelEx(&raw const config, function, parameters.as_mut_ptr(), std::ptr::null_mut()) }
            .result()
            .doing(&doing())
    }
}
