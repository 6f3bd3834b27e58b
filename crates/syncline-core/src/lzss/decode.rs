//! Tokens of a block back to symbols.

use super::{Params, SymbolWidth};
use crate::arch::copy::copy_symbols;

/// Bytes after a block that its decoder may overwrite, and after literals, lengths and distances that it may load.
pub const SLACK: usize = 32;

/// The fields of one block's tokens. All but `flags` go on behind the block's own: the next blocks', then [`SLACK`] bytes.
#[derive(Clone, Copy, Debug)]
pub struct TokenParts<'a> {
    /// Tokens.
    pub tokens: usize,
    /// Matches among them.
    pub matches: usize,
    /// Flags, 64 a word.
    pub flags: &'a [u64],
    /// Literals.
    pub literals: &'a [u8],
    /// Lengths.
    pub lengths: &'a [u8],
    /// Distances.
    pub distances: &'a [u8],
}

/// Decodes a block to `out[start..end]`. Up to [`SLACK`] bytes behind `end` are overwritten; so blocks are decoded in order.
///
/// # Errors
/// What is wrong with the tokens; what is in `out` is then worthless.
///
/// # Panics
/// `out` has not [`SLACK`] bytes behind `end`, or `end - start` is not whole symbols: mistakes of the caller, whatever the tokens.
pub fn decode_block(
    parts: &TokenParts,
    params: &Params,
    out: &mut [u8],
    start: usize,
    end: usize,
) -> Result<(), &'static str> {
    let out = &mut out[start..end + SLACK];
    let literals = parts.tokens.saturating_sub(parts.matches) * params.width.bytes();
    let matched = (end - start).saturating_sub(literals);
    // Whether a match is longer than those symbols is as good as random where many are: then more are copied without asking.
    let long = matched > 4 * params.width.bytes() * parts.matches;
    match (params.width, long) {
        (SymbolWidth::One, _) => at_distance::<1, 8, 24>(parts, params, out),
        (SymbolWidth::Two, false) => at_distance::<2, 4, 12>(parts, params, out),
        (SymbolWidth::Two, true) => at_distance::<2, 8, 8>(parts, params, out),
        (SymbolWidth::Four, false) => at_distance::<4, 4, 4>(parts, params, out),
        (SymbolWidth::Four, true) => at_distance::<4, 8, 0>(parts, params, out),
        (SymbolWidth::Eight, _) => at_distance::<8, 4, 0>(parts, params, out),
    }
}

#[inline(always)]
fn at_distance<const WIDTH: usize, const FEW: usize, const MORE: usize>(
    parts: &TokenParts,
    params: &Params,
    out: &mut [u8],
) -> Result<(), &'static str> {
    match params.distance_bytes() {
        1 => decode::<WIDTH, FEW, MORE, 1>(parts, params, out),
        _ => decode::<WIDTH, FEW, MORE, 2>(parts, params, out),
    }
}

/// Tokens that are looked at together: if all are literals, they are moved at once.
const LITERAL_RUN: usize = 8;

type Move = [u8; SLACK];

#[inline(always)]
fn load(bytes: &[u8], at: usize) -> Move {
    bytes[at..at + SLACK].try_into().expect("as many bytes")
}

