//! Compares the bytes at candidates with those at a position, by the vector instructions of the processor.

#![allow(unsafe_code, reason = "vector instructions")]

use crate::simd::InstructionSet;

/// Bytes that are compared at once.
pub(super) const COMPARED_BYTES: usize = 32;
/// Candidates that are compared at once.
const CANDIDATES: usize = 4;
/// Bits of a position in a word of [`CANDIDATES`] positions.
const POSITION_BITS: u32 = 16;

/// The best of [`CANDIDATES`] candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nearest {
    /// The greatest number of equal symbols. If all [`COMPARED_BYTES`] are equal it may be one too small.
    pub length: usize,
    /// The highest position with as many equal symbols.
    pub position: usize,
    /// Whether the symbols of the key are equal at all candidates.
    pub all: bool,
}

/// Returns a mask with bit i set if byte i of `a` and `b` is equal.
#[inline(always)]
pub(super) fn equal_bytes<I: InstructionSet>(isa: I, a: &[u8; COMPARED_BYTES], b: &[u8; COMPARED_BYTES]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if isa.avx2().is_some() {
        use std::arch::x86_64::{_mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_movemask_epi8};
        // SAFETY: the token proves that the processor has AVX2. Loads are unaligned and of whole arrays.
        unsafe {
            let (a, b) = (_mm256_loadu_si256(a.as_ptr().cast()), _mm256_loadu_si256(b.as_ptr().cast()));
            return _mm256_movemask_epi8(_mm256_cmpeq_epi8(a, b)) as u32;
        }
    }
    let _ = isa;
    a.iter().zip(b).rev().fold(0, |mask, (a, b)| mask << 1 | u32::from(a == b))
}

/// Compares the bytes at four candidates with `here`, in symbols of `WIDTH` (1, 2, 4 or 8) bytes. `positions` holds the
/// positions of the candidates, 16 bits each.
#[inline(always)]
pub(super) fn nearest_of_four<const WIDTH: usize, I: InstructionSet>(
    isa: I,
    here: &[u8; COMPARED_BYTES],
    there: [&[u8; COMPARED_BYTES]; CANDIDATES],
    positions: u64,
    key_symbols: u32,
) -> Nearest {
    #[cfg(target_arch = "x86_64")]
    if isa.avx512().is_some() {
        // SAFETY: the token proves that the processor has AVX-512.
        return unsafe { nearest_of_four_avx512::<WIDTH>(here, there, positions, key_symbols) };
    }
    let (mut best, mut all) = (0, u32::MAX);
    for (i, there) in there.into_iter().enumerate() {
        let same = equal_bytes(isa, there, here);
        all &= same;
        let position = positions >> (POSITION_BITS * i as u32) & 0xffff;
        let this = u64::from(same.trailing_ones() / WIDTH as u32) << POSITION_BITS | position;
        best = std::hint::select_unpredictable(this > best, this, best);
    }
    Nearest {
        length: (best >> POSITION_BITS) as usize,
        position: (best & 0xffff) as usize,
        all: all.trailing_ones() >= key_symbols * WIDTH as u32,
    }
}

