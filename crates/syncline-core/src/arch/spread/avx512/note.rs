//! Distances of symbols from tokens, 64 at a time.
//!
//! Addresses instead of positions in slices, hardly anything called, and short words by themselves: so that nothing is
//! put aside in memory. Loads from the stack soon after stores there, with stores of vectors between them, took half of
//! the time again wherever the system had put stack and entries on the wrong two pages, one pair in eight
//! (docs/SPEED.md, "Lossless, integers").

#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::{
    Aligned, BlockTokens, FEW, MANY, ROW, ROWS, SHORT, SPREAD_ROOM, SPREAD_SLACK, VECTOR, asks_for_few, later_in_match,
};
use super::lanes::load;
use crate::mem::prefetch::prefetch;

/// Tokens that are taken at a time where some have more than [`FEW`] symbols: as many as a word has bytes.
const BYTES: usize = 8;
/// Of 64 tokens of columns of integers as bytes 35 to 46 are left so.
const MOSTLY_PAIRS: usize = 48;
/// Bytes from what is read to what is asked for: the machine's own prefetching ends with each page.
const SOON: usize = 2048;
/// What it costs to take all tokens of a word in groups, and for each long one, in matches taken one by one.
const GROUPS_COST: u32 = 8;
const LONG_COST: u32 = 5;

/// As [`Spread::note`](super::Spread::note).
///
/// # Safety
/// The machine has AVX-512 VBMI2.
#[inline(always)]
pub unsafe fn note(entries: &mut [u8], symbols: usize, block: &BlockTokens) -> Option<usize> {
    let matches = block.flags.iter().map(|flags| flags.count_ones() as usize).sum::<usize>();
    assert!(entries.len() >= symbols + SPREAD_ROOM && block.flags.len() == block.tokens.div_ceil(64));
    assert!(block.lengths.len() >= matches + SPREAD_SLACK && block.distances.len() >= matches + SPREAD_SLACK);
    assert!(block.min_match > 0);
    let asks_for_few = asks_for_few(&block.lengths[..matches], block.min_match);
    let start = entries.as_mut_ptr();
    // SAFETY: `start` has so many entries, and room; the rest has just been asserted, and is the caller's.
    unsafe {
        let end = start.add(symbols);
        let left = Left::begin(block, start);
        let to = match (asks_for_few, block.min_match < MANY) {
            (_, true) => words::<true, false>(left, end, block.min_match),
            (true, false) => words::<true, true>(left, end, block.min_match),
            (false, false) => words::<false, true>(left, end, block.min_match),
        }?;
        Some(to.offset_from_unsigned(start))
    }
}

/// Up to 64 tokens.
#[derive(Clone, Copy)]
struct Word {
    /// Which are matches.
    flags: u64,
    /// At least one.
    tokens: usize,
    /// Of the matches, and at least a vector of bytes.
    lengths: *const u8,
    distances: *const u8,
}

/// The tokens of a block that are left, and where they go.
struct Left {
    flags: *const u64,
    tokens: usize,
    lengths: *const u8,
    distances: *const u8,
    to: *mut u8,
}

impl Left {
    #[inline(always)]
    fn begin(block: &BlockTokens, to: *mut u8) -> Self {
        let [lengths, distances] = [block.lengths, block.distances].map(<[u8]>::as_ptr);
        Self { flags: block.flags.as_ptr(), tokens: block.tokens, lengths, distances, to }
    }

    /// The next word.
    ///
    /// # Safety
    /// There is one.
    #[inline(always)]
    unsafe fn word(&self) -> Word {
        let Self { lengths, distances, .. } = *self;
        prefetch(lengths.wrapping_add(SOON), 1);
        prefetch(distances.wrapping_add(SOON), 1);
        // SAFETY: the caller's.
        Word { flags: unsafe { *self.flags }, tokens: self.tokens.min(64), lengths, distances }
    }

    /// What is left behind the next word, whose symbols end at `to`.
    ///
    /// # Safety
    /// It is that word.
    #[inline(always)]
    unsafe fn behind(self, word: &Word, to: *mut u8) -> Self {
        let matches = word.flags.count_ones() as usize;
        // SAFETY: a word has flags, and as many lengths and distances as are set.
        unsafe {
            Self {
                flags: self.flags.add(1),
                tokens: self.tokens.saturating_sub(64),
                lengths: self.lengths.add(matches),
                distances: self.distances.add(matches),
                to,
            }
        }
    }
}

