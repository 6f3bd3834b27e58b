//! Distances and symbols 64 bytes at a time.

mod lanes;

use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use self::lanes::{Lanes, load};
use crate::arch::place::{Place, Written};
use crate::arch::{prefetch, prefetch_second};

use super::{
    Ahead, Aligned, FEW, MANY, ROW, ROWS, Reach, SHORT, SPREAD_ROOM, SPREAD_SLACK, Spread, THOSE, TokenWord, VECTOR,
    are_inside, write_match,
};

/// Tokens that are taken at a time where some have more than [`FEW`] symbols: as many as a word has bytes.
const BYTES: usize = 8;
/// Of 64 tokens of columns of integers as bytes 35 to 46 are left so.
const MOSTLY_PAIRS: usize = 48;
/// Bytes from what is read to what is asked for: the machine's own prefetching ends with each page.
const SOON: usize = 2048;
const SOON_LITERALS: usize = 1024;
/// What it costs to take all tokens of a word in groups, and for each long one, in matches taken one by one.
const GROUPS_COST: u32 = 8;
const LONG_COST: u32 = 5;

/// Vectors of 64 bytes, of which some lanes are loaded, stored, expanded and permuted.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(pub(super) ());

impl Spread for Avx512 {
    #[inline(always)]
    fn note(self, entries: &mut [u8], at: usize, symbols: usize, word: TokenWord, min_match: usize) -> Option<usize> {
        assert!(entries.len() >= symbols + SPREAD_ROOM && at <= symbols);
        prefetch(word.lengths.as_ptr().wrapping_add(SOON), 1);
        prefetch(word.distances.as_ptr().wrapping_add(SOON), 1);
        // SAFETY: only `with_best` makes an `Avx512`, and only where it has found every feature that is asked for.
        let kinds = unsafe { Lengths::new(&word, min_match) };
        // So that jumps are few where no match is long.
        let cost = if kinds.middle == 0 { GROUPS_COST } else { GROUPS_COST + LONG_COST * kinds.long.count_ones() };
        if word.flags.count_ones() < cost {
            return match_by_match(entries, at, symbols, word, min_match);
        }
        // SAFETY: the features as above, and `at` is that of a symbol, with as much room behind it as 64 tokens of `SHORT` symbols and a vector take.
        let at = unsafe {
            if kinds.middle == 0 {
                in_groups::<FEW>(entries, at, &word, &kinds)
            } else if kinds.long != 0 {
                between_long(entries, at, symbols, &word, min_match, &kinds)?
            } else if min_match < MANY {
                in_groups::<BYTES>(entries, at, &word, &kinds)
            } else {
                in_pairs(entries, at, &word, &kinds)
            }
        };
        Some(at).filter(|&at| at <= symbols)
    }

    #[inline(always)]
    fn follow<'m, const WIDTH: usize>(
        self,
        mut out: Place<'m>,
        symbols: usize,
        distances: &[u8],
        reach: Reach,
        ahead: Ahead,
        literals: &[u8],
    ) -> Written<'m> {
        assert!(matches!(WIDTH, 1 | 2 | 4 | 8) && out.len() >= symbols * WIDTH + SPREAD_SLACK);
        assert!(distances.len() >= symbols + SPREAD_SLACK && are_inside(&distances[..symbols]));
        let near = !reach.is_far;
        let bytes = out.bytes();
        // SAFETY: the features as above; there is slack, and no distance leads out of the block, as has just been asserted.
        unsafe {
            match WIDTH {
                1 if near && !reach.is_close => in_registers::<1, 2, 4>(bytes, symbols, distances, literals, ahead),
                1 if near => in_registers::<1, 2, 6>(bytes, symbols, distances, literals, ahead),
                2 if near => in_registers::<2, 4, 5>(bytes, symbols, distances, literals, ahead),
                2 => in_registers::<2, 8, 5>(bytes, symbols, distances, literals, ahead),
                4 if near => in_registers::<4, 8, 4>(bytes, symbols, distances, literals, ahead),
                4 => in_registers::<4, 16, 4>(bytes, symbols, distances, literals, ahead),
                _ => {
                    place_literals::<WIDTH>(bytes, symbols, distances, literals);
                    copy_symbols::<WIDTH>(bytes, symbols, distances);
                }
            }
            // All symbols have been written, whole vectors of them, from literals and from symbols before.
            out.written(symbols * WIDTH)
        }
    }
}

