//! Expands the distances of matches to one distance for each symbol, 64 tokens at a time.
//!
//! The code uses addresses instead of slices, hardly any calls, and a separate loop for words of short matches, so that
//! no register is spilled. Loads from the stack soon after stores there, with vector stores between them, took up to
//! half of the time again where stack and entries had unlucky page addresses, one pair of pages in eight.

#![allow(unsafe_code, reason = "vector instructions and pointers")]

use std::arch::x86_64::*;

use super::super::expand_matches::{Aligned, BlockTokens, EXPAND_ROOM, ROW, ROWS, SHORT, VECTOR, distance_after_row};
use super::super::token_parts::SLACK;
use super::lanes::load;
use crate::mem::prefetch::prefetch;

/// Maximum number of symbols of a match that the fastest loop over tokens supports.
const FEW: usize = 4;
/// Fewest symbols of the shortest match for a literal and the match after it to be processed as one token.
const MANY: usize = 3;
/// Tokens that are processed at once where some have more than [`FEW`] symbols: as many as a word has bytes.
const BYTES: usize = 8;
/// Pairs in most words of 64 tokens. Integer columns as bytes have 35 to 46.
const MOSTLY_PAIRS: usize = 48;
/// Distance in bytes at which tokens are prefetched. The hardware prefetcher stops at each page.
const PREFETCH_DISTANCE: usize = 2048;
/// Costs of processing the tokens of a word in groups, and of each long match, in matches processed one by one.
const GROUPS_COST: u32 = 8;
const LONG_COST: u32 = 5;

/// Does what [`expand_distances`](super::super::expand_matches::expand_distances) does.
///
/// # Safety
/// The processor has AVX-512 VBMI2.
///
/// # Panics
/// `entries`, lengths or distances are shorter than described there.
#[inline(always)]
pub(in super::super) unsafe fn expand_distances(
    entries: &mut [u8],
    symbols: usize,
    block: &BlockTokens,
) -> Option<usize> {
    let matches = block.flags.iter().map(|flags| flags.count_ones() as usize).sum::<usize>();
    assert!(entries.len() >= symbols + EXPAND_ROOM && block.flags.len() == block.tokens.div_ceil(64));
    assert!(block.lengths.len() >= matches + SLACK && block.distances.len() >= matches + SLACK);
    assert!(block.min_match > 0);
    let tests_for_few = pays_to_test_for_few(&block.lengths[..matches], block.min_match);
    let start = entries.as_mut_ptr();
    // SAFETY: there are `symbols` entries and `EXPAND_ROOM` more, and enough lengths and distances, as asserted above.
    // The caller promises the instructions.
    unsafe {
        let end = start.add(symbols);
        let left = Remaining::new(block, start);
        let to = match (tests_for_few, block.min_match < MANY) {
            (_, true) => words::<true, false>(left, end, block.min_match),
            (true, false) => words::<true, true>(left, end, block.min_match),
            (false, false) => words::<false, true>(left, end, block.min_match),
        }?;
        Some(to.offset_from_unsigned(start))
    }
}

