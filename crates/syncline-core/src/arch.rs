//! Instruction-set specific code behind run-time dispatch, and what else needs `unsafe` around arrays.
//!
//! Every kernel is one safe, portable, always-inlined function. `dispatched!` also compiles it with wider vectors
//! enabled and chooses at run time, so that both instances compute the same by construction; the tests compare them all
//! the same.

#![allow(unsafe_code)]

pub mod agree;
pub mod bitmaps;
pub mod checksum;
pub mod codewords;
pub mod copy;
pub mod float;
pub mod lorenzo;
pub mod place;
pub mod scan;
pub mod scatter;
pub mod spread;
pub mod tile;

/// Whether the machine has what the AVX2 instances use.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn has_avx2() -> bool {
    // The macro caches its answers in an atomic.
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
}

/// Whether the machine has, beyond that, the vectors of 64 bytes whose bytes can be permuted, compressed and expanded.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn has_avx512_vbmi2() -> bool {
    has_avx2()
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vbmi2")
}

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// Asks for the `len` bytes from `address` on to be brought to the cache. Any address will do: nothing is read that the
/// program could see.
#[inline(always)]
pub fn prefetch(address: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..len).step_by(CACHE_LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch does not access memory in the sense of the language and never faults, whatever the
        // address.
        unsafe { _mm_prefetch::<{ _MM_HINT_T0 }>(address.wrapping_add(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, len);
}

/// Memory that is soon read or written, asked for a cache line at a time while something else is done: many at once
/// would be waited for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ahead {
    /// Where it is read.
    pub read: Option<*const u8>,
    /// Where it is written.
    pub written: Option<*const u8>,
}

/// As [`prefetch`], one line, to the second cache: for what the first has no room for yet.
#[inline(always)]
pub fn prefetch_second(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as in `prefetch`.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<{ _MM_HINT_T1 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// `len` zero bytes, or `None` if there is no room for them.
fn zeroed(len: usize) -> Option<Vec<u8>> {
    if len == 0 {
        return Some(Vec::new());
    }
    let layout = std::alloc::Layout::array::<u8>(len).ok()?;
    // `vec!` would abort where there is no room.
    // SAFETY: the layout's size is `len`, which is not 0.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    if start.is_null() {
        return None;
    }
    // SAFETY: `start` is an allocation of the global allocator of `len` zero bytes with the layout of a `Vec<u8>` of
    // this capacity.
    let mut bytes = unsafe { Vec::from_raw_parts(start, 0, len) };
    advise_huge_pages(bytes.spare_capacity_mut());
    // SAFETY: all of the capacity is zeroed.
    unsafe { bytes.set_len(len) };
    Some(bytes)
}

/// Makes room for `additional` bytes more, on huge pages where the system offers them and there are enough: a stream of
/// 25 MB was written in 9.7 instead of 12.7 ms.
pub fn reserve(bytes: &mut Vec<u8>, additional: usize) {
    if bytes.capacity() - bytes.len() < additional {
        bytes.reserve(additional);
        advise_huge_pages(bytes.spare_capacity_mut());
    }
}

/// Asks for large pages where this memory is whole ones.
#[cfg(target_os = "linux")]
fn advise_huge_pages(memory: &mut [std::mem::MaybeUninit<u8>]) {
    const HUGE_PAGE: usize = 2 << 20;
    let start = memory.as_mut_ptr().align_offset(HUGE_PAGE);
    let len = memory.len().saturating_sub(start) / HUGE_PAGE * HUGE_PAGE;
    if len > 0 {
        // SAFETY: the range is whole pages inside `memory`, and this advice changes neither contents nor access. It may
        // be refused: no matter.
        unsafe { libc::madvise(memory.as_mut_ptr().add(start).cast(), len, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages(_: &mut [std::mem::MaybeUninit<u8>]) {}
