//! Codebooks that one block builds in shared memory: launcher of `kernels/huffman/codebook/block.cu` and
//! `kernels/huffman/codebook/floor_trees.cu`.

#![allow(unsafe_code, reason = "kernel launches")]

use cudarc::driver::CudaView;
use syncline_core::huffman::lengths;

use super::{
    BlockLayout, CANDIDATE_TREES, CANDIDATE_TREES_BYTES, CONTROL_BYTES, DeviceCodebooks, constants, floor_trees_bytes,
    static_shared_bytes,
};
use crate::device::{Device, Frame, Kernel, Source, Specialization, source};
use crate::error::Result;

const SOURCE: Source = source!("huffman/codebook/block.cu");
const FLOOR_TREES: Source = source!("huffman/codebook/floor_trees.cu");

/// Returns the threads of a block that builds a floor tree in the separate kernel.
fn floor_tree_threads(symbols: u32) -> u32 {
    // Few threads have more than a handful of melds in a round, and there are many blocks.
    (symbols / 16).next_power_of_two().clamp(32, 1024)
}

/// Returns the dynamic shared memory of a floor tree in bytes: weights of leaves and of internal trees, and fronts.
fn floor_tree_bytes(symbols: u32) -> u32 {
    (symbols * 18).next_multiple_of(16)
}

/// Returns the total shared memory of a block that builds a floor tree, in bytes.
pub(super) fn floor_tree_shared_bytes(symbols: u32) -> u32 {
    floor_tree_bytes(symbols) + static_shared_bytes(floor_tree_threads(symbols))
}

fn codebook_specialization(symbols: u32, layout: BlockLayout) -> Specialization {
    let mut constants = constants(symbols, layout.threads, 1);
    constants.extend([
        ("CONTROL_BYTES", CONTROL_BYTES.into()),
        ("MEMORY_BYTES", layout.memory(symbols).into()),
        ("CANDIDATE_TREES_BYTES", CANDIDATE_TREES_BYTES.into()),
    ]);
    Specialization { assertions: String::new(), source: SOURCE, constants }
}

fn floor_trees_specialization(symbols: u32) -> Specialization {
    let mut constants = constants(symbols, floor_tree_threads(symbols), 1);
    constants.push(("FLOOR_TREE_BYTES", floor_tree_bytes(symbols).into()));
    Specialization { assertions: String::new(), source: FLOOR_TREES, constants }
}

/// Returns the specializations of one alphabet size for the compile check.
pub(super) fn specializations(symbols: u32, layout: BlockLayout) -> Vec<Specialization> {
    vec![codebook_specialization(symbols, layout), floor_trees_specialization(symbols)]
}

/// Builds each codebook with one block, and the floor trees of the length limit with a second kernel. If there are few
/// codebooks, each gets a block for every candidate tree instead.
#[derive(Debug, Clone)]
pub(super) struct BlockBuilder {
    codebook: Kernel,
    floor_trees: Kernel,
    symbols: u32,
    threads: u32,
    memory: u32,
    /// Blocks of `codebook` that are resident on the device.
    resident: u32,
    /// Blocks of `floor_trees` that are resident on the device.
    resident_floor_trees: u32,
}

impl BlockBuilder {
    pub(super) fn new(device: &Device, symbols: u32, layout: BlockLayout) -> Result<Self> {
        let multiprocessors = device.info().multiprocessors;
        let (threads, memory) = (layout.threads, layout.memory(symbols));
        let codebook = device.kernel(&codebook_specialization(symbols, layout), "block_codebook")?;
        codebook.allow_shared_memory(memory)?;
        let resident = codebook.blocks_per_multiprocessor(threads, memory)? * multiprocessors;
        let floor_trees = device.kernel(&floor_trees_specialization(symbols), "floor_trees")?;
        let (tree_threads, tree_bytes) = (floor_tree_threads(symbols), floor_tree_bytes(symbols));
        floor_trees.allow_shared_memory(tree_bytes)?;
        let resident_floor_trees = floor_trees.blocks_per_multiprocessor(tree_threads, tree_bytes)? * multiprocessors;
        Ok(Self { codebook, floor_trees, symbols, threads, memory, resident, resident_floor_trees })
    }

    /// Returns the blocks of each of `count` codebooks.
    fn blocks_per_codebook(&self, count: u32) -> u32 {
        let all_resident = u64::from(count) * u64::from(CANDIDATE_TREES) <= self.resident.into();
        if all_resident { CANDIDATE_TREES } else { 1 }
    }

    /// Queues the kernels. [`CodebookBuilder::launch`](super::CodebookBuilder::launch) has checked the lengths.
    pub(super) fn launch(
        &self,
        frame: &mut Frame<'_>,
        counts: &CudaView<'_, u64>,
        codebooks: &mut DeviceCodebooks,
    ) -> Result<()> {
        let (stream, count) = (frame.stream().clone(), codebooks.count());
        let blocks_per_codebook = self.blocks_per_codebook(count);
        let mut needs_floors = frame.slice::<u32>(count as usize)?;
        let mut floor_trees = frame.slice::<u8>(count as usize * floor_trees_bytes(self.symbols) as usize)?;
        let mut arrived = frame.counters(count as usize)?;
        let (codewords, symbols, summary) = codebooks.arrays_mut();
        let mut launch = self.codebook.launch_on(&stream);
        launch.arg(counts).arg(&mut *codewords).arg(&mut *symbols).arg(&mut *summary);
        launch.arg(&blocks_per_codebook).arg(&mut needs_floors).arg(&mut arrived).arg(&mut floor_trees);
        let grid = Kernel::grid(count * blocks_per_codebook, self.threads, self.memory);
        // SAFETY: the kernel's parameters are (const u64 *, u32 *, u16 *, u32 *, u32, u32 *, u32 *, u8 *). The blocks
        // of codebook i access the i-th SYMBOLS counts, codewords and symbols, SUMMARY_WORDS words, one word of
        // `needs_floors` and `arrived`, and FLOOR_TREES_BYTES. `CodebookBuilder::launch` and `DeviceCodebooks::new`
        // check these lengths; the slices above have the others. `counters` returns zeros, and the kernel restores
        // them.
        unsafe { launch.launch(grid) }?;
        if blocks_per_codebook > 1 {
            return Ok(());
        }
        let mut launch = self.floor_trees.launch_on(&stream);
        launch.arg(&mut needs_floors).arg(&count).arg(&mut floor_trees);
        launch.arg(codewords).arg(symbols).arg(summary);
        let blocks = (u64::from(count) * u64::from(lengths::FLOORS)).min(self.resident_floor_trees.into()) as u32;
        let (threads, bytes) = (floor_tree_threads(self.symbols), floor_tree_bytes(self.symbols));
        let grid = Kernel::grid(blocks.max(lengths::FLOORS), threads, bytes);
        // SAFETY: the kernel's parameters are (const u32 *, u32, u8 *, u32 *, u16 *, u32 *). For each codebook it reads
        // a word, and, if that is not 0, the FLOOR_TREES_BYTES that the first kernel has filled, and writes SYMBOLS
        // codewords and symbols and a summary. FLOOR_TREE_BYTES of shared memory are given.
        unsafe { launch.launch(grid) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floor_tree_sizes() {
        assert_eq!((floor_tree_threads(1024), floor_tree_bytes(1024)), (64, 18 << 10));
    }
}