/// Notes all words, and returns where their symbols end, unless that is behind `end`. If it `ASKS` for few, words whose
/// matches have at most [`FEW`] symbols are taken by themselves; `PAIRS` are of literals and matches behind them, if
/// those have [`MANY`] symbols.
///
/// # Safety
/// There are [`SPREAD_ROOM`] entries behind `end`, and words, lengths and distances as [`note`] asserts; the machine
/// has AVX-512 VBMI2.
#[inline(always)]
unsafe fn words<const ASKS: bool, const PAIRS: bool>(
    mut left: Left,
    end: *mut u8,
    min_match: usize,
) -> Option<*mut u8> {
    while left.tokens > 0 {
        // SAFETY: the caller's. `left.to` is no farther than `end`.
        unsafe {
            left = short_words::<ASKS, PAIRS>(left, end, min_match)?;
            while left.tokens > 0 {
                let word = left.word();
                let lengths = Lengths::new::<ASKS>(&word, min_match);
                if !lengths.are_few_or_long(&word) {
                    break;
                }
                let to = if word.flags.count_ones() < GROUPS_COST + LONG_COST * lengths.long.count_ones() {
                    match_by_match(left.to, end, &word, min_match)?
                } else {
                    between_long(left.to, end, &word, min_match, &lengths)?
                };
                left = left.behind(&word, to);
                if to > end {
                    return None;
                }
            }
        }
    }
    Some(left.to)
}

/// The same up to a word that has few or long matches. By itself, so that there are registers for everything.
///
/// # Safety
/// As [`words`].
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn short_words<const ASKS: bool, const PAIRS: bool>(
    mut left: Left,
    end: *mut u8,
    min_match: usize,
) -> Option<Left> {
    while left.tokens > 0 {
        // SAFETY: the caller's. `left.to` is no farther than `end`, behind which there is room for 64 tokens of `SHORT`
        // symbols and a vector.
        unsafe {
            let word = left.word();
            let lengths = Lengths::new::<ASKS>(&word, min_match);
            if lengths.are_few_or_long(&word) {
                break;
            }
            let to = if lengths.middle == 0 {
                in_groups::<FEW>(left.to, &word, &lengths)
            } else if PAIRS {
                in_pairs(left.to, &word, &lengths)
            } else {
                in_groups::<BYTES>(left.to, &word, &lengths)
            };
            left = left.behind(&word, to);
            if to > end {
                return None;
            }
        }
    }
    Some(left)
}

/// Notes a word's tokens match by match. Returns where the next go, or `None` if a match reaches behind `end`.
///
/// # Safety
/// `to` is no farther than `end`, behind which there are [`SPREAD_ROOM`] entries; the machine has AVX-512 VBMI2.
#[inline(always)]
unsafe fn match_by_match(to: *mut u8, end: *mut u8, word: &Word, min_match: usize) -> Option<*mut u8> {
    let mut flags = word.flags;
    // Where the word's tokens would start, which their positions are added to, if matches were as long as literals.
    let mut start = to;
    // SAFETY: `to` and the end of each match are no farther than `end`, and there is a vector's room behind them; there
    // are as many lengths and distances as flags.
    unsafe {
        // As many literals as there may be, before the first match and behind each.
        _mm512_storeu_si512(to.cast(), _mm512_setzero_si512());
        for i in 0..flags.count_ones() as usize {
            let first = start.add(flags.trailing_zeros() as usize);
            flags &= flags.wrapping_sub(1);
            let length = usize::from(*word.lengths.add(i)) + min_match;
            let behind = first.wrapping_add(length);
            if behind > end {
                return None;
            }
            start = start.add(length - 1);
            write_match(first, length, *word.distances.add(i));
            _mm512_storeu_si512(behind.cast(), _mm512_setzero_si512());
        }
        Some(start.add(word.tokens))
    }
}

/// Writes the distances of one match, and up to a vector behind them.
///
/// # Safety
/// There are so many entries from `to` on, and a vector more; the machine has AVX-512 VBMI2.
#[inline(always)]
unsafe fn write_match(to: *mut u8, length: usize, distance: u8) {
    // SAFETY: a row is loaded; stores start in the match.
    unsafe {
        _mm256_storeu_si256(to.cast(), _mm256_loadu_si256(ROWS[usize::from(distance)].as_ptr().cast()));
        let mut done = ROW;
        while done < length {
            let later = _mm512_set1_epi8(later_in_match(distance) as i8);
            _mm512_storeu_si512(to.add(done).cast(), later);
            done += VECTOR;
        }
    }
}

