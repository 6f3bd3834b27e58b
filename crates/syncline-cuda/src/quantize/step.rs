//! The quantizer's constants, from the header of a stream.

#![allow(unsafe_code, reason = "passes them to kernels by value or by address")]

use cudarc::driver::{CudaStream, CudaView, DevicePtr, SyncOnDrop};
use syncline_core::array::ElementType;
use syncline_core::bound::{Bound, Pipeline};
use syncline_core::container::{Header, MAX_PATTERNS};
use syncline_core::pipeline::reserved_patterns;
use syncline_core::quantize::linear::ERROR_UNITS;
use syncline_core::quantize::log::StepLog;
use syncline_core::quantize::step::{LinearStep, StepF32, StepF64};

use super::structs::Step;
use crate::device_kernels::Argument;
use crate::error::{CudaError, Result};

/// The properties of a stream that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct KernelVariant {
    pub element_bytes: u32,
    pub logarithm: bool,
    pub axes: u32,
    /// Whether there are fill patterns; tiles with fill then have a vector path.
    pub patterns: bool,
    /// Whether squared errors are summed.
    pub measure: bool,
}

/// Where kernels find the quantizer's constants.
#[derive(Clone, Copy)]
pub(super) enum Constants<'c> {
    /// The host passes them by value.
    Known(&'c Step),
    /// They will be in this device memory of [`STEP_WORDS`] words when the kernels run. Kernels are compiled for this.
    InMemory(&'c CudaView<'c, u64>),
}

// SAFETY: the type is `Step`, or a pointer, which takes the first word, if kernels are compiled for that.
unsafe impl Argument for Constants<'static> {
    type Given<'a> = Constants<'a>;
    type Passed = [u64; STEP_WORDS];
    const SIZE: Option<usize> = None;

    fn c_type() -> String {
        "StepArgument".to_owned()
    }

    fn pass<'a>(given: Constants<'a>, stream: &'a CudaStream) -> (Self::Passed, Option<SyncOnDrop<'a>>) {
        let mut words = [0; STEP_WORDS];
        match given {
            // SAFETY: a device struct is plain data without padding.
            Constants::Known(step) => (unsafe { std::mem::transmute::<Step, Self::Passed>(*step) }, None),
            Constants::InMemory(step) => {
                let (pointer, used) = step.device_ptr(stream);
                words[0] = pointer;
                (words, Some(used))
            }
        }
    }
}

/// Words of 64 bits of a [`Step`].
pub(crate) const STEP_WORDS: usize = size_of::<Step>() / size_of::<u64>();

impl KernelVariant {
    /// Returns the variant for arrays whose bound is not resolved yet, without squared errors.
    pub(super) fn unresolved(element: ElementType, bound: Bound, axes: u32, patterns: bool) -> Self {
        let logarithm = matches!(bound, Bound::PwRel(_));
        Self { element_bytes: element.size() as u32, logarithm, axes, patterns, measure: false }
    }

    /// Returns the variant for a header.
    ///
    /// # Errors
    /// [`CudaError::InvalidArgument`] for a stream that is not quantized. The CPU compresses those.
    pub(super) fn from_header(header: &Header, axes: u32) -> Result<Self> {
        let element_bytes = match (header.pipeline, header.element_type) {
            (Pipeline::Quantized | Pipeline::LogQuantized, ElementType::F32) => 4,
            (Pipeline::Quantized | Pipeline::LogQuantized, ElementType::F64) => 8,
            (pipeline, element) => {
                return Err(CudaError::invalid(format!(
                    "the GPU does not compress {pipeline} streams of {element}; use the CPU"
                )));
            }
        };
        Ok(Self {
            element_bytes,
            logarithm: header.pipeline == Pipeline::LogQuantized,
            axes,
            patterns: !header.patterns.is_empty(),
            measure: matches!(header.bound, Bound::Psnr(_)) && header.pipeline == Pipeline::Quantized,
        })
    }
}

/// log2 of the largest integers for which a single f32 rounding is used. Beyond it, too many rows need the exact path
/// as well.
const MAX_SHORT_BITS: u32 = 14;
/// The smallest such value, so that the elements at both ends of a range are included.
const MIN_SHORT_BITS: u32 = 6;

/// Integers below this can be recognized by the bits of their sum with a magic number.
const MAX_KNOWN_INTEGER: f64 = 2_097_150.0;

/// Returns the magnitude of the largest integer that the range allows.
fn max_integer(header: &Header) -> f64 {
    header.range.map_or(f64::INFINITY, |(low, high)| low.abs().max(high.abs()) / header.step)
}

/// Parameters of the single-rounding path of f32: bits of the largest integers and their signs, half of that range, and
/// the error below which an integer is certain. Returns 0 bits if integers may be too large.
fn single_rounding(header: &Header, bound: f32) -> (u32, f32, f32) {
    let largest = max_integer(header);
    let Some(bits) = (MIN_SHORT_BITS..=MAX_SHORT_BITS).find(|&bits| largest < f64::from(1 << bits) - 2.0) else {
        return (0, 0.0, 0.0);
    };
    let reach = f64::from(1_u32 << bits);
    // Twice what is needed. The roundings of the step itself are far smaller.
    let margin = 2.0 * (reach * 2f64.powi(-24) + 2f64.powi(-23));
    let sure = ((0.5 - margin) * header.step) as f32;
    (bits + 1, reach as f32, sure.next_down().min(bound))
}

impl Step {
    /// Sets whether there may be -0.0 among the elements.
    pub(super) fn set_minus_zeros(&mut self, any: bool) {
        self.minus_zeros = any.into();
    }

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
            floats(self.bound, self.short_bound),
            pair(self.short_reach.to_bits(), self.short_bits),
            pair(self.reach_known, self.pattern_count),
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
        let (short_bits, short_reach, short_bound) = single_rounding(header, narrow.bound);
        let first = header.patterns.first().copied().unwrap_or(0);
        let (range_low, range_high) = header.range.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        let pattern = |i: usize| header.patterns.get(i).copied().unwrap_or(first);
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
            short_bound,
            short_reach,
            short_bits,
            reach_known: u32::from(max_integer(header) < MAX_KNOWN_INTEGER),
            pattern_count: header.patterns.len().min(MAX_PATTERNS) as u32,
            minus_zeros: minus_zeros.into(),
            reserved: numbered.filter(|(_, bits)| reserved.contains(bits)).fold(0, |all, (i, _)| all | 1 << i),
            is_lattice: (header.step > 2.0 * header.abs_bound).into(),
            unused: 0,
            // The vector path compares with all four patterns. Unused ones repeat the first.
            patterns: std::array::from_fn(pattern),
        }
    }
}
