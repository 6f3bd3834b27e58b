//! What all streams of a batch have in common, and the constants that follow.

use syncline_core::huffman::{IndexKind, SUBSEQUENCE_BITS};

use crate::error::{CudaError, Result};
use crate::huffman::codebook::{LARGE_ALPHABET, MAX_LENGTH, MAX_LENGTH_LARGE};

/// Most classes, and so codebooks, of a stream.
pub const CLASSES: u32 = 4;

/// What all streams of a batch have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Format {
    /// Bytes of a symbol: 1 or 2.
    pub symbol_bytes: u32,
    /// Logarithm of the symbols in a group: 6 or 7.
    pub group_log2: u8,
    /// Symbols are below this: a power of two from 256 to 65,536 (256 for bytes).
    pub alphabet: u32,
    /// Whether groups have classes, and each class may have a codebook of its own. Only with [`IndexKind::Symbol`].
    pub classes: bool,
    /// What to store beside the codewords.
    pub index: IndexKind,
}

impl Format {
    /// Checks the fields against each other.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`].
    pub fn check(&self) -> Result<()> {
        let most = 1 << (8 * self.symbol_bytes.min(2));
        let problems = [
            (!matches!(self.symbol_bytes, 1 | 2), "symbols have 1 or 2 bytes"),
            (!matches!(self.group_log2, 6 | 7), "groups have 64 or 128 symbols"),
            (
                !self.alphabet.is_power_of_two() || !(256..=most).contains(&self.alphabet),
                "the alphabet's size is a power of two from 256 to what the symbols can tell apart",
            ),
            (self.classes && self.index != IndexKind::Symbol, "classes need the symbol index"),
        ];
        match problems.iter().find(|problem| problem.0) {
            Some(&(_, problem)) => Err(CudaError::invalid(problem)),
            None => Ok(()),
        }
    }

    /// Codebooks that are built for a stream: one, or one a class and one for all.
    pub fn books(&self) -> u32 {
        if self.classes { CLASSES + 1 } else { 1 }
    }

    /// Longest codeword in bits.
    pub fn longest(&self) -> u32 {
        if self.alphabet > LARGE_ALPHABET { MAX_LENGTH_LARGE } else { MAX_LENGTH }
    }

    /// Symbols in a group.
    pub fn group(&self) -> u32 {
        1 << self.group_log2
    }

    /// Most bytes of one codebook.
    pub(super) fn book_bytes(&self) -> u32 {
        self.alphabet + 4
    }

    /// The constants of `huffman/encode/encode.cuh`.
    pub(super) fn constants(&self, segment: u32) -> Vec<(&'static str, u64)> {
        let constants = [
            ("SYMBOL_BYTES", self.symbol_bytes),
            ("GROUP", self.group()),
            ("ALPHABET", self.alphabet),
            ("CLASSES", if self.classes { CLASSES } else { 1 }),
            ("LONGEST", self.longest()),
            ("SEGMENT", segment),
        ];
        constants.map(|(name, value)| (name, value.into())).to_vec()
    }

    /// Most bytes of a stream of this many groups, and so of the room it needs.
    pub fn max_stream_bytes(&self, groups: u32) -> u64 {
        let groups = u64::from(groups);
        let symbols = groups << self.group_log2;
        let bits = symbols * u64::from(self.longest());
        let books = if self.classes { u64::from(CLASSES) } else { 1 };
        let index = match self.index {
            IndexKind::None => 0,
            IndexKind::Gap => bits.div_ceil(SUBSEQUENCE_BITS.into()),
            // Descriptors, and deltas of up to 12 bits.
            IndexKind::Symbol => groups.div_ceil(32) * (8 + 4 * 12),
        };
        let parts = 40 + books * u64::from(self.book_bytes()) + groups.div_ceil(8) + index + bits.div_ceil(32) * 4 + 8;
        // What alignment adds, and the next stream's start.
        (parts + 64).next_multiple_of(16)
    }
}

/// A way to encode. All write the same bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Method {
    /// Ours: a warp merges codewords in registers and in shared memory, in one reading.
    #[default]
    Merged,
    /// A thread a segment, symbol after symbol: the coarse-grained baseline.
    Coarse,
    /// Every symbol is put where a prefix sum of the lengths says: the fine-grained baseline.
    PrefixSum,
    /// The 2021 paper's: chunks of `2^magnitude` symbols; `2^reduction` codewords merged by a thread, the results
    /// merged in pairs by batch moves.
    ReduceShuffleMerge {
        /// Logarithm of the symbols in a chunk: 10 to 12.
        magnitude: u32,
        /// Logarithm of the codewords that a thread merges: 1 to 4.
        reduction: u32,
    },
}

impl Method {
    /// Every method, the published one with its recommended constants.
    pub const ALL: [Self; 4] =
        [Self::Merged, Self::Coarse, Self::PrefixSum, Self::ReduceShuffleMerge { magnitude: 10, reduction: 3 }];

    /// Name as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Merged => "merged",
            Self::Coarse => "coarse",
            Self::PrefixSum => "prefix-sum",
            Self::ReduceShuffleMerge { .. } => "reduce-shuffle-merge",
        }
    }
}

/// Formats that the compile check covers.
pub(super) fn checked() -> Vec<Format> {
    let format = |symbol_bytes, group_log2, alphabet, classes, index| Format {
        symbol_bytes,
        group_log2,
        alphabet,
        classes,
        index,
    };
    vec![
        format(2, 7, 1024, false, IndexKind::Symbol),
        format(2, 6, 1024, true, IndexKind::Symbol),
        format(2, 7, 1024, false, IndexKind::Gap),
        format(2, 6, 65_536, false, IndexKind::Gap),
        format(1, 6, 256, false, IndexKind::None),
    ]
}