/// What is known of 64 tokens before any is written.
struct Lengths {
    /// Of each match its symbols beyond the first, at most 255; what follows is not theirs.
    beyond: __m512i,
    /// Tokens of more than [`FEW`] symbols, or all matches, and those of more than [`SHORT`].
    middle: u64,
    long: u64,
}

impl Lengths {
    /// # Safety
    /// The word has a vector of lengths; the machine has AVX-512 VBMI2.
    #[inline(always)]
    unsafe fn new<const ASKS: bool>(word: &Word, min_match: usize) -> Self {
        // SAFETY: the caller's.
        unsafe {
            let beyond = _mm512_adds_epu8(load(word.lengths), _mm512_set1_epi8((min_match - 1) as i8));
            let more_than = |symbols: usize| {
                let more = _mm512_cmpgt_epu8_mask(beyond, _mm512_set1_epi8((symbols - 1) as i8));
                _pdep_u64(more, word.flags)
            };
            let middle = if ASKS { more_than(FEW) } else { word.flags };
            Self { beyond, middle, long: if middle == 0 { 0 } else { more_than(SHORT) } }
        }
    }

    /// Whether it does not pay to take many of the word's tokens at a time, or some have to be taken by themselves.
    #[inline(always)]
    fn are_few_or_long(&self, word: &Word) -> bool {
        word.flags.count_ones() < GROUPS_COST || self.long != 0
    }
}

/// Distances of tokens, 0 of literals, and how many symbols they have, but for 256: one a byte.
///
/// # Safety
/// The word has a vector of distances; the machine has AVX-512 VBMI2.
#[inline(always)]
unsafe fn by_token(word: &Word, lengths: &Lengths) -> (__m512i, __m512i) {
    // SAFETY: the caller's.
    unsafe {
        let distances = _mm512_maskz_expand_epi8(word.flags, load(word.distances));
        let beyond = _mm512_maskz_expand_epi8(word.flags, lengths.beyond);
        // None of what is no token.
        (distances, _mm512_maskz_add_epi8(u64::MAX >> (VECTOR - word.tokens), beyond, _mm512_set1_epi8(1)))
    }
}

/// Writes the distances of tokens of at most `PLACES` ([`FEW`] or [`BYTES`]) symbols, as many at a time as have room in
/// a vector with so many places each. Returns where the next go.
///
/// # Safety
/// The word has a vector of distances; from `to` on there is room for as much as its tokens take, and a vector; the
/// machine has AVX-512 VBMI2.
#[inline(always)]
unsafe fn in_groups<const PLACES: usize>(mut to: *mut u8, word: &Word, lengths: &Lengths) -> *mut u8 {
    // SAFETY: loads are of the distances, and of arrays; the rest is the caller's.
    unsafe {
        let (distances, symbols) = by_token(word, lengths);
        let tokens = load(TOKENS[PLACES / BYTES].0.as_ptr());
        let places = load(PLACES_OF[PLACES / BYTES].0.as_ptr());
        for i in 0..PLACES {
            let tokens = _mm512_add_epi8(tokens, _mm512_set1_epi8((VECTOR / PLACES * i) as i8));
            let taken = _mm512_cmplt_epu8_mask(places, _mm512_permutexvar_epi8(tokens, symbols));
            to = compress(_mm512_permutexvar_epi8(tokens, distances), taken, to);
        }
    }
    to
}