/// As [`Spread::note`], where matches are few or long.
#[inline(always)]
fn match_by_match(entries: &mut [u8], at: usize, symbols: usize, word: TokenWord, min_match: usize) -> Option<usize> {
    let mut flags = word.flags;
    // Where the word's tokens would start, which their positions are added to, if matches were as long as literals.
    let mut start = at;
    // As many literals as there may be, before the first match and behind each.
    entries[at..at + VECTOR].fill(0);
    for (&length, &distance) in word.lengths.iter().zip(word.distances).take(flags.count_ones() as usize) {
        let first = start + flags.trailing_zeros() as usize;
        flags &= flags.wrapping_sub(1);
        let length = usize::from(length) + min_match;
        start += length - 1;
        if first + length > symbols {
            return None;
        }
        let row: &mut [u8; ROW] = (&mut entries[first..first + ROW]).try_into().expect("as many");
        // SAFETY: only `with_best` makes an `Avx512`, for which alone this is called, and only where it has found every feature of these instructions; a row is read and at
        // most as much is written.
        unsafe {
            let distances = _mm256_loadu_si256(ROWS[usize::from(distance)].as_ptr().cast());
            let mask = _bzhi_u32(u32::MAX, length as u32);
            _mm256_mask_storeu_epi8(row.as_mut_ptr().cast(), mask, distances);
        }
        if length > ROW {
            write_match(&mut entries[first..first + length], distance);
        }
        entries[first + length..][..VECTOR].fill(0);
    }
    Some(start + word.tokens).filter(|&at| at <= symbols)
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
    /// The machine has AVX-512 VBMI2.
    #[inline(always)]
    unsafe fn new(word: &TokenWord, min_match: usize) -> Self {
        let lengths: &[u8; VECTOR] = word.lengths[..VECTOR].try_into().expect("as many");
        // SAFETY: the load is of the array; the features are the caller's.
        unsafe {
            let beyond = _mm512_adds_epu8(load(lengths.as_ptr()), _mm512_set1_epi8((min_match - 1) as i8));
            // The highest bit says it: unlike a comparison, no work for the unit that permutes.
            let more_than = |symbols: usize| {
                let lengths = _mm512_adds_epu8(beyond, _mm512_set1_epi8((128 - symbols) as i8));
                _pdep_u64(_mm512_movepi8_mask(lengths), word.flags)
            };
            let middle = if word.asks_for_few { more_than(FEW) } else { word.flags };
            Self { beyond, middle, long: if middle == 0 { 0 } else { more_than(SHORT) } }
        }
    }
}

/// Distances of tokens, one a byte, and which of a token's places it takes.
///
/// # Safety
/// The machine has AVX-512 VBMI2.
#[inline(always)]
unsafe fn by_token(word: &TokenWord, lengths: &Lengths) -> (__m512i, __m512i) {
    // The low bits of a byte, one more each.
    const TAKEN: [u8; 16] = [1, 3, 7, 15, 31, 63, 127, 255, 0, 0, 0, 0, 0, 0, 0, 0];
    let distances: &[u8; VECTOR] = word.distances[..VECTOR].try_into().expect("as many");
    // SAFETY: the load is of the array; the features are the caller's.
    unsafe {
        let back = _mm512_maskz_expand_epi8(word.flags, load(distances.as_ptr()));
        let more = _mm512_maskz_expand_epi8(word.flags, lengths.beyond);
        let taken = _mm512_broadcast_i32x4(_mm_loadu_si128(TAKEN.as_ptr().cast()));
        let those = load(THOSE.0[VECTOR - word.tokens..][..VECTOR].as_ptr());
        (back, _mm512_and_si512(those, _mm512_shuffle_epi8(taken, more)))
    }
}

