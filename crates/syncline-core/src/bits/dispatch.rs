//! Runs a portable loop compiled for the best instruction set that this processor has.
//!
//! Variable shifts cost three micro-operations on baseline x86-64 and one with BMI2, and sums over symbols need AVX2 to
//! keep up with the decoder. So a loop is written once, in portable Rust, and compiled twice.

#![allow(unsafe_code)]

/// A loop that can be compiled for several instruction sets.
pub trait Kernel {
    /// The result of the loop.
    type Output;

    /// Runs the loop. This function and everything hot that it calls must be `#[inline(always)]`.
    fn run(self) -> Self::Output;
}

/// Runs `kernel`, compiled with AVX2, BMI1/2 and LZCNT where the processor has them. The result is the same everywhere.
#[inline]
pub fn run<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    if has_avx2_bmi2() {
        // SAFETY: `has_avx2_bmi2` has just checked every feature that the function enables.
        return unsafe { run_avx2_bmi2(kernel) };
    }
    kernel.run()
}

/// Returns whether this processor has the instruction sets that [`run`] compiles for.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_avx2_bmi2() -> bool {
    // Each macro call reads a cached word: cheap next to any loop worth dispatching.
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
fn run_avx2_bmi2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run()
}
