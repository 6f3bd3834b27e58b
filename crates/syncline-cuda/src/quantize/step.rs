//! The quantizer's constants, from the header of a stream.

use syncline_core::array::ElementType;
use syncline_core::bound::Pipeline;
use syncline_core::container::{Header, MAX_PATTERNS};
use syncline_core::pipeline::reserved_patterns;
use syncline_core::quantize::linear::ERROR_UNITS;
use syncline_core::quantize::log::StepLog;
use syncline_core::quantize::step::{LinearStep, StepF32, StepF64};

use super::structs::Step;

/// Words of 64 bits of a [`Step`].
pub(crate) const STEP_WORDS: usize = size_of::<Step>() / size_of::<u64>();

impl Step {
    /// Returns the whole struct as words, as it lies in device memory.
    pub(super) fn words(&self) -> [u64; STEP_WORDS] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let floats = |low: f32, high: f32| pair(low.to_bits(), high.to_bits());
        let [first, second, third, fourth] = self.patterns;
        [
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
            first,
            second,
            third,
            fourth,
        ]
    }

    /// Returns the constants of a header. `minus_zeros` says whether there may be -0.0 among the elements.
    pub(super) fn new(header: &Header, minus_zeros: bool) -> Self {
        let narrow = StepF32::new(header.step, header.abs_bound);
        let wide = StepF64::new(header.step, header.abs_bound);
        let limit = match header.pipeline {
            Pipeline::LogQuantized => StepLog::new(header.step, header.abs_bound).ratio,
            _ => wide.bound,
        };
        let reserved = match header.element_type {
            ElementType::F32 => reserved_patterns::<f32>(header),
            _ => reserved_patterns::<f64>(header),
        };
        let numbered = header.patterns.iter().enumerate();
        let (range_low, range_high) = header.range.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        let pattern = |i: usize| header.patterns.get(i).copied().unwrap_or(0);
        Self {
            inverse: wide.inv,
            step: wide.step,
            limit,
            error_scale: ERROR_UNITS / header.abs_bound,
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
            is_lattice: (header.step > 2.0 * header.abs_bound).into(),
            unused: 0,
            patterns: std::array::from_fn(pattern),
        }
    }
}
