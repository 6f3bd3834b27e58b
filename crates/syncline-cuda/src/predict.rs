//! Prediction on the GPU: the plans of interpolation, which quantization and reconstruction share.

mod plans;
pub(crate) mod structs;

pub use plans::InterpolationPlans;
