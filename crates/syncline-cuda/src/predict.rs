//! Prediction on the GPU: the plans of interpolation, which encoder and decoder share.

pub(crate) mod lines;
mod plans;
pub(crate) mod points;
pub(crate) mod structs;
pub(crate) mod whole_tiles;

pub use plans::InterpolationPlans;
