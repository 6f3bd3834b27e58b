//! Decides whether a block can have matches at all if only long matches count.
//!
//! A match of [`LONG`] symbols covers an aligned group of [`GROUP`] symbols. The hash of each aligned group is compared
//! with the hashes at all positions of the window before it, which takes few instructions with vectors.

use super::super::HASH_FACTOR;
use super::block_tokens::MAX_SYMBOLS;

/// Symbols that are hashed together.
const GROUP: usize = 8;
/// Fewest symbols in a match for which this works.
const LONG: usize = 2 * GROUP;
/// Positions after which the search may end early.
const PIECE: usize = 1024;

/// Returns whether matches of at least `min_match` symbols are long enough.
pub(super) const fn applies_to(min_match: usize) -> bool {
    min_match >= LONG
}

/// Hashes of [`GROUP`] symbols from each position on.
#[derive(Debug)]
pub(super) struct GroupHashes(Box<[u32; MAX_SYMBOLS]>);

impl Default for GroupHashes {
    fn default() -> Self {
        Self(Box::new([0; MAX_SYMBOLS]))
    }
}

/// Returns whether the hash of an aligned group of symbols equals that of symbols at most `window` before it. If not,
/// the block has no match of [`LONG`] symbols.
#[inline(always)]
pub(super) fn may_repeat<const WIDTH: usize>(
    bytes: &[u8],
    window: usize,
    GroupHashes(hashes): &mut GroupHashes,
) -> bool {
    let (symbols, rest) = bytes.as_chunks::<WIDTH>();
    if !rest.is_empty() {
        // The padding of the last symbol may be part of a match.
        return true;
    }
    let Some(last) = symbols.len().checked_sub(GROUP) else { return false };
    let hashes = &mut hashes[..symbols.len()];
    for piece in (0..=last).step_by(PIECE) {
        let end = (piece + PIECE + GROUP - 1).min(symbols.len());
        hash_groups::<WIDTH>(&symbols[piece..end], &mut hashes[piece..end]);
        let mut at = piece.max(GROUP);
        while at <= last && at < piece + PIECE {
            let wanted = hashes[at];
            let mut found = false;
            // No early exit: one vector holds as many hashes as such a search would compare. Loops rather than closures
            // of iterators, which are not compiled for the enabled instruction set.
            for &hash in &hashes[at.saturating_sub(window)..at] {
                found |= hash == wanted;
            }
            if found {
                return true;
            }
            at += GROUP;
        }
    }
    false
}

/// Writes the hashes of the groups from each symbol on. The last `GROUP - 1` of them are incomplete.
#[inline(always)]
fn hash_groups<const WIDTH: usize>(symbols: &[[u8; WIDTH]], hashes: &mut [u32]) {
    for (hash, symbol) in hashes.iter_mut().zip(symbols) {
        *hash = match WIDTH {
            1 => symbol[0].into(),
            2 => u16::from_le_bytes([symbol[0], symbol[1]]).into(),
            4 => u32::from_le_bytes([symbol[0], symbol[1], symbol[2], symbol[3]]),
            _ => {
                let words = symbol.as_chunks::<4>().0;
                u32::from_le_bytes(words[0]).wrapping_mul(HASH_FACTOR).wrapping_add(u32::from_le_bytes(words[1]))
            }
        };
    }
    // Hashes of two symbols, then of four and of eight.
    for step in [1, 2, 4] {
        for at in 0..hashes.len() - step {
            let mixed = (hashes[at] ^ hashes[at] >> 15).wrapping_mul(HASH_FACTOR).rotate_left(13);
            hashes[at] = mixed.wrapping_add(hashes[at + step]);
        }
    }
}
