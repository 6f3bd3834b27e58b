//! syncline-cuda.
