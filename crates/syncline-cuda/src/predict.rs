//! Prediction on the GPU: the plans of interpolation, which quantization and reconstruction share.

pub(crate) mod structs;
