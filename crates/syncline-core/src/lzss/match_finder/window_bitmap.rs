//! Safe calls of the searches that compare whole windows by vector instructions. Each returns `None` where the
//! processor does not have these instructions.

#![allow(unsafe_code, reason = "calls of functions that are compiled for AVX-512")]

use super::block_tokens::{Match, SearchRules, TokenCounts, TokensOut};
#[cfg(target_arch = "x86_64")]
use super::x86;
#[cfg(target_arch = "x86_64")]
use crate::simd::Avx512Vbmi2;

/// Memory of [`find_tokens`], reused from block to block.
#[derive(Debug, Default)]
pub(super) struct WindowBitmap {
    #[cfg(target_arch = "x86_64")]
    buffers: Option<Box<x86::window_bitmap::WindowBitmapBuffers>>,
}

/// Finds the tokens of a block of `symbols` symbols of `WIDTH` (1, 2, 4 or 8) bytes at the start of `bytes`, by bitmaps
/// of equal symbols in windows of 32, 64 or 128 symbols for 1, 2 or 4 candidates. Returns `None`, with `out`
/// unspecified, if 16 bits do not distinguish the symbols and many seem to repeat.
///
/// # Panics
/// A slice is too short, the block is too long, or the rules are others.
pub(super) fn find_tokens<const WIDTH: usize>(
    bytes: &[u8],
    symbols: usize,
    rules: &SearchRules,
    scratch: &mut WindowBitmap,
    out: TokensOut,
) -> Option<TokenCounts> {
    #[cfg(target_arch = "x86_64")]
    if Avx512Vbmi2::detected().is_some() {
        let buffers = scratch.buffers.get_or_insert_default();
        // SAFETY: every feature that the function enables has been detected.
        return unsafe { x86::window_bitmap::find_tokens::<WIDTH>(bytes, symbols, rules, buffers, out) };
    }
    let _ = (bytes, symbols, rules, scratch, out);
    None
}

/// The matches of a block's positions where only one candidate counts, and memory reused from block to block.
#[derive(Debug, Default)]
pub(super) struct SingleCandidates {
    #[cfg(target_arch = "x86_64")]
    found: Option<Box<x86::single_candidate::SingleCandidates>>,
}

impl SingleCandidates {
    /// Returns the matches that tokens take, in order, if they are few. All other symbols are then literals, and
    /// [`write_single_candidates`] must not be called.
    pub(super) fn few_matches(&self) -> Option<&[Match]> {
        #[cfg(target_arch = "x86_64")]
        return self.found.as_deref().and_then(x86::single_candidate::SingleCandidates::few_matches);
        #[cfg(not(target_arch = "x86_64"))]
        None
    }
}

/// Finds the match of each position of a block of `symbols` symbols of `WIDTH` (1, 2, 4 or 8) bytes at the start of
/// `bytes`, and prefetches `next`. Returns `false` without having done so if 16 bits do not distinguish the symbols, or
/// unless the rules have one candidate at a distance of at most 32 symbols with a key of at most 4 symbols.
///
/// # Panics
/// `bytes` is too short, the block is too long, or the rules contradict each other.
pub(super) fn find_single_candidates<const WIDTH: usize>(
    bytes: &[u8],
    symbols: usize,
    rules: &SearchRules,
    next: &[u8],
    candidates: &mut SingleCandidates,
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if Avx512Vbmi2::detected().is_some() {
        let found = candidates.found.get_or_insert_default();
        // SAFETY: every feature that the function enables has been detected.
        return unsafe { x86::single_candidate::find::<WIDTH>(bytes, symbols, rules, next, found) };
    }
    let _ = (bytes, symbols, rules, next, candidates);
    false
}

/// Marks where tokens start in at most four blocks after [`find_single_candidates`], alternating between the blocks.
pub(super) fn mark_token_starts<'c>(blocks: impl Iterator<Item = &'c mut SingleCandidates>) {
    #[cfg(target_arch = "x86_64")]
    if Avx512Vbmi2::detected().is_some() {
        let mut found: Vec<_> = blocks.filter_map(|block| block.found.as_deref_mut()).collect();
        // SAFETY: every feature that the function enables has been detected.
        return unsafe { x86::single_candidate::mark_starts(&mut found) };
    }
    let _ = blocks;
}

/// Writes the tokens of a block after [`find_single_candidates`] and [`mark_token_starts`], with the same bytes and
/// shortest match.
///
/// # Panics
/// They have not been called, or a slice is too short.
pub(super) fn write_single_candidates<const WIDTH: usize>(
    bytes: &[u8],
    min_match: usize,
    candidates: &SingleCandidates,
    out: TokensOut,
) -> TokenCounts {
    #[cfg(target_arch = "x86_64")]
    if let (Some(found), Some(_)) = (candidates.found.as_deref(), Avx512Vbmi2::detected()) {
        // SAFETY: every feature that the function enables has been detected.
        return unsafe { x86::single_candidate::write::<WIDTH>(bytes, min_match, found, out) };
    }
    let _ = (bytes, min_match, out);
    unreachable!("no candidates have been found: {candidates:?}");
}

/// Memory of [`find_short_tokens`], reused from block to block.
#[derive(Debug, Default)]
pub(super) struct ShortTokens {
    #[cfg(target_arch = "x86_64")]
    buffers: Option<Box<x86::last_position::LastPositionBuffers>>,
}

/// Finds the tokens of a block of symbols of one byte, if keys and shortest matches have three symbols, 2 or 4
/// candidates count and few matches are longer. Meanwhile prefetches `next`. Returns `None`, with `out` unspecified, if
/// one of these is not so.
///
/// # Panics
/// A slice is too short, or the block is too long.
pub(super) fn find_short_tokens(
    bytes: &[u8],
    rules: &SearchRules,
    next: &[u8],
    scratch: &mut ShortTokens,
    out: TokensOut,
) -> Option<TokenCounts> {
    #[cfg(target_arch = "x86_64")]
    if (rules.key_symbols, rules.min_match) == (3, 3) && Avx512Vbmi2::detected().is_some() {
        use x86::last_position::{MAX_LONGER, find_tokens};
        let buffers = scratch.buffers.get_or_insert_default();
        // SAFETY: every feature that the functions enable has been detected.
        unsafe {
            return match (rules.window, rules.depth) {
                (64, 2) => find_tokens::<2>(bytes, rules, MAX_LONGER, next, buffers, out),
                (128, 4) => find_tokens::<4>(bytes, rules, MAX_LONGER, next, buffers, out),
                _ => None,
            };
        }
    }
    let _ = (bytes, rules, next, scratch, out);
    None
}
