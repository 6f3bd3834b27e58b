//! syncline-core.

pub mod array;
pub mod error;
