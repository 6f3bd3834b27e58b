//! Symbols of a block from their distances: each is a literal (distance 0) or repeats the symbol so many places before
//! it, at most 255.
//!
//! With AVX-512 the literals of 64 bytes are put in their places by one instruction, and a window of 128 bytes is two
//! registers: then bytes are found by permutations, whatever the lengths of matches.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;

use std::mem::MaybeUninit;

use crate::mem::prefetch::PrefetchTargets;
use crate::mem::uninit::{UninitBytes, Written};

/// Bytes of a vector.
const VECTOR: usize = 64;
/// Bytes after literals, lengths, distances and symbols that may be read or written.
pub const SPREAD_SLACK: usize = 64;
/// Entries after those of a block's symbols that may be written.
pub const SPREAD_ROOM: usize = 64 * SHORT + SPREAD_SLACK;

/// Matches up to so many symbols are taken many at a time.
const FEW: usize = 4;
/// Where matches have at least so many symbols, literals are taken together with matches behind them.
const MANY: usize = 3;
/// Matches up to so many symbols are taken several at a time.
const SHORT: usize = 7;
/// Entries of a long match that are looked up.
const ROW: usize = 32;

/// The distances of the first symbols of a match, by its distance: multiples of it, so that none comes from the match
/// itself and waits for the one before.
static ROWS: [[u8; ROW]; 256] = {
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
fn write_match(entries: &mut [u8], distance: u8) {
    let row = &ROWS[usize::from(distance)];
    let first = entries.len().min(ROW);
    entries[..first].copy_from_slice(&row[..first]);
    entries[first..].fill(later_in_match(distance));
}

/// The distances of the symbols of a match from the end of a row on: any multiple will do that is no less than a row.
#[inline(always)]
fn later_in_match(distance: u8) -> u8 {
    if usize::from(distance) < ROW { ROWS[usize::from(distance)][ROW - 1] } else { distance }
}

/// The tokens of a block, but for literals.
#[derive(Clone, Copy, Debug)]
pub struct BlockTokens<'a> {
    /// Which are matches, 64 a word.
    pub flags: &'a [u64],
    /// How many tokens there are: as many words of them as there are flags.
    pub tokens: usize,
    /// Of the matches their lengths, less `min_match`; behind them there are at least [`SPREAD_SLACK`] bytes.
    pub lengths: &'a [u8],
    /// Likewise their distances, none 0.
    pub distances: &'a [u8],
    /// The symbols of the shortest match, at least 1.
    pub min_match: usize,
}

impl<'a> BlockTokens<'a> {
    /// The tokens of a word, the matches before it being `matched`.
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

/// Up to 64 tokens, as in [`BlockTokens`].
#[derive(Clone, Copy, Debug)]
struct TokenWord<'a> {
    flags: u64,
    tokens: usize,
    lengths: &'a [u8],
    distances: &'a [u8],
}

/// Whether it pays to ask of each word whether all its matches have at most `FEW` symbols, by the lengths of a block's
/// matches, less the shortest: not if it has literals and matches taken together where they have more, and these are in
/// more than one of about six words. To jump there costs more than that saves.
#[inline(always)]
fn asks_for_few(lengths: &[u8], min_match: usize) -> bool {
    if min_match < MANY {
        return true;
    }
    let few = FEW.saturating_sub(min_match) as u8;
    let mut longer = 0;
    for &length in lengths {
        longer += u32::from(length > few);
    }
    longer as usize * 6 * 32 < lengths.len()
}

/// How far back the matches of a block lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Whether any distance is below `CLOSE`.
    pub is_close: bool,
    /// Whether any is above `WINDOW`.
    pub is_far: bool,
}

/// From this distance on, 64 symbols have at most 16 in a row of which each is the source of the next.
const CLOSE: u8 = 4;
/// The longest distance of levels 1 to 3.
const WINDOW: u8 = 128;

impl Reach {
    /// Of matches with these distances; `None` if one is 0.
    #[inline(always)]
    pub fn of(distances: &[u8]) -> Option<Self> {
        let (mut low, mut high) = ([u8::MAX; VECTOR], [0; VECTOR]);
        let mut look = |lane: usize, distance: u8| {
            low[lane] = low[lane].min(distance);
            high[lane] = high[lane].max(distance);
        };
        let (vectors, rest) = distances.as_chunks::<VECTOR>();
        vectors.iter().for_each(|vector| (0..VECTOR).for_each(|lane| look(lane, vector[lane])));
        rest.iter().enumerate().for_each(|(lane, &distance)| look(lane, distance));
        // The least itself would take as many comparisons that wait for each other as there are lanes.
        let any = |lanes: &[u8; VECTOR], is: fn(u8) -> bool| lanes.iter().fold(false, |any, &lane| any | is(lane));
        let reach = Self { is_close: any(&low, |low| low < CLOSE), is_far: any(&high, |high| high > WINDOW) };
        (!any(&low, |low| low == 0)).then_some(reach)
    }
}

