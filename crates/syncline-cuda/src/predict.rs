//! Prediction on the GPU: the plans of interpolation, which encoder and decoder share.

mod plans;
pub(crate) mod structs;

pub use plans::InterpolationPlans;
