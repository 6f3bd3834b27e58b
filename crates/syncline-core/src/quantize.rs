//! From floating-point values to integers and back, with the error of every value checked.

pub mod linear;
pub mod log;
pub mod mask;

pub use linear::Linear;
pub use log::Log;

use crate::arch::float::StepLog;
use crate::array::Element;
use crate::quantize::mask::TileMask;

/// A floating-point element that the lossy pipelines take.
pub trait Real: Element + PartialEq + PartialOrd + std::fmt::Debug {
    /// What the linear quantizer of this type needs to know.
    type Step: Copy + Send + Sync + std::fmt::Debug;
    /// Bit pattern, zero-extended.
    fn bits(self) -> u64;
    /// Value with this bit pattern (its low bits).
    fn from_bits(bits: u64) -> Self;
    /// The same value in f64.
    fn wide(self) -> f64;
    /// Nearest value to `wide`.
    fn nearest(wide: f64) -> Self;
    /// Constants for this step (reconstruction is `q * step`) and this bound.
    fn step(step: f64, bound: f64) -> Self::Step;
    /// Quantizes `x`; sets the bit of each value that is not within the bound, whose `q` becomes 0. True if there is
    /// any.
    fn quantize(step: &Self::Step, x: &[Self], q: &mut [i32], exact: &mut TileMask) -> bool;
    /// Reconstructs values.
    fn dequantize(step: &Self::Step, q: &[i32], x: &mut [Self]);
    /// Sum of squared errors of at most 1,024 values, each error in units of `1 / scale` rounded to an integer and at
    /// most 2^15.
    fn squared_error(x: &[Self], y: &[Self], scale: f64) -> u64;
    /// Quantizes logarithms likewise.
    fn quantize_log(step: &StepLog, x: &[Self], q: &mut [i32], exact: &mut TileMask) -> bool;
    /// Reconstructs magnitudes.
    fn dequantize_log(step: &StepLog, q: &[i32], x: &mut [Self]);
    /// Whether the sign bit is set.
    fn is_negative(self) -> bool;
    /// With the sign bit set, if `negative`.
    fn with_sign(self, negative: bool) -> Self;
}
