//! Kernels and their execution.

#![allow(unsafe_code)]

mod access;
mod assemble;
mod copies;
mod exchange;
mod grid;
mod lanes;
mod opcodes;
mod order;
mod program;
mod registers;
mod surroundings;
#[cfg(test)]
mod tests;
mod waiting;
mod warp;

use std::collections::HashMap;
use std::sync::Arc;

use crate::memory::Memory;
use crate::ptx::{self, Space};
use grid::Grid;
use program::Program;

/// Shared memory in bytes that the system reserves per block on multiprocessors of compute capability 8.0 and later.
const SYSTEM_SHARED_MEMORY: usize = 1024;

/// Properties of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Compute capability as `10 * major + minor`.
    pub capability: u32,
    /// Number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// Maximum resident threads of a multiprocessor.
    pub threads: u32,
    /// Maximum resident blocks of a multiprocessor.
    pub blocks: u32,
    /// Shared memory of a multiprocessor in bytes.
    pub shared_memory: usize,
    /// Maximum shared memory of a block, in bytes.
    pub shared_memory_per_block: usize,
    /// Selects the order in which blocks, warps and lanes run, and the length of their turns. With 0 they run one after
    /// another with long turns, and lanes run together.
    pub seed: u64,
}

/// A loaded module. Its variables occupy device memory until the module is dropped.
pub struct Module {
    source: ptx::Module,
    variables: HashMap<String, u64>,
    memory: &'static Memory,
}

/// A kernel of a loaded module.
#[derive(Debug)]
pub struct Kernel {
    program: Program,
}

/// Configuration of a launch.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Number of blocks along each axis.
    pub grid: [u32; 3],
    /// Number of threads of a block along each axis.
    pub block: [u32; 3],
    /// Number of blocks of a cluster along each axis.
    pub cluster: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub shared_memory: usize,
    /// Bytes of the parameters, each at its offset ([`Kernel::parameters`]).
    pub parameters: Vec<u8>,
}

impl Module {
    /// Loads PTX and allocates its variables in `memory`.
    ///
    /// # Errors
    /// Returns a message if the PTX is invalid or not supported.
    pub fn load(text: &str, memory: &'static Memory) -> Result<Self, String> {
        let source = ptx::parse(text)?;
        let mut module = Self { source, variables: HashMap::new(), memory };
        let outside = module.source.variables.iter().filter(|one| matches!(one.space, Space::Global | Space::Constant));
        for variable in outside {
            let bytes = variable.bytes.max(variable.initial.len()).max(1);
            let address = memory.allocate(bytes).ok_or("no memory for a module's variables")?;
            // SAFETY: the memory was allocated above with this length, and nothing else refers to it.
            let contents = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes) };
            contents.fill(0);
            contents[..variable.initial.len()].copy_from_slice(&variable.initial);
            module.variables.insert(variable.name.clone(), address);
        }
        Ok(module)
    }

    /// Returns the kernel of this name, or `None` if there is none.
    ///
    /// # Errors
    /// Returns a message if the kernel contains something that is not supported.
    pub fn kernel(&self, name: &str) -> Result<Option<Arc<Kernel>>, String> {
        let Some(function) = self.source.functions.iter().find(|one| one.kernel && one.name == name) else {
            return Ok(None);
        };
        let program = assemble::assemble(&self.source, function, &self.variables)?;
        Ok(Some(Arc::new(Kernel { program })))
    }

    /// Returns the address and the length in bytes of a variable.
    pub fn variable(&self, name: &str) -> Option<(u64, usize)> {
        let address = *self.variables.get(name)?;
        self.memory.piece(address).map(|(_, bytes)| (address, bytes))
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        self.variables.values().for_each(|&address| _ = self.memory.release(address));
    }
}

impl Kernel {
    /// Returns the offset and the length in bytes of each parameter, in order.
    pub fn parameters(&self) -> &[(usize, usize)] {
        &self.program.parameters
    }

    /// Returns the length in bytes of all parameters.
    pub fn parameter_bytes(&self) -> usize {
        self.program.parameter_bytes()
    }

    /// Returns the static shared memory of a block in bytes.
    pub fn static_shared_memory(&self) -> usize {
        self.program.shared
    }

    /// Returns the maximum threads of a block.
    pub fn most_threads(&self) -> u32 {
        self.program.most_threads
    }

    /// Returns the blocks of a cluster, if the kernel specifies them.
    pub fn cluster(&self) -> Option<[u32; 3]> {
        self.program.cluster
    }

    /// Returns the local memory of a thread in bytes.
    pub fn local_memory(&self) -> usize {
        self.program.local
    }

    /// Returns the number of blocks of `threads` threads with `shared_memory` bytes of dynamic shared memory that a
    /// multiprocessor holds at the same time. Registers are not considered, because PTX does not determine their
    /// number.
    pub fn blocks_per_multiprocessor(&self, shape: &Shape, threads: u32, shared_memory: usize) -> u32 {
        let system = if shape.capability >= 80 { SYSTEM_SHARED_MEMORY } else { 0 };
        let shared = self.program.shared + shared_memory + system;
        let by_shared = shape.shared_memory.checked_div(shared).map_or(u32::MAX, |blocks| blocks as u32);
        let by_threads = shape.threads / threads.max(1).next_multiple_of(program::LANES as u32);
        by_threads.min(by_shared).min(shape.blocks)
    }

    /// Runs the kernel to its end.
    ///
    /// # Errors
    /// Returns a message with the error and its location.
    pub fn run(&self, launch: &Launch, shape: &Shape, memory: &Memory) -> Result<(), String> {
        let threads = launch.block.iter().product();
        let blocks = self.blocks_per_multiprocessor(shape, threads, launch.shared_memory) * shape.multiprocessors;
        Grid::new(&self.program, launch, memory, shape.seed).run(blocks)
    }
}
