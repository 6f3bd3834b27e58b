//! Operations on floats of 16, 32 and 64 bits.

use half::f16;

use super::{Lanes, Map1, Map2, Map3, Update, each, each2, each3, table};

/// Returns the float in the low 32 bits.
pub(super) fn single(value: u64) -> f32 {
    f32::from_bits(value as u32)
}

/// Returns the register contents of a 32-bit float. Every NaN becomes the single NaN that devices produce.
pub(super) fn single_bits(value: f32) -> u64 {
    u64::from(if value.is_nan() { 0x7FFF_FFFF } else { value.to_bits() })
}

/// Returns the float in all 64 bits.
pub(super) fn double(value: u64) -> f64 {
    f64::from_bits(value)
}

/// Returns the register contents of a 64-bit float. Every NaN becomes the same NaN here, although devices keep the bits
/// of an operand.
pub(super) fn double_bits(value: f64) -> u64 {
    if value.is_nan() { 0x7FF8_0000_0000_0000 } else { value.to_bits() }
}

/// Returns the float in the low 16 bits.
pub(super) fn half(value: u64) -> f16 {
    f16::from_bits(value as u16)
}

/// Rounds to a 32-bit float with "round to odd", so that rounding the result to fewer bits gives the same as rounding
/// the number once: inexact results have an odd last bit.
fn to_odd(value: f64) -> f32 {
    let single = value as f32;
    let (bits, exact) = (single.to_bits(), f64::from(single) == value || !single.is_finite());
    if exact || bits & 1 == 1 {
        return single;
    }
    f32::from_bits(if f64::from(single).abs() < value.abs() { bits + 1 } else { bits - 1 })
}

/// Returns the register contents of `value`, rounded to a 16-bit float.
fn half_bits(value: f64) -> u64 {
    // `f16::from_f64` rounds to 32 bits first or drops bits that decide between two 16-bit floats.
    let value = f16::from_f32(to_odd(value));
    u64::from(if value.is_nan() { 0x7FFF } else { value.to_bits() })
}

/// Applies `f` to both halves of a word. Sums, products and fused multiply-adds of 16-bit floats are exact in 64 bits,
/// so that results are rounded once.
fn halves(a: u64, b: u64, c: u64, f: impl Fn(f64, f64, f64) -> f64) -> u64 {
    let one = |shift: u32| {
        let [a, b, c] = [a, b, c].map(|value| half(value >> shift).to_f64());
        half_bits(f(a, b, c)) << shift
    };
    one(0) | one(16)
}

/// Returns the smaller number. -0 is smaller than 0, and NaN is ignored unless both are NaN.
fn least<T: PartialOrd + Copy>(a: T, b: T, negative: impl Fn(T) -> bool) -> T {
    // A NaN is not equal to itself.
    if b.partial_cmp(&b).is_none() || a < b || (a == b && negative(a)) { a } else { b }
}

/// Returns the larger number. 0 is larger than -0, and NaN is ignored unless both are NaN.
fn greatest<T: PartialOrd + Copy>(a: T, b: T, negative: impl Fn(T) -> bool) -> T {
    if b.partial_cmp(&b).is_none() || a > b || (a == b && !negative(a)) { a } else { b }
}

pub(super) fn unary(opcode: &str) -> Option<Map1> {
    table! { opcode; each;
        "neg.f32" => |a| a ^ 0x8000_0000,
        "abs.f32" => |a| a & 0x7FFF_FFFF,
        "neg.f64" => |a| a ^ 1 << 63,
        "abs.f64" => |a| a & u64::MAX >> 1,
        "neg.f16x2" => |a| a ^ 0x8000_8000,
        "abs.f16x2" => |a| a & 0x7FFF_7FFF,
        "rcp.rn.f32" => |a| single_bits(1.0 / single(a)),
        "rcp.rn.f64" => |a| double_bits(1.0 / double(a)),
        "sqrt.rn.f32" => |a| single_bits(single(a).sqrt()),
        "sqrt.rn.f64" => |a| double_bits(double(a).sqrt()),
    }
}

