//! Codebooks of large alphabets: launcher of
//! `kernels/huffman/codebook/cooperative.cu` and `kernels/huffman/codebook/cooperative_trees.cu`.

#![allow(unsafe_code, reason = "kernel launches")]

use crate::device::Specialization;
use cudarc::driver::CudaView;

use super::{
    BlockLayout, CANDIDATE_TREES, CANDIDATE_TREES_BYTES, CONTROL_BYTES, DeviceCodebooks, SUMMARY_WORDS, check_alphabet,
    constants,
};
use crate::device::{Device, Frame, Grid};
use crate::device_kernels::{In, Out, declare_kernels, launch};
use crate::error::{CudaError, Result};

declare_kernels! {
    /// The kernels of `kernels/huffman/codebook/cooperative.cu`.
    struct SortKernels in "huffman/codebook/cooperative.cu", of (symbols: u32, layout: BlockLayout) {
        with COMMON = constants(symbols, layout.threads, layout.blocks);
        with CONTROL_BYTES = CONTROL_BYTES;
        with MEMORY_BYTES = layout.memory(symbols);
        with CANDIDATE_TREES_BYTES = CANDIDATE_TREES_BYTES;
        fn cooperative_sort(counts: In<u64>, memory: Out<u8>, control: Out<u32> as "void *", sums: Out<u64>);
        fn cooperative_write(
            trees: In<u8> as "const CandidateTrees *", sums: In<u64>, memory: Out<u8>, control: Out<u32> as "void *",
            codewords: Out<u32>, symbols_by_codeword: Out<u16>, summary: Out<u32>,
        );
    }
}

declare_kernels! {
    /// The kernel of `kernels/huffman/codebook/cooperative_trees.cu`.
    struct TreeKernels in "huffman/codebook/cooperative_trees.cu",
        of (tree: TreeMemory, symbols: u32, layout: BlockLayout)
    {
        with COMMON = constants(symbols, TREE_THREADS, 1);
        with CONTROL_BYTES = CONTROL_BYTES;
        with MEMORY_BYTES = layout.memory(symbols);
        with CANDIDATE_TREES_BYTES = CANDIDATE_TREES_BYTES;
        with QUEUE = tree.queue;
        with FRONTS_IN_SHARED = tree.fronts_in_shared;
        with SPILL_BYTES = tree.spill_bytes(symbols);
        with SHARED_BYTES = tree.shared_bytes(symbols);
        fn cooperative_trees(
            memory: Out<u8>, control: Out<u32> as "void *", sums: In<u64>, spill: Out<u8>,
            trees: Out<u8> as "CandidateTrees *",
        );
    }
}

/// Threads of a block that builds a tree.
const TREE_THREADS: u32 = 1024;
/// Maximum and minimum number of internal trees in the shared-memory queue. As many again are staged for merging.
const MAX_QUEUE: u32 = 8192;
const MIN_QUEUE: u32 = 1024;
/// Consecutive sorted symbols whose counts are summed.
const STRETCH: u32 = 64;
/// 64-bit words of `SortResult` in huffman/codebook/cooperative_trees.cuh.
const SORT_RESULT_WORDS: u32 = 2;
/// Bytes of static shared memory of a tree's block.
const TREE_STATIC_SHARED: u32 = 1024;

/// Returns the bytes of dynamic shared memory of a tree without the queue and the fronts: the last few trees, sums,
/// depths, and the fronts that are stored in full.
fn fixed_tree_bytes(symbols: u32) -> u32 {
    14 * 1024 + symbols.div_ceil(STRETCH) * 10 + 2048
}

/// The division of a tree's memory between shared and device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TreeMemory {
    /// Internal trees that fit into the shared-memory queue.
    queue: u32,
    /// Whether the front bytes of the trees are in shared memory, too.
    fronts_in_shared: bool,
}

impl TreeMemory {
    /// Divides `shared_memory` bytes per block.
    fn for_alphabet(symbols: u32, shared_memory: u32) -> Self {
        let available = shared_memory.saturating_sub(TREE_STATIC_SHARED);
        let needed =
            |queue: u32, fronts: bool| fixed_tree_bytes(symbols) + 16 * queue + if fronts { symbols } else { 0 };
        let fronts_in_shared = needed(MIN_QUEUE, true) <= available;
        let mut queue = MAX_QUEUE;
        while queue > MIN_QUEUE && needed(queue, fronts_in_shared) > available {
            queue /= 2;
        }
        Self { queue, fronts_in_shared }
    }

    /// Returns the dynamic shared memory in bytes.
    fn shared_bytes(self, symbols: u32) -> u32 {
        let fronts = if self.fronts_in_shared { symbols } else { 0 };
        (fixed_tree_bytes(symbols) + 16 * self.queue + fronts).next_multiple_of(16)
    }

    /// Returns the device memory of a tree in bytes: two queues for rounds that exceed shared memory, and the front
    /// bytes if they are not in shared memory.
    fn spill_bytes(self, symbols: u32) -> u32 {
        let max_trees = (symbols / 2 + 2) / 2 * 2;
        (2 * 8 * max_trees + if self.fronts_in_shared { 0 } else { symbols }).next_multiple_of(16)
    }
}