/// Writes the distances of tokens of at most `PLACES` ([`FEW`] or [`BYTES`]) symbols, as many at a time as have room in a vector with so many places each. Returns where the next go.
///
/// # Safety
/// The machine has AVX-512 VBMI2; behind `at` there is room for as much as these tokens take, and a vector.
#[inline(always)]
unsafe fn in_groups<const PLACES: usize>(
    entries: &mut [u8],
    mut at: usize,
    word: &TokenWord,
    lengths: &Lengths,
) -> usize {
    // SAFETY: loads are of arrays; the rest is the caller's.
    unsafe {
        let distances: &[u8; VECTOR] = word.distances[..VECTOR].try_into().expect("as many");
        let distances = _mm512_maskz_expand_epi8(word.flags, load(distances.as_ptr()));
        let beyond = _mm512_maskz_expand_epi8(word.flags, lengths.beyond);
        // None of what is no token.
        let symbols = _mm512_maskz_add_epi8(u64::MAX >> (VECTOR - word.tokens), beyond, _mm512_set1_epi8(1));
        let (tokens, places) = (load(TOKENS[PLACES / BYTES].0.as_ptr()), load(PLACES_OF[PLACES / BYTES].0.as_ptr()));
        for i in 0..PLACES {
            let tokens = _mm512_add_epi8(tokens, _mm512_set1_epi8((VECTOR / PLACES * i) as i8));
            let taken = _mm512_cmplt_epu8_mask(places, _mm512_permutexvar_epi8(tokens, symbols));
            at += compress(_mm512_permutexvar_epi8(tokens, distances), taken, entries, at);
        }
    }
    at
}

