//! Structs that the kernels of decoding share with their launchers.

use syncline_core::container::Header;
use syncline_core::quantize::value_range::ValueRange;

use crate::device_struct::{DeviceStruct, device_struct};
use crate::quantize::structs::Origin;

/// The structs of `decode/structs.cuh`, each after those that it contains.
pub(crate) const STRUCTS: &[DeviceStruct] = &[Values::C, LaunchArguments::C];

device_struct! {
    /// The constants from the stream's header that map integers to values.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Values {
        pub(super) step: f64,
        /// With the fill patterns.
        pub(super) origin: Origin,
        /// The range to which reconstructed values are limited.
        pub(super) low: f64,
        pub(super) high: f64,
        /// The same for f32.
        pub(super) narrow_low: f32,
        pub(super) narrow_high: f32,
        /// The sum of this and `step_low` is the step.
        pub(super) step_high: f32,
        pub(super) step_low: f32,
        /// Whether the range is known.
        pub(super) has_range: u32,
        /// Whether the range is known and no end of it is 0.
        pub(super) has_plain_range: u32,
    }
}

impl Values {
    pub(crate) fn new(header: &Header) -> Self {
        let high = header.step as f32;
        let range = header.range.unwrap_or((0.0, 0.0));
        let ([low, high_end], [narrow_low, narrow_high]) =
            (ValueRange::<f64>::new(range).ends(), ValueRange::<f32>::new(range).ends());
        Self {
            step: header.step,
            origin: Origin::new(header),
            low,
            high: high_end,
            narrow_low,
            narrow_high,
            step_high: high,
            step_low: (header.step - f64::from(high)) as f32,
            has_range: header.range.is_some().into(),
            has_plain_range: header.range.is_some_and(|_| narrow_low != 0.0 && narrow_high != 0.0).into(),
        }
    }
}

device_struct! {
    /// The tiles and elements that a launch decodes.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct LaunchArguments {
        /// First tile of the batch.
        pub(crate) first_tile: u64,
        pub(crate) tiles_start: u64,
        pub(crate) tiles_end: u64,
        /// Number in the array of the first element of the output.
        pub(crate) first_element: u64,
        /// Tiles of the batch.
        pub(crate) tiles: u32,
        /// Whether the kernel of any tiles decodes only those that are listed.
        pub(crate) only_listed: u32,
        /// Whether every row of a tile starts on a multiple of 16 bytes.
        pub(crate) vectors: u32,
        /// Padding.
        pub(crate) unused: u32,
    }
}
