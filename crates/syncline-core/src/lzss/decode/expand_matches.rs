//! The two steps that decode a block of levels 1 to 4, in portable Rust, and what they share with the AVX-512 version.
//!
//! The first step expands the distances of matches to one distance for each symbol; 0 marks a literal. The second step
//! resolves each symbol to its literal or to a copy of an earlier symbol.

#![allow(unsafe_code, reason = "output memory that need not be initialized")]

use std::mem::MaybeUninit;

use super::token_parts::SLACK;
use crate::mem::uninit::{UninitBytes, Written};

/// Bytes of a vector.
pub(super) const VECTOR: usize = 64;
/// Entries after those of a block's symbols that may be written.
pub(super) const EXPAND_ROOM: usize = 64 * SHORT + SLACK;

/// Maximum number of symbols of a match that any loop over several tokens supports.
pub(super) const SHORT: usize = 7;
/// Symbols of a match whose distances come from [`ROWS`].
pub(super) const ROW: usize = 32;

/// For each distance, the distances of the first symbols of a match: multiples that lead to symbols before the match,
/// so that no symbol of it waits for another one.
pub(super) static ROWS: [[u8; ROW]; 256] = {
    let mut rows = [[0; ROW]; 256];
    let mut distance = 1;
    while distance < 256 {
        let mut i = 0;
        while i < ROW {
            rows[distance][i] = (distance * (i / distance + 1)) as u8;
            i += 1;
        }
        distance += 1;
    }
    rows
};

/// Writes the distances of the symbols of one match.
#[inline(always)]
fn expand_match(entries: &mut [u8], distance: u8) {
    let row = &ROWS[usize::from(distance)];
    let first = entries.len().min(ROW);
    entries[..first].copy_from_slice(&row[..first]);
    entries[first..].fill(distance_after_row(distance));
}

/// Returns the distance of a match's symbols after the first [`ROW`]: any multiple that is at least [`ROW`].
#[inline(always)]
pub(super) fn distance_after_row(distance: u8) -> u8 {
    if usize::from(distance) < ROW { ROWS[usize::from(distance)][ROW - 1] } else { distance }
}

/// The tokens of a block without the literals.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockTokens<'a> {
    /// One bit for each token, 64 in a word; set for a match.
    pub flags: &'a [u64],
    /// Number of tokens.
    pub tokens: usize,
    /// Length of each match minus `min_match`, and at least [`SLACK`] more bytes.
    pub lengths: &'a [u8],
    /// Distance of each match, none of them 0, and at least [`SLACK`] more bytes.
    pub distances: &'a [u8],
    /// Symbols of the shortest match, at least 1.
    pub min_match: usize,
}

impl<'a> BlockTokens<'a> {
    /// Returns the tokens of one word of flags, which `matched` matches precede.
    #[inline(always)]
    fn word(&self, number: usize, matched: usize) -> TokenWord<'a> {
        TokenWord {
            flags: self.flags[number],
            tokens: (self.tokens - number * 64).min(64),
            lengths: &self.lengths[matched..],
            distances: &self.distances[matched..],
        }
    }
}

/// Up to 64 tokens, with the fields of [`BlockTokens`].
#[derive(Clone, Copy, Debug)]
struct TokenWord<'a> {
    flags: u64,
    tokens: usize,
    lengths: &'a [u8],
    distances: &'a [u8],
}

/// Which ranges the distances of a block's matches fall into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DistanceRange {
    /// Whether any distance is less than `CLOSE`.
    pub has_close: bool,
    /// Whether any distance is greater than `WINDOW`.
    pub has_far: bool,
}

/// With distances of at least this, 64 symbols contain chains of at most 16 symbols that copy from each other.
const CLOSE: u8 = 4;
/// Greatest distance of levels 1 to 3.
const WINDOW: u8 = 128;

