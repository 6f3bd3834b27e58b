//! Codebooks of alphabets that are too large for one block's shared memory: launcher of
//! `kernels/huffman/codebook/team.cu` and `kernels/huffman/codebook/trees.cu`.

#![allow(unsafe_code)]

use cudarc::driver::{CudaView, PushKernelArg};

use super::codebook::{
    CONTROL_BYTES, DeviceCodebook, SUMMARY_WORDS, TREES_BYTES, TREES_OF_CODE, Team, arena_bytes, constants,
};
use crate::device::{Device, Frame, Kernel, ProgrammaticDependentLaunch, Source, Specialization, source};
use crate::error::{CudaError, DriverContext, Result};

const TREES: Source = source!("huffman/codebook/trees.cu");

/// How the trees of a large alphabet are made, a block each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TreesShape {
    /// Internal trees that shared memory has room for.
    queue: u32,
    /// Whether a byte for each tree is there too.
    fronts_in_shared: bool,
}

impl TreesShape {
    /// With so much shared memory a block.
    pub fn for_alphabet(symbols: u32, shared_memory: u32) -> Self {
        let room = shared_memory.saturating_sub(TREES_STATIC_SHARED);
        let needed =
            |queue: u32, fronts: bool| trees_own_bytes(symbols) + 16 * queue + if fronts { symbols } else { 0 };
        let fronts_in_shared = needed(LEAST_QUEUE, true) <= room;
        let mut queue = MOST_QUEUE;
        while queue > LEAST_QUEUE && needed(queue, fronts_in_shared) > room {
            queue /= 2;
        }
        Self { queue, fronts_in_shared }
    }

    /// Bytes of dynamic shared memory.
    fn shared_bytes(self, symbols: u32) -> u32 {
        let fronts = if self.fronts_in_shared { symbols } else { 0 };
        (trees_own_bytes(symbols) + 16 * self.queue + fronts).next_multiple_of(16)
    }

    /// Bytes of device memory of a tree: two queues of the largest rounds', and a byte for each tree if that is not in
    /// shared memory.
    fn spill_bytes(self, symbols: u32) -> u32 {
        let most_trees = (symbols / 2 + 2) / 2 * 2;
        (2 * 8 * most_trees + if self.fronts_in_shared { 0 } else { symbols }).next_multiple_of(16)
    }

    /// Of the kernel of trees.
    pub fn specialization(self, symbols: u32, team: Team) -> Specialization {
        let mut constants = constants(symbols, TREES_THREADS, 1);
        constants.extend([
            ("CONTROL_BYTES", CONTROL_BYTES.into()),
            ("MEMORY_BYTES", team.memory(symbols).into()),
            ("TREES_BYTES", TREES_BYTES.into()),
            ("QUEUE", self.queue.into()),
            ("FRONTS_IN_SHARED", self.fronts_in_shared.into()),
            ("SPILL_BYTES", self.spill_bytes(symbols).into()),
            ("SHARED_BYTES", self.shared_bytes(symbols).into()),
        ]);
        Specialization { source: TREES, constants }
    }
}

/// Threads of a block that makes a tree of a large alphabet.
const TREES_THREADS: u32 = 1024;
/// Internal trees that its shared memory has room for, at most and at least; and as much again for what is being
/// melded.
const MOST_QUEUE: u32 = 8192;
const LEAST_QUEUE: u32 = 1024;
/// Sorted symbols of which the counts' sums are at hand.
const STRETCH: u32 = 64;
/// Words of 64 bits behind the sums.
const FOUND_WORDS: u32 = 2;
/// Shared memory that such a block has beside what it asks for.
const TREES_STATIC_SHARED: u32 = 1 << 10;

/// Shared memory of a block that makes a tree of a large alphabet, but for the queue and a byte for each tree: the few
/// trees that are left at last, sums, depths, whole fronts.
fn trees_own_bytes(symbols: u32) -> u32 {
    14 * 1024 + symbols.div_ceil(STRETCH) * 10 + 2048
}

/// A team of blocks a codebook for sorting and for codewords, and a block for each tree.
#[derive(Debug, Clone)]
pub(super) struct TeamCodebooks {
    sort: Kernel,
    trees: Kernel,
    write: Kernel,
    symbols: u32,
    team: Team,
    shape: TreesShape,
}

impl TeamCodebooks {
    pub fn new(device: &Device, symbols: u32, team: Team) -> Result<Self> {
        let info = device.info();
        let kernel = |name| device.kernel(&team.specialization(symbols), name);
        let (sort, write) = (kernel("codebook_sort")?, kernel("codebook_write")?);
        for kernel in [&sort, &write] {
            let resident = kernel.blocks_per_multiprocessor(team.threads, 0)? * info.multiprocessors;
            if resident < team.blocks {
                return Err(CudaError::invalid(format!(
                    "a codebook of {symbols} symbols needs {} blocks at a time, this device runs {resident}",
                    team.blocks
                )));
            }
        }
        let shape = TreesShape::for_alphabet(symbols, info.shared_memory_per_block);
        let trees = device.kernel(&shape.specialization(symbols, team), "codebook_trees")?;
        trees.allow_shared_memory(shape.shared_bytes(symbols))?;
        Ok(Self { sort, trees, write, symbols, team, shape })
    }

