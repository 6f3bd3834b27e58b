//! The LZSS stage: symbols of 1, 2, 4 or 8 bytes to literals and references to what stands shortly before, and back.
//!
//! Input is cut into blocks that know nothing of each other, small enough for the shared memory of a GPU's thread block
//! (the design of GPULZ, Zhang et al., ICS 2023). Which tokens a block gets is specified in `docs/FORMAT.md`, "LZSS":
//! [`encode`](fn@encode) finds them with hash chains, the module `oracle` by comparing with every position of the
//! window.

mod decode;
mod encode;
mod matcher;
mod near;
mod near_decode;
#[doc(hidden)]
pub mod oracle;
#[cfg(test)]
mod tests;

pub use decode::{SLACK, TokenParts, decode_block};
pub(crate) use decode::{decode_block_ahead, decode_near_block};
pub use encode::{EncodeScratch, encode};

/// Longest match beyond the shortest: the length is stored in a byte.
pub const LENGTH_SPAN: usize = 255;
/// The search ends with the first match of so many symbols.
pub const ENOUGH: usize = 32;
/// Bytes of a block up to level 4.
pub(crate) const NEAR_BLOCK_BYTES: usize = 1 << 14;
/// What numbers are hashed with: a prime near 2^32 over the golden ratio.
pub(crate) const HASH_FACTOR: u32 = 0x9E37_79B1;
/// Fastest and smallest level.
pub const LEVELS: std::ops::RangeInclusive<u8> = 1..=9;
/// Shortest matches may be no longer than this.
pub const MAX_MIN_MATCH: u8 = 16;

/// Bytes of a symbol.
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
    /// Every width, narrowest first.
    pub const ALL: [Self; 4] = [Self::One, Self::Two, Self::Four, Self::Eight];

    /// Width of so many bytes, if there is one.
    pub fn from_bytes(bytes: usize) -> Option<Self> {
        Self::ALL.into_iter().find(|width| width.bytes() == bytes)
    }

    /// Bytes of a symbol.
    pub const fn bytes(self) -> usize {
        self as usize
    }
}

/// How symbols become tokens.
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
    /// Parameters with the shortest match that takes fewer bytes than its symbols.
    ///
    /// # Panics
    /// The level is not one of [`LEVELS`].
    pub fn new(width: SymbolWidth, level: u8) -> Self {
        assert!(LEVELS.contains(&level), "levels are 1 to 9");
        let token = 1 + if level <= 4 { 1 } else { 2 };
        Self { width, level, min_match: (token / width.bytes() + 1) as u8 }
    }

    /// Bytes of a distance.
    pub fn distance_bytes(&self) -> usize {
        if self.level <= 4 { 1 } else { 2 }
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> usize {
        if self.level <= 4 { NEAR_BLOCK_BYTES } else { 1 << 16 }
    }

    /// Symbols of a block.
    pub fn block_symbols(&self) -> usize {
        self.block_bytes() / self.width.bytes()
    }

    /// Greatest distance, in symbols: 32, 64, 128 and 255 for levels 1 to 4 as GPULZ has them.
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

    /// How many candidates are compared, the nearest first.
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

    /// Most symbols in a match.
    pub fn max_match(&self) -> usize {
        usize::from(self.min_match) + LENGTH_SPAN
    }

    /// Bytes by which a candidate is recognized: of the shortest match, but at most 8.
    pub(crate) fn key_bytes(&self) -> usize {
        (usize::from(self.min_match) * self.width.bytes()).min(8)
    }
}

/// What a block takes of the tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockCounts {
    /// Tokens.
    pub tokens: u32,
    /// Tokens that are matches.
    pub matches: u32,
}

/// The tokens of a sequence of blocks, each kind of field by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// What each block has of the following.
    pub blocks: Vec<BlockCounts>,
    /// Bit `i mod 64` of word `i / 64` of a block is set if its token `i` is a match; each block starts a new word.
    pub flags: Vec<u64>,
    /// The symbols of the literals.
    pub literals: Vec<u8>,
    /// Of each match its length minus the shortest.
    pub lengths: Vec<u8>,
    /// Of each match its distance in symbols, little-endian, in [`Params::distance_bytes`].
    pub distances: Vec<u8>,
}

impl Tokens {
    /// Forgets all tokens.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.flags.clear();
        self.literals.clear();
        self.lengths.clear();
        self.distances.clear();
    }

    /// Bytes that the tokens take as they are.
    pub fn len(&self) -> usize {
        size_of_val(self.blocks.as_slice())
            + size_of_val(self.flags.as_slice())
            + self.literals.len()
            + self.lengths.len()
            + self.distances.len()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}
