//! Conversions between types.

use super::floats::{double, double_bits, half, single, single_bits};
use super::{Lanes, each, table};
use crate::machine::program::Map1;

/// Returns the bits of the largest float that is not above a positive number, given the nearest float and whether it is
/// above.
fn toward_zero(nearest: f32, above: bool) -> u64 {
    u64::from(if above { nearest.to_bits() - 1 } else { nearest.to_bits() })
}

/// Returns the operation of a `cvt` instruction with these modifiers.
pub fn convert(opcode: &str) -> Option<Map1> {
    integers(opcode).or_else(|| to_floats(opcode)).or_else(|| from_floats(opcode))
}

/// Returns the operation that extends a loaded value of a type to a register, or `None` if it needs no change.
pub fn extend(kind: &str, register_bits: u32) -> Option<Map1> {
    match (kind, register_bits) {
        ("s8", 16) => integers("cvt.s16.s8"),
        ("s8", 32) => integers("cvt.s32.s8"),
        ("s8", 64) => integers("cvt.s64.s8"),
        ("s16", 32) => integers("cvt.s32.s16"),
        ("s16", 64) => integers("cvt.s64.s16"),
        ("s32", 64) => integers("cvt.s64.s32"),
        _ => None,
    }
}

fn integers(opcode: &str) -> Option<Map1> {
    table! { opcode; each;
        "cvt.u16.u8" | "cvt.u32.u8" | "cvt.u64.u8" | "cvt.s16.u8" | "cvt.s32.u8" | "cvt.s64.u8" => |a| a & 0xFF,
        "cvt.u8.u16" | "cvt.u8.u32" | "cvt.u8.u64" => |a| a & 0xFF,
        "cvt.u16.u32" | "cvt.u16.u64" | "cvt.s16.s32" | "cvt.s16.s64" | "cvt.u16.s32" => |a| a & 0xFFFF,
        "cvt.u32.u16" | "cvt.u64.u16" | "cvt.s32.u16" | "cvt.s64.u16" => |a| a & 0xFFFF,
        "cvt.u32.u64" | "cvt.s32.s64" | "cvt.u32.s64" | "cvt.s32.u64" => |a| a & 0xFFFF_FFFF,
        "cvt.u64.u32" | "cvt.s64.u32" => |a| a & 0xFFFF_FFFF,
        "cvt.s16.s8" | "cvt.u16.s8" => |a| u64::from(a as u8 as i8 as u16),
        "cvt.s32.s8" | "cvt.u32.s8" => |a| u64::from(a as u8 as i8 as u32),
        "cvt.s64.s8" => |a| a as u8 as i8 as u64,
        "cvt.s32.s16" | "cvt.u32.s16" => |a| u64::from(a as u16 as i16 as u32),
        "cvt.s64.s16" => |a| a as u16 as i16 as u64,
        "cvt.s64.s32" | "cvt.u64.s32" => |a| a as u32 as i32 as u64,
    }
}

fn to_floats(opcode: &str) -> Option<Map1> {
    table! { opcode; each;
        "cvt.rn.f32.u16" => |a| single_bits(f32::from(a as u16)),
        "cvt.rn.f32.s16" => |a| single_bits(f32::from(a as u16 as i16)),
        "cvt.rn.f32.u32" => |a| single_bits(a as u32 as f32),
        "cvt.rn.f32.s32" => |a| single_bits(a as u32 as i32 as f32),
        "cvt.rn.f32.u64" => |a| single_bits(a as f32),
        "cvt.rn.f32.s64" => |a| single_bits(a as i64 as f32),
        "cvt.rz.f32.u32" => |a| toward_zero(a as u32 as f32, f64::from(a as u32 as f32) > f64::from(a as u32)),
        "cvt.rz.f32.u64" => |a| toward_zero(a as f32, a as f32 as u128 > u128::from(a)),
        "cvt.rn.f64.u16" => |a| double_bits(f64::from(a as u16)),
        "cvt.rn.f64.s16" => |a| double_bits(f64::from(a as u16 as i16)),
        "cvt.rn.f64.u32" => |a| double_bits(f64::from(a as u32)),
        "cvt.rn.f64.s32" => |a| double_bits(f64::from(a as u32 as i32)),
        "cvt.rn.f64.u64" => |a| double_bits(a as f64),
        "cvt.rn.f64.s64" => |a| double_bits(a as i64 as f64),
        "cvt.rn.f32.f64" => |a| single_bits(double(a) as f32),
        "cvt.f64.f32" => |a| double_bits(f64::from(single(a))),
        "cvt.f32.f16" => |a| single_bits(half(a).to_f32()),
        "cvt.rni.f32.f32" => |a| single_bits(single(a).round_ties_even()),
        "cvt.rni.f64.f64" => |a| double_bits(double(a).round_ties_even()),
        "cvt.rzi.f32.f32" => |a| single_bits(single(a).trunc()),
        "cvt.rzi.f64.f64" => |a| double_bits(double(a).trunc()),
        "cvt.rmi.f32.f32" => |a| single_bits(single(a).floor()),
        "cvt.rmi.f64.f64" => |a| double_bits(double(a).floor()),
        "cvt.rpi.f32.f32" => |a| single_bits(single(a).ceil()),
        "cvt.rpi.f64.f64" => |a| double_bits(double(a).ceil()),
    }
}

