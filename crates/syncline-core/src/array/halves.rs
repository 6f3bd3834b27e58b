//! Conversions between `f32` and the floating-point types of 16 bits, by integer operations on their bits.
//!
//! They are loops of a few vector instructions on every processor, and keep each bit of a NaN, which instructions for
//! these conversions do not.

/// Bits by which the exponents of `f16` and `f32` differ, in place.
const EXPONENT_DIFFERENCE: u32 = (127 - 15) << 23;
/// The smallest normal `f16`, 2^-14, as bits of an `f32`.
const SMALLEST_NORMAL: u32 = (127 - 14) << 23;
/// Bits of the `f32` infinity.
const INFINITY: u32 = 0xFF << 23;
/// The largest finite `f16`.
const LARGEST: f32 = 65504.0;

/// Returns the value of the bits of an `f16`. A NaN keeps its sign and its payload.
#[inline(always)]
pub fn of_f16(bits: u16) -> f32 {
    let (sign, magnitude) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7FFF));
    let normal = (magnitude << 13) + EXPONENT_DIFFERENCE;
    let special = normal + EXPONENT_DIFFERENCE;
    let subnormal = (magnitude as i32 as f32 * (1.0 / 16_777_216.0)).to_bits();
    let finite = if magnitude < 0x0400 { subnormal } else { normal };
    f32::from_bits(sign | if magnitude >= 0x7C00 { special } else { finite })
}

/// Returns the bits of the `f16` nearest to a value, the even one on a tie. A NaN keeps its sign and the upper bits of
/// its payload.
#[inline(always)]
pub fn to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, magnitude) = (bits & 0x8000_0000, bits & 0x7FFF_FFFF);
    let special = ((magnitude >> 13) & 0x03FF) | 0x7C00;
    let rounded = round_to_f16(f32::from_bits(magnitude)).to_bits();
    // A subnormal f16 is a whole multiple of 2^-24 below 2^-14: adding 1/2 puts it into the low bits.
    let subnormal = (f32::from_bits(rounded) + 0.5).to_bits() & 0x07FF;
    let normal = rounded.wrapping_sub(EXPONENT_DIFFERENCE) >> 13;
    let finite = if rounded < SMALLEST_NORMAL { subnormal } else { normal };
    let of_magnitude = if rounded == INFINITY { 0x7C00 } else { finite };
    (sign >> 16 | if magnitude > INFINITY { special } else { of_magnitude }) as u16
}

/// Returns the `f16` nearest to a value, the even one on a tie. What it makes of NaN is a NaN.
#[inline(always)]
pub fn round_to_f16(value: f32) -> f32 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7FFF_FFFF;
    let normal = (magnitude + 0x0FFF + (magnitude >> 13 & 1)) & !0x1FFF;
    let normal = f32::from_bits(if magnitude > INFINITY { magnitude } else { normal });
    let normal = if normal > LARGEST { f32::INFINITY } else { normal };
    // The sum rounds to whole multiples of 2^-24, the smallest subnormal f16.
    let subnormal = (f32::from_bits(magnitude) + 0.5) - 0.5;
    let rounded = if magnitude < SMALLEST_NORMAL { subnormal } else { normal };
    f32::from_bits(bits & 0x8000_0000 | rounded.to_bits())
}

/// Returns the value of the bits of a `bf16`.
#[inline(always)]
pub fn of_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Returns the bits of the `bf16` nearest to a value, the even one on a tie. A NaN keeps the upper bits of its payload.
#[inline(always)]
pub fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    (if bits & 0x7FFF_FFFF > INFINITY { bits >> 16 } else { round_to_bf16(value).to_bits() >> 16 }) as u16
}

/// Returns the `bf16` nearest to a value, the even one on a tie. What it makes of NaN is a NaN.
#[inline(always)]
pub fn round_to_bf16(value: f32) -> f32 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) & 0xFFFF_0000;
    f32::from_bits(if bits & 0x7FFF_FFFF > INFINITY { bits } else { rounded })
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};
    use proptest::prelude::*;

    #[test]
    fn every_element_is_kept_bit_for_bit() {
        for bits in 0..=u16::MAX {
            assert_eq!(to_f16(of_f16(bits)), bits);
            assert_eq!(to_bf16(of_bf16(bits)), bits);
            let (wide, brief) = (f16::from_bits(bits), bf16::from_bits(bits));
            if !wide.is_nan() {
                assert_eq!(of_f16(bits).to_bits(), wide.to_f32().to_bits());
                assert_eq!(round_to_f16(of_f16(bits)).to_bits(), of_f16(bits).to_bits());
            }
            assert_eq!(of_f16(bits).is_nan(), wide.is_nan());
            if !brief.is_nan() {
                assert_eq!(of_bf16(bits).to_bits(), brief.to_f32().to_bits());
                assert_eq!(round_to_bf16(of_bf16(bits)).to_bits(), of_bf16(bits).to_bits());
            }
        }
    }

    fn check(value: f32) {
        if value.is_nan() {
            assert!(round_to_f16(value).is_nan() && round_to_bf16(value).is_nan());
            return;
        }
        assert_eq!(to_f16(value), f16::from_f32(value).to_bits(), "{value:e}");
        assert_eq!(to_bf16(value), bf16::from_f32(value).to_bits(), "{value:e}");
        assert_eq!(round_to_f16(value).to_bits(), of_f16(to_f16(value)).to_bits(), "{value:e}");
        assert_eq!(round_to_bf16(value).to_bits(), of_bf16(to_bf16(value)).to_bits(), "{value:e}");
    }

    #[test]
    fn ties_go_to_even() {
        for bits in 0..0x7C00u16 {
            let (low, high) = (f64::from(of_f16(bits)), if bits == 0x7BFF { 65536.0 } else { of_f16(bits + 1).into() });
            let middle = ((low + high) / 2.0) as f32;
            for value in [middle, middle.next_up(), middle.next_down(), -middle, -middle.next_up()] {
                check(value);
            }
        }
        for bits in (0..0x7F80u32).map(|bits| bits << 16 | 0x8000) {
            [bits, bits - 1, bits + 1, bits | 1 << 31].into_iter().for_each(|bits| check(f32::from_bits(bits)));
        }
    }

    proptest! {
        #[test]
        fn any_value_is_rounded_as_the_crate_half_does(bits in any::<u32>(), small in -30f32..20.0) {
            check(f32::from_bits(bits));
            check(small.exp2());
        }
    }
}
