//! Kernels of loaded modules.

use std::ffi::c_int;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::errors::{Code, Result};
use crate::machine::{Kernel, Module, Shape};

/// Registers per thread that are reported for every kernel. The interpreter does not allocate registers; this value is
/// typical.
const REGISTERS: c_int = 32;

/// A kernel of a module loaded on a device.
pub struct Function {
    /// Name of the kernel.
    pub name: String,
    /// Ordinal of the device.
    pub ordinal: c_int,
    /// Properties of the device.
    pub shape: Shape,
    /// The program of the kernel.
    pub kernel: Arc<Kernel>,
    /// Maximum dynamic shared memory of a block, in bytes.
    pub dynamic_limit: AtomicUsize,
    /// Keeps the module's variables alive while a graph refers to the kernel after the module has been unloaded.
    pub _module: Arc<Module>,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Function {
    /// Returns the maximum dynamic shared memory of a block, in bytes.
    pub fn dynamic_limit(&self) -> usize {
        self.dynamic_limit.load(Ordering::Relaxed)
    }

    /// Returns an attribute by its number in `CUfunction_attribute`.
    pub fn attribute(&self, number: u32) -> Result<c_int> {
        let cluster = |axis: usize| self.kernel.cluster().map_or(0, |cluster| cluster[axis] as c_int);
        Ok(match number {
            0 => self.kernel.most_threads() as c_int,
            1 => self.kernel.static_shared_memory() as c_int,
            // Constant memory, and the cache mode of global loads.
            2 | 7 => 0,
            3 => self.kernel.local_memory() as c_int,
            4 => REGISTERS,
            5 | 6 => self.shape.capability as c_int,
            8 => self.dynamic_limit() as c_int,
            // The preferred carveout is the driver's choice.
            9 => -1,
            10 => c_int::from(self.kernel.cluster().is_some()),
            11..=13 => cluster(number as usize - 11),
            14 | 15 => 0,
            _ => return Err(Code::InvalidValue),
        })
    }

    /// Sets an attribute by its number in `CUfunction_attribute`.
    pub fn set_attribute(&self, number: u32, value: c_int) -> Result<()> {
        match number {
            8 => {
                let most = self.shape.shared_memory_per_block.saturating_sub(self.kernel.static_shared_memory());
                let bytes = usize::try_from(value).ok().filter(|&bytes| bytes <= most).ok_or(Code::InvalidValue)?;
                self.dynamic_limit.store(bytes, Ordering::Relaxed);
                Ok(())
            }
            // The preferred shared-memory carveout has no effect here.
            9 if (-1..=100).contains(&value) => Ok(()),
            _ => Err(Code::InvalidValue),
        }
    }
}
