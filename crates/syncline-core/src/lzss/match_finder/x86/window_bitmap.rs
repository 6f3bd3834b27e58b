//! Finds the tokens of a block by bitmaps, a piece of 256 positions at a time: keys, bitmaps, matches, tokens.
//!
//! Candidates are found and compared for many positions at once, before it is known where tokens start. A token then
//! only waits for the length of the previous one.

use std::ops::Range;

use super::super::block_tokens::{MAX_BYTES, SearchRules, TokenCounts, TokensOut, WRITE_SLACK};
use super::bitmaps::{AHEAD, Bitmaps, KEY_BYTES, PIECE, compare_keys, find_matches, mark_possible, reverse_keys};
use super::symbol_keys::{KeyKind, write_keys};
use super::vectors::common_bytes;
use super::write_tokens::{Written, write_tokens};
use crate::lzss::{ENOUGH, LENGTH_SPAN};

/// Bytes of the longest window of keys and of the keys after it.
const KEY_ROOM: usize = 256 + 64;

/// Fewest and most symbols beyond the shortest match that are compared before it is known where tokens start.
const FEWEST: usize = 2;
const MOST: usize = 16;

/// Memory that is reused from block to block.
#[derive(Debug)]
pub(in super::super) struct WindowBitmapBuffers {
    /// Keys of the symbols, one or two bytes each.
    keys: [u8; KEY_BYTES + KEY_ROOM],
    /// The keys in reverse order; the first key ends the first [`KEY_BYTES`] bytes.
    reversed: [u8; KEY_BYTES + KEY_ROOM],
    /// The keys of some positions, each repeated to fill 32 bits.
    repeated: [u32; PIECE + AHEAD],
    bitmaps: Bitmaps,
}

impl Default for WindowBitmapBuffers {
    fn default() -> Self {
        let none = [0; PIECE + AHEAD];
        Self {
            keys: [0; KEY_BYTES + KEY_ROOM],
            reversed: [0; KEY_BYTES + KEY_ROOM],
            repeated: [0; PIECE + AHEAD],
            bitmaps: Bitmaps {
                near: none,
                far: none,
                possible: [0; PIECE / 8],
                steps: [0; PIECE],
                distances: [0; PIECE],
            },
        }
    }
}

