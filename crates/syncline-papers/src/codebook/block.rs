//! Codebooks that one block builds in shared memory: the parallel construction of Tian et al., "Revisiting Huffman
//! Coding: Toward Extreme Performance on Modern GPU Architectures", IPDPS 2021 (Section IV-B), with the length limit of
//! the stream format. The product builds the codebooks of small alphabets with fewer steps. Launcher of
//! `kernels/codebook/block.cu` and `kernels/codebook/floor_trees.cu`.

#![allow(unsafe_code, reason = "kernel launches")]

use cudarc::driver::CudaView;
use syncline_core::huffman::lengths;

use syncline_cuda::device::{Device, Frame, Grid, Specialization};
use syncline_cuda::device_kernels::{In, Out, declare_kernels, launch};
use syncline_cuda::error::{CudaError, Result};
use syncline_cuda::huffman::codebook::{
    BYTES_PER_SYMBOL, CANDIDATE_TREES, CONTROL_BYTES, DIGITS, DeviceCodebooks, check_alphabet, constants,
};

declare_kernels! {
    /// The kernel of `kernels/codebook/block.cu`.
    struct CodebookKernels in "codebook/block.cu", of (symbols: u32) {
        with COMMON = shared_constants(symbols, threads(symbols));
        with CONTROL_BYTES = CONTROL_BYTES;
        with MEMORY_BYTES = memory(symbols);
        fn block_codebook(
            counts: In<u64>, codewords: Out<u32>, symbols_by_codeword: Out<u16>, summary: Out<u32>, parts: u32,
            needs_floors: Out<u32>, arrived: Out<u32>, all_floor_trees: Out<u8>,
        );
    }
}

declare_kernels! {
    /// The kernel of `kernels/codebook/floor_trees.cu`.
    struct FloorTreeKernels in "codebook/floor_trees.cu", of (symbols: u32) {
        with COMMON = shared_constants(symbols, floor_tree_threads(symbols));
        with FLOOR_TREE_BYTES = floor_tree_bytes(symbols);
        fn floor_trees(
            needs_floors: In<u32>, books: u32, floor_trees: Out<u8>, codewords: Out<u32>, symbols_by_codeword: Out<u16>,
            summary: Out<u32>,
        );
    }
}

/// Returns the threads of a block that builds a floor tree in the separate kernel.
fn floor_tree_threads(symbols: u32) -> u32 {
    // Few threads have more than a handful of melds in a round, and there are many blocks.
    (symbols / 16).next_power_of_two().clamp(32, 1024)
}

/// Returns the dynamic shared memory of a floor tree in bytes: weights of leaves and of internal trees, and fronts.
fn floor_tree_bytes(symbols: u32) -> u32 {
    (symbols * 18).next_multiple_of(16)
}

/// Bytes of `FloorTrees` in codebook/floor_trees.cuh, without the arrays after it.
const FLOOR_TREES_HEADER_BYTES: u32 = 2944;

/// Returns the bytes that the block of a codebook passes to the blocks of the floor trees: `FloorTrees`, the prefix
/// sums of the sorted counts, and the symbols in that order.
fn floor_trees_bytes(symbols: u32) -> u32 {
    (FLOOR_TREES_HEADER_BYTES + (symbols + 1) * 8 + symbols * 2).next_multiple_of(16)
}

/// Returns the threads of a block that builds a codebook.
fn threads(symbols: u32) -> u32 {
    // Measured: with more threads, synchronization costs more than the threads save.
    match symbols {
        ..257 => 256,
        257..2049 => 512,
        _ => 1024,
    }
}

/// Returns the bytes of a codebook's arrays in dynamic shared memory.
fn memory(symbols: u32) -> u32 {
    (CONTROL_BYTES + BYTES_PER_SYMBOL * symbols + 16).next_multiple_of(16)
}

/// Returns the bytes of static shared memory of a block with this many threads: 16-bit counts of each warp and digit
/// for the radix sort and for the partition by length, and some margin.
const fn static_shared_bytes(threads: u32) -> u32 {
    threads / 32 * (DIGITS + 32) * 2 + 4096
}

/// Returns whether the arrays of a codebook fit into this many bytes of shared memory per block.
pub fn fits(symbols: u32, shared_memory: u32) -> bool {
    let codebook = memory(symbols) + static_shared_bytes(threads(symbols));
    let floor_tree = floor_tree_bytes(symbols) + static_shared_bytes(floor_tree_threads(symbols));
    codebook.max(floor_tree) <= shared_memory
}

fn shared_constants(symbols: u32, threads: u32) -> Vec<(&'static str, u64)> {
    let mut constants = constants(symbols, threads, 1);
    constants.extend([
        ("FLOOR_TREES_HEADER_BYTES", FLOOR_TREES_HEADER_BYTES.into()),
        ("FLOOR_TREES_BYTES", floor_trees_bytes(symbols).into()),
    ]);
    constants
}

/// Returns the specializations of the alphabets in use for the compile check.
pub(crate) fn specializations(shared_memory: u32) -> Vec<Specialization> {
    let alphabets = [256, 1024, 4096].into_iter().filter(|&symbols| fits(symbols, shared_memory));
    alphabets
        .flat_map(|symbols| [CodebookKernels::specialization(symbols), FloorTreeKernels::specialization(symbols)])
        .collect()
}

