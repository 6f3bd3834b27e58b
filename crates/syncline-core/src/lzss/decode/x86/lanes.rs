//! Vectors of 64 bytes as lanes of one, two or four bytes.

#![allow(unsafe_code, reason = "vector instructions")]

use std::arch::x86_64::*;

/// Loads a vector from any address.
///
/// # Safety
/// 64 bytes from `at` on may be read; the processor has AVX-512.
#[inline(always)]
pub(super) unsafe fn load(at: *const u8) -> __m512i {
    // SAFETY: the caller promises that the bytes may be read. The load is unaligned.
    unsafe { _mm512_loadu_si512(at.cast()) }
}

/// Instructions on lanes of `WIDTH` (1, 2 or 4) bytes.
pub(super) struct Lanes<const WIDTH: usize>;

impl<const WIDTH: usize> Lanes<WIDTH> {
    /// Loads bytes from `at` on, one into each lane.
    ///
    /// # Safety
    /// `64 / WIDTH` bytes from `at` on may be read, and the processor has AVX-512 BW.
    #[inline(always)]
    pub(super) unsafe fn widen(at: *const u8) -> __m512i {
        // SAFETY: the caller promises that the processor has these instructions.
        unsafe {
            match WIDTH {
                1 => load(at),
                2 => _mm512_cvtepu8_epi16(_mm256_loadu_si256(at.cast())),
                _ => _mm512_cvtepu8_epi32(_mm_loadu_si128(at.cast())),
            }
        }
    }

    /// Subtracts `b` from `a` in each lane.
    ///
    /// # Safety
    /// The processor has AVX-512 BW.
    #[inline(always)]
    pub(super) unsafe fn subtract(a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller promises that the processor has these instructions.
        unsafe {
            match WIDTH {
                1 => _mm512_sub_epi8(a, b),
                2 => _mm512_sub_epi16(a, b),
                _ => _mm512_sub_epi32(a, b),
            }
        }
    }

    /// Returns the lanes in which any of these bits is set.
    ///
    /// # Safety
    /// The processor has AVX-512 BW.
    #[inline(always)]
    pub(super) unsafe fn any_bit(a: __m512i, bits: i32) -> u64 {
        // SAFETY: the caller promises that the processor has these instructions.
        unsafe {
            match WIDTH {
                1 => _mm512_test_epi8_mask(a, _mm512_set1_epi8(bits as i8)),
                2 => _mm512_test_epi16_mask(a, _mm512_set1_epi16(bits as i16)).into(),
                _ => _mm512_test_epi32_mask(a, _mm512_set1_epi32(bits)).into(),
            }
        }
    }

    /// Returns the lanes whose highest bit is set. Unlike [`Lanes::any_bit`] this does not use the unit that permutes.
    ///
    /// # Safety
    /// The processor has AVX-512 BW and DQ.
    #[inline(always)]
    pub(super) unsafe fn negative(a: __m512i) -> u64 {
        // SAFETY: the caller promises that the processor has these instructions.
        unsafe {
            match WIDTH {
                1 => _mm512_movepi8_mask(a),
                2 => _mm512_movepi16_mask(a).into(),
                _ => _mm512_movepi32_mask(a).into(),
            }
        }
    }

    /// Returns the lanes of `a` at the indices `index`.
    ///
    /// # Safety
    /// The processor has AVX-512 VBMI.
    #[inline(always)]
    pub(super) unsafe fn permute(index: __m512i, a: __m512i) -> __m512i {
        // SAFETY: the caller promises that the processor has these instructions.
        unsafe {
            match WIDTH {
                1 => _mm512_permutexvar_epi8(index, a),
                2 => _mm512_permutexvar_epi16(index, a),
                _ => _mm512_permutexvar_epi32(index, a),
            }
        }
    }

    /// Returns the lanes of `a` and `b` together at the indices `index`.
    ///
    /// # Safety
    /// The processor has AVX-512 VBMI.
    #[inline(always)]
    pub(super) unsafe fn permute2(a: __m512i, index: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller promises that the processor has these instructions.
        unsafe {
            match WIDTH {
                1 => _mm512_permutex2var_epi8(a, index, b),
                2 => _mm512_permutex2var_epi16(a, index, b),
                _ => _mm512_permutex2var_epi32(a, index, b),
            }
        }
    }

    /// Returns `b` in the lanes of the mask and `a` elsewhere.
    ///
    /// # Safety
    /// The processor has AVX-512 BW.
    #[inline(always)]
    pub(super) unsafe fn blend(mask: u64, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the caller promises that the processor has these instructions.
        unsafe {
            match WIDTH {
                1 => _mm512_mask_blend_epi8(mask, a, b),
                2 => _mm512_mask_blend_epi16(mask as u32, a, b),
                _ => _mm512_mask_blend_epi32(mask as u16, a, b),
            }
        }
    }
}
