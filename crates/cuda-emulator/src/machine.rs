//! Kernels and how they run.

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

/// Shared memory in bytes that the system takes of each block's on multiprocessors of compute capability 8.0 and later.
const SYSTEM_SHARED_MEMORY: usize = 1024;

/// What a device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Compute capability as `10 * major + minor`.
    pub capability: u32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Threads that a multiprocessor holds at a time.
    pub threads: u32,
    /// Blocks that a multiprocessor holds at a time.
    pub blocks: u32,
    /// Shared memory of a multiprocessor in bytes.
    pub shared_memory: usize,
    /// Shared memory that one block can have, in bytes.
    pub shared_memory_per_block: usize,
    /// What the order depends on in which blocks, warps and lanes are on, and for how long; 0 for one after another,
    /// long each, and lanes together.
    pub seed: u64,
}

/// A loaded module. Its variables lie in the memory that it was loaded to, until it is dropped.
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

/// How a kernel is launched.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Blocks of a cluster.
    pub cluster: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub shared_memory: usize,
    /// The parameters' bytes, each at its place ([`Kernel::parameters`]).
    pub parameters: Vec<u8>,
}

impl Module {
    /// Loads PTX; its variables are allocated in `memory`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn load(text: &str, memory: &'static Memory) -> Result<Self, String> {
        let source = ptx::parse(text)?;
        let mut module = Self { source, variables: HashMap::new(), memory };
        let outside = module.source.variables.iter().filter(|one| matches!(one.space, Space::Global | Space::Constant));
        for variable in outside {
            let bytes = variable.bytes.max(variable.initial.len()).max(1);
            let address = memory.allocate(bytes).ok_or("no memory for a module's variables")?;
            // SAFETY: as many bytes as were just allocated, and not known to anybody else.
            let contents = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes) };
            contents.fill(0);
            contents[..variable.initial.len()].copy_from_slice(&variable.initial);
            module.variables.insert(variable.name.clone(), address);
        }
        Ok(module)
    }

    /// The kernel of this name; `None` if there is none.
    ///
    /// # Errors
    /// What in it is not understood.
    pub fn kernel(&self, name: &str) -> Result<Option<Arc<Kernel>>, String> {
        let Some(function) = self.source.functions.iter().find(|one| one.kernel && one.name == name) else {
            return Ok(None);
        };
        let program = assemble::assemble(&self.source, function, &self.variables)?;
        Ok(Some(Arc::new(Kernel { program })))
    }

    /// Address and length in bytes of a variable.
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
    /// Offset and length in bytes of each parameter, in order.
    pub fn parameters(&self) -> &[(usize, usize)] {
        &self.program.parameters
    }

    /// Length in bytes of all parameters.
    pub fn parameter_bytes(&self) -> usize {
        self.program.parameter_bytes()
    }

    /// Shared memory in bytes that each block has without asking.
    pub fn static_shared_memory(&self) -> usize {
        self.program.shared
    }

    /// Most threads of a block.
    pub fn most_threads(&self) -> u32 {
        self.program.most_threads
    }

    /// Blocks of a cluster, if the kernel says.
    pub fn cluster(&self) -> Option<[u32; 3]> {
        self.program.cluster
    }

    /// Local memory of a thread in bytes.
    pub fn local_memory(&self) -> usize {
        self.program.local
    }

    /// Blocks of `threads` threads with `shared_memory` dynamic bytes that a multiprocessor holds at a time. Registers
    /// are not counted: nothing here says how many there are.
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
    /// What went wrong, and where.
    pub fn run(&self, launch: &Launch, shape: &Shape, memory: &Memory) -> Result<(), String> {
        let threads = launch.block.iter().product();
        let blocks = self.blocks_per_multiprocessor(shape, threads, launch.shared_memory) * shape.multiprocessors;
        Grid::new(&self.program, launch, memory, shape.seed).run(blocks)
    }
}
