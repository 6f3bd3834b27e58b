//! Structs that the kernels of quantization share with their launchers.

use cudarc::driver::sys::CUdeviceptr;
use syncline_core::quantize::mask::MAX_PATTERNS;

use crate::device_struct::{DeviceStruct, device_struct};

/// The structs of `quantize/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] = &[Origin::C, Step::C, ExcludedBits::C, ListedElements::C, ScanReport::C];

device_struct! {
    /// What integers of 64 bits are relative to: `syncline_core::quantize::stored::Origin`.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub(crate) struct Origin {
        /// The bits of the smallest value.
        pub(super) low: u64,
        /// The bits of elements that are fill patterns.
        pub(super) patterns: [u64; MAX_PATTERNS],
        pub(super) count: u32,
        /// Padding.
        pub(super) unused: u32,
    }
}

device_struct! {
    /// The constants of a stream's quantizer.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub(crate) struct Step {
        pub(super) inverse: f64,
        pub(super) step: f64,
        /// The bound; in the logarithmic pipeline the relative bound, lowered by two steps.
        pub(super) limit: f64,
        /// Scale of errors in sums of squared errors.
        pub(super) error_scale: f64,
        /// The range of the values, infinite if it is not known.
        pub(super) range_low: f64,
        pub(super) range_high: f64,
        pub(super) inverse_high: f32,
        pub(super) inverse_low: f32,
        pub(super) high: f32,
        pub(super) low: f32,
        pub(super) bound: f32,
        pub(super) pattern_count: u32,
        /// Whether there may be -0.0 among the elements.
        pub(super) minus_zeros: u32,
        /// Bit `i` is set if no other value may become reserved value `i`. If there are any, no tile is ordinary.
        pub(super) reserved: u32,
        /// Whether all values seem to be whole multiples of the step, which is above twice the bound. Then tiles are
        /// not interpolated.
        pub(super) is_lattice: u32,
        /// Padding.
        pub(super) unused: u32,
        /// The values of the fill patterns.
        pub(super) patterns: [u64; MAX_PATTERNS],
        /// The values as which other elements could be reconstructed as fill patterns.
        pub(super) reserved_values: [u64; MAX_PATTERNS],
        pub(super) origin: Origin,
    }
}

device_struct! {
    /// Bit patterns of elements that a scan leaves out.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct ExcludedBits {
        pub(super) patterns: [u64; MAX_PATTERNS],
    }
}

device_struct! {
    /// Some elements of an array that a scan copies to the host: those at places of the list of
    /// `syncline_core::bound::Scan::value_element`.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct ListedElements {
        /// Number in the array of the first element of the scan.
        pub(super) first_element: u64,
        pub(super) first_place: u64,
        /// Elements of the array of which one is in the list, below 2^32.
        pub(super) stride: u64,
        pub(super) count: u64,
        /// Page-locked memory for their bits.
        pub(super) values: CUdeviceptr as "uint64_t *",
    }
}

device_struct! {
    /// The report of the kernel that scans an array, for the host. Extremes, and the number of the first NaN, are
    /// stored such that larger numbers are more extreme and 0 means none.
    #[derive(Clone, Copy, Debug, Default)]
    pub(super) struct ScanReport {
        /// Complement of the lowest ordered number.
        pub(super) lowest: u64,
        pub(super) highest: u64,
        /// Elements with each of the excluded bit patterns.
        pub(super) excluded: [u64; MAX_PATTERNS],
        /// NaN, infinities, -0.0 and 0.0.
        pub(super) counts: [u64; 4],
        /// Complement of the number of the first NaN.
        pub(super) first_nan: u64,
        /// Number of samples, all finite.
        pub(super) samples: u64,
        /// Samples equal to the lowest of them.
        pub(super) at_lowest: u64,
        pub(super) at_highest: u64,
        /// Complement of the smallest ordered number above the lowest sample.
        pub(super) least_above: u64,
        /// Largest ordered number below the highest sample.
        pub(super) greatest_below: u64,
        /// Samples whose magnitude is at least the limit.
        pub(super) too_large: u64,
        /// Bits of the first NaN.
        pub(super) nan_bits: u64,
        /// 1 if one element alone is known to be the lowest, and the highest.
        pub(super) single: [u64; 2],
        /// Number of the scan, written last: it tells the host that the report is complete.
        pub(super) number: u64,
    }
}
