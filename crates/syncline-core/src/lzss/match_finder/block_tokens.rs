//! The rules of a search in a short window, and where the tokens of a block are written.

use super::super::{Params, SHORT_WINDOW_BLOCK_BYTES};

/// Most bytes in a block.
pub(super) const MAX_BYTES: usize = SHORT_WINDOW_BLOCK_BYTES;
/// Most symbols in a block.
pub(super) const MAX_SYMBOLS: usize = MAX_BYTES;
/// Bytes that may be read after a block, and written after its literals, lengths and distances.
pub(super) const WRITE_SLACK: usize = 64 * 8;

/// Which candidates are compared, and what makes them matches.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchRules {
    /// Greatest distance in symbols, at most 255.
    pub window: usize,
    /// Most candidates that are compared, the nearest first.
    pub depth: usize,
    /// Symbols that a candidate must share, 1 to 8.
    pub key_symbols: usize,
    /// Fewest symbols in a match, `key_symbols` to 16.
    pub min_match: usize,
    /// Most symbols in a match.
    pub max_match: usize,
}

impl SearchRules {
    /// Returns the rules of these parameters.
    pub(super) fn new(params: &Params) -> Self {
        Self {
            window: params.window(),
            depth: params.depth(),
            key_symbols: params.key_bytes() / params.width.bytes(),
            min_match: params.min_match.into(),
            max_match: params.max_match(),
        }
    }
}

/// Memory for the tokens of a block. Except for `flags`, each slice has [`WRITE_SLACK`] bytes more than the block
/// needs.
#[derive(Debug)]
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only functions for x86-64 write tokens so"))]
pub(super) struct TokensOut<'a> {
    /// One bit for each token, set for a match. Unused bits of the last word are cleared.
    pub flags: &'a mut [u64],
    /// Symbols of the literals.
    pub literals: &'a mut [u8],
    /// Length of each match minus the shortest length.
    pub lengths: &'a mut [u8],
    /// Distance of each match.
    pub distances: &'a mut [u8],
}

/// The numbers of tokens and matches of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenCounts {
    /// Number of tokens.
    pub tokens: usize,
    /// Number of tokens that are matches.
    pub matches: usize,
}

/// A match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Match {
    /// Position of its first symbol.
    pub at: usize,
    /// Number of symbols.
    pub length: usize,
    /// Distance in symbols.
    pub distance: u8,
}
