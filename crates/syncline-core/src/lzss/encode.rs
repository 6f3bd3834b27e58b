//! Encodes symbols as tokens, block by block.

use super::match_finder::{HashChain, LastPosition, MatchFinder, ShortWindow, Strategy};
use super::{Params, Tokens};

/// Blocks for which a match finder is tried together: once it does not suit a block, the rest of the group is left to
/// the general one.
const GROUP_BLOCKS: usize = 16;

/// Memory that the encoder reuses from call to call. Tokens do not depend on it.
#[derive(Debug, Default)]
pub struct EncodeScratch {
    hash_chain: HashChain,
    last_position: LastPosition,
    short_window: ShortWindow,
}

/// Appends the tokens of `bytes`, cut into blocks, to `tokens`. An incomplete last symbol is padded with zero bytes.
///
/// # Panics
/// `params` has a level or a shortest match that is out of range.
pub fn encode(bytes: &[u8], params: &Params, scratch: &mut EncodeScratch, tokens: &mut Tokens) {
    assert!((1..=super::MAX_MIN_MATCH).contains(&params.min_match) && super::LEVELS.contains(&params.level));
    let EncodeScratch { hash_chain, last_position, short_window } = scratch;
    // Literals take at most this much. Pages of a large reservation cost nothing until they are written.
    tokens.literals.reserve(bytes.len() + size_of::<u64>());
    match Strategy::choose(params) {
        Strategy::HashChain => append_groups(bytes, params, None, hash_chain, tokens),
        Strategy::LastPosition => append_groups(bytes, params, Some(last_position), short_window, tokens),
        Strategy::ShortWindow => append_groups(bytes, params, None, short_window, tokens),
    }
}

/// Appends the tokens of `bytes` by the match finder `first` for those blocks at the start of each group that it suits,
/// and by `general` for the others.
fn append_groups(
    bytes: &[u8],
    params: &Params,
    mut first: Option<&mut LastPosition>,
    general: &mut dyn MatchFinder,
    tokens: &mut Tokens,
) {
    let block_bytes = params.block_bytes();
    let mut rest = bytes;
    while !rest.is_empty() {
        let mut blocks = GROUP_BLOCKS;
        if let Some(first) = &mut first {
            while blocks > 0 && !rest.is_empty() {
                let Some(taken) = first.append_tokens(rest, 1, params, tokens) else { break };
                rest = &rest[taken..];
                blocks -= 1;
            }
        }
        if blocks > 0 && !rest.is_empty() {
            let taken = general.append_tokens(rest, blocks, params, tokens).expect("a general match finder");
            debug_assert_eq!(taken, rest.len().min(blocks * block_bytes));
            rest = &rest[taken..];
        }
    }
}
