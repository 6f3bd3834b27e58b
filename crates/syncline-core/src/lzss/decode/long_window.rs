//! Decodes blocks of levels 5 to 9, whose distances have two bytes.
//!
//! Two passes alternate every few hundred symbols. The first pass goes from match to match: it copies literals to their
//! places and records the source of every symbol, without a branch on the length of matches up to [`LANES`] symbols.
//! The second pass copies symbol by symbol, because wider loads would span several recent stores and wait until those
//! have reached the cache.

use super::super::{Params, SymbolWidth};
use super::token_parts::{ENDS_EARLY, OUTSIDE_BLOCK, SLACK, TokenParts};
use crate::mem::copy::copy_from_sources;
use crate::simd::{self, InstructionSet, Kernel};

/// Decodes a block, whose counts have been checked, to `out` without its last [`SLACK`] bytes.
pub(super) fn decode(parts: &TokenParts, params: &Params, out: &mut [u8]) -> Result<(), &'static str> {
    simd::run(Decode { parts, params, out })
}

struct Decode<'a> {
    parts: &'a TokenParts<'a>,
    params: &'a Params,
    out: &'a mut [u8],
}

impl Kernel for Decode<'_> {
    type Output = Result<(), &'static str>;

    #[inline(always)]
    fn run<I: InstructionSet>(self, _: I) -> Self::Output {
        match self.params.width {
            SymbolWidth::One => self.dispatch_on_literals::<1, 16>(),
            SymbolWidth::Two => self.dispatch_on_literals::<2, 16>(),
            SymbolWidth::Four => self.dispatch_on_literals::<4, 8>(),
            SymbolWidth::Eight => self.dispatch_on_literals::<8, 4>(),
        }
    }
}

/// Symbols of a match whose sources are recorded at once.
const LANES: usize = 16;
/// Symbols after which the second pass runs.
const BATCH: usize = 512;
/// Upper bound of the sources recorded between two passes: [`BATCH`], a match and literals. A power of two, so that a
/// mask replaces the bounds check.
const MAX_SOURCES: usize = 1024;

/// For each distance, the offsets from the start of a match's source to the sources of its first symbols. For a short
/// distance all of them lie before the match, so that no copied symbol waits for another one.
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

/// Records `from` plus each of the offsets as the sources of the symbols from `number` on.
#[inline(always)]
fn record_sources(sources: &mut [u16; MAX_SOURCES + LANES], number: usize, from: usize, offsets: &[u16; LANES]) {
    let start = number % MAX_SOURCES;
    let sources: &mut [u16; LANES] = (&mut sources[start..start + LANES]).try_into().expect("LANES sources");
    for (source, offset) in sources.iter_mut().zip(offsets) {
        *source = (from as u16).wrapping_add(*offset);
    }
}

impl Decode<'_> {
    #[inline(always)]
    fn dispatch_on_literals<const WIDTH: usize, const RUN: usize>(self) -> Result<(), &'static str> {
        match 8 * (self.parts.tokens - self.parts.matches) < self.parts.tokens {
            false => self.decode::<WIDTH, RUN, false>(),
            true => self.decode::<WIDTH, RUN, true>(),
        }
    }

    /// Copies `RUN` literals, at most 32 bytes, at once. With `FEW` literals it skips the copy of an empty run.
    #[inline(always)]
    fn decode<const WIDTH: usize, const RUN: usize, const FEW: bool>(self) -> Result<(), &'static str> {
        let Self { parts, params, out } = self;
        let end = (out.len() - SLACK) / WIDTH;
        let min_match = usize::from(params.min_match);
        let mut sources = [0; MAX_SOURCES + LANES];
        // Symbols whose sources are recorded, symbols that the second pass has copied, and the literal bytes and
        // matches that have been consumed.
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
            // Tokens of the word that have been processed.
            let mut done = 0;
            for (&length, distance) in lengths.iter().zip(distances.as_chunks().0) {
                let position = word.trailing_zeros() as usize;
                word &= word.wrapping_sub(1);
                let mut run = position - done;
                done = position + 1;
                if run > RUN {
                    copy_from_sources::<WIDTH>(out, first, &sources[..(at - first).min(MAX_SOURCES)]);
                    literals = copy_run::<WIDTH>(literals, out, at, run, end).ok_or(OUTSIDE_BLOCK)?;
                    (at, run) = (at + run, 0);
                    first = at;
                }
                if !FEW || run > 0 {
                    let (from, to) = (&literals[..RUN * WIDTH], at * WIDTH);
                    out[to..to + RUN * WIDTH].copy_from_slice(from);
                    // Literals are their own sources. The next token overwrites what is copied after the run.
                    record_sources(&mut sources, at - first, at, &PERIODS[LANES]);
                    at += run;
                    literals = &literals[run * WIDTH..];
                }

                let distance = usize::from(u16::from_le_bytes(*distance));
                let length = usize::from(length) + min_match;
                // A distance of 0 wraps around and fails the comparison.
                if distance.wrapping_sub(1) >= at || at + length > end {
                    return Err(OUTSIDE_BLOCK);
                }
                let from = at - distance;
                if length > LANES {
                    copy_from_sources::<WIDTH>(out, first, &sources[..(at - first).min(MAX_SOURCES)]);
                    copy_long(out, from * WIDTH, at * WIDTH, length * WIDTH);
                    at += length;
                    first = at;
                    continue;
                }
                record_sources(&mut sources, at - first, from, &PERIODS[distance.min(LANES)]);
                at += length;
                if at - first > BATCH {
                    copy_from_sources::<WIDTH>(out, first, &sources[..(at - first).min(MAX_SOURCES)]);
                    first = at;
                }
            }
            let rest = tokens - done;
            if rest > 0 {
                copy_from_sources::<WIDTH>(out, first, &sources[..(at - first).min(MAX_SOURCES)]);
                copy_run::<WIDTH>(literals, out, at, rest, end).ok_or(OUTSIDE_BLOCK)?;
                at += rest;
                first = at;
            }
        }
        copy_from_sources::<WIDTH>(out, first, &sources[..(at - first).min(MAX_SOURCES)]);
        if at == end { Ok(()) } else { Err(ENDS_EARLY) }
    }
}

/// Copies `run` literals to symbol `at`. Returns the remaining literals, or `None` if the run does not fit.
#[inline(always)]
fn copy_run<'l, const WIDTH: usize>(
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

/// Copies a match of `length` bytes, and up to [`SLACK`] bytes more.
#[inline(always)]
fn copy_long(out: &mut [u8], from: usize, to: usize, length: usize) {
    let period = to - from;
    // Data that repeats every `period` bytes also repeats every multiple of it. Use one that a move does not overlap.
    let distance = period * SLACK.div_ceil(period);
    // The first bytes are copied one by one, until the longer distance stays within the repeating data.
    let before = (distance - period).min(length);
    for i in 0..before {
        out[to + i] = out[from + i];
    }
    let mut done = before;
    while done < length {
        let bytes: [u8; SLACK] =
            out[to + done - distance..to + done - distance + SLACK].try_into().expect("SLACK bytes");
        out[to + done..to + done + SLACK].copy_from_slice(&bytes);
        done += SLACK;
    }
}