/// The same of tokens of at most [`SHORT`] symbols, where a literal and a match behind it are one: tokens of columns of
/// integers as bytes alternate.
///
/// # Safety
/// As [`in_groups`], and the machine has BMI2.
#[inline(always)]
unsafe fn in_pairs(mut to: *mut u8, word: &Word, lengths: &Lengths) -> *mut u8 {
    const { assert!(SHORT + 1 == BYTES) };
    let tokens = u64::MAX >> (VECTOR - word.tokens);
    let literals = tokens & !word.flags;
    let joined = word.flags & literals << 1;
    let starts = tokens & !joined;
    // SAFETY: loads are of the distances, and of arrays; the rest is the caller's.
    unsafe {
        let with_match = _pext_u64(word.flags | joined >> 1, starts);
        let with_literal = _pext_u64(literals, starts);
        let distances = _mm512_maskz_expand_epi8(with_match, load(word.distances));
        let one = _mm512_set1_epi8(1);
        let symbols = _mm512_maskz_expand_epi8(with_match, lengths.beyond);
        let symbols = _mm512_mask_add_epi8(symbols, with_match, symbols, one);
        let symbols = _mm512_mask_add_epi8(symbols, with_literal, symbols, one);
        let numbers = load(TOKENS[1].0.as_ptr());
        let places = load(PLACES_OF[1].0.as_ptr());
        // Few words have more, and fewer would have to be jumped over.
        let count = (starts.count_ones() as usize).max(MOSTLY_PAIRS);
        for first in (0..count).step_by(BYTES) {
            let numbers = _mm512_add_epi8(numbers, _mm512_set1_epi8(first as i8));
            let taken = _mm512_cmplt_epu8_mask(places, _mm512_permutexvar_epi8(numbers, symbols));
            let of_matches = !_pdep_u64(with_literal >> first, u64::from_le_bytes([1; BYTES]));
            to = compress(_mm512_maskz_permutexvar_epi8(of_matches, numbers, distances), taken, to);
        }
    }
    to
}

/// Of each lane the token, and the place in it, where each has [`FEW`], or [`BYTES`].
static TOKENS: [Aligned<VECTOR>; 2] = [lanes(FEW, 64), lanes(BYTES, 64)];
static PLACES_OF: [Aligned<VECTOR>; 2] = [lanes(1, FEW), lanes(1, BYTES)];

/// Of the number of each lane the quotient by `divisor`, then the remainder by `modulus`.
const fn lanes(divisor: usize, modulus: usize) -> Aligned<VECTOR> {
    let mut lanes = [0; VECTOR];
    let mut i = 0;
    while i < VECTOR {
        lanes[i] = (i / divisor % modulus) as u8;
        i += 1;
    }
    Aligned(lanes)
}

/// As [`in_groups`], but what is longer by itself; `None` if that reaches behind `end`.
///
/// # Safety
/// `to` is no farther than `end`, behind which there are [`SPREAD_ROOM`] entries; the word has a vector of distances;
/// the machine has AVX-512 VBMI2.
#[inline(always)]
unsafe fn between_long(
    mut to: *mut u8,
    end: *mut u8,
    word: &Word,
    min_match: usize,
    lengths: &Lengths,
) -> Option<*mut u8> {
    let mut token = 0;
    // SAFETY: loads are of distances and lengths, and of arrays. Neither the word's start nor a long match's end is
    // behind `end`, so that 64 tokens of `SHORT` symbols have room behind each. A long token is a match, of which there
    // are a length and a distance.
    unsafe {
        let (distances, symbols) = by_token(word, lengths);
        let (numbers, places) = (load(TOKENS[1].0.as_ptr()), load(PLACES_OF[1].0.as_ptr()));
        while token < word.tokens {
            let next_long = (lengths.long >> token) as u8;
            // Lanes of tokens behind the word have others' numbers.
            let count = (next_long.trailing_zeros() as usize).min(word.tokens - token).min(BYTES);
            let numbers = _mm512_add_epi8(numbers, _mm512_set1_epi8(token as i8));
            let taken = _mm512_cmplt_epu8_mask(places, _mm512_permutexvar_epi8(numbers, symbols));
            let taken = _bzhi_u64(taken, (count * 8) as u32);
            to = compress(_mm512_permutexvar_epi8(numbers, distances), taken, to);
            token += count;
            if next_long != 0 {
                let number = (word.flags & !(u64::MAX << token)).count_ones() as usize;
                let length = usize::from(*word.lengths.add(number)) + min_match;
                let behind = to.wrapping_add(length);
                if behind > end {
                    return None;
                }
                write_match(to, length, *word.distances.add(number));
                to = behind;
                token += 1;
            }
        }
    }
    Some(to)
}

/// Writes the lanes that are taken one after another from `to` on, and 0 behind them up to a vector. Returns where the
/// next go.
///
/// # Safety
/// There is a vector of entries from `to` on, and the machine has AVX-512 VBMI2.
#[inline(always)]
unsafe fn compress(lanes: __m512i, taken: u64, to: *mut u8) -> *mut u8 {
    // SAFETY: what the caller has promised.
    unsafe {
        _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi8(taken, lanes));
        to.add(taken.count_ones() as usize)
    }
}
