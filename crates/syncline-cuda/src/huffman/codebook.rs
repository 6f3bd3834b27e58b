//! Canonical Huffman codebooks from symbol counts, built on the device.
//!
//! This is the parallel codebook construction of Tian et al., "Revisiting Huffman Coding: Toward Extreme Performance on
//! Modern GPU Architectures" (IPDPS 2021), section IV-B: GenerateCL melds all subtrees of a round in parallel, and
//! GenerateCW assigns canonical codewords and the decoder's First and Entry arrays. It also applies the length limit of
//! [`syncline_core::huffman::lengths`]. The strategy depends on the size of the alphabet:
//!
//! - `small_alphabet`: one block builds each codebook of an encoder's streams;
//! - `block`: one block builds a codebook, and further blocks build the trees of the length limit;
//! - `cooperative`: several blocks sort and write a codebook that exceeds the shared memory of one block.

mod block;
mod cooperative;
mod counted;
pub(super) mod small_alphabet;
pub(crate) mod structs;

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView};
use syncline_core::huffman::lengths;

use crate::device::{Device, DeviceInfo, Frame, Specialization, fetch};
use crate::error::{CudaError, DriverContext, Result};
use block::BlockBuilder;
use cooperative::CooperativeBuilder;
pub(crate) use counted::{COUNTED_SYMBOLS, COUNTS_STRIDE, CountedCodebooks, CountedCodebooksBuilder};

/// Maximum codeword length in bits if at most [`LARGE_ALPHABET`] symbols are used.
pub const MAX_LENGTH: u32 = 16;
/// Maximum codeword length in bits if more than [`LARGE_ALPHABET`] symbols are used.
pub const MAX_LENGTH_LARGE: u32 = lengths::MAX_LENGTH;
/// Maximum number of used symbols for which codewords are limited to [`MAX_LENGTH`].
pub const LARGE_ALPHABET: u32 = 4096;
/// Maximum number of symbols in an alphabet.
pub const MAX_SYMBOLS: u32 = 1 << 16;
/// Larger counts are clamped to this value and reported in [`Summary::counts_clamped`].
pub const LARGEST_COUNT: u64 = (1 << 43) - 1;

/// Bytes of the zero-initialized control block of the kernels. Whole cache lines, so that the arrays after it are
/// aligned.
const CONTROL_BYTES: u32 = 128;
/// Bytes of the kernels' arrays for each symbol.
const BYTES_PER_SYMBOL: u32 = 19;
/// Digits of the radix sort. Each cooperating block publishes its count of every digit.
const DIGITS: u32 = 256;
/// Threads of each cooperating block, measured from 256 to 1,024 threads and 16 to 128 blocks.
const COOPERATIVE_THREADS: u32 = 512;
/// Symbols for each cooperating block, measured together with [`COOPERATIVE_THREADS`].
const SYMBOLS_PER_BLOCK: u32 = 1024;
/// 32-bit words of a codebook's summary.
const SUMMARY_WORDS: usize = 72;
/// Bits of a packed codeword that hold the code. The length is above them.
pub(crate) const CODE_BITS: u32 = 27;
/// Candidate trees of a code: the tree of the unmodified counts, and one for each floor of the length limit.
const CANDIDATE_TREES: u32 = lengths::FLOORS + 1;
/// Bytes of `CandidateTrees` in huffman/codebook/cooperative_trees.cuh.
const CANDIDATE_TREES_BYTES: u32 = 3072;
/// Bytes of `FloorTrees` in huffman/codebook/tree.cuh, without the arrays after it.
const FLOOR_TREES_HEADER_BYTES: u32 = 2944;

/// Returns the bytes of static shared memory of a block with this many threads: 16-bit counts of each warp and digit
/// for the radix sort and for the partition by length, and some margin.
const fn static_shared_bytes(threads: u32) -> u32 {
    threads / 32 * (DIGITS + 32) * 2 + 4096
}

/// Returns the bytes that the block of a codebook passes to the blocks of the floor trees: `FloorTrees`, the prefix
/// sums of the sorted counts, and the symbols in that order.
fn floor_trees_bytes(symbols: u32) -> u32 {
    (FLOOR_TREES_HEADER_BYTES + (symbols + 1) * 8 + symbols * 2).next_multiple_of(16)
}

/// The blocks that sort the symbols of one codebook and write its codewords.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BlockLayout {
    blocks: u32,
    threads: u32,
}