/// Computes [`nearest_of_four`] by two comparisons of two candidates each.
///
/// # Safety
/// The processor has AVX-512 F, BW, CD and VL.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn nearest_of_four_avx512<const WIDTH: usize>(
    here: &[u8; COMPARED_BYTES],
    there: [&[u8; COMPARED_BYTES]; CANDIDATES],
    positions: u64,
    key_symbols: u32,
) -> Nearest {
    use std::arch::x86_64::*;
    // SAFETY: the caller proves that the processor has AVX-512. Loads are unaligned and of whole arrays.
    unsafe {
        let load = |bytes: &[u8; COMPARED_BYTES]| _mm256_loadu_si256(bytes.as_ptr().cast());
        let pair = |a, b| _mm512_inserti64x4::<1>(_mm512_castsi256_si512(load(a)), load(b));
        let here = _mm512_broadcast_i64x4(load(here));
        let (low, high) = (pair(there[0], there[1]), pair(there[2], there[3]));
        // A bit for each symbol, 32 bits for each candidate.
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
        // The lowest zero bit and those below it, at most 32 bits; then 31 minus the number of equal symbols.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{self, Isa, Kernel, Portable};

    #[derive(Clone, Copy)]
    struct FourCandidates<'a, const WIDTH: usize>(
        &'a [u8; COMPARED_BYTES],
        [&'a [u8; COMPARED_BYTES]; CANDIDATES],
        u64,
        u32,
    );

    impl<const WIDTH: usize> Kernel for FourCandidates<'_, WIDTH> {
        type Output = Nearest;
        const WIDEST: Isa = Isa::Avx512;

        #[inline(always)]
        fn run<I: InstructionSet>(self, isa: I) -> Nearest {
            nearest_of_four::<WIDTH, I>(isa, self.0, self.1, self.2, self.3)
        }
    }

    fn compare_candidates<const WIDTH: usize>() {
        let here: [u8; COMPARED_BYTES] = std::array::from_fn(|i| i as u8 * 5);
        // Every length at every candidate, with the others one symbol shorter, as long, or empty.
        let agreeing =
            |bytes: usize| -> [u8; COMPARED_BYTES] { std::array::from_fn(|i| here[i] ^ u8::from(i >= bytes)) };
        for length in 0..COMPARED_BYTES / WIDTH {
            for candidate in 0..CANDIDATES {
                for other in [length.saturating_sub(1), length, 0] {
                    let all: [[u8; COMPARED_BYTES]; CANDIDATES] =
                        std::array::from_fn(|i| agreeing(WIDTH * if i == candidate { length } else { other }));
                    let candidates = FourCandidates::<WIDTH>(&here, all.each_ref(), 0x0003_0500_7fff_8000, 1);
                    let found = simd::run(candidates);
                    let position = if other == length { 0x8000 } else { [0x8000, 0x7fff, 0x500, 3][candidate] };
                    assert_eq!(
                        found,
                        Nearest { length, position, all: length > 0 && other > 0 },
                        "{WIDTH} {candidate} {other}"
                    );
                    assert_eq!(found, candidates.run(Portable));
                }
            }
        }
        let whole = simd::run(FourCandidates::<WIDTH>(&here, [&here; CANDIDATES], 0x0001_0002_0003_0004, 1));
        assert!(whole.all && whole.position == 4 && whole.length >= (COMPARED_BYTES / WIDTH).min(31));
    }

    #[test]
    fn the_longest_and_nearest_of_four() {
        compare_candidates::<1>();
        compare_candidates::<2>();
        compare_candidates::<4>();
        compare_candidates::<8>();
    }

    #[derive(Clone, Copy)]
    struct Compare<'a>(&'a [u8; COMPARED_BYTES], &'a [u8; COMPARED_BYTES]);

    impl Kernel for Compare<'_> {
        type Output = u32;
        const WIDEST: Isa = Isa::Avx512;

        #[inline(always)]
        fn run<I: InstructionSet>(self, isa: I) -> u32 {
            equal_bytes(isa, self.0, self.1)
        }
    }

    #[test]
    fn differences_clear_their_bits() {
        let a: [u8; COMPARED_BYTES] = std::array::from_fn(|i| i as u8 * 7);
        assert_eq!((simd::run(Compare(&a, &a)), equal_bytes(Portable, &a, &a)), (u32::MAX, u32::MAX));
        for first in 0..COMPARED_BYTES {
            for second in 0..first {
                let mut b = a;
                b[first] ^= 1;
                b[second] ^= 0x80;
                let expected = !(1 << first | 1 << second);
                assert_eq!((simd::run(Compare(&a, &b)), equal_bytes(Portable, &a, &b)), (expected, expected));
            }
        }
    }
}
