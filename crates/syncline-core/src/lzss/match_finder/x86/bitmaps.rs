//! Bitmaps of equal symbols in the window of each position, and the loops over them with AVX-512.
//!
//! `E(i)` is the bitmap of position `i`: bit `d - 1` is set if the symbol at distance `d` is equal. The candidates of a
//! token at `i` are `E(i) & E(i + 1) & ...` over the symbols of a key, and the candidates that match one more symbol
//! are the remaining bits after the next `E`.

#![allow(unsafe_code, reason = "vector loads and stores")]

use std::arch::x86_64::*;

use super::super::block_tokens::{MAX_BYTES, SearchRules};
use super::vectors::{VECTOR, load, store};

/// Positions that are searched together.
pub(super) const PIECE: usize = 256;
/// Most symbols of a match that are compared by bitmaps.
pub(super) const REACH: usize = 32;
/// Bitmaps after a piece that its positions need.
pub(super) const AHEAD: usize = REACH + 16;
/// Bytes of a block's keys.
pub(super) const KEY_BYTES: usize = MAX_BYTES;

/// The positions of a piece and of the symbols after it.
#[derive(Debug)]
pub(super) struct Bitmaps {
    /// Which of the 64 symbols before the position are equal, the nearest in bit 0.
    pub near: [u64; PIECE + AHEAD],
    /// Which of the 64 symbols before these are equal.
    pub far: [u64; PIECE + AHEAD],
    /// Which positions may start a match, eight in a byte.
    pub possible: [u8; PIECE / 8],
    /// Symbols from the position to the next token if a token starts here; 0 if the match is longer than the bitmaps
    /// show.
    pub steps: [u8; PIECE],
    /// Distance of the match, 0 for a literal.
    pub distances: [u8; PIECE],
}

/// Positions whose bitmaps fill a vector.
const LANES: usize = 8;

/// Loads the bitmaps of eight positions.
#[inline(always)]
fn load_bitmaps(bitmaps: &[u64], at: usize) -> __m512i {
    let bitmaps: &[u64; LANES] = bitmaps[at..at + LANES].try_into().expect("LANES bitmaps");
    // SAFETY: an unaligned load of the array. All callers enable AVX-512.
    unsafe { _mm512_loadu_si512(bitmaps.as_ptr().cast()) }
}

/// Writes `keys`, of `KEY` (1 or 2) bytes each, in reverse order, so that the key of position 0 ends the first
/// [`KEY_BYTES`] bytes.
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
#[inline]
pub(super) fn reverse_keys<const KEY: usize>(keys: &[u8], count: usize, reversed: &mut [u8]) {
    let mut order = [0u8; VECTOR];
    for (i, number) in order.iter_mut().enumerate() {
        *number = (VECTOR - KEY - i / KEY * KEY + i % KEY) as u8;
    }
    let order = load(&order, 0);
    for at in (0..count * KEY).step_by(VECTOR) {
        store(reversed, KEY_BYTES - VECTOR - at, _mm512_permutexvar_epi8(order, load(keys, at)));
    }
}

/// Computes the bitmaps of windows of `32 * HALVES` (1, 2 or 4) symbols for the positions from `from` on. Keys have
/// `KEY` bytes; each element of `repeated` holds the key of one position several times.
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
#[inline]
pub(super) fn compare_keys<const KEY: usize, const HALVES: usize>(
    reversed: &[u8],
    from: usize,
    repeated: &[u32],
    near: &mut [u64],
    far: &mut [u64],
) {
    let count = repeated.len();
    assert!(near.len() >= count && far.len() >= count);
    assert!((from + count) * KEY <= KEY_BYTES && reversed.len() >= KEY_BYTES + 4 * VECTOR);
    for (i, &key) in repeated.iter().enumerate() {
        let key = _mm512_set1_epi32(key as i32);
        let at = KEY_BYTES - (from + i) * KEY;
        let window = |number: usize| {
            // SAFETY: `at` is at most `KEY_BYTES`, after which there are four vectors, as asserted above.
            unsafe { _mm512_loadu_si512(reversed.as_ptr().add(at + number * VECTOR).cast()) }
        };
        let halves = |number: usize| match KEY {
            1 => _mm512_cmpeq_epi8_mask(window(number), key),
            _ if HALVES == 1 => _mm512_cmpeq_epi16_mask(window(0), key).into(),
            _ => {
                let low = _mm512_cmpeq_epi16_mask(window(2 * number), key);
                let high = _mm512_cmpeq_epi16_mask(window(2 * number + 1), key);
                u64::from(high) << 32 | u64::from(low)
            }
        };
        // SAFETY: `i` is less than both lengths, as asserted above.
        unsafe {
            *near.get_unchecked_mut(i) = if HALVES == 1 { halves(0) & u64::from(u32::MAX) } else { halves(0) };
            if HALVES == 4 {
                *far.get_unchecked_mut(i) = halves(1);
            }
        }
    }
}

/// Marks which of the first `count` positions may have a candidate that agrees in `2^doublings` symbols: 1, or 4 to 16.
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
#[inline]
pub(super) fn mark_possible<const FAR: bool>(bitmaps: &mut Bitmaps, count: usize, doublings: u32) {
    match doublings {
        0 => mark_possible_in::<FAR, 0>(bitmaps, count),
        2 => mark_possible_in::<FAR, 2>(bitmaps, count),
        3 => mark_possible_in::<FAR, 3>(bitmaps, count),
        _ => mark_possible_in::<FAR, 4>(bitmaps, count),
    }
}

