//! Tokens of a block back to symbols, here those with distances of two bytes (levels 5 to 9); the others in
//! `near_decode.rs`.
//!
//! In two passes over a few hundred symbols at a time. The first goes from match to match: it copies the literals
//! before each to their places and notes, for every symbol, where it comes from; how long a match is decides about no
//! jump up to [`LANES`] symbols. The second copies symbol by symbol: wider loads would span several of the last stores
//! and wait until these have reached the cache.

use std::ops::Range;

use super::{Params, SymbolWidth, near_decode};
use crate::arch::spread::SPREAD_SLACK;
use crate::bits::dispatch::{self, Kernel};
use crate::mem::copy::copy_from_sources;
use crate::mem::prefetch::PrefetchTargets;
use crate::mem::uninit::{UninitBytes, Written};

/// Bytes after a block that its decoder may overwrite, and after literals, lengths and distances that it may load.
pub const SLACK: usize = SPREAD_SLACK;

pub(super) const OUTSIDE: &str = "an LZSS match or literal reaches out of its block";
pub(super) const TOO_EARLY: &str = "its LZSS tokens end before their block";

/// The fields of one block's tokens. All but `flags` go on behind the block's own: the next blocks', then [`SLACK`]
/// bytes.
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

/// Decodes a block to `out[start..end]`. Up to [`SLACK`] bytes behind `end` are overwritten; so blocks are decoded in
/// order.
///
/// # Errors
/// What is wrong with the tokens; what is in `out` is then worthless.
///
/// # Panics
/// `out` has not [`SLACK`] bytes behind `end`, or `end - start` is more than a block or not whole symbols: mistakes of
/// the caller, whatever the tokens.
pub fn decode_block(
    parts: &TokenParts,
    params: &Params,
    out: &mut [u8],
    start: usize,
    end: usize,
) -> Result<(), &'static str> {
    decode_block_ahead(parts, params, out, start..end, PrefetchTargets::default())
}

/// As [`decode_block`], asking meanwhile for as much of the memory that comes next as the block is long.
///
/// # Errors
/// As [`decode_block`].
///
/// # Panics
/// As [`decode_block`].
pub(crate) fn decode_block_ahead(
    parts: &TokenParts,
    params: &Params,
    out: &mut [u8],
    place: Range<usize>,
    ahead: PrefetchTargets,
) -> Result<(), &'static str> {
    let Range { start, end } = place;
    assert!(end - start <= params.block_bytes() && (end - start).is_multiple_of(params.width.bytes()));
    let out = &mut out[start..end + SLACK];
    if params.distance_bytes() == 1 {
        return decode_near_block(parts, params, out.into(), ahead).map(|_| ());
    }
    check_counts(parts, params)?;
    dispatch::run(Decode { parts, params, out })
}

/// Decodes a block of levels 1 to 4 to `out` less its last [`SLACK`] bytes, which may be overwritten.
///
/// # Errors
/// As [`decode_block`].
///
/// # Panics
/// `out` has not so many bytes, or not whole symbols, or more than a block.
pub(crate) fn decode_near_block<'m>(
    parts: &TokenParts,
    params: &Params,
    out: UninitBytes<'m>,
    ahead: PrefetchTargets,
) -> Result<Written<'m>, &'static str> {
    let bytes = out.len() - SLACK;
    assert!(params.distance_bytes() == 1 && bytes <= params.block_bytes());
    assert!(bytes.is_multiple_of(params.width.bytes()));
    check_counts(parts, params)?;
    near_decode::decode(parts, (params.width, params.min_match.into()), out, bytes / params.width.bytes(), ahead)
}

struct Decode<'a> {
    parts: &'a TokenParts<'a>,
    params: &'a Params,
    out: &'a mut [u8],
}

impl Kernel for Decode<'_> {
    type Output = Result<(), &'static str>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        match self.params.width {
            SymbolWidth::One => self.where_literals::<1, 16>(),
            SymbolWidth::Two => self.where_literals::<2, 16>(),
            SymbolWidth::Four => self.where_literals::<4, 8>(),
            SymbolWidth::Eight => self.where_literals::<8, 4>(),
        }
    }
}

