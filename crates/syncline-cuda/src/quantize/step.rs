//! The quantizer's constants, from the header of a stream.

use syncline_core::array::ElementType;
use syncline_core::bound::Pipeline;
use syncline_core::container::Header;
use syncline_core::pipeline::reserved_patterns;
use syncline_core::quantize::linear::ERROR_UNITS;
use syncline_core::quantize::log::StepLog;
use syncline_core::quantize::mask::MAX_PATTERNS;
use syncline_core::quantize::step::{LinearStep, StepF32, StepF64};
use syncline_core::quantize::{Real, Stored};

use super::structs::{Origin, Step};

/// Words of 64 bits of a [`Step`].
pub(crate) const STEP_WORDS: usize = size_of::<Step>() / size_of::<u64>();

impl Step {
    /// Returns the whole struct as words, as it lies in device memory.
    pub(super) fn words(&self) -> [u64; STEP_WORDS] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let floats = |low: f32, high: f32| pair(low.to_bits(), high.to_bits());
        let numbers = [
            self.inverse.to_bits(),
            self.step.to_bits(),
            self.limit.to_bits(),
            self.error_scale.to_bits(),
            self.range_low.to_bits(),
            self.range_high.to_bits(),
            floats(self.inverse_high, self.inverse_low),
            floats(self.high, self.low),
            pair(self.bound.to_bits(), self.pattern_count),
            pair(self.minus_zeros, self.reserved),
            pair(self.is_lattice, self.unused),
        ];
        let Origin { low, patterns, count, unused } = self.origin;
        let origin = [low].into_iter().chain(patterns).chain([pair(count, unused)]);
        let mut all = numbers.into_iter().chain(self.patterns).chain(self.reserved_values).chain(origin);
        std::array::from_fn(|_| all.next().unwrap_or(0))
    }

    /// Returns the constants of a header. `minus_zeros` says whether there may be -0.0 among the elements.
    pub(super) fn new(header: &Header, minus_zeros: bool) -> Self {
        let bound = header.computed_bound();
        let (narrow, wide) = (StepF32::new(header.step, f32::not_above(bound)), StepF64::new(header.step, bound));
        let limit = match header.pipeline {
            Pipeline::LogQuantized => StepLog::new(header.step, header.abs_bound).ratio,
            _ => wide.bound,
        };
        let (reserved_values, reserved) = match header.element_type.computed() {
            ElementType::F32 => fill_values::<f32>(header),
            _ => fill_values::<f64>(header),
        };
        let numbered = reserved_values.iter().enumerate();
        let (range_low, range_high) = header.range.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        let four = |values: &[u64]| std::array::from_fn(|i| values.get(i).copied().unwrap_or(0));
        Self {
            inverse: wide.inv,
            step: wide.step,
            limit,
            error_scale: ERROR_UNITS / bound,
            range_low,
            range_high,
            inverse_high: narrow.inv_hi,
            inverse_low: narrow.inv_lo,
            high: narrow.hi,
            low: narrow.lo,
            bound: narrow.bound,
            pattern_count: header.patterns.len().min(MAX_PATTERNS) as u32,
            minus_zeros: minus_zeros.into(),
            reserved: numbered.filter(|(_, bits)| reserved.contains(bits)).fold(0, |all, (i, _)| all | 1 << i),
            is_lattice: (header.step > 2.0 * bound).into(),
            unused: 0,
            patterns: four(&pattern_values(header)),
            reserved_values: four(&reserved_values),
            origin: Origin::new(header),
        }
    }
}

impl Origin {
    /// Returns the origin of the elements of a stream.
    pub(crate) fn new(header: &Header) -> Self {
        Self {
            low: header.low,
            patterns: std::array::from_fn(|i| header.patterns.get(i).copied().unwrap_or(0)),
            count: header.patterns.len().min(MAX_PATTERNS) as u32,
            unused: 0,
        }
    }
}

/// Returns the bits of the values of a stream's fill patterns.
pub(crate) fn pattern_values(header: &Header) -> Vec<u64> {
    match header.element_type.computed() {
        ElementType::F32 => header.stored::<f32>().values_of(&header.patterns),
        _ => header.stored::<f64>().values_of(&header.patterns),
    }
}

/// Returns the bits of the values of the fill patterns as codes could reach them, and of these those that no other
/// value may become.
fn fill_values<T: Real>(header: &Header) -> (Vec<u64>, Vec<u64>) {
    let reachable = Stored::<T>::new(header.element_type, header.low, &[]);
    (reachable.values_of(&header.patterns), reserved_patterns::<T>(header))
}
