//! syncline-core.

pub mod arch;
pub mod array;
pub mod bound;
pub mod error;
pub mod geometry;
pub mod predict;
pub mod quantize;
