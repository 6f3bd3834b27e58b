//! Vectors of 64 bytes as lanes of one, two or four.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

/// A vector from anywhere.
///
/// # Safety
/// 64 bytes from `at` on may be read; the machine has AVX-512.
#[inline(always)]
pub unsafe fn load(at: *const u8) -> __m512i {
    // SAFETY: the caller's.
    unsafe { _mm512_loadu_si512(at.cast()) }
}

/// Instructions on lanes of `WIDTH` (1, 2 or 4) bytes.
pub struct Lanes<const WIDTH: usize>;

impl<const WIDTH: usize> Lanes<WIDTH> {
    /// Bytes from `at` on, one a lane.
    ///
    /// # Safety
    /// `64 / WIDTH` bytes from `at` on may be read, and the machine has AVX-512 BW.
    #[inline(always)]
    pub unsafe fn widen(at: *const u8) -> __m512i {
        // SAFETY: what the caller has promised.
        unsafe {
            match WIDTH {
                1 => load(at),
                2 => _mm512_cvtepu8_epi16(_mm256_loadu_si256(at.cast())),
                _ => _mm512_cvtepu8_epi32(_mm_loadu_si128(at.cast())),
            }
        }
    }

    /// `a` less `b`, lane by lane.
    ///
    /// # Safety
    /// The machine has AVX-512 BW.
    #[inline(always)]
    pub unsafe fn subtract(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: what the caller has promised.
        unsafe {
            match WIDTH {
                1 => _mm512_sub_epi8(a, b),
                2 => _mm512_sub_epi16(a, b),
                _ => _mm512_sub_epi32(a, b),
            }
        }
    }

    /// The lanes that have any of these bits.
    ///
    /// # Safety
    /// The machine has AVX-512 BW.
    #[inline(always)]
    pub unsafe fn having(a: __m512i, bits: i32) -> u64 {
        // SAFETY: what the caller has promised.
        unsafe {
            match WIDTH {
                1 => _mm512_test_epi8_mask(a, _mm512_set1_epi8(bits as i8)),
                2 => _mm512_test_epi16_mask(a, _mm512_set1_epi16(bits as i16)).into(),
                _ => _mm512_test_epi32_mask(a, _mm512_set1_epi32(bits)).into(),
            }
        }
    }

    /// The lanes whose highest bit is set: unlike [`Lanes::having`], no work for the unit that permutes.
    ///
    /// # Safety
    /// The machine has AVX-512 BW and DQ.
    #[inline(always)]
    pub unsafe fn negative(a: __m512i) -> u64 {
        // SAFETY: what the caller has promised.
        unsafe {
            match WIDTH {
                1 => _mm512_movepi8_mask(a),
                2 => _mm512_movepi16_mask(a).into(),
                _ => _mm512_movepi32_mask(a).into(),
            }
        }
    }

    /// What `a` has in the lanes that `index` names.
    ///
    /// # Safety
    /// The machine has AVX-512 VBMI.
    #[inline(always)]
    pub unsafe fn permute(index: __m512i, a: __m512i) -> __m512i {
        // SAFETY: what the caller has promised.
        unsafe {
            match WIDTH {
                1 => _mm512_permutexvar_epi8(index, a),
                2 => _mm512_permutexvar_epi16(index, a),
                _ => _mm512_permutexvar_epi32(index, a),
            }
        }
    }

    /// What the lanes of `a`, then of `b`, have that `index` names.
    ///
    /// # Safety
    /// The machine has AVX-512 VBMI.
    #[inline(always)]
    pub unsafe fn permute_both(a: __m512i, index: __m512i, b: __m512i) -> __m512i {
        // SAFETY: what the caller has promised.
        unsafe {
            match WIDTH {
                1 => _mm512_permutex2var_epi8(a, index, b),
                2 => _mm512_permutex2var_epi16(a, index, b),
                _ => _mm512_permutex2var_epi32(a, index, b),
            }
        }
    }

    /// `b` in the lanes of the mask, `a` elsewhere.
    ///
    /// # Safety
    /// The machine has AVX-512 BW.
    #[inline(always)]
    pub unsafe fn blend(mask: u64, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: what the caller has promised.
        unsafe {
            match WIDTH {
                1 => _mm512_mask_blend_epi8(mask, a, b),
                2 => _mm512_mask_blend_epi16(mask as u32, a, b),
                _ => _mm512_mask_blend_epi32(mask as u16, a, b),
            }
        }
    }
}
