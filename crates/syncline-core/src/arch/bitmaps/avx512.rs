//! The loops over vectors. Callers have found AVX-512 BW, VL, VBMI, VBMI2 and VPOPCNTDQ.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::pieces::{Bitmaps, KEY_BYTES, PIECE, REACH};
use super::{BITMAP_SLACK, Rule, TokensOut};

/// Positions whose bitmaps are a vector.
const LANES: usize = 8;
/// Bytes of a vector.
const VECTOR: usize = 64;

/// The 64 bytes from `at` on.
#[inline(always)]
pub(super) fn load(bytes: &[u8], at: usize) -> __m512i {
    let bytes: &[u8; VECTOR] = bytes[at..at + VECTOR].try_into().expect("as many");
    // SAFETY: a load of the array, unaligned, by an instruction that callers in this file have enabled.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline(always)]
pub(super) fn store(bytes: &mut [u8], at: usize, vector: __m512i) {
    let bytes: &mut [u8; VECTOR] = (&mut bytes[at..at + VECTOR]).try_into().expect("as many");
    // SAFETY: a store to the array, unaligned, by an instruction that callers in this file have enabled.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector) }
}

/// The bitmaps of eight positions.
#[inline(always)]
fn load_bitmaps(bitmaps: &[u64], at: usize) -> __m512i {
    let bitmaps: &[u64; LANES] = bitmaps[at..at + LANES].try_into().expect("as many");
    // SAFETY: as above.
    unsafe { _mm512_loadu_si512(bitmaps.as_ptr().cast()) }
}

enabled! {
    /// Writes `keys`, of `KEY` (1 or 2) bytes each, from the last position to the first: that of position 0 ends the
    /// first [`KEY_BYTES`].
    pub(super) fn reverse<const KEY: usize>(keys: &[u8], count: usize, reversed: &mut [u8]) {
        let mut order = [0u8; VECTOR];
        for (i, number) in order.iter_mut().enumerate() {
            *number = (VECTOR - KEY - i / KEY * KEY + i % KEY) as u8;
        }
        let order = load(&order, 0);
        for at in (0..count * KEY).step_by(VECTOR) {
            store(reversed, KEY_BYTES - VECTOR - at, _mm512_permutexvar_epi8(order, load(keys, at)));
        }
    }

    /// Makes bitmaps of windows of `32 * HALVES` (1, 2 or 4) symbols, for positions `from` and on, from keys of `KEY`
    /// bytes, which each of `repeated` has several times.
    pub(super) fn fill<const KEY: usize, const HALVES: usize>(reversed: &[u8], from: usize, repeated: &[u32], near: &mut [u64], far: &mut [u64]) {
        let count = repeated.len();
        assert!(near.len() >= count && far.len() >= count && (from + count) * KEY <= KEY_BYTES && reversed.len() >= KEY_BYTES + 4 * VECTOR);
        for (i, &key) in repeated.iter().enumerate() {
            let key = _mm512_set1_epi32(key as i32);
            let at = KEY_BYTES - (from + i) * KEY;
            // SAFETY: `at` is at most `KEY_BYTES`, and behind that there are four vectors.
            let window = |number: usize| unsafe { _mm512_loadu_si512(reversed.as_ptr().add(at + number * VECTOR).cast()) };
            let halves = |number: usize| match KEY {
                1 => _mm512_cmpeq_epi8_mask(window(number), key),
                _ if HALVES == 1 => _mm512_cmpeq_epi16_mask(window(0), key).into(),
                _ => {
                    let low = _mm512_cmpeq_epi16_mask(window(2 * number), key);
                    let high = _mm512_cmpeq_epi16_mask(window(2 * number + 1), key);
                    u64::from(high) << 32 | u64::from(low)
                }
            };
            // SAFETY: `i` is below their lengths, as has just been asserted.
            unsafe {
                *near.get_unchecked_mut(i) = if HALVES == 1 { halves(0) & u64::from(u32::MAX) } else { halves(0) };
                if HALVES == 4 {
                    *far.get_unchecked_mut(i) = halves(1);
                }
            }
        }
    }

    /// Notes which of the first `count` positions may have a candidate that agrees in `2^doublings` symbols: 1, or 4 to
    /// 16.
    pub(super) fn note_possible<const FAR: bool>(bitmaps: &mut Bitmaps, count: usize, doublings: u32) {
        match doublings {
            0 => note_possible_in::<FAR, 0>(bitmaps, count),
            2 => note_possible_in::<FAR, 2>(bitmaps, count),
            3 => note_possible_in::<FAR, 3>(bitmaps, count),
            _ => note_possible_in::<FAR, 4>(bitmaps, count),
        }
    }

    fn note_possible_in<const FAR: bool, const DOUBLINGS: usize>(bitmaps: &mut Bitmaps, count: usize) {
        let Bitmaps { near, far, possible, .. } = bitmaps;
        // What the eight positions before those just loaded share with the 0, 1, 3, 7 behind them.
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
            // The first vectors lack what is behind them.
            if let Some(possible) = number.checked_sub(DOUBLINGS).and_then(|number| possible.get_mut(number)) {
                *possible = _mm512_test_epi64_mask(any, any);
            }
        }
    }

    /// Finds, for each of the first `count` positions, the symbols to its next token, if it starts one, and the
    /// distance, 0 for a literal. Symbols are compared up to `most` beyond those of the key: where some agree as far as
    /// that, the symbols are 0. Positions that cannot start a match are left out, eight at a time.
    pub(super) fn matches<const FAR: bool, const DEPTH: usize>(bitmaps: &mut Bitmaps, count: usize, rule: &Rule, most: usize) {
        assert!(most + rule.key_symbols <= REACH && count <= PIECE);
        let Bitmaps { near, far, possible, steps, distances } = bitmaps;
        let one = _mm512_set1_epi64(1);
        let zero = _mm512_setzero_si512();
        let min_match = _mm512_set1_epi64(rule.min_match as i64);
        let less = |bits: __m512i| _mm512_add_epi64(bits, _mm512_set1_epi64(-1));
        for at in (0..count).step_by(LANES) {
            if possible[at / LANES] == 0 {
                distances[at..at + LANES].fill(0);
                continue;
            }
            let mut low = load_bitmaps(near, at);
            let mut high = if FAR { load_bitmaps(far, at) } else { zero };
            for key in 1..rule.key_symbols {
                low = _mm512_and_si512(low, load_bitmaps(near, at + key));
                if FAR {
                    high = _mm512_and_si512(high, load_bitmaps(far, at + key));
                }
            }
            // Without the nearest ones: what is farther.
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
            let mut length = _mm512_maskz_mov_epi64(alive, _mm512_set1_epi64(rule.key_symbols as i64));
            let (mut best_low, mut best_high) = (low, high);
            for step in 0..most {
                low = _mm512_and_si512(low, load_bitmaps(near, at + rule.key_symbols + step));
                if FAR {
                    high = _mm512_and_si512(high, load_bitmaps(far, at + rule.key_symbols + step));
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
            // The bits below the lowest that is set: all, if none is.
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

    /// Writes the fields of the tokens that start at some of 64 positions, whose symbols are at the start of `bytes`,
    /// behind so many matches, and bytes of literals, that are there. Returns which are matches, one bit each.
    pub(super) fn write<const WIDTH: usize>(
        starts: u64,
        steps: &[u8],
        distances: &[u8],
        min_match: usize,
        bytes: &[u8],
        out: &mut TokensOut,
        (matches, literals): (usize, usize),
    ) -> u64 {
        let distances = load(distances, 0);
        let of_matches = _mm512_test_epi8_mask(distances, distances) & starts;
        if of_matches != 0 {
            let lengths = _mm512_sub_epi8(load(steps, 0), _mm512_set1_epi8(min_match as i8));
            store(out.lengths, matches, _mm512_maskz_compress_epi8(of_matches, lengths));
            store(out.distances, matches, _mm512_maskz_compress_epi8(of_matches, distances));
        }
        let of_literals = starts & !of_matches;
        let bytes: &[u8; BITMAP_SLACK] = bytes[..BITMAP_SLACK].try_into().expect("as many");
        let mut at = literals;
        for number in 0..WIDTH {
            let lanes = VECTOR / WIDTH;
            let mask = of_literals >> (number * lanes) & u64::MAX >> (VECTOR - lanes);
            let symbols = load(bytes, number * VECTOR);
            let symbols = match WIDTH {
                1 => _mm512_maskz_compress_epi8(mask, symbols),
                2 => _mm512_maskz_compress_epi16(mask as u32, symbols),
                4 => _mm512_maskz_compress_epi32(mask as u16, symbols),
                _ => _mm512_maskz_compress_epi64(mask as u8, symbols),
            };
            store(out.literals, at, symbols);
            at += mask.count_ones() as usize * WIDTH;
        }
        _pext_u64(of_matches, starts)
    }

    /// How many of `most` bytes are the same from `a` and `b` on.
    pub(super) fn common(bytes: &[u8], a: usize, b: usize, most: usize) -> usize {
        let mut at = 0;
        while at < most {
            let differ = _mm512_cmpneq_epi8_mask(load(bytes, a + at), load(bytes, b + at));
            if differ != 0 {
                return most.min(at + differ.trailing_zeros() as usize);
            }
            at += VECTOR;
        }
        most
    }
}
