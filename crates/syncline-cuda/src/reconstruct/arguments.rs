//! Arguments of the kernels of reconstruction for a batch.

use syncline_core::container::Header;

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
        Self { step: header.step, patterns, step_high: high, step_low: (header.step - f64::from(high)) as f32 }
    }
}