/// Converts a number with `f`; NaN becomes the integer of `bits` bits in which only the top bit is set.
fn unless_nan(value: f64, bits: u32, f: impl Fn(f64) -> u64) -> u64 {
    if value.is_nan() { 1 << (bits - 1) } else { f(value) }
}

/// Conversions of floats to integers saturate, as in Rust. NaN becomes 0 only in conversions from 32 to 32 bits.
fn from_floats(opcode: &str) -> Option<Map1> {
    table! { opcode; each;
        "cvt.rzi.s32.f32" => |a| u64::from(single(a) as i32 as u32),
        "cvt.rzi.u32.f32" => |a| u64::from(single(a) as u32),
        "cvt.rzi.s64.f32" => |a| unless_nan(single(a).into(), 64, |a| a as i64 as u64),
        "cvt.rzi.u64.f32" => |a| unless_nan(single(a).into(), 64, |a| a as u64),
        "cvt.rzi.s32.f64" => |a| unless_nan(double(a), 32, |a| u64::from(a as i32 as u32)),
        "cvt.rzi.u32.f64" => |a| unless_nan(double(a), 32, |a| u64::from(a as u32)),
        "cvt.rzi.s64.f64" => |a| unless_nan(double(a), 64, |a| a as i64 as u64),
        "cvt.rzi.u64.f64" => |a| unless_nan(double(a), 64, |a| a as u64),
        "cvt.rni.s32.f32" => |a| u64::from(single(a).round_ties_even() as i32 as u32),
        "cvt.rni.s32.f64" => |a| unless_nan(double(a), 32, |a| u64::from(a.round_ties_even() as i32 as u32)),
        "cvt.rni.s64.f64" => |a| unless_nan(double(a), 64, |a| a.round_ties_even() as i64 as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_spread_and_cut() {
        let of = |opcode: &str, a: u64| convert(opcode).unwrap()(&[a; 32])[31];
        assert_eq!(of("cvt.s16.s8", 0x1280), 0xFF80);
        assert_eq!(of("cvt.s64.s32", 0xFFFF_FFFE), u64::MAX - 1);
        assert_eq!(of("cvt.u32.u16", 0x1_2345), 0x2345);
        assert_eq!(of("cvt.rzi.s32.f64", (-2.9_f64).to_bits()), 0xFFFF_FFFE);
        assert_eq!(of("cvt.rzi.u32.f32", u64::from(f32::NAN.to_bits())), 0);
        assert_eq!(of("cvt.rn.f64.s16", 0xFFFD), (-3.0_f64).to_bits());
        assert_eq!(of("cvt.rni.f64.f64", 2.5_f64.to_bits()), 2.0_f64.to_bits());
    }

    #[test]
    fn nan_converts_to_zero_in_32_bits_only() {
        let nan = |opcode: &str| {
            let bits = if opcode.ends_with("f32") { f32::NAN.to_bits().into() } else { f64::NAN.to_bits() };
            convert(opcode).unwrap()(&[bits; 32])[0]
        };
        for opcode in ["cvt.rzi.s32.f32", "cvt.rzi.u32.f32", "cvt.rni.s32.f32"] {
            assert_eq!(nan(opcode), 0, "{opcode}");
        }
        for opcode in ["cvt.rzi.s32.f64", "cvt.rzi.u32.f64", "cvt.rni.s32.f64"] {
            assert_eq!(nan(opcode), 1 << 31, "{opcode}");
        }
        for opcode in ["cvt.rzi.s64.f32", "cvt.rzi.u64.f32", "cvt.rzi.s64.f64", "cvt.rzi.u64.f64", "cvt.rni.s64.f64"] {
            assert_eq!(nan(opcode), 1 << 63, "{opcode}");
        }
    }

    #[test]
    fn toward_zero_is_never_above() {
        let of = |a: u64| single(convert("cvt.rz.f32.u64").unwrap()(&[a; 32])[0]);
        assert_eq!(of(u64::MAX), f32::from_bits(0x5F7F_FFFF));
        assert_eq!(of(1 << 40), (1_u64 << 40) as f32);
        let word = |a: u64| single(convert("cvt.rz.f32.u32").unwrap()(&[a; 32])[0]);
        assert_eq!(word(0x0100_0003), 16_777_218.0);
        assert_eq!(word(0x0100_0001), 16_777_216.0);
    }
}