pub(super) fn binary(opcode: &str) -> Option<Map2> {
    table! { opcode; each2;
        "add.f32" | "add.rn.f32" => |a, b| single_bits(single(a) + single(b)),
        "sub.f32" | "sub.rn.f32" => |a, b| single_bits(single(a) - single(b)),
        "mul.f32" | "mul.rn.f32" => |a, b| single_bits(single(a) * single(b)),
        "div.rn.f32" => |a, b| single_bits(single(a) / single(b)),
        "min.f32" => |a, b| single_bits(least(single(a), single(b), f32::is_sign_negative)),
        "max.f32" => |a, b| single_bits(greatest(single(a), single(b), f32::is_sign_negative)),
        "add.f64" | "add.rn.f64" => |a, b| double_bits(double(a) + double(b)),
        "sub.f64" | "sub.rn.f64" => |a, b| double_bits(double(a) - double(b)),
        "mul.f64" | "mul.rn.f64" => |a, b| double_bits(double(a) * double(b)),
        "div.rn.f64" => |a, b| double_bits(double(a) / double(b)),
        "min.f64" => |a, b| double_bits(least(double(a), double(b), f64::is_sign_negative)),
        "max.f64" => |a, b| double_bits(greatest(double(a), double(b), f64::is_sign_negative)),
        "add.f16x2" | "add.rn.f16x2" => |a, b| halves(a, b, 0, |a, b, _| a + b),
        "sub.f16x2" | "sub.rn.f16x2" => |a, b| halves(a, b, 0, |a, b, _| a - b),
        "mul.f16x2" | "mul.rn.f16x2" => |a, b| halves(a, b, 0, |a, b, _| a * b),
        "min.f16x2" => |a, b| halves(a, b, 0, |a, b, _| least(a, b, f64::is_sign_negative)),
        "max.f16x2" => |a, b| halves(a, b, 0, |a, b, _| greatest(a, b, f64::is_sign_negative)),
    }
}

pub(super) fn ternary(opcode: &str) -> Option<Map3> {
    table! { opcode; each3;
        "fma.rn.f32" => |a, b, c| single_bits(single(a).mul_add(single(b), single(c))),
        "fma.rn.f64" => |a, b, c| double_bits(double(a).mul_add(double(b), double(c))),
        "fma.rn.f16x2" => |a, b, c| halves(a, b, c, |a, b, c| a * b + c),
    }
}

pub(super) fn update(name: &str, kind: &str) -> Option<Update> {
    Some(match (name, kind) {
        ("add", "f32") => |a, b| single_bits(single(a) + single(b)),
        ("add", "f64") => |a, b| double_bits(double(a) + double(b)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(a: f32, b: f32) -> u64 {
        u64::from(f16::from_f32(a).to_bits()) | u64::from(f16::from_f32(b).to_bits()) << 16
    }

    #[test]
    fn halves_side_by_side() {
        let of = |opcode: &str, a: u64, b: u64| binary(opcode).unwrap()(&[a; 32], &[b; 32])[3];
        assert_eq!(of("add.rn.f16x2", word(1.0, 2048.0), word(2.5, 1.0)), word(3.5, 2048.0));
        assert_eq!(of("sub.rn.f16x2", word(1.0, 2.0), word(2.5, 65504.0)), word(-1.5, -65504.0));
        assert_eq!(of("min.f16x2", word(1.0, -0.0), word(f32::NAN, 0.0)), word(1.0, -0.0));
        let sum =
            ternary("fma.rn.f16x2").unwrap()(&[word(3.0, 0.5); 32], &[word(5.0, 0.5); 32], &[word(1.0, -0.25); 32]);
        assert_eq!(sum[0], word(16.0, 0.0));
    }

    #[test]
    fn halves_are_rounded_once() {
        // The product is 2^-11 - 2^-31, slightly less than half a unit in the last place of the sum.
        let (a, b, c) = (word(1025.0 / 1024.0, 0.0), word(2046.0 / 4_194_304.0, 0.0), word(1025.0 / 1024.0, 0.0));
        assert_eq!(ternary("fma.rn.f16x2").unwrap()(&[a; 32], &[b; 32], &[c; 32])[0], c);
        let (negative, sign) = (word(-1025.0 / 1024.0, 0.0), 0x8000);
        assert_eq!(ternary("fma.rn.f16x2").unwrap()(&[negative; 32], &[b; 32], &[c | sign; 32])[0], c | sign);
    }

    #[test]
    fn zeros_have_an_order_and_nan_has_none() {
        let of = |opcode: &str, a: f32, b: f32| {
            single(binary(opcode).unwrap()(&[u64::from(a.to_bits()); 32], &[u64::from(b.to_bits()); 32])[0]).to_bits()
        };
        assert_eq!(of("min.f32", 0.0, -0.0), (-0.0_f32).to_bits());
        assert_eq!(of("max.f32", -0.0, 0.0), 0);
        assert_eq!(of("min.f32", f32::NAN, 2.0), 2.0_f32.to_bits());
        assert_eq!(of("max.f32", 2.0, f32::NAN), 2.0_f32.to_bits());
        assert_eq!(of("add.rn.f32", f32::INFINITY, f32::NEG_INFINITY), 0x7FFF_FFFF);
    }
}
