//! Codebooks of small alphabets, a block each: launcher of `kernels/huffman/codebook/small.cu`.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, DeviceRepr};
use syncline_core::huffman::{lengths, sample};

use super::codebook::{DeviceCodebook, constants};
use crate::device::{Device, DeviceInfo, Kernel, ProgrammaticDependentLaunch, Source, Specialization, source};
use crate::error::Result;

const SOURCE: Source = source!("huffman/codebook/small.cu");

/// Most symbols of an alphabet that has a block for a codebook.
pub(super) const SMALL_ALPHABET: u32 = 1024;
/// Warps of a block that makes all trees at once: one each.
const WARPS_OF_FEW: u32 = lengths::FLOORS + 2;
/// Warps of a block where there are many, or several to a codebook.
const WARPS_OF_MANY: u32 = 16;
/// Blocks that share the trees of a codebook, where there are multiprocessors enough: three trees each.
const SPREAD: u32 = 7;
/// Blocks that share the trees of the codebook of a stream's last class: the first has that of the counts as they are,
/// the others the tries of step (3).
const LAST_SPREAD: u32 = 4;
/// Blocks that a multiprocessor holds at a time, if they are few and if they are many.
const FEW: u32 = 1;
const MANY: u32 = 3;
/// Shared memory of a block beside what it asks for, and what the system takes of it.
const STATIC_SHARED: u32 = 4 << 10;
const RESERVED_SHARED: u32 = 1 << 10;

/// Bytes of a count of an encoder's stream.
pub(super) const COUNT_BYTES: u32 = 4;

/// What codebooks are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Any counts: the codes.
    Counts,
    /// The streams of an encoder, each with so many classes: codebooks' bytes too, and whether several pay.
    Streams { classes: u32 },
}

impl Purpose {
    /// The shapes that blocks may have, those for fewer codebooks first; several to a codebook need memory that only
    /// streams come with.
    fn shapes(self) -> &'static [Shape] {
        match self {
            Self::Counts => &[OF_FEW, OF_MANY],
            Self::Streams { classes: 1 } => &[SPREAD_OUT, OF_FEW, OF_MANY],
            Self::Streams { .. } => &[SPREAD_OUT, LAST_SPREAD_OUT, OF_MANY],
        }
    }

    /// Codebooks of a stream.
    fn books(self) -> u32 {
        match self {
            Self::Counts | Self::Streams { classes: 1 } => 1,
            Self::Streams { classes } => classes + 1,
        }
    }

    fn count_bytes(self) -> u32 {
        if self == Self::Counts { 8 } else { COUNT_BYTES }
    }
}

/// Where an encoder wants what it needs: `Streams` in huffman/codebook/small.cu.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct StreamPointers(pub [CUdeviceptr; 9]);

// SAFETY: nine device addresses, as `Streams` has.
unsafe impl DeviceRepr for StreamPointers {}

/// How blocks are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    warps: u32,
    /// Blocks of a multiprocessor at most.
    blocks: u32,
    all_trees: bool,
    /// Blocks of a codebook.
    spread: u32,
    /// Blocks of the codebook of a stream's last class, whose trees are the ones that may need to be limited.
    last_spread: u32,
}

/// Very few codebooks, of streams.
const SPREAD_OUT: Shape =
    Shape { warps: WARPS_OF_MANY, blocks: FEW, all_trees: true, spread: SPREAD, last_spread: SPREAD };
/// Those of streams with classes, as long as all blocks run at a time.
const LAST_SPREAD_OUT: Shape =
    Shape { warps: WARPS_OF_MANY, blocks: MANY, all_trees: false, spread: 1, last_spread: LAST_SPREAD };
/// Few codebooks.
const OF_FEW: Shape = Shape { warps: WARPS_OF_FEW, blocks: FEW, all_trees: true, spread: 1, last_spread: 1 };
/// Any number.
const OF_MANY: Shape = Shape { warps: WARPS_OF_MANY, blocks: MANY, all_trees: false, spread: 1, last_spread: 1 };

