//! Software prefetching. Hardware prefetchers stop at page boundaries and do not follow tiles.

#![allow(unsafe_code, reason = "the prefetch instruction is an unsafe intrinsic")]

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// Prefetches `len` bytes from `address` to the first-level cache. The address may be invalid.
#[inline(always)]
pub fn prefetch(address: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..len).step_by(CACHE_LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults and is no memory access in the sense of the language.
        unsafe { _mm_prefetch::<{ _MM_HINT_T0 }>(address.wrapping_add(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, len);
}

/// Prefetches one cache line to the second-level cache, for data that is needed later.
#[inline(always)]
pub fn prefetch_second(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults and is no memory access in the sense of the language.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<{ _MM_HINT_T1 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Memory that a loop prefetches line by line while it works on something else. A burst of prefetches would stall.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrefetchTargets {
    /// Start of the memory that is read next.
    pub read: Option<*const u8>,
    /// Start of the memory that is written next.
    pub written: Option<*const u8>,
}
