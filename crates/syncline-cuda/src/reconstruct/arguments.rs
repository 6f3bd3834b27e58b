//! Arguments of the kernels of reconstruction for a batch.

use syncline_core::container::Header;
use syncline_core::quantize::value_range::ValueRange;

use super::structs::{Request, Values};
use crate::container::structs::ParsedArgument;
use crate::geometry::DeviceGeometry;

/// The tiles and elements that a launch reconstructs, as kernel arguments.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub geometry: DeviceGeometry,
    pub parsed: ParsedArgument,
    pub values: Values,
    pub request: Request,
}

impl Values {
    pub(super) fn new(header: &Header) -> Self {
        let high = header.step as f32;
        let patterns = std::array::from_fn(|i| header.patterns.get(i).copied().unwrap_or(0));
        let range = header.range.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        let ([low, high_end], [narrow_low, narrow_high]) =
            (ValueRange::<f64>::new(range).ends(), ValueRange::<f32>::new(range).ends());
        Self {
            step: header.step,
            patterns,
            step_high: high,
            step_low: (header.step - f64::from(high)) as f32,
            low,
            high: high_end,
            narrow_low,
            narrow_high,
        }
    }
}
