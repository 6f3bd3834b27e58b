//! Codebooks of the streams of an encoder, one or more blocks each, for alphabets of up to 4,096 symbols: launcher of
//! `kernels/huffman/codebook/small_alphabet.cu`.

#![allow(unsafe_code, reason = "kernel launches, and a kernel parameter passed by value")]

use crate::device::Specialization;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUdeviceptr;
use syncline_core::huffman::lengths;

use super::structs::StreamCodes;
use super::{CANDIDATE_TREES, DeviceCodebooks, constants};
use crate::device::{Device, DeviceInfo, Grid};
use crate::device_kernels::{Out, declare_kernels, launch};
use crate::error::Result;

declare_kernels! {
    /// The kernel of `kernels/huffman/codebook/small_alphabet.cu`.
    struct SmallAlphabetKernels in "huffman/codebook/small_alphabet.cu",
        of (shape: TreeDistribution, symbols: u32, classes: u32)
    {
        with COMMON = constants(symbols, 32 * shape.warps, 1);
        with ALL_TREES = shape.all_trees;
        with CLASSES = classes;
        with CODEBOOK_BLOCKS = shape.blocks;
        with LAST_CLASS_BLOCKS = shape.last_class_blocks;
        with RESIDENT_BLOCKS = shape.resident;
        with SHARED_BYTES = codebook_shared_bytes(symbols);
        with TREE_BYTES = tree_shared_bytes(symbols);
        fn small_alphabet_codebook(
            counts: CUdeviceptr as "uint32_t *", codewords: Out<u32>, symbols_by_codeword: Out<u16>, summary: Out<u32>,
            room: u32, streams: StreamCodes,
        );
    }
}

/// Maximum number of symbols in a small alphabet.
pub(in crate::huffman) const MAX_SYMBOLS: u32 = 4096;
/// 32-bit words that the blocks of a codebook exchange: bits and codeword counts of each candidate tree.
pub(in crate::huffman) const CANDIDATE_TREES_WORDS: usize = CANDIDATE_TREES as usize * 17;
/// Warps of a block that builds all candidate trees at once, one warp each.
const WARPS_FOR_ALL_TREES: u32 = lengths::FLOORS + 2;
/// Warps of a block if there are many codebooks or several blocks to a codebook.
const WARPS: u32 = 16;
/// Blocks that share the trees of a codebook if there are enough multiprocessors. Each builds about three trees.
const BLOCKS_OF_CODEBOOK: u32 = 7;
/// Blocks that share the trees of the codebook of a stream's last class. The first builds the tree of the unmodified
/// counts, the others the floor trees of the length limit.
const BLOCKS_OF_LAST_CLASS: u32 = 4;
/// Resident blocks per multiprocessor if blocks are few and if they are many.
const FEW_RESIDENT: u32 = 1;
const MANY_RESIDENT: u32 = 3;
/// Static shared memory of a block, and shared memory that the driver reserves, in bytes.
const STATIC_SHARED: u32 = 4 << 10;
const RESERVED_SHARED: u32 = 1 << 10;
/// Bytes of a count.
const COUNT_BYTES: u32 = 4;

/// The distribution of a codebook's trees to blocks and warps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TreeDistribution {
    warps: u32,
    /// Maximum number of resident blocks per multiprocessor.
    resident: u32,
    /// Whether all candidate trees are built before it is known whether the length limit needs them.
    all_trees: bool,
    /// Blocks of a codebook.
    blocks: u32,
    /// Blocks of the codebook of a stream's last class, whose trees are the most likely to exceed the length limit.
    last_class_blocks: u32,
}