/// Implements [`find_tokens`](super::super::window_bitmap::find_tokens).
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
pub(in super::super) fn find_tokens<const WIDTH: usize>(
    bytes: &[u8],
    symbols: usize,
    rules: &SearchRules,
    buffers: &mut WindowBitmapBuffers,
    mut out: TokensOut,
) -> Option<TokenCounts> {
    let SearchRules { window, depth, key_symbols, min_match, max_match } = *rules;
    assert!(matches!(WIDTH, 1 | 2 | 4 | 8) && symbols * WIDTH <= MAX_BYTES);
    assert!(bytes.len() >= symbols * WIDTH + WRITE_SLACK && out.flags.len() >= symbols.div_ceil(64));
    assert!(matches!((window, depth), (32, 1) | (64, 2) | (128, 4)));
    assert!((1..=8).contains(&key_symbols) && (key_symbols..=16).contains(&min_match));
    assert!((ENOUGH..=min_match + LENGTH_SPAN).contains(&max_match));
    let keys = write_keys::<WIDTH>(&bytes[..symbols * WIDTH], &mut buffers.keys);
    let key_bytes = if keys == KeyKind::Narrow { 1 } else { 2 };
    let WindowBitmapBuffers { keys: symbol_keys, reversed, repeated, bitmaps } = buffers;
    match key_bytes {
        1 => reverse_keys::<1>(symbol_keys, symbols, reversed),
        _ => reverse_keys::<2>(symbol_keys, symbols, reversed),
    }
    // For longer matches most positions are literals, which a few instructions recognize: the candidates would have to
    // agree in `2^doublings` symbols.
    let doublings = if min_match < 4 { 0 } else { min_match.ilog2() };
    let sparse = doublings > 0 || keys == KeyKind::Hashes;
    let least = (min_match - key_symbols).max(FEWEST);
    // Adapted from piece to piece.
    let mut most = least.max(MOST / 2);
    let mut written = Written::default();
    // Positions that have bitmaps.
    let (mut from, mut until) = (0, 0);
    while from < symbols {
        let keys_of = (symbol_keys.as_slice(), reversed.as_slice(), &mut *repeated);
        let made = make_bitmaps(from, &mut until, symbols, (key_bytes, window), keys_of, bitmaps);
        if keys == KeyKind::Hashes && !verify::<WIDTH>(bytes, from, made, bitmaps) {
            return None;
        }
        let count = PIECE.min(symbols - from);
        let mut starts = [0u64; PIECE / 64];
        match window {
            _ if !sparse => bitmaps.possible.fill(0xff),
            128 => mark_possible::<true>(bitmaps, count, doublings),
            _ => mark_possible::<false>(bitmaps, count, doublings),
        }
        match window {
            32 => find_matches::<false, 1>(bitmaps, count, rules, most),
            64 => find_matches::<false, 2>(bitmaps, count, rules, most),
            _ => find_matches::<true, 4>(bitmaps, count, rules, most),
        }
        let (at, slow) = match sparse {
            false => mark_starts::<WIDTH, false>(bytes, symbols, from, count, rules, bitmaps, &mut starts),
            true => mark_starts::<WIDTH, true>(bytes, symbols, from, count, rules, bitmaps, &mut starts),
        };
        if slow * 32 > count {
            most = (most + 2).min(least.max(MOST));
        } else if slow < 2 {
            most = (most - 1).max(least);
        }
        for (i, &starts) in starts.iter().enumerate() {
            if starts != 0 {
                let (steps, distances) = (&bitmaps.steps[i * 64..], &bitmaps.distances[i * 64..]);
                let bytes = &bytes[(from + i * 64) * WIDTH..];
                let Written { matches, literals, .. } = written;
                let written_before = (matches, literals);
                let flags = write_tokens::<WIDTH>(starts, steps, distances, min_match, bytes, &mut out, written_before);
                written.add::<WIDTH>(flags, starts.count_ones(), out.flags);
            }
        }
        from += at;
    }
    Some(written.finish(out.flags))
}

/// Goes from token to token and marks where they start. Returns the position after the last token, and the number of
/// matches that had to be measured one by one.
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
fn mark_starts<const WIDTH: usize, const SPARSE: bool>(
    bytes: &[u8],
    symbols: usize,
    from: usize,
    count: usize,
    rules: &SearchRules,
    bitmaps: &mut Bitmaps,
    starts: &mut [u64; PIECE / 64],
) -> (usize, usize) {
    let mut at = 0;
    let mut slow = 0;
    for (word, starts) in starts.iter_mut().enumerate() {
        let end = count.min((word + 1) * 64);
        let possible: [u8; 8] = bitmaps.possible[word * 8..word * 8 + 8].try_into().expect("as many");
        let possible = u64::from_le_bytes(possible);
        let mut here = 0u64;
        while at < end {
            if SPARSE {
                // Literals up to the next position that may start a match.
                let next = possible >> (at % 64) << (at % 64);
                let until = (word * 64 + next.trailing_zeros() as usize).min(end);
                here |= u64::MAX << (at % 64) & !(u64::MAX.checked_shl((until - word * 64) as u32).unwrap_or(0));
                at = until;
                if at == end {
                    break;
                }
            }
            here |= 1 << (at % 64);
            let mut step = usize::from(bitmaps.steps[at % PIECE]);
            if step == 0 {
                slow += 1;
                step = 1;
                let (length, distance) = longest::<WIDTH>(bytes, symbols, from, at, rules, bitmaps);
                if length >= rules.min_match {
                    // The length modulo 256 is enough, because the stored length is also modulo 256.
                    bitmaps.steps[at] = length as u8;
                    bitmaps.distances[at] = distance as u8;
                    step = length;
                }
            }
            at += step;
        }
        *starts = here;
    }
    (at, slow)
}

