//! Strategies that find the tokens of blocks. All of them find the same tokens, specified in `docs/FORMAT.md`, "LZSS".
//!
//! [`HashChain`] searches the long windows of levels 5 to 9. For the short windows of levels 1 to 4, [`LastPosition`]
//! suits blocks with few or short matches, and [`ShortWindow`] suits all blocks.

mod block_tokens;
mod compare_bytes;
mod hash_chain;
mod last_position;
mod long_repeats;
mod nearest_four;
mod short_window;
mod token_block;
mod window_bitmap;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(super) use self::hash_chain::HashChain;
pub(super) use self::last_position::LastPosition;
pub(super) use self::short_window::ShortWindow;

use super::{Params, Tokens};

/// A strategy that finds the tokens of blocks.
pub(super) trait MatchFinder {
    /// Appends the tokens of the first blocks of `bytes`, at most `max_blocks`, to `tokens`. Returns the number of
    /// bytes in these blocks, or `None`, without tokens appended, if the strategy does not suit the first block.
    fn append_tokens(&mut self, bytes: &[u8], max_blocks: usize, params: &Params, tokens: &mut Tokens)
    -> Option<usize>;
}

/// A choice of match finders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// [`HashChain`].
    HashChain,
    /// [`LastPosition`] for the first blocks of a group that it suits, then [`ShortWindow`].
    LastPosition,
    /// [`ShortWindow`].
    ShortWindow,
}

impl Strategy {
    /// Returns the fastest strategy for these parameters.
    pub(super) fn choose(params: &Params) -> Self {
        if params.window() > u8::MAX.into() {
            Self::HashChain
        } else if params.depth() == 1 || long_repeats::applies_to(params.min_match.into()) {
            Self::ShortWindow
        } else {
            Self::LastPosition
        }
    }
}
