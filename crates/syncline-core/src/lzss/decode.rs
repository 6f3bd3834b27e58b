//! Tokens of a block back to symbols.
//!
//! In two passes over a few hundred symbols at a time. The first goes from match to match: it copies the literals before each to their places and notes, for every symbol, where
//! it comes from; how long a match is decides about no jump up to [`LANES`] symbols. The second copies symbol by symbol: wider loads would span several
//! of the last stores and wait until these have reached the cache.

use super::{Params, SymbolWidth};
use crate::arch::copy::copy_from_sources;
use crate::bits::dispatch::{self, Kernel};

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
    dispatch::run(Decode { parts, params, out })
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
            _ if self.parts.matches > self.parts.tokens => Err("more matches than tokens"),
            SymbolWidth::One => self.at_distance::<1, 16>(),
            SymbolWidth::Two => self.at_distance::<2, 16>(),
            SymbolWidth::Four => self.at_distance::<4, 8>(),
            SymbolWidth::Eight => self.at_distance::<8, 4>(),
        }
    }
}

/// Symbols of a match whose sources are noted at once.
const LANES: usize = 16;
/// Symbols after which the second pass follows.
const BATCH: usize = 512;
/// Sources noted between two passes, at most: [`BATCH`], a match, literals. A power of two, for a mask instead of a jump.
const NOTES: usize = 1024;

/// What to add to the start of a match for the source of its first symbols, by distance: if that is short, symbols come from what stands before the match, not from one another,
/// which would make each wait for the one before.
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
    fn at_distance<const WIDTH: usize, const RUN: usize>(self) -> Result<(), &'static str> {
        match (self.params.distance_bytes(), 8 * (self.parts.tokens - self.parts.matches) < self.parts.tokens) {
            (1, false) => self.decode::<WIDTH, RUN, 1, false>(),
            (1, true) => self.decode::<WIDTH, RUN, 1, true>(),
            (_, false) => self.decode::<WIDTH, RUN, 2, false>(),
            (_, true) => self.decode::<WIDTH, RUN, 2, true>(),
        }
    }

    /// `RUN` literals, at most 32 bytes, are copied at once; where there are `FEW`, only if there are any.
    #[inline(always)]
    fn decode<const WIDTH: usize, const RUN: usize, const DISTANCE: usize, const FEW: bool>(
        self,
    ) -> Result<(), &'static str> {
        let Self { parts, params, out } = self;
        check_counts::<WIDTH, DISTANCE>(parts)?;
        let end = (out.len() - SLACK) / WIDTH;
        let min_match = usize::from(params.min_match);
        let mut notes = [0; NOTES + LANES];
        // Symbols that are there, those of them that the second pass has done, literals' bytes and matches that are used up.
        let (mut at, mut first, mut literal, mut number) = (0, 0, 0, 0);
        let outside = "an LZSS match or literal reaches out of its block";
        for (i, &flags) in parts.flags.iter().enumerate() {
            let tokens = (parts.tokens - i * 64).min(64);
            let matches = flags.count_ones() as usize;
            let mut literals = &parts.literals[literal..];
            literal += (tokens - matches) * WIDTH;
            let lengths = &parts.lengths[number..number + matches];
            let distances = &parts.distances[number * DISTANCE..(number + matches) * DISTANCE];
            number += matches;
            let mut word = flags;
            // Tokens of the word that are done.
            let mut done = 0;
            for (&length, distance) in lengths.iter().zip(distances.chunks_exact(DISTANCE)) {
                let position = word.trailing_zeros() as usize;
                word &= word.wrapping_sub(1);
                let mut run = position - done;
                done = position + 1;
                if run > RUN {
                    copy_from_sources::<WIDTH>(out, first, &notes[..(at - first).min(NOTES)]);
                    literals = whole_run::<WIDTH>(literals, out, at, run, end).ok_or(outside)?;
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

                let distance = match DISTANCE {
                    1 => usize::from(distance[0]),
                    _ => usize::from(u16::from_le_bytes([distance[0], distance[1]])),
                };
                let length = usize::from(length) + min_match;
                // A distance of 0 becomes too long a one.
                if distance.wrapping_sub(1) >= at || at + length > end {
                    return Err(outside);
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
                whole_run::<WIDTH>(literals, out, at, rest, end).ok_or(outside)?;
                at += rest;
                first = at;
            }
        }
        copy_from_sources::<WIDTH>(out, first, &notes[..(at - first).min(NOTES)]);
        if at == end { Ok(()) } else { Err("its LZSS tokens end before their block") }
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
#[inline(always)]
fn check_counts<const WIDTH: usize, const DISTANCE: usize>(parts: &TokenParts) -> Result<(), &'static str> {
    let literal_bytes = (parts.tokens - parts.matches) * WIDTH;
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
    Ok(())
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
