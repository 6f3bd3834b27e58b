//! Codewords of 16 symbols at a time, by permutation where the alphabet is small; joined to two, four and eight.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{JOINED, PIECES, Pieces};
use crate::huffman::Symbol;
use crate::simd::Avx512Vbmi2;

/// Pairs in a vector, and pieces of four or eight.
const LANES: usize = 8;
/// Entries in a vector.
const ENTRIES: usize = 16;
/// Even numbers, then odd ones.
const EVEN_ODD: [i64; LANES] = [0, 2, 4, 6, 1, 3, 5, 7];

/// Bits and how many, in lanes of 64 bits.
type Joined = (__m512i, __m512i);

/// Does what [`super::join`] does.
#[inline(always)]
pub fn join<S: Symbol, const TABLE: usize>(
    _: Avx512Vbmi2,
    symbols: &[S; JOINED],
    table: &[u32; TABLE],
    alphabet: usize,
    pieces: &mut Pieces,
) -> usize {
    const { assert!(TABLE.is_power_of_two() && TABLE >= 4 * ENTRIES && PIECES == 2 * LANES) };
    // SAFETY: the token proves that the processor has every feature of these instructions.
    // Stores are to arrays of as many.
    unsafe {
        let (first, second) = (fours(symbols, 0, table, alphabet), fours(symbols, 1, table, alphabet));
        // Each holds eight symbols, in the order 0, 4, 1, 5 and so on.
        let (bits, lengths) = join_pairs(first, second);
        if _mm512_cmpgt_epu64_mask(lengths, _mm512_set1_epi64(64)) != 0 {
            for (number, (bits, lengths)) in [first, second].into_iter().enumerate() {
                _mm512_storeu_si512(pieces.bits[number * LANES..][..LANES].as_mut_ptr().cast(), bits);
                _mm512_storeu_si512(pieces.lengths[number * LANES..][..LANES].as_mut_ptr().cast(), lengths);
            }
            return PIECES;
        }
        let order = _mm512_loadu_si512(EVEN_ODD.as_ptr().cast());
        _mm512_storeu_si512(pieces.bits.as_mut_ptr().cast(), _mm512_permutexvar_epi64(order, bits));
        _mm512_storeu_si512(pieces.lengths.as_mut_ptr().cast(), _mm512_permutexvar_epi64(order, lengths));
    }
    PIECES / 2
}

/// Returns the codewords of 32 symbols, the first half or the second, with four codewords joined in each word.
///
/// # Safety
/// The machine has AVX-512 BW.
#[inline(always)]
unsafe fn fours<S: Symbol, const TABLE: usize>(
    symbols: &[S; JOINED],
    half: usize,
    table: &[u32; TABLE],
    alphabet: usize,
) -> Joined {
    let symbols: &[S; JOINED / 2] = symbols[half * JOINED / 2..][..JOINED / 2].try_into().expect("as many");
    // SAFETY: loads are of the array, of 32 or 64 bytes; the features are the caller's.
    unsafe {
        // Every other four symbols, and those between.
        let (even, odd) = match S::BYTES {
            1 => {
                let order = _mm512_cvtepi64_epi32(_mm512_loadu_si512(EVEN_ODD.as_ptr().cast()));
                let symbols = _mm256_permutevar8x32_epi32(_mm256_loadu_si256(symbols.as_ptr().cast()), order);
                let (even, odd) = (_mm256_castsi256_si128(symbols), _mm256_extracti128_si256::<1>(symbols));
                (_mm512_cvtepu8_epi32(even), _mm512_cvtepu8_epi32(odd))
            }
            _ => {
                let order = _mm512_loadu_si512(EVEN_ODD.as_ptr().cast());
                let symbols = _mm512_permutexvar_epi64(order, _mm512_loadu_si512(symbols.as_ptr().cast()));
                let (even, odd) = (_mm512_castsi512_si256(symbols), _mm512_extracti64x4_epi64::<1>(symbols));
                (_mm512_cvtepu16_epi32(even), _mm512_cvtepu16_epi32(odd))
            }
        };
        join_pairs(pairs(look_up(even, table, alphabet)), pairs(look_up(odd, table, alphabet)))
    }
}

/// Returns the table entries of 16 symbols.
///
/// # Safety
/// The machine has AVX-512 BW.
#[inline(always)]
unsafe fn look_up<const TABLE: usize>(symbols: __m512i, table: &[u32; TABLE], alphabet: usize) -> __m512i {
    // SAFETY: the first four vectors of the table are there, as the caller's caller has asserted, and gathered entries
    // have numbers below its length.
    unsafe {
        let part = |number: usize| _mm512_loadu_si512(table.as_ptr().add(number * ENTRIES).cast());
        let low = |symbols| _mm512_permutex2var_epi32(part(0), symbols, part(1));
        if alphabet <= 2 * ENTRIES {
            low(symbols)
        } else if alphabet <= 4 * ENTRIES {
            let is_high = _mm512_test_epi32_mask(symbols, _mm512_set1_epi32(2 * ENTRIES as i32));
            _mm512_mask_mov_epi32(low(symbols), is_high, _mm512_permutex2var_epi32(part(2), symbols, part(3)))
        } else {
            let symbols = _mm512_and_si512(symbols, _mm512_set1_epi32(TABLE as i32 - 1));
            _mm512_i32gather_epi32::<4>(symbols, table.as_ptr().cast())
        }
    }
}

/// Entries joined two by two.
///
/// # Safety
/// The machine has AVX-512 BW.
#[inline(always)]
unsafe fn pairs(entries: __m512i) -> Joined {
    // SAFETY: the features are the caller's.
    unsafe {
        let byte = _mm512_set1_epi64(0xff);
        let second = _mm512_srli_epi64::<32>(entries);
        let first_bits = _mm512_and_si512(_mm512_srli_epi64::<8>(entries), _mm512_set1_epi64(0xff_ffff));
        let shifted = _mm512_sllv_epi64(first_bits, _mm512_and_si512(second, byte));
        let lengths = _mm512_and_si512(_mm512_add_epi64(entries, second), byte);
        (_mm512_or_si512(shifted, _mm512_srli_epi64::<8>(second)), lengths)
    }
}

/// Joins each even lane with the one after it: those of `a` become the even lanes, those of `b` the odd ones.
///
/// # Safety
/// The machine has AVX-512 BW.
#[inline(always)]
unsafe fn join_pairs(a: Joined, b: Joined) -> Joined {
    // SAFETY: the features are the caller's.
    unsafe {
        let (first, first_lengths) = (_mm512_unpacklo_epi64(a.0, b.0), _mm512_unpacklo_epi64(a.1, b.1));
        let (second, second_lengths) = (_mm512_unpackhi_epi64(a.0, b.0), _mm512_unpackhi_epi64(a.1, b.1));
        let bits = _mm512_or_si512(_mm512_sllv_epi64(first, second_lengths), second);
        (bits, _mm512_add_epi64(first_lengths, second_lengths))
    }
}
