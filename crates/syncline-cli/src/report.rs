//! Parts of the page that `syncline report` writes.

pub mod charts;
pub mod chunks;
pub mod image;
pub mod page;
pub mod signal;
pub mod slices;
pub mod statistics;

use half::{bf16, f16};
use syncline::ElementType;

/// Returns little-endian elements as numbers. 64-bit integers are rounded.
pub fn numbers(bytes: &[u8], element_type: ElementType) -> Vec<f64> {
    fn each<const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.as_chunks::<N>().0.iter().map(|&element| value(element)).collect()
    }
    match element_type {
        ElementType::F32 => each(bytes, |b| f32::from_le_bytes(b).into()),
        ElementType::F64 => each(bytes, f64::from_le_bytes),
        ElementType::F16 => each(bytes, |b| f16::from_le_bytes(b).into()),
        ElementType::Bf16 => each(bytes, |b| bf16::from_le_bytes(b).into()),
        ElementType::U8 => each(bytes, |b| u8::from_le_bytes(b).into()),
        ElementType::U16 => each(bytes, |b| u16::from_le_bytes(b).into()),
        ElementType::U32 => each(bytes, |b| u32::from_le_bytes(b).into()),
        ElementType::U64 => each(bytes, |b| u64::from_le_bytes(b) as f64),
        ElementType::I8 => each(bytes, |b| i8::from_le_bytes(b).into()),
        ElementType::I16 => each(bytes, |b| i16::from_le_bytes(b).into()),
        ElementType::I32 => each(bytes, |b| i32::from_le_bytes(b).into()),
        ElementType::I64 => each(bytes, |b| i64::from_le_bytes(b) as f64),
    }
}

/// Replaces what is no value by NaN: infinities, and fill values, which are given as numbers.
pub fn without_special(values: &mut [f64], fills: &[f64]) {
    for value in values {
        if !value.is_finite() || fills.contains(value) {
            *value = f64::NAN;
        }
    }
}
