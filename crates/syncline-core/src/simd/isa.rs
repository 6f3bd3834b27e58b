//! The instruction sets that code is compiled for, and tokens that prove that the processor has one.

use std::fmt;
use std::sync::OnceLock;

/// A set of instructions that code is compiled for. Each one includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// The instruction set of every processor of the target.
    Portable,
    /// AVX2, FMA, BMI1, BMI2 and LZCNT.
    Avx2,
    /// AVX-512 F, BW, CD, DQ and VL.
    Avx512,
    /// AVX-512 VBMI, VBMI2 and VPOPCNTDQ, and POPCNT.
    Avx512Vbmi2,
}

impl Isa {
    /// Returns the widest instruction set of this processor. It is detected once.
    #[inline]
    pub fn detected() -> Self {
        static DETECTED: OnceLock<Isa> = OnceLock::new();
        *DETECTED.get_or_init(detect)
    }

    /// Returns the name that reports show.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "AVX2, FMA, BMI2",
            Self::Avx512 => "AVX-512",
            Self::Avx512Vbmi2 => "AVX-512 with VBMI2",
        }
    }

    /// Returns whether code compiled for `other` can run where this set is there. A constant, unlike `>=`.
    #[inline(always)]
    pub const fn includes(self, other: Self) -> bool {
        self as u8 >= other as u8
    }
}

/// Returns the name of the widest instruction set that the codec uses on this processor, for reports. Streams and
/// arrays are the same with each of them.
///
/// ```
/// let known = ["AVX-512 with VBMI2", "AVX-512", "AVX2, FMA, BMI2", "portable"];
/// assert!(known.contains(&syncline_core::simd::instruction_set_name()));
/// ```
pub fn instruction_set_name() -> &'static str {
    Isa::detected().name()
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Isa {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt");
    let avx512 = avx2
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512cd")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    let vbmi2 = avx512
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("avx512vpopcntdq")
        && is_x86_feature_detected!("popcnt");
    match (vbmi2, avx512, avx2) {
        (true, ..) => Isa::Avx512Vbmi2,
        (_, true, _) => Isa::Avx512,
        (.., true) => Isa::Avx2,
        _ => Isa::Portable,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> Isa {
    Isa::Portable
}

mod sealed {
    pub trait Sealed {}
}

/// A token that proves that the processor has an instruction set.
///
/// Generic code asks it for the token of a wider set. The answer is a constant where the token's type is known, so that
/// the branch that does not apply is not compiled.
pub trait InstructionSet: Copy + fmt::Debug + sealed::Sealed {
    /// The instruction set.
    const ISA: Isa;

    /// Returns the token of AVX2 if this set includes it.
    #[inline(always)]
    fn avx2(self) -> Option<Avx2> {
        Self::ISA.includes(Isa::Avx2).then_some(Avx2(()))
    }

    /// Returns the token of AVX-512 if this set includes it.
    #[inline(always)]
    fn avx512(self) -> Option<Avx512> {
        Self::ISA.includes(Isa::Avx512).then_some(Avx512(()))
    }

    /// Returns the token of AVX-512 VBMI2 if this set includes it.
    #[inline(always)]
    fn avx512_vbmi2(self) -> Option<Avx512Vbmi2> {
        Self::ISA.includes(Isa::Avx512Vbmi2).then_some(Avx512Vbmi2(()))
    }
}

/// The token of [`Isa::Portable`].
#[derive(Clone, Copy, Debug)]
pub struct Portable;

impl sealed::Sealed for Portable {}

impl InstructionSet for Portable {
    const ISA: Isa = Isa::Portable;
}

macro_rules! tokens {
    ($($name:ident)*) => {$(
        #[doc = concat!("The token of [`Isa::", stringify!($name), "`]. Only detection makes one.")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name(());

        impl $name {
            /// Returns the token if this processor has the instruction set.
            #[inline]
            pub fn detected() -> Option<Self> {
                Isa::detected().includes(Isa::$name).then_some(Self(()))
            }
        }

        impl sealed::Sealed for $name {}

        impl InstructionSet for $name {
            const ISA: Isa = Isa::$name;
        }
    )*};
}
tokens!(Avx2 Avx512 Avx512Vbmi2);