impl BlockLayout {
    /// Returns one block if its arrays fit into shared memory. Otherwise several blocks share device memory, at most
    /// one on each multiprocessor so that all of them are resident.
    fn for_alphabet(symbols: u32, shared_memory: u32, multiprocessors: u32) -> Self {
        // Measured: with more threads, synchronization costs more than the threads save.
        let threads = match symbols {
            ..257 => 256,
            257..2049 => 512,
            _ => 1024,
        };
        let single = Self { blocks: 1, threads };
        let codebook_bytes = single.memory(symbols) + static_shared_bytes(threads);
        if codebook_bytes.max(block::floor_tree_shared_bytes(symbols)) <= shared_memory {
            return single;
        }
        let blocks = symbols.div_ceil(SYMBOLS_PER_BLOCK).min(multiprocessors).max(2);
        Self { blocks, threads: COOPERATIVE_THREADS }
    }

    /// Returns the bytes of the kernels' arrays.
    fn memory(self, symbols: u32) -> u32 {
        let digit_counts = if self.blocks > 1 { self.blocks * DIGITS * 4 } else { 0 };
        (CONTROL_BYTES + BYTES_PER_SYMBOL * symbols + 16 + digit_counts).next_multiple_of(16)
    }
}

/// Returns the constants that all codebook kernels are compiled with.
fn constants(symbols: u32, threads: u32, cooperative_blocks: u32) -> Vec<(&'static str, u64)> {
    let constants = [
        ("SYMBOLS", symbols),
        ("THREADS", threads),
        ("COOPERATIVE_BLOCKS", cooperative_blocks),
        ("MAX_LENGTH", MAX_LENGTH),
        ("MAX_LENGTH_LARGE", MAX_LENGTH_LARGE),
        ("LARGE_ALPHABET", LARGE_ALPHABET),
        ("FLOORS", lengths::FLOORS),
        ("FLOOR_TREES_HEADER_BYTES", FLOOR_TREES_HEADER_BYTES),
        ("FLOOR_TREES_BYTES", floor_trees_bytes(symbols)),
    ];
    constants.map(|(name, value)| (name, value.into())).to_vec()
}

/// Returns the specializations of the alphabets in use, for the compile check on a device with this much shared memory
/// per block, in bytes.
pub fn specializations(shared_memory: u32) -> Vec<Specialization> {
    let of_alphabet = |symbols| {
        let layout = BlockLayout::for_alphabet(symbols, shared_memory, u32::MAX);
        match layout.blocks {
            1 => block::specializations(symbols, layout),
            _ => cooperative::specializations(symbols, layout, shared_memory),
        }
    };
    let mut all = [256, 1024, 4096, 65_536].map(of_alphabet).concat();
    all.extend(small_alphabet::specializations());
    all
}

/// One or more codebooks of the same alphabet in device memory, one after another.
#[derive(Debug)]
pub struct DeviceCodebooks {
    count: u32,
    codewords: CudaSlice<u32>,
    symbols: CudaSlice<u16>,
    summary: CudaSlice<u32>,
}

impl DeviceCodebooks {
    /// Allocates `count` codebooks of an alphabet of `symbols` symbols.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless there are 1 to 65,536 symbols and at least one codebook;
    /// [`CudaError::OutOfMemory`]; [`CudaError::Driver`].
    pub fn new(stream: &Arc<CudaStream>, symbols: u32, count: u32) -> Result<Self> {
        check_alphabet(symbols)?;
        if count == 0 {
            return Err(CudaError::invalid("a batch of codebooks must have at least one codebook"));
        }
        let length = symbols as usize * count as usize;
        let allocate = || {
            Ok(Self {
                count,
                codewords: stream.alloc_zeros(length)?,
                symbols: stream.alloc_zeros(length)?,
                summary: stream.alloc_zeros(SUMMARY_WORDS * count as usize)?,
            })
        };
        allocate().allocating(6 * length as u64)
    }

    /// Returns the arrays that the kernels fill: codewords, symbols by codeword, summaries.
    fn arrays_mut(&mut self) -> (&mut CudaSlice<u32>, &mut CudaSlice<u16>, &mut CudaSlice<u32>) {
        (&mut self.codewords, &mut self.symbols, &mut self.summary)
    }

    /// Returns the number of codebooks.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the codeword of each symbol: the code in the low 27 bits and its length in the high 5 bits, or 0 if the
    /// symbol is not used. [`unpack`] splits them.
    pub fn codewords(&self) -> CudaView<'_, u32> {
        self.codewords.as_view()
    }

    /// Returns the used symbols in the order of their codewords, ascending by (length, symbol). Entries beyond
    /// [`Summary::used`] are unspecified.
    pub fn symbols_by_codeword(&self) -> CudaView<'_, u16> {
        self.symbols.as_view()
    }

    /// Copies the first codebook's summary to the host, which synchronizes with the stream.
    ///
    /// # Errors
    /// [`CudaError::Driver`].
    pub fn read_summary(&self, stream: &Arc<CudaStream>) -> Result<Summary> {
        let words = fetch(stream, &self.summary, "reading the codebook's summary")?;
        let per_length = |first: usize| std::array::from_fn(|length| words[first + length]);
        Ok(Summary {
            used: words[0],
            longest: words[1],
            counts_clamped: words[2] != 0,
            rounds: words[3],
            first: per_length(4),
            entry: per_length(36),
            cycles: std::array::from_fn(|phase| words[68 + phase]),
        })
    }
}