    /// Bytes of device memory for the trees' large rounds.
    fn spill(&self) -> usize {
        self.shape.spill_bytes(self.symbols) as usize * TREES_OF_CODE as usize
    }

    /// Words of the sums of counts and of what is known of them.
    fn sums(&self) -> usize {
        (self.symbols.div_ceil(STRETCH) + FOUND_WORDS) as usize
    }

    /// Codebooks are made one after another.
    pub fn scratch_bytes(&self) -> usize {
        arena_bytes(self.team.memory(self.symbols).into())
            + crate::Arena::bytes_for::<u64>(self.sums())
            + arena_bytes(self.spill() as u64)
            + arena_bytes(TREES_BYTES.into())
    }

    /// Makes them; the caller has checked the lengths.
    pub fn launch(
        &self,
        frame: &mut Frame<'_>,
        counts: &CudaView<'_, u64>,
        codebook: &mut DeviceCodebook,
    ) -> Result<()> {
        let (length, stream) = (self.symbols as usize, frame.stream().clone());
        let mut memory = frame.slice::<u8>(self.team.memory(self.symbols) as usize)?;
        let mut sums = frame.slice::<u64>(self.sums())?;
        let mut spill = frame.slice::<u8>(self.spill())?;
        let mut trees = frame.slice::<u8>(TREES_BYTES as usize)?;
        let mut control = frame.counters(CONTROL_BYTES as usize / 4)?;
        let together = Kernel::grid(self.team.blocks, self.team.threads, 0);
        let alone = Kernel::grid(TREES_OF_CODE, TREES_THREADS, self.shape.shared_bytes(self.symbols));
        for book in 0..codebook.books() as usize {
            let own = book * length..(book + 1) * length;
            let counts = counts.slice(own.clone());
            let (codewords, symbols, summary) = codebook.parts();
            let (mut codewords, mut symbols) = (codewords.slice_mut(own.clone()), symbols.slice_mut(own));
            let mut summary = summary.slice_mut(book * SUMMARY_WORDS..(book + 1) * SUMMARY_WORDS);
            let mut launch = stream.launch_builder(self.sort.function());
            launch.arg(&counts).arg(&mut memory).arg(&mut control).arg(&mut sums);
            // SAFETY: the kernel's parameters are (const u64 *, u8 *, Control *, u64 *): it reads SYMBOLS counts, lays
            // its arrays out in MEMORY_BYTES, and writes a sum for every STRETCH symbols and two words behind them. The
            // control is 0, and is so again after the three kernels. Cooperative: all blocks run at a time.
            unsafe { launch.launch_cooperative(together) }.doing("launching the codebook's sort")?;
            let launch =
                ProgrammaticDependentLaunch::new(&self.trees, &stream).writes(&mut memory).writes(&mut control);
            let launch = launch.reads(&sums).writes(&mut spill).writes(&mut trees);
            // SAFETY: the kernel's parameters are (u8 *, Control *, const u64 *, u8 *, Trees *): what the kernel before
            // has left, SPILL_BYTES for each block, TREES_BYTES; and SHARED_BYTES of shared memory. It waits before it
            // reads or writes.
            unsafe { launch.launch(alone) }?;
            let mut launch = stream.launch_builder(self.write.function());
            launch.arg(&mut trees).arg(&mut sums).arg(&mut memory).arg(&mut control);
            launch.arg(&mut codewords).arg(&mut symbols).arg(&mut summary);
            // SAFETY: the kernel's parameters are (const Trees *, const u64 *, u8 *, Control *, u32 *, u16 *, u32 *):
            // what the kernels before have left, SYMBOLS codewords, up to SYMBOLS symbols and the summary's words.
            // Cooperative, as above.
            unsafe { launch.launch_cooperative(together) }.doing("launching the codebook's codewords")?;
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
                let shape = TreesShape::for_alphabet(symbols, shared_memory);
                assert!(shape.shared_bytes(symbols) + TREES_STATIC_SHARED <= shared_memory, "{shape:?}");
                assert!(shape.queue >= LEAST_QUEUE && shape.spill_bytes(symbols) >= 8 * symbols);
            }
        }
        let large = TreesShape { queue: 8192, fronts_in_shared: true };
        assert_eq!(TreesShape::for_alphabet(65_536, 227 << 10), large);
        assert!(!TreesShape::for_alphabet(65_536, 64 << 10).fronts_in_shared);
    }
}