/// The same of tokens of at most [`SHORT`] symbols, where a literal and a match behind it are one: tokens of columns of integers as bytes alternate.
///
/// # Safety
/// As [`in_groups`], and the machine has BMI2.
#[inline(always)]
unsafe fn in_pairs(entries: &mut [u8], mut at: usize, word: &TokenWord, lengths: &Lengths) -> usize {
    const { assert!(SHORT + 1 == BYTES) };
    let tokens = u64::MAX >> (VECTOR - word.tokens);
    let literals = tokens & !word.flags;
    let joined = word.flags & literals << 1;
    let starts = tokens & !joined;
    // SAFETY: loads are of arrays; the rest is the caller's.
    unsafe {
        let with_match = _pext_u64(word.flags | joined >> 1, starts);
        let with_literal = _pext_u64(literals, starts);
        let distances: &[u8; VECTOR] = word.distances[..VECTOR].try_into().expect("as many");
        let distances = _mm512_maskz_expand_epi8(with_match, load(distances.as_ptr()));
        let one = _mm512_set1_epi8(1);
        let symbols = _mm512_maskz_expand_epi8(with_match, lengths.beyond);
        let symbols = _mm512_mask_add_epi8(symbols, with_match, symbols, one);
        let symbols = _mm512_mask_add_epi8(symbols, with_literal, symbols, one);
        let (numbers, places) = (load(TOKENS[1].0.as_ptr()), load(PLACES_OF[1].0.as_ptr()));
        // Few words have more, and fewer would have to be jumped over.
        let count = (starts.count_ones() as usize).max(MOSTLY_PAIRS);
        for first in (0..count).step_by(BYTES) {
            let numbers = _mm512_add_epi8(numbers, _mm512_set1_epi8(first as i8));
            let taken = _mm512_cmplt_epu8_mask(places, _mm512_permutexvar_epi8(numbers, symbols));
            let of_matches = !_pdep_u64(with_literal >> first, u64::from_le_bytes([1; BYTES]));
            at += compress(_mm512_maskz_permutexvar_epi8(of_matches, numbers, distances), taken, entries, at);
        }
    }
    at
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

/// As [`in_groups`], but what is longer by itself.
///
/// # Safety
/// The machine has AVX-512 VBMI2.
#[inline(always)]
unsafe fn between_long(
    entries: &mut [u8],
    mut at: usize,
    symbols: usize,
    word: &TokenWord,
    min_match: usize,
    lengths: &Lengths,
) -> Option<usize> {
    let (mut back, mut taken) = ([0u8; VECTOR + BYTES], [0u8; VECTOR + BYTES]);
    // SAFETY: stores are of a vector's bytes of the arrays; the features are the caller's.
    unsafe {
        let (distances, bytes) = by_token(word, lengths);
        _mm512_storeu_si512(back.as_mut_ptr().cast(), distances);
        _mm512_storeu_si512(taken.as_mut_ptr().cast(), bytes);
    }
    let group = |bytes: &[u8; VECTOR + BYTES], token: usize| {
        u64::from_le_bytes(bytes[token..token + BYTES].try_into().expect("as many"))
    };
    let mut token = 0;
    while token < word.tokens {
        let next_long = (lengths.long >> token) as u8;
        let count = (next_long.trailing_zeros() as usize).min(BYTES);
        // SAFETY: as above.
        at += unsafe {
            let back = _mm512_set1_epi64(group(&back, token) as i64);
            let taken = _bzhi_u64(group(&taken, token), (count * 8) as u32);
            compress(_mm512_shuffle_epi8(back, load(TOKENS[1].0.as_ptr())), taken, entries, at)
        };
        token += count;
        if next_long != 0 {
            let number = (word.flags & !(u64::MAX << token)).count_ones() as usize;
            let end = at + usize::from(word.lengths[number]) + min_match;
            if end > symbols {
                return None;
            }
            write_match(&mut entries[at..end], back[token]);
            at = end;
            token += 1;
        }
    }
    Some(at)
}

/// Writes the lanes that are taken one after another to `entries[at..]`, and 0 behind them up to a vector. Returns how many.
///
/// # Safety
/// There is a vector of entries from `at` on, and the machine has AVX-512 VBMI2.
#[inline(always)]
unsafe fn compress(lanes: __m512i, taken: u64, entries: &mut [u8], at: usize) -> usize {
    debug_assert!(at + VECTOR <= entries.len());
    // SAFETY: what the caller has promised.
    unsafe {
        _mm512_storeu_si512(entries.as_mut_ptr().add(at).cast(), _mm512_maskz_compress_epi8(taken, lanes));
    }
    taken.count_ones() as usize
}

/// The next literals, of symbols of `WIDTH` bytes, in the lanes of a mask; 0 in the others.
///
/// # Safety
/// The machine has AVX-512 VBMI2.
#[inline(always)]
unsafe fn expand<const WIDTH: usize>(mask: u64, literals: &[u8], used: &mut usize) -> __m512i {
    let next: &[u8; VECTOR] = literals[*used..*used + VECTOR].try_into().expect("as many");
    *used += mask.count_ones() as usize * WIDTH;
    prefetch(next.as_ptr().wrapping_add(SOON_LITERALS), 1);
    // SAFETY: the load is of the array; the features are the caller's.
    unsafe {
        let next = _mm512_loadu_si512(next.as_ptr().cast());
        match WIDTH {
            1 => _mm512_maskz_expand_epi8(mask, next),
            2 => _mm512_maskz_expand_epi16(mask as u32, next),
            4 => _mm512_maskz_expand_epi32(mask as u16, next),
            _ => _mm512_maskz_expand_epi64(mask as u8, next),
        }
    }
}

/// Writes the literals to their places, and 0 to the others.
///
/// # Safety
/// The machine has AVX-512 VBMI2; `out` and `distances` have [`SPREAD_SLACK`] bytes more than `symbols` symbols.
#[inline(always)]
unsafe fn place_literals<const WIDTH: usize>(
    out: &mut [MaybeUninit<u8>],
    symbols: usize,
    distances: &[u8],
    literals: &[u8],
) {
    let lanes = VECTOR / WIDTH;
    let mut used = 0;
    for at in (0..symbols).step_by(lanes) {
        // SAFETY: a vector from a symbol of the block on reaches no farther than the slack behind the last.
        unsafe {
            let distances = distances.as_ptr().add(at);
            let mask = match WIDTH {
                1 => _mm512_testn_epi8_mask(load(distances), load(distances)),
                2 => {
                    let distances = _mm256_loadu_si256(distances.cast());
                    _mm256_testn_epi8_mask(distances, distances).into()
                }
                4 => {
                    let distances = _mm_loadu_si128(distances.cast());
                    _mm_testn_epi8_mask(distances, distances).into()
                }
                _ => {
                    let distances = _mm_loadl_epi64(distances.cast());
                    u64::from(_mm_testn_epi8_mask(distances, distances)) & 0xff
                }
            };
            let literals = expand::<WIDTH>(mask, literals, &mut used);
            _mm512_storeu_si512(out.as_mut_ptr().add(at * WIDTH).cast(), literals);
        }
    }
}

/// Copies each symbol from its source; a literal onto itself.
///
/// # Safety
/// `out`, which is initialised, and `distances` have `symbols` symbols, and no distance is greater than the symbols before it.
#[inline(always)]
unsafe fn copy_symbols<const WIDTH: usize>(out: &mut [MaybeUninit<u8>], symbols: usize, distances: &[u8]) {
    let start = out.as_mut_ptr().cast::<u8>();
    for (at, &distance) in distances[..symbols].iter().enumerate() {
        // SAFETY: `at` is a symbol of the block, and so is what the distance leads to, says the caller. Loads and stores are unaligned.
        unsafe {
            let (from, to) = (start.add((at - usize::from(distance)) * WIDTH), start.add(at * WIDTH));
            match WIDTH {
                1 => to.write(from.read()),
                2 => to.cast::<u16>().write_unaligned(from.cast::<u16>().read_unaligned()),
                4 => to.cast::<u32>().write_unaligned(from.cast::<u32>().read_unaligned()),
                _ => to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()),
            }
        }
    }
}