/// Of a match, `FEW` symbols are copied whatever its length, and `MORE` at once if it is longer: together [`SLACK`] bytes.
#[inline(always)]
fn decode<const WIDTH: usize, const FEW: usize, const MORE: usize, const DISTANCE: usize>(
    parts: &TokenParts,
    params: &Params,
    out: &mut [u8],
) -> Result<(), &'static str> {
    let end = out.len() - SLACK;
    let literal_bytes = (parts.tokens.checked_sub(parts.matches)).ok_or("more matches than tokens")? * WIDTH;
    let is_there = parts.flags.len() == parts.tokens.div_ceil(64)
        && parts.literals.len() >= literal_bytes + SLACK
        && parts.lengths.len() >= parts.matches + SLACK
        && parts.distances.len() >= parts.matches * DISTANCE + SLACK;
    let set: usize = parts.flags.iter().map(|word| word.count_ones() as usize).sum();
    // A bit behind the last token would be counted as a match and make the block take more literals than are there.
    let unused = parts.flags.last().map_or(0, |&word| match parts.tokens % 64 {
        0 => 0,
        used => word >> used,
    });
    if !is_there || set != parts.matches || unused != 0 {
        return Err("its LZSS flags and token counts disagree");
    }
    let min_match = usize::from(params.min_match);
    let (mut at, mut literal, mut number) = (0, 0, 0);
    for (i, &flags) in parts.flags.iter().enumerate() {
        let mut word = flags;
        let mut left = (parts.tokens - i * 64).min(64);
        while left > 0 {
            if word & ((1 << LITERAL_RUN) - 1) == 0 && left >= LITERAL_RUN {
                let run = if word == 0 { left } else { LITERAL_RUN };
                let bytes = run * WIDTH;
                if bytes > end - at {
                    return Err("its LZSS literals reach out of their block");
                }
                if run == LITERAL_RUN {
                    // Its length is known here: no call.
                    let new = &parts.literals[literal..literal + LITERAL_RUN * WIDTH];
                    out[at..at + LITERAL_RUN * WIDTH].copy_from_slice(new);
                } else {
                    out[at..at + bytes].copy_from_slice(&parts.literals[literal..literal + bytes]);
                }
                (at, literal, left) = (at + bytes, literal + bytes, left - run);
                word = word.unbounded_shr(run as u32);
                continue;
            }
            left -= 1;
            // Whether a token is a match is as good as random: a jump on it would be mispredicted every few tokens. Both are loaded, one is taken.
            let is_match = (word & 1) as usize;
            word >>= 1;
            let mask = is_match.wrapping_neg();
            let distance = (distance::<DISTANCE>(parts.distances, number) * WIDTH) & mask;
            let length = (((usize::from(parts.lengths[number]) + min_match) * WIDTH) & mask) | (WIDTH & !mask);
            if distance > at || length > end - at || (distance == 0 && is_match == 1) {
                return Err("an LZSS match reaches out of its block");
            }
            let from = at - distance;
            // Symbol by symbol: a wider load would span several of the last stores and wait until these have reached the cache. It also makes
            // matches right that overlap themselves. Of what is behind the token's end the next token decides.
            let new = symbol::<WIDTH>(parts.literals, literal);
            copy_symbols::<WIDTH, FEW>(out, from, at, mask as u64, new);
            if length > FEW * WIDTH {
                copy_on::<WIDTH, FEW, MORE>(out, from, at, length);
            }
            at += length;
            number += is_match;
            literal += WIDTH & !mask;
        }
    }
    if at == end { Ok(()) } else { Err("its LZSS tokens end before their block") }
}

#[inline(always)]
fn distance<const DISTANCE: usize>(distances: &[u8], number: usize) -> usize {
    match DISTANCE {
        1 => distances[number].into(),
        _ => {
            let bytes: [u8; 2] = distances[2 * number..2 * number + 2].try_into().expect("2 bytes");
            u16::from_le_bytes(bytes).into()
        }
    }
}

#[inline(always)]
fn symbol<const WIDTH: usize>(bytes: &[u8], at: usize) -> u64 {
    let bytes = &bytes[at..at + WIDTH];
    match WIDTH {
        1 => bytes[0].into(),
        2 => u16::from_ne_bytes(bytes.try_into().expect("2 bytes")).into(),
        4 => u32::from_ne_bytes(bytes.try_into().expect("4 bytes")).into(),
        _ => u64::from_ne_bytes(bytes.try_into().expect("8 bytes")),
    }
}

/// The rest of a match after its first `FEW` symbols.
#[inline(always)]
fn copy_on<const WIDTH: usize, const FEW: usize, const MORE: usize>(
    out: &mut [u8],
    from: usize,
    to: usize,
    length: usize,
) {
    if MORE > 0 {
        copy_symbols::<WIDTH, MORE>(out, from + FEW * WIDTH, to + FEW * WIDTH, u64::MAX, 0);
    }
    let mut done = SLACK;
    if length <= done {
        return;
    }
    // What is there repeats every `distance` bytes, so it also does every multiple: one that a move does not overlap.
    let distance = (to - from) * SLACK.div_ceil(to - from);
    while done < length {
        let bytes = load(out, to + done - distance);
        out[to + done..to + done + SLACK].copy_from_slice(&bytes);
        done += SLACK;
    }
}
