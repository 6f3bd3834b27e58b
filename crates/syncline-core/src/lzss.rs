//! The LZSS stage: encodes symbols of 1, 2, 4 or 8 bytes as literals and matches, and decodes them.
//!
//! Input is cut into independent blocks that fit into the shared memory of a GPU's thread block (the design of GPULZ,
//! Zhang et al., ICS 2023). `docs/FORMAT.md`, "LZSS", specifies the tokens of a block. [`encode`](fn@encode) finds them
//! by several strategies; the module `oracle` finds them by comparing every position of the window.

mod decode;
mod encode;
mod match_finder;
#[doc(hidden)]
pub mod oracle;
#[cfg(test)]
mod tests;

pub use decode::{SLACK, TokenParts, decode_block};
pub(crate) use decode::{decode_block_with_prefetch, decode_short_window_block};
pub use encode::{EncodeScratch, encode};

/// Greatest difference between the lengths of matches: it is stored in one byte.
pub const LENGTH_SPAN: usize = 255;
/// The search ends at the first match of at least this many symbols.
pub const ENOUGH: usize = 32;
/// Bytes of a block at levels 1 to 4.
pub(crate) const SHORT_WINDOW_BLOCK_BYTES: usize = 1 << 14;
/// Factor of multiplicative hashing: a prime near 2^32 divided by the golden ratio.
pub(crate) const HASH_FACTOR: u32 = 0x9E37_79B1;
/// The levels, from the fastest to the one with the best ratio.
pub const LEVELS: std::ops::RangeInclusive<u8> = 1..=9;
/// Greatest value of [`Params::min_match`].
pub const MAX_MIN_MATCH: u8 = 16;

/// The width of an LZSS symbol. There are no others, so that a match may name them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum SymbolWidth {
    /// 1 byte.
    One = 1,
    /// 2 bytes.
    Two = 2,
    /// 4 bytes.
    Four = 4,
    /// 8 bytes.
    Eight = 8,
}

impl SymbolWidth {
    /// All widths, the narrowest first.
    pub const ALL: [Self; 4] = [Self::One, Self::Two, Self::Four, Self::Eight];

    /// Returns the width of this many bytes, if there is one.
    pub fn from_bytes(bytes: usize) -> Option<Self> {
        Self::ALL.into_iter().find(|width| width.bytes() == bytes)
    }

    /// Returns the bytes of a symbol.
    pub const fn bytes(self) -> usize {
        self as usize
    }
}

/// The parameters of encoding and decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Width of a symbol.
    pub width: SymbolWidth,
    /// Level, 1 to 9.
    pub level: u8,
    /// Fewest symbols in a match, 1 to [`MAX_MIN_MATCH`].
    pub min_match: u8,
}

impl Params {
    /// Returns parameters whose minimum match length is the smallest one for which a match takes fewer bytes than its
    /// symbols.
    ///
    /// # Panics
    /// `level` is not in [`LEVELS`].
    pub fn new(width: SymbolWidth, level: u8) -> Self {
        assert!(LEVELS.contains(&level), "levels are 1 to 9");
        let token = 1 + if level <= 4 { 1 } else { 2 };
        Self { width, level, min_match: (token / width.bytes() + 1) as u8 }
    }

    /// Returns the bytes of a distance.
    pub fn distance_bytes(&self) -> usize {
        if self.level <= 4 { 1 } else { 2 }
    }

    /// Returns the bytes of a block.
    pub fn block_bytes(&self) -> usize {
        if self.level <= 4 { SHORT_WINDOW_BLOCK_BYTES } else { 1 << 16 }
    }

    /// Returns the symbols of a block.
    pub fn block_symbols(&self) -> usize {
        self.block_bytes() / self.width.bytes()
    }

    /// Returns the greatest distance in symbols. Levels 1 to 4 have the windows of GPULZ: 32, 64, 128 and 255.
    pub fn window(&self) -> usize {
        match self.level {
            1 => 32,
            2 => 64,
            3 => 128,
            4 => 255,
            5 => 1 << 10,
            6 => 1 << 11,
            7 => 1 << 12,
            8 => 1 << 14,
            _ => (1 << 16) - 1,
        }
    }

    /// Returns how many candidates are compared, the nearest first.
    pub fn depth(&self) -> usize {
        match self.level {
            1 => 1,
            2 => 2,
            3 => 4,
            4 => 16,
            5 => 16,
            6 => 32,
            7 => 64,
            8 => 128,
            _ => 512,
        }
    }

    /// Returns the most symbols in a match.
    pub fn max_match(&self) -> usize {
        usize::from(self.min_match) + LENGTH_SPAN
    }

    /// Returns the bytes of a key, which a candidate must share: those of the shortest match, at most 8.
    pub(crate) fn key_bytes(&self) -> usize {
        (usize::from(self.min_match) * self.width.bytes()).min(8)
    }
}

/// The tokens of one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Number of tokens.
    pub tokens: u32,
    /// Number of tokens that are matches.
    pub matches: u32,
}

/// The tokens of a sequence of blocks, with each field in an array of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// The number of tokens in each block.
    pub blocks: Vec<BlockCounts>,
    /// Bit `i % 64` of word `i / 64` of a block is set if its token `i` is a match. Each block starts a new word.
    pub flags: Vec<u64>,
    /// Symbols of the literals.
    pub literals: Vec<u8>,
    /// Length of each match minus [`Params::min_match`].
    pub lengths: Vec<u8>,
    /// Distance of each match in symbols, little-endian, in [`Params::distance_bytes`].
    pub distances: Vec<u8>,
}

impl Tokens {
    /// Removes all tokens.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.flags.clear();
        self.literals.clear();
        self.lengths.clear();
        self.distances.clear();
    }

    /// Returns the bytes that the tokens take when stored without entropy coding.
    pub fn len(&self) -> usize {
        size_of_val(self.blocks.as_slice())
            + size_of_val(self.flags.as_slice())
            + self.literals.len()
            + self.lengths.len()
            + self.distances.len()
    }

    /// Returns whether there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}
