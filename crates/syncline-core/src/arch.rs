//! Instruction-set specific code behind run-time dispatch, and what else needs `unsafe` around arrays.
//!
//! Every kernel is one safe, portable, always-inlined function. `dispatched!` also compiles it with wider vectors
//! enabled and chooses at run time, so that both instances compute the same by construction; the tests compare them all
//! the same.

#![allow(unsafe_code)]

pub mod agree;
pub mod bitmaps;
pub mod spread;

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