/// Bytes that start a cache line, so that few vectors of them span two.
#[derive(Debug)]
#[repr(align(64))]
pub struct Aligned<const COUNT: usize>(pub [u8; COUNT]);

/// A way to write distances and to follow them. Loops are generic over it, and inlined where its instructions are
/// enabled.
pub trait Spread: Copy {
    /// Writes the distances of the symbols of a block's tokens, 0 for literals, to `entries`, which has [`SPREAD_ROOM`]
    /// more than `symbols`. Returns where they end, or `None` if that is behind `symbols`.
    ///
    /// # Panics
    /// There is less room, there are fewer lengths or distances than flags, or a match may have no symbol.
    fn note(self, entries: &mut [u8], symbols: usize, block: &BlockTokens) -> Option<usize>;

    /// Makes the first `symbols` symbols, of `WIDTH` (1, 2, 4 or 8) bytes, from their distances, which are of this
    /// reach, and from the literals. All three have [`SPREAD_SLACK`] bytes more. Meanwhile it may ask for as much
    /// memory as it makes.
    ///
    /// # Panics
    /// They have not, or a distance reaches out of the block.
    fn follow<'m, const WIDTH: usize>(
        self,
        out: UninitBytes<'m>,
        symbols: usize,
        distances: &[u8],
        reach: Reach,
        ahead: PrefetchTargets,
        literals: &[u8],
    ) -> Written<'m>;
}

/// Whether every distance leads to a symbol of the block.
#[inline(always)]
pub fn are_inside(distances: &[u8]) -> bool {
    // From 255 on there is no other.
    distances.iter().take(255).zip(0u8..).fold(true, |inside, (&distance, at)| inside & (distance <= at))
}

/// Symbol by symbol, on any machine.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

impl Spread for Portable {
    #[inline(always)]
    fn note(self, entries: &mut [u8], symbols: usize, block: &BlockTokens) -> Option<usize> {
        let (mut at, mut matched) = (0, 0);
        for (number, flags) in block.flags.iter().enumerate() {
            at = note_word(entries, at, symbols, block.word(number, matched), block.min_match)?;
            matched += flags.count_ones() as usize;
        }
        Some(at)
    }

    #[inline(always)]
    fn follow<'m, const WIDTH: usize>(
        self,
        mut out: UninitBytes<'m>,
        symbols: usize,
        distances: &[u8],
        _: Reach,
        _: PrefetchTargets,
        literals: &[u8],
    ) -> Written<'m> {
        // SAFETY: only symbols are written.
        let symbols_out = &mut unsafe { out.as_mut_slice() }.as_chunks_mut::<WIDTH>().0[..symbols];
        let distances = &distances[..symbols];
        assert!(are_inside(distances));
        let literals = literals.as_chunks::<WIDTH>().0;
        let mut literal = 0;
        for (at, &distance) in distances.iter().enumerate() {
            symbols_out[at] = match distance {
                0 => literals[literal].map(MaybeUninit::new),
                _ => symbols_out[at - usize::from(distance)],
            };
            literal += usize::from(distance == 0);
        }
        // SAFETY: every symbol is a literal, or as one before it.
        unsafe { out.assume_written(symbols * WIDTH) }
    }
}

/// The distances of one word's tokens, from `entries[at]` on; where the next ones' begin.
#[inline(always)]
fn note_word(entries: &mut [u8], at: usize, symbols: usize, word: TokenWord, min_match: usize) -> Option<usize> {
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
        write_match(&mut entries[first..at], distance);
    }
    let end = at + word.tokens - done;
    entries.get_mut(at..end).filter(|_| end <= symbols)?.fill(0);
    Some(end)
}

/// A loop that spreads.
pub trait Spreading {
    /// What the loop returns.
    type Output;

    /// The loop. Must be `#[inline(always)]`, as must be everything hot that it calls.
    fn run<S: Spread>(self, spread: S) -> Self::Output;
}

/// Runs `spreading`, compiled for the best way of this machine. The result is the same everywhere.
#[inline]
pub fn with_best<L: Spreading>(spreading: L) -> L::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(
            enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,fma,bmi1,bmi2,lzcnt,popcnt"
        )]
        fn wide<L: Spreading>(spreading: L) -> L::Output {
            spreading.run(Avx512(()))
        }
        if super::has_avx512_vbmi2() {
            // SAFETY: `has_avx512_vbmi2` has just found every feature that `wide` enables.
            return unsafe { wide(spreading) };
        }
    }
    spreading.run(Portable)
}
