//! Tokens of a block back to symbols.

use super::{Params, SymbolWidth};

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
    match (params.width, params.distance_bytes()) {
        (SymbolWidth::One, 1) => decode::<1, 1>(parts, params, out),
        (SymbolWidth::Two, 1) => decode::<2, 1>(parts, params, out),
        (SymbolWidth::Four, 1) => decode::<4, 1>(parts, params, out),
        (SymbolWidth::Eight, 1) => decode::<8, 1>(parts, params, out),
        (SymbolWidth::One, _) => decode::<1, 2>(parts, params, out),
        (SymbolWidth::Two, _) => decode::<2, 2>(parts, params, out),
        (SymbolWidth::Four, _) => decode::<4, 2>(parts, params, out),
        (SymbolWidth::Eight, _) => decode::<8, 2>(parts, params, out),
    }
}

/// Bytes of literals that are moved at once.
const LITERAL_RUN: usize = 32;

type Move = [u8; SLACK];

#[inline(always)]
fn load(bytes: &[u8], at: usize) -> Move {
    bytes[at..at + SLACK].try_into().expect("as many bytes")
}

#[inline(always)]
fn decode<const WIDTH: usize, const DISTANCE: usize>(
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
            let run = LITERAL_RUN / WIDTH;
            if word & ((1 << run) - 1) == 0 && left >= run {
                if at + LITERAL_RUN > end {
                    return Err("its LZSS literals reach out of their block");
                }
                let new = load(parts.literals, literal);
                out[at..at + SLACK].copy_from_slice(&new);
                (at, literal) = (at + LITERAL_RUN, literal + LITERAL_RUN);
                (word, left) = (word >> run, left - run);
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
            if distance < length.min(SLACK) && is_match == 1 {
                repeat(out, from, at, length);
                (at, number) = (at + length, number + 1);
                continue;
            }
            let old = load(out, from);
            let mut new = load(parts.literals, literal);
            let keep = mask as u8;
            for (new, old) in new.iter_mut().zip(old) {
                *new = *new & !keep | old & keep;
            }
            out[at..at + SLACK].copy_from_slice(&new);
            if length > SLACK {
                copy_on(out, from, at, length);
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

/// A match that overlaps itself within a move: what is there already is copied in growing pieces.
#[inline(never)]
fn repeat(out: &mut [u8], from: usize, to: usize, length: usize) {
    let mut done = 0;
    while done < length {
        let piece = (to + done - from).min(length - done);
        out.copy_within(from..from + piece, to + done);
        done += piece;
    }
}

/// The rest of a match of more than [`SLACK`] bytes.
#[inline(always)]
fn copy_on(out: &mut [u8], from: usize, to: usize, length: usize) {
    let mut done = SLACK;
    while done < length {
        let bytes = load(out, from + done);
        out[to + done..to + done + SLACK].copy_from_slice(&bytes);
        done += SLACK;
    }
}
