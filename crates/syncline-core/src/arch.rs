//! Instruction-set specific code behind run-time dispatch, and what else needs `unsafe` around arrays.
//!
//! Every kernel is one safe, portable, always-inlined function. [`dispatched!`] also compiles it with wider vectors enabled and chooses at
//! run time, so that both instances compute the same by construction; the tests compare them all the same.

pub mod float;
pub mod lorenzo;
pub mod scan;
pub mod scatter;
pub mod tile;

/// Defines a function that runs `$body` compiled for AVX2 and FMA where the machine has them, and for the baseline elsewhere.
macro_rules! dispatched {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)? = $body:expr) => {
        $(#[$meta])*
        #[inline]
        $vis fn $name($($arg: $type),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
                fn wide($($arg: $type),*) $(-> $ret)? {
                    $body($($arg),*)
                }
                if $crate::arch::has_avx2() {
                    // SAFETY: `has_avx2` has just found every feature that `wide` enables.
                    return unsafe { wide($($arg),*) };
                }
            }
            $body($($arg),*)
        }
    };
}
pub(crate) use dispatched;

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
