//! Runs code that is compiled for the best instruction set of this processor.
//!
//! A kernel is written once in portable Rust and compiled several times. Variable shifts take three micro-operations on
//! baseline x86-64 and one with BMI2, and loops over arrays need AVX2 to reach the speed of memory. If a hand-written
//! version is faster, the kernel requests a wider instruction set from its token and calls that version.

#![allow(unsafe_code, reason = "functions that enable target features may be called only after detection")]

#[cfg(target_arch = "x86_64")]
use super::isa::{Avx2, Avx512, Avx512Vbmi2};
use super::isa::{InstructionSet, Isa, Portable};

/// A loop that is compiled for several instruction sets.
pub trait Kernel {
    /// The result of the loop.
    type Output;

    /// The widest instruction set that it is compiled for. It is also compiled for [`Isa::Avx2`] and [`Isa::Portable`].
    const WIDEST: Isa = Isa::Avx2;

    /// Runs the loop. This function and everything hot that it calls must be `#[inline(always)]`, because a function
    /// that is not inlined is compiled for the baseline. The result must not depend on `isa`.
    fn run<I: InstructionSet>(self, isa: I) -> Self::Output;
}

/// Runs `kernel`, compiled for the best instruction set of this processor.
#[inline]
pub fn run<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt")]
        fn avx2<K: Kernel>(kernel: K, token: Avx2) -> K::Output {
            kernel.run(token)
        }
        #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi1,bmi2,lzcnt")]
        fn avx512<K: Kernel>(kernel: K, token: Avx512) -> K::Output {
            kernel.run(token)
        }
        avx512_vbmi2_fns! {
            fn avx512_vbmi2[K: Kernel](kernel: K, token: Avx512Vbmi2) -> K::Output {
                kernel.run(token)
            }
        }
        if K::WIDEST.includes(Isa::Avx512Vbmi2)
            && let Some(token) = Avx512Vbmi2::detected()
        {
            // SAFETY: the token proves that the processor has every feature that the function enables.
            return unsafe { avx512_vbmi2(kernel, token) };
        }
        if K::WIDEST as u8 == Isa::Avx512 as u8
            && let Some(token) = Avx512::detected()
        {
            // SAFETY: the token proves that the processor has every feature that the function enables.
            return unsafe { avx512(kernel, token) };
        }
        if K::WIDEST.includes(Isa::Avx2)
            && let Some(token) = Avx2::detected()
        {
            // SAFETY: the token proves that the processor has every feature that the function enables.
            return unsafe { avx2(kernel, token) };
        }
    }
    kernel.run(Portable)
}

/// Defines a function that calls another one with the same parameters, compiled for AVX2 where the processor has it.
/// The other function must be `#[inline(always)]`.
macro_rules! dispatched {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)? = $body:expr) => {
        $(#[$meta])*
        #[inline]
        $vis fn $name($($arg: $type),*) $(-> $ret)? {
            #[allow(non_camel_case_types)]
            struct Call<$($arg),*>($($arg),*);
            #[allow(unused_parens)]
            impl $crate::simd::Kernel for Call<$($type),*> {
                type Output = ($($ret)?);

                #[inline(always)]
                fn run<I: $crate::simd::InstructionSet>(self, _: I) -> Self::Output {
                    let Self($($arg),*) = self;
                    $body($($arg),*)
                }
            }
            $crate::simd::run(Call($($arg),*))
        }
    };
}
pub(crate) use dispatched;

/// Defines functions that enable the features of [`Isa::Avx512Vbmi2`](super::Isa::Avx512Vbmi2). To call one from a
/// function that does not is unsafe: the caller must hold the token
/// [`Avx512Vbmi2`](super::Avx512Vbmi2).
#[cfg(target_arch = "x86_64")]
macro_rules! avx512_vbmi2_fns {
    ($(
        $(#[$meta:meta])* $vis:vis fn $name:ident
        $([$($type_parameter:ident: $bound:path),+])? $(<$(const $parameter:ident: $kind:ty),+>)?
        ($($arg:tt)*) $(-> $ret:ty)? $body:block
    )*) => {$(
        $(#[$meta])*
        #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2")]
        #[target_feature(enable = "avx512vpopcntdq,avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
        $vis fn $name
            $(<$($type_parameter: $bound),+>)? $(<$(const $parameter: $kind),+>)?
            ($($arg)*) $(-> $ret)? $body
    )*};
}
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512_vbmi2_fns;
