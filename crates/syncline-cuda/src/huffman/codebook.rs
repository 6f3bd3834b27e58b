//! Canonical Huffman codebooks from symbol counts, built on the device.
//!
//! This is the parallel codebook construction of Tian et al., "Revisiting Huffman Coding: Toward Extreme Performance on
//! Modern GPU Architectures" (IPDPS 2021), section IV-B: GenerateCL melds all subtrees of a round in parallel, and
//! GenerateCW assigns canonical codewords and the decoder's First and Entry arrays. It also applies the length limit of
//! [`syncline_core::huffman::lengths`]. In `small_alphabet`, one block builds each codebook of an encoder's streams; in
//! `cooperative`, several blocks sort and write a codebook of a larger alphabet.

mod cooperative;
pub(super) mod small_alphabet;
pub(crate) mod structs;

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, CudaView};
use syncline_core::huffman::lengths;

use crate::device::{Specialization, fetch};
use crate::error::{CudaError, DriverContext, Result};
pub use cooperative::CodebookBuilder;

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
#[doc(hidden)]
pub const CONTROL_BYTES: u32 = 128;
/// Bytes of the kernels' arrays for each symbol.
#[doc(hidden)]
pub const BYTES_PER_SYMBOL: u32 = 19;
/// Digits of the radix sort. Each cooperating block publishes its count of every digit.
#[doc(hidden)]
pub const DIGITS: u32 = 256;
/// Threads of each cooperating block, measured from 256 to 1,024 threads and 16 to 128 blocks.
const COOPERATIVE_THREADS: u32 = 512;
/// Symbols for each cooperating block, measured together with [`COOPERATIVE_THREADS`].
const SYMBOLS_PER_BLOCK: u32 = 1024;
/// 32-bit words of a codebook's summary.
const SUMMARY_WORDS: usize = 72;
/// Bits of a packed codeword that hold the code. The length is above them.
pub(crate) const CODE_BITS: u32 = 27;
/// Candidate trees of a code: the tree of the unmodified counts, and one for each floor of the length limit.
#[doc(hidden)]
pub const CANDIDATE_TREES: u32 = lengths::FLOORS + 1;
/// Bytes of `CandidateTrees` in huffman/codebook/cooperative_trees.cuh.
const CANDIDATE_TREES_BYTES: u32 = 3072;

/// The blocks that sort the symbols of one codebook and write its codewords.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BlockLayout {
    blocks: u32,
    threads: u32,
}

impl BlockLayout {
    /// Returns at most one block on each multiprocessor, so that all of them are resident.
    fn for_alphabet(symbols: u32, multiprocessors: u32) -> Self {
        let blocks = symbols.div_ceil(SYMBOLS_PER_BLOCK).min(multiprocessors).max(2);
        Self { blocks, threads: COOPERATIVE_THREADS }
    }

    /// Returns the bytes of the kernels' arrays.
    fn memory(self, symbols: u32) -> u32 {
        (CONTROL_BYTES + BYTES_PER_SYMBOL * symbols + 16 + self.blocks * DIGITS * 4).next_multiple_of(16)
    }
}

/// Returns the constants that all codebook kernels are compiled with.
#[doc(hidden)]
pub fn constants(symbols: u32, threads: u32, cooperative_blocks: u32) -> Vec<(&'static str, u64)> {
    let constants = [
        ("SYMBOLS", symbols),
        ("THREADS", threads),
        ("COOPERATIVE_BLOCKS", cooperative_blocks),
        ("MAX_LENGTH", MAX_LENGTH),
        ("MAX_LENGTH_LARGE", MAX_LENGTH_LARGE),
        ("LARGE_ALPHABET", LARGE_ALPHABET),
        ("FLOORS", lengths::FLOORS),
    ];
    constants.map(|(name, value)| (name, value.into())).to_vec()
}

/// Returns the specializations of the alphabets in use, for the compile check on a device with this much shared memory
/// per block, in bytes.
pub fn specializations(shared_memory: u32) -> Vec<Specialization> {
    let mut all = cooperative::specializations(MAX_SYMBOLS, shared_memory);
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
    #[doc(hidden)]
    pub fn arrays_mut(&mut self) -> (&mut CudaSlice<u32>, &mut CudaSlice<u16>, &mut CudaSlice<u32>) {
        (&mut self.codewords, &mut self.symbols, &mut self.summary)
    }

    /// Checks that there are `symbols` codewords for each codebook, and that there are as many counts.
    #[doc(hidden)]
    pub fn check(&self, symbols: u32, counts: usize) -> Result<()> {
        let length = symbols as usize * self.count as usize;
        if counts < length || self.codewords.len() != length {
            return Err(CudaError::invalid(format!(
                "{} codebooks of {symbols} symbols need {length} counts and {length} codewords, not {counts} and {}",
                self.count,
                self.codewords.len()
            )));
        }
        Ok(())
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

#[doc(hidden)]
pub fn check_alphabet(symbols: u32) -> Result<()> {
    if (1..=MAX_SYMBOLS).contains(&symbols) {
        return Ok(());
    }
    Err(CudaError::invalid(format!("an alphabet must have 1 to {MAX_SYMBOLS} symbols, not {symbols}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_at_most_the_multiprocessors() {
        assert_eq!(BlockLayout::for_alphabet(65_536, 132).blocks, 64);
        assert_eq!(BlockLayout::for_alphabet(65_536, 20).blocks, 20);
        assert_eq!(BlockLayout::for_alphabet(1, 20).blocks, 2);
    }

    #[test]
    fn unpacking() {
        assert_eq!(unpack(20 << 27 | 0xF_FFFF), (20, 0xF_FFFF));
        assert_eq!(unpack(0), (0, 0));
    }
}
