//! Limits of the linear quantization.

use super::linear::computed_bound;
use crate::array::ElementType;

/// Limits of the linear quantization of a type.
pub(super) struct Limits {
    /// Half a unit in the last place, relative.
    pub rounding: f64,
    pub smallest_step: f64,
    pub largest_bound: f64,
    /// Integers from here on would be mostly verbatim.
    pub largest_integer: f64,
    /// The share of twice the bound that the step of a rewritable stream is: the rest is for the rounding of
    /// reconstructed values, which is not known if the range is not.
    pub rewritable_share: f64,
}

impl Limits {
    /// Returns those of a type.
    pub fn of(element: ElementType) -> Self {
        // The step and its inverse must be normal numbers.
        let computed = match element.computed() {
            ElementType::F32 => Self {
                rounding: 2f64.powi(-24),
                smallest_step: 2f64.powi(-120),
                largest_bound: 2f64.powi(120),
                largest_integer: 4_194_304.0,
                // This suffices for magnitudes of up to 2^15 steps.
                rewritable_share: 1.0 - 1.0 / 256.0,
            },
            _ => Self {
                rounding: 2f64.powi(-53),
                smallest_step: 2f64.powi(-1000),
                largest_bound: 2f64.powi(1000),
                largest_integer: 536_870_912.0,
                rewritable_share: 1.0 - 1.0 / 256.0,
            },
        };
        // Values whose neighbors are farther away than the bound need all of their bits.
        match element {
            ElementType::F16 => {
                Self { rounding: 2f64.powi(-11), largest_integer: 2048.0, rewritable_share: 0.5, ..computed }
            }
            ElementType::Bf16 => {
                Self { rounding: 2f64.powi(-8), largest_integer: 256.0, rewritable_share: 0.5, ..computed }
            }
            // Integers and steps that are integers are exact.
            _ if element.is_integer() => Self { rounding: 0.0, rewritable_share: 1.0, ..computed },
            _ => computed,
        }
    }
}

impl Limits {
    /// Returns how much values of up to this magnitude may be rounded by.
    pub fn rounding_of(&self, element: ElementType, magnitude: f64) -> f64 {
        // Of types of 16 bits, exactly: half of the distance of neighbors is the same up to the next power of two.
        let power = f64::from_bits(magnitude.to_bits() & !((1 << 52) - 1));
        self.rounding * if element.is_half() { power } else { magnitude }
    }
}

/// Returns the magnitude from which on values are too large to be quantized with this absolute bound.
pub(super) fn quantizable_magnitude(element: ElementType, error: f64) -> f64 {
    let limits = Limits::of(element);
    2.0 * computed_bound(element, error).min(limits.largest_bound) * limits.largest_integer
}