/// The parameters that a decoder needs in addition to the symbols, and statistics of the construction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Number of symbols that occur.
    pub used: u32,
    /// Length of the longest codeword in bits; 0 if no symbol occurs.
    pub longest: u32,
    /// Whether a count was above [`LARGEST_COUNT`]. The code is then valid but not optimal.
    pub counts_clamped: bool,
    /// Melding rounds of the tree of the unmodified counts. Each sequential meld counts as one round.
    pub rounds: u32,
    /// First codeword of each length in bits.
    pub first: [u32; 32],
    /// For each length, the number of shorter codewords.
    pub entry: [u32; 32],
    /// Clock cycles of the phases: sorting, melding (GenerateCL), the length limit with its slowest floor tree, and
    /// codewords (GenerateCW).
    pub cycles: [u32; 4],
}

/// Splits an entry of [`DeviceCodebooks::codewords`] into its length in bits and its code.
pub fn unpack(codeword: u32) -> (u32, u32) {
    (codeword >> CODE_BITS, codeword & ((1 << CODE_BITS) - 1))
}

/// Builds codebooks of one alphabet size from counts in device memory.
#[derive(Debug, Clone)]
pub struct CodebookBuilder {
    symbols: u32,
    strategy: Box<Strategy>,
}

#[derive(Debug, Clone)]
enum Strategy {
    Block(BlockBuilder),
    Cooperative(CooperativeBuilder),
}

impl CodebookBuilder {
    /// Compiles the kernels for alphabets of `symbols` symbols, 0 to `symbols - 1`.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] unless there are 1 to 65,536 symbols; errors of [`Device::kernel`].
    pub fn new(device: &Device, symbols: u32) -> Result<Self> {
        check_alphabet(symbols)?;
        let &DeviceInfo { shared_memory_per_block, multiprocessors, .. } = device.info();
        let layout = BlockLayout::for_alphabet(symbols, shared_memory_per_block, multiprocessors);
        let strategy = match layout.blocks {
            1 => Strategy::Block(BlockBuilder::new(device, symbols, layout)?),
            _ => Strategy::Cooperative(CooperativeBuilder::new(device, symbols, layout)?),
        };
        Ok(Self { symbols, strategy: Box::new(strategy) })
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
        let length = self.symbols as usize * codebooks.count as usize;
        if counts.len() < length || codebooks.codewords.len() != length {
            return Err(CudaError::invalid(format!(
                "{} codebooks of {} symbols need {length} counts and {length} codewords, not {} and {}",
                codebooks.count,
                self.symbols,
                counts.len(),
                codebooks.codewords.len()
            )));
        }
        match &*self.strategy {
            Strategy::Block(builder) => builder.launch(frame, counts, codebooks),
            Strategy::Cooperative(builder) => builder.launch(frame, counts, codebooks),
        }
    }
}

fn check_alphabet(symbols: u32) -> Result<()> {
    if (1..=MAX_SYMBOLS).contains(&symbols) {
        return Ok(());
    }
    Err(CudaError::invalid(format!("an alphabet must have 1 to {MAX_SYMBOLS} symbols, not {symbols}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_layouts_fit() {
        for shared_memory in [64 << 10, 96 << 10, 99 << 10, 163 << 10, 227 << 10] {
            for symbols in [1, 2, 255, 256, 257, 1000, 1024, 4096, 10_000, 65_536] {
                let layout = BlockLayout::for_alphabet(symbols, shared_memory, 132);
                assert!(layout.threads.is_multiple_of(256) && layout.threads <= 1024, "{layout:?}");
                if layout.blocks == 1 {
                    assert!(layout.memory(symbols) + static_shared_bytes(layout.threads) <= shared_memory);
                }
            }
            assert_eq!(BlockLayout::for_alphabet(65_536, shared_memory, 132).blocks, 64);
            assert_eq!(BlockLayout::for_alphabet(65_536, shared_memory, 20).blocks, 20);
        }
        assert_eq!(BlockLayout::for_alphabet(4096, 227 << 10, 132), BlockLayout { blocks: 1, threads: 1024 });
    }

    #[test]
    fn unpacking() {
        assert_eq!(unpack(20 << 27 | 0xF_FFFF), (20, 0xF_FFFF));
        assert_eq!(unpack(0), (0, 0));
    }
}
