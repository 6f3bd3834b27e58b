//! Lookups of half octaves, eight at a time.

#![allow(unsafe_code, reason = "AVX2 intrinsics")]

use std::arch::x86_64::*;

use super::{FIRST_HALF_OCTAVE, HALF_OCTAVE_SHIFT};
use crate::simd::Avx2;

/// Looks up the half octaves of activities, as far as there are eight. Returns how many that were.
#[inline(always)]
pub fn look_up(_: Avx2, activities: &[i32], table: &[u8; 32], out: &mut [u8]) -> usize {
    // SAFETY: the token proves that the processor has AVX2, FMA, BMI1, BMI2 and LZCNT.
    unsafe { look_up_enabled(activities, table, out) }
}

#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
#[inline]
fn look_up_enabled(activities: &[i32], table: &[u8; 32], out: &mut [u8]) -> usize {
    let (halves, _) = table.as_chunks::<16>();
    // SAFETY: each half is 16 bytes; the loads need no alignment.
    let [low, high] = [0, 1].map(|half| unsafe { _mm_loadu_si128(halves[half].as_ptr().cast()) });
    let (low, high) = (_mm256_broadcastsi128_si256(low), _mm256_broadcastsi128_si256(high));
    let (three, first) = (_mm256_set1_epi32(3), _mm256_set1_epi32(FIRST_HALF_OCTAVE as i32));
    // The lowest byte of each integer, in the first four bytes of both halves.
    let pack = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
    let (activities, _) = activities.as_chunks::<8>();
    let (out, _) = out.as_chunks_mut::<8>();
    for (activities, out) in activities.iter().zip(out.iter_mut()) {
        // SAFETY: eight integers are 32 bytes; the load needs no alignment.
        let activity = unsafe { _mm256_loadu_si256(activities.as_ptr().cast()) };
        let weighted = _mm256_add_epi32(_mm256_add_epi32(activity, activity), three);
        let bits = _mm256_castps_si256(_mm256_cvtepi32_ps(weighted));
        let half_octave = _mm256_sub_epi32(_mm256_srli_epi32::<HALF_OCTAVE_SHIFT>(bits), first);
        // Bit 4 of the number, moved to the top of its byte, chooses the half of the table.
        let is_high = _mm256_slli_epi32::<3>(half_octave);
        let found =
            _mm256_blendv_epi8(_mm256_shuffle_epi8(low, half_octave), _mm256_shuffle_epi8(high, half_octave), is_high);
        let packed = _mm256_shuffle_epi8(found, pack);
        let both = _mm_unpacklo_epi32(_mm256_castsi256_si128(packed), _mm256_extracti128_si256::<1>(packed));
        *out = _mm_cvtsi128_si64(both).to_le_bytes();
    }
    activities.len() * 8
}
