//! Prediction on the GPU: the plans of interpolation, which coding and decoding share.

mod plans;
pub(crate) mod structs;

pub use plans::InterpolationPlans;