#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
fn mark_possible_in<const FAR: bool, const DOUBLINGS: usize>(bitmaps: &mut Bitmaps, count: usize) {
    let Bitmaps { near, far, possible, .. } = bitmaps;
    // The previous eight positions, combined with the 0, 1, 3 and 7 positions after each.
    let mut before = [[_mm512_setzero_si512(); 4]; 2];
    let vectors = count.div_ceil(LANES) + DOUBLINGS;
    for number in 0..vectors {
        let mut any = _mm512_setzero_si512();
        for (bitmaps, before_number, is_there) in [(&*near, 0, true), (&*far, 1, FAR)] {
            if is_there {
                let mut all = load_bitmaps(bitmaps, number * LANES);
                for (doubling, before) in before[before_number][..DOUBLINGS].iter_mut().enumerate() {
                    let earlier = std::mem::replace(before, all);
                    let later = match doubling {
                        0 => _mm512_alignr_epi64::<1>(all, earlier),
                        1 => _mm512_alignr_epi64::<2>(all, earlier),
                        2 => _mm512_alignr_epi64::<4>(all, earlier),
                        _ => all,
                    };
                    all = _mm512_and_si512(earlier, later);
                }
                any = _mm512_or_si512(any, all);
            }
        }
        // The results are complete once later vectors have been combined.
        if let Some(possible) = number.checked_sub(DOUBLINGS).and_then(|number| possible.get_mut(number)) {
            *possible = _mm512_test_epi64_mask(any, any);
        }
    }
}

/// Finds the match of each of the first `count` positions, as steps and distances. Compares up to `most` symbols after
/// the key; where these agree, the step is 0. Skips positions that cannot start a match, eight at a time.
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512vpopcntdq,avx512vl,bmi1,bmi2,lzcnt,popcnt")]
#[inline]
pub(super) fn find_matches<const FAR: bool, const DEPTH: usize>(
    bitmaps: &mut Bitmaps,
    count: usize,
    rules: &SearchRules,
    most: usize,
) {
    assert!(most + rules.key_symbols <= REACH && count <= PIECE);
    let Bitmaps { near, far, possible, steps, distances } = bitmaps;
    let one = _mm512_set1_epi64(1);
    let zero = _mm512_setzero_si512();
    let min_match = _mm512_set1_epi64(rules.min_match as i64);
    let less = |bits: __m512i| _mm512_add_epi64(bits, _mm512_set1_epi64(-1));
    for at in (0..count).step_by(LANES) {
        if possible[at / LANES] == 0 {
            distances[at..at + LANES].fill(0);
            continue;
        }
        let mut low = load_bitmaps(near, at);
        let mut high = if FAR { load_bitmaps(far, at) } else { zero };
        for key in 1..rules.key_symbols {
            low = _mm512_and_si512(low, load_bitmaps(near, at + key));
            if FAR {
                high = _mm512_and_si512(high, load_bitmaps(far, at + key));
            }
        }
        // Clearing the `DEPTH` nearest candidates leaves those that do not count.
        let (mut rest, mut high_rest) = (low, high);
        for _ in 0..DEPTH {
            if FAR {
                let none = _mm512_testn_epi64_mask(rest, rest);
                high_rest = _mm512_mask_and_epi64(high_rest, none, high_rest, less(high_rest));
            }
            rest = _mm512_and_si512(rest, less(rest));
        }
        low = _mm512_xor_si512(low, rest);
        high = _mm512_xor_si512(high, high_rest);
        let is_any = |low, high| {
            let both = if FAR { _mm512_or_si512(low, high) } else { low };
            _mm512_test_epi64_mask(both, both)
        };
        let mut alive = is_any(low, high);
        let mut length = _mm512_maskz_mov_epi64(alive, _mm512_set1_epi64(rules.key_symbols as i64));
        let (mut best_low, mut best_high) = (low, high);
        for step in 0..most {
            low = _mm512_and_si512(low, load_bitmaps(near, at + rules.key_symbols + step));
            if FAR {
                high = _mm512_and_si512(high, load_bitmaps(far, at + rules.key_symbols + step));
            }
            alive = is_any(low, high);
            length = _mm512_mask_add_epi64(length, alive, length, one);
            if DEPTH > 1 {
                best_low = _mm512_mask_mov_epi64(best_low, alive, low);
                if FAR {
                    best_high = _mm512_mask_mov_epi64(best_high, alive, high);
                }
            }
        }
        // The number of bits below the lowest set bit; all bits if none is set.
        let below = |bits| _mm512_popcnt_epi64(_mm512_andnot_si512(bits, less(bits)));
        let mut distance = below(best_low);
        if FAR {
            let none = _mm512_testn_epi64_mask(best_low, best_low);
            distance = _mm512_mask_add_epi64(distance, none, distance, below(best_high));
        }
        let is_match = _mm512_cmpge_epu64_mask(length, min_match);
        let step = _mm512_mask_mov_epi64(one, is_match, length);
        let step = _mm512_maskz_mov_epi64(!alive, step);
        let distance = _mm512_maskz_add_epi64(is_match & !alive, distance, one);
        steps[at..at + LANES].copy_from_slice(&_mm_cvtsi128_si64(_mm512_cvtepi64_epi8(step)).to_le_bytes());
        distances[at..at + LANES].copy_from_slice(&_mm_cvtsi128_si64(_mm512_cvtepi64_epi8(distance)).to_le_bytes());
    }
}