/// Symbols of a match whose sources are noted at once.
const LANES: usize = 16;
/// Symbols after which the second pass follows.
const BATCH: usize = 512;
/// Sources noted between two passes, at most: [`BATCH`], a match, literals. A power of two, for a mask instead of a
/// jump.
const NOTES: usize = 1024;

/// What to add to the start of a match for the source of its first symbols, by distance: if that is short, symbols come
/// from what stands before the match, not from one another, which would make each wait for the one before.
const PERIODS: [[u16; LANES]; LANES + 1] = {
    let mut periods = [[0; LANES]; LANES + 1];
    let mut distance = 1;
    while distance <= LANES {
        let mut i = 0;
        while i < LANES {
            periods[distance][i] = (i % distance) as u16;
            i += 1;
        }
        distance += 1;
    }
    periods
};

/// Notes that symbols come from `from` and the places that follow by these offsets.
#[inline(always)]
fn note(notes: &mut [u16; NOTES + LANES], number: usize, from: usize, offsets: &[u16; LANES]) {
    let start = number % NOTES;
    let notes: &mut [u16; LANES] = (&mut notes[start..start + LANES]).try_into().expect("as many lanes");
    for (note, offset) in notes.iter_mut().zip(offsets) {
        *note = (from as u16).wrapping_add(*offset);
    }
}

impl Decode<'_> {
    #[inline(always)]
    fn where_literals<const WIDTH: usize, const RUN: usize>(self) -> Result<(), &'static str> {
        match 8 * (self.parts.tokens - self.parts.matches) < self.parts.tokens {
            false => self.decode::<WIDTH, RUN, false>(),
            true => self.decode::<WIDTH, RUN, true>(),
        }
    }

    /// `RUN` literals, at most 32 bytes, are copied at once; where there are `FEW`, only if there are any.
    #[inline(always)]
    fn decode<const WIDTH: usize, const RUN: usize, const FEW: bool>(self) -> Result<(), &'static str> {
        let Self { parts, params, out } = self;
        let end = (out.len() - SLACK) / WIDTH;
        let min_match = usize::from(params.min_match);
        let mut notes = [0; NOTES + LANES];
        // Symbols that are there, those of them that the second pass has done, literals' bytes and matches that are
        // used up.
        let (mut at, mut first, mut literal, mut number) = (0, 0, 0, 0);
        for (i, &flags) in parts.flags.iter().enumerate() {
            let tokens = (parts.tokens - i * 64).min(64);
            let matches = flags.count_ones() as usize;
            let mut literals = &parts.literals[literal..];
            literal += (tokens - matches) * WIDTH;
            let lengths = &parts.lengths[number..number + matches];
            let distances = &parts.distances[number * 2..(number + matches) * 2];
            number += matches;
            let mut word = flags;
            // Tokens of the word that are done.
            let mut done = 0;
            for (&length, distance) in lengths.iter().zip(distances.as_chunks().0) {
                let position = word.trailing_zeros() as usize;
                word &= word.wrapping_sub(1);
                let mut run = position - done;
                done = position + 1;
                if run > RUN {
                    copy_from_sources::<WIDTH>(out, first, &notes[..(at - first).min(NOTES)]);
                    literals = whole_run::<WIDTH>(literals, out, at, run, end).ok_or(OUTSIDE)?;
                    (at, run) = (at + run, 0);
                    first = at;
                }
                if !FEW || run > 0 {
                    let (from, to) = (&literals[..RUN * WIDTH], at * WIDTH);
                    out[to..to + RUN * WIDTH].copy_from_slice(from);
                    // Of what is behind them the next token decides. They come from where they are now.
                    note(&mut notes, at - first, at, &PERIODS[LANES]);
                    at += run;
                    literals = &literals[run * WIDTH..];
                }

                let distance = usize::from(u16::from_le_bytes(*distance));
                let length = usize::from(length) + min_match;
                // A distance of 0 becomes too long a one.
                if distance.wrapping_sub(1) >= at || at + length > end {
                    return Err(OUTSIDE);
                }
                let from = at - distance;
                if length > LANES {
                    copy_from_sources::<WIDTH>(out, first, &notes[..(at - first).min(NOTES)]);
                    copy_long(out, from * WIDTH, at * WIDTH, length * WIDTH);
                    at += length;
                    first = at;
                    continue;
                }
                note(&mut notes, at - first, from, &PERIODS[distance.min(LANES)]);
                at += length;
                if at - first > BATCH {
                    copy_from_sources::<WIDTH>(out, first, &notes[..(at - first).min(NOTES)]);
                    first = at;
                }
            }
            let rest = tokens - done;
            if rest > 0 {
                copy_from_sources::<WIDTH>(out, first, &notes[..(at - first).min(NOTES)]);
                whole_run::<WIDTH>(literals, out, at, rest, end).ok_or(OUTSIDE)?;
                at += rest;
                first = at;
            }
        }
        copy_from_sources::<WIDTH>(out, first, &notes[..(at - first).min(NOTES)]);
        if at == end { Ok(()) } else { Err(TOO_EARLY) }
    }
}

