//! The properties that all streams of a batch share.

use syncline_core::huffman::IndexKind;

use crate::error::{CudaError, Result};
use crate::huffman::Symbol;
use crate::huffman::codebook::{LARGE_ALPHABET, MAX_LENGTH, MAX_LENGTH_LARGE};

/// Maximum number of classes, and so of codebooks, of a stream.
pub(super) const CLASSES: u32 = 4;

/// The properties that all streams of a batch share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Format {
    /// Bytes of a symbol: 1 or 2.
    pub symbol_bytes: u32,
    /// Logarithm of the symbols in a group: 6 or 7.
    pub group_log2: u8,
    /// Number of symbols: a power of two from 256 to 65,536, or 256 for bytes.
    pub alphabet: u32,
    /// Whether each group has a class, and each class may have its own codebook. Only with [`IndexKind::Symbol`].
    pub classes: bool,
    /// Index that is stored beside the codewords.
    pub index: IndexKind,
}

impl Format {
    /// Checks that the fields are consistent.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`].
    pub fn check(&self) -> Result<()> {
        let max_symbols = 1 << (8 * self.symbol_bytes.min(2));
        let problems = [
            (!matches!(self.symbol_bytes, 1 | 2), "a symbol must have 1 or 2 bytes"),
            (!matches!(self.group_log2, 6 | 7), "a group must have 64 or 128 symbols"),
            (
                !self.alphabet.is_power_of_two() || !(256..=max_symbols).contains(&self.alphabet),
                "the size of the alphabet must be a power of two from 256 to the number of symbol values",
            ),
            (self.classes && self.index != IndexKind::Symbol, "classes require the symbol index"),
        ];
        match problems.iter().find(|problem| problem.0) {
            Some(&(_, problem)) => Err(CudaError::invalid(problem)),
            None => Ok(()),
        }
    }

    /// Runs [`Self::check`] for symbols of type `S`.
    pub(super) fn check_symbol<S: Symbol>(&self) -> Result<()> {
        self.check()?;
        if self.symbol_bytes == S::BYTES {
            return Ok(());
        }
        Err(CudaError::invalid(format!("the format has symbols of {} bytes, not {}", self.symbol_bytes, S::BYTES)))
    }

    /// Returns the number of classes whose symbols are counted separately.
    pub(super) fn class_count(&self) -> u32 {
        if self.classes { CLASSES } else { 1 }
    }

    /// Returns the number of codebooks that are built for a stream: one, or one for each class and one for all.
    pub fn codebooks(&self) -> u32 {
        if self.classes { CLASSES + 1 } else { 1 }
    }

    /// Returns the maximum codeword length in bits.
    pub fn longest(&self) -> u32 {
        if self.alphabet > LARGE_ALPHABET { MAX_LENGTH_LARGE } else { MAX_LENGTH }
    }

    /// Returns the symbols in a group.
    pub fn group(&self) -> u32 {
        1 << self.group_log2
    }

    /// Returns the maximum size of a serialized codebook in bytes.
    pub(super) fn max_codebook_bytes(&self) -> u32 {
        self.alphabet + 4
    }

    /// Returns the constants of `huffman/encode/encode.cuh` for segments of `segment` symbols.
    #[doc(hidden)]
    pub fn constants(&self, segment: u32) -> Vec<(&'static str, u64)> {
        let constants = [
            ("SYMBOL_BYTES", self.symbol_bytes),
            ("GROUP", self.group()),
            ("ALPHABET", self.alphabet),
            ("CLASSES", self.class_count()),
            ("LONGEST", self.longest()),
            ("SEGMENT", segment),
        ];
        constants.map(|(name, value)| (name, value.into())).to_vec()
    }

    /// Returns the maximum size in bytes of a stream of `groups` groups, including alignment.
    pub fn max_stream_bytes(&self, groups: u32) -> u64 {
        let groups = u64::from(groups);
        let symbols = groups << self.group_log2;
        let bits = symbols * u64::from(self.longest());
        let codebooks = u64::from(self.class_count()) * u64::from(self.max_codebook_bytes());
        let index = match self.index {
            IndexKind::None => 0,
            // Descriptors, and deltas of up to 12 bits.
            IndexKind::Symbol => groups.div_ceil(32) * (8 + 4 * 12),
        };
        let sections = 40 + codebooks + groups.div_ceil(8) + index + bits.div_ceil(32) * 4 + 8;
        // The alignment of the sections and of the next stream.
        (sections + 64).next_multiple_of(16)
    }
}

/// Returns the formats that the compile check covers.
pub fn checked_formats() -> Vec<Format> {
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
        format(2, 6, 65_536, false, IndexKind::Symbol),
        format(1, 6, 256, false, IndexKind::None),
    ]
}
