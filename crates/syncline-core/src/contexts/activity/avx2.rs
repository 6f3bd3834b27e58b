//! Lookups of half octaves, eight at a time.

#![allow(unsafe_code, reason = "AVX2 intrinsics")]

use std::arch::x86_64::*;

use super::{FIRST_HALF_OCTAVE, HALF_OCTAVE_SHIFT, HALF_OCTAVES};
use crate::simd::Avx2;

/// Looks up the half octaves of activities, of which there are a multiple of eight: sums times a weight.
#[inline(always)]
pub fn look_up(_: Avx2, sums: (&[i32], i32), table: &[u8; HALF_OCTAVES], out: &mut [u8]) {
    // SAFETY: the token proves that the processor has AVX2, FMA, BMI1, BMI2 and LZCNT.
    unsafe { look_up_enabled(sums, table, out) }
}

#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
#[inline]
fn look_up_enabled((sums, weight): (&[i32], i32), table: &[u8; HALF_OCTAVES], out: &mut [u8]) {
    // There are fewer than 48 half octaves.
    let (thirds, _) = table.as_chunks::<16>();
    // SAFETY: each third is 16 bytes; the loads need no alignment.
    let thirds = [0, 1, 2].map(|third| unsafe { _mm_loadu_si128(thirds[third].as_ptr().cast()) });
    let [first_third, second, last] = thirds.map(|third| _mm256_broadcastsi128_si256(third));
    // 3 + 2 times the activity.
    let twice = _mm256_set1_epi32(2 * weight);
    let (three, first) = (_mm256_set1_epi32(3), _mm256_set1_epi32(FIRST_HALF_OCTAVE as i32));
    // The lowest byte of each integer, in the first four bytes of both halves.
    let pack = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
    let (sums, _) = sums.as_chunks::<8>();
    let (out, _) = out.as_chunks_mut::<8>();
    for (sums, out) in sums.iter().zip(out) {
        // SAFETY: eight integers are 32 bytes; the load needs no alignment.
        let sum = unsafe { _mm256_loadu_si256(sums.as_ptr().cast()) };
        let weighted = _mm256_add_epi32(_mm256_mullo_epi32(sum, twice), three);
        let bits = _mm256_castps_si256(_mm256_cvtepi32_ps(weighted));
        let half_octave = _mm256_sub_epi32(_mm256_srli_epi32::<HALF_OCTAVE_SHIFT>(bits), first);
        // Bits 4 and 5 of the number, moved to the top of its byte, choose the third of the table.
        let [in_first, in_second, in_last] = [first_third, second, last].map(|of| _mm256_shuffle_epi8(of, half_octave));
        let found = _mm256_blendv_epi8(in_first, in_second, _mm256_slli_epi32::<3>(half_octave));
        let found = _mm256_blendv_epi8(found, in_last, _mm256_slli_epi32::<2>(half_octave));
        let packed = _mm256_shuffle_epi8(found, pack);
        let both = _mm_unpacklo_epi32(_mm256_castsi256_si128(packed), _mm256_extracti128_si256::<1>(packed));
        *out = _mm_cvtsi128_si64(both).to_le_bytes();
    }
}