/// Distribution for very few codebooks.
const SEVERAL_BLOCKS: TreeDistribution = TreeDistribution {
    warps: WARPS,
    resident: FEW_RESIDENT,
    all_trees: true,
    blocks: BLOCKS_OF_CODEBOOK,
    last_class_blocks: BLOCKS_OF_CODEBOOK,
};
/// Distribution for streams with classes, as long as all blocks are resident.
const SEVERAL_BLOCKS_FOR_LAST_CLASS: TreeDistribution = TreeDistribution {
    warps: WARPS,
    resident: MANY_RESIDENT,
    all_trees: false,
    blocks: 1,
    last_class_blocks: BLOCKS_OF_LAST_CLASS,
};
/// Distribution for few codebooks of streams without classes.
const ALL_TREES_IN_BLOCK: TreeDistribution = TreeDistribution {
    warps: WARPS_FOR_ALL_TREES,
    resident: FEW_RESIDENT,
    all_trees: true,
    blocks: 1,
    last_class_blocks: 1,
};
/// Distribution for any number of codebooks.
const ONE_BLOCK: TreeDistribution =
    TreeDistribution { warps: WARPS, resident: MANY_RESIDENT, all_trees: false, blocks: 1, last_class_blocks: 1 };

/// Returns the distributions for streams of this many classes, those for fewer codebooks first.
fn distributions(classes: u32) -> &'static [TreeDistribution] {
    match classes {
        1 => &[SEVERAL_BLOCKS, ALL_TREES_IN_BLOCK, ONE_BLOCK],
        _ => &[SEVERAL_BLOCKS, SEVERAL_BLOCKS_FOR_LAST_CLASS, ONE_BLOCK],
    }
}

/// Returns the number of codebooks of a stream: one for each class, and one for all classes together.
fn codebooks_of_stream(classes: u32) -> u32 {
    if classes == 1 { 1 } else { classes + 1 }
}

/// Returns the dynamic shared memory of a codebook without its trees, in bytes.
fn codebook_shared_bytes(symbols: u32) -> u32 {
    symbols.next_multiple_of(32) * (2 * COUNT_BYTES + 3) + 4 * COUNT_BYTES
}

/// Returns the dynamic shared memory of a tree in bytes.
fn tree_shared_bytes(symbols: u32) -> u32 {
    symbols.next_multiple_of(32) * (COUNT_BYTES + 2)
}

impl TreeDistribution {
    /// Returns the number of blocks that build `codebooks` codebooks.
    fn blocks_of(self, codebooks: u32, classes: u32) -> u32 {
        codebooks * self.blocks + codebooks / codebooks_of_stream(classes) * (self.last_class_blocks - self.blocks)
    }

    /// Returns the shared memory in bytes that a block has for trees if `blocks` blocks share a multiprocessor: for at
    /// least one tree, and at most for one tree of each warp.
    fn tree_bytes(self, symbols: u32, blocks: u32, shared_memory: u32) -> u32 {
        let tree = tree_shared_bytes(symbols);
        let share = (shared_memory + RESERVED_SHARED) / blocks.clamp(1, self.resident);
        let available = share.saturating_sub(RESERVED_SHARED + STATIC_SHARED + codebook_shared_bytes(symbols));
        available.clamp(tree, tree * self.warps) / 16 * 16
    }
}

/// Returns whether a block has room for codebooks of so many symbols.
pub(in crate::huffman) fn fits(symbols: u32, shared_memory: u32) -> bool {
    let bytes = codebook_shared_bytes(symbols) + tree_shared_bytes(symbols) + STATIC_SHARED;
    symbols <= MAX_SYMBOLS && bytes <= shared_memory
}

/// Returns the specializations in use for the compile check.
pub(super) fn specializations() -> Vec<Specialization> {
    let of = |(symbols, classes)| {
        distributions(classes).iter().map(move |&shape| SmallAlphabetKernels::specialization(shape, symbols, classes))
    };
    [(1024, 1), (1024, 4), (MAX_SYMBOLS, 1)].into_iter().flat_map(of).collect()
}

/// Builds the codebooks of all streams of a batch, serializes them, and chooses between one codebook and several.
#[derive(Debug, Clone)]
pub(in crate::huffman) struct SmallAlphabetBuilder {
    kernels: Vec<(TreeDistribution, SmallAlphabetKernels)>,
    symbols: u32,
    classes: u32,
    multiprocessors: u32,
    shared_memory: u32,
}