/// Returns the length and distance of the match at position `at` of the piece.
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
fn longest<const WIDTH: usize>(
    bytes: &[u8],
    symbols: usize,
    from: usize,
    at: usize,
    rules: &SearchRules,
    bitmaps: &Bitmaps,
) -> (usize, usize) {
    let is_far = rules.window > 64;
    let bitmap = |i: usize| u128::from(bitmaps.near[i]) | if is_far { u128::from(bitmaps.far[i]) << 64 } else { 0 };
    let mut found = (1..rules.key_symbols).fold(bitmap(at), |found, i| found & bitmap(at + i));
    let rest = (0..rules.depth).fold(found, |rest, _| rest & rest.wrapping_sub(1));
    found ^= rest;
    if found == 0 {
        return (0, 0);
    }
    let mut length = rules.key_symbols;
    while length < ENOUGH {
        let next = found & bitmap(at + length);
        if next == 0 {
            break;
        }
        found = next;
        length += 1;
    }
    let distance = found.trailing_zeros() as usize + 1;
    if length == ENOUGH {
        let (there, here) = (from + at + length - distance, from + at + length);
        let room = (symbols - from - at).min(rules.max_match) - length;
        length += common_bytes(bytes, there * WIDTH, here * WIDTH, room * WIDTH) / WIDTH;
    }
    (length, distance)
}

/// Computes the bitmaps of the piece at `from` and of the positions after it that it needs. Those before `until` are
/// already there and only move. Returns the range of new bitmaps, relative to the piece.
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
fn make_bitmaps(
    from: usize,
    until: &mut usize,
    symbols: usize,
    (key_bytes, window): (usize, usize),
    (keys, reversed, repeated): (&[u8], &[u8], &mut [u32; PIECE + AHEAD]),
    bitmaps: &mut Bitmaps,
) -> Range<usize> {
    let there = until.saturating_sub(from);
    for bitmaps in [&mut bitmaps.near, &mut bitmaps.far] {
        // They are at the end of the array.
        bitmaps.copy_within(PIECE + AHEAD - there.., 0);
    }
    let (first, end) = ((from + there).min(symbols), from + PIECE + AHEAD);
    let count = end.min(symbols) - first;
    let repeated = &mut repeated[..count];
    if key_bytes == 1 {
        for (repeated, &key) in repeated.iter_mut().zip(&keys[first..]) {
            *repeated = u32::from(key) * 0x0101_0101;
        }
    } else {
        for (repeated, key) in repeated.iter_mut().zip(keys[first * 2..].as_chunks().0) {
            *repeated = u32::from(u16::from_le_bytes(*key)) * 0x0001_0001;
        }
    }
    let (near, far) = (&mut bitmaps.near[there..], &mut bitmaps.far[there..]);
    match (key_bytes, window) {
        (1, 32) => compare_keys::<1, 1>(reversed, first, repeated, near, far),
        (1, 64) => compare_keys::<1, 2>(reversed, first, repeated, near, far),
        (1, _) => compare_keys::<1, 4>(reversed, first, repeated, near, far),
        (_, 32) => compare_keys::<2, 1>(reversed, first, repeated, near, far),
        (_, 64) => compare_keys::<2, 2>(reversed, first, repeated, near, far),
        _ => compare_keys::<2, 4>(reversed, first, repeated, near, far),
    }
    // No symbol before or after the block is equal.
    for (i, (near, far)) in near.iter_mut().zip(&mut *far).enumerate().take(128usize.saturating_sub(first)) {
        let inside = (1u128 << (first + i)) - 1;
        *near &= inside as u64;
        *far &= (inside >> 64) as u64;
    }
    near[count..].fill(0);
    far[count..].fill(0);
    *until = end;
    there..there + count
}

/// Clears the bits of symbols that differ although their hashes are equal. Returns whether there were few set bits, so
/// that this was worth it.
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
fn verify<const WIDTH: usize>(bytes: &[u8], from: usize, made: Range<usize>, bitmaps: &mut Bitmaps) -> bool {
    let symbols = bytes.as_chunks::<WIDTH>().0;
    let most = made.len() / 2 + 16;
    let mut hits = 0;
    for i in made {
        for (bitmap, nearer) in [(&mut bitmaps.near[i], 1), (&mut bitmaps.far[i], 65)] {
            let mut left = *bitmap;
            while left != 0 {
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                hits += 1;
                if symbols[from + i] != symbols[from + i - nearer - bit] {
                    *bitmap ^= 1 << bit;
                }
            }
        }
    }
    hits <= most
}
