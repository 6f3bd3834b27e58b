//! Properties of an element that the metrics need, for every element type.

use half::{bf16, f16};

/// One element of an array.
pub(super) trait Sample: Copy + Send + Sync {
    /// Bytes of an element.
    const SIZE: usize;

    /// Returns the element stored in these [`Self::SIZE`] little-endian bytes.
    fn read(bytes: &[u8]) -> Self;

    /// Returns the bit pattern, zero-extended.
    fn bits(self) -> u64;

    /// Returns the value. 64-bit integers are rounded.
    fn value(self) -> f64;

    /// Returns whether this is the floating-point number -0.0.
    fn is_negative_zero(self) -> bool;

    /// Returns `|self - other|` as an unevaluated sum: the rounded difference and its rounding error.
    fn distance(self, other: Self) -> (f64, f64);

    /// Returns whether this element of an original is excluded from the error metrics.
    fn is_special(self, fills: &[u64]) -> bool {
        !self.value().is_finite() || fills.contains(&self.bits())
    }
}

/// Returns the elements stored in these bytes.
pub(super) fn samples<T: Sample>(bytes: &[u8]) -> impl Iterator<Item = T> {
    bytes.chunks_exact(T::SIZE).map(T::read)
}

/// Returns the exact `a - b` of finite values as rounded difference and rounding error (Knuth's two-sum).
fn two_difference(a: f64, b: f64) -> (f64, f64) {
    let difference = a - b;
    let b_part = a - difference;
    let a_part = difference + b_part;
    (difference, (a - a_part) + (b_part - b))
}

macro_rules! float_samples {
    ($($t:ty, $to_f64:expr;)*) => {$(
        impl Sample for $t {
            const SIZE: usize = size_of::<$t>();
            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("a whole element"))
            }
            fn bits(self) -> u64 {
                self.to_bits().into()
            }
            fn value(self) -> f64 {
                $to_f64(self)
            }
            fn is_negative_zero(self) -> bool {
                self.value() == 0.0 && self.value().is_sign_negative()
            }
            fn distance(self, other: Self) -> (f64, f64) {
                let (difference, lost) = two_difference(self.value(), other.value());
                if difference < 0.0 { (-difference, -lost) } else { (difference, lost) }
            }
        }
    )*};
}
float_samples! {
    f32, f64::from;
    f64, std::convert::identity;
    f16, f16::to_f64;
    bf16, bf16::to_f64;
}

macro_rules! integer_samples {
    ($($t:ty => $unsigned:ty),*) => {$(
        impl Sample for $t {
            const SIZE: usize = size_of::<$t>();
            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("a whole element"))
            }
            fn bits(self) -> u64 {
                (self as $unsigned).into()
            }
            fn value(self) -> f64 {
                self as f64
            }
            fn is_negative_zero(self) -> bool {
                false
            }
            fn distance(self, other: Self) -> (f64, f64) {
                let exact = self.abs_diff(other) as u64;
                let rounded = exact as f64;
                (rounded, (i128::from(exact) - rounded as i128) as f64)
            }
        }
    )*};
}
integer_samples! {
    u8 => u8, u16 => u16, u32 => u32, u64 => u64,
    i8 => u8, i16 => u16, i32 => u32, i64 => u64
}

/// Runs a block in which `T` is the Rust type of an [`ElementType`](syncline_core::array::ElementType).
macro_rules! dispatch {
    ($element_type:expr, $t:ident => $body:expr) => {{
        use syncline_core::array::ElementType;
        macro_rules! with {
            ($real:ty) => {{
                type $t = $real;
                $body
            }};
        }
        match $element_type {
            ElementType::F32 => with!(f32),
            ElementType::F64 => with!(f64),
            ElementType::F16 => with!(half::f16),
            ElementType::Bf16 => with!(half::bf16),
            ElementType::U8 => with!(u8),
            ElementType::U16 => with!(u16),
            ElementType::U32 => with!(u32),
            ElementType::U64 => with!(u64),
            ElementType::I8 => with!(i8),
            ElementType::I16 => with!(i16),
            ElementType::I32 => with!(i32),
            ElementType::I64 => with!(i64),
        }
    }};
}
pub(super) use dispatch;
