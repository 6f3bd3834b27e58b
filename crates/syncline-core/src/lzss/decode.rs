//! Decodes the tokens of one block to symbols.
//!
//! Levels 1 to 4, whose distances have one byte, are decoded by [`short_window`]; levels 5 to 9, whose distances have
//! two bytes, by [`long_window`].

mod expand_matches;
mod long_window;
mod short_window;
mod token_parts;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::ops::Range;

use super::Params;
use crate::mem::prefetch::PrefetchTargets;
use crate::mem::uninit::{UninitBytes, Written};

pub use self::token_parts::{SLACK, TokenParts};

/// Decodes a block to `out[start..end]`. Overwrites up to [`SLACK`] bytes after `end`, so blocks must be decoded in
/// order.
///
/// # Errors
/// The tokens are invalid. The contents of `out` are then unspecified.
///
/// # Panics
/// `out` has fewer than [`SLACK`] bytes after `end`, or `end - start` is longer than a block or not a multiple of the
/// symbol width.
pub fn decode_block(
    parts: &TokenParts,
    params: &Params,
    out: &mut [u8],
    start: usize,
    end: usize,
) -> Result<(), &'static str> {
    decode_block_with_prefetch(parts, params, out, start..end, PrefetchTargets::default())
}

/// Decodes a block as [`decode_block`] does, and meanwhile prefetches as many bytes as the block has from the targets
/// of `prefetch`.
///
/// # Errors
/// As [`decode_block`].
///
/// # Panics
/// As [`decode_block`].
pub(crate) fn decode_block_with_prefetch(
    parts: &TokenParts,
    params: &Params,
    out: &mut [u8],
    range: Range<usize>,
    prefetch: PrefetchTargets,
) -> Result<(), &'static str> {
    let Range { start, end } = range;
    assert!(end - start <= params.block_bytes() && (end - start).is_multiple_of(params.width.bytes()));
    let out = &mut out[start..end + SLACK];
    if params.distance_bytes() == 1 {
        return decode_short_window_block(parts, params, out.into(), prefetch).map(|_| ());
    }
    parts.check(params)?;
    long_window::decode(parts, params, out)
}

/// Decodes a block of levels 1 to 4 to `out` without its last [`SLACK`] bytes, which may be overwritten.
///
/// # Errors
/// As [`decode_block`].
///
/// # Panics
/// `out` has fewer than [`SLACK`] bytes, and without these is longer than a block or not a multiple of the symbol
/// width.
pub(crate) fn decode_short_window_block<'m>(
    parts: &TokenParts,
    params: &Params,
    out: UninitBytes<'m>,
    prefetch: PrefetchTargets,
) -> Result<Written<'m>, &'static str> {
    let bytes = out.len() - SLACK;
    assert!(params.distance_bytes() == 1 && bytes <= params.block_bytes());
    assert!(bytes.is_multiple_of(params.width.bytes()));
    parts.check(params)?;
    short_window::decode(parts, (params.width, params.min_match.into()), out, bytes / params.width.bytes(), prefetch)
}