/// Builds each codebook with one block, and the floor trees of the length limit with a second kernel. If there are few
/// codebooks, each gets a block for every candidate tree instead.
#[derive(Debug, Clone)]
pub struct BlockBuilder {
    codebook: CodebookKernels,
    floor_trees: FloorTreeKernels,
    symbols: u32,
    threads: u32,
    memory: u32,
    /// Blocks of `codebook` that are resident on the device.
    resident: u32,
    /// Blocks of `floor_trees` that are resident on the device.
    resident_floor_trees: u32,
}

impl BlockBuilder {
    /// Compiles the kernels for alphabets of `symbols` symbols, 0 to `symbols - 1`.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless there is at least one symbol and the arrays of a codebook [fit](fits) into
    /// shared memory; errors of [`Device::kernel`].
    pub fn new(device: &Device, symbols: u32) -> Result<Self> {
        check_alphabet(symbols)?;
        if !fits(symbols, device.info().shared_memory_per_block) {
            return Err(CudaError::invalid(format!("a codebook of {symbols} symbols does not fit one block")));
        }
        let multiprocessors = device.info().multiprocessors;
        let (threads, memory) = (threads(symbols), memory(symbols));
        let codebook = CodebookKernels::load(device, symbols)?;
        codebook.block_codebook.allow_shared_memory(memory)?;
        let resident = codebook.block_codebook.blocks_per_multiprocessor(threads, memory)? * multiprocessors;
        let floor_trees = FloorTreeKernels::load(device, symbols)?;
        let (tree_threads, tree_bytes) = (floor_tree_threads(symbols), floor_tree_bytes(symbols));
        floor_trees.floor_trees.allow_shared_memory(tree_bytes)?;
        let resident_floor_trees =
            floor_trees.floor_trees.blocks_per_multiprocessor(tree_threads, tree_bytes)? * multiprocessors;
        Ok(Self { codebook, floor_trees, symbols, threads, memory, resident, resident_floor_trees })
    }

    /// Returns the blocks of each of `count` codebooks.
    fn blocks_per_codebook(&self, count: u32) -> u32 {
        let all_resident = u64::from(count) * u64::from(CANDIDATE_TREES) <= self.resident.into();
        if all_resident { CANDIDATE_TREES } else { 1 }
    }

    /// Builds each codebook from its part of `counts`, on the frame's stream and without a copy to the host.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] if there are fewer counts than symbols or `codebooks` has another alphabet size;
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn launch(
        &self,
        frame: &mut Frame<'_>,
        counts: &CudaView<'_, u64>,
        codebooks: &mut DeviceCodebooks,
    ) -> Result<()> {
        codebooks.check(self.symbols, counts.len())?;
        let (stream, count) = (frame.stream().clone(), codebooks.count());
        let blocks_per_codebook = self.blocks_per_codebook(count);
        let mut needs_floors = frame.slice::<u32>(count as usize)?;
        let mut floor_trees = frame.slice::<u8>(count as usize * floor_trees_bytes(self.symbols) as usize)?;
        let mut arrived = frame.counters(count as usize)?;
        let (codewords, symbols, summary) = codebooks.arrays_mut();
        let grid = Grid::new(count * blocks_per_codebook, self.threads).shared_memory(self.memory);
        // SAFETY: the blocks of codebook i access the i-th SYMBOLS counts, codewords and symbols, SUMMARY_WORDS words,
        // one word of `needs_floors` and `arrived`, and FLOOR_TREES_BYTES. `DeviceCodebooks` checks these lengths; the
        // slices above have the others. `counters` returns zeros, and the kernel restores them.
        unsafe {
            launch!(self.codebook.block_codebook on &stream, grid; counts, &mut *codewords, &mut *symbols,
                &mut *summary, blocks_per_codebook, &mut needs_floors, &mut arrived, &mut floor_trees)
        }?;
        if blocks_per_codebook > 1 {
            return Ok(());
        }
        let blocks = (u64::from(count) * u64::from(lengths::FLOORS)).min(self.resident_floor_trees.into()) as u32;
        let (threads, bytes) = (floor_tree_threads(self.symbols), floor_tree_bytes(self.symbols));
        let grid = Grid::new(blocks.max(lengths::FLOORS), threads).shared_memory(bytes);
        // SAFETY: for each codebook it reads a word, and, if that is not 0, the FLOOR_TREES_BYTES that the first kernel
        // has filled, and writes SYMBOLS codewords and symbols and a summary. FLOOR_TREE_BYTES of shared memory are
        // given.
        unsafe {
            launch!(self.floor_trees.floor_trees on &stream, grid; &needs_floors, count, &mut floor_trees, codewords,
                symbols, summary)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floor_tree_sizes() {
        assert_eq!((floor_tree_threads(1024), floor_tree_bytes(1024)), (64, 18 << 10));
        assert!(fits(4096, 227 << 10) && fits(1024, 64 << 10) && !fits(65_536, 227 << 10));
    }
}