impl DistanceRange {
    /// Returns the ranges of these distances, or `None` if one of them is 0.
    #[inline(always)]
    pub(super) fn new(distances: &[u8]) -> Option<Self> {
        let (mut low, mut high) = ([u8::MAX; VECTOR], [0; VECTOR]);
        let mut update = |lane: usize, distance: u8| {
            low[lane] = low[lane].min(distance);
            high[lane] = high[lane].max(distance);
        };
        let (vectors, rest) = distances.as_chunks::<VECTOR>();
        vectors.iter().for_each(|vector| (0..VECTOR).for_each(|lane| update(lane, vector[lane])));
        rest.iter().enumerate().for_each(|(lane, &distance)| update(lane, distance));
        // A minimum over the lanes would be a chain of as many dependent comparisons.
        let any = |lanes: &[u8; VECTOR], is: fn(u8) -> bool| lanes.iter().fold(false, |any, &lane| any | is(lane));
        let range = Self { has_close: any(&low, |low| low < CLOSE), has_far: any(&high, |high| high > WINDOW) };
        (!any(&low, |low| low == 0)).then_some(range)
    }
}

/// Bytes that start at a cache line, so that few vectors span two lines.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Aligned<const COUNT: usize>(pub [u8; COUNT]);

/// Returns whether every distance leads to a symbol of the block.
#[inline(always)]
pub(super) fn are_inside(distances: &[u8]) -> bool {
    // No distance exceeds 255, so later symbols need no check.
    distances.iter().take(255).zip(0u8..).fold(true, |inside, (&distance, at)| inside & (distance <= at))
}

/// Writes the distance of each symbol, 0 for a literal, to `entries`, which has [`EXPAND_ROOM`] more entries than
/// `symbols`. Returns the number of symbols, or `None` if there are more than `symbols`.
///
/// # Panics
/// There are fewer lengths or distances than set flags.
#[inline(always)]
pub(super) fn expand_distances(entries: &mut [u8], symbols: usize, block: &BlockTokens) -> Option<usize> {
    let (mut at, mut matched) = (0, 0);
    for (number, flags) in block.flags.iter().enumerate() {
        at = expand_word(entries, at, symbols, block.word(number, matched), block.min_match)?;
        matched += flags.count_ones() as usize;
    }
    Some(at)
}

/// Writes the distances of one word's tokens to `entries[at..]`. Returns where those of the next word begin.
#[inline(always)]
fn expand_word(entries: &mut [u8], at: usize, symbols: usize, word: TokenWord, min_match: usize) -> Option<usize> {
    let (mut flags, mut at, mut done) = (word.flags, at, 0);
    for (&length, &distance) in word.lengths.iter().zip(word.distances).take(flags.count_ones() as usize) {
        let literals = flags.trailing_zeros() as usize - done;
        flags &= flags - 1;
        done += literals + 1;
        let first = at + literals;
        if first > symbols {
            return None;
        }
        entries[at..first].fill(0);
        at = first + usize::from(length) + min_match;
        if at > symbols {
            return None;
        }
        expand_match(&mut entries[first..at], distance);
    }
    let end = at + word.tokens - done;
    entries.get_mut(at..end).filter(|_| end <= symbols)?.fill(0);
    Some(end)
}

/// Writes the first `symbols` symbols of `WIDTH` (1, 2, 4 or 8) bytes from their distances and the literals.
///
/// # Panics
/// A slice is too short, or a distance leads out of the block.
#[inline(always)]
pub(super) fn resolve_copies<'m, const WIDTH: usize>(
    mut out: UninitBytes<'m>,
    symbols: usize,
    distances: &[u8],
    literals: &[u8],
) -> Written<'m> {
    // SAFETY: the loop writes only literals and symbols that it has written before, all of them initialized.
    let symbols_out = &mut unsafe { out.as_mut_slice() }.as_chunks_mut::<WIDTH>().0[..symbols];
    let distances = &distances[..symbols];
    assert!(are_inside(distances));
    let literals = literals.as_chunks::<WIDTH>().0;
    let mut literal = 0;
    for (at, &distance) in distances.iter().enumerate() {
        symbols_out[at] = match distance {
            // Only bytes of a caller that changes them meanwhile have fewer literals than distances of 0.
            0 => literals[literal.min(literals.len() - 1)].map(MaybeUninit::new),
            _ => symbols_out[at - usize::from(distance)],
        };
        literal += usize::from(distance == 0);
    }
    // SAFETY: the loop has written every symbol.
    unsafe { out.assume_written(symbols * WIDTH) }
}