impl SmallAlphabetBuilder {
    /// Compiles the kernels for 1 to [`MAX_SYMBOLS`] symbols and streams of 1 or 4 classes.
    pub(in crate::huffman) fn new(device: &Device, symbols: u32, classes: u32) -> Result<Self> {
        let &DeviceInfo { multiprocessors, shared_memory_per_block: shared_memory, .. } = device.info();
        let load = |&distribution: &TreeDistribution| -> Result<(TreeDistribution, SmallAlphabetKernels)> {
            let kernels = SmallAlphabetKernels::load(device, distribution, symbols, classes)?;
            let tree_bytes = distribution.tree_bytes(symbols, 1, shared_memory);
            kernels.small_alphabet_codebook.allow_shared_memory(codebook_shared_bytes(symbols) + tree_bytes)?;
            Ok((distribution, kernels))
        };
        let kernels = distributions(classes).iter().map(load).collect::<Result<_>>()?;
        Ok(Self { kernels, symbols, classes, multiprocessors, shared_memory })
    }

    /// Builds all of `codebooks` from the 32-bit counts at `counts`, and clears the counts.
    ///
    /// # Safety
    /// `counts` is the address of the counts of each stream's classes, each stream's followed by four words. They sum
    /// to less than 2^24 for each stream. The addresses in `streams` have the lengths given there for `codebooks`.
    pub(in crate::huffman) unsafe fn launch(
        &self,
        stream: &Arc<CudaStream>,
        counts: CUdeviceptr,
        codebooks: &mut DeviceCodebooks,
        streams: StreamCodes,
    ) -> Result<()> {
        let count = codebooks.count();
        // The first distribution whose blocks are all resident, or the last.
        let is_resident = |(distribution, _): &&(TreeDistribution, SmallAlphabetKernels)| {
            distribution.blocks_of(count, self.classes) <= distribution.resident * self.multiprocessors
        };
        let Some((distribution, kernels)) = self.kernels.iter().find(is_resident).or(self.kernels.last()) else {
            return Ok(());
        };
        let blocks = distribution.blocks_of(count, self.classes);
        let per_multiprocessor = blocks.div_ceil(self.multiprocessors);
        let tree_bytes = distribution.tree_bytes(self.symbols, per_multiprocessor, self.shared_memory);
        let (codewords, symbols, summary) = codebooks.arrays_mut();
        let shared_bytes = codebook_shared_bytes(self.symbols) + tree_bytes;
        let grid = Grid::new(blocks, 32 * distribution.warps).shared_memory(shared_bytes).early(true);
        // SAFETY: each block accesses its codebook's part of each array, whose lengths `DeviceCodebooks::new` and the
        // caller guarantee. A tree takes at most TREE_BYTES, which `tree_bytes` never undercuts. The kernel waits
        // before it reads counts.
        unsafe {
            launch!(kernels.small_alphabet_codebook on stream, grid; counts, codewords, symbols, summary, tree_bytes,
                streams)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fit() {
        for shared_memory in [64 << 10, 96 << 10, 99 << 10, 163 << 10, 227 << 10] {
            for symbols in [1, 2, 31, 256, 1000, 1024, MAX_SYMBOLS].into_iter().filter(|&s| fits(s, shared_memory)) {
                for &distribution in [distributions(1), distributions(4)].concat().iter() {
                    for blocks in [1, 2, 3, 10, 100] {
                        let trees = distribution.tree_bytes(symbols, blocks, shared_memory);
                        let codebook = codebook_shared_bytes(symbols);
                        assert!(trees >= tree_shared_bytes(symbols) && codebook.is_multiple_of(16), "{distribution:?}");
                        assert!(codebook + trees + STATIC_SHARED <= shared_memory, "{distribution:?}, {symbols}");
                    }
                }
            }
        }
        assert!(fits(1024, 48 << 10) && !fits(MAX_SYMBOLS, 64 << 10) && fits(MAX_SYMBOLS, 99 << 10));
        assert_eq!(ALL_TREES_IN_BLOCK.tree_bytes(1024, 1, 227 << 10), 22 * 6144);
        assert!(ONE_BLOCK.tree_bytes(MAX_SYMBOLS, 100, 227 << 10) * MANY_RESIDENT < 227 << 10);
    }
}