/// Copies `run` literals to symbol `at` and on; what is behind them, or nothing if they reach behind the end.
#[inline(always)]
fn whole_run<'l, const WIDTH: usize>(
    literals: &'l [u8],
    out: &mut [u8],
    at: usize,
    run: usize,
    end: usize,
) -> Option<&'l [u8]> {
    let (run, rest) = literals.split_at(run * WIDTH);
    (run.len() <= (end - at) * WIDTH).then(|| out[at * WIDTH..at * WIDTH + run.len()].copy_from_slice(run))?;
    Some(rest)
}

/// Whether there is as much of every part as flags and counts say.
fn check_counts(parts: &TokenParts, params: &Params) -> Result<(), &'static str> {
    if parts.matches > parts.tokens {
        return Err("more matches than tokens");
    }
    let literal_bytes = (parts.tokens - parts.matches) * params.width.bytes();
    let is_there = parts.flags.len() == parts.tokens.div_ceil(64)
        && parts.literals.len() >= literal_bytes + SLACK
        && parts.lengths.len() >= parts.matches + SLACK
        && parts.distances.len() >= parts.matches * params.distance_bytes() + SLACK;
    let set = dispatch::run(CountOnes(parts.flags));
    // A bit behind the last token would be counted as a match and make the block take more literals than are there.
    let unused = parts.flags.last().map_or(0, |&word| match parts.tokens % 64 {
        0 => 0,
        used => word >> used,
    });
    if !is_there || set != parts.matches || unused != 0 {
        return Err("its LZSS flags and token counts disagree");
    }
    Ok(())
}

/// How many bits are set.
struct CountOnes<'a>(&'a [u64]);

impl Kernel for CountOnes<'_> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let mut ones = 0;
        for word in self.0 {
            ones += u64::from(word.count_ones());
        }
        ones as usize
    }
}

/// Copies a match of bytes, and up to [`SLACK`] more.
#[inline(always)]
fn copy_long(out: &mut [u8], from: usize, to: usize, length: usize) {
    let period = to - from;
    // What is there repeats every `period` bytes, so it also does every multiple: one that a move does not overlap.
    let distance = period * SLACK.div_ceil(period);
    // So many come before that is far enough back in what repeats.
    let before = (distance - period).min(length);
    for i in 0..before {
        out[to + i] = out[from + i];
    }
    let mut done = before;
    while done < length {
        let bytes: [u8; SLACK] = out[to + done - distance..to + done - distance + SLACK].try_into().expect("as many");
        out[to + done..to + done + SLACK].copy_from_slice(&bytes);
        done += SLACK;
    }
}
