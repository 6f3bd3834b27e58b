//! Vectors of 64 bytes, compared to masks.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{AGREE, Agree, Avx2, Found, KEYS, Nearest, PLACES, VECTOR, WINDOW};

/// Comparisons of two places each, and their results side by side.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(pub(super) Avx2);

impl Agree for Avx512 {
    const VECTORS: bool = true;
    const WINDOWS: bool = true;

    #[inline(always)]
    fn bytes(self, a: &[u8; AGREE], b: &[u8; AGREE]) -> u32 {
        self.0.bytes(a, b)
    }

    #[inline(always)]
    fn nearest<const WIDTH: usize>(
        self,
        here: &[u8; AGREE],
        there: [&[u8; AGREE]; PLACES],
        positions: u64,
        key_symbols: u32,
    ) -> Nearest {
        // SAFETY: only `with_best` makes an `Avx512`, and only where it has found every feature of these instructions;
        // the loads are of 32 bytes that the references hold, unaligned.
        unsafe {
            let load = |bytes: &[u8; AGREE]| _mm256_loadu_si256(bytes.as_ptr().cast());
            let pair = |a, b| _mm512_inserti64x4::<1>(_mm512_castsi256_si512(load(a)), load(b));
            let here = _mm512_broadcast_i64x4(load(here));
            let (low, high) = (pair(there[0], there[1]), pair(there[2], there[3]));
            // A bit for each symbol, the places in 32 bits each.
            let same = match WIDTH {
                1 => {
                    let (low, high) = (_mm512_cmpeq_epi8_mask(low, here), _mm512_cmpeq_epi8_mask(high, here));
                    _mm_set_epi64x(high as i64, low as i64)
                }
                2 => {
                    let (low, high) = (_mm512_cmpeq_epi16_mask(low, here), _mm512_cmpeq_epi16_mask(high, here));
                    _mm_cvtepu16_epi32(_mm_cvtsi64_si128((u64::from(high) << 32 | u64::from(low)) as i64))
                }
                4 => {
                    let (low, high) = (_mm512_cmpeq_epi32_mask(low, here), _mm512_cmpeq_epi32_mask(high, here));
                    _mm_cvtepu8_epi32(_mm_cvtsi32_si128((u32::from(high) << 16 | u32::from(low)) as i32))
                }
                _ => {
                    let (low, high) = (_mm512_cmpeq_epi64_mask(low, here), _mm512_cmpeq_epi64_mask(high, here));
                    let nibbles = _pdep_u32(u32::from(high) << 8 | u32::from(low), 0x0f0f_0f0f);
                    _mm_cvtepu8_epi32(_mm_cvtsi32_si128(nibbles as i32))
                }
            };
            let key = _mm_set1_epi32(((1_u32 << key_symbols) - 1) as i32);
            let all = _mm_cmpeq_epi32_mask(_mm_and_si128(same, key), key) == 0xf;
            // One more low bit than symbols agree, of 32 that do as of 31; then 31 less the symbols.
            let ones = _mm_xor_si128(same, _mm_add_epi32(same, _mm_set1_epi32(1)));
            let missing = _mm_lzcnt_epi32(ones);
            let position = _mm_cvtepu16_epi32(_mm_cvtsi64_si128(positions as i64));
            let score = _mm_sub_epi32(position, _mm_slli_epi32::<16>(missing));
            let score = _mm_max_epi32(score, _mm_shuffle_epi32::<0b01_00_11_10>(score));
            let score = _mm_max_epi32(score, _mm_shuffle_epi32::<0b10_11_00_01>(score));
            let best = _mm_cvtsi128_si32(score);
            Nearest { length: (31 + (best >> 16)) as usize, position: (best & 0xffff) as usize, all }
        }
    }

    #[inline(always)]
    fn keys_in_window<const DEPTH: usize>(self, keys: &[u16; WINDOW], wanted: u16) -> Found {
        let mut found = [0; WINDOW / 64];
        for (i, keys) in keys.as_chunks::<KEYS>().0[..DEPTH].iter().enumerate() {
            // SAFETY: the features as above; the load is of 64 bytes that the reference holds, unaligned.
            let equal = unsafe {
                let keys = _mm512_loadu_si512(keys.as_ptr().cast());
                _mm512_cmpeq_epi16_mask(keys, _mm512_set1_epi16(wanted as i16))
            };
            found[i / 2] |= u64::from(equal) << (i % 2 * KEYS);
        }
        found
    }

    #[inline(always)]
    fn equal_keys(self, a: &[u16; KEYS], b: &[u16; KEYS]) -> u32 {
        // SAFETY: the features as above; the loads are of 64 bytes that the references hold, unaligned.
        unsafe {
            let (a, b) = (_mm512_loadu_si512(a.as_ptr().cast()), _mm512_loadu_si512(b.as_ptr().cast()));
            _mm512_cmpeq_epi16_mask(a, b)
        }
    }

    #[inline(always)]
    fn common(self, a: &[u8; VECTOR], b: &[u8; VECTOR]) -> usize {
        // SAFETY: the features as above; the loads are of 64 bytes that the references hold, unaligned.
        let differ = unsafe {
            let (a, b) = (_mm512_loadu_si512(a.as_ptr().cast()), _mm512_loadu_si512(b.as_ptr().cast()));
            _mm512_cmpneq_epi8_mask(a, b)
        };
        differ.trailing_zeros() as usize
    }
}