/// Returns whether each word should be tested for matches of at most [`FEW`] symbols. It should not if a literal and
/// the match after it are processed together and more than one in about six words has longer matches: the mispredicted
/// branches would cost more than the test saves. `lengths` are those of the block's matches minus `min_match`.
#[inline(always)]
fn pays_to_test_for_few(lengths: &[u8], min_match: usize) -> bool {
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

/// Up to 64 tokens.
#[derive(Clone, Copy)]
struct Word {
    /// One bit for each token, set for a match.
    flags: u64,
    /// Number of tokens, at least one.
    tokens: usize,
    /// Lengths of the matches, followed by at least a vector of bytes, as are the distances.
    lengths: *const u8,
    distances: *const u8,
}

/// The remaining tokens of a block, and where their distances go.
struct Remaining {
    flags: *const u64,
    tokens: usize,
    lengths: *const u8,
    distances: *const u8,
    to: *mut u8,
}

impl Remaining {
    #[inline(always)]
    fn new(block: &BlockTokens, to: *mut u8) -> Self {
        let [lengths, distances] = [block.lengths, block.distances].map(<[u8]>::as_ptr);
        Self { flags: block.flags.as_ptr(), tokens: block.tokens, lengths, distances, to }
    }

    /// Returns the next word.
    ///
    /// # Safety
    /// There are tokens left.
    #[inline(always)]
    unsafe fn word(&self) -> Word {
        let Self { lengths, distances, .. } = *self;
        prefetch(lengths.wrapping_add(PREFETCH_DISTANCE), 1);
        prefetch(distances.wrapping_add(PREFETCH_DISTANCE), 1);
        // SAFETY: the caller promises that there is another word of flags.
        Word { flags: unsafe { *self.flags }, tokens: self.tokens.min(64), lengths, distances }
    }

    /// Returns what remains after the word, whose symbols end at `to`.
    ///
    /// # Safety
    /// `word` is the next word.
    #[inline(always)]
    unsafe fn after(self, word: &Word, to: *mut u8) -> Self {
        let matches = word.flags.count_ones() as usize;
        // SAFETY: the word has flags, and as many lengths and distances as bits are set.
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

/// Expands all words. Returns where their symbols end, or `None` if that is after `end`. With `TESTS`, words whose
/// matches have at most [`FEW`] symbols have a loop of their own. With `PAIRS`, a literal and the match after it are
/// processed together; matches then have at least [`MANY`] symbols.
///
/// # Safety
/// There are [`EXPAND_ROOM`] entries after `end`, and words, lengths and distances as [`expand_distances`] asserts; the
/// processor has AVX-512 VBMI2.
#[inline(always)]
unsafe fn words<const TESTS: bool, const PAIRS: bool>(
    mut left: Remaining,
    end: *mut u8,
    min_match: usize,
) -> Option<*mut u8> {
    while left.tokens > 0 {
        // SAFETY: as the caller promises; `left.to` is not after `end`.
        unsafe {
            left = short_words::<TESTS, PAIRS>(left, end, min_match)?;
            while left.tokens > 0 {
                let word = left.word();
                let lengths = Lengths::new::<TESTS>(&word, min_match);
                if !lengths.are_few_or_long(&word) {
                    break;
                }
                let to = if word.flags.count_ones() < GROUPS_COST + LONG_COST * lengths.long.count_ones() {
                    match_by_match(left.to, end, &word, min_match)?
                } else {
                    between_long(left.to, end, &word, min_match, &lengths)?
                };
                left = left.after(&word, to);
                if to > end {
                    return None;
                }
            }
        }
    }
    Some(left.to)
}

/// Does the same up to a word that has few or long matches. Not inlined, so that everything fits into registers.
///
/// # Safety
/// As [`words`].
#[inline(never)]
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512dq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn short_words<const TESTS: bool, const PAIRS: bool>(
    mut left: Remaining,
    end: *mut u8,
    min_match: usize,
) -> Option<Remaining> {
    while left.tokens > 0 {
        // SAFETY: as the caller promises; `left.to` is not after `end`, which is followed by room for 64 tokens of
        // `SHORT` symbols and a vector.
        unsafe {
            let word = left.word();
            let lengths = Lengths::new::<TESTS>(&word, min_match);
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
            left = left.after(&word, to);
            if to > end {
                return None;
            }
        }
    }
    Some(left)
}

/// Expands a word's tokens match by match. Returns where the next word's distances go, or `None` if a match ends after
/// `end`.
///
/// # Safety
/// `to` is not after `end`, which is followed by [`EXPAND_ROOM`] entries; the processor has AVX-512 VBMI2.
#[inline(always)]
unsafe fn match_by_match(to: *mut u8, end: *mut u8, word: &Word, min_match: usize) -> Option<*mut u8> {
    let mut flags = word.flags;
    // Plus the position of a token in the word, this is where the token starts.
    let mut start = to;
    // SAFETY: `to` and the end of each match are not after `end`, which is followed by room for a vector. There are as
    // many lengths and distances as set flags.
    unsafe {
        // Clears the entries of all literals that may precede the first match or follow a match.
        _mm512_storeu_si512(to.cast(), _mm512_setzero_si512());
        for i in 0..flags.count_ones() as usize {
            let first = start.add(flags.trailing_zeros() as usize);
            flags &= flags.wrapping_sub(1);
            let length = usize::from(*word.lengths.add(i)) + min_match;
            let match_end = first.wrapping_add(length);
            if match_end > end {
                return None;
            }
            start = start.add(length - 1);
            write_match(first, length, *word.distances.add(i));
            _mm512_storeu_si512(match_end.cast(), _mm512_setzero_si512());
        }
        Some(start.add(word.tokens))
    }
}

/// Writes the distances of one match, and up to a vector after them.
///
/// # Safety
/// There are `length` entries from `to` on and a vector more; the processor has AVX-512 VBMI2.
#[inline(always)]
unsafe fn write_match(to: *mut u8, length: usize, distance: u8) {
    // SAFETY: the load is of a whole row; every store starts in the match.
    unsafe {
        _mm256_storeu_si256(to.cast(), _mm256_loadu_si256(ROWS[usize::from(distance)].as_ptr().cast()));
        let mut done = ROW;
        while done < length {
            let later = _mm512_set1_epi8(distance_after_row(distance) as i8);
            _mm512_storeu_si512(to.add(done).cast(), later);
            done += VECTOR;
        }
    }
}

/// The lengths of 64 tokens.
struct Lengths {
    /// Symbols of each match after its first, at most 255. Lanes after the last match are unspecified.
    beyond: __m512i,
    /// Tokens of more than [`FEW`] symbols, or all matches if that is not tested.
    middle: u64,
    /// Tokens of more than [`SHORT`] symbols.
    long: u64,
}

impl Lengths {
    /// Compares the lengths of the word's matches with [`FEW`] and [`SHORT`] symbols.
    ///
    /// # Safety
    /// The word has a vector of lengths; the processor has AVX-512 VBMI2.
    #[inline(always)]
    unsafe fn new<const TESTS: bool>(word: &Word, min_match: usize) -> Self {
        // SAFETY: the caller promises the vector and the instructions.
        unsafe {
            let beyond = _mm512_adds_epu8(load(word.lengths), _mm512_set1_epi8((min_match - 1) as i8));
            let more_than = |symbols: usize| {
                let more = _mm512_cmpgt_epu8_mask(beyond, _mm512_set1_epi8((symbols - 1) as i8));
                _pdep_u64(more, word.flags)
            };
            let middle = if TESTS { more_than(FEW) } else { word.flags };
            Self { beyond, middle, long: if middle == 0 { 0 } else { more_than(SHORT) } }
        }
    }

    /// Returns whether decoding by groups of tokens would be slower, or some matches are too long for it.
    #[inline(always)]
    fn are_few_or_long(&self, word: &Word) -> bool {
        word.flags.count_ones() < GROUPS_COST || self.long != 0
    }
}

/// Returns the distance of each token, 0 for a literal, and its number of symbols modulo 256, one byte each.
///
/// # Safety
/// The word has a vector of distances; the processor has AVX-512 VBMI2.
#[inline(always)]
unsafe fn by_token(word: &Word, lengths: &Lengths) -> (__m512i, __m512i) {
    // SAFETY: the caller promises the vector and the instructions.
    unsafe {
        let distances = _mm512_maskz_expand_epi8(word.flags, load(word.distances));
        let beyond = _mm512_maskz_expand_epi8(word.flags, lengths.beyond);
        // Lanes after the last token have no symbols.
        (distances, _mm512_maskz_add_epi8(u64::MAX >> (VECTOR - word.tokens), beyond, _mm512_set1_epi8(1)))
    }
}

/// Writes the distances of tokens of at most `PLACES` ([`FEW`] or [`BYTES`]) symbols. A vector has `PLACES` lanes for
/// each of its tokens. Returns where the next distances go.
///
/// # Safety
/// The word has a vector of distances; from `to` on there is room for the symbols of its tokens and a vector; the
/// processor has AVX-512 VBMI2.
#[inline(always)]
unsafe fn in_groups<const PLACES: usize>(mut to: *mut u8, word: &Word, lengths: &Lengths) -> *mut u8 {
    // SAFETY: loads are of the distances and of static arrays. The caller promises the room and the instructions.
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

/// Does the same for tokens of at most [`SHORT`] symbols, and processes a literal and the match after it as one token:
/// in integer columns as bytes they alternate.
///
/// # Safety
/// As [`in_groups`], and the processor has BMI2.
#[inline(always)]
unsafe fn in_pairs(mut to: *mut u8, word: &Word, lengths: &Lengths) -> *mut u8 {
    const { assert!(SHORT + 1 == BYTES) };
    let tokens = u64::MAX >> (VECTOR - word.tokens);
    let literals = tokens & !word.flags;
    let joined = word.flags & literals << 1;
    let starts = tokens & !joined;
    // SAFETY: loads are of the distances and of static arrays. The caller promises the room and the instructions.
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
        // Few words have more pairs, and a fixed count is predicted better than a smaller one.
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

/// The token of each lane, for [`FEW`] and for [`BYTES`] lanes each.
static TOKENS: [Aligned<VECTOR>; 2] = [lanes(FEW, 64), lanes(BYTES, 64)];
/// The symbol of its token that each lane has.
static PLACES_OF: [Aligned<VECTOR>; 2] = [lanes(1, FEW), lanes(1, BYTES)];

/// Returns `lane / divisor % modulus` for each lane.
const fn lanes(divisor: usize, modulus: usize) -> Aligned<VECTOR> {
    let mut lanes = [0; VECTOR];
    let mut i = 0;
    while i < VECTOR {
        lanes[i] = (i / divisor % modulus) as u8;
        i += 1;
    }
    Aligned(lanes)
}

/// Does what [`in_groups`] does, and writes long matches one by one. Returns `None` if one of these ends after `end`.
///
/// # Safety
/// `to` is not after `end`, which is followed by [`EXPAND_ROOM`] entries; the word has a vector of distances; the
/// processor has AVX-512 VBMI2.
#[inline(always)]
unsafe fn between_long(
    mut to: *mut u8,
    end: *mut u8,
    word: &Word,
    min_match: usize,
    lengths: &Lengths,
) -> Option<*mut u8> {
    let mut token = 0;
    // SAFETY: loads are of distances, lengths and static arrays. Neither the start of the word nor the end of a long
    // match is after `end`, so 64 tokens of `SHORT` symbols have room after each. A long token is a match, which has a
    // length and a distance.
    unsafe {
        let (distances, symbols) = by_token(word, lengths);
        let (numbers, places) = (load(TOKENS[1].0.as_ptr()), load(PLACES_OF[1].0.as_ptr()));
        while token < word.tokens {
            let next_long = (lengths.long >> token) as u8;
            // Lanes after the last token of the word wrap around to other tokens.
            let count = (next_long.trailing_zeros() as usize).min(word.tokens - token).min(BYTES);
            let numbers = _mm512_add_epi8(numbers, _mm512_set1_epi8(token as i8));
            let taken = _mm512_cmplt_epu8_mask(places, _mm512_permutexvar_epi8(numbers, symbols));
            let taken = _bzhi_u64(taken, (count * 8) as u32);
            to = compress(_mm512_permutexvar_epi8(numbers, distances), taken, to);
            token += count;
            if next_long != 0 {
                let number = (word.flags & !(u64::MAX << token)).count_ones() as usize;
                let length = usize::from(*word.lengths.add(number)) + min_match;
                let match_end = to.wrapping_add(length);
                if match_end > end {
                    return None;
                }
                write_match(to, length, *word.distances.add(number));
                to = match_end;
                token += 1;
            }
        }
    }
    Some(to)
}

/// Writes the lanes that are set in `taken` contiguously from `to` on, and 0 after them up to a vector. Returns where
/// the next distances go.
///
/// # Safety
/// There is a vector of entries from `to` on, and the processor has AVX-512 VBMI2.
#[inline(always)]
unsafe fn compress(lanes: __m512i, taken: u64, to: *mut u8) -> *mut u8 {
    // SAFETY: the caller promises the vector of entries and the instructions.
    unsafe {
        _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi8(taken, lanes));
        to.add(taken.count_ones() as usize)
    }
}