/// Returns the specializations of one alphabet size for the compile check.
pub(super) fn specializations(symbols: u32, shared_memory: u32) -> Vec<Specialization> {
    let layout = BlockLayout::for_alphabet(symbols, u32::MAX);
    let trees = TreeMemory::for_alphabet(symbols, shared_memory);
    vec![SortKernels::specialization(symbols, layout), TreeKernels::specialization(trees, symbols, layout)]
}

/// Builds codebooks of one alphabet size from counts in device memory, one after another: cooperating blocks sort, one
/// block builds each candidate tree, and cooperating blocks write the codewords.
#[derive(Debug, Clone)]
pub struct CodebookBuilder {
    sort: SortKernels,
    trees: TreeKernels,
    symbols: u32,
    layout: BlockLayout,
    tree_memory: TreeMemory,
}

impl CodebookBuilder {
    /// Compiles the kernels for alphabets of `symbols` symbols, 0 to `symbols - 1`.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless there are 1 to 65,536 symbols; errors of [`Device::kernel`].
    pub fn new(device: &Device, symbols: u32) -> Result<Self> {
        check_alphabet(symbols)?;
        let info = device.info();
        let layout = BlockLayout::for_alphabet(symbols, info.multiprocessors);
        let sort = SortKernels::load(device, symbols, layout)?;
        for kernel in [&sort.cooperative_sort, &sort.cooperative_write] {
            let resident = kernel.blocks_per_multiprocessor(layout.threads, 0)? * info.multiprocessors;
            if resident < layout.blocks {
                return Err(CudaError::invalid(format!(
                    "a codebook of {symbols} symbols needs {} resident blocks, but this device holds {resident}",
                    layout.blocks
                )));
            }
        }
        let tree_memory = TreeMemory::for_alphabet(symbols, info.shared_memory_per_block);
        let trees = TreeKernels::load(device, tree_memory, symbols, layout)?;
        trees.cooperative_trees.allow_shared_memory(tree_memory.shared_bytes(symbols))?;
        Ok(Self { sort, trees, symbols, layout, tree_memory })
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
        let (length, stream) = (self.symbols as usize, frame.stream().clone());
        let sums = (self.symbols.div_ceil(STRETCH) + SORT_RESULT_WORDS) as usize;
        let spill = self.tree_memory.spill_bytes(self.symbols) as usize * CANDIDATE_TREES as usize;
        let mut memory = frame.slice::<u8>(self.layout.memory(self.symbols) as usize)?;
        let mut sums = frame.slice::<u64>(sums)?;
        let mut spill = frame.slice::<u8>(spill)?;
        let mut trees = frame.slice::<u8>(CANDIDATE_TREES_BYTES as usize)?;
        let mut control = frame.counters(CONTROL_BYTES as usize / 4)?;
        let cooperative_grid = Grid::new(self.layout.blocks, self.layout.threads).cooperative();
        let tree_grid = Grid::new(CANDIDATE_TREES, TREE_THREADS)
            .shared_memory(self.tree_memory.shared_bytes(self.symbols))
            .early(true);
        for codebook in 0..codebooks.count() as usize {
            let own = codebook * length..(codebook + 1) * length;
            let counts = counts.slice(own.clone());
            let (codewords, symbols, summary) = codebooks.arrays_mut();
            let (mut codewords, mut symbols) = (codewords.slice_mut(own.clone()), symbols.slice_mut(own));
            let mut summary = summary.slice_mut(codebook * SUMMARY_WORDS..(codebook + 1) * SUMMARY_WORDS);
            // SAFETY: the kernel reads SYMBOLS counts, lays its arrays out in MEMORY_BYTES, and writes a sum for every
            // STRETCH symbols and a `SortResult` after them. `counters` returns zeros, and the third kernel restores
            // them. `new` has checked that all blocks are resident, as the cooperative launch requires.
            unsafe {
                launch!(self.sort.cooperative_sort on &stream, cooperative_grid; &counts, &mut memory, &mut control,
                    &mut sums)
            }?;
            // SAFETY: : the results of the first kernel, SPILL_BYTES for each block, and CANDIDATE_TREES_BYTES. It has
            // SHARED_BYTES of shared memory, and waits for the first kernel before it reads or writes.
            unsafe {
                launch!(self.trees.cooperative_trees on &stream, tree_grid; &mut memory, &mut control, &sums,
                    &mut spill, &mut trees)
            }?;
            // SAFETY: : the results of the kernels above, SYMBOLS codewords, up to SYMBOLS symbols, and SUMMARY_WORDS
            // words. `new` has checked that all blocks are resident.
            unsafe {
                launch!(self.sort.cooperative_write on &stream, cooperative_grid; &trees, &sums, &mut memory,
                    &mut control, &mut codewords, &mut symbols, &mut summary)
            }?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_fit() {
        for shared_memory in [64 << 10, 96 << 10, 99 << 10, 163 << 10, 227 << 10] {
            for symbols in [1, 2048, 4096, 10_000, 65_536] {
                let memory = TreeMemory::for_alphabet(symbols, shared_memory);
                assert!(memory.shared_bytes(symbols) + TREE_STATIC_SHARED <= shared_memory, "{memory:?}");
                assert!(memory.queue >= MIN_QUEUE && memory.spill_bytes(symbols) >= 8 * symbols);
            }
        }
        let large = TreeMemory { queue: 8192, fronts_in_shared: true };
        assert_eq!(TreeMemory::for_alphabet(65_536, 227 << 10), large);
        assert!(!TreeMemory::for_alphabet(65_536, 64 << 10).fronts_in_shared);
    }
}