/// What the kernels know of samples.
pub(super) fn sample_constants() -> [(&'static str, u64); 6] {
    [
        ("LEAST_LOTS", sample::LEAST_LOTS.into()),
        ("MOST_LOT_LOG2", sample::MOST_LOG2.into()),
        ("SAMPLE_WEIGHT", sample::WEIGHT.into()),
        ("SAMPLE_FLOOR", sample::FLOOR.into()),
        ("SAMPLE_FLOOR_LOG2", sample::FLOOR_LOG2.into()),
        ("GOLDEN", sample::GOLDEN.into()),
    ]
}

/// Words of what a codebook's blocks exchange: of each tree its bits and numbers of codewords.
pub(super) const TREES_WORDS: usize = (lengths::FLOORS as usize + 1) * 17;

/// Bytes of shared memory for a codebook of `symbols` symbols, but for trees, and of a tree.
pub(super) fn shared_and_tree(symbols: u32, count_bytes: u32) -> (u32, u32) {
    let room = symbols.next_multiple_of(32);
    (room * (2 * count_bytes + 3) + 4 * count_bytes, room * (count_bytes + 2))
}

/// Constants of huffman/codebook/small.cuh for a stream's only codebook, which a block of so many threads makes among
/// other things.
pub(super) fn block_constants(symbols: u32, threads: u32) -> Vec<(&'static str, u64)> {
    let (shared, tree) = shared_and_tree(symbols, COUNT_BYTES);
    let mut constants = constants(symbols, threads, 1);
    constants.extend([("COUNT_BITS", u64::from(8 * COUNT_BYTES)), ("CLASSES", 1), ("BYTES", 1)]);
    constants.extend([("SHARED_BYTES", shared.into()), ("LEAST_TREE_BYTES", tree.into())]);
    constants
}

impl Shape {
    fn specialization(self, symbols: u32, purpose: Purpose) -> Specialization {
        let (shared, tree) = shared_and_tree(symbols, purpose.count_bytes());
        let (classes, bytes) = match purpose {
            Purpose::Counts => (1, false),
            Purpose::Streams { classes } => (classes, true),
        };
        let mut constants = constants(symbols, 32 * self.warps, 1);
        constants.extend([
            ("COUNT_BITS", u64::from(8 * purpose.count_bytes())),
            ("ALL_TREES", self.all_trees.into()),
            ("CLASSES", classes.into()),
            ("BYTES", bytes.into()),
            ("SPREAD", self.spread.into()),
            ("LAST_SPREAD", self.last_spread.into()),
            ("BLOCKS", self.blocks.into()),
            ("SHARED_BYTES", shared.into()),
            ("LEAST_TREE_BYTES", tree.into()),
        ]);
        constants.extend(sample_constants());
        Specialization { source: SOURCE, constants }
    }

    /// Blocks of so many codebooks.
    fn grid(self, books: u32, purpose: Purpose) -> u32 {
        books * self.spread + books / purpose.books() * (self.last_spread - self.spread)
    }

    /// Bytes for trees that each of so many blocks a multiprocessor can have: at least one tree's, at most one's for
    /// each warp.
    fn tree_room(self, symbols: u32, purpose: Purpose, blocks: u32, shared_memory: u32) -> u32 {
        let (shared, tree) = shared_and_tree(symbols, purpose.count_bytes());
        let share = (shared_memory + RESERVED_SHARED) / blocks.clamp(1, self.blocks);
        share.saturating_sub(RESERVED_SHARED + STATIC_SHARED + shared).clamp(tree, tree * self.warps) / 16 * 16
    }
}

/// What the compile check compiles.
pub(super) fn specializations() -> Vec<Specialization> {
    let of = |(symbols, purpose): (u32, Purpose)| {
        purpose.shapes().iter().map(|shape| shape.specialization(symbols, purpose)).collect::<Vec<_>>()
    };
    [
        (256, Purpose::Counts),
        (1024, Purpose::Counts),
        (1024, Purpose::Streams { classes: 1 }),
        (1024, Purpose::Streams { classes: 4 }),
    ]
    .map(of)
    .concat()
}

/// Builds codebooks of one size of alphabet, many at a time.
#[derive(Debug, Clone)]
pub(super) struct SmallCodebooks {
    /// Of each shape.
    kernels: Vec<(Shape, Kernel)>,
    symbols: u32,
    purpose: Purpose,
    multiprocessors: u32,
    shared_memory: u32,
}

impl SmallCodebooks {
    /// For alphabets of `symbols` symbols, 1 to [`SMALL_ALPHABET`].
    pub fn new(device: &Device, symbols: u32, purpose: Purpose) -> Result<Self> {
        let &DeviceInfo { multiprocessors, shared_memory_per_block: shared_memory, .. } = device.info();
        let (shared, _) = shared_and_tree(symbols, purpose.count_bytes());
        let kernel = |&shape: &Shape| -> Result<(Shape, Kernel)> {
            let kernel = device.kernel(&shape.specialization(symbols, purpose), "codebook_small")?;
            kernel.allow_shared_memory(shared + shape.tree_room(symbols, purpose, 1, shared_memory))?;
            Ok((shape, kernel))
        };
        let kernels = purpose.shapes().iter().map(kernel).collect::<Result<_>>()?;
        Ok(Self { kernels, symbols, purpose, multiprocessors, shared_memory })
    }

    /// Builds all codebooks of `codebook` from the counts at `counts`, as many for each as there are symbols, or as
    /// `streams` says.
    ///
    /// # Safety
    /// `counts` is the address of as many counts as the codebooks take, of 64 bits, or of 32 for streams; these are
    /// followed by four words for each stream, are cleared, and come to less than 2^26 for each stream, to at most 2^20
    /// where it is counted in a sample. `streams` has the addresses of two words and SYMBOLS + 4 bytes a book, one word
    /// a stream, twice, 64 bits a book, one word a stream that is 0, [`TREES_WORDS`] a book, one word a book that is 0,
    /// and the list of streams that were counted.
    pub unsafe fn launch(
        &self,
        stream: &Arc<CudaStream>,
        counts: CUdeviceptr,
        codebook: &mut DeviceCodebook,
        streams: StreamPointers,
    ) -> Result<()> {
        let books = codebook.books();
        // The first whose blocks all run at a time, or the last.
        let fits =
            |(shape, _): &&(Shape, Kernel)| shape.grid(books, self.purpose) <= shape.blocks * self.multiprocessors;
        let Some((shape, kernel)) = self.kernels.iter().find(fits).or(self.kernels.last()) else { return Ok(()) };
        let grid = shape.grid(books, self.purpose);
        let blocks = grid.div_ceil(self.multiprocessors);
        let room = shape.tree_room(self.symbols, self.purpose, blocks, self.shared_memory);
        let (shared, _) = shared_and_tree(self.symbols, self.purpose.count_bytes());
        let (codewords, symbols, summary) = codebook.parts();
        let launch = ProgrammaticDependentLaunch::new(kernel, stream).value(counts);
        let launch = launch.writes(codewords).writes(symbols).writes(summary).value(room).value(streams);
        let grid = Kernel::grid(grid, 32 * shape.warps, shared + room);
        // SAFETY: the kernel's parameters are (Count *, u32 *, u16 *, u32 *, u32, Streams); each block has its
        // codebook's share of each, whose lengths `DeviceCodebook` has checked and the caller vouches for; a tree takes
        // at most what `tree_room` gives at the least. It waits before it reads counts.
        unsafe { launch.launch(grid) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fit() {
        for shared_memory in [64 << 10, 96 << 10, 99 << 10, 163 << 10, 227 << 10] {
            for symbols in [1, 2, 31, 256, 1000, 1024] {
                for purpose in [Purpose::Counts, Purpose::Streams { classes: 4 }] {
                    for &shape in purpose.shapes() {
                        for blocks in [1, 2, 3, 10, 100] {
                            let room = shape.tree_room(symbols, purpose, blocks, shared_memory);
                            let (shared, tree) = shared_and_tree(symbols, purpose.count_bytes());
                            assert!(room >= tree && shared % 16 == 0, "{shape:?}");
                            assert!(shared + room + STATIC_SHARED <= shared_memory, "{shape:?}, {symbols}, {blocks}");
                        }
                    }
                }
            }
        }
        let of_encoder = Purpose::Streams { classes: 4 };
        assert_eq!(OF_FEW.tree_room(1024, of_encoder, 1, 227 << 10), 22 * 6144);
        assert!(OF_MANY.tree_room(1024, of_encoder, 100, 227 << 10) * MANY < 227 << 10);
    }
}