/// Symbols 64 bytes at a time, none farther from its source than `VECTORS` registers hold, and of these no more than `2^ROUNDS` in a row of which each is the source of the next.
///
/// # Safety
/// The machine has AVX-512 VBMI and VBMI2; `out` and `distances` have [`SPREAD_SLACK`] bytes more than `symbols` symbols.
#[inline(always)]
unsafe fn in_registers<const WIDTH: usize, const VECTORS: usize, const ROUNDS: usize>(
    out: &mut [MaybeUninit<u8>],
    symbols: usize,
    distances: &[u8],
    literals: &[u8],
    ahead: Ahead,
) {
    let lanes = VECTOR / WIDTH;
    let mut numbers = [0u8; VECTOR];
    numbers.iter_mut().zip(0..).for_each(|(number, i)| *number = i);
    let mut used = 0;
    // What is not to be asked for is replaced by what is written at once: a prefetch more instead of a jump.
    let (read, written) = (ahead.read.unwrap_or(out.as_ptr().cast()), ahead.written.unwrap_or(out.as_ptr().cast()));
    // SAFETY: a vector from a symbol of the block on reaches no farther than the slack behind the last.
    unsafe {
        let numbers = Lanes::<WIDTH>::widen(numbers.as_ptr());
        // The oldest first.
        let mut window = [_mm512_setzero_si512(); VECTORS];
        for at in (0..symbols).step_by(lanes) {
            prefetch_second(read.wrapping_add(at * WIDTH));
            prefetch_second(written.wrapping_add(at * WIDTH));
            let distances = Lanes::<WIDTH>::widen(distances.as_ptr().add(at));
            let of_matches = Lanes::<WIDTH>::having(distances, -1);
            let literals = expand::<WIDTH>(!of_matches & (u64::MAX >> (VECTOR - lanes)), literals, &mut used);
            // Counted from the first of these symbols: negative where it is before them. A literal is its own source.
            let sources = Lanes::<WIDTH>::subtract(numbers, distances);
            let before = Lanes::<WIDTH>::negative(sources);
            // What is before them is found, and is its own source now.
            let mut roots = Lanes::<WIDTH>::blend(before, sources, numbers);
            // A source becomes that one's source, until it is there.
            for _ in 0..ROUNDS {
                roots = Lanes::<WIDTH>::permute(roots, roots);
            }
            let found = if WIDTH == 1 && VECTORS == 2 {
                // The highest bit but one says which vector; it is not set in a literal.
                let last = Lanes::<WIDTH>::negative(_mm512_add_epi8(sources, sources));
                let found = _mm512_mask_permutexvar_epi8(literals, before, sources, window[0]);
                _mm512_mask_permutexvar_epi8(found, last, sources, window[1])
            } else {
                // Pairs of vectors, then pairs of pairs, chosen by the bits of the source above those of its lane.
                let mut found = window;
                let mut left = VECTORS / 2;
                for i in 0..left {
                    found[i] = Lanes::<WIDTH>::permute_both(found[2 * i], sources, found[2 * i + 1]);
                }
                let mut bit = 2 * lanes as i32;
                while left > 1 {
                    let odd = Lanes::<WIDTH>::having(sources, bit);
                    left /= 2;
                    for i in 0..left {
                        found[i] = Lanes::<WIDTH>::blend(odd, found[2 * i], found[2 * i + 1]);
                    }
                    bit *= 2;
                }
                Lanes::<WIDTH>::blend(of_matches, literals, found[0])
            };
            let made = Lanes::<WIDTH>::permute(roots, found);
            _mm512_storeu_si512(out.as_mut_ptr().add(at * WIDTH).cast(), made);
            window.rotate_left(1);
            window[VECTORS - 1] = made;
        }
    }
}
